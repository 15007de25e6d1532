/* Reductions: a function of all elements that go into one of the result. */
#include <math.h>
#include <stdlib.h>

#include "conform/oracle.h"

static bool reduced(const neap_opt *dims, int32_t ndim, int32_t d) {
  if (!dims) return true;
  for (int32_t i = 0; i < dims->n; i++)
    if (cf_dim(dims->v.list[i], ndim) == d) return true;
  return false;
}

/* Shape with reduced dimensions as 1, and as the op gives it. */
static void shapes(const cf_case *c, const neap_shape *from, neap_shape *kept, neap_shape *given) {
  const neap_opt *dims = cf_option(c, "dim");
  *kept = *from;
  given->ndim = 0;
  for (int32_t d = 0; d < from->ndim; d++) {
    const bool gone = reduced(dims, from->ndim, d);
    if (gone) kept->dim[d] = 1;
    if (!gone || cf_whole(c, "keepdim", 0, 0)) given->dim[given->ndim++] = kept->dim[d];
  }
}

typedef double (*group_fn)(const cf_case *c, const double *x, int64_t n);

static void reduce(const cf_case *c, const kt_value *in, kt_value *out, group_fn fn) {
  const neap_shape *from = &in->desc.shape;
  neap_shape kept, shape;
  shapes(c, from, &kept, &shape);
  out[0] = cf_made(&shape);
  double *x = malloc(((size_t)kt_count(in) + 1) * sizeof *x);
  assert_non_null(x);
  for (int64_t o = 0; o < kt_count(&out[0]); o++) {
    int64_t n = 0;
    for (int64_t i = 0; i < kt_count(in); i++) {
      cf_place p;
      cf_locate(from, i, &p);
      if (cf_spread(&kept, from, &p) == o) x[n++] = kt_get(in, i);
    }
    kt_set(&out[0], o, fn(c, x, n));
  }
  free(x);
}

static double sum_of(const cf_case *c, const double *x, int64_t n) {
  double s = 0;
  (void)c;
  for (int64_t i = 0; i < n; i++) s += x[i];
  return s;
}

static double mean_of(const cf_case *c, const double *x, int64_t n) { return sum_of(c, x, n) / (double)n; }

static double prod_of(const cf_case *c, const double *x, int64_t n) {
  double p = 1;
  (void)c;
  for (int64_t i = 0; i < n; i++) p *= x[i];
  return p;
}

static double amax_of(const cf_case *c, const double *x, int64_t n) {
  double most = -INFINITY;
  (void)c;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(x[i])) return x[i];
    most = fmax(most, x[i]);
  }
  return most;
}

static double amin_of(const cf_case *c, const double *x, int64_t n) {
  double least = INFINITY;
  (void)c;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(x[i])) return x[i];
    least = fmin(least, x[i]);
  }
  return least;
}

static double var_of(const cf_case *c, const double *x, int64_t n) {
  const double mean = mean_of(c, x, n);
  const double less = cf_number(c, "correction", (double)cf_whole(c, "unbiased", 0, 1));
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += (x[i] - mean) * (x[i] - mean);
  return s / fmax(0, (double)n - less);
}

static double std_of(const cf_case *c, const double *x, int64_t n) { return sqrt(var_of(c, x, n)); }

static double logsumexp_of(const cf_case *c, const double *x, int64_t n) {
  const double most = amax_of(c, x, n);
  double s = 0;
  if (isinf(most)) return most;
  for (int64_t i = 0; i < n; i++) s += exp(x[i] - most);
  return most + log(s);
}

static double norm_of(const cf_case *c, const double *x, int64_t n) {
  const double p = cf_number(c, "p", 2);
  double s = 0, most = 0, least = INFINITY;
  for (int64_t i = 0; i < n; i++) {
    const double a = fabs(x[i]);
    if (isnan(a)) return a;
    s += p == 0 ? a != 0 : pow(a, p);
    most = fmax(most, a);
    least = fmin(least, a);
  }
  if (isinf(p)) return p > 0 ? most : least;
  return p == 0 ? s : pow(s, 1 / p);
}

static double any_of(const cf_case *c, const double *x, int64_t n) {
  (void)c;
  for (int64_t i = 0; i < n; i++)
    if (x[i] != 0) return 1;
  return 0;
}

static double all_of(const cf_case *c, const double *x, int64_t n) {
  (void)c;
  for (int64_t i = 0; i < n; i++)
    if (x[i] == 0) return 0;
  return 1;
}

static double count_nonzero_of(const cf_case *c, const double *x, int64_t n) {
  double count = 0;
  (void)c;
  for (int64_t i = 0; i < n; i++) count += x[i] != 0;
  return count;
}

static double nansum_of(const cf_case *c, const double *x, int64_t n) {
  double s = 0;
  (void)c;
  for (int64_t i = 0; i < n; i++) s += isnan(x[i]) ? 0 : x[i];
  return s;
}

