/* leaky_relu whose slopes are learned. */
#include "op/build.h"

/* One slope for all, or one for each entry of dimension 2. */
static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in, (void)opt;
  neap_desc x = neap__desc_at(g, in[0]), w = neap__desc_at(g, in[1]);
  int64_t slopes = neap__shape_count(&w.shape), channels = x.shape.ndim > 1 ? x.shape.dim[1] : 1;
  if (!neap__is_floating(g, op, in[0])) return NEAP_NONE;
  if (w.shape.ndim > 1 || (slopes != 1 && slopes != channels))
    return neap__graph_fail(g, op, NEAP_SHAPE, "%lld slopes for %lld channels, expected one, or one for each",
                            (long long)slopes, (long long)channels);
  if (w.dtype != x.dtype)
    return neap__graph_fail(g, op, NEAP_DTYPE, "slopes are %s, expected %s like the input", neap__dtype_name(w.dtype),
                            neap__dtype_name(x.dtype));
  neap_shape spread = {.ndim = slopes == 1 ? 0 : x.shape.ndim - 1};
  for (int32_t i = 0; i < spread.ndim; i++) spread.dim[i] = i ? 1 : slopes;
  return neap__build2(g, &neap__op_leaky, in[0], neap__reshape_to(g, in[1], &spread));
}

static const char *const samples[] = {"f32[2,3] f32[3]",
                                      "f32[2,3,4,2] f32[3]",
                                      "f32[2,3] f32[1]",
                                      "f32[4] f32[]",
                                      "f32[0,3] f32[3]",
                                      "f64[5] f64[1]",
                                      NULL};

const neap_op neap__op_prelu = {
    .name = "prelu",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .expand = expand,
    .samples = samples,
    .doc = "x where it is positive, else x times the second input: one slope, or one for each entry of dimension 2 (He "
           "et al. 2015).",
    .example = "print(neap.prelu(neap.tensor {{-1, -1}, {2, 2}}, neap.tensor {0.25, 0.5}))  --> tensor fp32 [2, 2] "
               "{{-0.25, -0.5}, {2, 2}}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [N, C, ...], slope [C] -> [N, C, ...]",
};
