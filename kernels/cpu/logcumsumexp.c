/* log(exp(s) + exp(x)) from entry to entry, in fp64. */
#include <math.h>

#include "kernels/cpu/running.h"

/* Equal infinities are no difference. */
static double log_add(double a, double b) {
  if (a == b) return a + 0.69314718055994530942;
  return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

NEAP_RUNNING(lines_f32, float, double, float, -INFINITY, log_add)
NEAP_RUNNING(lines_f64, double, double, double, -INFINITY, log_add)

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const neap_running_fn by_dtype[] = {lines_f32, lines_f64};
  const neap_running how = {by_dtype, 2, false, 2e-8};
  return NEAP_CPU_NAME(running_prepare)(cpu, s, &how, out, err);
}

NEAP_CPU_KERNEL(logcumsumexp) = {.prepare = prepare};
