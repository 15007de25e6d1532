/* Windows of images as columns, and columns added back: each the other's gradient.
 *
 * unfold: (N, C, H, W) -> (N, C kh kw, L); fold: (N, C kh kw, L) -> (N, C, H, W). L counts the places of the window,
 * row by row. */
#include "op/window.h"

enum { KERNEL, DILATION, PADDING, STRIDE, SIZE };

#define WINDOW_OPTIONS                                                                                               \
  {"kernel_size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX, .doc = "Of the window."},             \
      {"dilation",                                                                                                   \
       NEAP_OPT_PAIR,                                                                                                \
       .def = 1,                                                                                                     \
       .has_default = true,                                                                                          \
       .min = 1,                                                                                                     \
       .max = INT32_MAX,                                                                                             \
       .doc = "Distance between the window's entries."},                                                             \
      {"padding",                                                                                                    \
       NEAP_OPT_PAIR,                                                                                                \
       .def = 0,                                                                                                     \
       .has_default = true,                                                                                          \
       .min = 0,                                                                                                     \
       .max = INT32_MAX,                                                                                             \
       .doc = "Zeros on both sides."},                                                                               \
  {                                                                                                                  \
    "stride", NEAP_OPT_PAIR, .def = 1, .has_default = true, .min = 1, .max = INT32_MAX, .doc = "Step of the window." \
  }

/* How many places the window has in an image of `size`. */
static neap_status places_of(const neap_infer *x, const int64_t *size, int64_t *places) {
  const neap_opt *o = x->opt;
  int64_t count[2];
  for (int i = 0; i < 2; i++) {
    const int64_t extent = (o[KERNEL].v.list[i] - 1) * o[DILATION].v.list[i] + 1;
    count[i] = neap__window_places(size[i], extent, o[STRIDE].v.list[i], o[PADDING].v.list[i], false);
    if (count[i] < 1)
      return neap__fail(
          x->err, NEAP_SHAPE,
          "a window of %lld with dilation %lld and padding %lld does not fit into %lld along dimension %d",
          (long long)o[KERNEL].v.list[i], (long long)o[DILATION].v.list[i], (long long)o[PADDING].v.list[i],
          (long long)size[i], 3 + i);
  }
  if (__builtin_mul_overflow(count[0], count[1], places))
    return neap__fail(x->err, NEAP_RANGE, "%lld x %lld places of the window are too many", (long long)count[0],
                      (long long)count[1]);
  return NEAP_OK;
}

static neap_status infer(neap_infer *x) {
  const neap_shape *in = &x->in[0].shape;
  const int64_t *k = x->opt[KERNEL].v.list;
  int64_t places = 0, rows;
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "input")) ||
      (s = places_of(x, in->dim + 2, &places)))
    return s;
  if (__builtin_mul_overflow(k[0] * k[1], in->dim[1], &rows))
    return neap__fail(x->err, NEAP_RANGE, "`kernel_size` is %lld x %lld, too large for %lld channels", (long long)k[0],
                      (long long)k[1], (long long)in->dim[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, {3, {in->dim[0], rows, places}}};
  return NEAP_OK;
}

static neap_status infer_fold(neap_infer *x) {
  const neap_shape *in = &x->in[0].shape;
  const int64_t *k = x->opt[KERNEL].v.list, *size = x->opt[SIZE].v.list;
  int64_t places = 0;
  char text[96];
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = places_of(x, size, &places))) return s;
  neap__shape_text(in, text, sizeof text);
  if (in->ndim != 3)
    return neap__fail(x->err, NEAP_SHAPE, "input %s, expected 3 dimensions (samples, channels x window, places)", text);
  if (in->dim[1] % (k[0] * k[1]) != 0)
    return neap__fail(x->err, NEAP_SHAPE, "input %s has %lld rows, expected a multiple of the window's %lld x %lld",
                      text, (long long)in->dim[1], (long long)k[0], (long long)k[1]);
  if (in->dim[2] != places)
    return neap__fail(x->err, NEAP_SHAPE, "input %s has %lld places, but a window has %lld in an output of %lld x %lld",
                      text, (long long)in->dim[2], (long long)places, (long long)size[0], (long long)size[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {in->dim[0], in->dim[1] / (k[0] * k[1]), size[0], size[1]}}};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_shape in = neap__desc_at(g, n->in[0]).shape;
  neap_opt opt[NEAP_MAX_OPTS];
  for (int i = 0; i < NEAP_MAX_OPTS; i++) opt[i] = n->opt[i];
  opt[SIZE] = (neap_opt){.set = 1, .n = 2, .v.list = {in.dim[2], in.dim[3]}};
  if (need & 1) gin[0] = neap__build(g, &neap__op_fold, gout, 1, opt);
}

static void grad_fold(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_opt opt[NEAP_MAX_OPTS];
  for (int i = 0; i < NEAP_MAX_OPTS; i++) opt[i] = n->opt[i];
  opt[SIZE] = NEAP_UNSET;
  if (need & 1) gin[0] = neap__build(g, &neap__op_unfold, gout, 1, opt);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_images(n, in, out, 1);
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = s->opt[SIZE].set ? (double)neap__shape_count(&s->in[0].desc.shape) : 0;
  *bytes = (double)(neap__desc_bytes(&s->in[0].desc) + neap__desc_bytes(&s->out[0].desc));
}

static const char *const samples[] = {"f32[2,3,4,5]; kernel_size=2",
                                      "f32[2,2,5,6]; kernel_size=3,2; padding=1; stride=2,1",
                                      "f32[1,2,5,5]; kernel_size=2; dilation=2",
                                      "f32[0,2,4,4]; kernel_size=2",
                                      "f64[1,1,3,3]; kernel_size=3; padding=2,0",
                                      NULL};
static const char *const fold_samples[] = {"f32[2,12,12]; kernel_size=2; output_size=4,5",
                                           "f32[2,12,18]; kernel_size=3,2; padding=1,0; stride=2,1; output_size=5,7",
                                           "f32[1,8,9]; kernel_size=2; dilation=2; output_size=5",
                                           "f32[0,4,9]; kernel_size=2; output_size=4",
                                           "f64[1,9,5]; kernel_size=3; padding=2,0; output_size=3",
                                           NULL};

const neap_op neap__op_unfold = {
    .name = "unfold",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {WINDOW_OPTIONS},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "input [N, C, H, W] -> [N, C kh kw, L]",
    .samples = samples,
    .doc = "Windows of images (samples, channels, height, width) as columns (samples, channels x window, places), as "
           "torch's "
           "unfold: the left side of a convolution as a matrix product.",
    .example = "print(table.concat(neap.unfold(neap.ones(1, 3, 5, 5), 2).shape, \" \"))  --> 1 12 16",
};

const neap_op neap__op_fold = {
    .name = "fold",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {WINDOW_OPTIONS,
             {"output_size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX, .doc = "Of the result."}},
    .infer = infer_fold,
    .grad = grad_fold,
    .batch = batch,
    .cost = cost,
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "input [N, C kh kw, L] -> [N, C, H, W]",
    .samples = fold_samples,
    .doc = "Columns (samples, channels x window, places) added up to images of `output_size`, as torch's fold: the "
           "gradient "
           "of unfold.",
    .example = "local columns = neap.ones(1, 4, 4)\n"
               "print(columns:fold {kernel_size = 2, output_size = 3})  --> tensor fp32 [1, 1, 3, 3] {{{{1, 2, 1}, {2, "
               "4, 2}, {1, 2, 1}}}}",
};
