/* Triangles of matrices: a row keeps the columns on one side of the diagonal. */
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef struct kernel {
  neap_cpu_kernel head;
  bool upper;
  int64_t rows, columns, diagonal;
  size_t element;
  int64_t units, per; /* a unit is a row */
} kernel;

static int64_t between(int64_t v, int64_t most) { return v < 0 ? 0 : v > most ? most : v; }

/* The output may be the input. */
static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t first = task * k->per, end = first + k->per < k->units ? first + k->per : k->units;
  size_t row = (size_t)k->columns * k->element;
  for (int64_t u = first; u < end; u++) {
    const char *x = (const char *)l->in[0] + (size_t)u * row;
    char *y = (char *)l->out[0] + (size_t)u * row;
    int64_t begin = k->upper ? u % k->rows + k->diagonal : 0;
    int64_t stop = k->upper ? k->columns : u % k->rows + k->diagonal + 1;
    size_t from = (size_t)between(begin, k->columns) * k->element, to = (size_t)between(stop, k->columns) * k->element;
    memset(y, 0, from);
    if (x != y && to > from) memcpy(y + from, x + from, to - from);
    memset(y + to, 0, row - to);
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, bool upper, neap_cpu_kernel **out, neap_error *err) {
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  const neap_desc *d = &s->in[0].desc;
  k->upper = upper;
  k->rows = d->shape.dim[d->shape.ndim - 2];
  k->columns = d->shape.dim[d->shape.ndim - 1];
  /* Beyond the matrix by more than its size is all or nothing; cut so that sums with rows do not overflow. */
  int64_t most = k->rows + k->columns, diagonal = s->opt[0].v.i;
  k->diagonal = diagonal < -most ? -most : diagonal > most ? most : diagonal;
  k->element = neap__dtype_size(d->dtype);
  k->units = k->columns > 0 ? neap__shape_count(&d->shape) / k->columns : 0;
  double unit = (double)k->columns * (double)k->element * 1e-10 + 1e-8;
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

static neap_status prepare_triu(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, true, out, err);
}
static neap_status prepare_tril(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, false, out, err);
}

NEAP_CPU_KERNEL(triu) = {.prepare = prepare_triu};
NEAP_CPU_KERNEL(tril) = {.prepare = prepare_tril};
