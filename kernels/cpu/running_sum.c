/* Running sums along one dimension of [outer, R, inner]. A line is added up in order in fp64 (int64 for
 * integers), so that its bits depend on nothing but the line. */
#include "kernels/cpu/cpu.h"

enum { COLUMNS = 64 };

/* n lines side by side from `x`; entries are `step` elements apart. */
typedef void (*lines_fn)(const void *x, void *y, int64_t r, int64_t step, int64_t n);

typedef struct kernel {
  neap_cpu_kernel head;
  lines_fn lines;
  size_t in_size, out_size;
  int64_t r, inner, tiles;
  int64_t units, per;
  bool reverse;
} kernel;

/* A single line keeps its sum in a register. */
#define LINES(name, from, acc, to)                                                 \
  static void name(const void *px, void *py, int64_t r, int64_t step, int64_t n) { \
    const from *x = px;                                                            \
    to *y = py;                                                                    \
    acc one = 0, sum[COLUMNS] = {0};                                               \
    if (n == 1) {                                                                  \
      for (int64_t i = 0; i < r; i++) {                                            \
        one += (acc)x[i * step];                                                   \
        y[i * step] = (to)one;                                                     \
      }                                                                            \
      return;                                                                      \
    }                                                                              \
    for (int64_t i = 0; i < r; i++)                                                \
      for (int64_t c = 0; c < n; c++) {                                            \
        sum[c] += (acc)x[i * step + c];                                            \
        y[i * step + c] = (to)sum[c];                                              \
      }                                                                            \
  }
/* Unsigned, so that overflow wraps. */
LINES(lines_f32, float, double, float)
LINES(lines_f64, double, double, double)
LINES(lines_i64, uint64_t, uint64_t, int64_t)
LINES(lines_i32, int32_t, uint64_t, int64_t)
LINES(lines_u8, uint8_t, uint64_t, int64_t)

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t first = task * k->per, end = first + k->per < k->units ? first + k->per : k->units;
  for (int64_t u = first; u < end; u++) {
    int64_t column = u % k->tiles * COLUMNS, n = k->inner - column < COLUMNS ? k->inner - column : COLUMNS;
    int64_t at = u / k->tiles * k->r * k->inner + column;
    if (k->reverse) at += (k->r - 1) * k->inner;
    k->lines((const char *)l->in[0] + (size_t)at * k->in_size, (char *)l->out[0] + (size_t)at * k->out_size, k->r,
             k->reverse ? -k->inner : k->inner, n);
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const lines_fn by_dtype[] = {lines_f32, lines_f64, lines_i64, lines_i32, lines_u8, lines_u8};
  const neap_desc *d = &s->in[0].desc;
  if (d->dtype > NEAP_BOOL) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  int64_t dim = s->opt[0].v.i, outer = 1;
  k->r = k->inner = 1;
  for (int32_t i = 0; i < d->shape.ndim; i++) *(i < dim ? &outer : i == dim ? &k->r : &k->inner) *= d->shape.dim[i];
  k->lines = by_dtype[d->dtype];
  k->in_size = neap__dtype_size(d->dtype);
  k->out_size = neap__dtype_size(s->out[0].desc.dtype);
  k->reverse = s->opt[1].v.i != 0;
  k->tiles = (k->inner + COLUMNS - 1) / COLUMNS;
  k->units = k->r > 0 ? outer * k->tiles : 0;
  double columns = (double)(k->inner < COLUMNS ? k->inner : COLUMNS);
  double unit = (double)k->r * (1.5e-9 + 5e-10 * columns);
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

NEAP_CPU_KERNEL(running_sum) = {.prepare = prepare};
