/* Ops that only move elements: each input is copied into a part of the output, after the output was filled
 * where the parts do not cover it. Shapes come from the operands, since a micro-batch is smaller than what
 * the options were written for. */
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/strided.h"

enum { FILL_UNIT = 1 << 14 };

typedef struct move {
  neap_strided plan;
  int64_t dst, src; /* offsets of the first element */
  int64_t per;      /* units a task */
  uint32_t tasks;
} move;

typedef struct kernel {
  neap_cpu_kernel head;
  bool fills;
  double value_bits; /* the element that fills, in the output's dtype */
  int64_t n, fill_per;
  size_t element;
  uint32_t n_moves;
  move moves[];
} kernel;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void run_fill(const kernel *k, const neap_launch *l, uint32_t task) {
  int64_t first = task * k->fill_per * FILL_UNIT, n = smaller(k->fill_per * FILL_UNIT, k->n - first);
  NEAP_CPU_NAME(fill)((char *)l->out[0] + (size_t)first * k->element, &k->value_bits, k->element, n);
}

static void run_move(const kernel *k, const neap_launch *l, uint32_t task) {
  uint32_t i = 0;
  while (task >= k->moves[i].tasks) task -= k->moves[i++].tasks;
  const move *m = &k->moves[i];
  int64_t first = task * m->per;
  NEAP_CPU_NAME(strided_copy)
  (&m->plan, (char *)l->out[0] + (size_t)m->dst * k->element, (const char *)l->in[i] + (size_t)m->src * k->element,
   first, smaller(first + m->per, m->plan.units));
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)thread;
  if (k->fills && phase == 0)
    run_fill(k, l, task);
  else
    run_move(k, l, task);
}

/* --- preparation --------------------------------------------------------------------------------------- */

static neap_status new_kernel(neap_cpu *cpu, const neap_sig *s, uint32_t n_moves, kernel **out, neap_error *err) {
  neap_cpu_kernel *base;
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel) + n_moves * sizeof(move), run, 0, &base, err);
  *out = (kernel *)base;
  if (status != NEAP_OK) return status;
  (*out)->n_moves = n_moves;
  (*out)->n = neap__shape_count(&s->out[0].desc.shape);
  (*out)->element = neap__dtype_size(s->out[0].desc.dtype);
  return NEAP_OK;
}

static void add_move(kernel *k, uint32_t i, const neap_shape *shape, const int64_t *dst, const int64_t *src) {
  move *m = &k->moves[i];
  uint32_t phase = k->fills ? 1 : 0;
  NEAP_CPU_NAME(strided_plan)(&m->plan, shape, dst, src, k->element);
  double seconds = (double)neap__shape_count(shape) * (double)k->element * (m->plan.rows > 1 ? 3e-10 : 1.5e-10);
  seconds += (double)m->plan.units * 5e-9;
  m->tasks = neap__cpu_split(m->plan.units, m->plan.units > 0 ? seconds / (double)m->plan.units : 0, &m->per);
  k->head.tasks[phase] += m->tasks;
  k->head.base.seconds += seconds;
}

static neap_status add_fill(kernel *k, double value, neap_dtype t) {
  neap_cpu_convert convert = NEAP_CPU_NAME(converter)(NEAP_F64, t);
  int64_t units = (k->n + FILL_UNIT - 1) / FILL_UNIT;
  if (!convert && value != 0) return NEAP_UNSUPPORTED; /* zero is zero bits in every dtype */
  if (convert) convert(1, &value, &k->value_bits);
  k->fills = true;
  k->head.tasks[0] = neap__cpu_split(units, FILL_UNIT * (double)k->element * 1e-10, &k->fill_per);
  k->head.base.n_phases = k->n_moves > 0 ? 2 : 1;
  k->head.base.seconds += (double)k->n * (double)k->element * 1e-10;
  return NEAP_OK;
}

