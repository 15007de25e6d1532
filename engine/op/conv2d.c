/* Two-dimensional convolution (cross-correlation, as PyTorch's) and its gradients.
 *
 * x: (N, C, H, W), w: (O, C / groups, kh, kw), bias: (O) -> y: (N, O, OH, OW) */
#include "op/window.h"

enum { STRIDE, PADDING, DILATION, GROUPS, SIZE };

#define CONV_OPTIONS                                                                     \
  NEAP_WINDOW_OPTION("stride", PAIR, 1, 1, "Step of the kernel over the input."),        \
      NEAP_WINDOW_OPTION("padding", PAIR, 0, 0, "Zeros added on both sides."),           \
      NEAP_WINDOW_OPTION("dilation", PAIR, 1, 1, "Step between entries of the kernel."), \
      NEAP_WINDOW_OPTION("groups", INT, 1, 1,                                            \
                         "Groups of channels that are convolved apart; in and out are multiples of it.")

/* The options of a node and a size (height and width, or the kernel's) after them. */
static const neap_opt *with_size(const neap_node *n, int64_t h, int64_t w, neap_opt *opt) {
  for (int i = 0; i < SIZE; i++) opt[i] = n->opt[i];
  for (int i = SIZE; i < NEAP_MAX_OPTS; i++) opt[i] = NEAP_UNSET;
  opt[SIZE] = (neap_opt){.set = 1, .n = 2, .v.list = {h, w}};
  return opt;
}

static int64_t places(const neap_opt *opt, int axis, int64_t size, int64_t kernel) {
  int64_t extent;
  if (kernel < 1 || __builtin_mul_overflow(kernel - 1, opt[DILATION].v.list[axis], &extent)) return 0;
  return neap__window_places(size, extent + 1, opt[STRIDE].v.list[axis], opt[PADDING].v.list[axis], false);
}

static neap_status one_dtype(const neap_infer *x) {
  neap_status s;
  for (uint32_t i = 0; i < x->n_in; i++) {
    if ((s = neap__need_float(x, i))) return s;
    if (x->in[i].dtype != x->in[0].dtype)
      return neap__fail(x->err, NEAP_DTYPE, "inputs are %s and %s, expected one dtype",
                        neap__dtype_name(x->in[0].dtype), neap__dtype_name(x->in[i].dtype));
  }
  return NEAP_OK;
}

/* Channels of x and weights that fit each other. */
static neap_status check_weight(const neap_infer *x, const neap_shape *in, const neap_shape *w) {
  const long long groups = x->opt[GROUPS].v.i;
  char it[96], wt[96];
  neap__shape_text(in, it, sizeof it);
  neap__shape_text(w, wt, sizeof wt);
  if (w->ndim != 4) return neap__fail(x->err, NEAP_SHAPE, "weight %s, expected [out, in / groups, height, width]", wt);
  if (in->dim[1] % groups || w->dim[1] != in->dim[1] / groups)
    return neap__fail(x->err, NEAP_SHAPE,
                      "input %s has %lld channels but weight %s takes %lld for each group (groups %lld)", it,
                      (long long)in->dim[1], wt, (long long)w->dim[1], groups);
  if (w->dim[0] % groups)
    return neap__fail(x->err, NEAP_SHAPE, "weight %s makes %lld channels, which %lld groups do not share evenly", wt,
                      (long long)w->dim[0], groups);
  if (w->dim[2] < 1 || w->dim[3] < 1)
    return neap__fail(x->err, NEAP_SHAPE, "weight %s, expected a kernel of at least 1 x 1", wt);
  return NEAP_OK;
}

static neap_status infer(neap_infer *x) {
  const neap_shape *in = &x->in[0].shape, *w = &x->in[1].shape, *b = x->n_in > 2 ? &x->in[2].shape : NULL;
  char it[96], wt[96];
  int64_t out[2];
  neap_status s;
  if ((s = one_dtype(x)) || (s = neap__need_images(x, 0, "input")) || (s = check_weight(x, in, w))) return s;
  neap__shape_text(in, it, sizeof it);
  neap__shape_text(w, wt, sizeof wt);
  if (b && (b->ndim != 1 || b->dim[0] != w->dim[0]))
    return neap__fail(x->err, NEAP_SHAPE, "bias %s, expected [%lld] for weight %s", neap__shape_text(b, it, sizeof it),
                      (long long)w->dim[0], wt);
  for (int i = 0; i < 2; i++) {
    out[i] = places(x->opt, i, in->dim[2 + i], w->dim[2 + i]);
    if (out[i] < 1)
      return neap__fail(x->err, NEAP_SHAPE,
                        "input %s is too small for weight %s with padding %lld and dilation %lld along dimension %d",
                        it, wt, (long long)x->opt[PADDING].v.list[i], (long long)x->opt[DILATION].v.list[i], 3 + i);
  }
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {in->dim[0], w->dim[0], out[0], out[1]}}};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_shape in = neap__desc_at(g, n->in[0]).shape, w = neap__desc_at(g, n->in[1]).shape;
  neap_opt opt[NEAP_MAX_OPTS];
  neap_id out[NEAP_MAX_OUT];
  if (need & 1)
    gin[0] = neap__build(g, &neap__op_conv2d_grad_input, (neap_id[]){gout[0], n->in[1]}, 2,
                         with_size(n, in.dim[2], in.dim[3], opt));
  if (!(need & 6)) return;
  neap__build_n(g, &neap__op_conv2d_grad_weight, (neap_id[]){gout[0], n->in[0]}, 2,
                with_size(n, w.dim[2], w.dim[3], opt), out);
  if (need & 2) gin[1] = out[0];
  if (need & 4) gin[2] = out[1];
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_images(n, in, out, 1);
}

