/* What one row of a recurrent step computes, for one dtype: define T, NAME(x), EXP_T and TANH_T, then include.
 * h: width. Rows of gates are k widths side by side. */

NEAP_INLINE T NAME(sigmoid)(T x) { return 1 / (1 + EXP_T(-x)); }

/* a: gates i, f, g, o, replaced by their values. before: the cell state, NULL: zero. */
static void NAME(lstm_row)(int64_t h, T *a, const T *before, T *cell, T *y) {
  T *in = a, *forget = a + h, *gate = a + 2 * h, *out = a + 3 * h;
  NEAP_IVDEP for (int64_t j = 0; j < h; j++) {
    const T i = NAME(sigmoid)(in[j]), f = NAME(sigmoid)(forget[j]), g = TANH_T(gate[j]), o = NAME(sigmoid)(out[j]);
    const T kept = before ? f * before[j] : (T)0, c = kept + i * g;
    in[j] = i, forget[j] = f, gate[j] = g, out[j] = o;
    cell[j] = c;
    y[j] = o * TANH_T(c);
  }
}

/* dh: of the state, dc: of the cell state, replaced by that of the one before. d: of the gates. */
static void NAME(lstm_grad_row)(int64_t h, const T *a, const T *before, const T *cell, const T *dh, T *dc, T *d) {
  const T *in = a, *forget = a + h, *gate = a + 2 * h, *out = a + 3 * h;
  NEAP_IVDEP for (int64_t j = 0; j < h; j++) {
    const T i = in[j], f = forget[j], g = gate[j], o = out[j], t = TANH_T(cell[j]);
    const T c = dc[j] + dh[j] * o * (1 - t * t), b = before ? before[j] : (T)0;
    d[j] = c * g * (i * (1 - i));
    d[h + j] = c * b * (f * (1 - f));
    d[2 * h + j] = c * i * (1 - g * g);
    d[3 * h + j] = dh[j] * t * (o * (1 - o));
    dc[j] = c * f;
  }
}

/* a: what the input adds to r, z, n; p: what the state adds. keep: r, z, n and the state's part of n. */
static void NAME(gru_row)(int64_t h, const T *a, const T *p, const T *before, T *keep, T *y) {
  NEAP_IVDEP for (int64_t j = 0; j < h; j++) {
    const T r = NAME(sigmoid)(a[j] + p[j]), z = NAME(sigmoid)(a[h + j] + p[h + j]), s = p[2 * h + j];
    const T n = TANH_T(a[2 * h + j] + r * s), b = before ? before[j] : (T)0;
    keep[j] = r, keep[h + j] = z, keep[2 * h + j] = n, keep[3 * h + j] = s;
    y[j] = (1 - z) * n + z * b;
  }
}

/* carry: of the state before, as far as it does not go through w. d: of what the input adds, dp: the state. */
static void NAME(gru_grad_row)(int64_t h, const T *keep, const T *before, const T *dh, T *carry, T *d, T *dp) {
  NEAP_IVDEP for (int64_t j = 0; j < h; j++) {
    const T r = keep[j], z = keep[h + j], n = keep[2 * h + j], s = keep[3 * h + j], b = before ? before[j] : (T)0;
    const T dn = dh[j] * (1 - z) * (1 - n * n), dr = dn * s * (r * (1 - r)), dz = dh[j] * (b - n) * (z * (1 - z));
    d[j] = dp[j] = dr;
    d[h + j] = dp[h + j] = dz;
    d[2 * h + j] = dn;
    dp[2 * h + j] = dn * r;
    carry[j] = dh[j] * z;
  }
}

static void NAME(rnn_row)(int64_t h, int relu, T *y) {
  if (relu)
    NEAP_IVDEP for (int64_t j = 0; j < h; j++) y[j] = y[j] < 0 ? (T)0 : y[j];
  else
    NEAP_IVDEP for (int64_t j = 0; j < h; j++) y[j] = TANH_T(y[j]);
}

static void NAME(rnn_grad_row)(int64_t h, int relu, const T *y, const T *dh, T *d) {
  if (relu)
    NEAP_IVDEP for (int64_t j = 0; j < h; j++) d[j] = y[j] <= 0 ? (T)0 : dh[j];
  else
    NEAP_IVDEP for (int64_t j = 0; j < h; j++) d[j] = dh[j] * (1 - y[j] * y[j]);
}

