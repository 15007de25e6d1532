/* Dropout: of elements, of whole channels, and the kind that keeps mean and variance. */
#include <math.h>

#include "op/build.h"

enum { P, TRAINING };

static const char *const samples[] = {"f32[3,5]; p=0.25", "f64[7]; p=0", "f32[]; p=1", "f32[0,4]", NULL};

#define DROP_OPTIONS                                                                                                \
  {.name = "p",                                                                                                     \
   .type = NEAP_OPT_FLOAT,                                                                                          \
   .def = 0.5,                                                                                                      \
   .has_default = true,                                                                                             \
   .min = 0,                                                                                                        \
   .max = 1,                                                                                                        \
   .doc = "Probability of a 0."},                                                                                   \
  {                                                                                                                 \
    .name = "training", .type = NEAP_OPT_BOOL, .def = 1, .has_default = true, .doc = "Whether anything is dropped." \
  }

static neap_id dropout(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op;
  if (!opt[TRAINING].v.i) return in[0];
  return neap__build(g, &neap__op_drop, in, n_in, opt);
}

const neap_op neap__op_dropout = {
    .name = "dropout",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {DROP_OPTIONS},
    .expand = dropout,
    .samples = samples,
    .doc = "While `training` 0 with probability `p`, else x / (1 - p) (Srivastava et al. 2014); the gradient passes "
           "where x did. Otherwise x.",
    .example = "local x = neap.dropout(neap.ones(1000), {p = 0.5})\n"
               "print(x:eq(0):logical_or(x:eq(2)):sum():item())  --> 1000",
    .topic = NEAP_TOPIC_RANDOM,
    .args = "x [...] -> [...]",
};

/* 0 with probability p, else 1 / (1 - p), in the shape of `like`. */
static neap_id mask(neap_graph *g, neap_id like, const neap_opt *opt) {
  const neap_id ones = neap__build2(g, &neap__op_expand_as, neap__const_like(g, like, 1), like);
  return neap__build(g, &neap__op_drop, &ones, 1, (neap_opt[NEAP_MAX_OPTS]){opt[P]});
}

/* x: (N, C, spatial...); each channel of each sample is dropped as a whole. */
static neap_id drop_channels(neap_graph *g, const neap_op *op, neap_id x, int32_t spatial, const neap_opt *opt) {
  const neap_desc d = neap__desc_at(g, x);
  char text[96];
  if (!neap__dtype_is_float(d.dtype))
    return neap__graph_fail(g, op, NEAP_DTYPE, "input 1 is %s, expected a floating-point dtype",
                            neap__dtype_name(d.dtype));
  if (d.shape.ndim != 2 + spatial)
    return neap__graph_fail(g, op, NEAP_SHAPE, "input %s, expected %d dimensions, the samples and channels first",
                            neap__shape_text(&d.shape, text, sizeof text), 2 + spatial);
  if (!opt[TRAINING].v.i || neap__shape_count(&d.shape) == 0) return x;
  neap_id channels = x;
  for (int32_t i = 2; i < d.shape.ndim; i++) channels = neap__narrow_to(g, channels, i, 0, 1);
  return neap__build2(g, &neap__op_mul, x, mask(g, channels, opt));
}

static neap_id dropout1d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return drop_channels(g, op, in[0], 1, opt);
}

static neap_id dropout2d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return drop_channels(g, op, in[0], 2, opt);
}

static neap_id dropout3d(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return drop_channels(g, op, in[0], 3, opt);
}

