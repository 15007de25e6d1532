/* Pooling over one and three dimensions, and to a given size, over pooling of images. */
#include "op/build.h"

static neap_opt pair(int64_t a, int64_t b) { return (neap_opt){.set = 1, .n = 2, .v.list = {a, b}}; }

static bool need_ndim(neap_graph *g, const neap_op *op, neap_id x, int32_t ndim, const char *names) {
  const neap_shape s = neap__desc_at(g, x).shape;
  char text[96];
  if (s.ndim == ndim) return true;
  neap__graph_fail(g, op, NEAP_SHAPE, "input %s, expected %d dimensions (%s)", neap__shape_text(&s, text, sizeof text),
                   ndim, names);
  return false;
}

/* --- sequences (N, C, L), as images of height 1 --- */

static neap_id over_rows(neap_graph *g, const neap_op *op, neap_id x, const neap_op *of_images, const neap_opt *opt) {
  if (!need_ndim(g, op, x, 3, "samples, channels, length")) return NEAP_NONE;
  const neap_id rows = neap__insert_dim(g, x, 2), y = neap__build(g, of_images, &rows, 1, opt);
  if (y == NEAP_NONE) return y;
  const neap_shape s = neap__desc_at(g, y).shape;
  return neap__reshape_to(g, y, &(neap_shape){3, {s.dim[0], s.dim[1], s.dim[3]}});
}

enum { KERNEL, STRIDE, PADDING };

static neap_id max1d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_opt flat[NEAP_MAX_OPTS] = {pair(1, opt[KERNEL].v.i),
                                        pair(1, opt[STRIDE].set ? opt[STRIDE].v.i : opt[KERNEL].v.i),
                                        pair(0, opt[PADDING].v.i), opt[4], pair(1, opt[3].v.i)};
  (void)n_in;
  return over_rows(g, op, in[0], &neap__op_max_pool2d, flat);
}

static neap_id avg1d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_opt flat[NEAP_MAX_OPTS] = {pair(1, opt[KERNEL].v.i),
                                        pair(1, opt[STRIDE].set ? opt[STRIDE].v.i : opt[KERNEL].v.i),
                                        pair(0, opt[PADDING].v.i), opt[3], opt[4]};
  (void)n_in;
  return over_rows(g, op, in[0], &neap__op_avg_pool2d, flat);
}

static neap_id adaptive_avg1d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return over_rows(g, op, in[0], &neap__op_adaptive_avg_pool2d, (neap_opt[NEAP_MAX_OPTS]){pair(1, opt[0].v.i)});
}

static neap_id adaptive_max1d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return over_rows(g, op, in[0], &neap__op_adaptive_max_pool2d, (neap_opt[NEAP_MAX_OPTS]){pair(1, opt[0].v.i)});
}

/* --- to a given size --- */

enum { MOST_WINDOWS = 1024 };

/* Windows along one dimension, as torch chooses them: from floor(i size / n) to ceil((i + 1) size / n). */
static neap_id adaptive_along(neap_graph *g, const neap_op *op, neap_id x, int32_t dim, int64_t n) {
  const int64_t size = neap__desc_at(g, x).shape.dim[dim], along = dim;
  neap_id parts[MOST_WINDOWS];
  if (size == n) return x;
  if (n > MOST_WINDOWS)
    return neap__graph_fail(g, op, NEAP_RANGE, "`output_size` is %lld, expected at most %d or a divisor of %lld",
                            (long long)n, MOST_WINDOWS, (long long)size);
  for (int64_t i = 0; i < n; i++) {
    const int64_t start = i * size / n, end = ((i + 1) * size + n - 1) / n;
    parts[i] = neap__reduce(g, &neap__op_max, neap__narrow_to(g, x, dim, start, end - start), &along, 1, true);
    if (parts[i] == NEAP_NONE) return NEAP_NONE;
  }
  return neap__build(g, &neap__op_cat, parts, (uint32_t)n, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim)});
}

