#include <stdint.h>
#include <string.h>

#include "kernels/cpu/convert.h"

/* Limits are given as the source type holds them: INT64_MAX as a float is 2^63, the first value too large. */
#define SATURATE(name, from, to, low, high) \
  static inline to name(from x) {           \
    if (x != x) return 0;                   \
    if (x <= (from)low) return low;         \
    if (x >= (from)high) return high;       \
    return (to)x;                           \
  }
SATURATE(f32_to_i64, float, int64_t, INT64_MIN, INT64_MAX)
SATURATE(f64_to_i64, double, int64_t, INT64_MIN, INT64_MAX)
SATURATE(f32_to_i32, float, int32_t, INT32_MIN, INT32_MAX)
SATURATE(f64_to_i32, double, int32_t, INT32_MIN, INT32_MAX)
SATURATE(f32_to_u8, float, uint8_t, 0, UINT8_MAX)
SATURATE(f64_to_u8, double, uint8_t, 0, UINT8_MAX)

#define CONVERT(name, from, to, expression)                 \
  static void name(int64_t n, const void *src, void *dst) { \
    const from *p = src;                                    \
    to *y = dst;                                            \
    for (int64_t i = 0; i < n; i++) {                       \
      const from x = p[i];                                  \
      y[i] = expression;                                    \
    }                                                       \
  }

#define FROM(t, from, to_i64, to_i32, to_u8) \
  CONVERT(t##_f32, from, float, (float)x)    \
  CONVERT(t##_f64, from, double, (double)x)  \
  CONVERT(t##_i64, from, int64_t, to_i64(x)) \
  CONVERT(t##_i32, from, int32_t, to_i32(x)) \
  CONVERT(t##_u8, from, uint8_t, to_u8(x))   \
  CONVERT(t##_bool, from, uint8_t, x != 0)

#define WRAP_I64(x) ((int64_t)(x))
#define WRAP_I32(x) ((int32_t)(x))
#define WRAP_U8(x) ((uint8_t)(x))
FROM(f32, float, f32_to_i64, f32_to_i32, f32_to_u8)
FROM(f64, double, f64_to_i64, f64_to_i32, f64_to_u8)
FROM(i64, int64_t, WRAP_I64, WRAP_I32, WRAP_U8)
FROM(i32, int32_t, WRAP_I64, WRAP_I32, WRAP_U8)
FROM(u8, uint8_t, WRAP_I64, WRAP_I32, WRAP_U8)

#define ROW(t) \
  { t##_f32, t##_f64, t##_i64, t##_i32, t##_u8, t##_bool }

neap_cpu_convert NEAP_CPU_NAME(converter)(neap_dtype from, neap_dtype to) {
  static const neap_cpu_convert table[6][6] = {ROW(f32), ROW(f64), ROW(i64), ROW(i32), ROW(u8), ROW(u8)};
  return from <= NEAP_BOOL && to <= NEAP_BOOL ? table[from][to] : NULL;
}

typedef struct to_kernel {
  neap_cpu_kernel head;
  neap_cpu_convert convert;
  int64_t n, per;
  size_t in_size, out_size;
} to_kernel;

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const to_kernel *k = (const to_kernel *)base;
  (void)phase, (void)thread;
  int64_t begin = task * k->per, n = k->n - begin < k->per ? k->n - begin : k->per;
  k->convert(n, (const char *)l->in[0] + (size_t)begin * k->in_size, (char *)l->out[0] + (size_t)begin * k->out_size);
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  neap_dtype from = s->in[0].desc.dtype, to = s->out[0].desc.dtype;
  neap_cpu_convert convert = NEAP_CPU_NAME(converter)(from, to);
  int64_t n = neap__shape_count(&s->out[0].desc.shape), per;
  if (!convert) return neap__cpu_unsupported(s, err);
  uint32_t tasks = neap__cpu_split(n, 1e-9, &per);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(to_kernel), run, tasks, out, err);
  if (status != NEAP_OK) return status;
  to_kernel *k = (to_kernel *)*out;
  k->convert = convert;
  k->n = n;
  k->per = per;
  k->in_size = neap__dtype_size(from);
  k->out_size = neap__dtype_size(to);
  k->head.base.seconds = (double)n * 1e-9;
  return NEAP_OK;
}

/* Element by element, so any layout will do as long as both have it. */
static void layouts(neap_cpu *cpu, const neap_sig *s, neap_layout *in, neap_layout *out) {
  (void)cpu;
  in[0] = out[0] = s->in[0].layout;
}

NEAP_CPU_KERNEL(to) = {.prepare = prepare, .layouts = layouts};