/* What is dropped becomes selu's least value, and a (x + b) brings mean and variance back to what they were. */
static neap_id alpha(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const double least = -1.7580993408473766, p = opt[P].v.f, a = 1 / sqrt((1 - p) * (1 + p * least * least));
  const neap_desc d = neap__desc_at(g, in[0]);
  (void)n_in;
  if (!neap__dtype_is_float(d.dtype))
    return neap__graph_fail(g, op, NEAP_DTYPE, "input 1 is %s, expected a floating-point dtype",
                            neap__dtype_name(d.dtype));
  if (!opt[TRAINING].v.i || p == 0) return in[0];
  if (p == 1) return neap__scale(g, in[0], 0);
  const neap_id m = mask(g, in[0], opt), kept = neap__build2(g, &neap__op_ne, m, neap__const_like(g, m, 0));
  const neap_id y = neap__build3(g, &neap__op_where, kept, in[0], neap__const_like(g, in[0], least));
  return neap__build2(g, &neap__op_add, neap__scale(g, y, a), neap__const_like(g, y, -a * p * least));
}

static const char *const samples1d[] = {
    "f32[3,5,4]; p=0.25", "f64[2,2,3]; p=0", "f32[2,1,2]; p=1", "f32[0,4,2]", "f32[2,3,4]; training=false", NULL};
static const char *const samples2d[] = {"f32[3,5,2,3]; p=0.25",
                                        "f64[2,2,1,2]; p=0",
                                        "f32[2,1,2,2]; p=1",
                                        "f32[2,4,0,1]",
                                        "f32[2,3,1,2]; training=false",
                                        NULL};
static const char *const samples3d[] = {"f32[3,5,2,3,2]; p=0.25", "f64[2,2,1,2,1]; p=0", "f32[0,1,2,2,2]; p=1", NULL};
static const char *const alpha_samples[] = {"f32[3,5]; p=0.25",         "f64[7]; p=0", "f32[3]; p=1", "f32[0,4]",
                                            "f32[2,3]; training=false", NULL};

#define DROPOUT(op_name, fn, cases, shapes, shown, text)                                         \
  {                                                                                              \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1, .opts = {DROP_OPTIONS}, .expand = fn, \
    .topic = NEAP_TOPIC_RANDOM, .args = shapes, .example = shown, .samples = cases, .doc = text  \
  }

const neap_op neap__op_dropout1d = DROPOUT(
    "dropout1d", dropout1d, samples1d, "input [N, C, L] -> [N, C, L]",
    "local x = neap.dropout1d(neap.ones(4, 8, 10), {p = 0.5}):sum(3)\n"
    "print(x:eq(0):logical_or(x:eq(20)):sum():item())  --> 32",
    "While training each channel of (samples, channels, length) 0 as a whole with probability p, else x / (1 - p).");
const neap_op neap__op_dropout2d =
    DROPOUT("dropout2d", dropout2d, samples2d, "input [N, C, H, W] -> [N, C, H, W]",
            "local x = neap.dropout2d(neap.ones(4, 8, 5, 2), {p = 0.5}):sum {dim = {3, 4}}\n"
            "print(x:eq(0):logical_or(x:eq(20)):sum():item())  --> 32",
            "While training each channel of (samples, channels, height, width) 0 as a whole with probability p, else "
            "x / (1 - p) (Tompson et al. 2015).");
const neap_op neap__op_dropout3d = DROPOUT(
    "dropout3d", dropout3d, samples3d, "input [N, C, D, H, W] -> [N, C, D, H, W]",
    "local x = neap.dropout3d(neap.ones(4, 8, 5, 2, 1), {p = 0.5}):sum {dim = {3, 4, 5}}\n"
    "print(x:eq(0):logical_or(x:eq(20)):sum():item())  --> 32",
    "While training each channel of (samples, channels, depth, height, width) 0 as a whole with probability p, else "
    "x / (1 - p).");
const neap_op neap__op_alpha_dropout = DROPOUT(
    "alpha_dropout", alpha, alpha_samples, "input [...] -> [...]",
    "local x = neap.alpha_dropout(neap.randn(100000), {p = 0.2})\n"
    "print(x:mean():abs():item() < 0.05 and (x:std() - 1):abs():item() < 0.05)  --> true",
    "While training selu's least value with probability p, scaled and shifted so that values of mean 0 and variance "
    "1 keep both (Klambauer et al. 2017).");
