/* Sums in a fixed order. Floating-point partial sums are held in fp64; one is made for each group of the
 * reduced elements, and groups are added one after the other. For a sum over samples a group is a slab and
 * its partial sum is rounded to the output's dtype, as it would be had the launch ended there. Otherwise
 * groups depend on the reduced dimensions alone. */
#include <string.h>

#include "kernels/cpu/reduce.h"
#include "kernels/cpu/vmath.h"

enum {
  COLUMNS = 256,
  GROUP = 1 << 16,
};

/* An accumulator: fp64, or int64 for integers. */
typedef union cell {
  double f;
  int64_t i;
} cell;

typedef void (*row_fn)(const void *x, int64_t n, cell *to);
typedef void (*columns_fn)(const void *x, int64_t rows, int64_t stride, int64_t n, cell *to);

typedef struct kernel {
  neap_cpu_kernel head;
  neap_reduce r;
  row_fn row;
  columns_fn columns;
  size_t in_size;
  neap_dtype out_dtype;
  bool slabs;                               /* partial sums are added to what the output holds, each rounded */
  bool two_phases;                          /* groups run side by side, their sums are added in a second phase */
  int64_t columns_all, columns_tile, tiles; /* a unit of work is an output, or a tile of columns */
  int64_t units, units_per_task;
  int64_t groups, group, groups_per_task; /* `group` entries of the split dimension are a group */
} kernel;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* --- inner loops --------------------------------------------------------------------------------------- */

/* Sixteen lanes, folded in a fixed order. */
#define LANES 16
#define ROW(name, from, acc, member)                            \
  static void name(const void *px, int64_t n, cell *to) {       \
    const from *x = px;                                         \
    acc lane[LANES] = {0}, total = 0;                           \
    int64_t i = 0;                                              \
    for (; i + LANES <= n; i += LANES)                          \
      for (int j = 0; j < LANES; j++) lane[j] += (acc)x[i + j]; \
    for (; i < n; i++) total += (acc)x[i];                      \
    for (int half = LANES / 2; half > 0; half /= 2)             \
      for (int j = 0; j < half; j++) lane[j] += lane[j + half]; \
    to->member += lane[0] + total;                              \
  }
/* A few columns at a time, held in registers over the rows. */
#define COLUMN_PASS(name, width, from, acc, member)                                                            \
  static int64_t name##_##width(const from *x, int64_t rows, int64_t stride, int64_t j, int64_t n, cell *to) { \
    for (; j + width <= n; j += width) {                                                                       \
      acc sum[width];                                                                                          \
      for (int c = 0; c < width; c++) sum[c] = to[j + c].member;                                               \
      for (int64_t r = 0; r < rows; r++)                                                                       \
        for (int c = 0; c < width; c++) sum[c] += (acc)x[r * stride + j + c];                                  \
      for (int c = 0; c < width; c++) to[j + c].member = sum[c];                                               \
    }                                                                                                          \
    return j;                                                                                                  \
  }
#define COLUMNS_OF(name, from, acc, member)                                            \
  COLUMN_PASS(name, 32, from, acc, member)                                             \
  COLUMN_PASS(name, 8, from, acc, member)                                              \
  COLUMN_PASS(name, 2, from, acc, member)                                              \
  COLUMN_PASS(name, 1, from, acc, member)                                              \
  static void name(const void *x, int64_t rows, int64_t stride, int64_t n, cell *to) { \
    int64_t j = name##_32(x, rows, stride, 0, n, to);                                  \
    j = name##_8(x, rows, stride, j, n, to);                                           \
    j = name##_2(x, rows, stride, j, n, to);                                           \
    name##_1(x, rows, stride, j, n, to);                                               \
  }
