/* Losses with margins, and of how near vectors are. */
#include <math.h>

#include "conform/oracle.h"

/* Reduces the losses in out[0]: 0 mean, 1 sum, 2 none. */
static void reduced(const cf_case *c, kt_value *out) {
  const int64_t n = kt_count(&out[0]), reduction = cf_whole(c, "reduction", 0, 0);
  double sum = 0;
  if (reduction == 2) return;
  for (int64_t i = 0; i < n; i++) sum += kt_get(&out[0], i);
  kt_free(&out[0]);
  out[0] = cf_made(&(neap_shape){.ndim = 0});
  kt_set(&out[0], 0, reduction == 0 ? sum / (double)n : sum);
}

static neap_shape common_shape(const kt_value *in, uint32_t n) {
  neap_shape shape = in[0].desc.shape;
  neap_error err;
  for (uint32_t i = 1; i < n; i++) {
    const neap_shape before = shape;
    assert_int_equal(neap__broadcast(&before, &in[i].desc.shape, &shape, &err), NEAP_OK);
  }
  return shape;
}

static double value_at(const kt_value *v, const neap_shape *shape, const cf_place *p) {
  return kt_get(v, cf_spread(&v->desc.shape, shape, p));
}

static double positive(double x) { return x < 0 ? 0 : x; }

typedef double (*formula)(const cf_case *c, const double *v);

static void each(const cf_case *c, const kt_value *in, kt_value *out, formula f) {
  const neap_shape shape = common_shape(in, c->n_in);
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    double v[3] = {0, 0, 0};
    cf_place p;
    cf_locate(&shape, i, &p);
    for (uint32_t k = 0; k < c->n_in; k++) v[k] = value_at(&in[k], &shape, &p);
    kt_set(&out[0], i, f(c, v));
  }
  reduced(c, out);
}

static double ranking_of(const cf_case *c, const double *v) {
  return positive(-v[2] * (v[0] - v[1]) + cf_number(c, "margin", 0));
}

static double hinge_of(const cf_case *c, const double *v) {
  return (v[1] == -1 ? 0 : v[0]) + (v[1] == 1 ? 0 : positive(cf_number(c, "margin", 1) - v[0]));
}

static double soft_of(const cf_case *c, const double *v) {
  const double x = -v[0] * v[1];
  (void)c;
  return positive(x) + log1p(exp(-fabs(x)));
}

static void ranking(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, ranking_of); }
static void hinge(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, hinge_of); }
static void soft(const cf_case *c, const kt_value *in, kt_value *out) { each(c, in, out, soft_of); }

/* Rows of `classes` scores, and the shape of their losses. */
static int64_t rows_of(const kt_value *x, neap_shape *rows) {
  *rows = x->desc.shape;
  return rows->dim[--rows->ndim];
}

static void multilabel_soft(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape rows;
  const int64_t classes = rows_of(&in[0], &rows);
  out[0] = cf_made(&rows);
  for (int64_t r = 0; r < kt_count(&out[0]); r++) {
    double sum = 0;
    for (int64_t k = 0; k < classes; k++) {
      const int64_t i = r * classes + k;
      const double x = kt_get(&in[0], i), t = kt_get(&in[1], i);
      cf_place p;
      cf_locate(&in[0].desc.shape, i, &p);
      const double loss = (1 - t) * x + positive(-x) + log1p(exp(-fabs(x)));
      sum += loss * (c->n_in > 2 ? value_at(&in[2], &in[0].desc.shape, &p) : 1);
    }
    kt_set(&out[0], r, sum / (double)classes);
  }
  reduced(c, out);
}

static void multi(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape rows;
  const int64_t classes = rows_of(&in[0], &rows);
  out[0] = cf_made(&rows);
  for (int64_t r = 0; r < kt_count(&out[0]); r++) {
    const int64_t label = (int64_t)kt_get(&in[1], r);
    double sum = 0;
    for (int64_t k = 0; k < classes; k++) {
      const double over =
          positive(cf_number(c, "margin", 1) - kt_get(&in[0], r * classes + label) + kt_get(&in[0], r * classes + k));
      if (k != label) sum += cf_whole(c, "p", 0, 1) == 2 ? over * over : over;
    }
    kt_set(&out[0], r, sum / (double)classes * (c->n_in > 2 ? kt_get(&in[2], label) : 1));
  }
  reduced(c, out);
}

