/* Order statistics: of each line along a dimension, or of all elements. */
#include <math.h>
#include <stdlib.h>

#include "conform/oracle.h"

/* NaN is the largest. */
static bool less(double a, double b) { return a < b || (!isnan(a) && isnan(b)); }

/* Where the element is that `before` others precede; equal ones keep their order. */
static int64_t ranked(const double *x, int64_t n, int64_t before) {
  for (int64_t i = 0; i < n; i++) {
    int64_t smaller = 0;
    for (int64_t k = 0; k < n; k++) smaller += less(x[k], x[i]) || (k < i && !less(x[i], x[k]));
    if (smaller == before) return i;
  }
  return -1;
}

static int64_t nans(const double *x, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += isnan(x[i]) != 0;
  return count;
}

/* The place of what is asked for; *y is its value, or what lies between two. */
typedef int64_t (*choose_fn)(const cf_case *c, const double *x, int64_t n, double *y);

/* Gathers the line that goes through place p along dim (-1: everything). */
static int64_t line_at(const kt_value *in, int32_t dim, const cf_place *p, double *x) {
  const neap_shape *s = &in->desc.shape;
  const int64_t n = dim < 0 ? kt_count(in) : s->ndim ? s->dim[dim] : 1;
  for (int64_t i = 0; i < n; i++) {
    cf_place q = *p;
    if (dim >= 0 && s->ndim) q.at[dim] = i;
    x[i] = kt_get(in, dim < 0 ? i : cf_index(s, &q));
  }
  return n;
}

static void order(const cf_case *c, const kt_value *in, kt_value *out, choose_fn fn, int64_t dim_left_out) {
  const neap_shape *from = &in->desc.shape;
  const neap_opt *given = cf_option(c, "dim");
  const int32_t dim = given || dim_left_out ? cf_dim(given ? given->v.i : dim_left_out, from->ndim) : -1;
  const bool keep = cf_whole(c, "keepdim", 0, 0) != 0;
  neap_shape kept = *from, to = {.ndim = 0};
  for (int32_t d = 0; d < from->ndim; d++) {
    if (dim < 0 || d == dim) kept.dim[d] = 1;
    if (keep || (dim >= 0 && d != dim)) to.dim[to.ndim++] = kept.dim[d];
  }
  double *x = malloc(((size_t)kt_count(in) + 1) * sizeof *x);
  assert_non_null(x);
  out[0] = cf_made(&to);
  if (dim >= 0) out[1] = cf_made(&to);
  for (int64_t o = 0; o < kt_count(&out[0]); o++) {
    cf_place p;
    double y = NAN;
    cf_locate(&kept, o, &p);
    const int64_t place = fn(c, x, line_at(in, dim, &p, x), &y);
    kt_set(&out[0], o, y);
    if (dim >= 0) kt_set(&out[1], o, (double)place);
  }
  free(x);
}

static int64_t of_rank(const double *x, int64_t n, int64_t before, double *y) {
  const int64_t i = ranked(x, n, before);
  *y = x[i];
  return i;
}

static int64_t median_of(const cf_case *c, const double *x, int64_t n, double *y) {
  (void)c;
  return of_rank(x, n, nans(x, n) ? n - 1 : (n - 1) / 2, y);
}

static int64_t nanmedian_of(const cf_case *c, const double *x, int64_t n, double *y) {
  const int64_t numbers = n - nans(x, n);
  (void)c;
  return of_rank(x, n, numbers ? (numbers - 1) / 2 : 0, y);
}

static int64_t kthvalue_of(const cf_case *c, const double *x, int64_t n, double *y) {
  return of_rank(x, n, cf_whole(c, "k", 0, 1) - 1, y);
}

static int64_t quantile_of(const cf_case *c, const double *x, int64_t n, double *y) {
  enum { LINEAR, LOWER, HIGHER, NEAREST, MIDPOINT };
  const int64_t how = cf_whole(c, "interpolation", 0, LINEAR);
  const double at = cf_number(c, "q", 0) * (double)(n - 1);
  double low, high, part = at - floor(at);
  of_rank(x, n, (int64_t)floor(at), &low);
  of_rank(x, n, (int64_t)ceil(at), &high);
  if (how == LOWER) part = 0;
  if (how == HIGHER) part = 1;
  if (how == NEAREST) part = rint(at) - floor(at);
  if (how == MIDPOINT) part = part > 0 ? 0.5 : 0;
  *y = nans(x, n) ? NAN : part == 0 ? low : part == 1 ? high : low + part * (high - low);
  return -1;
}

static void median(const cf_case *c, const kt_value *in, kt_value *out) { order(c, in, out, median_of, 0); }
static void nanmedian(const cf_case *c, const kt_value *in, kt_value *out) { order(c, in, out, nanmedian_of, 0); }
static void kthvalue(const cf_case *c, const kt_value *in, kt_value *out) { order(c, in, out, kthvalue_of, -1); }
static void quantile(const cf_case *c, const kt_value *in, kt_value *out) { order(c, in, out, quantile_of, 0); }

const cf_oracle_row cf_oracles_order[] = {
    {"median", median}, {"nanmedian", nanmedian}, {"kthvalue", kthvalue}, {"quantile", quantile}, {NULL, NULL}};