/* --- one step of rows [row, row + rows) ------------------------------------------------------------------------ */

/* Element 0 of row r at step t of a value of (N, T, width). */
#define AT(p, r, t, width) ((p) + ((r)*k->steps + (t)) * (width))

static void NAME(add_rows)(int64_t rows, int64_t n, T *to, int64_t to_row, const T *from, int64_t from_row) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < n; j++) to[r * to_row + j] += from[r * from_row + j];
}

static void NAME(copy_rows)(int64_t rows, int64_t n, T *to, int64_t to_row, const T *from, int64_t from_row) {
  for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_row, from + r * from_row, (size_t)n * sizeof *to);
}

/* c (rows, gates widths) = or += the states that step t began with times w'. */
static void NAME(from_state)(const kernel *k, const neap_launch *l, const place *p, int64_t t, bool add,
                             const void *bias, T *c, int64_t c_row) {
  const T *first = k->first ? l->in[k->first] : NULL, *y = l->out[0];
  neap_cpu_gemm g = {.dtype = k->dtype, .m = p->rows, .n = k->gates * k->width, .k = k->width, .a_col = 1};
  g.a = t ? (const void *)AT(y, p->row, t - 1, k->width) : first ? (const void *)(first + p->row * k->width) : NULL;
  g.a_row = t ? k->steps * k->width : k->width;
  g.b = l->workspace;
  g.b_row = g.n;
  g.b_col = 1;
  g.c = c;
  g.c_row = c_row;
  g.bias = bias;
  g.add = add;
  if (!g.a && add) return;
  if (!g.a) g.k = 0; /* the bias alone, or zeros */
  NEAP_CPU_NAME(gemm_block)(&g, 0, g.m, 0, g.n, p->pack);
}

/* c (rows, width) = or += the gradients d of the gates at step t times w. */
static void NAME(to_state)(const kernel *k, const neap_launch *l, const place *p, const T *d, int64_t t, bool add,
                           T *c) {
  neap_cpu_gemm g = {.dtype = k->dtype, .m = p->rows, .n = k->width, .k = k->gates * k->width, .a_col = 1};
  g.a = AT(d, p->row, t, g.k);
  g.a_row = k->steps * g.k;
  g.b = l->in[1];
  g.b_row = k->width;
  g.b_col = 1;
  g.c = c;
  g.c_row = k->width;
  g.add = add;
  NEAP_CPU_NAME(gemm_block)(&g, 0, g.m, 0, g.n, p->pack);
}

/* The gradient of the state at step t, so far without what a GRU carries past w: y's own and what the next step's
 * gates (gradients d) send back. */
static T *NAME(of_state)(const kernel *k, const neap_launch *l, const place *p, const T *dy, const T *d, int64_t t) {
  T *dh = p->scratch;
  NAME(copy_rows)(p->rows, k->width, dh, k->width, AT(dy, p->row, t, k->width), k->steps * k->width);
  if (t + 1 < k->steps) NAME(to_state)(k, l, p, d, t + 1, true, dh);
  return dh;
}

static void NAME(lstm)(const kernel *k, const neap_launch *l, const place *p, int64_t t) {
  const int64_t h = k->width, n = 4 * h;
  const T *x = l->in[0], *c0 = k->first ? l->in[3] : NULL;
  T *y = l->out[0], *last = l->out[1], *cells = l->out[2], *gates = l->out[3];
  NAME(copy_rows)(p->rows, n, AT(gates, p->row, t, n), k->steps * n, AT(x, p->row, t, n), k->steps * n);
  NAME(from_state)(k, l, p, t, true, NULL, AT(gates, p->row, t, n), k->steps * n);
  for (int64_t r = p->row; r < p->row + p->rows; r++) {
    const T *before = t ? AT(cells, r, t - 1, h) : c0 ? c0 + r * h : NULL;
    NAME(lstm_row)(h, AT(gates, r, t, n), before, AT(cells, r, t, h), AT(y, r, t, h));
    if (t + 1 == k->steps) memcpy(last + r * h, AT(cells, r, t, h), (size_t)h * sizeof *last);
  }
}

