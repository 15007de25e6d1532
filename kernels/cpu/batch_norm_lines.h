/* Channels normalized by their own statistics, for one dtype: define T and NAME(x), then include. A line is `count`
 * stretches of `length` elements `stride` apart, for `n` channels side by side: `n` is 1, or `length` is. */

/* Adds, for each of n channels, sums over its elements of x - k, (x - k)^2, d and d (x - k); d NULL: the first two.
 * Elements are summed in T over CHUNK of them, and chunks in fp64. */
static void NAME(add_side_by_side)(const line *at, const T *x, const T *d, const T *k, sums *to) {
  T one[TILE], two[TILE], three[TILE], four[TILE];
  for (int64_t i = 0; i < at->count;) {
    const int64_t stop = i + CHUNK < at->count ? i + CHUNK : at->count;
    memset(one, 0, sizeof one), memset(two, 0, sizeof two);
    memset(three, 0, sizeof three), memset(four, 0, sizeof four);
    for (; i < stop; i++) {
      const T *xi = x + i * at->stride, *di = d ? d + i * at->stride : NULL;
      for (int64_t j = 0; j < at->n; j++) {
        one[j] += xi[j] - k[j];
        two[j] += (xi[j] - k[j]) * (xi[j] - k[j]);
      }
      for (int64_t j = 0; di && j < at->n; j++) {
        three[j] += di[j];
        four[j] += di[j] * (xi[j] - k[j]);
      }
    }
    for (int64_t j = 0; j < at->n; j++) {
      to[j].x += (double)one[j];
      to[j].xx += (double)two[j];
      to[j].d += (double)three[j];
      to[j].dx += (double)four[j];
    }
  }
}

/* The same for one channel's stretch of at most CHUNK * LANES elements. */
static void NAME(add_piece)(const T *x, const T *d, T k, int64_t n, sums *to) {
  T lane[4][LANES] = {{0}}, total[4] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int j = 0; j < LANES; j++) {
      lane[0][j] += x[i + j] - k;
      lane[1][j] += (x[i + j] - k) * (x[i + j] - k);
    }
    for (int j = 0; d && j < LANES; j++) {
      lane[2][j] += d[i + j];
      lane[3][j] += d[i + j] * (x[i + j] - k);
    }
  }
  for (; i < n; i++) {
    total[0] += x[i] - k;
    total[1] += (x[i] - k) * (x[i] - k);
    total[2] += d ? d[i] : 0;
    total[3] += d ? d[i] * (x[i] - k) : 0;
  }
  for (int s = 0; s < 4; s++)
    for (int j = 0; j < LANES; j++) total[s] += lane[s][j];
  to->x += (double)total[0];
  to->xx += (double)total[1];
  to->d += (double)total[2];
  to->dx += (double)total[3];
}

/* k: a value of each channel; close to its mean, so that little is lost in the variance. */
static void NAME(add_sums)(const line *at, const T *x, const T *d, const T *k, sums *to) {
  const int64_t most = CHUNK * LANES;
  memset(to, 0, (size_t)at->n * sizeof *to);
  if (at->length == 1) {
    NAME(add_side_by_side)(at, x, d, k, to);
    return;
  }
  for (int64_t i = 0; i < at->count; i++)
    for (int64_t p = 0; p < at->length; p += most) NAME(add_piece)
  (x + i * at->stride + p, d ? d + i * at->stride + p : NULL, k[0], at->length - p < most ? at->length - p : most, to);
}

/* What the statistics come to for channel j. */
static moments NAME(moments_of)(const norm *b, const line *at, const sums *s, T k) {
  const double n = (double)(at->count * at->length);
  const double shifted = s->x / n, var = s->xx / n - shifted * shifted;
  moments m = {.mean = (double)k + shifted, .var = var > 0 || var != var ? var : 0, .n = n};
  m.rstd = 1 / sqrt(m.var + b->eps);
  m.db = s->d;
  m.dw = (s->dx - s->d * shifted) * m.rstd;
  return m;
}

