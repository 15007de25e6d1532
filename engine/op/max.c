/* torch.max and torch.min: of all, along dimensions, or of two values. */
#include "op/index.h"

typedef struct extreme {
  const neap_op *all, *place, *pair;
} extreme;

/* Along one dimension the first of equal values takes the whole gradient; over several they share it. */
static neap_id along(neap_graph *g, const extreme *e, neap_id x, const neap_opt *dims, bool keep) {
  neap_desc d = neap__desc_at(g, x);
  if (dims->n != 1 || d.shape.ndim == 0) return neap__reduce(g, e->all, x, dims->v.list, dims->n, keep);
  int64_t dim = dims->v.list[0];
  neap_shape shape = neap__reduced_shape(&d.shape, dims, keep);
  neap_id place = neap__build(g, e->place, &x, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim), NEAP_INT(1)});
  if (place == NEAP_NONE) return place;
  neap_id y = neap__gather_at(g, x, place, (int32_t)dim);
  return y == NEAP_NONE ? y : neap__reshape_to(g, y, &shape);
}

static neap_id choose(neap_graph *g, const neap_op *op, const extreme *e, const neap_id *in, uint32_t n_in,
                      const neap_opt *opt) {
  neap_opt dims = opt[0];
  neap_error err;
  if (n_in == 2) {
    if (dims.set || opt[1].v.i)
      return neap__graph_fail(g, op, NEAP_INVALID, "two inputs leave no dimension to choose along");
    return neap__build2(g, e->pair, in[0], in[1]);
  }
  if (!dims.set) return neap__build(g, e->all, in, 1, opt);
  neap_status s = neap__dims_resolve(&dims, neap__desc_at(g, in[0]).shape.ndim, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  return along(g, e, in[0], &dims, opt[1].v.i != 0);
}

static neap_id max(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  return choose(g, op, &(extreme){&neap__op_amax, &neap__op_argmax, &neap__op_maximum}, in, n_in, opt);
}

static neap_id min(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  return choose(g, op, &(extreme){&neap__op_amin, &neap__op_argmin, &neap__op_minimum}, in, n_in, opt);
}

static const char *const samples[] = {"f32[2,3]:distinct",
                                      "f32[2,3,4]:distinct; dim=2",
                                      "f32[2,3,4]:distinct; dim=1,3; keepdim=true",
                                      "f32[0,3]; dim=-1",
                                      "i64[3,4]:below=3; dim=1",
                                      "f32[2,3]:distinct f32[2,3]:distinct",
                                      NULL};

#define EXTREME(op_name, builder, text)                                                  \
  {                                                                                      \
    .name = op_name, .min_in = 1, .max_in = 2, .n_out = 1,                               \
    .opts = {{.name = "dim", .type = NEAP_OPT_DIMS},                                     \
             {.name = "keepdim", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true}}, \
    .expand = builder, .samples = samples, .doc = text                                   \
  }

const neap_op neap__op_max = EXTREME("max", max,
                                     "Largest value of all or along `dim` (argmax tells where), or the larger of two; "
                                     "along one dimension the first of equal values takes the gradient.");
const neap_op neap__op_min = EXTREME("min", min,
                                     "Smallest value of all or along `dim` (argmin tells where), or the smaller of "
                                     "two; along one dimension the first of equal values takes the gradient.");
