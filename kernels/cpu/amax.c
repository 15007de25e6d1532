/* Largest and smallest values and their places over any dimensions. Choosing is exact, so the order of the
 * walk shows only in which of equal places wins: the first in row-major order. */
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/vmath.h"

enum { COLUMNS = 64 };

typedef struct kernel kernel;
/* Chooses among the `count` reduced places of `n` outputs that lie side by side. */
typedef void (*choose_fn)(const kernel *k, const void *x, void *to, int64_t n);

struct kernel {
  neap_cpu_kernel head;
  neap_reduce r;
  neap_walk reduced; /* all of it, in row-major order */
  choose_fn choose;
  size_t in_size, out_size;
  int64_t columns, tiles, units, per;
};

/* a replaces b: it is beyond it, or the first NaN. */
#define ABOVE(a, b) ((a) > (b) || ((a) != (a) && (b) == (b)))
#define BELOW(a, b) ((a) < (b) || ((a) != (a) && (b) == (b)))
#define WHOLE_ABOVE(a, b) ((a) > (b))
#define WHOLE_BELOW(a, b) ((a) < (b))

#define CHOOSE(name, type, beats)                                                          \
  static void value_##name(const kernel *k, const void *px, void *to, int64_t n) {         \
    const type *x = px;                                                                    \
    type best[COLUMNS];                                                                    \
    int64_t count = k->r.n_reduced;                                                        \
    for (int64_t j = 0; j < n; j++) best[j] = x[j];                                        \
    for (int64_t i = 1; i < count; i++) {                                                  \
      const type *row = x + neap_walk_offset(&k->reduced, k->reduced.n, i);                \
      for (int64_t j = 0; j < n; j++) best[j] = beats(row[j], best[j]) ? row[j] : best[j]; \
    }                                                                                      \
    for (int64_t j = 0; j < n; j++) ((type *)to)[j] = best[j];                             \
  }                                                                                        \
  static void place_##name(const kernel *k, const void *px, void *to, int64_t n) {         \
    const type *x = px;                                                                    \
    type best[COLUMNS];                                                                    \
    int64_t place[COLUMNS] = {0}, count = k->r.n_reduced;                                  \
    for (int64_t j = 0; j < n; j++) best[j] = x[j];                                        \
    for (int64_t i = 1; i < count; i++) {                                                  \
      const type *row = x + neap_walk_offset(&k->reduced, k->reduced.n, i);                \
      for (int64_t j = 0; j < n; j++) {                                                    \
        place[j] = beats(row[j], best[j]) ? i : place[j];                                  \
        best[j] = beats(row[j], best[j]) ? row[j] : best[j];                               \
      }                                                                                    \
    }                                                                                      \
    for (int64_t j = 0; j < n; j++) ((int64_t *)to)[j] = place[j];                         \
  }
CHOOSE(max_f32, float, ABOVE)
CHOOSE(max_f64, double, ABOVE)
CHOOSE(max_i64, int64_t, WHOLE_ABOVE)
CHOOSE(max_i32, int32_t, WHOLE_ABOVE)
CHOOSE(max_u8, uint8_t, WHOLE_ABOVE)
CHOOSE(min_f32, float, BELOW)
CHOOSE(min_f64, double, BELOW)
CHOOSE(min_i64, int64_t, WHOLE_BELOW)
CHOOSE(min_i32, int32_t, WHOLE_BELOW)
CHOOSE(min_u8, uint8_t, WHOLE_BELOW)

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t first = task * k->per, end = first + k->per < k->units ? first + k->per : k->units;
  for (int64_t u = first; u < end; u++) {
    int64_t outer = u / k->tiles, column = u % k->tiles * COLUMNS;
    int64_t n = k->columns - column < COLUMNS ? k->columns - column : COLUMNS;
    int64_t from = neap_walk_offset(&k->r.kept, k->columns > 1 ? k->r.kept.n - 1 : k->r.kept.n, outer) + column;
    k->choose(k, (const char *)l->in[0] + (size_t)from * k->in_size,
              (char *)l->out[0] + (size_t)(outer * k->columns + column) * k->out_size, n);
  }
}

static void walk_reduced(neap_walk *w, const neap_shape *shape, const neap_opt *dims) {
  int64_t stride[NEAP_MAX_DIMS];
  neap__strides_dense(shape, stride);
  w->n = 0;
  for (int32_t i = 0; i < dims->n; i++) {
    w->size[w->n] = shape->dim[dims->v.list[i]];
    w->stride[w->n++] = stride[dims->v.list[i]];
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, const choose_fn *by_dtype, neap_cpu_kernel **out,
                           neap_error *err) {
  neap_dtype t = s->in[0].desc.dtype;
  if (t > NEAP_BOOL) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  NEAP_CPU_NAME(reduce_plan)(&k->r, &s->in[0].desc.shape, &s->opt[0], -1);
  walk_reduced(&k->reduced, &s->in[0].desc.shape, &s->opt[0]);
  const neap_walk *kept = &k->r.kept;
  k->choose = by_dtype[t];
  k->in_size = neap__dtype_size(t);
  k->out_size = neap__dtype_size(s->out[0].desc.dtype);
  k->columns = !k->r.rows && kept->n > 0 ? kept->size[kept->n - 1] : 1;
  k->tiles = k->columns > 0 ? (k->columns + COLUMNS - 1) / COLUMNS : 1;
  k->units = k->columns > 0 ? k->r.n_out / k->columns * k->tiles : 0;
  double columns = (double)(k->columns < COLUMNS ? k->columns : COLUMNS);
  double unit = (double)k->r.n_reduced * (5e-9 + 5e-10 * columns);
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

#define KERNEL(name, what, which)                                                                               \
  static neap_status prepare_##name(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) { \
    static const choose_fn by_dtype[] = {what##_##which##_f32, what##_##which##_f64, what##_##which##_i64,      \
                                         what##_##which##_i32, what##_##which##_u8,  what##_##which##_u8};      \
    return prepare(cpu, s, by_dtype, out, err);                                                                 \
  }
KERNEL(amax, value, max)
KERNEL(amin, value, min)
KERNEL(argmax, place, max)
KERNEL(argmin, place, min)

NEAP_CPU_KERNEL(amax) = {.prepare = prepare_amax};
NEAP_CPU_KERNEL(amin) = {.prepare = prepare_amin};
NEAP_CPU_KERNEL(argmax) = {.prepare = prepare_argmax};
NEAP_CPU_KERNEL(argmin) = {.prepare = prepare_argmin};