/* The columns first, so that of equal values the first row by row is chosen. */
static neap_id adaptive_max2d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_desc x = neap__desc_at(g, in[0]);
  const int64_t *size = opt[0].v.list;
  char text[96];
  if (!neap__dtype_is_float(x.dtype))
    return neap__graph_fail(g, op, NEAP_DTYPE, "input 1 is %s, expected a floating-point dtype",
                            neap__dtype_name(x.dtype));
  if (!need_ndim(g, op, in[0], 4, "samples, channels, height, width")) return NEAP_NONE;
  if (x.shape.dim[2] < 1 || x.shape.dim[3] < 1)
    return neap__graph_fail(g, op, NEAP_SHAPE, "input %s, expected a height and a width of at least 1",
                            neap__shape_text(&x.shape, text, sizeof text));
  if (x.shape.dim[2] % size[0] == 0 && x.shape.dim[3] % size[1] == 0)
    return neap__build(g, &neap__op_max_pool2d, in, n_in,
                       (neap_opt[NEAP_MAX_OPTS]){pair(x.shape.dim[2] / size[0], x.shape.dim[3] / size[1])});
  const neap_id rows = adaptive_along(g, op, in[0], 3, size[1]);
  return rows == NEAP_NONE ? rows : adaptive_along(g, op, rows, 2, size[0]);
}

/* --- volumes (N, C, D, H, W): images of each depth, then depths of each place --- */

/* One or three whole numbers of at least `least`; NULL when given otherwise. */
static const int64_t *triple(neap_graph *g, const neap_op *op, const char *name, const neap_opt *o, int64_t least,
                             int64_t *out) {
  if (o->set && o->n != 1 && o->n != 3) {
    neap__graph_fail(g, op, NEAP_INVALID, "`%s` has %d entries, expected one or three whole numbers", name, (int)o->n);
    return NULL;
  }
  for (int i = 0; i < 3 && o->set; i++) {
    out[i] = o->v.list[o->n == 3 ? i : 0];
    if (out[i] >= least && out[i] <= INT32_MAX) continue;
    neap__graph_fail(g, op, NEAP_RANGE, "`%s` has %lld, expected %lld to %d", name, (long long)out[i], (long long)least,
                     INT32_MAX);
    return NULL;
  }
  return out;
}

typedef struct volume {
  int64_t kernel[3], stride[3], padding[3];
} volume;

static bool volume_of(neap_graph *g, const neap_op *op, const neap_opt *opt, volume *v) {
  *v = (volume){{1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  if (!triple(g, op, "kernel_size", &opt[KERNEL], 1, v->kernel)) return false;
  for (int i = 0; i < 3; i++) v->stride[i] = v->kernel[i];
  return triple(g, op, "stride", &opt[STRIDE], 1, v->stride) && triple(g, op, "padding", &opt[PADDING], 0, v->padding);
}

/* Fills in the options of pooling of images: of height and width, or of the depth. */
typedef void (*fill_fn)(const volume *v, const neap_opt *opt, bool depth, neap_opt *o);

static neap_id pool3d(neap_graph *g, const neap_op *op, neap_id x, const neap_opt *opt, const neap_op *of_images,
                      fill_fn fill) {
  volume v;
  neap_opt o[NEAP_MAX_OPTS] = {{0}};
  if (!need_ndim(g, op, x, 5, "samples, channels, depth, height, width") || !volume_of(g, op, opt, &v))
    return NEAP_NONE;
  const neap_shape s = neap__desc_at(g, x).shape;
  fill(&v, opt, false, o);
  x = neap__reshape_to(g, x, &(neap_shape){4, {s.dim[0], s.dim[1] * s.dim[2], s.dim[3], s.dim[4]}});
  x = neap__build(g, of_images, &x, 1, o);
  if (x == NEAP_NONE) return x;
  const neap_shape flat = neap__desc_at(g, x).shape;
  const int64_t h = flat.dim[2], w = flat.dim[3];
  fill(&v, opt, true, o);
  x = neap__reshape_to(g, x, &(neap_shape){4, {s.dim[0], s.dim[1], s.dim[2], h * w}});
  x = neap__build(g, of_images, &x, 1, o);
  if (x == NEAP_NONE) return x;
  return neap__reshape_to(g, x, &(neap_shape){5, {s.dim[0], s.dim[1], neap__desc_at(g, x).shape.dim[2], h, w}});
}

static void fill_window(const volume *v, bool depth, neap_opt *o) {
  o[KERNEL] = depth ? pair(v->kernel[0], 1) : pair(v->kernel[1], v->kernel[2]);
  o[STRIDE] = depth ? pair(v->stride[0], 1) : pair(v->stride[1], v->stride[2]);
  o[PADDING] = depth ? pair(v->padding[0], 0) : pair(v->padding[1], v->padding[2]);
}

static void fill_max(const volume *v, const neap_opt *opt, bool depth, neap_opt *o) {
  fill_window(v, depth, o);
  o[3] = opt[3];
  o[4] = pair(1, 1);
}

static void fill_avg(const volume *v, const neap_opt *opt, bool depth, neap_opt *o) {
  fill_window(v, depth, o);
  o[3] = opt[3];
  o[4] = opt[4];
}

static neap_id max3d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return pool3d(g, op, in[0], opt, &neap__op_max_pool2d, fill_max);
}

/* A mean over a box is the mean over its depth of the means over its faces, also where parts hang over an edge. */
static neap_id avg3d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return pool3d(g, op, in[0], opt, &neap__op_avg_pool2d, fill_avg);
}

