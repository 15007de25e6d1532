/* Normalization of rows, and its gradients; see engine/op/standardize.c for what a row is. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum {
  COLUMNS = 64, /* parameters of a task of the weight's gradient */
  CHUNK = 64    /* rows summed in the dtype itself before the sum is added in fp64 */
};

typedef struct rows rows;
typedef void (*row_fn)(const rows *k, const neap_launch *l, int64_t row);
typedef void (*weight_fn)(const rows *k, const neap_launch *l, int64_t param, int64_t n);

struct rows {
  neap_cpu_kernel head;
  row_fn row;
  weight_fn weight;
  int64_t count, length; /* rows, and elements of one */
  int64_t sets, params;  /* row r has the parameters [r % sets * params, ... + params), */
  int64_t inner;         /* each of that many elements side by side */
  double eps;
  bool center;
  int64_t per; /* units a task */
  /* The weight's gradient: */
  bool sums;             /* over samples: goes on from what the outputs hold */
  bool columns;          /* rows share all parameters, so that an entry is a row; otherwise it is a sample */
  int64_t entries, slab; /* entries in all, and in a slab */
};

#define LINES "kernels/cpu/standardize_rows.h"
#include "kernels/cpu/both_dtypes.h"

enum { DIMS, GROUPS, EPS, CENTER }; /* options */

static void run_rows(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task,
                     uint32_t thread) {
  const rows *k = (const rows *)base;
  const int64_t first = (int64_t)task * k->per, end = first + k->per < k->count ? first + k->per : k->count;
  (void)phase, (void)thread;
  for (int64_t r = first; r < end; r++) k->row(k, l, r);
}

static void run_weight(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task,
                       uint32_t thread) {
  const rows *k = (const rows *)base;
  const int64_t all = k->sets * k->params, at = (int64_t)task * COLUMNS;
  (void)phase, (void)thread;
  k->weight(k, l, at, all - at < COLUMNS ? all - at : COLUMNS);
}

static void describe(rows *k, const neap_shape *x, const neap_opt *opt) {
  k->count = k->length = k->sets = k->inner = 1;
  k->eps = opt[EPS].v.f;
  k->center = opt[CENTER].v.i != 0;
  if (opt[GROUPS].v.i > 0) {
    k->sets = opt[GROUPS].v.i;
    k->count = x->dim[0] * k->sets;
    k->params = x->dim[1] / k->sets;
    for (int32_t i = 2; i < x->ndim; i++) k->inner *= x->dim[i];
    k->length = k->params * k->inner;
    return;
  }
  const int32_t lead = x->ndim - (int32_t)opt[DIMS].v.i;
  for (int32_t i = 0; i < x->ndim; i++) *(i < lead ? &k->count : &k->length) *= x->dim[i];
  k->params = k->length;
}

static neap_status create(neap_cpu *cpu, const neap_sig *s, const neap_desc *x, neap_cpu_run run, rows **k,
                          neap_cpu_kernel **out, neap_error *err) {
  for (uint32_t i = 0; i < s->n_in; i++)
    if (s->in[i].desc.dtype != x->dtype || x->dtype > NEAP_F64) return neap__cpu_unsupported(s, err);
  const neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(rows), run, 0, out, err);
  if (status) return status;
  *k = (rows *)*out;
  describe(*k, &x->shape, s->opt);
  return NEAP_OK;
}

static neap_status prepare_rows(neap_cpu *cpu, const neap_sig *s, const neap_desc *x, const row_fn *by_dtype,
                                double element, neap_cpu_kernel **out, neap_error *err) {
  rows *k = NULL;
  const neap_status status = create(cpu, s, x, run_rows, &k, out, err);
  if (!k) return status;
  const double row = (double)k->length * element * (x->dtype == NEAP_F64 ? 2 : 1) + 2e-8;
  k->row = by_dtype[x->dtype];
  k->head.tasks[0] = neap__cpu_split(k->count, row, &k->per);
  k->head.base.seconds = (double)k->count * row;
  return NEAP_OK;
}

static neap_status prepare_forward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const row_fn by_dtype[] = {forward_f32, forward_f64};
  return prepare_rows(cpu, s, &s->in[0].desc, by_dtype, 2e-10, out, err);
}

static neap_status prepare_backward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const row_fn by_dtype[] = {backward_f32, backward_f64};
  return prepare_rows(cpu, s, &s->in[1].desc, by_dtype, 3e-10, out, err);
}

/* Entries of a slab. Samples that do not come first are never cut, and so are one slab. */
static void set_slabs(rows *k, const neap_sig *s) {
  const neap_operand *x = &s->in[1];
  k->columns = k->inner == 1 && k->sets == 1;
  k->entries = k->columns ? k->count : k->count / k->sets;
  k->slab = k->entries > 0 ? k->entries : 1;
  k->sums = s->out[0].batch.kind == NEAP_B_SUM;
  if (!k->sums || x->batch.dim != 0 || x->desc.shape.dim[0] == 0) return;
  k->slab = (s->slab > 0 ? s->slab : 1) * (x->batch.per > 0 ? x->batch.per : 1) * (k->entries / x->desc.shape.dim[0]);
}

static neap_status prepare_weight(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const weight_fn by_dtype[] = {weight_f32, weight_f64};
  rows *k = NULL;
  const neap_status status = create(cpu, s, &s->in[1].desc, run_weight, &k, out, err);
  if (!k) return status;
  k->weight = by_dtype[s->in[0].desc.dtype];
  set_slabs(k, s);
  k->head.tasks[0] = (uint32_t)((k->sets * k->params + COLUMNS - 1) / COLUMNS);
  k->head.base.seconds = (double)k->count * (double)k->length * 3e-10;
  return NEAP_OK;
}

NEAP_CPU_KERNEL(standardize) = {.prepare = prepare_forward};
NEAP_CPU_KERNEL(standardize_grad) = {.prepare = prepare_backward};
NEAP_CPU_KERNEL(standardize_grad_weight) = {.prepare = prepare_weight};
