/* Composites that work element by element, as PyTorch's documentation states them. */
#include <math.h>

#include "conform/oracle.h"

typedef double (*element_fn)(const cf_case *c, double x);

static void each(const cf_case *c, const kt_value *in, kt_value *out, element_fn fn) {
  out[0] = cf_made(&in[0].desc.shape);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) kt_set(&out[0], i, fn(c, kt_get(&in[0], i)));
}

static double clamp_of(const cf_case *c, double x) {
  if (isnan(x)) return x;
  return fmin(fmax(x, cf_number(c, "min", -INFINITY)), cf_number(c, "max", INFINITY));
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

#define EACH(name) \
  static void name(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, name##_of); }
EACH(clamp)
EACH(hardtanh)
EACH(leaky_relu)
EACH(elu)
EACH(mish)

const cf_oracle_row cf_oracles_activation[] = {{"clamp", clamp}, {"hardtanh", hardtanh}, {"leaky_relu", leaky_relu},
                                               {"elu", elu},     {"mish", mish},         {NULL, NULL}};
