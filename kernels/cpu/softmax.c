/* softmax, log_softmax and their gradients along one dimension: [outer, R, inner]. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum { TILE = 128 };

typedef struct kernel kernel;
/* in, out: pointers to line 0 of `n` lines side by side, R elements `step` apart. */
typedef void (*lines_fn)(const void *const *in, void *out, int64_t r, int64_t step, int64_t n);

struct kernel {
  neap_cpu_kernel head;
  lines_fn lines;
  size_t size;
  int64_t r, inner, tiles;
  int64_t units, per;
};

#define LINES "kernels/cpu/softmax_lines.h"
#include "kernels/cpu/both_dtypes.h"

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t first = task * k->per, end = first + k->per < k->units ? first + k->per : k->units;
  for (int64_t i = first; i < end; i++) {
    int64_t column = i % k->tiles * TILE, n = k->inner - column < TILE ? k->inner - column : TILE;
    size_t at = (size_t)(i / k->tiles * k->r * k->inner + column) * k->size;
    const void *in[2] = {(const char *)l->in[0] + at, k->head.n_in > 1 ? (const char *)l->in[1] + at : NULL};
    k->lines(in, (char *)l->out[0] + at, k->r, k->inner, n);
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, const lines_fn *by_dtype, neap_cpu_kernel **out,
                           neap_error *err) {
  const neap_desc *d = &s->out[0].desc;
  if (d->dtype > NEAP_F64 || s->in[0].desc.dtype != d->dtype || (s->n_in > 1 && s->in[1].desc.dtype != d->dtype))
    return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  int64_t dim = s->opt[0].v.i, outer = 1;
  k->r = k->inner = 1;
  for (int32_t i = 0; i < d->shape.ndim; i++) *(i < dim ? &outer : i == dim ? &k->r : &k->inner) *= d->shape.dim[i];
  k->lines = by_dtype[d->dtype];
  k->size = neap__dtype_size(d->dtype);
  k->tiles = (k->inner + TILE - 1) / TILE;
  k->units = outer * k->tiles;
  double line =
      (double)k->r * (double)(k->inner < TILE ? k->inner : TILE) * (d->dtype == NEAP_F32 ? 1e-9 : 1e-8) + 1e-8;
  k->head.tasks[0] = neap__cpu_split(k->units, line, &k->per);
  k->head.base.seconds = (double)k->units * line;
  return NEAP_OK;
}

#define KERNEL(name)                                                                                            \
  static neap_status prepare_##name(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) { \
    static const lines_fn by_dtype[] = {name##_f32, name##_f64};                                                \
    return prepare(cpu, s, by_dtype, out, err);                                                                 \
  }
KERNEL(softmax)
KERNEL(log_softmax)
KERNEL(softmax_grad)
KERNEL(log_softmax_grad)

NEAP_CPU_KERNEL(softmax) = {.prepare = prepare_softmax};
NEAP_CPU_KERNEL(log_softmax) = {.prepare = prepare_log_softmax};
NEAP_CPU_KERNEL(softmax_grad) = {.prepare = prepare_softmax_grad};
NEAP_CPU_KERNEL(log_softmax_grad) = {.prepare = prepare_log_softmax_grad};
