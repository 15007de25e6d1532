/* x: (N, C, ...) with every element replaced by the mean of its channel over the batch. Written out for each element
 * since in micro-batches the means are those of the micro-batch: neither sums over samples nor the same for all. */
#include "op/build.h"

static neap_status infer(neap_infer *x) {
  char text[96];
  const neap_status s = neap__need_float(x, 0);
  if (s) return s;
  if (x->in[0].shape.ndim < 2)
    return neap__fail(x->err, NEAP_SHAPE, "input %s, expected at least 2 dimensions (samples, channels, ...)",
                      neap__shape_text(&x->in[0].shape, text, sizeof text));
  x->out[0] = x->in[0];
  return NEAP_OK;
}

/* A mean's share goes to each of its elements, which is a mean again. */
static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  (void)n;
  if (need & 1) gin[0] = neap__build1(g, &neap__op_channel_mean, gout[0]);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  (void)g;
  if (neap__batch_settled(n, in, out, &s)) return s;
  if (in[0].dim != 0) return NEAP_UNSUPPORTED;
  out[0] = (neap_batch){NEAP_B_MIX, 0, in[0].per};
  return NEAP_OK;
}

static const char *const samples[] = {"f32[4,3,5,5]", "f32[6,4]", "f64[3,2,7]", "f32[0,2,3]", NULL};

const neap_op neap__op_channel_mean = {
    .name = "channel_mean",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .rule = NEAP_BATCH_MIX,
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .samples = samples,
    .doc = "The mean of each element's channel (dimension 2).",
};