#define BOTH(type, from, acc, member) \
  ROW(row_##type, from, acc, member)  \
  COLUMNS_OF(columns_##type, from, acc, member)
BOTH(f32, float, double, f)
BOTH(f64, double, double, f)
/* Unsigned, so that overflow wraps. */
static void row_i64(const void *px, int64_t n, cell *to) {
  const int64_t *x = px;
  uint64_t sum = (uint64_t)to->i;
  for (int64_t i = 0; i < n; i++) sum += (uint64_t)x[i];
  to->i = (int64_t)sum;
}
static void columns_i64(const void *px, int64_t rows, int64_t stride, int64_t n, cell *to) {
  const int64_t *x = px;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < n; c++) to[c].i = (int64_t)((uint64_t)to[c].i + (uint64_t)x[r * stride + c]);
}
BOTH(i32, int32_t, int64_t, i)
BOTH(u8, uint8_t, int64_t, i)

static const row_fn row_fns[] = {row_f32, row_f64, row_i64, row_i32, row_u8, row_u8};
static const columns_fn columns_fns[] = {columns_f32, columns_f64, columns_i64, columns_i32, columns_u8, columns_u8};

/* --- units and groups ---------------------------------------------------------------------------------- */

/* A unit's outputs are the `n` from `output` on; their first elements are at `offset`. */
typedef struct unit {
  int64_t output, offset, n;
} unit;

static unit unit_at(const kernel *k, int64_t i) {
  const neap_walk *kept = &k->r.kept;
  if (k->r.rows) return (unit){i, neap_walk_offset(kept, kept->n, i), 1};
  int64_t outer = i / k->tiles, column = i % k->tiles * k->columns_tile;
  int32_t n = kept->n > 0 ? kept->n - 1 : 0;
  return (unit){outer * k->columns_all + column, neap_walk_offset(kept, n, outer) + column,
                smaller(k->columns_tile, k->columns_all - column)};
}

static void add_rows(const kernel *k, const char *x, int64_t first, int64_t count, cell *to) {
  const neap_reduce *r = &k->r;
  int32_t outer = r->reduced.n - 1;
  if (r->split_rows) {
    int64_t rows = neap_walk_count(&r->reduced, r->reduced.n);
    for (int64_t i = 0; i < rows; i++)
      k->row(x + (size_t)(first * r->split_stride + neap_walk_offset(&r->reduced, r->reduced.n, i)) * k->in_size, count,
             to);
    return;
  }
  int64_t rows = neap_walk_count(&r->reduced, outer), length = r->reduced.size[outer];
  for (int64_t s = first; s < first + count; s++)
    for (int64_t i = 0; i < rows; i++)
      k->row(x + (size_t)(s * r->split_stride + neap_walk_offset(&r->reduced, outer, i)) * k->in_size, length, to);
}

static void add_columns(const kernel *k, const char *x, int64_t first, int64_t count, int64_t n, cell *to) {
  const neap_reduce *r = &k->r;
  int32_t outer = r->reduced.n - 1;
  if (r->reduced.n == 0) {
    k->columns(x + (size_t)(first * r->split_stride) * k->in_size, count, r->split_stride, n, to);
    return;
  }
  int64_t blocks = neap_walk_count(&r->reduced, outer);
  for (int64_t s = first; s < first + count; s++)
    for (int64_t i = 0; i < blocks; i++)
      k->columns(x + (size_t)(s * r->split_stride + neap_walk_offset(&r->reduced, outer, i)) * k->in_size,
                 r->reduced.size[outer], r->reduced.stride[outer], n, to);
}

static void sum_group(const kernel *k, const char *x, const unit *u, int64_t g, cell *to) {
  int64_t first = g * k->group, count = smaller(k->group, k->r.split_size - first);
  const char *from = x + (size_t)u->offset * k->in_size;
  memset(to, 0, (size_t)u->n * sizeof *to);
  if (k->r.rows)
    add_rows(k, from, first, count, to);
  else
    add_columns(k, from, first, count, u->n, to);
}

/* --- totals -------------------------------------------------------------------------------------------- */

static void begin_totals(const kernel *k, const neap_launch *l, const unit *u, cell *total) {
  memset(total, 0, (size_t)u->n * sizeof *total);
  if (!k->slabs || (l->flags & NEAP_LAUNCH_FIRST)) return;
  for (int64_t i = 0; i < u->n; i++) {
    if (k->out_dtype == NEAP_F32)
      total[i].f = ((const float *)l->out[0])[u->output + i];
    else
      total[i] = ((const cell *)l->out[0])[u->output + i];
  }
}

/* A float sum of two floats is the fp64 sum rounded: fp64 has more than twice the digits. */
static void add_partial(const kernel *k, int64_t n, const cell *partial, cell *total) {
  for (int64_t i = 0; i < n; i++) {
    if (k->out_dtype == NEAP_I64)
      total[i].i = (int64_t)((uint64_t)total[i].i + (uint64_t)partial[i].i);
    else if (k->slabs && k->out_dtype == NEAP_F32)
      total[i].f = (double)(float)(total[i].f + (double)(float)partial[i].f);
    else
      total[i].f += partial[i].f;
  }
}

static void store(const kernel *k, const neap_launch *l, const unit *u, const cell *total) {
  for (int64_t i = 0; i < u->n; i++) {
    if (k->out_dtype == NEAP_F32)
      ((float *)l->out[0])[u->output + i] = (float)total[i].f;
    else
      ((cell *)l->out[0])[u->output + i] = total[i];
  }
}

/* --- tasks --------------------------------------------------------------------------------------------- */

static void run_groups(const kernel *k, const neap_launch *l, uint32_t task) {
  int64_t first = task * k->groups_per_task, end = smaller(first + k->groups_per_task, k->groups);
  cell *partial = l->workspace;
  for (int64_t g = first; g < end; g++)
    for (int64_t i = 0; i < k->units; i++) {
      unit u = unit_at(k, i);
      sum_group(k, l->in[0], &u, g, partial + g * k->r.n_out + u.output);
    }
}

static void run_units(const kernel *k, const neap_launch *l, uint32_t task) {
  int64_t first = task * k->units_per_task, end = smaller(first + k->units_per_task, k->units);
  cell total[COLUMNS], own[COLUMNS];
  for (int64_t i = first; i < end; i++) {
    unit u = unit_at(k, i);
    begin_totals(k, l, &u, total);
    for (int64_t g = 0; g < k->groups; g++) {
      const cell *partial = own;
      if (k->two_phases)
        partial = (const cell *)l->workspace + g * k->r.n_out + u.output;
      else
        sum_group(k, l->in[0], &u, g, own);
      add_partial(k, u.n, partial, total);
    }
    store(k, l, &u, total);
  }
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)thread;
  if (k->two_phases && phase == 0)
    run_groups(k, l, task);
  else
    run_units(k, l, task);
}

