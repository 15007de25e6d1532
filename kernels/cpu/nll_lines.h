/* Class losses of n targets side by side, for one dtype; see softmax_rows.h. */
#include "kernels/cpu/softmax_rows.h"

/* in: scores, target; out: loss, lse (fp64, so that scores of any size keep their softmax's digits). */
static void NAME(softmax_nll)(const kernel *k, const neap_launch *l, int64_t sample, int64_t column, int64_t n) {
  int64_t at = sample * k->inner + column;
  const T *x = (const T *)l->in[0] + sample * k->classes * k->inner + column;
  T *loss = (T *)l->out[0] + at, m[TILE], sum[TILE];
  double *lse = (double *)l->out[1] + at;
  if (k->inner == 1) {
    m[0] = NAME(row_max)(x, k->classes);
    sum[0] = NAME(row_sum_exp)(x, k->classes, m[0]);
  } else {
    NAME(lines_max)(x, k->classes, k->inner, n, m);
    NAME(lines_sum_exp)(x, k->classes, k->inner, n, m, sum);
  }
  for (int64_t j = 0; j < n; j++) {
    int64_t t = label(k, l, l->in[1], at + j);
    lse[j] = (double)m[j] + log((double)sum[j]);
    loss[j] = t < 0 ? 0 : LOG_T(sum[j]) - (x[t * k->inner + j] - m[j]);
  }
}

/* in: d, scores, target, lse. The large part of lse is taken off first, which is exact near the maximum. */
static void NAME(softmax_nll_grad)(const kernel *k, const neap_launch *l, int64_t sample, int64_t column, int64_t n) {
  int64_t at = sample * k->inner + column, start = sample * k->classes * k->inner + column;
  const T *d = (const T *)l->in[0] + at, *x = (const T *)l->in[1] + start;
  const double *lse = (const double *)l->in[3] + at;
  T *to = (T *)l->out[0] + start, high[TILE] = {0}, low[TILE] = {0}, scale[TILE] = {0};
  int64_t t[TILE];
  for (int64_t j = 0; j < n; j++) {
    t[j] = label(k, l, l->in[2], at + j);
    high[j] = (T)lse[j];
    low[j] = (T)(lse[j] - (double)high[j]);
    scale[j] = d[j];
  }
  if (k->inner == 1) {
    T h = high[0], w = low[0], g = scale[0];
    for (int64_t i = 0; i < k->classes; i++) to[i] = EXP_T((x[i] - h) - w) * g;
  } else {
    for (int64_t i = 0; i < k->classes; i++)
      for (int64_t j = 0; j < n; j++) to[i * k->inner + j] = EXP_T((x[i * k->inner + j] - high[j]) - low[j]) * scale[j];
  }
  for (int64_t j = 0; j < n; j++) {
    if (t[j] >= 0) {
      to[t[j] * k->inner + j] -= d[j];
      continue;
    }
    for (int64_t i = 0; i < k->classes; i++) to[i * k->inner + j] = 0;
  }
}

static void NAME(pick_nll)(const kernel *k, const neap_launch *l, int64_t sample, int64_t column, int64_t n) {
  int64_t at = sample * k->inner + column;
  const T *x = (const T *)l->in[0] + sample * k->classes * k->inner + column;
  T *loss = (T *)l->out[0] + at;
  for (int64_t j = 0; j < n; j++) {
    int64_t t = label(k, l, l->in[1], at + j);
    loss[j] = t < 0 ? 0 : -x[t * k->inner + j];
  }
}

/* in: d, scores (not read), target. */
static void NAME(pick_nll_grad)(const kernel *k, const neap_launch *l, int64_t sample, int64_t column, int64_t n) {
  int64_t at = sample * k->inner + column;
  const T *d = (const T *)l->in[0] + at;
  T *to = (T *)l->out[0] + sample * k->classes * k->inner + column;
  for (int64_t i = 0; i < k->classes; i++) memset(to + i * k->inner, 0, (size_t)n * sizeof *to);
  for (int64_t j = 0; j < n; j++) {
    int64_t t = label(k, l, l->in[2], at + j);
    if (t >= 0) to[t * k->inner + j] = -d[j];
  }
}