static void NAME(lstm_grad)(const kernel *k, const neap_launch *l, const place *p, int64_t t) {
  const int64_t h = k->width, n = 4 * h;
  const T *gates = l->in[0], *cells = l->in[2], *dy = l->in[3], *c0 = k->first ? l->in[k->first] : NULL;
  T *d = l->out[0], *dh0 = (T *)l->out[1] + p->row * h, *dc = (T *)l->out[2] + p->row * h;
  const T *dh = NAME(of_state)(k, l, p, dy, d, t);
  if (t + 1 == k->steps) NAME(copy_rows)(p->rows, h, dc, h, (const T *)l->in[4] + p->row * h, h);
  for (int64_t r = 0; r < p->rows; r++) {
    const int64_t row = p->row + r;
    const T *before = t ? AT(cells, row, t - 1, h) : c0 ? c0 + row * h : NULL;
    NAME(lstm_grad_row)
    (h, AT(gates, row, t, n), before, AT(cells, row, t, h), dh + r * h, dc + r * h, AT(d, row, t, n));
  }
  if (t == 0) NAME(to_state)(k, l, p, d, 0, false, dh0);
}

static void NAME(gru)(const kernel *k, const neap_launch *l, const place *p, int64_t t) {
  const int64_t h = k->width, n = 3 * h;
  const T *x = l->in[0], *h0 = k->first ? l->in[k->first] : NULL;
  T *y = l->out[0], *keep = l->out[1], *part = p->scratch;
  NAME(from_state)(k, l, p, t, false, k->bias ? l->in[k->bias] : NULL, part, n);
  for (int64_t r = 0; r < p->rows; r++) {
    const int64_t row = p->row + r;
    const T *before = t ? AT(y, row, t - 1, h) : h0 ? h0 + row * h : NULL;
    NAME(gru_row)(h, AT(x, row, t, n), part + r * n, before, AT(keep, row, t, 4 * h), AT(y, row, t, h));
  }
}

static void NAME(gru_grad)(const kernel *k, const neap_launch *l, const place *p, int64_t t) {
  const int64_t h = k->width, n = 3 * h;
  const T *keep = l->in[0], *y = l->in[2], *dy = l->in[3], *h0 = k->first ? l->in[k->first] : NULL;
  T *d = l->out[0], *dp = l->out[1], *carry = (T *)l->out[2] + p->row * h;
  T *dh = NAME(of_state)(k, l, p, dy, dp, t);
  if (t + 1 < k->steps) NAME(add_rows)(p->rows, h, dh, h, carry, h);
  for (int64_t r = 0; r < p->rows; r++) {
    const int64_t row = p->row + r;
    const T *before = t ? AT(y, row, t - 1, h) : h0 ? h0 + row * h : NULL;
    NAME(gru_grad_row)
    (h, AT(keep, row, t, 4 * h), before, dh + r * h, carry + r * h, AT(d, row, t, n), AT(dp, row, t, n));
  }
  if (t == 0) NAME(to_state)(k, l, p, dp, 0, true, carry);
}

static void NAME(rnn)(const kernel *k, const neap_launch *l, const place *p, int64_t t) {
  const int64_t h = k->width;
  const T *x = l->in[0];
  T *y = l->out[0];
  NAME(copy_rows)(p->rows, h, AT(y, p->row, t, h), k->steps * h, AT(x, p->row, t, h), k->steps * h);
  NAME(from_state)(k, l, p, t, true, NULL, AT(y, p->row, t, h), k->steps * h);
  for (int64_t r = p->row; r < p->row + p->rows; r++) NAME(rnn_row)(h, k->relu, AT(y, r, t, h));
}

static void NAME(rnn_grad)(const kernel *k, const neap_launch *l, const place *p, int64_t t) {
  const int64_t h = k->width;
  const T *y = l->in[0], *dy = l->in[2];
  T *d = l->out[0];
  const T *dh = NAME(of_state)(k, l, p, dy, d, t);
  for (int64_t r = 0; r < p->rows; r++)
    NAME(rnn_grad_row)(h, k->relu, AT(y, p->row + r, t, h), dh + r * h, AT(d, p->row + r, t, h));
  if (t == 0) NAME(to_state)(k, l, p, d, 0, false, (T *)l->out[1] + p->row * h);
}

#undef AT
