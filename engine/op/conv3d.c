/* Convolution over three dimensions as one over images: windows along the depth become channels, and the depths of the
 * output samples. One product does all the work, at the price of a copy of the input for each step of the kernel's
 * depth. */
#include "op/build.h"

enum { STRIDE, PADDING, DILATION, GROUPS };

static neap_opt pair(int64_t a, int64_t b) { return (neap_opt){.set = 1, .n = 2, .v.list = {a, b}}; }

static bool triple(neap_graph *g, const neap_op *op, const char *name, const neap_opt *o, int64_t least, int64_t *out) {
  for (int i = 0; i < 3; i++) {
    if (o->set && (o->n == 1 || o->n == 3)) out[i] = o->v.list[o->n == 3 ? i : 0];
    if (o->set && o->n != 1 && o->n != 3)
      neap__graph_fail(g, op, NEAP_INVALID, "`%s` has %d entries, expected one or three whole numbers", name,
                       (int)o->n);
    else if (out[i] < least || out[i] > INT32_MAX)
      neap__graph_fail(g, op, NEAP_RANGE, "`%s` has %lld, expected %lld to %d", name, (long long)out[i],
                       (long long)least, INT32_MAX);
    else
      continue;
    return false;
  }
  return true;
}

/* (N, C, D, H, W) -> (N D', C kd, H, W) */
static neap_id depth_windows(neap_graph *g, neap_id x, int64_t kd, const int64_t *stride, const int64_t *padding,
                             const int64_t *dilation) {
  const neap_shape s = neap__desc_at(g, x).shape;
  const int64_t plane = s.dim[3] * s.dim[4];
  const neap_opt o[NEAP_MAX_OPTS] = {pair(kd, 1), pair(dilation[0], 1), pair(padding[0], 0), pair(stride[0], 1)};
  x = neap__reshape_to(g, x, &(neap_shape){4, {s.dim[0], s.dim[1], s.dim[2], plane}});
  x = neap__build(g, &neap__op_unfold, &x, 1, o);
  if (x == NEAP_NONE) return x;
  const int64_t rows = s.dim[1] * kd, depth = neap__desc_at(g, x).shape.dim[2] / plane;
  x = neap__reshape_to(g, x, &(neap_shape){4, {s.dim[0], rows, depth, plane}});
  x = neap__permute_by(g, x, (const int64_t[]){0, 2, 1, 3}, 4);
  return neap__reshape_to(g, x, &(neap_shape){4, {s.dim[0] * depth, rows, s.dim[3], s.dim[4]}});
}

/* x: (N, C, D, H, W), w: (O, C / groups, kd, kh, kw) -> (N, O, D', H', W') */
static neap_id conv3d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape x = neap__desc_at(g, in[0]).shape, w = neap__desc_at(g, in[1]).shape;
  int64_t stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  char xt[96], wt[96];
  bool sized = x.ndim == 5 && w.ndim == 5;
  for (int32_t d = 2; d < 5 && sized; d++) sized = x.dim[d] > 0 && w.dim[d] > 0;
  if (!sized)
    return neap__graph_fail(g, op, NEAP_SHAPE,
                            "input %s and weight %s, expected (samples, channels, depth, height, width) and "
                            "[out, in / groups, depth, height, width] with sizes of at least 1",
                            neap__shape_text(&x, xt, sizeof xt), neap__shape_text(&w, wt, sizeof wt));
  if (!triple(g, op, "stride", &opt[STRIDE], 1, stride) || !triple(g, op, "padding", &opt[PADDING], 0, padding) ||
      !triple(g, op, "dilation", &opt[DILATION], 1, dilation))
    return NEAP_NONE;
  const neap_opt flat[NEAP_MAX_OPTS] = {pair(stride[1], stride[2]), pair(padding[1], padding[2]),
                                        pair(dilation[1], dilation[2]), opt[GROUPS]};
  const neap_id images[] = {
      depth_windows(g, in[0], w.dim[2], stride, padding, dilation),
      neap__reshape_to(g, in[1], &(neap_shape){4, {w.dim[0], w.dim[1] * w.dim[2], w.dim[3], w.dim[4]}}),
      n_in > 2 ? in[2] : NEAP_NONE};
  if (images[0] == NEAP_NONE) return NEAP_NONE;
  const int64_t extent = (w.dim[2] - 1) * dilation[0] + 1, depth = (x.dim[2] + 2 * padding[0] - extent) / stride[0] + 1;
  neap_id y = neap__build(g, &neap__op_conv2d, images, n_in, flat);
  if (y == NEAP_NONE) return y;
  const neap_shape s = neap__desc_at(g, y).shape;
  y = neap__reshape_to(g, y, &(neap_shape){5, {x.dim[0], depth, s.dim[1], s.dim[2], s.dim[3]}});
  return neap__permute_by(g, y, (const int64_t[]){0, 2, 1, 3, 4}, 5);
}

static const char *const samples[] = {"f32[2,2,4,5,4] f32[3,2,2,3,2] f32[3]; padding=1",
                                      "f32[1,4,5,4,4] f32[6,2,3,2,2]; stride=2,1,2; groups=2",
                                      "f32[1,1,5,5,5] f32[2,1,2,2,2] f32[2]; dilation=2,1,2; padding=1,0,1",
                                      "f64[1,1,2,3,2] f64[2,1,2,1,2]",
                                      "f32[0,2,3,3,3] f32[2,2,2,2,2]",
                                      NULL};

const neap_op neap__op_conv3d = {
    .name = "conv3d",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .opts = {{"stride", NEAP_OPT_INTS, .doc = "Step of the window."},
             {"padding", NEAP_OPT_INTS, .doc = "Zeros on both sides."},
             {"dilation", NEAP_OPT_INTS, .doc = "Distance between the window's entries."},
             {"groups", NEAP_OPT_INT, .def = 1, .has_default = true, .min = 1, .max = INT32_MAX,
              .doc = "Parts that the channels are cut into, which do not see each other."}},
    .expand = conv3d,
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "input [N, C, D, H, W], weight [O, C / groups, kd, kh, kw], bias? [O] -> [N, O, D', H', W']",
    .samples = samples,
    .doc = "Cross-correlation of volumes (samples, channels, depth, height, width) with a kernel [out, in / groups, "
           "depth, "
           "height, width]; `stride` (1), `padding` (0) and `dilation` (1) are one number or three.",
    .example = "local x, w = neap.ones(1, 3, 8, 8, 8), neap.ones(4, 3, 3, 3, 3)\n"
               "print(table.concat(neap.conv3d(x, w, {stride = {2, 1, 1}}).shape, \" \"))  --> 1 4 3 6 6",
};
