/* x: (N, C, H, W) -> y: (N, C, OH, OW): means of windows. */
#include "op/pool2d.h"

#define INCLUDE                                                                        \
  {                                                                                    \
    .name = "count_include_pad", .type = NEAP_OPT_BOOL, .def = 1, .has_default = true, \
    .doc = "Whether the zeros added count in the mean."                                \
  }

static neap_status infer(neap_infer *x) { return neap__pool_infer(x, NULL); }

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_opt opt[NEAP_MAX_OPTS];
  neap__pool_grad_options(g, n, opt);
  if (need & 1) gin[0] = neap__build(g, &neap__op_avg_pool2d_grad, gout, 1, opt);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_images(n, in, out, 1);
}

/* The side with the windows has an addition for each element of each. */
static void cost(const neap_sig *s, double *flops, double *bytes) {
  const int64_t *k = s->opt[POOL_KERNEL].v.list;
  const double in = (double)neap__shape_count(&s->in[0].desc.shape),
               out = (double)neap__shape_count(&s->out[0].desc.shape);
  *flops = (s->opt[POOL_SIZE].set ? in : out) * (double)k[0] * (double)k[1];
  *bytes = (double)(neap__desc_bytes(&s->in[0].desc) + neap__desc_bytes(&s->out[0].desc));
}

static const char *const samples[] = {"f32[2,3,4,6]; kernel_size=2",
                                      "f32[2,3,5,5]; kernel_size=3; stride=2; padding=1",
                                      "f32[2,3,5,5]; kernel_size=3; stride=2; padding=1; count_include_pad=false",
                                      "f32[1,2,5,6]; kernel_size=2,3; stride=2; padding=1; ceil_mode=true",
                                      "f32[2,3,4,4]; kernel_size=4",
                                      "f32[0,2,4,4]; kernel_size=2",
                                      NULL};

const neap_op neap__op_avg_pool2d = {
    .name = "avg_pool2d",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {POOL_OPTIONS("Zeros"), INCLUDE},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "The mean of each window, as torch's avg_pool2d: H' = (H + 2 padding - kernel) // stride + 1, and W' alike.",
    .example = "local x = neap.arange(0, 16):to(\"fp32\"):reshape(1, 1, 4, 4)\n"
               "print(x:avg_pool2d(2))  --> tensor fp32 [1, 1, 2, 2] {{{{2.5, 4.5}, {10.5, 12.5}}}}",
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "x [N, C, H, W] -> [N, C, H', W']",
};

/* --- the gradient ------------------------------------------------------------------------------------------------ */

static neap_status infer_grad(neap_infer *x) { return neap__pool_infer_grad(x, NULL); }

static void grad_grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_opt opt[NEAP_MAX_OPTS];
  neap__pool_back_options(n, opt);
  if (need & 1) gin[0] = neap__build(g, &neap__op_avg_pool2d, gout, 1, opt);
}

static const char *const grad_samples[] = {"f32[2,3,2,3]; kernel_size=2; size=4,6",
                                           "f32[2,3,3,3]; kernel_size=3; stride=2; padding=1; size=5",
                                           "f32[0,2,2,2]; kernel_size=2; size=4", NULL};

const neap_op neap__op_avg_pool2d_grad = {
    .name = "avg_pool2d_grad",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {POOL_OPTIONS("Zeros"), INCLUDE, POOL_SIZE_OPTION},
    .infer = infer_grad,
    .grad = grad_grad,
    .batch = batch,
    .cost = cost,
    .samples = grad_samples,
    .doc = "Gradient of avg_pool2d's input, of height and width `size`: each window's is shared out evenly.",
};
