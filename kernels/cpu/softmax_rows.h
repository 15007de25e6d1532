/* Rows of softmax and its kin for one dtype: define T, NAME(x), EXP_T and LOG_T, then include. A line is R
 * elements `step` apart; with a step of 1 it is a row, otherwise `n` lines lie side by side. */

enum { NAME(LANES) = 16, NAME(PIECE) = 256 };

NEAP_INLINE T NAME(row_max)(const T *x, int64_t n) {
  T lane[NAME(LANES)], m = -(T)INFINITY;
  int64_t i = 0;
  for (int j = 0; j < NAME(LANES); j++) lane[j] = m;
  for (; i + NAME(LANES) <= n; i += NAME(LANES))
    for (int j = 0; j < NAME(LANES); j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  for (; i < n; i++) m = x[i] > m ? x[i] : m;
  for (int j = 0; j < NAME(LANES); j++) m = lane[j] > m ? lane[j] : m;
  return m;
}

NEAP_INLINE T NAME(fold)(T *lane, T rest) {
  for (int half = NAME(LANES) / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) lane[j] += lane[j + half];
  return lane[0] + rest;
}

NEAP_INLINE T NAME(row_sum)(const T *x, int64_t n) {
  T lane[NAME(LANES)] = {0}, rest = 0;
  int64_t i = 0;
  for (; i + NAME(LANES) <= n; i += NAME(LANES))
    for (int j = 0; j < NAME(LANES); j++) lane[j] += x[i + j];
  for (; i < n; i++) rest += x[i];
  return NAME(fold)(lane, rest);
}

NEAP_INLINE T NAME(row_dot)(const T *x, const T *y, int64_t n) {
  T lane[NAME(LANES)] = {0}, rest = 0;
  int64_t i = 0;
  for (; i + NAME(LANES) <= n; i += NAME(LANES))
    for (int j = 0; j < NAME(LANES); j++) lane[j] += x[i + j] * y[i + j];
  for (; i < n; i++) rest += x[i] * y[i];
  return NAME(fold)(lane, rest);
}

/* Sum of exp(x - m). */
NEAP_INLINE T NAME(row_sum_exp)(const T *x, int64_t n, T m) {
  T piece[NAME(PIECE)], sum = 0;
  for (int64_t at = 0; at < n; at += NAME(PIECE)) {
    int64_t length = n - at < NAME(PIECE) ? n - at : NAME(PIECE);
    for (int64_t i = 0; i < length; i++) piece[i] = EXP_T(x[at + i] - m);
    sum += NAME(row_sum)(piece, length);
  }
  return sum;
}

/* The same for n lines side by side, n <= PIECE. */
NEAP_INLINE void NAME(lines_max)(const T *x, int64_t r, int64_t step, int64_t n, T *m) {
  for (int64_t j = 0; j < n; j++) m[j] = -(T)INFINITY;
  for (int64_t i = 0; i < r; i++)
    for (int64_t j = 0; j < n; j++) m[j] = x[i * step + j] > m[j] ? x[i * step + j] : m[j];
}

NEAP_INLINE void NAME(lines_sum_exp)(const T *x, int64_t r, int64_t step, int64_t n, const T *m, T *sum) {
  for (int64_t j = 0; j < n; j++) sum[j] = 0;
  for (int64_t i = 0; i < r; i++)
    for (int64_t j = 0; j < n; j++) sum[j] += EXP_T(x[i * step + j] - m[j]);
}
