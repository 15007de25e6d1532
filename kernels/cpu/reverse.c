/* A dimension back to front: [outer, R, inner]. */
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef struct kernel {
  neap_cpu_kernel head;
  int64_t r;
  size_t element, entry; /* bytes; an entry is all that lies behind one place of the dimension */
  int64_t units, per;
} kernel;

#define LINE(name, type)                                  \
  static void name(const void *px, void *py, int64_t n) { \
    const type *x = px;                                   \
    type *y = py;                                         \
    for (int64_t i = 0; i < n; i++) y[i] = x[n - 1 - i];  \
  }
LINE(line1, uint8_t)
LINE(line2, uint16_t)
LINE(line4, uint32_t)
LINE(line8, uint64_t)

static void line(const kernel *k, const char *x, char *y) {
  if (k->entry > k->element) {
    for (int64_t i = 0; i < k->r; i++)
      memcpy(y + (size_t)i * k->entry, x + (size_t)(k->r - 1 - i) * k->entry, k->entry);
    return;
  }
  switch (k->element) {
    case 1: line1(x, y, k->r); return;
    case 2: line2(x, y, k->r); return;
    case 4: line4(x, y, k->r); return;
    default: line8(x, y, k->r); return;
  }
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t first = task * k->per, end = first + k->per < k->units ? first + k->per : k->units;
  size_t block = (size_t)k->r * k->entry;
  for (int64_t u = first; u < end; u++)
    line(k, (const char *)l->in[0] + (size_t)u * block, (char *)l->out[0] + (size_t)u * block);
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  const neap_desc *d = &s->in[0].desc;
  int64_t dim = s->opt[0].v.i, inner = 1;
  k->units = k->r = 1;
  for (int32_t i = 0; i < d->shape.ndim; i++) *(i < dim ? &k->units : i == dim ? &k->r : &inner) *= d->shape.dim[i];
  k->element = neap__dtype_size(d->dtype);
  k->entry = k->element * (size_t)inner;
  if (k->r == 0 || inner == 0) k->units = 0;
  double unit = (double)k->r * ((double)k->entry * 2e-10 + 1e-9) + 5e-9;
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

NEAP_CPU_KERNEL(reverse) = {.prepare = prepare};