static neap_status finish(neap_cpu *cpu, const neap_sig *s, kernel *k, neap_status status, neap_cpu_kernel **out,
                          neap_error *err) {
  *out = &k->head;
  if (status == NEAP_OK) return status;
  neap__free(cpu->host, k, k->head.bytes);
  *out = NULL;
  return neap__cpu_unsupported(s, err);
}

/* Strides of a value as it lies in memory. */
static void strides_of(const neap_operand *o, int64_t *stride) {
  const neap_shape *shape = &o->desc.shape;
  neap__strides_dense(shape, stride);
  if (o->layout == NEAP_LAYOUT_PLAIN || shape->ndim < 3) return;
  int64_t channels = shape->dim[1];
  for (int32_t d = 2; d < shape->ndim; d++) stride[d] *= channels;
  stride[1] = 1;
}

/* The output's dimensions in the order in which they lie in memory. */
static void memory_order(neap_shape *shape, int64_t *dst, int64_t *src) {
  for (int32_t i = 1; i < shape->ndim; i++)
    for (int32_t d = i; d > 0 && dst[d - 1] < dst[d]; d--) {
      int64_t size = shape->dim[d], to = dst[d], from = src[d];
      shape->dim[d] = shape->dim[d - 1], dst[d] = dst[d - 1], src[d] = src[d - 1];
      shape->dim[d - 1] = size, dst[d - 1] = to, src[d - 1] = from;
    }
}

static neap_status prepare_copy(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  int64_t dst[NEAP_MAX_DIMS], src[NEAP_MAX_DIMS];
  neap_shape shape = s->out[0].desc.shape;
  neap_status status = new_kernel(cpu, s, 1, &k, err);
  if (status != NEAP_OK) return status;
  strides_of(&s->in[0], src);
  strides_of(&s->out[0], dst);
  memory_order(&shape, dst, src);
  add_move(k, 0, &shape, dst, src);
  return finish(cpu, s, k, NEAP_OK, out, err);
}

static neap_status prepare_permute(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  int64_t dst[NEAP_MAX_DIMS], dense[NEAP_MAX_DIMS], src[NEAP_MAX_DIMS];
  const neap_shape *shape = &s->out[0].desc.shape;
  neap_status status = new_kernel(cpu, s, 1, &k, err);
  if (status != NEAP_OK) return status;
  neap__strides_dense(&s->in[0].desc.shape, dense);
  neap__strides_dense(shape, dst);
  for (int32_t d = 0; d < shape->ndim; d++) src[d] = dense[s->opt[0].v.list[d]];
  add_move(k, 0, shape, dst, src);
  return finish(cpu, s, k, NEAP_OK, out, err);
}

static neap_status prepare_expand(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  int64_t dst[NEAP_MAX_DIMS], dense[NEAP_MAX_DIMS], src[NEAP_MAX_DIMS];
  const neap_shape *from = &s->in[0].desc.shape, *to = &s->out[0].desc.shape;
  neap_status status = new_kernel(cpu, s, 1, &k, err);
  if (status != NEAP_OK) return status;
  neap__strides_dense(from, dense);
  neap__strides_dense(to, dst);
  int32_t lead = to->ndim - from->ndim;
  for (int32_t d = 0; d < to->ndim; d++) src[d] = d < lead || from->dim[d - lead] == 1 ? 0 : dense[d - lead];
  add_move(k, 0, to, dst, src);
  return finish(cpu, s, k, NEAP_OK, out, err);
}

/* Options: dim, start, ... */
static neap_status prepare_narrow(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  int64_t dst[NEAP_MAX_DIMS], src[NEAP_MAX_DIMS];
  neap_status status = new_kernel(cpu, s, 1, &k, err);
  if (status != NEAP_OK) return status;
  neap__strides_dense(&s->in[0].desc.shape, src);
  neap__strides_dense(&s->out[0].desc.shape, dst);
  k->moves[0].src = s->opt[1].v.i * src[s->opt[0].v.i];
  add_move(k, 0, &s->out[0].desc.shape, dst, src);
  return finish(cpu, s, k, NEAP_OK, out, err);
}

