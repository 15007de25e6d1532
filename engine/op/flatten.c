#include "op/build.h"

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_shape from = neap__desc_at(g, in[0]).shape, to = {.ndim = 0};
  int32_t first = 0, last = 0;
  neap_error err;
  neap_status s = neap__dim_resolve(opt[0].v.i, from.ndim, &first, &err);
  if (s == NEAP_OK) s = neap__dim_resolve(opt[1].v.i, from.ndim, &last, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  if (first > last)
    return neap__graph_fail(g, op, NEAP_RANGE, "start_dim %d lies behind end_dim %d", first + 1, last + 1);
  for (int32_t i = 0; i < from.ndim; i++) {
    if (i > first && i <= last)
      to.dim[to.ndim - 1] *= from.dim[i];
    else
      to.dim[to.ndim++] = from.dim[i];
  }
  if (from.ndim == 0) to = (neap_shape){.ndim = 1, .dim = {1}};
  return neap__reshape_to(g, in[0], &to);
}

static const char *const samples[] = {"f32[2,3,4]", "f32[2,3,4]; start_dim=2", "f32[0,3]", "f32[]", NULL};

const neap_op neap__op_flatten = {
    .name = "flatten",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "start_dim",
              .type = NEAP_OPT_DIM,
              .def = 0,
              .has_default = true,
              .doc = "First dimension of those to join."},
             {.name = "end_dim",
              .type = NEAP_OPT_DIM,
              .def = -1,
              .has_default = true,
              .doc = "Last dimension of those to join."}},
    .expand = expand,
    .samples = samples,
    .doc = "Dimensions `start_dim` to `end_dim` as one; a scalar becomes [1].",
    .example = "local x = neap.zeros(2, 3, 4)\n"
               "print(table.concat(x:flatten().shape, \" \"))  --> 24\n"
               "print(table.concat(x:flatten(2).shape, \" \"))  --> 2 12",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...] -> [..., flat, ...]",
};
