/* x: (N, C, H, W) -> y: (N, C, OH, OW): means of windows. */
#include "op/window.h"

enum { KERNEL, STRIDE, PADDING, CEIL, INCLUDE, SIZE };

#define POOL_OPTIONS                                                                         \
  {"kernel_size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX},              \
      {"stride", NEAP_OPT_PAIR, .min = 1, .max = INT32_MAX},                                 \
      {"padding", NEAP_OPT_PAIR, .def = 0, .has_default = true, .min = 0, .max = INT32_MAX}, \
      {"ceil_mode", NEAP_OPT_BOOL, .has_default = true}, {                                   \
    "count_include_pad", NEAP_OPT_BOOL, .def = 1, .has_default = true                        \
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
    places[i] = neap__window_places(size[i], kernel, o[STRIDE].v.list[i], padding, o[CEIL].v.i);
    if (places[i] < 1)
      return neap__fail(x->err, NEAP_SHAPE, "a window of %lld does not fit into %lld along dimension %d",
                        (long long)kernel, (long long)size[i], 3 + i);
  }
  return NEAP_OK;
}

static neap_status infer(neap_infer *x) {
  const neap_shape *in = &x->in[0].shape;
  int64_t places[2] = {0, 0};
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "input")) || (s = window(x, in->dim + 2, places)))
    return s;
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {in->dim[0], in->dim[1], places[0], places[1]}}};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_shape in = neap__desc_at(g, n->in[0]).shape;
  neap_opt opt[NEAP_MAX_OPTS];
  for (int i = 0; i < NEAP_MAX_OPTS; i++) opt[i] = n->opt[i];
  opt[SIZE] = (neap_opt){.set = 1, .n = 2, .v.list = {in.dim[2], in.dim[3]}};
  if (need & 1) gin[0] = neap__build(g, &neap__op_avg_pool2d_grad, gout, 1, opt);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_images(n, in, out, 1);
}

/* The side with the windows has an addition for each element of each. */
static void cost(const neap_sig *s, double *flops, double *bytes) {
  const int64_t *k = s->opt[KERNEL].v.list;
  const double in = (double)neap__shape_count(&s->in[0].desc.shape),
               out = (double)neap__shape_count(&s->out[0].desc.shape);
  *flops = (s->opt[SIZE].set ? in : out) * (double)k[0] * (double)k[1];
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
    .opts = {POOL_OPTIONS},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "The mean of each window, as torch's avg_pool2d; padding counts unless count_include_pad is false.",
};

/* --- the gradient ------------------------------------------------------------------------------------------------ */

/* d: (N, C, OH, OW) -> (N, C, H, W); the option `size` is (H, W). */
static neap_status infer_grad(neap_infer *x) {
  const neap_shape *d = &x->in[0].shape;
  const int64_t *size = x->opt[SIZE].v.list;
  int64_t places[2] = {0, 0};
  char dt[96];
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "gradient")) || (s = window(x, size, places)))
    return s;
  if (d->dim[2] != places[0] || d->dim[3] != places[1])
    return neap__fail(x->err, NEAP_SHAPE, "gradient %s is not that of windows over %lld x %lld",
                      neap__shape_text(d, dt, sizeof dt), (long long)size[0], (long long)size[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {d->dim[0], d->dim[1], size[0], size[1]}}};
  return NEAP_OK;
}

static void grad_grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_opt opt[NEAP_MAX_OPTS];
  for (int i = 0; i < NEAP_MAX_OPTS; i++) opt[i] = n->opt[i];
  opt[SIZE] = NEAP_UNSET;
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
    .opts = {POOL_OPTIONS, {"size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX}},
    .infer = infer_grad,
    .grad = grad_grad,
    .batch = batch,
    .cost = cost,
    .samples = grad_samples,
    .doc = "Gradient of avg_pool2d's input, of height and width `size`: each window's is shared out evenly.",
};
