/* Functions of whole lines along one dimension. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conform/oracle.h"

/* x: n numbers; y: what becomes of them, `made` numbers. */
typedef void (*line_fn)(const cf_case *c, const double *x, int64_t n, double *y, int64_t made);

static void along(const cf_case *c, const kt_value *in, kt_value *out, int64_t dim_option, int64_t made, line_fn fn) {
  const neap_shape *from = &in->desc.shape;
  const int32_t dim = cf_dim(dim_option, from->ndim);
  const int64_t n = from->ndim ? from->dim[dim] : 1;
  neap_shape to = *from, starts = *from;
  if (made < 0) made = n;
  if (to.ndim) to.dim[dim] = made;
  if (to.ndim) starts.dim[dim] = 1;
  out[0] = cf_made(&to);
  double *x = calloc((size_t)n + (size_t)made + 1, sizeof *x), *y = x + n;
  assert_non_null(x);
  for (int64_t s = 0; s < neap__shape_count(&starts); s++) {
    cf_place p;
    cf_locate(&starts, s, &p);
    for (int64_t i = 0; i < n; i++) {
      if (to.ndim) p.at[dim] = i;
      x[i] = kt_get(in, cf_index(from, &p));
    }
    fn(c, x, n, y, made);
    for (int64_t i = 0; i < made; i++) {
      if (to.ndim) p.at[dim] = i;
      kt_set(&out[0], cf_index(&to, &p), y[i]);
    }
  }
  free(x);
}

static void log_softmax_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  double most = -INFINITY, s = 0;
  (void)c, (void)made;
  for (int64_t i = 0; i < n; i++) most = fmax(most, x[i]);
  for (int64_t i = 0; i < n; i++) s += exp(x[i] - most);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] - most - log(s);
}

static void softmax_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  log_softmax_line(c, x, n, y, made);
  for (int64_t i = 0; i < n; i++) y[i] = exp(y[i]);
}

static void softmin_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  double most = -INFINITY, s = 0;
  (void)c, (void)made;
  for (int64_t i = 0; i < n; i++) most = fmax(most, -x[i]);
  for (int64_t i = 0; i < n; i++) s += exp(-x[i] - most);
  for (int64_t i = 0; i < n; i++) y[i] = exp(-x[i] - most) / s;
}

static void running_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  const bool back = cf_whole(c, "reverse", 0, 0);
  double s = 0;
  (void)made;
  for (int64_t k = 0; k < n; k++) {
    const int64_t i = back ? n - 1 - k : k;
    y[i] = s += x[i];
  }
}

static void cumprod_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  double p = 1;
  (void)c, (void)made;
  for (int64_t i = 0; i < n; i++) y[i] = p *= x[i];
}

/* Each by itself, by the largest before it. */
static void logcumsumexp_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  (void)c, (void)made;
  for (int64_t i = 0; i < n; i++) {
    double most = -INFINITY, s = 0;
    for (int64_t k = 0; k <= i; k++) most = isnan(x[k]) ? x[k] : fmax(most, x[k]);
    for (int64_t k = 0; k <= i; k++) s += exp(x[k] - most);
    y[i] = isinf(most) ? most : most + log(s);
    for (int64_t k = 0; k <= i; k++)
      if (isnan(x[k])) y[i] = NAN;
  }
}

/* Of equal elements the last; NaN beats all. */
static void places_line(const double *x, int64_t n, double *y, double sign) {
  int64_t best = 0;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(x[i]) || (!isnan(x[best]) && sign * x[i] >= sign * x[best])) best = i;
    y[i] = (double)best;
  }
}

static void cummax_places_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  (void)made;
  places_line(x, n, y, strcmp(c->op->name, "cummin") == 0 || cf_whole(c, "smallest", 0, 0) ? -1 : 1);
}

static void cummax_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  cummax_places_line(c, x, n, y, made);
  for (int64_t i = 0; i < n; i++) y[i] = x[(int64_t)y[i]];
}

/* NaN is the largest. */
static bool less(double a, double b) { return a < b || (!isnan(a) && isnan(b)); }

