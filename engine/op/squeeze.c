/* Dimensions of size 1 taken away and put in. */
#include "op/build.h"

static neap_id squeeze(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_shape from = neap__desc_at(g, in[0]).shape, to = {.ndim = 0};
  neap_opt dims = opt[0];
  neap_error err;
  if (from.ndim == 0) return in[0];
  neap_status s = neap__dims_resolve(&dims, from.ndim, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  for (int32_t d = 0; d < from.ndim; d++)
    if (from.dim[d] != 1 || !neap__opt_has_dim(&dims, d)) to.dim[to.ndim++] = from.dim[d];
  return neap__reshape_to(g, in[0], &to);
}

static neap_id unsqueeze(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  int32_t dim = 0;
  if (!neap__dim_at(g, op, opt[0].v.i, neap__desc_at(g, in[0]).shape.ndim + 1, &dim)) return NEAP_NONE;
  return neap__insert_dim(g, in[0], dim);
}

static const char *const samples[] = {
    "f32[2,1,3,1]", "f32[2,1,3,1]; dim=2", "f32[2,3]; dim=1", "f32[1,2,1]; dim=1,-1", "f32[1,0]", "f32[]", NULL};
static const char *const un_samples[] = {"f32[2,3]; dim=1", "f32[2,3]; dim=-1", "f32[]; dim=1", "i64[0]; dim=2", NULL};

const neap_op neap__op_squeeze = {
    .name = "squeeze",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "dim",
              .type = NEAP_OPT_DIMS,
              .doc = "Dimensions to drop where their size is 1; all when left out."}},
    .expand = squeeze,
    .samples = samples,
    .doc = "Without the dimensions `dim` that have size 1; others stay.",
    .example = "local x = neap.zeros(1, 3, 1)\n"
               "print(table.concat(x:squeeze().shape, \" \"))  --> 3\n"
               "print(table.concat(x:squeeze(1).shape, \" \"))  --> 3 1",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...] -> [... without sizes of 1]",
};

const neap_op neap__op_unsqueeze = {
    .name = "unsqueeze",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts =
        {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Place of the new dimension in the result."}},
    .expand = unsqueeze,
    .samples = un_samples,
    .doc = "With a new dimension of size 1, which is `dim` of the result.",
    .example = "local x = neap.tensor {1, 2, 3}\n"
               "print(x:unsqueeze(1))  --> tensor fp32 [1, 3] {{1, 2, 3}}\n"
               "print(x:unsqueeze(-1))  --> tensor fp32 [3, 1] {{1}, {2}, {3}}",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...] -> [..., 1, ...]",
};
