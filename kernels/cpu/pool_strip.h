/* Pooling of one strip of windows, for one element type: included by pool.c with T and FN(name). Loops run
 * along the strip, tap by tap, so that they become vector code. */

/* The windows' largest elements; at: their numbers. PyTorch's rule: NaN wins, of equals the first. */
static void FN(max_strip)(const pool *p, const strip *s, const T *x, T *y, int32_t *at) {
  T best[STRIP];
  for (int64_t i = 0; i < s->count; i++) best[i] = -(T)INFINITY, at[i] = 0;
  for (int32_t t = 0; t < p->taps; t++) {
    const tap k = tap_of(p, s, t);
    const T *in = x + k.in;
    for (int64_t i = k.from; i < k.to; i++) {
      const T v = in[(i - k.from) * s->step];
      const bool wins = (v > best[i]) | (v != v);
      best[i] = wins ? v : best[i];
      at[i] = wins ? t : at[i];
    }
  }
  memcpy(y + s->out, best, (size_t)s->count * sizeof *y);
}

/* The windows' elements of the numbers `at`. */
static void FN(max_at_strip)(const pool *p, const strip *s, const T *x, const int32_t *at, T *y) {
  T v[STRIP] = {0};
  for (int32_t t = 0; t < p->taps; t++) {
    const tap k = tap_of(p, s, t);
    const T *in = x + k.in;
    for (int64_t i = k.from; i < k.to; i++) v[i] = at[i] == t ? in[(i - k.from) * s->step] : v[i];
  }
  memcpy(y + s->out, v, (size_t)s->count * sizeof *y);
}

static void FN(max_grad_strip)(const pool *p, const strip *s, const T *d, const int32_t *at, T *dx) {
  for (int32_t t = 0; t < p->taps; t++) {
    const tap k = tap_of(p, s, t);
    T *to = dx + k.in;
    for (int64_t i = k.from; i < k.to; i++) to[(i - k.from) * s->step] += at[i] == t ? d[s->out + i] : 0;
  }
}

static void FN(avg_strip)(const pool *p, const strip *s, const T *x, T *y) {
  T sum[STRIP];
  for (int64_t i = 0; i < s->count; i++) sum[i] = 0;
  for (int32_t t = 0; t < p->taps; t++) {
    const tap k = tap_of(p, s, t);
    const T *in = x + k.in;
    for (int64_t i = k.from; i < k.to; i++) sum[i] += in[(i - k.from) * s->step];
  }
  for (int64_t i = 0; i < s->count; i++) y[s->out + i] = sum[i] / (T)elements(p, s, p->last ? 0 : i);
}

static void FN(avg_grad_strip)(const pool *p, const strip *s, const T *d, T *dx) {
  T share[STRIP] = {0};
  for (int64_t i = 0; i < s->count; i++) share[i] = d[s->out + i] / (T)elements(p, s, p->last ? 0 : i);
  for (int32_t t = 0; t < p->taps; t++) {
    const tap k = tap_of(p, s, t);
    T *to = dx + k.in;
    for (int64_t i = k.from; i < k.to; i++) to[(i - k.from) * s->step] += share[i];
  }
}

#undef T
#undef FN