/* y: the output's side, w: the weights: each output element is a product of O's share of w. */
static void work(const neap_sig *s, const neap_shape *y, const neap_shape *w, double *flops, double *bytes) {
  *flops = 2 * (double)neap__shape_count(y) * (double)w->dim[1] * (double)w->dim[2] * (double)w->dim[3];
  *bytes = 0;
  for (uint32_t i = 0; i < s->n_in; i++) *bytes += (double)neap__desc_bytes(&s->in[i].desc);
  for (uint32_t o = 0; o < s->n_out; o++) *bytes += (double)neap__desc_bytes(&s->out[o].desc);
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  work(s, &s->out[0].desc.shape, &s->in[1].desc.shape, flops, bytes);
}

static const char *const samples[] = {"f32[2,1,5,5] f32[3,1,3,3] f32[3]",
                                      "f32[2,3,6,5] f32[4,3,3,2]; padding=1",
                                      "f32[2,4,7,6] f32[6,2,3,3] f32[6]; stride=2,1; padding=1,0; groups=2",
                                      "f32[1,2,8,8] f32[3,2,3,3] f32[3]; dilation=2; padding=2",
                                      "f32[2,3,5,5] f32[3,1,3,3]; groups=3; padding=1",
                                      "f32[2,3,4,4] f32[5,3,1,1] f32[5]; stride=2",
                                      "f32[0,2,5,5] f32[3,2,3,3] f32[3]",
                                      NULL};

const neap_op neap__op_conv2d = {
    .name = "conv2d",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {CONV_OPTIONS},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "Cross-correlation of images with a kernel, as torch's conv2d: H' = (H + 2 padding - dilation (kh - 1) - 1) "
           "// stride + 1, and W' alike.",
    .example = "local images, weight = neap.ones(8, 3, 32, 32), neap.ones(16, 3, 3, 3)\n"
               "local y = neap.conv2d(images, weight, {stride = 2, padding = 1})\n"
               "print(table.concat(y.shape, \" \"))  --> 8 16 16 16\n"
               "print(y[{1, 1, {1, 2}, {1, 2}}])  --> tensor fp32 [2, 2] {{12, 18}, {18, 27}}",
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "x [N, C, H, W], weight [out, C / groups, kh, kw], bias? [out] -> [N, out, H', W']",
};

/* --- the input's gradient ------------------------------------------------------------------------------------ */

