/* Blocks of attention for one dtype: define T, NAME(x), EXP_T and LOG_T, then include. s: (rows, BLOCK_K) scores. */
#include "kernels/cpu/softmax_rows.h"

/* Entries of key places [k0, k0 + n) as scores of query `row`: scaled, masked, minus infinity where unseen. */
static void NAME(finish_scores)(const attention *a, const scope *at, const T *mask, const uint8_t *allowed, int64_t row,
                                int64_t k0, int64_t n, T *s) {
  const T scale = (T)a->scale;
  const int64_t from = at->mask + row * a->mask_row + k0 * a->mask_col, seen = a->causal ? row + 1 - k0 : n;
  NEAP_IVDEP for (int64_t j = 0; j < n; j++) s[j] *= scale;
  for (int64_t j = 0; mask && j < n; j++) s[j] += mask[from + j * a->mask_col];
  for (int64_t j = 0; allowed && j < n; j++)
    if (!allowed[from + j * a->mask_col]) s[j] = -(T)INFINITY;
  for (int64_t j = seen < 0 ? 0 : seen; j < n; j++) s[j] = -(T)INFINITY;
}

static void NAME(scores)(const attention *a, const scope *at, const T *q, const T *k, int64_t q0, int64_t rows,
                         int64_t k0, int64_t n, T *s) {
  const neap_cpu_gemm g = {.dtype = at->dtype,
                           .m = rows,
                           .n = n,
                           .k = a->e,
                           .a = q + q0 * a->e,
                           .a_row = a->e,
                           .a_col = 1,
                           .b = k + k0 * a->e,
                           .b_row = 1,
                           .b_col = a->e,
                           .c = s,
                           .c_row = BLOCK_K};
  NEAP_CPU_NAME(gemm_block)(&g, 0, rows, 0, n, at->pack);
  const T *mask = a->masked && !a->mask_bool ? at->l->in[a->mask_input] : NULL;
  const uint8_t *allowed = a->masked && a->mask_bool ? at->l->in[a->mask_input] : NULL;
  for (int64_t i = 0; i < rows; i++) NAME(finish_scores)(a, at, mask, allowed, q0 + i, k0, n, s + i * BLOCK_K);
}

/* One row of a block: weights relative to the largest score so far, and what was summed before rescaled to it. */
static void NAME(soften)(const attention *a, T *s, int64_t n, T *most, T *sum, T *y) {
  T largest = NAME(row_max)(s, n);
  largest = largest > *most ? largest : *most;
  const T base = largest == -(T)INFINITY ? 0 : largest; /* nothing seen yet: all weights are 0 */
  const T keep = EXP_T(*most - base);
  NEAP_IVDEP for (int64_t j = 0; j < n; j++) s[j] = EXP_T(s[j] - base);
  *sum = *sum * keep + NAME(row_sum)(s, n);
  *most = largest;
  NEAP_IVDEP for (int64_t j = 0; j < a->f; j++) y[j] *= keep;
}

static void NAME(forward)(const attention *a, const scope *at, int64_t head, int64_t q0) {
  const T *q = (const T *)at->l->in[0] + head * a->l * a->e, *k = (const T *)at->l->in[1] + head * a->s * a->e;
  const T *v = (const T *)at->l->in[2] + head * a->s * a->f;
  T *y = (T *)at->l->out[0] + (head * a->l + q0) * a->f, *lse = (T *)at->l->out[1] + head * a->l + q0;
  const int64_t rows = a->l - q0 < BLOCK_Q ? a->l - q0 : BLOCK_Q, end = keys_seen(a, q0 + rows);
  T *s = at->scores, most[BLOCK_Q], sum[BLOCK_Q];
  memset(y, 0, (size_t)(rows * a->f) * sizeof *y);
  for (int64_t i = 0; i < rows; i++) most[i] = -(T)INFINITY, sum[i] = 0;
  for (int64_t k0 = 0; k0 < end; k0 += BLOCK_K) {
    const int64_t n = end - k0 < BLOCK_K ? end - k0 : BLOCK_K;
    NAME(scores)(a, at, q, k, q0, rows, k0, n, s);
    for (int64_t i = 0; i < rows; i++) NAME(soften)(a, s + i * BLOCK_K, n, &most[i], &sum[i], y + i * a->f);
    const neap_cpu_gemm g = {.dtype = at->dtype,
                             .m = rows,
                             .n = a->f,
                             .k = n,
                             .a = s,
                             .a_row = BLOCK_K,
                             .a_col = 1,
                             .b = v + k0 * a->f,
                             .b_row = a->f,
                             .b_col = 1,
                             .c = y,
                             .c_row = a->f,
                             .add = true};
    NEAP_CPU_NAME(gemm_block)(&g, 0, rows, 0, a->f, at->pack);
  }
  for (int64_t i = 0; i < rows; i++) {
    const T share = sum[i] == 0 ? 0 : 1 / sum[i];
    lse[i] = most[i] + LOG_T(sum[i]);
    NEAP_IVDEP for (int64_t j = 0; j < a->f; j++) y[i * a->f + j] *= share;
  }
}

/* One row of a block of the gradient: s becomes the weights p, t = d v' becomes p (t - dot) scale, where dot is
 * sum(d y). When the block has all keys that is sum(p t) / sum(p), with which the row's sum is closest to the zero that
 * it is: what is added to all keys alike, as a bias, has no gradient, and an optimizer that divides by the gradient's
 * size must not see one. */
