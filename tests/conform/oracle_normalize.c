/* Normalization by statistics of each group of elements. */
#include <math.h>

#include "conform/oracle.h"

typedef struct group {
  int64_t begin, n;
  bool centred;
  double eps;
} group;

/* (x - mean) / sqrt(var + eps) of a run of elements; without centring the mean counts as 0. */
static void standardize(const kt_value *in, kt_value *out, const group *g) {
  double mean = 0, var = 0;
  for (int64_t i = 0; i < g->n && g->centred; i++) mean += kt_get(in, g->begin + i) / (double)g->n;
  for (int64_t i = 0; i < g->n; i++) {
    const double d = kt_get(in, g->begin + i) - mean;
    var += d * d / (double)g->n;
  }
  for (int64_t i = 0; i < g->n; i++) kt_set(out, g->begin + i, (kt_get(in, g->begin + i) - mean) / sqrt(var + g->eps));
}

/* Element i of the result times weight and plus bias number `which`. */
static void adjust(const cf_case *c, const kt_value *in, kt_value *out, int64_t i, int64_t which) {
  double y = kt_get(out, i);
  if (c->n_in > 1) y *= kt_get(&in[1], which);
  if (c->n_in > 2) y += kt_get(&in[2], which);
  kt_set(out, i, y);
}

static void last_dims(const cf_case *c, const kt_value *in, kt_value *out, bool centred, double eps) {
  const neap_shape *s = &in[0].desc.shape;
  const neap_opt *given = cf_option(c, "normalized_shape");
  const int32_t dims = given ? given->n : c->n_in > 1 ? in[1].desc.shape.ndim : 1;
  int64_t n = 1;
  for (int32_t d = s->ndim - dims; d < s->ndim; d++) n *= s->dim[d];
  out[0] = cf_made(s);
  for (int64_t i = 0; n > 0 && i < kt_count(&in[0]); i += n) standardize(&in[0], &out[0], &(group){i, n, centred, eps});
  for (int64_t i = 0; n > 0 && i < kt_count(&in[0]); i++) adjust(c, in, &out[0], i, i % n);
}

static void layer_norm(const cf_case *c, const kt_value *in, kt_value *out) {
  last_dims(c, in, out, true, cf_number(c, "eps", 1e-5));
}

/* Its eps is that of the input's dtype when left out. */
static void rms_norm(const cf_case *c, const kt_value *in, kt_value *out) {
  last_dims(c, in, out, false, cf_number(c, "eps", in[0].desc.dtype == NEAP_F64 ? 0x1p-52 : 0x1p-23));
}

static void by_channel(const cf_case *c, const kt_value *in, kt_value *out, int64_t groups) {
  const neap_shape *s = &in[0].desc.shape;
  int64_t inner = 1;
  for (int32_t d = 2; d < s->ndim; d++) inner *= s->dim[d];
  const int64_t n = s->dim[1] / groups * inner;
  out[0] = cf_made(s);
  for (int64_t i = 0; n > 0 && i < kt_count(&in[0]); i += n)
    standardize(&in[0], &out[0], &(group){i, n, true, cf_number(c, "eps", 1e-5)});
  for (int64_t i = 0; n > 0 && i < kt_count(&in[0]); i++) adjust(c, in, &out[0], i, i / inner % (n / inner * groups));
}

static void group_norm(const cf_case *c, const kt_value *in, kt_value *out) {
  by_channel(c, in, out, cf_whole(c, "groups", 0, 1));
}

static void instance_norm(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t channels = in[0].desc.shape.dim[1];
  by_channel(c, in, out, channels ? channels : 1);
}

/* Mean and variance of a channel over everything else; the variance over the count less `less`. */
static void channel(const kt_value *x, int64_t which, double less, double *mean, double *var) {
  const neap_shape *s = &x->desc.shape;
  double n = 0;
  *mean = *var = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t i = 0; i < kt_count(x); i++) {
      cf_place p;
      cf_locate(s, i, &p);
      if (p.at[1] != which) continue;
      const double v = kt_get(x, i);
      if (pass)
        *var += (v - *mean) * (v - *mean) / (n - less);
      else
        *mean += v, n++;
    }
    if (!pass && n > 0) *mean /= n; /* of nothing: 0 */
  }
}

/* x, running mean, running variance, weight, bias; in training x, weight, bias will do. */
static void batch_norm(const cf_case *c, const kt_value *in, kt_value *out) {
  const bool training = cf_whole(c, "training", 0, 0);
  const kt_value *weight = c->n_in == 5 ? &in[3] : c->n_in == 3 && training ? &in[1] : NULL;
  const neap_shape *s = &in[0].desc.shape;
  out[0] = cf_made(s);
  for (int64_t ch = 0; kt_count(&in[0]) > 0 && ch < s->dim[1]; ch++) {
    double mean, var;
    channel(&in[0], ch, 0, &mean, &var);
    if (!training) mean = kt_get(&in[1], ch), var = kt_get(&in[2], ch);
    for (int64_t i = 0; i < kt_count(&in[0]); i++) {
      cf_place p;
      cf_locate(s, i, &p);
      if (p.at[1] != ch) continue;
      const double y = (kt_get(&in[0], i) - mean) / sqrt(var + cf_number(c, "eps", 1e-5));
      kt_set(&out[0], i, weight ? y * kt_get(weight, ch) + kt_get(weight + 1, ch) : y);
    }
  }
}

static void batch_statistic(const kt_value *in, kt_value *out, bool variance) {
  const int64_t channels = in[0].desc.shape.dim[1];
  out[0] = cf_made(&(neap_shape){1, {channels}});
  for (int64_t ch = 0; ch < channels; ch++) {
    double mean, var;
    channel(&in[0], ch, 1, &mean, &var);
    kt_set(&out[0], ch, variance ? var : mean);
  }
}

static void channel_mean(const cf_case *c, const kt_value *in, kt_value *out) {
  (void)c;
  out[0] = cf_made(&in[0].desc.shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    double mean, var;
    cf_locate(&in[0].desc.shape, i, &p);
    channel(&in[0], p.at[1], 1, &mean, &var);
    kt_set(&out[0], i, mean);
  }
}

static void batch_mean(const cf_case *c, const kt_value *in, kt_value *out) {
  (void)c;
  batch_statistic(in, out, false);
}

static void batch_var(const cf_case *c, const kt_value *in, kt_value *out) {
  (void)c;
  batch_statistic(in, out, true);
}

const cf_oracle_row cf_oracles_normalize[] = {
    {"layer_norm", layer_norm},       {"rms_norm", rms_norm},         {"group_norm", group_norm},
    {"instance_norm", instance_norm}, {"batch_norm", batch_norm},     {"batch_mean", batch_mean},
    {"batch_var", batch_var},         {"channel_mean", channel_mean}, {NULL, NULL}};
