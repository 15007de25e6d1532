/* Activations made of other ops. */
#include "op/build.h"

static neap_id leaky_relu(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  return neap__with_number(g, &neap__op_leaky, neap__as_float(g, in[0]), opt[0].v.f);
}

static neap_id elu(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  return neap__with_number(g, &neap__op_elu_of, neap__as_float(g, in[0]), opt[0].v.f);
}

static neap_id hardtanh(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  if (opt[0].v.f > opt[1].v.f)
    return neap__graph_fail(g, op, NEAP_RANGE, "`min_val` is %g, expected at most `max_val`, which is %g", opt[0].v.f,
                            opt[1].v.f);
  neap_id low = neap__with_number(g, &neap__op_clamp_min, neap__as_float(g, in[0]), opt[0].v.f);
  return neap__with_number(g, &neap__op_clamp_max, low, opt[1].v.f);
}

static neap_id relu6(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  neap_id low = neap__with_number(g, &neap__op_clamp_min, neap__as_float(g, in[0]), 0);
  return neap__with_number(g, &neap__op_clamp_max, low, 6);
}

/* softplus(beta x) / beta; beyond the threshold the slope is 1 to the last digit, and exp would overflow. */
static neap_id softplus(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  const double beta = opt[0].v.f, threshold = opt[1].v.f;
  if (beta == 0) return neap__graph_fail(g, op, NEAP_RANGE, "`beta` is 0, expected another number");
  neap_id x = neap__as_float(g, in[0]), t = beta == 1 ? x : neap__scale(g, x, beta);
  neap_id y = neap__build1(g, &neap__op_softplus_unit, t);
  if (beta != 1) y = neap__build2(g, &neap__op_div, y, neap__const_like(g, y, beta));
  if (threshold == 20) return y;
  return neap__build3(g, &neap__op_where, neap__with_number(g, &neap__op_gt, t, threshold), x, y);
}

static neap_id mish(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  neap_id x = neap__as_float(g, in[0]);
  return neap__build2(g, &neap__op_mul, x,
                      neap__build1(g, &neap__op_tanh, neap__build1(g, &neap__op_softplus_unit, x)));
}

static neap_id gelu(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  return neap__build1(g, opt[0].v.i ? &neap__op_gelu_tanh : &neap__op_gelu_erf, in[0]);
}

static neap_id softmin(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  neap_id minus = neap__build1(g, &neap__op_neg, in[0]);
  return neap__build(g, &neap__op_softmax, &minus, 1, opt);
}

static const char *const samples[] = {"f32[2,3]", "f32[]", "f32[0,3]", "f64[5]", "i64[3]:below=4", NULL};
static const char *const leaky_samples[] = {"f32[2,3]", "f32[5]; negative_slope=0.2", "f32[0,3]", "f64[5]", NULL};
static const char *const elu_samples[] = {"f32[2,3]", "f32[5]; alpha=0.5", "f32[0,3]", "f64[5]", NULL};
static const char *const hardtanh_samples[] = {"f32[2,3]", "f32[5]; min_val=-0.5; max_val=0.25", "f32[0,3]", "f64[5]",
                                               NULL};
static const char *const softplus_samples[] = {"f32[2,3]", "f32[5]; beta=2", "f32[5]; beta=0.5; threshold=0.75",
                                               "f32[0,3]", "f64[5]",         NULL};
static const char *const gelu_samples[] = {"f32[2,3]", "f32[2,3]; approximate=tanh", "f32[0,3]",
                                           "f64[5]",   "f64[5]; approximate=tanh",   NULL};
static const char *const softmin_samples[] = {"f32[2,5]; dim=-1", "f32[2,3,4]; dim=2", "f32[0,3]; dim=2",
                                              "f64[2,5]; dim=1", NULL};

