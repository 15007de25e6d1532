/* Distances between vectors, and their lengths. */
#include <math.h>

#include "conform/oracle.h"

/* One number more of a p-norm; `finish` makes the norm of what has been added up. */
static double more(double p, double sum, double x) {
  const double a = fabs(x);
  if (isnan(a) || isnan(sum)) return NAN;
  if (isinf(p)) return fmax(sum, a);
  return sum + (p == 0 ? a != 0 : pow(a, p));
}

static double finish(double p, double sum) { return isinf(p) || p == 0 ? sum : pow(sum, 1 / p); }

static double at(const kt_value *v, const neap_shape *shape, const cf_place *p) {
  return kt_get(v, cf_spread(&v->desc.shape, shape, p));
}

/* The p-norms of in[0] - in[1] + eps over all of the broadcast shape, or over its last dimension. */
static void norms(const cf_case *c, const kt_value *in, kt_value *out, bool rows) {
  const double p = cf_number(c, "p", 2), eps = rows ? cf_number(c, "eps", 1e-6) : 0;
  neap_shape shape, to;
  neap_error err;
  assert_int_equal(neap__broadcast(&in[0].desc.shape, &in[1].desc.shape, &shape, &err), NEAP_OK);
  to = shape;
  if (rows && cf_whole(c, "keepdim", 0, 0))
    to.dim[to.ndim - 1] = 1;
  else
    to.ndim = rows ? to.ndim - 1 : 0;
  out[0] = cf_made(&to);
  const int64_t m = rows ? shape.dim[shape.ndim - 1] : 0;
  for (int64_t i = 0; i < neap__shape_count(&shape); i++) {
    cf_place q;
    cf_locate(&shape, i, &q);
    const int64_t o = rows ? i / m : 0;
    kt_set(&out[0], o, more(p, kt_get(&out[0], o), at(&in[0], &shape, &q) - at(&in[1], &shape, &q) + eps));
  }
  for (int64_t o = 0; o < kt_count(&out[0]); o++) kt_set(&out[0], o, finish(p, kt_get(&out[0], o)));
}

static void dist(const cf_case *c, const kt_value *in, kt_value *out) { norms(c, in, out, false); }
static void pairwise_distance(const cf_case *c, const kt_value *in, kt_value *out) { norms(c, in, out, true); }

/* The last dimensions of the first input are rows, of the second columns of the result. */
static void cdist(const cf_case *c, const kt_value *in, kt_value *out) {
  const double p = cf_number(c, "p", 2);
  const neap_shape *a = &in[0].desc.shape, *b = &in[1].desc.shape;
  neap_shape left = *a, right = *b, to;
  neap_error err;
  const int64_t m = a->dim[a->ndim - 1], columns = b->dim[b->ndim - 2];
  left.dim[left.ndim - 1] = right.dim[right.ndim - 2] = 1;
  right.dim[right.ndim - 1] = columns;
  assert_int_equal(neap__broadcast(&left, &right, &to, &err), NEAP_OK);
  out[0] = cf_made(&to);
  for (int64_t o = 0; o < kt_count(&out[0]); o++) {
    cf_place q;
    double sum = 0;
    cf_locate(&to, o, &q);
    const int64_t x = cf_spread(&left, &to, &q) * m, y = cf_spread(&right, &to, &q) * m;
    for (int64_t k = 0; k < m; k++) sum = more(p, sum, kt_get(&in[0], x + k) - kt_get(&in[1], y + k));
    kt_set(&out[0], o, finish(p, sum));
  }
}

/* Each line along `dim` by itself. */
static void normalize(const cf_case *c, const kt_value *in, kt_value *out) {
  const double p = cf_number(c, "p", 2), eps = cf_number(c, "eps", 1e-12);
  const neap_shape *s = &in[0].desc.shape;
  const int32_t dim = cf_dim(cf_whole(c, "dim", 0, 1), s->ndim);
  out[0] = cf_made(s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    double sum = 0;
    cf_place q;
    cf_locate(s, i, &q);
    for (q.at[dim] = 0; q.at[dim] < s->dim[dim]; q.at[dim]++) sum = more(p, sum, kt_get(&in[0], cf_index(s, &q)));
    const double length = finish(p, sum);
    kt_set(&out[0], i, kt_get(&in[0], i) / (length < eps ? eps : length));
  }
}

const cf_oracle_row cf_oracles_distance[] = {
    {"dist", dist}, {"pairwise_distance", pairwise_distance}, {"cdist", cdist}, {"normalize", normalize}, {NULL, NULL}};
