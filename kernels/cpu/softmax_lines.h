/* softmax and its kin on lines, for one dtype; see softmax_rows.h. Output and input may be the same. */
#include "kernels/cpu/softmax_rows.h"

static void NAME(softmax)(const void *const *in, void *out, int64_t r, int64_t step, int64_t n) {
  const T *x = in[0];
  T *y = out, m[TILE], sum[TILE];
  if (step == 1) {
    m[0] = NAME(row_max)(x, r);
    NEAP_IVDEP for (int64_t i = 0; i < r; i++) y[i] = EXP_T(x[i] - m[0]);
    sum[0] = NAME(row_sum)(y, r);
    for (int64_t i = 0; i < r; i++) y[i] /= sum[0];
    return;
  }
  NAME(lines_max)(x, r, step, n, m);
  for (int64_t j = 0; j < n; j++) sum[j] = 0;
  for (int64_t i = 0; i < r; i++) {
    NEAP_IVDEP for (int64_t j = 0; j < n; j++) {
      T e = EXP_T(x[i * step + j] - m[j]);
      y[i * step + j] = e;
      sum[j] += e;
    }
  }
  for (int64_t i = 0; i < r; i++) NEAP_IVDEP for (int64_t j = 0; j < n; j++) y[i * step + j] /= sum[j];
}

static void NAME(log_softmax)(const void *const *in, void *out, int64_t r, int64_t step, int64_t n) {
  const T *x = in[0];
  T *y = out, m[TILE], sum[TILE];
  if (step == 1) {
    m[0] = NAME(row_max)(x, r);
    sum[0] = LOG_T(NAME(row_sum_exp)(x, r, m[0]));
    NEAP_IVDEP for (int64_t i = 0; i < r; i++) y[i] = (x[i] - m[0]) - sum[0];
    return;
  }
  NAME(lines_max)(x, r, step, n, m);
  NAME(lines_sum_exp)(x, r, step, n, m, sum);
  for (int64_t j = 0; j < n; j++) sum[j] = LOG_T(sum[j]);
  for (int64_t i = 0; i < r; i++)
    NEAP_IVDEP for (int64_t j = 0; j < n; j++) y[i * step + j] = (x[i * step + j] - m[j]) - sum[j];
}

static void NAME(softmax_grad)(const void *const *in, void *out, int64_t r, int64_t step, int64_t n) {
  const T *d = in[0], *y = in[1];
  T *to = out, sum[TILE] = {0};
  if (step == 1) {
    sum[0] = NAME(row_dot)(d, y, r);
    NEAP_IVDEP for (int64_t i = 0; i < r; i++) to[i] = y[i] * (d[i] - sum[0]);
    return;
  }
  for (int64_t i = 0; i < r; i++)
    for (int64_t j = 0; j < n; j++) sum[j] += d[i * step + j] * y[i * step + j];
  for (int64_t i = 0; i < r; i++)
    NEAP_IVDEP for (int64_t j = 0; j < n; j++) to[i * step + j] = y[i * step + j] * (d[i * step + j] - sum[j]);
}

static void NAME(log_softmax_grad)(const void *const *in, void *out, int64_t r, int64_t step, int64_t n) {
  const T *d = in[0], *y = in[1];
  T *to = out, sum[TILE] = {0};
  if (step == 1) {
    sum[0] = NAME(row_sum)(d, r);
    NEAP_IVDEP for (int64_t i = 0; i < r; i++) to[i] = d[i] - EXP_T(y[i]) * sum[0];
    return;
  }
  for (int64_t i = 0; i < r; i++)
    for (int64_t j = 0; j < n; j++) sum[j] += d[i * step + j];
  for (int64_t i = 0; i < r; i++)
    NEAP_IVDEP for (int64_t j = 0; j < n; j++) to[i * step + j] = d[i * step + j] - EXP_T(y[i * step + j]) * sum[j];
}