const neap_op neap__op_leaky_relu = {
    .name = "leaky_relu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts =
        {{.name = "negative_slope", .type = NEAP_OPT_FLOAT, .def = 0.01, .has_default = true, .doc = "Slope below 0."}},
    .expand = leaky_relu,
    .samples = leaky_samples,
    .doc = "x where it is positive, else x times `negative_slope` (Maas et al. 2013); at 0 its gradient is the slope.",
    .example =
        "print(neap.leaky_relu(neap.tensor {-4, 0, 2}, {negative_slope = 0.25}))  --> tensor fp32 [3] {-1, 0, 2}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_elu = {
    .name = "elu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "alpha",
              .type = NEAP_OPT_FLOAT,
              .def = 1,
              .has_default = true,
              .doc = "Minus what it tends to far below 0."}},
    .expand = elu,
    .samples = elu_samples,
    .doc = "x where it is positive, else `alpha` (exp(x) - 1) (Clevert et al. 2015).",
    .example = "print(neap.elu(neap.tensor {-1000, 0, 2}, {alpha = 0.5}))  --> tensor fp32 [3] {-0.5, 0, 2}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_hardtanh = {
    .name = "hardtanh",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "min_val", .type = NEAP_OPT_FLOAT, .def = -1, .has_default = true, .doc = "Smallest value."},
             {.name = "max_val",
              .type = NEAP_OPT_FLOAT,
              .def = 1,
              .has_default = true,
              .doc = "Largest value, at least `min_val`."}},
    .expand = hardtanh,
    .samples = hardtanh_samples,
    .doc = "x cut to `min_val` and `max_val`; no gradient at and beyond them.",
    .example = "print(neap.hardtanh(neap.tensor {-3, 0.5, 3}))  --> tensor fp32 [3] {-1, 0.5, 1}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_relu6 = {
    .name = "relu6",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .expand = relu6,
    .samples = samples,
    .doc = "x cut to 0 and 6 (Krizhevsky 2010); no gradient at and beyond them.",
    .example = "print(neap.relu6(neap.tensor {-1, 3, 9}))  --> tensor fp32 [3] {0, 3, 6}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_softplus = {
    .name = "softplus",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "beta",
              .type = NEAP_OPT_FLOAT,
              .def = 1,
              .has_default = true,
              .doc = "How sharp the bend is; not 0."},
             {.name = "threshold",
              .type = NEAP_OPT_FLOAT,
              .def = 20,
              .has_default = true,
              .doc = "Where it becomes x itself."}},
    .expand = softplus,
    .samples = softplus_samples,
    .doc = "log(1 + exp(beta x)) / beta, a smooth relu, without overflow; x itself where beta x is above `threshold`.",
    .example = "print((\"%.3f\"):format(neap.softplus(neap.tensor(0)):item()))  --> 0.693",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_mish = {
    .name = "mish",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .expand = mish,
    .samples = samples,
    .doc = "x tanh(softplus(x)) (Misra 2019).",
    .example = "print((\"%.3f\"):format(neap.mish(neap.tensor(1)):item()))  --> 0.865",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_gelu = {
    .name = "gelu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "approximate",
              .type = NEAP_OPT_CHOICE,
              .def = 0,
              .has_default = true,
              .choices = "none|tanh",
              .doc = "none: by the error function; tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."}},
    .expand = gelu,
    .samples = gelu_samples,
    .doc = "x times the standard normal distribution function, exact or by a tanh (Hendrycks and Gimpel 2016).",
    .example = "print((\"%.3f\"):format(neap.gelu(neap.tensor(1)):item()))  --> 0.841",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_softmin = {
    .name = "softmin",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Along which the results add up to 1."}},
    .expand = softmin,
    .samples = softmin_samples,
    .doc = "exp(-x) over its sum along `dim`, without overflow.",
    .example = "print((neap.softmin(neap.tensor {0, 0, 1000}, 1) * 100):round())  --> tensor fp32 [3] {50, 50, 0}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};
