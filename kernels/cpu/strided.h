/* Copies between two strided views of one shape: what permute, expand, narrow, pad, cat and changes of layout
 * come down to. */
#ifndef NEAP_KERNELS_CPU_STRIDED_H
#define NEAP_KERNELS_CPU_STRIDED_H

#include "kernels/cpu/cpu.h"

typedef struct neap_strided {
  size_t element; /* bytes */
  int32_t n;      /* dimensions around the innermost one or two, outermost first */
  int64_t size[NEAP_MAX_DIMS], dst[NEAP_MAX_DIMS], src[NEAP_MAX_DIMS];
  int64_t columns, dst_column, src_column; /* the innermost dimension of the output */
  int64_t rows, dst_row;                   /* the input's innermost dimension when it is another one, else 1 */
  int64_t row_tiles, column_tiles, units;  /* a unit is a tile of rows and columns */
} neap_strided;

/* Strides in elements; those of dst fall from the outermost on. */
void NEAP_CPU_NAME(strided_plan)(neap_strided *p, const neap_shape *shape, const int64_t *dst, const int64_t *src,
                                 size_t element);
/* Units [first, end) in any grouping. */
void NEAP_CPU_NAME(strided_copy)(const neap_strided *p, char *dst, const char *src, int64_t first, int64_t end);
/* n elements equal to the one at `value`. */
void NEAP_CPU_NAME(fill)(void *dst, const void *value, size_t element, int64_t n);

#endif
