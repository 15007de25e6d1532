/* Images of another height and width: adaptive average pooling and interpolation. Each is a linear map along either
 * dimension, so they share one op whose kernel has the weights of each output's inputs, and whose gradient has the
 * same weights the other way round.
 *
 * x: (N, C, H, W) -> y: (N, C, OH, OW) */
#include <math.h>

#include "op/window.h"

enum { MODE, SIZE, FROM, CORNERS, SCALE_H, SCALE_W };

#define RESAMPLE_OPTIONS                                                                           \
  {.name = "mode", .type = NEAP_OPT_CHOICE, .required = true, .choices = "area|nearest|bilinear"}, \
      {.name = "size",                                                                             \
       .type = NEAP_OPT_PAIR,                                                                      \
       .required = true,                                                                           \
       .min = 1,                                                                                   \
       .max = NEAP_MOST_SIDE,                                                                      \
       .doc = "Height and width of the result."},                                                  \
      {.name = "from", .type = NEAP_OPT_PAIR, .min = 1, .max = INT32_MAX},                         \
      {.name = "align_corners",                                                                    \
       .type = NEAP_OPT_BOOL,                                                                      \
       .def = 0,                                                                                   \
       .has_default = true,                                                                        \
       .doc = "Whether the corners' centres stay where they are, rather than the image's edges."}, \
      {.name = "scale_h", .type = NEAP_OPT_FLOAT}, {                                               \
    .name = "scale_w", .type = NEAP_OPT_FLOAT                                                      \
  }

static neap_status infer(neap_infer *x) {
  const neap_shape *in = &x->in[0].shape;
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "input"))) return s;
  x->opt[FROM] = (neap_opt){.set = 1, .n = 2, .v.list = {in->dim[2], in->dim[3]}};
  const int64_t *size = x->opt[SIZE].v.list;
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {in->dim[0], in->dim[1], size[0], size[1]}}};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__build(g, &neap__op_resample2d_grad, gout, 1, n->opt);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_images(n, in, out, 1);
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  const double in = (double)neap__shape_count(&s->in[0].desc.shape),
               out = (double)neap__shape_count(&s->out[0].desc.shape);
  *flops = 4 * (in + out);
  *bytes = (double)(neap__desc_bytes(&s->in[0].desc) + neap__desc_bytes(&s->out[0].desc));
}

static const char *const node_samples[] = {"f32[2,3,5,7]; mode=area; size=2,3", "f32[1,2,3,4]; mode=nearest; size=5,9",
                                           "f32[1,2,3,4]; mode=bilinear; size=6,5; align_corners=true",
                                           "f32[0,2,3,4]; mode=bilinear; size=6", NULL};

const neap_op neap__op_resample2d = {
    .name = "resample2d",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {RESAMPLE_OPTIONS},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = node_samples,
    .doc = "Images brought to another size, each place the weighted mean of places of the input.",
};

/* d: (N, C, OH, OW) -> (N, C, H, W), which the option `from` is. */
static neap_status infer_grad(neap_infer *x) {
  const neap_shape *d = &x->in[0].shape;
  const int64_t *size = x->opt[SIZE].v.list, *from = x->opt[FROM].v.list;
  char text[96];
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "gradient"))) return s;
  if (d->dim[2] != size[0] || d->dim[3] != size[1] || !x->opt[FROM].set)
    return neap__fail(x->err, NEAP_SHAPE, "gradient %s, expected images of %lld x %lld",
                      neap__shape_text(d, text, sizeof text), (long long)size[0], (long long)size[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {d->dim[0], d->dim[1], from[0], from[1]}}};
  return NEAP_OK;
}

static void grad_grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__build(g, &neap__op_resample2d, gout, 1, n->opt);
}

static const char *const grad_samples[] = {"f32[2,3,2,3]; mode=area; size=2,3; from=5,7",
                                           "f32[1,2,5,9]; mode=nearest; size=5,9; from=3,4",
                                           "f32[1,2,6,5]; mode=bilinear; size=6,5; from=3,4; align_corners=true", NULL};

const neap_op neap__op_resample2d_grad = {
    .name = "resample2d_grad",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {RESAMPLE_OPTIONS},
    .infer = infer_grad,
    .grad = grad_grad,
    .batch = batch,
    .cost = cost,
    .samples = grad_samples,
    .doc = "Gradient of resample2d's input, of height and width `from`.",
};