/* y = (x - m) a + c (+ d e, of the gradient), a channel's own m, a, c and e. */
static void NAME(affine)(const line *at, const T *x, const T *d, T *y, const T *m, const T *a, const T *c, const T *e) {
  for (int64_t i = 0; i < at->count; i++, x += at->stride, y += at->stride, d += d ? at->stride : 0) {
    if (at->length > 1 && !d) {
      NEAP_IVDEP for (int64_t j = 0; j < at->length; j++) y[j] = (x[j] - m[0]) * a[0] + c[0];
    } else if (at->length > 1) {
      NEAP_IVDEP for (int64_t j = 0; j < at->length; j++) y[j] = (x[j] - m[0]) * a[0] + c[0] + d[j] * e[0];
    } else if (!d) {
      NEAP_IVDEP for (int64_t j = 0; j < at->n; j++) y[j] = (x[j] - m[j]) * a[j] + c[j];
    } else {
      NEAP_IVDEP for (int64_t j = 0; j < at->n; j++) y[j] = (x[j] - m[j]) * a[j] + c[j] + d[j] * e[j];
    }
  }
}

static void NAME(put)(const norm *b, const neap_launch *l, uint32_t o, int64_t c, double v) {
  T *to = (T *)l->out[o] + c;
  *to = b->sums && !(l->flags & NEAP_LAUNCH_FIRST) ? *to + (T)v : (T)v;
}

static void NAME(forward)(const norm *b, const neap_launch *l, const line *at, int64_t c) {
  const T *x = (const T *)l->in[0] + at->offset;
  const T *w = b->head.n_in > 1 ? (const T *)l->in[1] + c : NULL,
          *bias = b->head.n_in > 2 ? (const T *)l->in[2] + c : NULL;
  T mean[TILE], scale[TILE], shift[TILE];
  sums s[TILE];
  NAME(add_sums)(at, x, NULL, x, s);
  for (int64_t j = 0; j < at->n; j++) {
    const moments m = NAME(moments_of)(b, at, &s[j], x[j]);
    mean[j] = (T)m.mean;
    scale[j] = (T)(m.rstd * (w ? (double)w[j] : 1));
    shift[j] = bias ? bias[j] : 0;
    NAME(put)(b, l, 1, c + j, m.mean * b->share);
    NAME(put)(b, l, 2, c + j, m.n > 1 ? m.var * m.n / (m.n - 1) * b->share : 0);
  }
  NAME(affine)(at, x, NULL, (T *)l->out[0] + at->offset, mean, scale, shift, NULL);
}

/* w rstd (d - mean(d) - h mean(d h)) with h = (x - mean) rstd. */
static void NAME(backward)(const norm *b, const neap_launch *l, const line *at, int64_t c) {
  const T *d = (const T *)l->in[0] + at->offset, *x = (const T *)l->in[1] + at->offset;
  const T *w = b->head.n_in > 2 ? (const T *)l->in[2] + c : NULL;
  T mean[TILE], slope[TILE], shift[TILE], scale[TILE];
  sums s[TILE];
  NAME(add_sums)(at, x, d, x, s);
  for (int64_t j = 0; j < at->n; j++) {
    const moments m = NAME(moments_of)(b, at, &s[j], x[j]);
    const double factor = m.rstd * (w ? (double)w[j] : 1);
    mean[j] = (T)m.mean;
    scale[j] = (T)factor;
    shift[j] = (T)(-factor * m.db / m.n);
    slope[j] = (T)(-factor * m.rstd * m.dw / m.n);
    NAME(put)(b, l, 1, c + j, m.dw);
    NAME(put)(b, l, 2, c + j, m.db);
  }
  NAME(affine)(at, x, d, (T *)l->out[0] + at->offset, mean, slope, shift, scale);
}

/* Every element becomes its channel's mean. */
static void NAME(spread)(const norm *b, const neap_launch *l, const line *at, int64_t c) {
  const T *x = (const T *)l->in[0] + at->offset;
  T *y = (T *)l->out[0] + at->offset, mean[TILE];
  sums s[TILE];
  (void)c;
  if (at->count * at->length == 0) return;
  NAME(add_sums)(at, x, NULL, x, s);
  for (int64_t j = 0; j < at->n; j++) mean[j] = (T)NAME(moments_of)(b, at, &s[j], x[j]).mean;
  for (int64_t i = 0; i < at->count; i++, y += at->stride)
    for (int64_t p = 0; p < at->length; p++)
      for (int64_t j = 0; j < at->n; j++) y[p + j] = mean[j];
}

/* Without samples the sums over them are zero. */
static void NAME(nothing)(const norm *b, const neap_launch *l, const line *at, int64_t c) {
  for (int64_t j = 0; j < at->n; j++) {
    NAME(put)(b, l, 1, c + j, 0);
    NAME(put)(b, l, 2, c + j, 0);
  }
}
