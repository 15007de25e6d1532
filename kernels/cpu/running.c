#include "kernels/cpu/running.h"

typedef struct kernel {
  neap_cpu_kernel head;
  neap_lines l;
  neap_running_fn lines;
  size_t in_size, out_size;
  bool reverse;
} kernel;

void NEAP_CPU_NAME(lines_plan)(neap_lines *l, const neap_shape *shape, int64_t dim) {
  int64_t outer = 1;
  l->r = l->inner = 1;
  for (int32_t i = 0; i < shape->ndim; i++) *(i < dim ? &outer : i == dim ? &l->r : &l->inner) *= shape->dim[i];
  l->tiles = (l->inner + NEAP_COLUMNS - 1) / NEAP_COLUMNS;
  l->units = l->r > 0 ? outer * l->tiles : 0;
}

void NEAP_CPU_NAME(lines_split)(neap_lines *l, neap_cpu_kernel *k, double seconds) {
  double columns = (double)(l->inner < NEAP_COLUMNS ? l->inner : NEAP_COLUMNS);
  double unit = (double)l->r * seconds * (3 + columns);
  k->tasks[0] = neap__cpu_split(l->units, unit, &l->per);
  k->base.seconds = (double)l->units * unit;
}

int64_t NEAP_CPU_NAME(lines_at)(const neap_lines *l, int64_t u, int64_t *at) {
  int64_t column = u % l->tiles * NEAP_COLUMNS;
  *at = u / l->tiles * l->r * l->inner + column;
  return l->inner - column < NEAP_COLUMNS ? l->inner - column : NEAP_COLUMNS;
}

static void run(const neap_cpu_kernel *base, const neap_launch *launch, uint32_t phase, uint32_t task,
                uint32_t thread) {
  const kernel *k = (const kernel *)base;
  const neap_lines *l = &k->l;
  (void)phase, (void)thread;
  int64_t first = task * l->per, end = first + l->per < l->units ? first + l->per : l->units, at;
  for (int64_t u = first; u < end; u++) {
    int64_t n = NEAP_CPU_NAME(lines_at)(l, u, &at);
    if (k->reverse) at += (l->r - 1) * l->inner;
    k->lines((const char *)launch->in[0] + (size_t)at * k->in_size, (char *)launch->out[0] + (size_t)at * k->out_size,
             l->r, k->reverse ? -l->inner : l->inner, n);
  }
}

neap_status NEAP_CPU_NAME(running_prepare)(neap_cpu *cpu, const neap_sig *s, const neap_running *how,
                                           neap_cpu_kernel **out, neap_error *err) {
  const neap_desc *d = &s->in[0].desc;
  if ((int)d->dtype >= how->dtypes) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  NEAP_CPU_NAME(lines_plan)(&k->l, &d->shape, s->opt[0].v.i);
  k->lines = how->by_dtype[d->dtype];
  k->in_size = neap__dtype_size(d->dtype);
  k->out_size = neap__dtype_size(s->out[0].desc.dtype);
  k->reverse = how->reverse;
  NEAP_CPU_NAME(lines_split)(&k->l, &k->head, how->seconds);
  return NEAP_OK;
}
