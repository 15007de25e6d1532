/* x: (N, C, H, W) -> y: (N, C, OH, OW), and which element of each window was the largest: its number in the
 * window, row by row. */
#include "op/pool2d.h"

#define DILATION NEAP_WINDOW_OPTION("dilation", PAIR, 1, 1, "Step between elements of the window.")

static neap_dtype index_dtype(const neap_opt *opt) {
  const int64_t *k = opt[POOL_KERNEL].v.list;
  return k[0] <= 256 && k[1] <= 256 && k[0] * k[1] <= 256 ? NEAP_U8 : NEAP_I32;
}

static neap_status infer(neap_infer *x) {
  const neap_status s = neap__pool_infer(x, x->opt[POOL_OWN].v.list);
  if (s) return s;
  if (x->opt[POOL_KERNEL].v.list[0] > INT32_MAX / x->opt[POOL_KERNEL].v.list[1])
    return neap__fail(x->err, NEAP_RANGE, "`kernel_size` is %lld x %lld, expected at most 2^31 elements",
                      (long long)x->opt[POOL_KERNEL].v.list[0], (long long)x->opt[POOL_KERNEL].v.list[1]);
  x->out[1] = (neap_desc){index_dtype(x->opt), x->out[0].shape};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_opt opt[NEAP_MAX_OPTS];
  if (!(need & 1) || gout[0] == NEAP_NONE) return;
  neap__pool_grad_options(g, n, opt);
  gin[0] = neap__build(g, &neap__op_max_pool2d_grad, (neap_id[]){gout[0], n->out[1]}, 2, opt);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_images(n, in, out, n->n_in);
}

/* A comparison for each element of each window, whichever of the sides it is that has them. */
static void cost(const neap_sig *s, double *flops, double *bytes) {
  const int64_t *k = s->opt[POOL_KERNEL].v.list;
  const bool back = s->opt[POOL_SIZE].set;
  *flops = (double)neap__shape_count(&(back ? s->in : s->out)[0].desc.shape) * (double)k[0] * (double)k[1];
  *bytes = 0;
  for (uint32_t i = 0; i < s->n_in; i++) *bytes += (double)neap__desc_bytes(&s->in[i].desc);
  for (uint32_t o = 0; o < s->n_out; o++) *bytes += (double)neap__desc_bytes(&s->out[o].desc);
}

static const char *const samples[] = {"f32[2,3,4,6]:distinct; kernel_size=2",
                                      "f32[2,3,5,5]:distinct; kernel_size=3; stride=2; padding=1",
                                      "f32[1,2,5,6]:distinct; kernel_size=2,3; stride=1,2; ceil_mode=true",
                                      "f32[1,2,7,7]:distinct; kernel_size=2; stride=2; dilation=2",
                                      "f32[0,2,4,4]; kernel_size=2",
                                      NULL};

const neap_op neap__op_max_pool2d = {
    .name = "max_pool2d",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .precision = NEAP_PREC_FOLLOW,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {POOL_OPTIONS("Minus infinity"), DILATION},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "The largest element of each window, as torch's max_pool2d: H' = (H + 2 padding - dilation (kernel - 1) - "
           "1) // stride + 1, and W' alike. NaN is largest; of equal ones the first takes the gradient.",
    .example = "local x = neap.arange(0, 16):to(\"fp32\"):reshape(1, 1, 4, 4)\n"
               "print(x:max_pool2d(2))  --> tensor fp32 [1, 1, 2, 2] {{{{5, 7}, {13, 15}}}}",
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "x [N, C, H, W] -> [N, C, H', W']",
};

/* --- the gradient, and its ------------------------------------------------------------------------------------- */

/* `of`: what has an element for each window. */
static neap_status check_index(const neap_infer *x, const neap_shape *of) {
  char ot[96], it[96];
  if (neap__shape_equal(of, &x->in[1].shape) && x->in[1].dtype == index_dtype(x->opt)) return NEAP_OK;
  return neap__fail(x->err, NEAP_SHAPE, "index %s %s, expected %s %s for the windows", neap__dtype_name(x->in[1].dtype),
                    neap__shape_text(&x->in[1].shape, it, sizeof it), neap__dtype_name(index_dtype(x->opt)),
                    neap__shape_text(of, ot, sizeof ot));
}

/* d: (N, C, OH, OW), index -> (N, C, H, W). */
static neap_status infer_grad(neap_infer *x) {
  const neap_status s = neap__pool_infer_grad(x, x->opt[POOL_OWN].v.list);
  return s ? s : check_index(x, &x->in[0].shape);
}

/* v: (N, C, H, W), index -> (N, C, OH, OW). */
static neap_status infer_at(neap_infer *x) {
  const neap_status s = neap__pool_infer(x, x->opt[POOL_OWN].v.list);
  return s ? s : check_index(x, &x->out[0].shape);
}

static void grad_grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_opt opt[NEAP_MAX_OPTS];
  neap__pool_back_options(n, opt);
  if (need & 1) gin[0] = neap__build(g, &neap__op_max_pool2d_at, (neap_id[]){gout[0], n->in[1]}, 2, opt);
}

static void grad_at(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_opt opt[NEAP_MAX_OPTS];
  neap__pool_grad_options(g, n, opt);
  if (need & 1) gin[0] = neap__build(g, &neap__op_max_pool2d_grad, (neap_id[]){gout[0], n->in[1]}, 2, opt);
}

static const char *const grad_samples[] = {
    "f32[2,3,2,3] u8[2,3,2,3]:below=4; kernel_size=2; size=4,6",
    "f32[2,3,3,3] u8[2,3,3,3]:below=9; kernel_size=3; stride=2; padding=1; size=5",
    "f32[0,2,2,2] u8[0,2,2,2]; kernel_size=2; size=4", NULL};
static const char *const at_samples[] = {"f32[2,3,4,6] u8[2,3,2,3]:below=4; kernel_size=2",
                                         "f32[2,3,5,5] u8[2,3,3,3]:below=9; kernel_size=3; stride=2; padding=1",
                                         "f32[1,2,7,7] u8[1,2,3,3]:below=4; kernel_size=2; stride=2; dilation=2",
                                         "f32[1,1,20,20] i32[1,1,2,2]:below=289; kernel_size=17; stride=3",
                                         "f32[0,2,4,4] u8[0,2,2,2]; kernel_size=2",
                                         NULL};

const neap_op neap__op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {POOL_OPTIONS("Minus infinity"), DILATION, POOL_SIZE_OPTION},
    .infer = infer_grad,
    .grad = grad_grad,
    .batch = batch,
    .cost = cost,
    .samples = grad_samples,
    .doc = "Gradient of max_pool2d's input, of height and width `size`: each window's goes to its largest element.",
};

const neap_op neap__op_max_pool2d_at = {
    .name = "max_pool2d_at",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {POOL_OPTIONS("Minus infinity"), DILATION},
    .infer = infer_at,
    .grad = grad_at,
    .batch = batch,
    .cost = cost,
    .samples = at_samples,
    .doc = "The element of each window that has the number given; 0 where that lies in the padding.",
};
