/* Losses: of class indices, and of differences. */
#include <math.h>
#include <string.h>

#include "conform/oracle.h"

enum { MEAN, SUM, NONE };

/* scores: (N, C, rest...) or (C): classes are dimension 1, of a single sample 0. */
typedef struct scores {
  int64_t outer, classes, inner;
} scores;

static scores scores_of(const neap_shape *s) {
  scores r = {1, s->dim[s->ndim > 1 ? 1 : 0], 1};
  if (s->ndim > 1) r.outer = s->dim[0];
  for (int32_t d = 2; d < s->ndim; d++) r.inner *= s->dim[d];
  return r;
}

/* The k-th score of target place i. */
static double score(const kt_value *x, const scores *s, int64_t i, int64_t k) {
  return kt_get(x, (i / s->inner * s->classes + k) * s->inner + i % s->inner);
}

static double log_sum(const kt_value *x, const scores *s, int64_t i) {
  double most = -INFINITY, sum = 0;
  for (int64_t k = 0; k < s->classes; k++) most = fmax(most, score(x, s, i, k));
  for (int64_t k = 0; k < s->classes; k++) sum += exp(score(x, s, i, k) - most);
  return most + log(sum);
}

static bool ignored(const neap_opt *ignore, double label) { return ignore->set && (double)ignore->v.i == label; }

static void softmax_nll(const cf_case *c, const kt_value *in, kt_value *out) {
  const scores s = scores_of(&in[0].desc.shape);
  out[0] = cf_made(&in[1].desc.shape);
  out[1] = cf_made(&in[1].desc.shape);
  for (int64_t i = 0; i < kt_count(&in[1]); i++) {
    const double label = kt_get(&in[1], i), lse = log_sum(&in[0], &s, i);
    kt_set(&out[1], i, lse);
    kt_set(&out[0], i, ignored(&c->opt[0], label) ? 0 : lse - score(&in[0], &s, i, (int64_t)label));
  }
}

static void pick_nll(const cf_case *c, const kt_value *in, kt_value *out) {
  const scores s = scores_of(&in[0].desc.shape);
  out[0] = cf_made(&in[1].desc.shape);
  for (int64_t i = 0; i < kt_count(&in[1]); i++) {
    const double label = kt_get(&in[1], i);
    kt_set(&out[0], i, ignored(&c->opt[0], label) ? 0 : -score(&in[0], &s, i, (int64_t)label));
  }
}

/* Sums, means over `count`, or leaves the losses. */
static void reduce(kt_value *loss, int64_t reduction, double count) {
  double sum = 0;
  if (reduction == NONE) return;
  for (int64_t i = 0; i < kt_count(loss); i++) sum += kt_get(loss, i);
  kt_free(loss);
  *loss = cf_made(&(neap_shape){0, {0}});
  kt_set(loss, 0, reduction == MEAN ? sum / count : sum);
}

/* What class k weighs: the third input. */
static double weight_of(const cf_case *c, const kt_value *in, int64_t k) { return c->n_in > 2 ? kt_get(&in[2], k) : 1; }

/* What the labels that count weigh. */
static double counted(const cf_case *c, const kt_value *in, const neap_opt *ignore) {
  double n = 0;
  for (int64_t i = 0; i < kt_count(&in[1]); i++)
    if (!ignored(ignore, kt_get(&in[1], i))) n += weight_of(c, in, (int64_t)kt_get(&in[1], i));
  return n;
}

static void nll_loss(const cf_case *c, const kt_value *in, kt_value *out) {
  cf_case plain = *c;
  plain.opt[0] = c->opt[1];
  pick_nll(&plain, in, out);
  for (int64_t i = 0; i < kt_count(&in[1]); i++)
    if (!ignored(&c->opt[1], kt_get(&in[1], i)))
      kt_set(&out[0], i, kt_get(&out[0], i) * weight_of(c, in, (int64_t)kt_get(&in[1], i)));
  reduce(&out[0], c->opt[0].v.i, counted(c, in, &c->opt[1]));
}

/* The probability of class k at place i, before smoothing. */
static double target_of(const kt_value *in, const scores *s, int64_t i, int64_t k) {
  if (neap__dtype_is_float(in[1].desc.dtype)) return score(&in[1], s, i, k);
  return k == (int64_t)kt_get(&in[1], i);
}