/* Stable insertion: places in order. */
static void order(const double *x, int64_t n, bool descending, double *places) {
  for (int64_t i = 0; i < n; i++) {
    int64_t k = i;
    for (; k > 0; k--) {
      const double before = x[(int64_t)places[k - 1]];
      if (!(descending ? less(before, x[i]) : less(x[i], before))) break;
      places[k] = places[k - 1];
    }
    places[k] = (double)i;
  }
}

static void argsort_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  (void)made;
  order(x, n, cf_whole(c, "descending", 0, 0), y);
}

static void sort_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  argsort_line(c, x, n, y, made);
  for (int64_t i = 0; i < n; i++) y[i] = x[(int64_t)y[i]];
}

static void topk_places_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  double *places = calloc((size_t)n + 1, sizeof *places);
  assert_non_null(places);
  order(x, n, cf_whole(c, "largest", 0, 1), places);
  for (int64_t i = 0; i < made; i++) y[i] = places[i];
  free(places);
}

static void topk_line(const cf_case *c, const double *x, int64_t n, double *y, int64_t made) {
  topk_places_line(c, x, n, y, made);
  for (int64_t i = 0; i < made; i++) y[i] = x[(int64_t)y[i]];
}

static int64_t dim_of(const cf_case *c) { return cf_whole(c, "dim", 0, -1); }

#define LINE(name, fn, made) \
  static void name(const cf_case *c, const kt_value *in, kt_value *out) { along(c, in, out, dim_of(c), made, fn); }
LINE(softmax, softmax_line, -1)
LINE(log_softmax, log_softmax_line, -1)
LINE(softmin, softmin_line, -1)
LINE(cumsum, running_line, -1)
LINE(cumprod, cumprod_line, -1)
LINE(logcumsumexp, logcumsumexp_line, -1)
LINE(cummax_places, cummax_places_line, -1)
LINE(argsort, argsort_line, -1)

/* Values, and their places. */
static void cummax(const cf_case *c, const kt_value *in, kt_value *out) {
  along(c, in, &out[0], dim_of(c), -1, cummax_line);
  along(c, in, &out[1], dim_of(c), -1, cummax_places_line);
}

static void sort(const cf_case *c, const kt_value *in, kt_value *out) {
  along(c, in, &out[0], dim_of(c), -1, sort_line);
  along(c, in, &out[1], dim_of(c), -1, argsort_line);
}

static void topk(const cf_case *c, const kt_value *in, kt_value *out) {
  along(c, in, &out[0], dim_of(c), cf_whole(c, "k", 0, 0), topk_line);
  along(c, in, &out[1], dim_of(c), cf_whole(c, "k", 0, 0), topk_places_line);
}

/* Two inputs: the factors, and the terms that lines are made of. */
static void linear_scan(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *s = &in[0].desc.shape;
  const int32_t dim = cf_dim(dim_of(c), s->ndim);
  const bool back = cf_whole(c, "reverse", 0, 0);
  out[0] = cf_made(s);
  for (int64_t k = 0, count = kt_count(&in[0]); k < count; k++) {
    const int64_t i = back ? count - 1 - k : k;
    cf_place p;
    cf_locate(s, i, &p);
    p.at[dim] += back ? 1 : -1;
    const bool first = p.at[dim] < 0 || p.at[dim] == s->dim[dim];
    const double before = first ? 0 : kt_get(&in[0], i) * kt_get(&out[0], cf_index(s, &p));
    kt_set(&out[0], i, before + kt_get(&in[1], i));
  }
}

const cf_oracle_row cf_oracles_line[] = {{"softmax", softmax},
                                         {"log_softmax", log_softmax},
                                         {"softmin", softmin},
                                         {"cumsum", cumsum},
                                         {"running_sum", cumsum},
                                         {"sort", sort},
                                         {"argsort", argsort},
                                         {"topk", topk},
                                         {"cumprod", cumprod},
                                         {"logcumsumexp", logcumsumexp},
                                         {"cummax_places", cummax_places},
                                         {"cummax", cummax},
                                         {"cummin", cummax},
                                         {"linear_scan", linear_scan},
                                         {NULL, NULL}};
