/* h_i = a_i h_(i-1) + b_i along one dimension; the state is fp64. */
#include "kernels/cpu/running.h"

typedef void (*scan_fn)(const void *a, const void *b, void *h, int64_t r, int64_t step, int64_t n);

typedef struct kernel {
  neap_cpu_kernel head;
  neap_lines l;
  scan_fn scan;
  size_t size;
  bool reverse;
} kernel;

/* The first entry is b's, whatever a is. */
#define SCAN(name, type)                                                                           \
  static void name(const void *pa, const void *pb, void *ph, int64_t r, int64_t step, int64_t n) { \
    const type *a = pa, *b = pb;                                                                   \
    type *h = ph;                                                                                  \
    double s[NEAP_COLUMNS];                                                                        \
    for (int64_t c = 0; c < n; c++) s[c] = (double)b[c];                                           \
    for (int64_t c = 0; c < n; c++) h[c] = b[c];                                                   \
    for (int64_t i = 1; i < r; i++)                                                                \
      for (int64_t c = 0; c < n; c++) {                                                            \
        s[c] = (double)a[i * step + c] * s[c] + (double)b[i * step + c];                           \
        h[i * step + c] = (type)s[c];                                                              \
      }                                                                                            \
  }
SCAN(scan_f32, float)
SCAN(scan_f64, double)

static void run(const neap_cpu_kernel *base, const neap_launch *launch, uint32_t phase, uint32_t task,
                uint32_t thread) {
  const kernel *k = (const kernel *)base;
  const neap_lines *l = &k->l;
  (void)phase, (void)thread;
  int64_t first = task * l->per, end = first + l->per < l->units ? first + l->per : l->units, at;
  for (int64_t u = first; u < end; u++) {
    int64_t n = NEAP_CPU_NAME(lines_at)(l, u, &at);
    if (k->reverse) at += (l->r - 1) * l->inner;
    size_t offset = (size_t)at * k->size;
    k->scan((const char *)launch->in[0] + offset, (const char *)launch->in[1] + offset, (char *)launch->out[0] + offset,
            l->r, k->reverse ? -l->inner : l->inner, n);
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  const neap_desc *d = &s->in[0].desc;
  if (d->dtype > NEAP_F64) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  NEAP_CPU_NAME(lines_plan)(&k->l, &d->shape, s->opt[0].v.i);
  k->scan = d->dtype == NEAP_F64 ? scan_f64 : scan_f32;
  k->size = neap__dtype_size(d->dtype);
  k->reverse = s->opt[1].v.i != 0;
  NEAP_CPU_NAME(lines_split)(&k->l, &k->head, 8e-10);
  return NEAP_OK;
}

NEAP_CPU_KERNEL(linear_scan) = {.prepare = prepare};
