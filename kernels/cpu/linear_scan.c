/* h_i = a_i h_(i-1) + b_i along one dimension; the state is fp64. */
#include "kernels/cpu/running.h"

/* The first entry is b's, whatever a is. */
#define SCAN(name, type)                                                                 \
  static void name(const void *const *x, void *ph, int64_t r, int64_t step, int64_t n) { \
    const type *a = x[0], *b = x[1];                                                     \
    type *h = ph;                                                                        \
    double s[NEAP_COLUMNS];                                                              \
    for (int64_t c = 0; c < n; c++) s[c] = (double)b[c];                                 \
    for (int64_t c = 0; c < n; c++) h[c] = b[c];                                         \
    for (int64_t i = 1; i < r; i++)                                                      \
      for (int64_t c = 0; c < n; c++) {                                                  \
        s[c] = (double)a[i * step + c] * s[c] + (double)b[i * step + c];                 \
        h[i * step + c] = (type)s[c];                                                    \
      }                                                                                  \
  }
SCAN(scan_f32, float)
SCAN(scan_f64, double)

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const neap_running_fn by_dtype[] = {scan_f32, scan_f64};
  const neap_running how = {by_dtype, 2, s->opt[1].v.i != 0, 8e-10};
  return NEAP_CPU_NAME(running_prepare)(cpu, s, &how, out, err);
}

NEAP_CPU_KERNEL(linear_scan) = {.prepare = prepare};
