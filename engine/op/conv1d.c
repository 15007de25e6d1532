/* Convolutions over two-dimensional ones: along one dimension, and transposed. */
#include "op/window.h"

enum { STRIDE, PADDING, DILATION, GROUPS, SIZE };

static neap_opt pair(int64_t a, int64_t b) { return (neap_opt){.set = 1, .n = 2, .v.list = {a, b}}; }

/* x: (N, C, L), w: (O, C / groups, k) -> (N, O, L'): as images of height 1. */
static neap_id conv1d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape x = neap__desc_at(g, in[0]).shape, w = neap__desc_at(g, in[1]).shape;
  const neap_opt flat[NEAP_MAX_OPTS] = {pair(1, opt[STRIDE].v.i), pair(0, opt[PADDING].v.i), pair(1, opt[DILATION].v.i),
                                        opt[GROUPS]};
  char xt[96], wt[96];
  if (x.ndim != 3 || w.ndim != 3)
    return neap__graph_fail(
        g, op, NEAP_SHAPE,
        "input %s and weight %s, expected (samples, channels, length) and [out, in / groups, length]",
        neap__shape_text(&x, xt, sizeof xt), neap__shape_text(&w, wt, sizeof wt));
  const neap_id rows[] = {neap__insert_dim(g, in[0], 2), neap__insert_dim(g, in[1], 2), n_in > 2 ? in[2] : NEAP_NONE};
  const neap_id y = neap__build(g, &neap__op_conv2d, rows, n_in, flat);
  const neap_shape s = neap__desc_at(g, y).shape;
  return y == NEAP_NONE ? y : neap__reshape_to(g, y, &(neap_shape){3, {s.dim[0], s.dim[1], s.dim[3]}});
}

static const char *const conv1d_samples[] = {"f32[2,3,11] f32[5,3,3] f32[5]; padding=1",
                                             "f32[2,4,9] f32[6,2,3]; stride=2; groups=2",
                                             "f32[1,2,8] f32[3,2,3] f32[3]; dilation=2; padding=2",
                                             "f64[2,1,5] f64[2,1,2] f64[2]",
                                             "f32[0,2,5] f32[3,2,3]",
                                             NULL};

const neap_op neap__op_conv1d = {
    .name = "conv1d",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .opts = {NEAP_WINDOW_OPTION("stride", INT, 1, 1, "Step of the kernel over the input."),
             NEAP_WINDOW_OPTION("padding", INT, 0, 0, "Zeros added on both sides."),
             NEAP_WINDOW_OPTION("dilation", INT, 1, 1, "Step between entries of the kernel."),
             NEAP_WINDOW_OPTION("groups", INT, 1, 1,
                                "Groups of channels that are convolved apart; in and out are multiples of it.")},
    .expand = conv1d,
    .samples = conv1d_samples,
    .doc = "Cross-correlation of sequences with a kernel, as torch's conv1d: L' = (L + 2 padding - dilation (k - 1) - "
           "1) // stride + 1.",
    .example = "print(neap.conv1d(neap.tensor {{{1, 2, 4, 8}}}, neap.tensor {{{-1, 1}}}))  --> tensor fp32 [1, 1, 3] "
               "{{{1, 2, 4}}}",
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "x [N, C, L], weight [out, C / groups, k], bias? [out] -> [N, out, L']",
};

/* --- transposed -------------------------------------------------------------------------------------------------- */

enum { T_STRIDE, T_PADDING, T_OUTPUT_PADDING, T_DILATION, T_GROUPS };