/* --- records --- */

static const char *const max1d_samples[] = {"f32[2,3,8]:distinct; kernel_size=2",
                                            "f32[2,3,9]:distinct; kernel_size=3; stride=2; padding=1",
                                            "f32[1,2,9]:distinct; kernel_size=2; stride=2; dilation=2; ceil_mode=true",
                                            "f32[0,2,4]; kernel_size=2",
                                            "f64[1,1,5]:distinct; kernel_size=5",
                                            NULL};
static const char *const avg1d_samples[] = {
    "f32[2,3,8]; kernel_size=2",
    "f32[2,3,9]; kernel_size=3; stride=2; padding=1",
    "f32[1,2,8]; kernel_size=3; stride=2; padding=1; ceil_mode=true; count_include_pad=false",
    "f32[0,2,4]; kernel_size=2",
    "f64[1,1,5]; kernel_size=5",
    NULL};
static const char *const size1d_samples[] = {"f32[2,3,9]:distinct; output_size=3", "f32[1,2,7]:distinct; output_size=3",
                                             "f32[1,2,3]:distinct; output_size=5", "f32[0,2,5]; output_size=2",
                                             "f64[1,1,5]:distinct; output_size=2", NULL};
static const char *const size2d_samples[] = {
    "f32[2,3,6,4]:distinct; output_size=3,2", "f32[1,2,7,5]:distinct; output_size=3,2",
    "f32[1,2,2,3]:distinct; output_size=4,5", "f32[0,2,5,5]; output_size=2",
    "f64[1,1,5,5]:distinct; output_size=2",   NULL};
static const char *const max3d_samples[] = {"f32[2,2,4,4,6]:distinct; kernel_size=2",
                                            "f32[1,2,5,5,4]:distinct; kernel_size=3,2,2; stride=2,1,2; padding=1,1,0",
                                            "f32[1,1,5,4,3]:distinct; kernel_size=2; stride=2; ceil_mode=true",
                                            "f32[0,1,2,2,2]; kernel_size=2",
                                            "f64[1,1,3,3,3]:distinct; kernel_size=3",
                                            NULL};
static const char *const avg3d_samples[] = {
    "f32[2,2,4,4,6]; kernel_size=2",
    "f32[1,2,5,5,4]; kernel_size=3,2,2; stride=2,1,2; padding=1,1,0",
    "f32[1,1,5,4,3]; kernel_size=3,2,2; stride=2; padding=1; ceil_mode=true; count_include_pad=false",
    "f32[0,1,2,2,2]; kernel_size=2",
    "f64[1,1,3,3,3]; kernel_size=3",
    NULL};

#define ONE(option, value, least, what) \
  { option, NEAP_OPT_INT, .def = value, .has_default = true, .min = least, .max = INT32_MAX, .doc = what }
#define FLAG(option, value, what) \
  { option, NEAP_OPT_BOOL, .def = value, .has_default = true, .doc = what }
#define WINDOW1                                                                                           \
  {"kernel_size", NEAP_OPT_INT, .required = true, .min = 1, .max = INT32_MAX, .doc = "Of the window."}, { \
    "stride", NEAP_OPT_INT, .min = 1, .max = INT32_MAX, .doc = "Step of the window."                      \
  }
#define WINDOW3                                                              \
  {"kernel_size", NEAP_OPT_INTS, .required = true, .doc = "Of the window."}, \
      {"stride", NEAP_OPT_INTS, .doc = "Step of the window."}, {             \
    "padding", NEAP_OPT_INTS, .doc = "Zeros on both sides."                  \
  }
#define POOL(op_name, fn, cases, shapes, shown, text, ...)                                                         \
  {                                                                                                                \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1, .precision = NEAP_PREC_FOLLOW, .opts = {__VA_ARGS__},   \
    .expand = fn, .topic = NEAP_TOPIC_CONVOLUTION, .args = shapes, .example = shown, .samples = cases, .doc = text \
  }

