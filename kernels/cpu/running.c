#include "kernels/cpu/running.h"

typedef struct kernel {
  neap_cpu_kernel head;
  neap_running_fn lines;
  int64_t r, inner, tiles;
  int64_t units, per; /* a unit is a tile of lines; units a task */
  size_t in_size, out_size;
  uint32_t n_in;
  bool reverse;
} kernel;

static void plan_lines(kernel *k, const neap_shape *shape, int64_t dim) {
  int64_t outer = 1;
  k->r = k->inner = 1;
  for (int32_t i = 0; i < shape->ndim; i++) *(i < dim ? &outer : i == dim ? &k->r : &k->inner) *= shape->dim[i];
  k->tiles = (k->inner + NEAP_COLUMNS - 1) / NEAP_COLUMNS;
  k->units = k->r > 0 ? outer * k->tiles : 0;
}

static void split(kernel *k, double seconds) {
  double columns = (double)(k->inner < NEAP_COLUMNS ? k->inner : NEAP_COLUMNS);
  double unit = (double)k->r * seconds * (3 + columns);
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
}

/* How many lines unit u has; *at is the first entry of its first line. */
static int64_t lines_at(const kernel *k, int64_t u, int64_t *at) {
  int64_t column = u % k->tiles * NEAP_COLUMNS;
  *at = u / k->tiles * k->r * k->inner + column;
  return k->inner - column < NEAP_COLUMNS ? k->inner - column : NEAP_COLUMNS;
}

static void run(const neap_cpu_kernel *base, const neap_launch *launch, uint32_t phase, uint32_t task,
                uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t first = task * k->per, end = first + k->per < k->units ? first + k->per : k->units, at;
  for (int64_t u = first; u < end; u++) {
    int64_t n = lines_at(k, u, &at);
    if (k->reverse) at += (k->r - 1) * k->inner;
    const void *x[2] = {0};
    for (uint32_t i = 0; i < k->n_in; i++) x[i] = (const char *)launch->in[i] + (size_t)at * k->in_size;
    k->lines(x, (char *)launch->out[0] + (size_t)at * k->out_size, k->r, k->reverse ? -k->inner : k->inner, n);
  }
}

neap_status NEAP_CPU_NAME(running_prepare)(neap_cpu *cpu, const neap_sig *s, const neap_running *how,
                                           neap_cpu_kernel **out, neap_error *err) {
  const neap_desc *d = &s->in[0].desc;
  if ((int)d->dtype >= how->dtypes) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  plan_lines(k, &d->shape, s->opt[0].v.i);
  k->lines = how->by_dtype[d->dtype];
  k->in_size = neap__dtype_size(d->dtype);
  k->out_size = neap__dtype_size(s->out[0].desc.dtype);
  k->n_in = s->n_in;
  k->reverse = how->reverse;
  split(k, how->seconds);
  return NEAP_OK;
}
