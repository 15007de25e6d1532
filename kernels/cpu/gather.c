/* Single elements by indices along a dimension, adding them back, and which index is a place's last. All walk the
 * indices in lines: a line is all places along the dimension at one place of the others, and lines side by side are
 * walked together. */
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { COLUMNS = 64, ZERO_UNIT = 1 << 14 };

typedef struct kernel kernel;
/* n lines side by side: `at` is the first place in the indices, `table` the one at index 0 in the table. */
typedef void (*lines_fn)(const kernel *k, const neap_launch *l, int64_t at, int64_t table, int64_t n);

struct kernel {
  neap_cpu_kernel head;
  lines_fn lines;
  int32_t n; /* dimensions around the lines */
  int64_t size[NEAP_MAX_DIMS], index_stride[NEAP_MAX_DIMS], table_stride[NEAP_MAX_DIMS];
  int64_t count, index_step, table_step, limit; /* along the lines; indices are below limit */
  int64_t columns, tiles;                       /* lines side by side */
  int64_t units, per;
  bool sums; /* over samples: goes on from what the output holds */
  int empty; /* the byte of places that nothing was written to */
  int64_t zeros, zeros_per;
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The index at place p, or -1 after telling that it is out of range. */
static int64_t index_at(const kernel *k, const neap_launch *l, int64_t p) {
  int64_t i = ((const int64_t *)l->in[1])[p];
  if (i >= 0 && i < k->limit) return i;
  neap__cpu_fault(l->fault, NEAP_RANGE, p, i, k->limit);
  return -1;
}

#define LINES(name, type, act)                                                                    \
  static void name(const kernel *k, const neap_launch *l, int64_t at, int64_t table, int64_t n) { \
    const type *in = l->in[0];                                                                    \
    type *out = l->out[0];                                                                        \
    for (int64_t j = 0; j < k->count; j++, at += k->index_step)                                   \
      for (int64_t c = 0; c < n; c++) {                                                           \
        int64_t i = index_at(k, l, at + c), place = table + c + i * k->table_step;                \
        if (i >= 0) act;                                                                          \
      }                                                                                           \
  }
#define PICK out[at + c] = in[place]
#define ADD out[place] += in[at + c]
/* Unsigned, so that overflow wraps. */
LINES(pick1, uint8_t, PICK)
LINES(pick2, uint16_t, PICK)
LINES(pick4, uint32_t, PICK)
LINES(pick8, uint64_t, PICK)
LINES(add_f32, float, ADD)
LINES(add_f64, double, ADD)
LINES(add_i64, uint64_t, ADD)
LINES(add_i32, uint32_t, ADD)

/* Where the last index that names a place lies along its line. */
static void last_line(const kernel *k, const neap_launch *l, int64_t at, int64_t table, int64_t n) {
  int64_t *out = l->out[0];
  for (int64_t j = 0; j < k->count; j++, at += k->index_step)
    for (int64_t c = 0; c < n; c++) {
      const int64_t i = index_at(k, l, at + c);
      if (i >= 0) out[table + c + i * k->table_step] = j;
    }
}

static void run_zero(const kernel *k, const neap_launch *l, uint32_t task) {
  if (k->sums && !(l->flags & NEAP_LAUNCH_FIRST)) return;
  size_t all = neap__desc_bytes(&k->head.out[0].desc), first = (size_t)(task * k->zeros_per) * ZERO_UNIT;
  size_t n = (size_t)k->zeros_per * ZERO_UNIT;
  memset((char *)l->out[0] + first, k->empty, n < all - first ? n : all - first);
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)thread;
  if (k->zeros_per && phase == 0) {
    run_zero(k, l, task);
    return;
  }
  int64_t first = task * k->per, end = smaller(first + k->per, k->units);
  for (int64_t u = first; u < end; u++) {
    int64_t column = u % k->tiles * COLUMNS, at = column, table = column, rest = u / k->tiles;
    for (int32_t d = k->n; d-- > 0; rest /= k->size[d]) {
      at += rest % k->size[d] * k->index_stride[d];
      table += rest % k->size[d] * k->table_stride[d];
    }
    k->lines(k, l, at, table, smaller(COLUMNS, k->columns - column));
  }
}

/* Lines along the innermost dimension lie one after the other, others side by side. */
static void measure(kernel *k, const neap_shape *index, const neap_shape *table, int32_t dim) {
  int64_t is[NEAP_MAX_DIMS], ts[NEAP_MAX_DIMS];
  int32_t last = index->ndim - 1;
  neap__strides_dense(index, is);
  neap__strides_dense(table, ts);
  k->count = k->limit = k->columns = k->units = 1;
  for (int32_t d = 0; d <= last; d++) {
    if (d == dim) {
      k->count = index->dim[d];
      k->limit = table->dim[d];
      k->index_step = is[d];
      k->table_step = ts[d];
    } else if (d == last) {
      k->columns = index->dim[d];
    } else {
      k->size[k->n] = index->dim[d];
      k->index_stride[k->n] = is[d];
      k->table_stride[k->n++] = ts[d];
      k->units *= index->dim[d];
    }
  }
  k->tiles = (k->columns + COLUMNS - 1) / COLUMNS;
  k->units *= k->tiles;
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, const neap_desc *table, lines_fn lines, uint32_t phase,
                           neap_cpu_kernel **out, neap_error *err) {
  if (s->in[1].desc.dtype != NEAP_I64 || !lines) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  measure(k, &s->in[1].desc.shape, &table->shape, (int32_t)s->opt[0].v.i);
  k->lines = lines;
  double unit = (double)k->count * (double)smaller(COLUMNS, k->columns) * 2e-9 + 1e-8;
  k->head.base.n_phases = phase + 1;
  k->head.tasks[phase] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

static neap_status prepare_gather(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  size_t element = neap__dtype_size(s->in[0].desc.dtype);
  lines_fn lines = element == 1 ? pick1 : element == 2 ? pick2 : element == 4 ? pick4 : pick8;
  return prepare(cpu, s, &s->in[0].desc, lines, 0, out, err);
}

/* The output begins as `empty` bytes, then the lines are written to it. */
static neap_status prepare_onto(neap_cpu *cpu, const neap_sig *s, lines_fn lines, int empty, neap_cpu_kernel **out,
                                neap_error *err) {
  const neap_desc *d = &s->out[0].desc;
  neap_status status = prepare(cpu, s, d, lines, 1, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  k->empty = empty;
  k->sums = s->out[0].batch.kind == NEAP_B_SUM;
  k->zeros = (int64_t)((neap__desc_bytes(d) + ZERO_UNIT - 1) / ZERO_UNIT);
  k->head.tasks[0] = neap__cpu_split(k->zeros, ZERO_UNIT * 5e-11, &k->zeros_per);
  k->head.base.seconds += (double)k->zeros * ZERO_UNIT * 5e-11;
  return NEAP_OK;
}

static neap_status prepare_scatter(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const lines_fn by_dtype[] = {add_f32, add_f64, add_i64, add_i32};
  const neap_dtype t = s->out[0].desc.dtype;
  return prepare_onto(cpu, s, t <= NEAP_I32 ? by_dtype[t] : NULL, 0, out, err);
}

/* All bits set is -1. */
static neap_status prepare_last(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare_onto(cpu, s, last_line, 0xFF, out, err);
}

NEAP_CPU_KERNEL(gather) = {.prepare = prepare_gather};
NEAP_CPU_KERNEL(scatter_sum) = {.prepare = prepare_scatter};
NEAP_CPU_KERNEL(scatter_last) = {.prepare = prepare_last};