/* --- what scripts use -------------------------------------------------------------------------------------------- */

/* Windows that all have one size are those of avg_pool2d. */
static neap_id adaptive(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape x = neap__desc_at(g, in[0]).shape;
  const int64_t *size = opt[0].v.list;
  (void)op;
  if (x.ndim == 4 && x.dim[2] > 0 && x.dim[3] > 0 && x.dim[2] % size[0] == 0 && x.dim[3] % size[1] == 0) {
    const neap_opt kernel = {.set = 1, .n = 2, .v.list = {x.dim[2] / size[0], x.dim[3] / size[1]}};
    return neap__build(g, &neap__op_avg_pool2d, in, n_in, (neap_opt[NEAP_MAX_OPTS]){kernel});
  }
  return neap__build(g, &neap__op_resample2d, in, n_in, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(0), opt[0]});
}

static const char *const adaptive_samples[] = {"f32[2,3,9,8]; output_size=1",
                                               "f32[2,3,6,4]; output_size=3,2",
                                               "f32[1,2,7,5]; output_size=3,2",
                                               "f32[1,2,2,3]; output_size=4,5",
                                               "f64[1,1,5,5]; output_size=2",
                                               "f32[0,2,5,5]; output_size=2",
                                               NULL};

const neap_op neap__op_adaptive_avg_pool2d = {
    .name = "adaptive_avg_pool2d",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "output_size",
              .type = NEAP_OPT_PAIR,
              .required = true,
              .min = 1,
              .max = NEAP_MOST_SIDE,
              .doc = "Height and width of the result."}},
    .expand = adaptive,
    .samples = adaptive_samples,
    .doc = "Means of windows chosen so that the result has height and width `output_size`, as torch's "
           "adaptive_avg_pool2d; 1 is the mean of each channel.",
    .example = "local x = neap.arange(0, 16):to(\"fp32\"):reshape(1, 1, 4, 4)\n"
               "print(x:adaptive_avg_pool2d(1))  --> tensor fp32 [1, 1, 1, 1] {{{{7.5}}}}",
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "x [N, C, H, W] -> [N, C, H', W']",
};

/* Options `size` and `scale_factor`, of which one is given; with a factor, places are computed from it. */
static neap_id upsample(neap_graph *g, const neap_op *op, const neap_id *in, int64_t mode, const neap_opt *size,
                        const neap_opt *factor, const neap_opt *corners) {
  const neap_shape x = neap__desc_at(g, in[0]).shape;
  neap_opt o[NEAP_MAX_OPTS] = {NEAP_INT(mode), *size, NEAP_UNSET, NEAP_INT(corners ? corners->v.i : 0)};
  if (size->set == factor->set)
    return neap__graph_fail(g, op, NEAP_INVALID, "%s `size` and `scale_factor`, expected one of the two",
                            size->set ? "both" : "neither of");
  if (factor->set) {
    o[SIZE] = (neap_opt){.set = 1, .n = 2};
    o[SCALE_H] = o[SCALE_W] = NEAP_FLOAT(1 / factor->v.f);
    for (int i = 0; i < 2; i++) {
      const double length = floor((double)(x.ndim == 4 ? x.dim[2 + i] : 1) * factor->v.f);
      if (!(length >= 1 && length <= NEAP_MOST_SIDE))
        return neap__graph_fail(g, op, NEAP_RANGE, "`scale_factor` is %g, which makes %g of dimension %d", factor->v.f,
                                length, 3 + i);
      o[SIZE].v.list[i] = (int64_t)length;
    }
  }
  return neap__build(g, &neap__op_resample2d, in, 1, o);
}

static neap_id nearest(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return upsample(g, op, in, 1, &opt[0], &opt[1], NULL);
}

static neap_id bilinear(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return upsample(g, op, in, 2, &opt[0], &opt[1], &opt[2]);
}

#define UPSAMPLE_OPTIONS                                                                                              \
  {.name = "size", .type = NEAP_OPT_PAIR, .min = 1, .max = NEAP_MOST_SIDE, .doc = "Height and width of the result."}, \
  {                                                                                                                   \
    .name = "scale_factor", .type = NEAP_OPT_FLOAT, .min = 1e-6, .max = 1e9,                                          \
    .doc = "How many times larger, in place of `size`."                                                               \
  }

