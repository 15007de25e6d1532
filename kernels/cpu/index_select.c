/* Entries of a dimension by a list of indices, [outer, R, inner] -> [outer, K, inner], and adding them back. */
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { COLUMNS = 64, ZERO_UNIT = 1 << 14 };

typedef struct kernel kernel;
/* Adds columns [column, column + n) of the K entries of block `outer` to the output, in order. */
typedef void (*add_fn)(const kernel *k, const neap_launch *l, int64_t outer, int64_t column, int64_t n);

struct kernel {
  neap_cpu_kernel head;
  uint32_t table, index;      /* which inputs they are */
  int64_t rows, count, inner; /* R of the table, K indices */
  size_t entry;               /* bytes of an entry */
  bool skips;
  int64_t skip;
  int64_t units, per;
  add_fn add;
  bool sums; /* over samples: goes on from what the output holds */
  int64_t tiles, zeros, zeros_per;
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Index j, or -1 after telling that it is out of range. */
static int64_t row_of(const kernel *k, const neap_launch *l, const int64_t *index, int64_t j) {
  int64_t row = index[j];
  if (row >= 0 && row < k->rows) return row;
  neap__cpu_fault(l->fault, NEAP_RANGE, j, row, k->rows);
  return -1;
}

static void run_take(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task,
                     uint32_t thread) {
  const kernel *k = (const kernel *)base;
  const int64_t *index = l->in[k->index];
  (void)phase, (void)thread;
  int64_t first = task * k->per, end = smaller(first + k->per, k->units);
  for (int64_t u = first; u < end; u++) {
    int64_t row = row_of(k, l, index, u % k->count);
    if (row < 0) continue;
    char *to = (char *)l->out[0] + (size_t)u * k->entry;
    const char *from = (const char *)l->in[k->table] + (size_t)(u / k->count * k->rows + row) * k->entry;
    switch (k->entry) { /* copies of a size known here are single moves */
      case 4: memcpy(to, from, 4); break;
      case 8: memcpy(to, from, 8); break;
      default: memcpy(to, from, k->entry);
    }
  }
}

#define ADD(name, type)                                                                               \
  static void name(const kernel *k, const neap_launch *l, int64_t outer, int64_t column, int64_t n) { \
    const int64_t *index = l->in[1];                                                                  \
    const type *from = (const type *)l->in[0] + outer * k->count * k->inner + column;                 \
    type *to = (type *)l->out[0] + outer * k->rows * k->inner + column;                               \
    for (int64_t j = 0; j < k->count; j++) {                                                          \
      if (k->skips && index[j] == k->skip) continue;                                                  \
      int64_t row = row_of(k, l, index, j);                                                           \
      if (row < 0) continue;                                                                          \
      for (int64_t c = 0; c < n; c++) to[row * k->inner + c] += from[j * k->inner + c];               \
    }                                                                                                 \
  }
ADD(add_f32, float)
ADD(add_f64, double)

static void run_zero(const kernel *k, const neap_launch *l, uint32_t task) {
  if (k->sums && !(l->flags & NEAP_LAUNCH_FIRST)) return;
  size_t all = neap__desc_bytes(&k->head.out[0].desc), first = (size_t)(task * k->zeros_per) * ZERO_UNIT;
  size_t n = (size_t)k->zeros_per * ZERO_UNIT;
  memset((char *)l->out[0] + first, 0, n < all - first ? n : all - first);
}

static void run_add(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)thread;
  if (phase == 0) {
    run_zero(k, l, task);
    return;
  }
  int64_t first = task * k->per, end = smaller(first + k->per, k->units);
  for (int64_t u = first; u < end; u++) {
    int64_t column = u % k->tiles * COLUMNS;
    k->add(k, l, u / k->tiles, column, smaller(COLUMNS, k->inner - column));
  }
}

/* table: the shape that is indexed. */
static int64_t measure(kernel *k, const neap_shape *table, int64_t count, int64_t dim, size_t element) {
  int64_t outer = 1;
  k->inner = 1;
  for (int32_t d = 0; d < table->ndim; d++) {
    if (d < dim) outer *= table->dim[d];
    if (d > dim) k->inner *= table->dim[d];
  }
  k->rows = table->dim[dim];
  k->count = count;
  k->entry = (size_t)k->inner * element;
  return outer;
}

static neap_status prepare_take(neap_cpu *cpu, const neap_sig *s, uint32_t table, int64_t dim, neap_cpu_kernel **out,
                                neap_error *err) {
  uint32_t index = 1 - table;
  if (s->in[index].desc.dtype != NEAP_I64) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run_take, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  const neap_desc *d = &s->in[table].desc;
  k->table = table;
  k->index = index;
  k->units = measure(k, &d->shape, neap__shape_count(&s->in[index].desc.shape), dim, neap__dtype_size(d->dtype));
  k->units *= k->count;
  double unit = 4e-9 + 2e-10 * (double)k->entry;
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

static neap_status prepare_select(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare_take(cpu, s, 0, s->opt[0].v.i, out, err);
}
static neap_status prepare_embedding(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare_take(cpu, s, 1, 0, out, err);
}

static neap_status prepare_add(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  const neap_desc *table = &s->out[0].desc;
  if (table->dtype > NEAP_F64 || s->in[1].desc.dtype != NEAP_I64) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run_add, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  size_t element = neap__dtype_size(table->dtype);
  k->units = measure(k, &table->shape, neap__shape_count(&s->in[1].desc.shape), s->opt[0].v.i, element);
  k->tiles = (k->inner + COLUMNS - 1) / COLUMNS;
  k->units *= k->tiles;
  k->add = table->dtype == NEAP_F32 ? add_f32 : add_f64;
  k->skips = s->opt[2].set;
  k->skip = s->opt[2].v.i;
  k->sums = s->out[0].batch.kind == NEAP_B_SUM;
  k->zeros = (int64_t)((neap__desc_bytes(table) + ZERO_UNIT - 1) / ZERO_UNIT);
  double unit = (double)k->count * (3e-9 + 1.5e-10 * (double)element * (double)smaller(COLUMNS, k->inner));
  k->head.base.n_phases = 2;
  k->head.tasks[0] = neap__cpu_split(k->zeros, ZERO_UNIT * 5e-11, &k->zeros_per);
  k->head.tasks[1] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit + (double)k->zeros * ZERO_UNIT * 5e-11;
  return NEAP_OK;
}

NEAP_CPU_KERNEL(index_select) = {.prepare = prepare_select};
NEAP_CPU_KERNEL(embedding) = {.prepare = prepare_embedding};
NEAP_CPU_KERNEL(index_sum) = {.prepare = prepare_add};