/* --- preparation --------------------------------------------------------------------------------------- */

/* The batch dimension of the input, -1 without one. */
static int32_t batch_dim(const neap_operand *in) { return neap__batch_carries(&in->batch) ? in->batch.dim : -1; }

static bool over_samples(const neap_sig *s, const neap_opt *dims) {
  int32_t batch = batch_dim(&s->in[0]);
  for (int32_t i = 0; i < dims->n; i++)
    if (batch >= 0 && dims->v.list[i] == batch) return s->out[0].batch.kind == NEAP_B_SUM;
  return false;
}

static void set_groups(kernel *k, const neap_sig *s) {
  const neap_reduce *r = &k->r;
  if (k->slabs) {
    k->group = (s->slab > 0 ? s->slab : 1) * (s->in[0].batch.per > 0 ? s->in[0].batch.per : 1);
  } else {
    int64_t entry = r->split_size > 0 ? r->n_reduced / r->split_size : 1;
    k->group = entry < GROUP ? GROUP / (entry > 0 ? entry : 1) : 1;
  }
  k->groups = (r->split_size + k->group - 1) / k->group;
}

static void set_units(kernel *k) {
  const neap_walk *kept = &k->r.kept;
  k->columns_all = !k->r.rows && kept->n > 0 ? kept->size[kept->n - 1] : 1;
  k->columns_tile = smaller(COLUMNS, k->columns_all > 0 ? k->columns_all : 1);
  k->tiles = (k->columns_all + k->columns_tile - 1) / k->columns_tile;
  k->units = k->r.rows ? k->r.n_out : k->columns_all > 0 ? k->r.n_out / k->columns_all * k->tiles : 0;
}

/* Few outputs of many elements: the groups are the tasks. Either way the same groups are added in the same
 * order, so this changes no bit. */
static void set_tasks(kernel *k) {
  double element = 2e-10 * (double)k->in_size / 4;
  double all = (double)k->r.n_out * (double)k->r.n_reduced * element + (double)k->units * 2e-8;
  uint32_t tasks = neap__cpu_split(k->units, k->units > 0 ? all / (double)k->units : 0, &k->units_per_task);
  k->head.tasks[0] = tasks;
  k->head.base.seconds = all;
  if (tasks >= 8 || k->groups < 2 || all < 4e-5 || k->r.n_out > k->r.n_reduced / k->groups) return;
  k->two_phases = true;
  k->head.base.n_phases = 2;
  k->head.tasks[0] = neap__cpu_split(k->groups, all / (double)k->groups, &k->groups_per_task);
  k->head.tasks[1] = neap__cpu_split(k->units, (double)(k->groups * k->columns_tile) * 1e-9, &k->units_per_task);
  k->head.base.workspace = (size_t)(k->groups * k->r.n_out) * sizeof(cell);
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  neap_dtype t = s->in[0].desc.dtype;
  if (t > NEAP_BOOL) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  NEAP_CPU_NAME(reduce_plan)(&k->r, &s->in[0].desc.shape, &s->opt[0], batch_dim(&s->in[0]));
  k->row = row_fns[t];
  k->columns = columns_fns[t];
  k->in_size = neap__dtype_size(t);
  k->out_dtype = s->out[0].desc.dtype;
  k->slabs = over_samples(s, &s->opt[0]);
  set_groups(k, s);
  set_units(k);
  set_tasks(k);
  return NEAP_OK;
}

NEAP_CPU_KERNEL(sum) = {.prepare = prepare};