static const char *const nearest_samples[] = {"f32[1,2,3,4]; scale_factor=2",   "f32[2,1,3,4]; size=5,9",
                                              "f32[1,2,5,5]; scale_factor=0.6", "f64[1,1,2,2]; size=3",
                                              "f32[0,2,3,3]; scale_factor=2",   NULL};

const neap_op neap__op_upsample_nearest2d = {
    .name = "upsample_nearest2d",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {UPSAMPLE_OPTIONS},
    .expand = nearest,
    .samples = nearest_samples,
    .doc = "Images of another size by the nearest place of the input, as torch's interpolate with mode nearest: place "
           "i is i H / H' rounded down.",
    .example = "print(neap.tensor {{{{1, 2}}}}:upsample_nearest2d {scale_factor = 2})  --> tensor fp32 [1, 1, 2, 4] "
               "{{{{1, 1, 2, 2}, {1, 1, 2, 2}}}}",
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "x [N, C, H, W] -> [N, C, H', W']",
};

static const char *const bilinear_samples[] = {"f32[1,2,3,4]; scale_factor=2",
                                               "f32[2,1,3,4]; size=5,9; align_corners=true",
                                               "f32[1,2,5,5]; scale_factor=0.6",
                                               "f32[1,1,4,4]; size=1; align_corners=true",
                                               "f64[1,1,2,2]; size=3",
                                               "f32[0,2,3,3]; scale_factor=2",
                                               NULL};

const neap_op neap__op_upsample_bilinear2d = {
    .name = "upsample_bilinear2d",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {UPSAMPLE_OPTIONS,
             {.name = "align_corners",
              .type = NEAP_OPT_BOOL,
              .def = 0,
              .has_default = true,
              .doc = "Whether the corners' centres stay where they are, rather than the image's edges."}},
    .expand = bilinear,
    .samples = bilinear_samples,
    .doc = "Images of another size by linear interpolation, as torch's interpolate with mode bilinear.",
    .example = "print(neap.tensor {{{{0, 4}}}}:upsample_bilinear2d {size = {1, 4}})  --> tensor fp32 [1, 1, 1, 4] "
               "{{{{0, 1, 3, 4}}}}",
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "x [N, C, H, W] -> [N, C, H', W']",
};

/* --- any of them, by mode --- */

enum { I_SIZE, I_FACTOR, I_MODE, I_CORNERS };
enum { NEAREST, LINEAR, BILINEAR, AREA };

/* (N, C, L) as images of height 1, and their sizes. */
static neap_id resample_rows(neap_graph *g, neap_id x, int64_t mode, const neap_opt *opt) {
  const neap_id rows = neap__insert_dim(g, x, 2);
  const int64_t from = neap__desc_at(g, rows).shape.dim[3];
  neap_opt o[NEAP_MAX_OPTS] = {NEAP_INT(mode), opt[I_SIZE], NEAP_UNSET, opt[I_CORNERS]};
  if (opt[I_FACTOR].set) {
    const double length = floor((double)from * opt[I_FACTOR].v.f);
    if (!(length >= 1 && length <= NEAP_MOST_SIDE))
      return neap__graph_fail(g, &neap__op_interpolate, NEAP_RANGE, "`scale_factor` is %g, which makes %g of %lld",
                              opt[I_FACTOR].v.f, length, (long long)from);
    o[SIZE] = (neap_opt){.set = 1, .n = 2, .v.list = {1, (int64_t)length}};
    if (mode != 0) o[SCALE_W] = NEAP_FLOAT(1 / opt[I_FACTOR].v.f);
  }
  o[SIZE].v.list[0] = 1;
  const neap_id y = neap__build(g, &neap__op_resample2d, &rows, 1, o);
  if (y == NEAP_NONE) return y;
  const neap_shape s = neap__desc_at(g, y).shape;
  return neap__reshape_to(g, y, &(neap_shape){3, {s.dim[0], s.dim[1], s.dim[3]}});
}

