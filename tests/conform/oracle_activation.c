/* Composites that work element by element, as PyTorch's documentation states them. */
#include <float.h>
#include <math.h>

#include "conform/oracle.h"

typedef double (*element_fn)(const cf_case *c, double x);

static void each(const cf_case *c, const kt_value *in, kt_value *out, element_fn fn) {
  out[0] = cf_made(&in[0].desc.shape);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) kt_set(&out[0], i, fn(c, kt_get(&in[0], i)));
}

static double hardtanh_of(const cf_case *c, double x) {
  if (isnan(x)) return x;
  return fmin(fmax(x, cf_number(c, "min_val", -1)), cf_number(c, "max_val", 1));
}

static double leaky_relu_of(const cf_case *c, double x) { return x > 0 ? x : cf_number(c, "negative_slope", 0.01) * x; }
static double elu_of(const cf_case *c, double x) { return x > 0 ? x : cf_number(c, "alpha", 1) * expm1(x); }
static double mish_of(const cf_case *c, double x) {
  (void)c;
  return x * tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
}

static double relu6_of(const cf_case *c, double x) {
  (void)c;
  return isnan(x) ? x : fmin(fmax(x, 0), 6);
}
static double softplus_of(const cf_case *c, double x) {
  const double beta = cf_number(c, "beta", 1), t = beta * x;
  return t > cf_number(c, "threshold", 20) ? x : (fmax(t, 0) + log1p(exp(-fabs(t)))) / beta;
}
static double hardshrink_of(const cf_case *c, double x) { return fabs(x) <= cf_number(c, "lambd", 0.5) ? 0 : x; }
static double softshrink_of(const cf_case *c, double x) {
  const double lambd = cf_number(c, "lambd", 0.5);
  return x > lambd ? x - lambd : x < -lambd ? x + lambd : isnan(x) ? x : 0;
}
static double tanhshrink_of(const cf_case *c, double x) {
  (void)c;
  return x - tanh(x);
}
static double softsign_of(const cf_case *c, double x) {
  (void)c;
  return x / (1 + fabs(x));
}
static double threshold_of(const cf_case *c, double x) {
  return x <= cf_number(c, "threshold", 0) ? cf_number(c, "value", 0) : x;
}
static double celu_of(const cf_case *c, double x) {
  const double alpha = cf_number(c, "alpha", 1);
  return x > 0 ? x : alpha * expm1(x / alpha);
}
static double selu_of(const cf_case *c, double x) {
  (void)c;
  return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * expm1(x));
}
/* The largest number is that of the dtype. */
static double nan_to_num_of(const cf_case *c, double x) {
  const double most = c->in[0].desc.dtype == NEAP_F32 ? (double)FLT_MAX : DBL_MAX;
  if (isnan(x)) return cf_number(c, "nan", 0);
  if (isinf(x)) return x > 0 ? cf_number(c, "posinf", most) : cf_number(c, "neginf", -most);
  return x;
}
static double logit_of(const cf_case *c, double x) {
  const neap_opt *eps = cf_option(c, "eps");
  if (eps && !isnan(x)) x = fmin(fmax(x, eps->v.f), 1 - eps->v.f);
  return log(x / (1 - x));
}
static double bitwise_not_of(const cf_case *c, double x) {
  return c->in[0].desc.dtype == NEAP_BOOL ? x == 0 : (double)~(int64_t)x;
}

#define EACH(name) \
  static void name(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, name##_of); }
EACH(hardtanh)
EACH(leaky_relu)
EACH(elu)
EACH(mish)
EACH(relu6)
EACH(softplus)
EACH(hardshrink)
EACH(softshrink)
EACH(tanhshrink)
EACH(softsign)
EACH(threshold)
EACH(celu)
EACH(selu)
EACH(nan_to_num)
EACH(logit)
EACH(bitwise_not)

/* The first half along `dim`, each times the sigmoid of its partner in the second. */
static void glu(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *s = &in[0].desc.shape;
  const int32_t dim = cf_dim(cf_whole(c, "dim", 0, -1), s->ndim);
  neap_shape half = *s;
  half.dim[dim] /= 2;
  out[0] = cf_made(&half);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&half, i, &p);
    const double x = kt_get(&in[0], cf_index(s, &p));
    p.at[dim] += half.dim[dim];
    kt_set(&out[0], i, x / (1 + exp(-kt_get(&in[0], cf_index(s, &p)))));
  }
}

const cf_oracle_row cf_oracles_activation[] = {{"hardtanh", hardtanh},
                                               {"leaky_relu", leaky_relu},
                                               {"elu", elu},
                                               {"mish", mish},
                                               {"relu6", relu6},
                                               {"softplus", softplus},
                                               {"hardshrink", hardshrink},
                                               {"softshrink", softshrink},
                                               {"tanhshrink", tanhshrink},
                                               {"softsign", softsign},
                                               {"threshold", threshold},
                                               {"celu", celu},
                                               {"selu", selu},
                                               {"nan_to_num", nan_to_num},
                                               {"logit", logit},
                                               {"bitwise_not", bitwise_not},
                                               {"glu", glu},
                                               {NULL, NULL}};
