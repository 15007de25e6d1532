/* Losses of probabilities and likelihoods, element by element. */
#include <math.h>
#include <string.h>

#include "conform/oracle.h"

typedef double (*formula)(const cf_case *c, double x, double t, double third);

/* gaussian_nll_loss takes a variance for each row. */
static neap_shape third_shape(const cf_case *c, const kt_value *in) {
  neap_shape s = in[2].desc.shape;
  const neap_shape *x = &in[0].desc.shape;
  bool rows = strcmp(c->op->name, "gaussian_nll_loss") == 0 && s.ndim > 0 && s.ndim + 1 == x->ndim;
  for (int32_t d = 0; d < s.ndim && rows; d++) rows = s.dim[d] == x->dim[d];
  if (rows) s.dim[s.ndim++] = 1;
  return s;
}

/* reduction: 0 mean, 1 sum, 2 none, 3 sum over the number of samples. */
static void each(const cf_case *c, const kt_value *in, kt_value *out, formula f) {
  neap_shape shape = in[0].desc.shape;
  neap_error err;
  double sum = 0;
  const neap_shape third = c->n_in > 2 ? third_shape(c, in) : shape;
  for (uint32_t i = 1; i < c->n_in; i++) {
    const neap_shape before = shape;
    assert_int_equal(neap__broadcast(&before, i == 2 ? &third : &in[i].desc.shape, &shape, &err), NEAP_OK);
  }
  kt_value all = cf_made(&shape);
  const int64_t n = kt_count(&all);
  for (int64_t i = 0; i < n; i++) {
    double v[3] = {0, 0, 0};
    cf_place p;
    cf_locate(&shape, i, &p);
    for (uint32_t k = 0; k < c->n_in; k++)
      v[k] = kt_get(&in[k], cf_spread(k == 2 ? &third : &in[k].desc.shape, &shape, &p));
    kt_set(&all, i, f(c, v[0], v[1], v[2]));
    sum += kt_get(&all, i);
  }
  if (c->opt[0].v.i == 2) {
    out[0] = all;
    return;
  }
  kt_free(&all);
  out[0] = cf_made(&(neap_shape){.ndim = 0});
  kt_set(&out[0], 0,
         c->opt[0].v.i == 0   ? sum * (1.0 / (double)n)
         : c->opt[0].v.i == 3 ? sum * (1.0 / (double)shape.dim[0])
                              : sum);
}

static double at_least(double x, double least) { return x < least ? least : x; }

static double log_of(double p) { return p <= exp(-100) ? -100 : log(p); }

static double bce_of(const cf_case *c, double x, double t, double third) {
  return -(t * log_of(x) + (1 - t) * log_of(1 - x)) * (c->n_in > 2 ? third : 1);
}

static double kl_of(const cf_case *c, double x, double t, double third) {
  (void)third;
  if (cf_whole(c, "log_target", 0, 0)) return exp(t) * (t - x);
  return t * (log(at_least(t, 0x1p-126)) - x);
}

static double poisson_of(const cf_case *c, double x, double t, double third) {
  (void)third;
  const double constant = t > 1 && cf_whole(c, "full", 0, 0) ? t * log(t) - t + log(2 * acos(-1.0) * t) / 2 : 0;
  return constant + (cf_whole(c, "log_input", 0, 1) ? exp(x) - t * x : x - t * log(x + cf_number(c, "eps", 1e-8)));
}

static double gaussian_of(const cf_case *c, double x, double t, double third) {
  const double var = at_least(third, cf_number(c, "eps", 1e-6));
  return (log(var) + (x - t) * (x - t) / var) / 2 + (cf_whole(c, "full", 0, 0) ? log(2 * acos(-1.0)) / 2 : 0);
}

static void bce(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, bce_of); }
static void kl(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, kl_of); }
static void poisson(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, poisson_of); }
static void gaussian(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, gaussian_of); }

const cf_oracle_row cf_oracles_likelihood[] = {{"binary_cross_entropy", bce},
                                               {"kl_div", kl},
                                               {"poisson_nll_loss", poisson},
                                               {"gaussian_nll_loss", gaussian},
                                               {NULL, NULL}};
