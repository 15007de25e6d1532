/* Dtypes and shapes. */
#ifndef NEAP_TENSOR_SHAPE_H
#define NEAP_TENSOR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define NEAP_MAX_DIMS 8
#define NEAP_DTYPE_COUNT 8

size_t neap__dtype_size(neap_dtype t);      /* bytes of one element */
const char *neap__dtype_name(neap_dtype t); /* "fp32", "fp64", "int64", "int32", "uint8", "bool", "fp16", "bf16" */
bool neap__dtype_parse(const char *name,
                       neap_dtype *out); /* the names above, and float32, float64, float16, bfloat16 */
bool neap__dtype_is_float(neap_dtype t);
/* The dtype of an operation on both: bool < uint8 < int32 < int64 < fp16/bf16 < fp32 < fp64. */
neap_dtype neap__dtype_promote(neap_dtype a, neap_dtype b);

/* Row-major, outermost dimension first; ndim 0 is a scalar; a dimension may be 0. */
typedef struct neap_shape {
  int32_t ndim;
  int64_t dim[NEAP_MAX_DIMS];
} neap_shape;

/* What a value is, without where it is. */
typedef struct neap_desc {
  neap_dtype dtype;
  neap_shape shape;
} neap_desc;

int64_t neap__shape_count(const neap_shape *s); /* elements; call only on checked shapes */
size_t neap__desc_bytes(const neap_desc *d);
bool neap__shape_equal(const neap_shape *a, const neap_shape *b);
/* NEAP_SHAPE for a negative dimension or too many, NEAP_RANGE when the bytes overflow 2^62. */
neap_status neap__desc_check(const neap_desc *d, neap_error *err);
/* "[2, 3]" into buf; returns buf. */
const char *neap__shape_text(const neap_shape *s, char *buf, size_t size);
/* Broadcast of a and b (NumPy's rule); NEAP_SHAPE when they do not. */
neap_status neap__broadcast(const neap_shape *a, const neap_shape *b, neap_shape *out, neap_error *err);
/* dim in [-ndim, ndim) -> [0, ndim); NEAP_RANGE naming the dim otherwise. ndim 0 counts as 1. */
neap_status neap__dim_resolve(int64_t dim, int32_t ndim, int32_t *out, neap_error *err);
void neap__strides_dense(const neap_shape *s, int64_t *strides); /* row-major, in elements */

#endif
