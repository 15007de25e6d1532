/* Composites of several inputs that are broadcast against each other, element by element. */
#include <math.h>

#include "conform/oracle.h"

/* x: one element of each input; what is not given is NaN. */
typedef double (*elements_fn)(const cf_case *c, const double *x);

static void each(const cf_case *c, const kt_value *in, kt_value *out, elements_fn fn) {
  neap_shape shape = in[0].desc.shape;
  neap_error err;
  for (uint32_t i = 1; i < c->n_in; i++)
    assert_int_equal(neap__broadcast(&shape, &in[i].desc.shape, &shape, &err), NEAP_OK);
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    double x[3] = {NAN, NAN, NAN};
    cf_place p;
    cf_locate(&shape, i, &p);
    for (uint32_t k = 0; k < c->n_in && k < 3; k++) x[k] = kt_get(&in[k], cf_spread(&in[k].desc.shape, &shape, &p));
    kt_set(&out[0], i, fn(c, x));
  }
}

static double addcmul_of(const cf_case *c, const double *x) { return x[0] + cf_number(c, "value", 1) * (x[1] * x[2]); }
static double addcdiv_of(const cf_case *c, const double *x) { return x[0] + cf_number(c, "value", 1) * (x[1] / x[2]); }

static double isclose_of(const cf_case *c, const double *x) {
  const double gap = fabs(x[0] - x[1]);
  if (isnan(x[0]) && isnan(x[1])) return (double)cf_whole(c, "equal_nan", 0, 0);
  if (x[0] == x[1]) return 1;
  return isfinite(gap) && gap <= cf_number(c, "atol", 1e-8) + cf_number(c, "rtol", 1e-5) * fabs(x[1]);
}

/* Bounds that are inputs, else options. */
static double clamp_of(const cf_case *c, const double *x) {
  const double low = c->n_in > 1 ? x[1] : cf_number(c, "min", -INFINITY);
  const double high = c->n_in > 2 ? x[2] : cf_number(c, "max", INFINITY);
  if (isnan(x[0]) || isnan(low) || isnan(high)) return NAN;
  return fmin(fmax(x[0], low), high);
}

static double lerp_of(const cf_case *c, const double *x) {
  const double w = c->n_in > 2 ? x[2] : cf_number(c, "weight", 0);
  return fabs(w) < 0.5 ? x[0] + w * (x[1] - x[0]) : x[1] - (1 - w) * (x[1] - x[0]);
}

#define EACH(name) \
  static void name(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, name##_of); }
EACH(addcmul)
EACH(addcdiv)
EACH(isclose)
EACH(clamp)
EACH(lerp)

/* The slope of an element is that of its channel. */
static void prelu(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *s = &in[0].desc.shape;
  (void)c;
  out[0] = cf_made(s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    const double x = kt_get(&in[0], i);
    cf_place p;
    cf_locate(s, i, &p);
    kt_set(&out[0], i, x > 0 ? x : x * kt_get(&in[1], kt_count(&in[1]) > 1 ? p.at[1] : 0));
  }
}

const cf_oracle_row cf_oracles_broadcast[] = {{"addcmul", addcmul}, {"addcdiv", addcdiv}, {"isclose", isclose},
                                              {"clamp", clamp},     {"lerp", lerp},       {"prelu", prelu},
                                              {NULL, NULL}};
