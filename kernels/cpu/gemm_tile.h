/* The inner tile of a matrix product, for one element type. Included by gemm_core.c with
 *   T           float or double
 *   VEC         a vector of T, LANES of them
 *   SET1(x)     a vector of x
 *   FMA(a,b,c)  a * b + c on vectors
 *   FN(name)    the name for this type
 * A tile has up to ROWS rows and two vectors of columns, all held in registers over a whole cut of k. */

#define PANEL (2 * LANES)

typedef T FN(loose) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));

/* One tile's operands. b holds `step` elements a row. */
typedef struct FN(tile) {
  int64_t k;
  const T *a;
  int64_t a_row, a_col;
  const T *b;
  int64_t step;
  T *c;
  int64_t c_row, cols; /* cols <= PANEL: columns of C that exist */
  const T *bias;
  bool add;
} FN(tile);

/* The end of one row of a tile: whole vectors when all their columns exist, else element by element. */
static inline __attribute__((always_inline)) void FN(store)(const FN(tile) * t, int64_t row, int vectors, VEC s0,
                                                            VEC s1) {
  T *c = t->c + row * t->c_row;
  if (t->cols == vectors * LANES) {
    if (t->bias) {
      s0 += *(const FN(loose) *)t->bias;
      if (vectors > 1) s1 += *(const FN(loose) *)(t->bias + LANES);
    }
    if (t->add) {
      s0 += *(const FN(loose) *)c;
      if (vectors > 1) s1 += *(const FN(loose) *)(c + LANES);
    }
    *(FN(loose) *)c = s0;
    if (vectors > 1) *(FN(loose) *)(c + LANES) = s1;
  } else {
    T whole[PANEL];
    *(FN(loose) *)whole = s0;
    *(FN(loose) *)(whole + LANES) = s1;
    for (int64_t j = 0; j < t->cols; j++) {
      T s = whole[j];
      if (t->bias) s += t->bias[j];
      c[j] = t->add ? s + c[j] : s;
    }
  }
}

/* Row i of A is at one of five bases plus 0, 1 or 2 strides, which are addressing modes. */
#define ROW(i)                                             \
  if (rows > i) {                                          \
    const VEC av = SET1(a[(i) / 3][((i) % 3) * t->a_row]); \
    acc0[i] = FMA(av, b0, acc0[i]);                        \
    if (vectors > 1) acc1[i] = FMA(av, b1, acc1[i]);       \
  }

#define END(i) \
  if (rows > i) FN(store)(t, i, vectors, acc0[i], acc1[i]);

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)

static inline __attribute__((always_inline)) void FN(run_tile)(const FN(tile) * t, int rows, int vectors) {
  VEC acc0[14], acc1[14];
  const T *a[5], *b = t->b;
  for (int i = 0; i < 5; i++) a[i] = t->a + (3 * i < rows ? 3 * i : 0) * t->a_row;
  for (int i = 0; i < 14; i++) acc0[i] = acc1[i] = (VEC){0};
  for (int64_t k = t->k; k > 0; k--) {
    const VEC b0 = *(const FN(loose) *)b;
    VEC b1 = b0;
    if (vectors > 1) b1 = *(const FN(loose) *)(b + LANES);
    EACH_ROW(ROW)
    for (int i = 0; i < 5; i++) a[i] += t->a_col;
    b += t->step;
  }
  EACH_ROW(END)
}

#define DEFINE(rows)                                                                \
  static void FN(tile_##rows##_1)(const FN(tile) * t) { FN(run_tile)(t, rows, 1); } \
  static void FN(tile_##rows##_2)(const FN(tile) * t) { FN(run_tile)(t, rows, 2); }
#define LIST(rows) {FN(tile_##rows##_1), FN(tile_##rows##_2)},

#if ROWS == 14
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif

EACH_HEIGHT(DEFINE)
static void (*const FN(tiles)[ROWS][2])(const FN(tile) *) = {EACH_HEIGHT(LIST)};

/* --- packing ------------------------------------------------------------------------------------------- */

typedef T FN(four) __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));

