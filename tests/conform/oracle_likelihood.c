/* Losses of probabilities and likelihoods, and the cosine, element by element. */
#include <math.h>

#include "conform/oracle.h"

typedef double (*formula)(const cf_case *c, double x, double t, double third);

/* reduction: 0 mean, 1 sum, 2 none. */
static void each(const cf_case *c, const kt_value *in, kt_value *out, formula f) {
  neap_shape shape = in[0].desc.shape;
  neap_error err;
  double sum = 0;
  for (uint32_t i = 1; i < c->n_in; i++) {
    const neap_shape before = shape;
    assert_int_equal(neap__broadcast(&before, &in[i].desc.shape, &shape, &err), NEAP_OK);
  }
  kt_value all = cf_made(&shape);
  const int64_t n = kt_count(&all);
  for (int64_t i = 0; i < n; i++) {
    double v[3] = {0, 0, 0};
    cf_place p;
    cf_locate(&shape, i, &p);
    for (uint32_t k = 0; k < c->n_in; k++) v[k] = kt_get(&in[k], cf_spread(&in[k].desc.shape, &shape, &p));
    kt_set(&all, i, f(c, v[0], v[1], v[2]));
    sum += kt_get(&all, i);
  }
  if (c->opt[0].v.i == 2) {
    out[0] = all;
    return;
  }
  kt_free(&all);
  out[0] = cf_made(&(neap_shape){.ndim = 0});
  kt_set(&out[0], 0, c->opt[0].v.i == 0 ? sum * (1.0 / (double)n) : sum);
}

static double at_least(double x, double least) { return x < least ? least : x; }

static double log_of(double p) { return p <= exp(-100) ? -100 : log(p); }

static double bce_of(const cf_case *c, double x, double t, double third) {
  (void)c, (void)third;
  return -(t * log_of(x) + (1 - t) * log_of(1 - x));
}

static double kl_of(const cf_case *c, double x, double t, double third) {
  (void)third;
  if (cf_whole(c, "log_target", 0, 0)) return exp(t) * (t - x);
  return t * (log(at_least(t, 0x1p-126)) - x);
}

static double poisson_of(const cf_case *c, double x, double t, double third) {
  (void)third;
  return cf_whole(c, "log_input", 0, 1) ? exp(x) - t * x : x - t * log(x + cf_number(c, "eps", 1e-8));
}

static double gaussian_of(const cf_case *c, double x, double t, double third) {
  const double var = at_least(third, cf_number(c, "eps", 1e-6));
  return (log(var) + (x - t) * (x - t) / var) / 2 + (cf_whole(c, "full", 0, 0) ? log(2 * acos(-1.0)) / 2 : 0);
}

static void bce(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, bce_of); }
static void kl(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, kl_of); }
static void poisson(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, poisson_of); }
static void gaussian(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, gaussian_of); }

static void cosine(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *s = &in[0].desc.shape;
  const int32_t dim = cf_dim(cf_whole(c, "dim", 0, 1), s->ndim);
  const double eps = cf_number(c, "eps", 1e-8);
  int64_t inner = 1, n = s->dim[dim], outer = 1;
  neap_shape to = {.ndim = 0};
  for (int32_t d = 0; d < s->ndim; d++) {
    if (d != dim) to.dim[to.ndim++] = s->dim[d];
    if (d < dim) outer *= s->dim[d];
    if (d > dim) inner *= s->dim[d];
  }
  out[0] = cf_made(&to);
  for (int64_t i = 0; i < outer * inner; i++) {
    double dot = 0, a = 0, b = 0;
    for (int64_t k = 0; k < n; k++) {
      const int64_t at = (i / inner * n + k) * inner + i % inner;
      const double x = kt_get(&in[0], at), y = kt_get(&in[1], at);
      dot += x * y, a += x * x, b += y * y;
    }
    kt_set(&out[0], i, dot / (at_least(sqrt(a), eps) * at_least(sqrt(b), eps)));
  }
}

const cf_oracle_row cf_oracles_likelihood[] = {{"binary_cross_entropy", bce}, {"kl_div", kl},
                                               {"poisson_nll_loss", poisson}, {"gaussian_nll_loss", gaussian},
                                               {"cosine_similarity", cosine}, {NULL, NULL}};