/* The height and width of which x is a convolution's output. */
static bool transposed_size(neap_graph *g, const neap_op *op, const neap_shape *x, const neap_shape *w,
                            const neap_opt *opt, int64_t *size) {
  for (int i = 0; i < 2; i++) {
    const int64_t stride = opt[T_STRIDE].v.list[i], extra = opt[T_OUTPUT_PADDING].v.list[i];
    int64_t span, kernel;
    if (extra >= stride) {
      neap__graph_fail(g, op, NEAP_RANGE, "`output_padding` is %lld, expected less than the stride of %lld",
                       (long long)extra, (long long)stride);
      return false;
    }
    if (__builtin_mul_overflow(x->dim[2 + i] - 1, stride, &span) ||
        __builtin_mul_overflow(w->dim[2 + i] - 1, opt[T_DILATION].v.list[i], &kernel) ||
        __builtin_add_overflow(span, kernel, &size[i]) || size[i] > INT32_MAX)
      size[i] = INT32_MAX;
    size[i] += extra + 1 - 2 * opt[T_PADDING].v.list[i];
    if (size[i] >= 1 && size[i] <= INT32_MAX) continue;
    neap__graph_fail(g, op, NEAP_SHAPE, "dimension %d of the output would be %lld, expected 1 to %d", 3 + i,
                     (long long)size[i], INT32_MAX);
    return false;
  }
  return true;
}

/* x: (N, C, H, W), w: (C, O / groups, kh, kw) -> (N, O, H', W'): the gradient of a convolution's input. */
static neap_id conv_transpose2d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in,
                                const neap_opt *opt) {
  const neap_shape x = neap__desc_at(g, in[0]).shape, w = neap__desc_at(g, in[1]).shape;
  char xt[96], wt[96];
  int64_t size[2] = {0, 0};
  neap__shape_text(&x, xt, sizeof xt);
  neap__shape_text(&w, wt, sizeof wt);
  if (x.ndim != 4 || w.ndim != 4 || x.dim[1] != w.dim[0])
    return neap__graph_fail(g, op, NEAP_SHAPE,
                            "input %s and weight %s, expected (samples, in, height, width) and [in, out / groups, ...]",
                            xt, wt);
  if (!transposed_size(g, op, &x, &w, opt, size)) return NEAP_NONE;
  const neap_opt flat[NEAP_MAX_OPTS] = {opt[T_STRIDE], opt[T_PADDING], opt[T_DILATION], opt[T_GROUPS],
                                        pair(size[0], size[1])};
  neap_id y = neap__build(g, &neap__op_conv2d_grad_input, in, 2, flat);
  if (y == NEAP_NONE || n_in < 3) return y;
  const neap_shape out = neap__desc_at(g, y).shape, b = neap__desc_at(g, in[2]).shape;
  if (b.ndim != 1 || b.dim[0] != out.dim[1])
    return neap__graph_fail(g, op, NEAP_SHAPE, "bias %s, expected [%lld] for weight %s",
                            neap__shape_text(&b, xt, sizeof xt), (long long)out.dim[1], wt);
  return neap__build2(g, &neap__op_add, y, neap__reshape_to(g, in[2], &(neap_shape){4, {1, b.dim[0], 1, 1}}));
}

static const char *const transpose_samples[] = {"f32[2,4,5,5] f32[4,3,3,3] f32[3]; stride=2; padding=1",
                                                "f32[1,2,3,4] f32[2,3,2,3]; stride=2; output_padding=1",
                                                "f32[2,4,3,3] f32[4,2,3,3] f32[4]; groups=2",
                                                "f32[1,2,4,4] f32[2,2,2,2]; dilation=2; padding=1",
                                                "f64[1,2,2,2] f64[2,1,2,2] f64[1]",
                                                "f32[0,2,3,3] f32[2,3,2,2] f32[3]",
                                                NULL};

const neap_op neap__op_conv_transpose2d = {
    .name = "conv_transpose2d",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .opts = {NEAP_WINDOW_OPTION("stride", PAIR, 1, 1, "Step of the kernel over the result."),
             NEAP_WINDOW_OPTION("padding", PAIR, 0, 0, "Cut from both sides of the result."),
             NEAP_WINDOW_OPTION("output_padding", PAIR, 0, 0, "Added to one side of the result; less than the stride."),
             NEAP_WINDOW_OPTION("dilation", PAIR, 1, 1, "Step between entries of the kernel."),
             NEAP_WINDOW_OPTION("groups", INT, 1, 1,
                                "Groups of channels that are convolved apart; in and out are multiples of it.")},
    .expand = conv_transpose2d,
    .samples = transpose_samples,
    .doc = "Transposed convolution, as torch's conv_transpose2d: the gradient of conv2d's input, so that H' = (H - 1) "
           "stride - 2 padding + dilation (kh - 1) + output_padding + 1, and W' alike.",
    .example =
        "local x, weight = neap.ones(8, 16, 7, 7), neap.ones(16, 4, 4, 4)\n"
        "print(table.concat(neap.conv_transpose2d(x, weight, {stride = 2, padding = 1}).shape, \" \"))  --> 8 4 14 14",
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "x [N, C, H, W], weight [C, out / groups, kh, kw], bias? [out] -> [N, out, H', W']",
};