static void NAME(slope)(const attention *a, T *s, T *t, int64_t n, bool whole, T lse, T dot) {
  const T base = lse == -(T)INFINITY ? 0 : lse, scale = (T)a->scale;
  NEAP_IVDEP for (int64_t j = 0; j < n; j++) s[j] = EXP_T(s[j] - base);
  if (whole && lse != -(T)INFINITY) dot = NAME(row_dot)(s, t, n) / NAME(row_sum)(s, n);
  NEAP_IVDEP for (int64_t j = 0; j < n; j++) t[j] = s[j] * (t[j] - dot) * scale;
}

/* Blocks of queries [q0, q0 + rows) and keys [k0, k0 + n) of a head: adds their share to all three gradients. */
static void NAME(backward_block)(const attention *a, const scope *at, int64_t head, int64_t q0, int64_t rows,
                                 int64_t k0, int64_t n, const T *dot) {
  const int64_t e = a->e, f = a->f, from = head * a->l + q0, to = head * a->s + k0;
  const T *d = (const T *)at->l->in[0] + from * f, *queries = (const T *)at->l->in[1] + head * a->l * e;
  const T *keys = (const T *)at->l->in[2] + head * a->s * e, *v = (const T *)at->l->in[3] + to * f;
  const T *q = queries + q0 * e, *k = keys + k0 * e, *lse = (const T *)at->l->in[5] + from;
  T *s = at->scores, *t = s + BLOCK_Q * BLOCK_K;
  const bool whole = keys_seen(a, q0 + rows) <= BLOCK_K;
  NAME(scores)(a, at, queries, keys, q0, rows, k0, n, s);
  const neap_cpu_gemm values = {.dtype = at->dtype,
                                .m = rows,
                                .n = n,
                                .k = f,
                                .a = d,
                                .a_row = f,
                                .a_col = 1,
                                .b = v,
                                .b_row = 1,
                                .b_col = f,
                                .c = t,
                                .c_row = BLOCK_K};
  NEAP_CPU_NAME(gemm_block)(&values, 0, rows, 0, n, at->pack);
  for (int64_t i = 0; i < rows; i++) NAME(slope)(a, s + i * BLOCK_K, t + i * BLOCK_K, n, whole, lse[i], dot[q0 + i]);
  const neap_cpu_gemm dv = {.dtype = at->dtype,
                            .m = n,
                            .n = f,
                            .k = rows,
                            .a = s,
                            .a_row = 1,
                            .a_col = BLOCK_K,
                            .b = d,
                            .b_row = f,
                            .b_col = 1,
                            .c = (T *)at->l->out[2] + to * f,
                            .c_row = f,
                            .add = true};
  NEAP_CPU_NAME(gemm_block)(&dv, 0, n, 0, f, at->pack);
  const neap_cpu_gemm dk = {.dtype = at->dtype,
                            .m = n,
                            .n = e,
                            .k = rows,
                            .a = t,
                            .a_row = 1,
                            .a_col = BLOCK_K,
                            .b = q,
                            .b_row = e,
                            .b_col = 1,
                            .c = (T *)at->l->out[1] + to * e,
                            .c_row = e,
                            .add = true};
  NEAP_CPU_NAME(gemm_block)(&dk, 0, n, 0, e, at->pack);
  const neap_cpu_gemm dq = {.dtype = at->dtype,
                            .m = rows,
                            .n = e,
                            .k = n,
                            .a = t,
                            .a_row = BLOCK_K,
                            .a_col = 1,
                            .b = k,
                            .b_row = e,
                            .b_col = 1,
                            .c = (T *)at->l->out[0] + from * e,
                            .c_row = e,
                            .add = true};
  NEAP_CPU_NAME(gemm_block)(&dq, 0, rows, 0, e, at->pack);
}

static void NAME(backward)(const attention *a, const scope *at, int64_t head, int64_t unused) {
  const T *d = (const T *)at->l->in[0] + head * a->l * a->f, *y = (const T *)at->l->in[4] + head * a->l * a->f;
  T *dot = (T *)at->scores + 2 * BLOCK_Q * BLOCK_K;
  (void)unused;
  memset((T *)at->l->out[0] + head * a->l * a->e, 0, (size_t)(a->l * a->e) * sizeof(T));
  memset((T *)at->l->out[1] + head * a->s * a->e, 0, (size_t)(a->s * a->e) * sizeof(T));
  memset((T *)at->l->out[2] + head * a->s * a->f, 0, (size_t)(a->s * a->f) * sizeof(T));
  for (int64_t i = 0; i < a->l; i++) dot[i] = NAME(row_dot)(d + i * a->f, y + i * a->f, a->f);
  for (int64_t q0 = 0; q0 < a->l; q0 += BLOCK_Q) {
    const int64_t rows = a->l - q0 < BLOCK_Q ? a->l - q0 : BLOCK_Q, end = keys_seen(a, q0 + rows);
    for (int64_t k0 = 0; k0 < end; k0 += BLOCK_K)
      NAME(backward_block)(a, at, head, q0, rows, k0, end - k0 < BLOCK_K ? end - k0 : BLOCK_K, dot);
  }
}
