/* x: (N, C, H, W) -> y: (N, C, OH, OW), and which element of each window was the largest: its number in the
 * window, row by row. */
#include "op/window.h"

enum { KERNEL, STRIDE, PADDING, DILATION, CEIL, SIZE };

#define POOL_OPTIONS                                                                            \
  {"kernel_size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX},                 \
      {"stride", NEAP_OPT_PAIR, .min = 1, .max = INT32_MAX},                                    \
      {"padding", NEAP_OPT_PAIR, .def = 0, .has_default = true, .min = 0, .max = INT32_MAX},    \
      {"dilation", NEAP_OPT_PAIR, .def = 1, .has_default = true, .min = 1, .max = INT32_MAX}, { \
    "ceil_mode", NEAP_OPT_BOOL, .has_default = true                                             \
  }

/* Fills in the stride, and the output's height and width. */
static neap_status window(const neap_infer *x, const int64_t *size, int64_t *places) {
  neap_opt *o = x->opt;
  if (!o[STRIDE].set) o[STRIDE] = o[KERNEL];
  for (int i = 0; i < 2; i++) {
    const int64_t kernel = o[KERNEL].v.list[i], padding = o[PADDING].v.list[i];
    if (padding > kernel / 2)
      return neap__fail(x->err, NEAP_RANGE, "`padding` is %lld, expected at most half of the kernel's %lld",
                        (long long)padding, (long long)kernel);
    places[i] = neap__window_places(size[i], (kernel - 1) * o[DILATION].v.list[i] + 1, o[STRIDE].v.list[i], padding,
                                    o[CEIL].v.i);
    if (places[i] < 1)
      return neap__fail(x->err, NEAP_SHAPE,
                        "a window of %lld with dilation %lld does not fit into %lld along dimension %d",
                        (long long)kernel, (long long)o[DILATION].v.list[i], (long long)size[i], 3 + i);
  }
  return NEAP_OK;
}

static neap_dtype index_dtype(const neap_opt *opt) {
  const int64_t *k = opt[KERNEL].v.list;
  return k[0] <= 256 && k[1] <= 256 && k[0] * k[1] <= 256 ? NEAP_U8 : NEAP_I32;
}

static neap_status infer(neap_infer *x) {
  const neap_shape *in = &x->in[0].shape;
  int64_t places[2] = {0, 0};
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "input")) || (s = window(x, in->dim + 2, places)))
    return s;
  if (x->opt[KERNEL].v.list[0] > INT32_MAX / x->opt[KERNEL].v.list[1])
    return neap__fail(x->err, NEAP_RANGE, "`kernel_size` is %lld x %lld, expected at most 2^31 elements",
                      (long long)x->opt[KERNEL].v.list[0], (long long)x->opt[KERNEL].v.list[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {in->dim[0], in->dim[1], places[0], places[1]}}};
  x->out[1] = (neap_desc){index_dtype(x->opt), x->out[0].shape};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_shape in = neap__desc_at(g, n->in[0]).shape;
  neap_opt opt[NEAP_MAX_OPTS];
  for (int i = 0; i < NEAP_MAX_OPTS; i++) opt[i] = n->opt[i];
  opt[SIZE] = (neap_opt){.set = 1, .n = 2, .v.list = {in.dim[2], in.dim[3]}};
  if ((need & 1) && gout[0] != NEAP_NONE)
    gin[0] = neap__build(g, &neap__op_max_pool2d_grad, (neap_id[]){gout[0], n->out[1]}, 2, opt);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_images(n, in, out, n->n_in);
}

/* A comparison for each element of each window. */
static void cost(const neap_sig *s, double *flops, double *bytes) {
  const int64_t *k = s->opt[KERNEL].v.list;
  *flops = (double)neap__shape_count(&s->in[0].desc.shape);
  if (s->n_in == 1) *flops = (double)neap__shape_count(&s->out[0].desc.shape) * (double)k[0] * (double)k[1];
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
    .opts = {POOL_OPTIONS},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "The largest element of each window, as torch's max_pool2d: NaN is largest, of equals the first.",
};

/* --- the gradient ------------------------------------------------------------------------------------------------ */

/* d: (N, C, OH, OW), index -> (N, C, H, W); the option `size` is (H, W). */
static neap_status infer_grad(neap_infer *x) {
  const neap_shape *d = &x->in[0].shape;
  const int64_t *size = x->opt[SIZE].v.list;
  int64_t places[2] = {0, 0};
  char dt[96], it[96];
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "gradient")) || (s = window(x, size, places)))
    return s;
  if (!neap__shape_equal(d, &x->in[1].shape) || x->in[1].dtype != index_dtype(x->opt) || d->dim[2] != places[0] ||
      d->dim[3] != places[1])
    return neap__fail(x->err, NEAP_SHAPE, "gradient %s with index %s %s is not that of windows over %lld x %lld",
                      neap__shape_text(d, dt, sizeof dt), neap__dtype_name(x->in[1].dtype),
                      neap__shape_text(&x->in[1].shape, it, sizeof it), (long long)size[0], (long long)size[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {d->dim[0], d->dim[1], size[0], size[1]}}};
  return NEAP_OK;
}

static const char *const grad_samples[] = {
    "f32[2,3,2,3] u8[2,3,2,3]:below=4; kernel_size=2; size=4,6",
    "f32[2,3,3,3] u8[2,3,3,3]:below=9; kernel_size=3; stride=2; padding=1; size=5",
    "f32[0,2,2,2] u8[0,2,2,2]; kernel_size=2; size=4", NULL};

const neap_op neap__op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {POOL_OPTIONS, {"size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX}},
    .infer = infer_grad,
    .batch = batch,
    .cost = cost,
    .samples = grad_samples,
    .doc = "Gradient of max_pool2d's input, of height and width `size`: each window's goes to its largest element.",
};
