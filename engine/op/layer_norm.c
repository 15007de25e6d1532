/* Normalization within each sample, as torch.nn.functional has it: composites over standardize. */
#include <float.h>

#include "op/build.h"

/* standardize's options. */
static neap_id normalize(neap_graph *g, const neap_id *in, uint32_t n_in, int64_t dims, int64_t groups, double eps,
                         bool center) {
  return neap__build(g, &neap__op_standardize, in, n_in,
                     (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dims), NEAP_INT(groups), NEAP_FLOAT(eps), NEAP_INT(center)});
}

/* How many of the last dimensions of x are normalized: those of `normalized_shape`, else of the weight, else
 * one. -1 after a failure. */
static int64_t trailing(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *shape) {
  const neap_shape x = neap__desc_at(g, in[0]).shape;
  neap_shape want = {.ndim = 1, .dim = {x.ndim > 0 ? x.dim[x.ndim - 1] : 1}}, last = {.ndim = 0};
  char xt[96], wt[96];
  if (n_in > 1) want = neap__desc_at(g, in[1]).shape;
  if (shape->set) want = neap__opt_shape(shape);
  for (int32_t i = x.ndim > want.ndim ? x.ndim - want.ndim : 0; i < x.ndim; i++) last.dim[last.ndim++] = x.dim[i];
  if (want.ndim > 0 && neap__shape_equal(&last, &want)) return want.ndim;
  neap__graph_fail(g, op, NEAP_SHAPE, "input %s does not end in the normalized shape %s",
                   neap__shape_text(&x, xt, sizeof xt), neap__shape_text(&want, wt, sizeof wt));
  return -1;
}

static neap_id layer_norm(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int64_t dims = trailing(g, op, in, n_in, &opt[0]);
  return dims < 0 ? NEAP_NONE : normalize(g, in, n_in, dims, 0, opt[1].v.f, true);
}

static neap_id rms_norm(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int64_t dims = trailing(g, op, in, n_in, &opt[0]);
  const bool wide = neap__desc_at(g, in[0]).dtype == NEAP_F64;
  const double eps = opt[1].set ? opt[1].v.f : wide ? DBL_EPSILON : (double)FLT_EPSILON;
  return dims < 0 ? NEAP_NONE : normalize(g, in, n_in, dims, 0, eps, false);
}

static neap_id group_norm(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op;
  return normalize(g, in, n_in, 1, opt[0].v.i, opt[1].v.f, true);
}

static neap_id instance_norm(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape x = neap__desc_at(g, in[0]).shape;
  char text[96];
  if (x.ndim < 3)
    return neap__graph_fail(g, op, NEAP_SHAPE, "input %s, expected at least 3 dimensions (samples, channels, ...)",
                            neap__shape_text(&x, text, sizeof text));
  if (x.dim[1] == 0) return in[0];
  return normalize(g, in, n_in, 1, x.dim[1], opt[0].v.f, true);
}

#define EPS                                                                                            \
  {                                                                                                    \
    .name = "eps", .type = NEAP_OPT_FLOAT, .def = 1e-5, .has_default = true, .min = 0, .max = DBL_MAX, \
    .doc = "Added to the variance before the root."                                                    \
  }
#define NORMALIZED_SHAPE                                                \
  {                                                                     \
    .name = "normalized_shape", .type = NEAP_OPT_INTS,                  \
    .doc = "Sizes of the last dimensions that are normalized together." \
  }

static const char *const layer_samples[] = {"f32[4,8] f32[8] f32[8]",
                                            "f32[2,3,4] f32[3,4]; eps=0.001",
                                            "f32[2,5]; normalized_shape=5",
                                            "f32[2,70] f32[70] f32[70]",
                                            "f64[3,2] f64[2] f64[2]",
                                            "f32[0,4] f32[4] f32[4]",
                                            NULL};