/* out(r, c) = in(c, r) for 4 x 4 elements whose rows are `from` and `to` apart. */
static inline void FN(transpose4)(const T *in, int64_t from, T *out, int64_t to) {
  const FN(four) r0 = *(const FN(four) *)in, r1 = *(const FN(four) *)(in + from);
  const FN(four) r2 = *(const FN(four) *)(in + 2 * from), r3 = *(const FN(four) *)(in + 3 * from);
  const FN(four) a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const FN(four) c = __builtin_shufflevector(r0, r1, 2, 6, 3, 7), d = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  *(FN(four) *)out = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  *(FN(four) *)(out + to) = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  *(FN(four) *)(out + 2 * to) = __builtin_shufflevector(c, d, 0, 1, 4, 5);
  *(FN(four) *)(out + 3 * to) = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* out(r, c) = in(c, r): in has `cols` rows of `rows` elements. A cache line of each of four rows is used up
 * before the next four, since rows far apart may share few sets of the cache. */
static void FN(transpose)(const T *in, int64_t from, T *out, int64_t to, int64_t rows, int64_t cols) {
  const int64_t whole_rows = rows & ~(int64_t)3, whole_cols = cols & ~(int64_t)3, line = 64 / (int64_t)sizeof(T);
  for (int64_t r0 = 0; r0 < whole_rows; r0 += line)
    for (int64_t c = 0; c < whole_cols; c += 4)
      for (int64_t r = r0; r < whole_rows && r < r0 + line; r += 4)
        FN(transpose4)(in + c * from + r, from, out + r * to + c, to);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = r < whole_rows ? whole_cols : 0; c < cols; c++) out[r * to + c] = in[c * from + r];
}

/* Rows k0 to k1 of columns j to j + cols of B, as rows of `step` elements; what is missing is 0. */
static void FN(pack_b)(const neap_cpu_gemm *g, int64_t k0, int64_t k1, int64_t j, int64_t cols, int64_t step, T *out) {
  const T *b = (const T *)g->b + k0 * g->b_row + j * g->b_col;
  if (g->b_col != 1) {
    FN(transpose)(b, g->b_col, out, step, k1 - k0, cols);
  } else if (cols == step) {
    for (int64_t k = 0; k < k1 - k0; k++)
      for (int64_t c = 0; c < step; c += LANES)
        *(FN(loose) *)(out + k * step + c) = *(const FN(loose) *)(b + k * g->b_row + c);
  } else {
    for (int64_t k = 0; k < k1 - k0; k++)
      for (int64_t c = 0; c < cols; c++) out[k * step + c] = b[k * g->b_row + c];
  }
  for (int64_t k = 0; cols < step && k < k1 - k0; k++)
    for (int64_t c = cols; c < step; c++) out[k * step + c] = 0;
}

/* Rows i to i + rows of A in a cut, k-major, ROWS elements apart: whole tiles are copied past their end into
 * the padding, in constant size. */
static void FN(pack_a)(const neap_cpu_gemm *g, int64_t i, int64_t rows, int64_t k0, int64_t k1, T *out) {
  const T *a = (const T *)g->a + i * g->a_row + k0 * g->a_col;
  if (g->a_col == 1) {
    FN(transpose)(a, g->a_row, out, ROWS, k1 - k0, rows);
  } else if (i + ROWS <= g->m && g->a_row == 1) {
    for (int64_t k = 0; k < k1 - k0; k++) memcpy(out + k * ROWS, a + k * g->a_col, ROWS * sizeof(T));
  } else {
    for (int64_t k = 0; k < k1 - k0; k++)
      for (int64_t r = 0; r < rows; r++) out[k * ROWS + r] = a[k * g->a_col + r * g->a_row];
  }
}

/* --- a block ------------------------------------------------------------------------------------------- */

/* Rows of A a multiple of 2 KiB apart share few sets of the first-level cache and drive each other out of
 * it, at every k. */