static neap_id area(neap_graph *g, const neap_op *op, const neap_id *in, const neap_opt *opt) {
  const neap_shape x = neap__desc_at(g, in[0]).shape;
  neap_opt size = opt[I_SIZE];
  for (int i = 0; i < 2 && opt[I_FACTOR].set; i++) {
    const double length = floor((double)x.dim[2 + i] * opt[I_FACTOR].v.f);
    if (!(length >= 1 && length <= NEAP_MOST_SIDE))
      return neap__graph_fail(g, op, NEAP_RANGE, "`scale_factor` is %g, which makes %g of dimension %d",
                              opt[I_FACTOR].v.f, length, 3 + i);
    size = (neap_opt){.set = 1, .n = 2, .v.list = {i ? size.v.list[0] : (int64_t)length, (int64_t)length}};
  }
  return neap__build(g, &neap__op_adaptive_avg_pool2d, in, 1, (neap_opt[NEAP_MAX_OPTS]){size});
}

static neap_id interpolate(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  static const int64_t resample_mode[] = {1, 2, 2, 0};
  const neap_shape x = neap__desc_at(g, in[0]).shape;
  const int64_t mode = opt[I_MODE].v.i;
  char text[96];
  (void)n_in;
  if ((mode == LINEAR && x.ndim != 3) || (mode == BILINEAR && x.ndim != 4) || x.ndim < 3 || x.ndim > 4)
    return neap__graph_fail(
        g, op, NEAP_SHAPE,
        "input %s, expected (samples, channels, length) for `mode` linear, (samples, channels, height, "
        "width) for bilinear, one of them for others",
        neap__shape_text(&x, text, sizeof text));
  if (opt[I_CORNERS].set && opt[I_CORNERS].v.i && (mode == NEAREST || mode == AREA))
    return neap__graph_fail(g, op, NEAP_INVALID, "`align_corners` is for the modes linear and bilinear");
  if (opt[I_SIZE].set == opt[I_FACTOR].set)
    return neap__graph_fail(g, op, NEAP_INVALID, "%s `size` and `scale_factor`, expected one of the two",
                            opt[I_SIZE].set ? "both" : "neither of");
  if (x.ndim == 3 && opt[I_SIZE].set && opt[I_SIZE].v.list[0] != opt[I_SIZE].v.list[1])
    return neap__graph_fail(g, op, NEAP_INVALID, "`size` has two entries, expected one length");
  if (x.ndim == 3) return resample_rows(g, in[0], resample_mode[mode], opt);
  if (mode == AREA) return area(g, op, in, opt);
  return upsample(g, op, in, resample_mode[mode], &opt[I_SIZE], &opt[I_FACTOR], &opt[I_CORNERS]);
}

static const char *const interpolate_samples[] = {"f32[1,2,3,4]; scale_factor=2",
                                                  "f32[2,1,3,4]; size=5,9; mode=bilinear; align_corners=true",
                                                  "f32[1,2,5,5]; scale_factor=0.6; mode=bilinear",
                                                  "f32[1,2,7,5]; size=3,2; mode=area",
                                                  "f32[2,3,5]; size=8; mode=linear",
                                                  "f32[2,3,7]; scale_factor=1.5",
                                                  "f32[1,2,7]; size=3; mode=area",
                                                  "f64[1,1,4]; scale_factor=0.7; mode=linear",
                                                  "f32[0,2,3,3]; scale_factor=2",
                                                  NULL};

const neap_op neap__op_interpolate = {
    .name = "interpolate",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {UPSAMPLE_OPTIONS,
             {.name = "mode",
              .type = NEAP_OPT_CHOICE,
              .def = NEAREST,
              .has_default = true,
              .choices = "nearest|linear|bilinear|area",
              .doc = "How values between places come about."},
             {.name = "align_corners",
              .type = NEAP_OPT_BOOL,
              .def = 0,
              .has_default = true,
              .doc = "Whether corners fall on corners, for linear modes."}},
    .expand = interpolate,
    .topic = NEAP_TOPIC_CONVOLUTION,
    .args = "input [N, C, ...] -> [N, C, ...]",
    .samples = interpolate_samples,
    .doc =
        "Sequences (samples, channels, length) or images of another `size`, or `scale_factor` times as large, by the "
        "nearest place, linear interpolation or means over areas, as torch's interpolate.",
    .example = "print(neap.tensor {{{1, 3}}}:interpolate {size = 4, mode = \"linear\"})  --> tensor fp32 [1, 1, 4] "
               "{{{1, 1.5, 2.5, 3}}}",
};
