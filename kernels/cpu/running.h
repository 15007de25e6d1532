/* Lines along one dimension of [outer, R, inner], and kernels that take each line from its first entry to its last:
 * its bits then depend on nothing but the line. */
#ifndef NEAP_KERNELS_CPU_RUNNING_H
#define NEAP_KERNELS_CPU_RUNNING_H

#include "kernels/cpu/cpu.h"

enum { NEAP_COLUMNS = 64 }; /* lines side by side, at most */

/* n lines side by side of one or two inputs, from x[0], x[1] and y on; entries are `step` elements apart. */
typedef void (*neap_running_fn)(const void *const *x, void *y, int64_t r, int64_t step, int64_t n);

/* Defines `name`: entry i of y is STEP(s, entry i of x), where s is what the entry before gave, in `acc`, and at first
 * `start`. A single line keeps it in a register. */
#define NEAP_RUNNING(name, from, acc, to, start, STEP)                                    \
  static void name(const void *const *px, void *py, int64_t r, int64_t step, int64_t n) { \
    const from *x = px[0];                                                                \
    to *y = py;                                                                           \
    acc one = start, all[NEAP_COLUMNS];                                                   \
    if (n == 1) {                                                                         \
      for (int64_t i = 0; i < r; i++) {                                                   \
        one = STEP(one, (acc)x[i * step]);                                                \
        y[i * step] = (to)one;                                                            \
      }                                                                                   \
      return;                                                                             \
    }                                                                                     \
    for (int64_t c = 0; c < n; c++) all[c] = start;                                       \
    for (int64_t i = 0; i < r; i++)                                                       \
      for (int64_t c = 0; c < n; c++) {                                                   \
        all[c] = STEP(all[c], (acc)x[i * step + c]);                                      \
        y[i * step + c] = (to)all[c];                                                     \
      }                                                                                   \
  }

/* What one such kernel is made of. by_dtype: six functions, or two where only floats are taken. */
typedef struct neap_running {
  const neap_running_fn *by_dtype;
  int dtypes;
  bool reverse;   /* from the last entry to the first */
  double seconds; /* an entry; a step of a line takes as long as about three of them */
} neap_running;

/* For an op along its option 0, of one input or two of one dtype and shape. */
neap_status NEAP_CPU_NAME(running_prepare)(neap_cpu *cpu, const neap_sig *s, const neap_running *how,
                                           neap_cpu_kernel **out, neap_error *err);

#endif
