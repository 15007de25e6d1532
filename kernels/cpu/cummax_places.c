/* Places of running extremes. */
#include "kernels/cpu/running.h"

typedef void (*places_fn)(const void *x, int64_t *y, int64_t r, int64_t step, int64_t n);

typedef struct kernel {
  neap_cpu_kernel head;
  neap_lines l;
  places_fn places;
  size_t size;
} kernel;

/* a, which comes later, takes the place of b. */
#define ABOVE(a, b) ((a) >= (b) || (a) != (a))
#define BELOW(a, b) ((a) <= (b) || (a) != (a))
#define WHOLE_ABOVE(a, b) ((a) >= (b))
#define WHOLE_BELOW(a, b) ((a) <= (b))

#define PLACES(name, type, beats)                                                    \
  static void name(const void *px, int64_t *y, int64_t r, int64_t step, int64_t n) { \
    const type *x = px;                                                              \
    type best[NEAP_COLUMNS];                                                         \
    int64_t place[NEAP_COLUMNS] = {0};                                               \
    for (int64_t c = 0; c < n; c++) best[c] = x[c];                                  \
    for (int64_t i = 0; i < r; i++)                                                  \
      for (int64_t c = 0; c < n; c++) {                                              \
        const type v = x[i * step + c];                                              \
        place[c] = beats(v, best[c]) ? i : place[c];                                 \
        best[c] = beats(v, best[c]) ? v : best[c];                                   \
        y[i * step + c] = place[c];                                                  \
      }                                                                              \
  }
PLACES(max_f32, float, ABOVE)
PLACES(max_f64, double, ABOVE)
PLACES(max_i64, int64_t, WHOLE_ABOVE)
PLACES(max_i32, int32_t, WHOLE_ABOVE)
PLACES(max_u8, uint8_t, WHOLE_ABOVE)
PLACES(min_f32, float, BELOW)
PLACES(min_f64, double, BELOW)
PLACES(min_i64, int64_t, WHOLE_BELOW)
PLACES(min_i32, int32_t, WHOLE_BELOW)
PLACES(min_u8, uint8_t, WHOLE_BELOW)

static void run(const neap_cpu_kernel *base, const neap_launch *launch, uint32_t phase, uint32_t task,
                uint32_t thread) {
  const kernel *k = (const kernel *)base;
  const neap_lines *l = &k->l;
  (void)phase, (void)thread;
  int64_t first = task * l->per, end = first + l->per < l->units ? first + l->per : l->units, at;
  for (int64_t u = first; u < end; u++) {
    int64_t n = NEAP_CPU_NAME(lines_at)(l, u, &at);
    k->places((const char *)launch->in[0] + (size_t)at * k->size, (int64_t *)launch->out[0] + at, l->r, l->inner, n);
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const places_fn largest[] = {max_f32, max_f64, max_i64, max_i32, max_u8, max_u8};
  static const places_fn smallest[] = {min_f32, min_f64, min_i64, min_i32, min_u8, min_u8};
  const neap_desc *d = &s->in[0].desc;
  if (d->dtype > NEAP_BOOL) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  NEAP_CPU_NAME(lines_plan)(&k->l, &d->shape, s->opt[0].v.i);
  k->places = (s->opt[1].v.i ? smallest : largest)[d->dtype];
  k->size = neap__dtype_size(d->dtype);
  NEAP_CPU_NAME(lines_split)(&k->l, &k->head, 1e-9);
  return NEAP_OK;
}

NEAP_CPU_KERNEL(cummax_places) = {.prepare = prepare};