static double nanmean_of(const cf_case *c, const double *x, int64_t n) {
  double count = 0;
  for (int64_t i = 0; i < n; i++) count += !isnan(x[i]);
  return nansum_of(c, x, n) / count;
}

#define REDUCE(name) \
  static void name(const cf_case *c, const kt_value *in, kt_value *out) { reduce(c, in, out, name##_of); }
REDUCE(sum)
REDUCE(mean)
REDUCE(prod)
REDUCE(amax)
REDUCE(amin)
REDUCE(var)
REDUCE(std)
REDUCE(logsumexp)
REDUCE(norm)
REDUCE(any)
REDUCE(all)
REDUCE(count_nonzero)
REDUCE(nansum)
REDUCE(nanmean)

static void aminmax(const cf_case *c, const kt_value *in, kt_value *out) {
  reduce(c, in, &out[0], amin_of);
  reduce(c, in, &out[1], amax_of);
}

static void var_mean(const cf_case *c, const kt_value *in, kt_value *out) {
  reduce(c, in, &out[0], var_of);
  reduce(c, in, &out[1], mean_of);
}

static void std_mean(const cf_case *c, const kt_value *in, kt_value *out) {
  reduce(c, in, &out[0], std_of);
  reduce(c, in, &out[1], mean_of);
}

static void two(const kt_value *in, kt_value *out, bool largest) {
  neap_shape shape;
  neap_error err;
  assert_int_equal(neap__broadcast(&in[0].desc.shape, &in[1].desc.shape, &shape, &err), NEAP_OK);
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&shape, i, &p);
    const double x[2] = {kt_get(&in[0], cf_spread(&in[0].desc.shape, &shape, &p)),
                         kt_get(&in[1], cf_spread(&in[1].desc.shape, &shape, &p))};
    kt_set(&out[0], i, largest ? amax_of(NULL, x, 2) : amin_of(NULL, x, 2));
  }
}

static void sumsq(const cf_case *c, const kt_value *in, kt_value *out) {
  (void)c;
  out[0] = cf_made(&(neap_shape){0, {0}});
  double s = 0;
  for (int64_t i = 0; i < kt_count(in); i++) s += kt_get(in, i) * kt_get(in, i);
  kt_set(&out[0], 0, s);
}

/* The first of the best in row-major order; NaN is better than any number. */
static void position(const cf_case *c, const kt_value *in, kt_value *out, double sign) {
  const neap_shape *from = &in->desc.shape;
  const neap_opt *dims = cf_option(c, "dim");
  neap_shape kept, shape, within = *from;
  shapes(c, from, &kept, &shape);
  for (int32_t d = 0; d < from->ndim; d++)
    if (!reduced(dims, from->ndim, d)) within.dim[d] = 1;
  *out = cf_made(&shape);
  kt_value best = cf_made(&shape);
  for (int64_t o = 0; o < kt_count(&best); o++) kt_set(out, o, -1);
  for (int64_t i = 0; i < kt_count(in); i++) {
    cf_place p;
    cf_locate(from, i, &p);
    const int64_t o = cf_spread(&kept, from, &p);
    const double x = sign * kt_get(in, i), b = kt_get(&best, o);
    const bool first = kt_get(out, o) < 0, better = (x > b) || (isnan(x) && !isnan(b));
    if (!first && !better) continue;
    kt_set(&best, o, x);
    kt_set(out, o, (double)cf_spread(&within, from, &p));
  }
  kt_free(&best);
}

static void argmax(const cf_case *c, const kt_value *in, kt_value *out) { position(c, in, out, 1); }
static void argmin(const cf_case *c, const kt_value *in, kt_value *out) { position(c, in, out, -1); }

/* Places come with dimensions. */
static void max(const cf_case *c, const kt_value *in, kt_value *out) {
  if (c->n_in == 2)
    two(in, out, true);
  else
    amax(c, in, out);
  if (cf_option(c, "dim")) argmax(c, in, &out[1]);
}

static void min(const cf_case *c, const kt_value *in, kt_value *out) {
  if (c->n_in == 2)
    two(in, out, false);
  else
    amin(c, in, out);
  if (cf_option(c, "dim")) argmin(c, in, &out[1]);
}

const cf_oracle_row cf_oracles_reduce[] = {{"sum", sum},
                                           {"mean", mean},
                                           {"prod", prod},
                                           {"amax", amax},
                                           {"amin", amin},
                                           {"argmax", argmax},
                                           {"argmin", argmin},
                                           {"max", max},
                                           {"min", min},
                                           {"var", var},
                                           {"std", std},
                                           {"norm", norm},
                                           {"sumsq", sumsq},
                                           {"logsumexp", logsumexp},
                                           {"any", any},
                                           {"all", all},
                                           {"count_nonzero", count_nonzero},
                                           {"nansum", nansum},
                                           {"nanmean", nanmean},
                                           {"aminmax", aminmax},
                                           {"var_mean", var_mean},
                                           {"std_mean", std_mean},
                                           {NULL, NULL}};
