#include "kernels/cpu/strided.h"

#include <string.h>

/* A tile of a transposition: rows are a few cache lines of the input, columns as many lines at once as fit
 * the first cache level with the output. A tile of a plain copy is a long piece of one row. */
enum { TILE_ROWS = 32, TILE_COLUMNS = 256, STEP = 16, PIECE = 1 << 14 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* --- plan ---------------------------------------------------------------------------------------------- */

static void collapse(neap_strided *p, const neap_shape *shape, const int64_t *dst, const int64_t *src) {
  for (int32_t d = 0; d < shape->ndim; d++) {
    int64_t size = shape->dim[d];
    int32_t last = p->n - 1;
    if (size == 1) continue;
    if (last >= 0 && p->dst[last] == dst[d] * size && p->src[last] == src[d] * size)
      p->size[last] *= size;
    else
      p->size[last = p->n++] = size;
    p->dst[last] = dst[d];
    p->src[last] = src[d];
  }
}

static void remove_dim(neap_strided *p, int32_t d) {
  size_t after = (size_t)(--p->n - d) * sizeof *p->size;
  memmove(p->size + d, p->size + d + 1, after);
  memmove(p->dst + d, p->dst + d + 1, after);
  memmove(p->src + d, p->src + d + 1, after);
}

void NEAP_CPU_NAME(strided_plan)(neap_strided *p, const neap_shape *shape, const int64_t *dst, const int64_t *src,
                                 size_t element) {
  *p = (neap_strided){.element = element, .columns = 1, .rows = 1};
  collapse(p, shape, dst, src);
  if (p->n > 0) {
    int32_t last = p->n - 1;
    p->columns = p->size[last];
    p->dst_column = p->dst[last];
    p->src_column = p->src[last];
    p->n--;
  }
  for (int32_t d = 0; d < p->n && p->src_column > 1; d++) {
    if (p->src[d] != 1) continue;
    p->rows = p->size[d];
    p->dst_row = p->dst[d];
    remove_dim(p, d);
    break;
  }
  int64_t tile = p->rows > 1 ? TILE_COLUMNS : PIECE;
  p->row_tiles = (p->rows + TILE_ROWS - 1) / TILE_ROWS;
  p->column_tiles = (p->columns + tile - 1) / tile;
  p->units = p->row_tiles * p->column_tiles;
  for (int32_t d = 0; d < p->n; d++) p->units *= p->size[d];
}

/* --- tiles --------------------------------------------------------------------------------------------- */

/* rows x columns elements; src is dense along rows. */
#define TRANSPOSE(name, type)                                                                                      \
  static void name(char *to, const char *from, int64_t rows, int64_t columns, int64_t dst_row, int64_t dst_column, \
                   int64_t src_column) {                                                                           \
    type *dst = (type *)(void *)to;                                                                                \
    const type *src = (const type *)(const void *)from;                                                            \
    for (int64_t j = 0; j < columns; j += STEP) {                                                                  \
      int64_t end = smaller(j + STEP, columns);                                                                    \
      for (int64_t i = 0; i < rows; i++)                                                                           \
        for (int64_t c = j; c < end; c++) dst[i * dst_row + c * dst_column] = src[i + c * src_column];             \
    }                                                                                                              \
  }
TRANSPOSE(transpose1, uint8_t)
TRANSPOSE(transpose2, uint16_t)
TRANSPOSE(transpose4_any, uint32_t)
TRANSPOSE(transpose8, uint64_t)

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define NEAP_SHUFFLE 1
#endif
#endif

#ifdef NEAP_SHUFFLE
/* 8 x 8 words by three rounds of exchanges: of words, of pairs, of halves. */
typedef uint32_t words __attribute__((vector_size(32)));
#define LOW_WORDS(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_WORDS(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_PAIRS(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_PAIRS(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW_HALF(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_HALF(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

static inline void transpose_8x8(uint32_t *dst, int64_t dst_row, const uint32_t *src, int64_t src_column) {
  words r[8], t[8];
  for (int i = 0; i < 8; i++) memcpy(&r[i], src + i * src_column, sizeof r[i]);
  for (int i = 0; i < 8; i += 2) {
    t[i] = LOW_WORDS(r[i], r[i + 1]);
    t[i + 1] = HIGH_WORDS(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = LOW_PAIRS(t[i], t[i + 2]);
    r[i + 1] = HIGH_PAIRS(t[i], t[i + 2]);
    r[i + 2] = LOW_PAIRS(t[i + 1], t[i + 3]);
    r[i + 3] = HIGH_PAIRS(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; i++) {
    t[i] = LOW_HALF(r[i], r[i + 4]);
    t[i + 4] = HIGH_HALF(r[i], r[i + 4]);
  }
  for (int i = 0; i < 8; i++) memcpy(dst + i * dst_row, &t[i], sizeof t[i]);
}

static void transpose4(char *to, const char *from, int64_t rows, int64_t columns, int64_t dst_row, int64_t dst_column,
                       int64_t src_column) {
  uint32_t *dst = (uint32_t *)(void *)to;
  const uint32_t *src = (const uint32_t *)(const void *)from;
  int64_t i8 = dst_column == 1 ? rows / 8 * 8 : 0, j8 = columns / 8 * 8;
  for (int64_t j = 0; j < j8; j += 8)
    for (int64_t i = 0; i < i8; i += 8)
      transpose_8x8(dst + i * dst_row + j, dst_row, src + i + j * src_column, src_column);
  if (i8 > 0 && j8 < columns)
    transpose4_any((char *)(dst + j8), (const char *)(src + j8 * src_column), i8, columns - j8, dst_row, 1, src_column);
  if (i8 < rows)
    transpose4_any((char *)(dst + i8 * dst_row), (const char *)(src + i8), rows - i8, columns, dst_row, dst_column,
                   src_column);
}
#else
#define transpose4 transpose4_any
#endif

/* One row: dense, one value for all, or neither. */
#define ROW(name, type)                                                                         \
  static void name(char *to, const char *from, int64_t n, int64_t dst_step, int64_t src_step) { \
    type *dst = (type *)(void *)to;                                                             \
    const type *src = (const type *)(const void *)from;                                         \
    if (dst_step == 1 && src_step == 1) {                                                       \
      memcpy(dst, src, (size_t)n * sizeof *dst);                                                \
    } else if (dst_step == 1 && src_step == 0) {                                                \
      const type value = src[0];                                                                \
      for (int64_t i = 0; i < n; i++) dst[i] = value;                                           \
    } else {                                                                                    \
      for (int64_t i = 0; i < n; i++) dst[i * dst_step] = src[i * src_step];                    \
    }                                                                                           \
  }
ROW(row1, uint8_t)
ROW(row2, uint16_t)
ROW(row4, uint32_t)
ROW(row8, uint64_t)

static void copy_row(const neap_strided *p, char *dst, const char *src, int64_t n) {
  switch (p->element) {
    case 1: row1(dst, src, n, p->dst_column, p->src_column); return;
    case 2: row2(dst, src, n, p->dst_column, p->src_column); return;
    case 4: row4(dst, src, n, p->dst_column, p->src_column); return;
    default: row8(dst, src, n, p->dst_column, p->src_column); return;
  }
}

static void copy_tile(const neap_strided *p, char *dst, const char *src, int64_t rows, int64_t columns) {
  switch (p->element) {
    case 1: transpose1(dst, src, rows, columns, p->dst_row, p->dst_column, p->src_column); return;
    case 2: transpose2(dst, src, rows, columns, p->dst_row, p->dst_column, p->src_column); return;
    case 4: transpose4(dst, src, rows, columns, p->dst_row, p->dst_column, p->src_column); return;
    default: transpose8(dst, src, rows, columns, p->dst_row, p->dst_column, p->src_column); return;
  }
}

/* --- walking ------------------------------------------------------------------------------------------- */

typedef struct cursor {
  int64_t at[NEAP_MAX_DIMS], dst, src;
} cursor;

static cursor cursor_at(const neap_strided *p, int64_t outer) {
  cursor c = {.dst = 0};
  for (int32_t d = p->n; d-- > 0;) {
    c.at[d] = outer % p->size[d];
    outer /= p->size[d];
    c.dst += c.at[d] * p->dst[d];
    c.src += c.at[d] * p->src[d];
  }
  return c;
}

static void cursor_next(const neap_strided *p, cursor *c) {
  for (int32_t d = p->n; d-- > 0;) {
    c->dst += p->dst[d];
    c->src += p->src[d];
    if (++c->at[d] < p->size[d]) return;
    c->dst -= p->size[d] * p->dst[d];
    c->src -= p->size[d] * p->src[d];
    c->at[d] = 0;
  }
}

static void copy_unit(const neap_strided *p, char *dst, const char *src, const cursor *c, int64_t tile) {
  int64_t row = tile / p->column_tiles * TILE_ROWS;
  int64_t most = p->rows > 1 ? TILE_COLUMNS : PIECE, column = tile % p->column_tiles * most;
  int64_t columns = smaller(most, p->columns - column);
  char *to = dst + (size_t)(c->dst + row * p->dst_row + column * p->dst_column) * p->element;
  const char *from = src + (size_t)(c->src + row + column * p->src_column) * p->element;
  if (p->rows > 1)
    copy_tile(p, to, from, smaller(TILE_ROWS, p->rows - row), columns);
  else
    copy_row(p, to, from, columns);
}

void NEAP_CPU_NAME(strided_copy)(const neap_strided *p, char *dst, const char *src, int64_t first, int64_t end) {
  int64_t tiles = p->row_tiles * p->column_tiles;
  if (first >= end) return;
  cursor c = cursor_at(p, first / tiles);
  int64_t tile = first % tiles;
  for (int64_t u = first; u < end; u++) {
    copy_unit(p, dst, src, &c, tile);
    if (++tile < tiles) continue;
    tile = 0;
    cursor_next(p, &c);
  }
}

void NEAP_CPU_NAME(fill)(void *dst, const void *value, size_t element, int64_t n) {
  switch (element) {
    case 1: row1(dst, value, n, 1, 0); return;
    case 2: row2(dst, value, n, 1, 0); return;
    case 4: row4(dst, value, n, 1, 0); return;
    default: row8(dst, value, n, 1, 0); return;
  }
}
