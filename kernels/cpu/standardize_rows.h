/* Rows normalized and their gradients, for one dtype: define T and NAME(x), then include. Sums are held in fp64
 * over pieces summed in T. */

enum { NAME(LANES) = 16, NAME(PIECE) = 256 };

NEAP_INLINE double NAME(fold)(const T *lane, T rest) {
  T s[NAME(LANES)];
  for (int j = 0; j < NAME(LANES); j++) s[j] = lane[j];
  for (int half = NAME(LANES) / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) s[j] += s[j + half];
  return (double)(s[0] + rest);
}

/* The sum of f over x[i] (and d[i]) for i in [0, n). */
#define NEAP_SUM_OF(name, f)                                                      \
  NEAP_INLINE double NAME(name##_piece)(const T *x, const T *d, int64_t n, T m) { \
    T lane[NAME(LANES)] = {0}, rest = 0;                                          \
    int64_t i = 0;                                                                \
    (void)x, (void)d, (void)m;                                                    \
    for (; i + NAME(LANES) <= n; i += NAME(LANES))                                \
      for (int j = 0; j < NAME(LANES); j++) lane[j] += f(i + j);                  \
    for (; i < n; i++) rest += f(i);                                              \
    return NAME(fold)(lane, rest);                                                \
  }                                                                               \
  static double NAME(name)(const T *x, const T *d, int64_t n, T m) {              \
    double sum = 0;                                                               \
    for (int64_t i = 0; i < n; i += NAME(PIECE)) {                                \
      const int64_t length = n - i < NAME(PIECE) ? n - i : NAME(PIECE);           \
      sum += NAME(name##_piece)(x + i, d ? d + i : NULL, length, m);              \
    }                                                                             \
    return sum;                                                                   \
  }
#define VALUE(i) x[i]
#define SQUARE(i) ((x[i] - m) * (x[i] - m))
#define PRODUCT(i) (d[i] * (x[i] - m))
NEAP_SUM_OF(sum_values, VALUE)
NEAP_SUM_OF(sum_squares, SQUARE)
NEAP_SUM_OF(sum_products, PRODUCT)
#undef VALUE
#undef SQUARE
#undef PRODUCT
#undef NEAP_SUM_OF

/* Element j of a row belongs to parameter j, or, with channels of `inner` elements, to j / inner. */
static void NAME(apply)(const rows *k, const T *x, const T *w, const T *b, T m, T s, T *y) {
  if (k->inner == 1 && w && b) {
    NEAP_IVDEP for (int64_t j = 0; j < k->length; j++) y[j] = (x[j] - m) * s * w[j] + b[j];
  } else if (k->inner == 1 && w) {
    NEAP_IVDEP for (int64_t j = 0; j < k->length; j++) y[j] = (x[j] - m) * s * w[j];
  } else if (!w) {
    NEAP_IVDEP for (int64_t j = 0; j < k->length; j++) y[j] = (x[j] - m) * s;
  } else {
    for (int64_t c = 0; c < k->params; c++, x += k->inner, y += k->inner) {
      const T scale = w[c], shift = b ? b[c] : 0;
      NEAP_IVDEP for (int64_t j = 0; j < k->inner; j++) y[j] = (x[j] - m) * s * scale + shift;
    }
  }
}

static void NAME(forward)(const rows *k, const neap_launch *l, int64_t row) {
  const T *x = (const T *)l->in[0] + row * k->length;
  const int64_t param = row % k->sets * k->params;
  const T *w = k->head.n_in > 1 ? (const T *)l->in[1] + param : NULL;
  const T *b = k->head.n_in > 2 ? (const T *)l->in[2] + param : NULL;
  const double n = k->length > 0 ? (double)k->length : 1;
  const T m = k->center ? (T)(NAME(sum_values)(x, NULL, k->length, 0) / n) : 0;
  const T s = (T)(1 / sqrt(NAME(sum_squares)(x, NULL, k->length, m) / n + k->eps));
  ((T *)l->out[1])[row] = m;
  ((T *)l->out[2])[row] = s;
  NAME(apply)(k, x, w, b, m, s, (T *)l->out[0] + row * k->length);
}

/* Sums of g = d w and of g (x - m) over a row. */
static void NAME(sums)(const rows *k, const T *d, const T *x, const T *w, T m, double *plain, double *dot) {
  T g[NAME(PIECE)];
  *plain = *dot = 0;
  if (k->inner > 1 || !w) {
    const int64_t channels = w ? k->params : 1, n = w ? k->inner : k->length;
    for (int64_t c = 0; c < channels; c++, d += n, x += n) {
      *plain += (w ? (double)w[c] : 1) * NAME(sum_values)(d, NULL, n, 0);
      *dot += (w ? (double)w[c] : 1) * NAME(sum_products)(x, d, n, m);
    }
    return;
  }
  for (int64_t i = 0; i < k->length; i += NAME(PIECE)) {
    const int64_t n = k->length - i < NAME(PIECE) ? k->length - i : NAME(PIECE);
    NEAP_IVDEP for (int64_t j = 0; j < n; j++) g[j] = d[i + j] * w[i + j];
    *plain += NAME(sum_values_piece)(g, NULL, n, 0);
    *dot += NAME(sum_products_piece)(x + i, g, n, m);
  }
}

/* With g = d w and h = (x - m) s: s (g - mean(g) - h mean(g h)). */
static void NAME(backward)(const rows *k, const neap_launch *l, int64_t row) {
  const T *d = (const T *)l->in[0] + row * k->length, *x = (const T *)l->in[1] + row * k->length;
  const T *w = k->head.n_in > 4 ? (const T *)l->in[4] + row % k->sets * k->params : NULL;
  const T m = ((const T *)l->in[2])[row], s = ((const T *)l->in[3])[row];
  const double n = k->length > 0 ? (double)k->length : 1;
  T *to = (T *)l->out[0] + row * k->length;
  double plain, dot;
  NAME(sums)(k, d, x, w, m, &plain, &dot);
  const T mean = k->center ? (T)(plain / n) : 0, slope = (T)(dot * (double)s * (double)s / n);
  if (!w) {
    NEAP_IVDEP for (int64_t j = 0; j < k->length; j++) to[j] = s * (d[j] - mean - (x[j] - m) * slope);
  } else if (k->inner == 1) {
    NEAP_IVDEP for (int64_t j = 0; j < k->length; j++) to[j] = s * (d[j] * w[j] - mean - (x[j] - m) * slope);
  } else {
    for (int64_t c = 0; c < k->params; c++, d += k->inner, x += k->inner, to += k->inner) {
      const T scale = w[c];
      NEAP_IVDEP for (int64_t j = 0; j < k->inner; j++) to[j] = s * (d[j] * scale - mean - (x[j] - m) * slope);
    }
  }
}

/* Adds rows [first, end), columns [j0, j0 + n) of d h and d. */
static void NAME(add_columns)(const rows *k, const neap_launch *l, int64_t first, int64_t end, int64_t j0, int64_t n,
                              double *dw, double *db) {
  T pw[COLUMNS], pb[COLUMNS];
  for (int64_t r = first; r < end;) {
    const int64_t stop = r + CHUNK < end ? r + CHUNK : end;
    for (int64_t j = 0; j < n; j++) pw[j] = pb[j] = 0;
    for (; r < stop; r++) {
      const T *d = (const T *)l->in[0] + r * k->length + j0, *x = (const T *)l->in[1] + r * k->length + j0;
      const T m = ((const T *)l->in[2])[r], s = ((const T *)l->in[3])[r];
      for (int64_t j = 0; j < n; j++) {
        pw[j] += d[j] * ((x[j] - m) * s);
        pb[j] += d[j];
      }
    }
    for (int64_t j = 0; j < n; j++) {
      dw[j] += (double)pw[j];
      db[j] += (double)pb[j];
    }
  }
}

/* The same for channels [c0, c0 + n) of samples [first, end): (N, sets * params, inner). */
static void NAME(add_channels)(const rows *k, const neap_launch *l, int64_t first, int64_t end, int64_t c0, int64_t n,
                               double *dw, double *db) {
  const int64_t channels = k->sets * k->params;
  for (int64_t i = first; i < end; i++)
    for (int64_t c = c0; c < c0 + n; c++) {
      const int64_t row = i * k->sets + c / k->params, at = (i * channels + c) * k->inner;
      const T *d = (const T *)l->in[0] + at, *x = (const T *)l->in[1] + at;
      const T m = ((const T *)l->in[2])[row], s = ((const T *)l->in[3])[row];
      dw[c - c0] += NAME(sum_products)(x, d, k->inner, m) * (double)s;
      db[c - c0] += NAME(sum_values)(d, NULL, k->inner, 0);
    }
}

/* All slabs of parameters [p0, p0 + n), one after the other onto what the outputs hold. */
static void NAME(weight)(const rows *k, const neap_launch *l, int64_t p0, int64_t n) {
  T *dw = (T *)l->out[0] + p0, *db = (T *)l->out[1] + p0;
  double sw[COLUMNS], sb[COLUMNS];
  if (!k->sums || (l->flags & NEAP_LAUNCH_FIRST))
    for (int64_t j = 0; j < n; j++) dw[j] = db[j] = 0;
  for (int64_t first = 0; first < k->entries; first += k->slab) {
    const int64_t end = first + k->slab < k->entries ? first + k->slab : k->entries;
    memset(sw, 0, sizeof sw);
    memset(sb, 0, sizeof sb);
    if (k->columns)
      NAME(add_columns)(k, l, first, end, p0, n, sw, sb);
    else
      NAME(add_channels)(k, l, first, end, p0, n, sw, sb);
    for (int64_t j = 0; j < n; j++) {
      dw[j] += (T)sw[j];
      db[j] += (T)sb[j];
    }
  }
}
