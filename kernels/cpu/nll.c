/* Losses over class indices: scores [outer, classes, inner], targets [outer, inner]. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum { TILE = 128 };

typedef struct kernel kernel;
struct kernel {
  neap_cpu_kernel head;
  void (*lines)(const kernel *k, const neap_launch *l, int64_t sample, int64_t column, int64_t n);
  int64_t classes, inner, tiles;
  int64_t units, per;
  bool skips; /* there is an ignore_index */
  int64_t ignore;
};

/* The class of target `at`, or -1 where it does not count; a label out of range is a fault. */
static int64_t label(const kernel *k, const neap_launch *l, const int64_t *target, int64_t at) {
  int64_t t = target[at];
  if (k->skips && t == k->ignore) return -1;
  if (t >= 0 && t < k->classes) return t;
  neap__cpu_fault(l->fault, NEAP_RANGE, at, t, k->classes);
  return -1;
}

#define LINES "kernels/cpu/nll_lines.h"
#include "kernels/cpu/both_dtypes.h"

typedef void (*lines_fn)(const kernel *k, const neap_launch *l, int64_t sample, int64_t column, int64_t n);

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t first = task * k->per, end = first + k->per < k->units ? first + k->per : k->units;
  for (int64_t i = first; i < end; i++) {
    int64_t column = i % k->tiles * TILE, n = k->inner - column < TILE ? k->inner - column : TILE;
    k->lines(k, l, i / k->tiles, column, n);
  }
}

/* scores, target: which inputs they are. */
static neap_status prepare(neap_cpu *cpu, const neap_sig *s, uint32_t scores, const lines_fn *by_dtype, double element,
                           neap_cpu_kernel **out, neap_error *err) {
  const neap_desc *d = &s->in[scores].desc;
  if (d->dtype > NEAP_F64 || s->in[scores + 1].desc.dtype != NEAP_I64 || s->in[0].desc.dtype != d->dtype)
    return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  int32_t dim = d->shape.ndim > 1 ? 1 : 0;
  k->classes = d->shape.dim[dim];
  k->inner = 1;
  for (int32_t i = dim + 1; i < d->shape.ndim; i++) k->inner *= d->shape.dim[i];
  k->tiles = (k->inner + TILE - 1) / TILE;
  k->units = (dim ? d->shape.dim[0] : 1) * k->tiles;
  k->skips = s->opt && s->opt[0].set;
  k->ignore = k->skips ? s->opt[0].v.i : 0;
  k->lines = by_dtype[d->dtype];
  double unit = (double)k->classes * (double)(k->inner < TILE ? k->inner : TILE) * element + 1e-8;
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

#define KERNEL(name, scores, element)                                                                           \
  static neap_status prepare_##name(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) { \
    static const lines_fn by_dtype[] = {name##_f32, name##_f64};                                                \
    return prepare(cpu, s, scores, by_dtype, element, out, err);                                                \
  }
KERNEL(softmax_nll, 0, 1e-9)
KERNEL(softmax_nll_grad, 1, 1e-9)
KERNEL(pick_nll, 0, 1e-10)
KERNEL(pick_nll_grad, 1, 2e-10)

NEAP_CPU_KERNEL(softmax_nll) = {.prepare = prepare_softmax_nll};
NEAP_CPU_KERNEL(softmax_nll_grad) = {.prepare = prepare_softmax_nll_grad};
NEAP_CPU_KERNEL(pick_nll) = {.prepare = prepare_pick_nll};
NEAP_CPU_KERNEL(pick_nll_grad) = {.prepare = prepare_pick_nll_grad};