const neap_op neap__op_max_pool1d =
    POOL("max_pool1d", max1d, max1d_samples, "input [N, C, L] -> [N, C, L']",
         "print(neap.tensor {{{1, 3, 2, 5}}}:max_pool1d(2))  --> tensor fp32 [1, 1, 2] {{{3, 5}}}",
         "The largest element of each window of sequences (samples, channels, length).", WINDOW1,
         ONE("padding", 0, 0, "Entries on both sides that are never the largest; at most half the window."),
         ONE("dilation", 1, 1, "Distance between the window's entries."),
         FLAG("ceil_mode", 0, "Whether the output's size is rounded up."));
const neap_op neap__op_avg_pool1d =
    POOL("avg_pool1d", avg1d, avg1d_samples, "input [N, C, L] -> [N, C, L']",
         "print(neap.tensor {{{1, 3, 2, 6}}}:avg_pool1d(2))  --> tensor fp32 [1, 1, 2] {{{2, 4}}}",
         "The mean of each window of sequences (samples, channels, length); padding counts unless count_include_pad is "
         "false.",
         WINDOW1, ONE("padding", 0, 0, "Zeros on both sides."),
         FLAG("ceil_mode", 0, "Whether the output's size is rounded up."),
         FLAG("count_include_pad", 1, "Whether the divisor counts the padding."));
const neap_op neap__op_max_pool3d = POOL(
    "max_pool3d", max3d, max3d_samples, "input [N, C, D, H, W] -> [N, C, D', H', W']",
    "print(table.concat(neap.max_pool3d(neap.ones(1, 2, 4, 6, 8), {2, 3, 4}).shape, \" \"))  --> 1 2 2 2 2",
    "The largest element of each window of volumes (samples, channels, depth, height, width); sizes are one number or "
    "three.",
    WINDOW3, FLAG("ceil_mode", 0, "Whether the output's size is rounded up."));
const neap_op neap__op_avg_pool3d =
    POOL("avg_pool3d", avg3d, avg3d_samples, "input [N, C, D, H, W] -> [N, C, D', H', W']",
         "print(table.concat(neap.avg_pool3d(neap.ones(1, 2, 4, 6, 8), 2).shape, \" \"))  --> 1 2 2 3 4",
         "The mean of each window of volumes (samples, channels, depth, height, width); sizes are one number or three.",
         WINDOW3, FLAG("ceil_mode", 0, "Whether the output's size is rounded up."),
         FLAG("count_include_pad", 1, "Whether the divisor counts the padding."));
const neap_op neap__op_adaptive_avg_pool1d =
    POOL("adaptive_avg_pool1d", adaptive_avg1d, size1d_samples, "input [N, C, L] -> [N, C, L']",
         "print(neap.tensor {{{1, 3, 2, 6}}}:adaptive_avg_pool1d(2))  --> tensor fp32 [1, 1, 2] {{{2, 4}}}",
         "Means of windows of sequences, chosen so that the output has length `output_size`.",
         {"output_size", NEAP_OPT_INT, .required = true, .min = 1, .max = NEAP_MOST_SIDE, .doc = "Of the result."});
const neap_op neap__op_adaptive_max_pool1d =
    POOL("adaptive_max_pool1d", adaptive_max1d, size1d_samples, "input [N, C, L] -> [N, C, L']",
         "print(neap.tensor {{{1, 3, 2}}}:adaptive_max_pool1d(2))  --> tensor fp32 [1, 1, 2] {{{3, 3}}}",
         "Largest elements of windows of sequences, chosen so that the output has length `output_size`.",
         {"output_size", NEAP_OPT_INT, .required = true, .min = 1, .max = NEAP_MOST_SIDE, .doc = "Of the result."});
const neap_op neap__op_adaptive_max_pool2d =
    POOL("adaptive_max_pool2d", adaptive_max2d, size2d_samples, "input [N, C, H, W] -> [N, C, H', W']",
         "print(table.concat(neap.adaptive_max_pool2d(neap.ones(1, 2, 7, 5), {3, 2}).shape, \" \"))  --> 1 2 3 2",
         "Largest elements of windows chosen so that the output has height and width `output_size`; NaN is largest, of "
         "equals the first gets the gradient.",
         {"output_size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = NEAP_MOST_SIDE, .doc = "Of the result."});
