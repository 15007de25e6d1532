/* Places of running extremes. */
#include "kernels/cpu/running.h"

/* a, which comes later, takes the place of b. */
#define ABOVE(a, b) ((a) >= (b) || (a) != (a))
#define BELOW(a, b) ((a) <= (b) || (a) != (a))
#define WHOLE_ABOVE(a, b) ((a) >= (b))
#define WHOLE_BELOW(a, b) ((a) <= (b))

#define PLACES(name, type, beats)                                                         \
  static void name(const void *const *px, void *py, int64_t r, int64_t step, int64_t n) { \
    const type *x = px[0];                                                                \
    int64_t *y = py;                                                                      \
    type best[NEAP_COLUMNS];                                                              \
    int64_t place[NEAP_COLUMNS] = {0};                                                    \
    for (int64_t c = 0; c < n; c++) best[c] = x[c];                                       \
    for (int64_t i = 0; i < r; i++)                                                       \
      for (int64_t c = 0; c < n; c++) {                                                   \
        const type v = x[i * step + c];                                                   \
        place[c] = beats(v, best[c]) ? i : place[c];                                      \
        best[c] = beats(v, best[c]) ? v : best[c];                                        \
        y[i * step + c] = place[c];                                                       \
      }                                                                                   \
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

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const neap_running_fn largest[] = {max_f32, max_f64, max_i64, max_i32, max_u8, max_u8};
  static const neap_running_fn smallest[] = {min_f32, min_f64, min_i64, min_i32, min_u8, min_u8};
  const neap_running how = {s->opt[1].v.i ? smallest : largest, 6, false, 1e-9};
  return NEAP_CPU_NAME(running_prepare)(cpu, s, &how, out, err);
}

NEAP_CPU_KERNEL(cummax_places) = {.prepare = prepare};
