/* Reductions and softmax. */
#include <math.h>

#include "conform/oracle.h"

static bool reduced(const neap_opt *dims, int32_t ndim, int32_t d, bool single) {
  if (!dims->set) return true;
  if (single) return cf_dim(dims->v.i, ndim) == d;
  for (int32_t i = 0; i < dims->n; i++)
    if (cf_dim(dims->v.list[i], ndim) == d) return true;
  return false;
}

/* Shape with reduced dimensions as 1, and as the op gives it. */
static void shapes(const cf_case *c, const neap_shape *from, bool single, neap_shape *kept, neap_shape *given) {
  *kept = *from;
  given->ndim = 0;
  for (int32_t d = 0; d < from->ndim; d++) {
    const bool gone = reduced(&c->opt[0], from->ndim, d, single);
    if (gone) kept->dim[d] = 1;
    if (!gone || c->opt[1].v.i) given->dim[given->ndim++] = kept->dim[d];
  }
}

typedef enum kind { SUM, MEAN, MOST, LEAST } kind;

static double start_of(kind k) { return k == MOST ? -INFINITY : k == LEAST ? INFINITY : 0; }

static double join(kind k, double a, double x) {
  if (k == SUM || k == MEAN) return a + x;
  if (isnan(a) || isnan(x)) return NAN;
  return k == MOST ? fmax(a, x) : fmin(a, x);
}

static void reduce(const cf_case *given, const kt_value *in, kt_value *out, kind k) {
  const cf_case c = cf_complete(given);
  const neap_shape *from = &in->desc.shape;
  neap_shape kept, shape;
  shapes(&c, from, false, &kept, &shape);
  out[0] = cf_made(&shape);
  for (int64_t o = 0; o < kt_count(&out[0]); o++) kt_set(&out[0], o, start_of(k));
  for (int64_t i = 0; i < kt_count(in); i++) {
    cf_place p;
    cf_locate(from, i, &p);
    const int64_t o = cf_spread(&kept, from, &p);
    kt_set(&out[0], o, join(k, kt_get(&out[0], o), kt_get(in, i)));
  }
  const double n = (double)kt_count(in) / (double)kt_count(&out[0]);
  for (int64_t o = 0; o < kt_count(&out[0]) && k == MEAN; o++) kt_set(&out[0], o, kt_get(&out[0], o) / n);
}

static void sum(const cf_case *c, const kt_value *in, kt_value *out) { reduce(c, in, out, SUM); }
static void mean(const cf_case *c, const kt_value *in, kt_value *out) { reduce(c, in, out, MEAN); }
static void amax(const cf_case *c, const kt_value *in, kt_value *out) { reduce(c, in, out, MOST); }
static void amin(const cf_case *c, const kt_value *in, kt_value *out) { reduce(c, in, out, LEAST); }

static void sumsq(const cf_case *c, const kt_value *in, kt_value *out) {
  (void)c;
  out[0] = cf_made(&(neap_shape){0, {0}});
  double s = 0;
  for (int64_t i = 0; i < kt_count(in); i++) s += kt_get(in, i) * kt_get(in, i);
  kt_set(&out[0], 0, s);
}

/* The first of the best; NaN is better than any number. */
static void position(const cf_case *given, const kt_value *in, kt_value *out, double sign) {
  const cf_case c = cf_complete(given);
  const neap_shape *from = &in->desc.shape;
  const int32_t dim = c.opt[0].set ? cf_dim(c.opt[0].v.i, from->ndim) : -1;
  neap_shape kept, shape;
  shapes(&c, from, true, &kept, &shape);
  out[0] = cf_made(&shape);
  kt_value best = cf_made(&shape);
  for (int64_t o = 0; o < kt_count(&best); o++) kt_set(&out[0], o, -1);
  for (int64_t i = 0; i < kt_count(in); i++) {
    cf_place p;
    cf_locate(from, i, &p);
    const int64_t o = cf_spread(&kept, from, &p);
    const double x = sign * kt_get(in, i), b = kt_get(&best, o);
    if (kt_get(&out[0], o) >= 0 && !(x > b) && !(isnan(x) && !isnan(b))) continue;
    if (kt_get(&out[0], o) >= 0 && isnan(b)) continue;
    kt_set(&best, o, x);
    kt_set(&out[0], o, dim < 0 || from->ndim == 0 ? (double)i : (double)p.at[dim]);
  }
  kt_free(&best);
}

static void argmax(const cf_case *c, const kt_value *in, kt_value *out) { position(c, in, out, 1); }
static void argmin(const cf_case *c, const kt_value *in, kt_value *out) { position(c, in, out, -1); }

/* --- along one dimension --- */
typedef struct line {
  int64_t start, step, n;
} line;

static int64_t lines_of(const neap_shape *s, int32_t dim, line *first) {
  *first = (line){0, 1, s->ndim ? s->dim[dim] : 1};
  for (int32_t d = dim + 1; d < s->ndim; d++) first->step *= s->dim[d];
  const int64_t count = neap__shape_count(s);
  return first->n ? count / first->n : 0;
}

static line line_at(const line *first, int64_t i) {
  return (line){i / first->step * first->step * first->n + i % first->step, first->step, first->n};
}

static void softmax_line(const kt_value *x, kt_value *y, const line *l, bool logarithm) {
  double most = -INFINITY, s = 0;
  for (int64_t i = 0; i < l->n; i++) most = fmax(most, kt_get(x, l->start + i * l->step));
  for (int64_t i = 0; i < l->n; i++) s += exp(kt_get(x, l->start + i * l->step) - most);
  for (int64_t i = 0; i < l->n; i++) {
    const double d = kt_get(x, l->start + i * l->step) - most;
    kt_set(y, l->start + i * l->step, logarithm ? d - log(s) : exp(d) / s);
  }
}

static void along(const cf_case *c, const kt_value *in, kt_value *out, bool logarithm) {
  const neap_shape *s = &in->desc.shape;
  line first;
  out[0] = cf_made(s);
  const int64_t n = lines_of(s, cf_dim(c->opt[0].v.i, s->ndim), &first);
  for (int64_t i = 0; i < n; i++) {
    const line l = line_at(&first, i);
    softmax_line(in, &out[0], &l, logarithm);
  }
}

static void softmax(const cf_case *c, const kt_value *in, kt_value *out) { along(c, in, out, false); }
static void log_softmax(const cf_case *c, const kt_value *in, kt_value *out) { along(c, in, out, true); }

const cf_oracle_row cf_oracles_reduce[] = {
    {"sum", sum},       {"mean", mean},     {"amax", amax},       {"amin", amin},
    {"argmax", argmax}, {"argmin", argmin}, {"softmax", softmax}, {"log_softmax", log_softmax},
    {"sumsq", sumsq},   {NULL, NULL}};