/* d: (N, O, OH, OW), w -> (N, C, H, W); the option `size` is (H, W). */
static neap_status infer_input(neap_infer *x) {
  const neap_shape *d = &x->in[0].shape, *w = &x->in[1].shape;
  const int64_t *size = x->opt[SIZE].v.list;
  char dt[96], wt[96];
  neap_status s;
  if ((s = one_dtype(x)) || (s = neap__need_images(x, 0, "gradient"))) return s;
  neap_shape in = {4, {d->dim[0], 0, size[0], size[1]}};
  if (__builtin_mul_overflow(w->dim[1], x->opt[GROUPS].v.i, &in.dim[1])) in.dim[1] = INT64_MAX;
  if ((s = check_weight(x, &in, w))) return s;
  if (d->dim[1] != w->dim[0] || d->dim[2] != places(x->opt, 0, size[0], w->dim[2]) ||
      d->dim[3] != places(x->opt, 1, size[1], w->dim[3]))
    return neap__fail(x->err, NEAP_SHAPE, "gradient %s is not that of an output of weight %s over %lld x %lld",
                      neap__shape_text(d, dt, sizeof dt), neap__shape_text(w, wt, sizeof wt), (long long)size[0],
                      (long long)size[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, in};
  return NEAP_OK;
}

static void grad_of_input(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_shape w = neap__desc_at(g, n->in[1]).shape;
  neap_opt opt[NEAP_MAX_OPTS];
  neap_id out[NEAP_MAX_OUT];
  with_size(n, w.dim[2], w.dim[3], opt);
  if (need & 2) {
    neap__build_n(g, &neap__op_conv2d_grad_weight, (neap_id[]){n->in[0], gout[0]}, 2, opt, out);
    gin[1] = out[0];
  }
  opt[SIZE] = NEAP_UNSET;
  if (need & 1) gin[0] = neap__build(g, &neap__op_conv2d, (neap_id[]){gout[0], n->in[1]}, 2, opt);
}

static void cost_input(const neap_sig *s, double *flops, double *bytes) {
  work(s, &s->in[0].desc.shape, &s->in[1].desc.shape, flops, bytes);
}

static const char *const input_samples[] = {"f32[2,3,3,3] f32[3,1,3,3]; size=5",
                                            "f32[2,4,6,6] f32[4,3,3,2]; padding=1; size=6,5",
                                            "f32[2,6,4,4] f32[6,2,3,3]; stride=2,1; padding=1,0; groups=2; size=7,6",
                                            "f32[1,3,8,8] f32[3,2,3,3]; dilation=2; padding=2; size=8",
                                            "f32[2,5,2,2] f32[5,3,1,1]; stride=2; size=4",
                                            "f32[0,3,3,3] f32[3,2,3,3]; size=5",
                                            NULL};

const neap_op neap__op_conv2d_grad_input = {
    .name = "conv2d_grad_input",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {CONV_OPTIONS, {.name = "size", .type = NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX}},
    .infer = infer_input,
    .grad = grad_of_input,
    .batch = batch,
    .cost = cost_input,
    .samples = input_samples,
    .doc = "Gradient of conv2d's input, of height and width `size`, from the output's gradient and the weight.",
};

/* --- the weight's and the bias's gradient ---------------------------------------------------------------------- */

/* d: (N, O, OH, OW), x: (N, C, H, W) -> (O, C / groups, kh, kw), (O); the option `size` is (kh, kw). */
static neap_status infer_weight(neap_infer *x) {
  const neap_shape *d = &x->in[0].shape, *in = &x->in[1].shape;
  const int64_t *size = x->opt[SIZE].v.list, groups = x->opt[GROUPS].v.i;
  char dt[96], it[96];
  neap_status s;
  if ((s = one_dtype(x)) || (s = neap__need_images(x, 0, "gradient")) || (s = neap__need_images(x, 1, "input")))
    return s;
  if (d->dim[0] != in->dim[0] || in->dim[1] % groups || d->dim[1] % groups ||
      d->dim[2] != places(x->opt, 0, in->dim[2], size[0]) || d->dim[3] != places(x->opt, 1, in->dim[3], size[1]))
    return neap__fail(x->err, NEAP_SHAPE,
                      "gradient %s is not that of an output over input %s with a %lld x %lld kernel",
                      neap__shape_text(d, dt, sizeof dt), neap__shape_text(in, it, sizeof it), (long long)size[0],
                      (long long)size[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {d->dim[1], in->dim[1] / groups, size[0], size[1]}}};
  x->out[1] = (neap_desc){x->in[0].dtype, {1, {d->dim[1]}}};
  return NEAP_OK;
}

static void grad_of_weight(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_shape in = neap__desc_at(g, n->in[1]).shape, d = neap__desc_at(g, n->in[0]).shape;
  neap_opt opt[NEAP_MAX_OPTS];
  with_size(n, in.dim[2], in.dim[3], opt);
  if ((need & 2) && gout[0] != NEAP_NONE)
    gin[1] = neap__build(g, &neap__op_conv2d_grad_input, (neap_id[]){n->in[0], gout[0]}, 2, opt);
  if (!(need & 1)) return;
  opt[SIZE] = NEAP_UNSET;
  if (gout[0] != NEAP_NONE) {
    const neap_id ids[] = {n->in[1], gout[0], gout[1]};
    gin[0] = neap__build(g, &neap__op_conv2d, ids, gout[1] != NEAP_NONE ? 3 : 2, opt);
  } else if (gout[1] != NEAP_NONE) {
    const neap_shape column = {4, {1, d.dim[1], 1, 1}};
    gin[0] = neap__expand_as(g, neap__reshape_to(g, gout[1], &column), n->in[0]);
  }
}

static neap_status batch_weight(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  const neap_status s = neap__batch_images(n, in, out, 2);
  (void)g;
  for (uint32_t o = 0; o < 2; o++)
    if (out[o].kind != NEAP_B_CONST) out[o] = (neap_batch){.kind = NEAP_B_SUM};
  return s;
}

static void cost_weight(const neap_sig *s, double *flops, double *bytes) {
  work(s, &s->in[0].desc.shape, &s->out[0].desc.shape, flops, bytes);
}

static const char *const weight_samples[] = {"f32[2,3,3,3] f32[2,1,5,5]; size=3",
                                             "f32[2,4,6,6] f32[2,3,6,5]; padding=1; size=3,2",
                                             "f32[2,6,4,4] f32[2,4,7,6]; stride=2,1; padding=1,0; groups=2; size=3",
                                             "f32[1,3,8,8] f32[1,2,8,8]; dilation=2; padding=2; size=3",
                                             "f32[11,5,2,2] f32[11,3,4,4]; stride=2; size=1",
                                             "f32[0,3,3,3] f32[0,2,5,5]; size=3",
                                             NULL};

const neap_op neap__op_conv2d_grad_weight = {
    .name = "conv2d_grad_weight",
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {CONV_OPTIONS, {.name = "size", .type = NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX}},
    .infer = infer_weight,
    .grad = grad_of_weight,
    .batch = batch_weight,
    .cost = cost_weight,
    .samples = weight_samples,
    .doc = "Gradients of conv2d's weight, of height and width `size`, and bias from the output's gradient and x.",
};