/* Of indices the mean is over what their classes weigh, of probabilities over places. */
static void cross_entropy(const cf_case *c, const kt_value *in, kt_value *out) {
  const scores s = scores_of(&in[0].desc.shape);
  const bool soft = neap__dtype_is_float(in[1].desc.dtype);
  const double smoothing = c->opt[2].v.f;
  neap_shape places = in[1].desc.shape;
  for (int32_t d = in[0].desc.shape.ndim > 1 ? 1 : 0; soft && d + 1 < places.ndim; d++)
    places.dim[d] = places.dim[d + 1];
  if (soft) places.ndim--;
  out[0] = cf_made(&places);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    const double lse = log_sum(&in[0], &s, i);
    double sum = 0;
    if (!soft && ignored(&c->opt[1], kt_get(&in[1], i))) continue;
    for (int64_t k = 0; k < s.classes; k++) {
      const double p = (1 - smoothing) * target_of(in, &s, i, k) + smoothing / (double)s.classes;
      if (soft || p > 0) sum += weight_of(c, in, k) * p * (lse - score(&in[0], &s, i, k));
    }
    kt_set(&out[0], i, sum);
  }
  reduce(&out[0], c->opt[0].v.i, soft ? (double)kt_count(&out[0]) : counted(c, in, &c->opt[1]));
}

typedef double (*pair_fn)(const cf_case *c, double a, double b);

/* A third input weighs each loss; a mean is then over the sum of the weights. */
static void pairs(const cf_case *c, const kt_value *in, kt_value *out, pair_fn fn) {
  neap_shape shape;
  neap_error err;
  double weights = 0;
  assert_int_equal(neap__broadcast(&in[0].desc.shape, &in[1].desc.shape, &shape, &err), NEAP_OK);
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&shape, i, &p);
    const double weight = c->n_in > 2 ? kt_get(&in[2], i) : 1;
    weights += weight;
    kt_set(&out[0], i,
           weight * fn(c, kt_get(&in[0], cf_spread(&in[0].desc.shape, &shape, &p)),
                       kt_get(&in[1], cf_spread(&in[1].desc.shape, &shape, &p))));
  }
  reduce(&out[0], c->opt[0].v.i, weights);
}

static double mse_of(const cf_case *c, double a, double b) {
  (void)c;
  return (a - b) * (a - b);
}

static double l1_of(const cf_case *c, double a, double b) {
  (void)c;
  return fabs(a - b);
}

static double huber_of(const cf_case *c, double a, double b) {
  const double d = fabs(a - b), delta = cf_number(c, "delta", 1);
  return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
}

static double smooth_l1_of(const cf_case *c, double a, double b) {
  const double d = fabs(a - b), beta = cf_number(c, "beta", 1);
  return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
}

static void mse_loss(const cf_case *c, const kt_value *in, kt_value *out) { pairs(c, in, out, mse_of); }
static void l1_loss(const cf_case *c, const kt_value *in, kt_value *out) { pairs(c, in, out, l1_of); }
static void huber_loss(const cf_case *c, const kt_value *in, kt_value *out) { pairs(c, in, out, huber_of); }
static void smooth_l1_loss(const cf_case *c, const kt_value *in, kt_value *out) { pairs(c, in, out, smooth_l1_of); }

/* -(w t log sigmoid(x) + (1 - t) log(1 - sigmoid(x))), w 1 when left out; log sigmoid(x) is -softplus(-x). */
static void bce(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *s = &in[0].desc.shape;
  neap_shape shape = *s;
  neap_error err;
  for (uint32_t k = 2; k < c->n_in; k++) {
    const neap_shape before = shape;
    assert_int_equal(neap__broadcast(&before, &in[k].desc.shape, &shape, &err), NEAP_OK);
  }
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&shape, i, &p);
    const double x = kt_get(&in[0], cf_spread(s, &shape, &p)), t = kt_get(&in[1], cf_spread(s, &shape, &p));
    const double w = c->n_in > 2 ? kt_get(&in[2], cf_spread(&in[2].desc.shape, &shape, &p)) : 1;
    const double positive = fmax(-x, 0) + log1p(exp(-fabs(x))); /* of target 1; that of target 0 is x more */
    const double each = c->n_in > 3 ? kt_get(&in[3], cf_spread(&in[3].desc.shape, &shape, &p)) : 1;
    kt_set(&out[0], i, each * ((1 - t) * x + (1 + (w - 1) * t) * positive));
  }
  reduce(&out[0], c->opt[0].v.i, (double)kt_count(&out[0]));
}

const cf_oracle_row cf_oracles_loss[] = {{"softmax_nll", softmax_nll},
                                         {"pick_nll", pick_nll},
                                         {"nll_loss", nll_loss},
                                         {"cross_entropy", cross_entropy},
                                         {"mse_loss", mse_loss},
                                         {"l1_loss", l1_loss},
                                         {"huber_loss", huber_loss},
                                         {"smooth_l1_loss", smooth_l1_loss},
                                         {"binary_cross_entropy_with_logits", bce},
                                         {NULL, NULL}};
