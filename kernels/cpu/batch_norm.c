/* Normalization of channels by the batch's statistics, and its gradients; channels are the tasks. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum { TILE = 16, CHUNK = 64, LANES = 16 };

/* Where n channels' elements lie: `count` stretches of `length`, `stride` apart from `offset` on. */
typedef struct line {
  int64_t offset, count, length, stride, n;
} line;

typedef struct sums {
  double x, xx, d, dx;
} sums;

typedef struct moments {
  double mean, var, rstd, n, dw, db;
} moments;

typedef struct norm norm;
typedef void (*line_fn)(const norm *b, const neap_launch *l, const line *at, int64_t channel);

struct norm {
  neap_cpu_kernel head;
  line_fn fn;
  int64_t n, c, inner; /* x: (n, c, inner) */
  bool side_by_side;   /* channels are innermost */
  bool sums;           /* go on from what the outputs hold */
  double eps;
  double share; /* of this micro-batch in the samples of the batch */
  int64_t units, per;
};

#define LINES "kernels/cpu/batch_norm_lines.h"
#include "kernels/cpu/both_dtypes.h"
#include "op/op.h"

enum { EPS, SAMPLES }; /* options */

static line line_at(const norm *b, int64_t unit) {
  if (!b->side_by_side) return (line){unit * b->inner, b->n, b->inner, b->c * b->inner, 1};
  const int64_t first = unit * TILE;
  return (line){first, b->n * b->inner, 1, b->c, b->c - first < TILE ? b->c - first : TILE};
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const norm *b = (const norm *)base;
  const int64_t first = (int64_t)task * b->per, end = first + b->per < b->units ? first + b->per : b->units;
  (void)phase, (void)thread;
  for (int64_t u = first; u < end; u++) {
    const line at = line_at(b, u);
    b->fn(b, l, &at, b->side_by_side ? u * TILE : u);
  }
}

/* x: which input. */
static neap_status prepare(neap_cpu *cpu, const neap_sig *s, uint32_t x, const line_fn *by_dtype, neap_cpu_kernel **out,
                           neap_error *err) {
  const neap_desc *d = &s->in[x].desc;
  neap_status status;
  for (uint32_t i = 0; i < s->n_in; i++)
    if (s->in[i].desc.dtype != d->dtype || d->dtype > NEAP_F64) return neap__cpu_unsupported(s, err);
  if ((status = neap__cpu_kernel_new(cpu, s, sizeof(norm), run, 0, out, err))) return status;
  norm *b = (norm *)*out;
  b->n = d->shape.dim[0], b->c = d->shape.dim[1], b->inner = 1;
  for (int32_t i = 2; i < d->shape.ndim; i++) b->inner *= d->shape.dim[i];
  b->side_by_side = b->inner == 1 || (s->in[x].layout == NEAP_LAYOUT_LAST && b->c > 1);
  b->sums = s->n_out > 1 && s->out[1].batch.kind == NEAP_B_SUM;
  b->eps = s->opt[EPS].v.f;
  b->share = s->opt[SAMPLES].set && s->opt[SAMPLES].v.i > 0 ? (double)b->n / (double)s->opt[SAMPLES].v.i : 1;
  b->fn = by_dtype[b->n * b->inner > 0 ? d->dtype : 2 + d->dtype];
  b->units = b->side_by_side ? (b->c + TILE - 1) / TILE : b->c;
  const double unit = (double)(b->n * b->inner) * (b->side_by_side ? TILE : 1) * 5e-10 * (x ? 2 : 1) + 5e-8;
  b->head.tasks[0] = neap__cpu_split(b->units, unit, &b->per);
  b->head.base.seconds = (double)b->units * unit;
  return NEAP_OK;
}

static neap_status prepare_forward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const line_fn by_dtype[] = {forward_f32, forward_f64, nothing_f32, nothing_f64};
  return prepare(cpu, s, 0, by_dtype, out, err);
}

static neap_status prepare_backward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const line_fn by_dtype[] = {backward_f32, backward_f64, nothing_f32, nothing_f64};
  return prepare(cpu, s, 1, by_dtype, out, err);
}

static neap_status prepare_mean(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const line_fn by_dtype[] = {spread_f32, spread_f64, spread_f32, spread_f64};
  return prepare(cpu, s, 0, by_dtype, out, err);
}

/* Whatever layout x has; the gradient has no other choice. */
static void layouts(neap_cpu *cpu, const neap_sig *s, neap_layout *in, neap_layout *out) {
  const bool gradient = s->op == &neap__op_batch_norm_grad;
  const neap_layout layout = s->in[gradient ? 1 : 0].layout;
  (void)cpu;
  in[0] = out[0] = layout;
  if (gradient) in[1] = layout;
}

NEAP_CPU_KERNEL(batch_norm_train) = {.prepare = prepare_forward, .layouts = layouts};
NEAP_CPU_KERNEL(channel_mean) = {.prepare = prepare_mean, .layouts = layouts};
NEAP_CPU_KERNEL(batch_norm_grad) = {.prepare = prepare_backward, .layouts = layouts};
