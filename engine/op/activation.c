/* Activations made of other ops. */
#include "op/build.h"

static neap_id with_number(neap_graph *g, const neap_op *op, neap_id x, double number) {
  return neap__build2(g, op, x, neap__const_like(g, x, number));
}

/* Integers become fp32 first, so that the option is not cut to a whole number. */
static neap_id as_float(neap_graph *g, neap_id x) {
  neap_dtype t = neap__desc_at(g, x).dtype;
  return neap__cast(g, x, neap__dtype_is_float(t) ? t : NEAP_F32);
}

static neap_id leaky_relu(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  return with_number(g, &neap__op_leaky, as_float(g, in[0]), opt[0].v.f);
}

static neap_id elu(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  return with_number(g, &neap__op_elu_of, as_float(g, in[0]), opt[0].v.f);
}

static neap_id hardtanh(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  if (opt[0].v.f > opt[1].v.f)
    return neap__graph_fail(g, op, NEAP_RANGE, "`min_val` is %g, expected at most `max_val`, which is %g", opt[0].v.f,
                            opt[1].v.f);
  neap_id low = with_number(g, &neap__op_clamp_min, as_float(g, in[0]), opt[0].v.f);
  return with_number(g, &neap__op_clamp_max, low, opt[1].v.f);
}

static neap_id mish(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  neap_id x = as_float(g, in[0]);
  return neap__build2(g, &neap__op_mul, x, neap__build1(g, &neap__op_tanh, neap__build1(g, &neap__op_softplus, x)));
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
static const char *const gelu_samples[] = {"f32[2,3]", "f32[2,3]; approximate=tanh", "f32[0,3]",
                                           "f64[5]",   "f64[5]; approximate=tanh",   NULL};
static const char *const softmin_samples[] = {"f32[2,5]; dim=-1", "f32[2,3,4]; dim=2", "f32[0,3]; dim=2",
                                              "f64[2,5]; dim=1", NULL};

const neap_op neap__op_leaky_relu = {
    .name = "leaky_relu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "negative_slope", .type = NEAP_OPT_FLOAT, .def = 0.01, .has_default = true}},
    .expand = leaky_relu,
    .samples = leaky_samples,
    .doc = "x where it is positive, else x times `negative_slope` (Maas et al. 2013).",
};

const neap_op neap__op_elu = {
    .name = "elu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "alpha", .type = NEAP_OPT_FLOAT, .def = 1, .has_default = true}},
    .expand = elu,
    .samples = elu_samples,
    .doc = "x where it is positive, else `alpha` (exp(x) - 1) (Clevert et al. 2015).",
};

const neap_op neap__op_hardtanh = {
    .name = "hardtanh",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "min_val", .type = NEAP_OPT_FLOAT, .def = -1, .has_default = true},
             {.name = "max_val", .type = NEAP_OPT_FLOAT, .def = 1, .has_default = true}},
    .expand = hardtanh,
    .samples = hardtanh_samples,
    .doc = "x cut to `min_val` and `max_val`; no gradient at and beyond them.",
};

const neap_op neap__op_mish = {
    .name = "mish",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .expand = mish,
    .samples = samples,
    .doc = "x tanh(softplus(x)) (Misra 2019).",
};

const neap_op neap__op_gelu = {
    .name = "gelu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "approximate", .type = NEAP_OPT_CHOICE, .def = 0, .has_default = true, .choices = "none|tanh"}},
    .expand = gelu,
    .samples = gelu_samples,
    .doc = "x times the normal distribution function, exact or by a tanh (Hendrycks and Gimpel 2016).",
};

const neap_op neap__op_softmin = {
    .name = "softmin",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true}},
    .expand = softmin,
    .samples = softmin_samples,
    .doc = "exp(-x) over its sum along `dim`, without overflow.",
};