/* x: (N, C, L), w: (C, O / groups, k) -> (N, O, L'): as images of height 1. */
static neap_id conv_transpose1d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in,
                                const neap_opt *opt) {
  const neap_shape x = neap__desc_at(g, in[0]).shape, w = neap__desc_at(g, in[1]).shape;
  const neap_opt flat[NEAP_MAX_OPTS] = {pair(1, opt[T_STRIDE].v.i), pair(0, opt[T_PADDING].v.i),
                                        pair(0, opt[T_OUTPUT_PADDING].v.i), pair(1, opt[T_DILATION].v.i),
                                        opt[T_GROUPS]};
  char xt[96], wt[96];
  if (x.ndim != 3 || w.ndim != 3)
    return neap__graph_fail(g, op, NEAP_SHAPE,
                            "input %s and weight %s, expected (samples, in, length) and [in, out / groups, length]",
                            neap__shape_text(&x, xt, sizeof xt), neap__shape_text(&w, wt, sizeof wt));
  const neap_id rows[] = {neap__insert_dim(g, in[0], 2), neap__insert_dim(g, in[1], 2), n_in > 2 ? in[2] : NEAP_NONE};
  const neap_id y = neap__build(g, &neap__op_conv_transpose2d, rows, n_in, flat);
  if (y == NEAP_NONE) return y;
  const neap_shape s = neap__desc_at(g, y).shape;
  return neap__reshape_to(g, y, &(neap_shape){3, {s.dim[0], s.dim[1], s.dim[3]}});
}

static const char *const transpose1d_samples[] = {"f32[2,4,5] f32[4,3,3] f32[3]; stride=2; padding=1",
                                                  "f32[1,2,4] f32[2,3,3]; stride=2; output_padding=1",
                                                  "f32[2,4,3] f32[4,2,3] f32[4]; groups=2",
                                                  "f32[1,2,4] f32[2,2,2]; dilation=2; padding=1",
                                                  "f64[1,2,2] f64[2,1,2] f64[1]",
                                                  "f32[0,2,3] f32[2,3,2]",
                                                  NULL};

const neap_op neap__op_conv_transpose1d = {
    .name = "conv_transpose1d",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .opts = {{"stride", NEAP_OPT_INT, .def = 1, .has_default = true, .min = 1, .max = INT32_MAX,
              .doc = "Step of the window."},
             {"padding", NEAP_OPT_INT, .def = 0, .has_default = true, .min = 0, .max = INT32_MAX,
              .doc = "Zeros on both sides."},
             {"output_padding", NEAP_OPT_INT, .def = 0, .has_default = true, .min = 0, .max = INT32_MAX,
              .doc = "More entries at the far end, less than the stride."},
             {"dilation", NEAP_OPT_INT, .def = 1, .has_default = true, .min = 1, .max = INT32_MAX,
              .doc = "Distance between the window's entries."},
             {"groups", NEAP_OPT_INT, .def = 1, .has_default = true, .min = 1, .max = INT32_MAX,
              .doc = "Parts that the channels are cut into, which do not see each other."}},
    .expand = conv_transpose1d,
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "input [N, C, L], weight [C, O / groups, k], bias? [O] -> [N, O, L']",
    .samples = transpose1d_samples,
    .doc = "Transposed convolution of sequences with a kernel [in, out / groups, length], as torch's conv_transpose1d.",
    .example = "local x, w = neap.tensor {{{1, 2}}}, neap.ones(1, 1, 2)\n"
               "print(neap.conv_transpose1d(x, w, {stride = 2}))  --> tensor fp32 [1, 1, 4] {{{1, 1, 2, 2}}}",
};
