/* Rows of elementwise.def compiled as loops. */
#ifndef NEAP_KERNELS_CPU_ELEMENTWISE_H
#define NEAP_KERNELS_CPU_ELEMENTWISE_H

#include "kernels/cpu/cpu.h"

/* n elements; step[i] is 1 for a dense input and 0 for one element used for all. `out` may be an input. */
typedef void (*neap_cpu_row)(int64_t n, const void *const *in, const int64_t *step, void *out);

/* By the dtype computed in, in the order of neap_dtype from fp32 to uint8 (bool computes as uint8). */
enum { NEAP_ROW_TYPES = 5 };
/* [1 + position of the row]; NULL where the row does not compute in the dtype. */
extern const neap_cpu_row NEAP_CPU_NAME(rows)[][NEAP_ROW_TYPES];
extern const uint32_t NEAP_CPU_NAME(row_count);

#endif