static bool FN(crowded)(const neap_cpu_gemm *g) {
  const int64_t stride = g->a_col == 1 ? g->a_row : g->a_col;
  return stride != 0 && stride % (int64_t)(2048 / sizeof(T)) == 0;
}

/* One row of tiles: rows i to i + rows, all panels of columns j0 to j1. */
static void FN(tile_row)(const neap_cpu_gemm *g, FN(tile) t, int64_t i, int rows, int64_t j0, int64_t j1, int64_t k0,
                         const T *packed, bool direct) {
  for (int64_t j = j0; j < j1; j += PANEL) {
    t.cols = j1 - j < PANEL ? j1 - j : PANEL;
    const int vectors = t.cols > LANES ? 2 : 1;
    if (direct && t.cols == vectors * LANES) {
      t.b = (const T *)g->b + k0 * g->b_row + j;
      t.step = g->b_row;
    } else {
      t.b = packed + (j - j0) * t.k;
      t.step = vectors * LANES;
    }
    t.c = (T *)g->c + i * g->c_row + j;
    t.bias = g->bias && !t.add ? (const T *)g->bias + j : NULL;
    FN(tiles)[rows - 1][vectors - 1](&t);
  }
}

/* B's rows used in place when they are too few uses to pay for a copy. */
static bool FN(in_place)(const neap_cpu_gemm *g, int64_t rows) { return g->b_col == 1 && rows <= 2 * ROWS; }

static void FN(cut)(const neap_cpu_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1, int64_t k0, int64_t k1,
                    bool add, T *pack) {
  const bool direct = FN(in_place)(g, i1 - i0), copy_a = FN(crowded)(g) && i1 - i0 > 1;
  const int64_t tiles = (i1 - i0 + ROWS - 1) / ROWS;
  T *const a_pack = pack + (j1 - j0 + PANEL) * (k1 - k0);
  for (int64_t j = j0; j < j1; j += PANEL) {
    const int64_t cols = j1 - j < PANEL ? j1 - j : PANEL, step = cols > LANES ? PANEL : LANES;
    if (!direct || cols != step) FN(pack_b)(g, k0, k1, j, cols, step, pack + (j - j0) * (k1 - k0));
  }
  for (int64_t tile = 0, i = i0; tile < tiles; tile++) {
    const int rows = (int)((i1 - i + tiles - tile - 1) / (tiles - tile)); /* as even as they can be */
    FN(tile) t = {.k = k1 - k0, .a_row = g->a_row, .a_col = g->a_col, .c_row = g->c_row, .add = add};
    t.a = (const T *)g->a + i * g->a_row + k0 * g->a_col;
    if (copy_a) {
      FN(pack_a)(g, i, rows, k0, k1, a_pack);
      t.a = a_pack;
      t.a_row = 1;
      t.a_col = ROWS;
    }
    FN(tile_row)(g, t, i, rows, j0, j1, k0, pack, direct);
    i += rows;
  }
}

/* No products: C is the bias, or zero. */
static void FN(empty)(const neap_cpu_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  const T *bias = g->bias;
  for (int64_t i = i0; i < i1; i++)
    for (int64_t j = j0; j < j1; j++) ((T *)g->c)[i * g->c_row + j] = bias ? bias[j] : 0;
}

static void FN(block)(const neap_cpu_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1, T *pack) {
  if (g->k == 0 && !g->add) FN(empty)(g, i0, i1, j0, j1);
  for (int64_t k0 = 0, k1; k0 < g->k; k0 = k1) {
    k1 = NEAP_CPU_NAME(gemm_cut_end)(k0, g->k, g->group);
    FN(cut)(g, i0, i1, j0, j1, k0, k1, g->add || k0 > 0, pack);
  }
}

#undef PANEL
#undef ROW
#undef END
#undef EACH_ROW
#undef EACH_HEIGHT
#undef DEFINE
#undef LIST
#undef T
#undef VEC
#undef LANES
#undef SET1
#undef FMA
#undef FN
