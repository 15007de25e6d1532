/* torch.max and torch.min: of all, along dimensions with the places, or of two values. */
#include "op/index.h"

typedef struct extreme {
  const neap_op *all, *place, *pair;
} extreme;

/* Along one dimension the first of equal values takes the whole gradient; over several they share it. */
static void along(neap_graph *g, const extreme *e, neap_id x, const neap_opt *dims, bool keep, neap_id *out) {
  neap_desc d = neap__desc_at(g, x);
  const bool one = dims->n == 1 && d.shape.ndim > 0;
  neap_shape shape = neap__reduced_shape(&d.shape, dims, keep);
  neap_id place = neap__reduce(g, e->place, x, dims->v.list, dims->n, true);
  if (place == NEAP_NONE) return;
  neap_id y = one ? neap__gather_at(g, x, place, (int32_t)dims->v.list[0])
                  : neap__reduce(g, e->all, x, dims->v.list, dims->n, true);
  if (y == NEAP_NONE) return;
  out[0] = neap__reshape_to(g, y, &shape);
  out[1] = neap__reshape_to(g, place, &shape);
}

static void choose(neap_graph *g, const neap_op *op, const extreme *e, const neap_id *in, uint32_t n_in,
                   const neap_opt *opt, neap_id *out) {
  neap_opt dims;
  if (n_in == 2 && (opt[0].set || opt[1].v.i))
    neap__graph_fail(g, op, NEAP_INVALID, "two inputs leave no dimension to choose along");
  else if (n_in == 2)
    out[0] = neap__build2(g, e->pair, in[0], in[1]);
  else if (!opt[0].set)
    out[0] = neap__build(g, e->all, in, 1, opt);
  else if (neap__dims_of(g, op, in[0], &opt[0], &dims))
    along(g, e, in[0], &dims, opt[1].v.i != 0, out);
}

static void max(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt, neap_id *out) {
  choose(g, op, &(extreme){&neap__op_amax, &neap__op_argmax, &neap__op_maximum}, in, n_in, opt, out);
}

static void min(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt, neap_id *out) {
  choose(g, op, &(extreme){&neap__op_amin, &neap__op_argmin, &neap__op_minimum}, in, n_in, opt, out);
}

static const char *const samples[] = {"f32[2,3]:distinct",
                                      "f32[2,3,4]:distinct; dim=2",
                                      "f32[2,3,4]:distinct; dim=1,3; keepdim=true",
                                      "f32[0,3]; dim=-1",
                                      "i64[3,4]:below=3; dim=1",
                                      "f32[2,3]:distinct f32[2,3]:distinct",
                                      NULL};

#define EXTREME(op_name, builder, ...)                                                                      \
  {                                                                                                         \
    .name = op_name, .min_in = 1, .max_in = 2, .n_out = 2, .results = 2, .opts = {NEAP_DIMS, NEAP_KEEPDIM}, \
    .expand_all = builder, .samples = samples, .doc = __VA_ARGS__                                           \
  }

const neap_op neap__op_max =
    EXTREME("max", max,
            "Largest value of all, or element by element the larger of two; over the dimensions `dim` the values and "
            "their 0-based places (over several dimensions in row-major order). NaN wins. Along one dimension the "
            "first of equal values takes the gradient; otherwise they share it.",
            "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
            "print(x:max())  --> tensor fp32 [] 6\n"
            "local values, places = x:max(2)\n"
            "print(values)  --> tensor fp32 [2] {3, 6}\n"
            "print(places)  --> tensor int64 [2] {2, 2}\n"
            "print(x:max(neap.tensor {3, 3, 3}))  --> tensor fp32 [2, 3] {{3, 3, 3}, {4, 5, 6}}",
            NEAP_TOPIC_REDUCTION, "x [...], other? [...] -> [...], places [...] int64");
const neap_op neap__op_min =
    EXTREME("min", min,
            "Smallest value of all, or element by element the smaller of two; over the dimensions `dim` the values and "
            "their 0-based places (over several dimensions in row-major order). NaN wins. Along one dimension the "
            "first of equal values takes the gradient; otherwise they share it.",
            "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
            "print(x:min())  --> tensor fp32 [] 1\n"
            "local values, places = x:min(2)\n"
            "print(values)  --> tensor fp32 [2] {1, 4}\n"
            "print(places)  --> tensor int64 [2] {0, 0}\n"
            "print(x:min(neap.tensor {3, 3, 3}))  --> tensor fp32 [2, 3] {{1, 2, 3}, {3, 3, 3}}",
            NEAP_TOPIC_REDUCTION, "x [...], other? [...] -> [...], places [...] int64");