/* The sum of f(a, b) over dimension dim of broadcast inputs, at place p of the others. */
typedef struct pair {
  const kt_value *a, *b;
  neap_shape shape;
  int32_t dim;
} pair;

static double over_dim(const pair *v, cf_place p, double (*f)(double a, double b, double p), double power) {
  double sum = 0;
  for (int64_t k = 0; k < v->shape.dim[v->dim]; k++) {
    p.at[v->dim] = k;
    sum += f(value_at(v->a, &v->shape, &p), value_at(v->b, &v->shape, &p), power);
  }
  return sum;
}

static double product(double a, double b, double p) { return (void)p, a * b; }
static double power(double a, double b, double p) { return pow(fabs(a - b + 1e-6), p); }

/* The shape without dimension dim; a place in it with one put in. */
static neap_shape without(const neap_shape *s, int32_t dim) {
  neap_shape r = {.ndim = 0};
  for (int32_t d = 0; d < s->ndim; d++)
    if (d != dim) r.dim[r.ndim++] = s->dim[d];
  return r;
}

static cf_place widened(const cf_place *p, int32_t dim, int32_t ndim) {
  cf_place q = {{0}};
  for (int32_t d = 0; d < ndim; d++) q.at[d] = d == dim ? 0 : p->at[d < dim ? d : d - 1];
  return q;
}

static void cosine(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape shape = common_shape(in, 2);
  const int32_t dim = cf_dim(cf_whole(c, "dim", 0, 1), shape.ndim);
  const double eps = cf_number(c, "eps", 1e-8);
  const neap_shape to = without(&shape, dim);
  out[0] = cf_made(&to);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&to, i, &p);
    p = widened(&p, dim, shape.ndim);
    const double dot = over_dim(&(pair){&in[0], &in[1], shape, dim}, p, product, 0);
    const double a = sqrt(over_dim(&(pair){&in[0], &in[0], shape, dim}, p, product, 0));
    const double b = sqrt(over_dim(&(pair){&in[1], &in[1], shape, dim}, p, product, 0));
    kt_set(&out[0], i, dot / ((a < eps ? eps : a) * (b < eps ? eps : b)));
  }
}

static void cosine_embedding(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape shape = common_shape(in, 2);
  const int32_t dim = shape.ndim - 1;
  const neap_shape to = without(&shape, dim);
  out[0] = cf_made(&to);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&to, i, &p);
    const double t = kt_get(&in[2], i);
    const double a = over_dim(&(pair){&in[0], &in[0], shape, dim}, p, product, 0) + 1e-12;
    const double b = over_dim(&(pair){&in[1], &in[1], shape, dim}, p, product, 0) + 1e-12;
    const double cos = over_dim(&(pair){&in[0], &in[1], shape, dim}, p, product, 0) / sqrt(a * b);
    kt_set(&out[0], i, t == 1 ? 1 - cos : t == -1 ? positive(cos - cf_number(c, "margin", 0)) : 0);
  }
  reduced(c, out);
}

static double distance(const cf_case *c, const kt_value *a, const kt_value *b, const neap_shape *s, const cf_place *p) {
  const double order = cf_number(c, "p", 2);
  const double sum = over_dim(&(pair){a, b, *s, s->ndim - 1}, *p, power, order);
  return order == 0 ? (double)s->dim[s->ndim - 1] : pow(sum, 1 / order);
}

static void triplet(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape shape = common_shape(in, 3), to = without(&shape, shape.ndim - 1);
  out[0] = cf_made(&to);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&to, i, &p);
    const double near = distance(c, &in[0], &in[1], &shape, &p), swapped = distance(c, &in[1], &in[2], &shape, &p);
    double far = distance(c, &in[0], &in[2], &shape, &p);
    if (cf_whole(c, "swap", 0, 0) && (swapped < far || isnan(swapped))) far = swapped;
    kt_set(&out[0], i, positive(near - far + cf_number(c, "margin", 1)));
  }
  reduced(c, out);
}

const cf_oracle_row cf_oracles_margin[] = {{"margin_ranking_loss", ranking},
                                           {"hinge_embedding_loss", hinge},
                                           {"soft_margin_loss", soft},
                                           {"multilabel_soft_margin_loss", multilabel_soft},
                                           {"multi_margin_loss", multi},
                                           {"cosine_similarity", cosine},
                                           {"cosine_embedding_loss", cosine_embedding},
                                           {"triplet_margin_loss", triplet},
                                           {NULL, NULL}};
