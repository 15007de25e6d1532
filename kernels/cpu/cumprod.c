/* Running products: in fp64, and in int64 for integers. */
#include "kernels/cpu/running.h"

#define TIMES(p, x) ((p) * (x))
/* Unsigned, so that overflow wraps. */
NEAP_RUNNING(lines_f32, float, double, float, 1, TIMES)
NEAP_RUNNING(lines_f64, double, double, double, 1, TIMES)
NEAP_RUNNING(lines_i64, uint64_t, uint64_t, int64_t, 1, TIMES)
NEAP_RUNNING(lines_i32, int32_t, uint64_t, int64_t, 1, TIMES)
NEAP_RUNNING(lines_u8, uint8_t, uint64_t, int64_t, 1, TIMES)

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const neap_running_fn by_dtype[] = {lines_f32, lines_f64, lines_i64, lines_i32, lines_u8, lines_u8};
  const neap_running how = {by_dtype, 6, false, 7e-10};
  return NEAP_CPU_NAME(running_prepare)(cpu, s, &how, out, err);
}

NEAP_CPU_KERNEL(cumprod) = {.prepare = prepare};
