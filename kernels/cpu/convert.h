/* Conversion between dtypes, for `to` and for mixed inputs. */
#ifndef NEAP_KERNELS_CPU_CONVERT_H
#define NEAP_KERNELS_CPU_CONVERT_H

#include "kernels/cpu/cpu.h"

/* n elements; src and dst do not overlap. Floating point to integer cuts towards 0 and to the range, NaN
 * gives 0; integers wrap; to bool is x != 0. */
typedef void (*neap_cpu_convert)(int64_t n, const void *src, void *dst);
neap_cpu_convert NEAP_CPU_NAME(converter)(neap_dtype from, neap_dtype to); /* NULL: there is none */

#endif