const neap_op neap__op_layer_norm = {
    .name = "layer_norm",
    .min_in = 1,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_KEEP,
    .opts = {NORMALIZED_SHAPE, EPS},
    .expand = layer_norm,
    .samples = layer_samples,
    .doc = "The last dimensions (those of `normalized_shape`, else of the weight, else one) brought to mean 0 and "
           "variance 1, times weight, plus bias (Ba et al. 2016): (x - mean) / sqrt(var + eps), var over the count.",
    .example =
        "print(neap.layer_norm(neap.tensor {{1, 3}, {8, 24}}, {eps = 0}))  --> tensor fp32 [2, 2] {{-1, 1}, {-1, 1}}",
    .topic = NEAP_TOPIC_NORMALIZATION,
    .args = "x [..., normalized], weight? [normalized], bias? [normalized] -> [..., normalized]",
};

static const char *const rms_samples[] = {
    "f32[4,8] f32[8]", "f32[2,3,4] f32[3,4]; eps=0.001", "f32[2,5]", "f64[3,2] f64[2]", "f32[0,4] f32[4]", NULL};

const neap_op neap__op_rms_norm = {
    .name = "rms_norm",
    .min_in = 1,
    .max_in = 2,
    .n_out = 1,
    .precision = NEAP_PREC_KEEP,
    .opts = {NORMALIZED_SHAPE,
             {.name = "eps",
              .type = NEAP_OPT_FLOAT,
              .min = 0,
              .max = DBL_MAX,
              .doc = "Added to the mean square before the root; the dtype's machine epsilon when left out."}},
    .expand = rms_norm,
    .samples = rms_samples,
    .doc = "The last dimensions divided by their root mean square, sqrt(mean(x^2) + eps), times weight (Zhang and "
           "Sennrich 2019).",
    .example =
        "print(neap.rms_norm(neap.tensor {{4, 4}, {-2, 2}}, {eps = 0}))  --> tensor fp32 [2, 2] {{1, 1}, {-1, 1}}",
    .topic = NEAP_TOPIC_NORMALIZATION,
    .args = "x [..., normalized], weight? [normalized] -> [..., normalized]",
};

static const char *const group_samples[] = {
    "f32[2,8,3,3] f32[8] f32[8]; groups=2", "f32[2,6,5] f32[6]; groups=3",        "f32[3,4]; groups=4",
    "f64[2,4,2,2] f64[4] f64[4]; groups=1", "f32[0,4,2] f32[4] f32[4]; groups=2", NULL};

const neap_op neap__op_group_norm = {
    .name = "group_norm",
    .min_in = 1,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_KEEP,
    .opts = {{.name = "groups",
              .type = NEAP_OPT_INT,
              .required = true,
              .min = 1,
              .max = INT32_MAX,
              .doc = "Number of groups; C is a multiple of it."},
             EPS},
    .expand = group_norm,
    .samples = group_samples,
    .doc = "The channels of each of `groups` groups of a sample brought to mean 0 and variance 1 together, then each "
           "times its weight, plus its bias (Wu and He 2018).",
    .example =
        "print(neap.group_norm(neap.tensor {{1, 3, 5, 9}}, 2, {eps = 0}))  --> tensor fp32 [1, 4] {{-1, 1, -1, 1}}",
    .topic = NEAP_TOPIC_NORMALIZATION,
    .args = "x [N, C, ...], weight? [C], bias? [C] -> [N, C, ...]",
};

static const char *const instance_samples[] = {"f32[2,3,4,4] f32[3] f32[3]", "f32[2,3,7]; eps=0.001",
                                               "f64[2,2,3,2] f64[2] f64[2]", "f32[0,3,2,2] f32[3] f32[3]", NULL};

const neap_op neap__op_instance_norm = {
    .name = "instance_norm",
    .min_in = 1,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_KEEP,
    .opts = {EPS},
    .expand = instance_norm,
    .samples = instance_samples,
    .doc =
        "Each channel of each sample brought to mean 0 and variance 1, times weight, plus bias (Ulyanov et al. 2016).",
    .example = "print(neap.instance_norm(neap.tensor {{{1, 3}, {8, 24}}}, {eps = 0}))  --> tensor fp32 [1, 2, 2] "
               "{{{-1, 1}, {-1, 1}}}",
    .topic = NEAP_TOPIC_NORMALIZATION,
    .args = "x [N, C, ...], weight? [C], bias? [C] -> [N, C, ...]",
};