static neap_status prepare_place(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  int64_t dst[NEAP_MAX_DIMS], src[NEAP_MAX_DIMS];
  neap_status status = new_kernel(cpu, s, 1, &k, err);
  if (status != NEAP_OK) return status;
  status = add_fill(k, 0, s->out[0].desc.dtype);
  neap__strides_dense(&s->in[0].desc.shape, src);
  neap__strides_dense(&s->out[0].desc.shape, dst);
  k->moves[0].dst = s->opt[1].v.i * dst[s->opt[0].v.i];
  add_move(k, 0, &s->in[0].desc.shape, dst, src);
  return finish(cpu, s, k, status, out, err);
}

/* Options: amounts in pairs, the last dimension's first; value. */
static neap_status prepare_pad(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  int64_t dst[NEAP_MAX_DIMS], src[NEAP_MAX_DIMS];
  int32_t ndim = s->out[0].desc.shape.ndim;
  neap_status status = new_kernel(cpu, s, 1, &k, err);
  if (status != NEAP_OK) return status;
  status = add_fill(k, s->opt[1].v.f, s->out[0].desc.dtype);
  neap__strides_dense(&s->in[0].desc.shape, src);
  neap__strides_dense(&s->out[0].desc.shape, dst);
  for (int32_t d = 0; d < ndim; d++) {
    int32_t at = 2 * (ndim - 1 - d);
    k->moves[0].dst += at < s->opt[0].n ? s->opt[0].v.list[at] * dst[d] : 0;
  }
  add_move(k, 0, &s->in[0].desc.shape, dst, src);
  return finish(cpu, s, k, status, out, err);
}

static neap_status prepare_concat(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  int64_t dst[NEAP_MAX_DIMS], src[NEAP_MAX_DIMS], at = 0, dim = s->opt[0].v.i;
  neap_status status = new_kernel(cpu, s, s->n_in, &k, err);
  if (status != NEAP_OK) return status;
  neap__strides_dense(&s->out[0].desc.shape, dst);
  for (uint32_t i = 0; i < s->n_in; i++) {
    const neap_shape *shape = &s->in[i].desc.shape;
    neap__strides_dense(shape, src);
    k->moves[i].dst = at * dst[dim];
    add_move(k, i, shape, dst, src);
    at += shape->dim[dim];
  }
  return finish(cpu, s, k, NEAP_OK, out, err);
}

/* Options: shape, value, dtype. */
static neap_status prepare_full(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  neap_status status = new_kernel(cpu, s, 0, &k, err);
  if (status != NEAP_OK) return status;
  return finish(cpu, s, k, add_fill(k, s->opt[1].v.f, s->out[0].desc.dtype), out, err);
}

/* A copy is how a layout changes: both stay what the signature says. */
static void layouts_copy(neap_cpu *cpu, const neap_sig *s, neap_layout *in, neap_layout *out) {
  (void)cpu;
  in[0] = s->in[0].layout;
  out[0] = s->out[0].layout;
}

NEAP_CPU_KERNEL(copy) = {.prepare = prepare_copy, .layouts = layouts_copy};
NEAP_CPU_KERNEL(permute) = {.prepare = prepare_permute};
NEAP_CPU_KERNEL(expand) = {.prepare = prepare_expand};
NEAP_CPU_KERNEL(expand_as) = {.prepare = prepare_expand};
NEAP_CPU_KERNEL(narrow) = {.prepare = prepare_narrow};
NEAP_CPU_KERNEL(place) = {.prepare = prepare_place};
NEAP_CPU_KERNEL(pad_value) = {.prepare = prepare_pad};
NEAP_CPU_KERNEL(concat) = {.prepare = prepare_concat};
NEAP_CPU_KERNEL(full) = {.prepare = prepare_full};
