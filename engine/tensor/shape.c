#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

/* In the order of neap_dtype. rank orders promotion; fp16 and bf16 are equals and meet in fp32. */
static const struct {
  const char *name, *alias;
  uint8_t bytes, rank;
  bool is_float;
} dtypes[NEAP_DTYPE_COUNT] = {
    [NEAP_F32] = {"fp32", "float32", 4, 5, true}, [NEAP_F64] = {"fp64", "float64", 8, 6, true},
    [NEAP_I64] = {"int64", NULL, 8, 3, false},    [NEAP_I32] = {"int32", NULL, 4, 2, false},
    [NEAP_U8] = {"uint8", NULL, 1, 1, false},     [NEAP_BOOL] = {"bool", NULL, 1, 0, false},
    [NEAP_F16] = {"fp16", "float16", 2, 4, true}, [NEAP_BF16] = {"bf16", "bfloat16", 2, 4, true},
};

static bool dtype_valid(neap_dtype t) { return (unsigned)t < NEAP_DTYPE_COUNT; }

size_t neap__dtype_size(neap_dtype t) { return dtype_valid(t) ? dtypes[t].bytes : 0; }

const char *neap__dtype_name(neap_dtype t) { return dtype_valid(t) ? dtypes[t].name : "unknown"; }

bool neap__dtype_parse(const char *name, neap_dtype *out) {
  for (int i = 0; i < NEAP_DTYPE_COUNT; i++) {
    if (strcmp(name, dtypes[i].name) != 0 && (!dtypes[i].alias || strcmp(name, dtypes[i].alias) != 0)) continue;
    *out = (neap_dtype)i;
    return true;
  }
  return false;
}

bool neap__dtype_is_float(neap_dtype t) { return dtype_valid(t) && dtypes[t].is_float; }

neap_dtype neap__dtype_promote(neap_dtype a, neap_dtype b) {
  if (a == b) return a;
  if (dtypes[a].rank == dtypes[b].rank) return NEAP_F32;
  return dtypes[a].rank > dtypes[b].rank ? a : b;
}

int64_t neap__shape_count(const neap_shape *s) {
  int64_t n = 1;
  for (int32_t i = 0; i < s->ndim; i++) n *= s->dim[i];
  return n;
}

size_t neap__desc_bytes(const neap_desc *d) {
  return (size_t)neap__shape_count(&d->shape) * neap__dtype_size(d->dtype);
}

bool neap__shape_equal(const neap_shape *a, const neap_shape *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

neap_status neap__desc_check(const neap_desc *d, neap_error *err) {
  const neap_shape *s = &d->shape;
  char text[200];
  if (!dtype_valid(d->dtype)) return neap__fail(err, NEAP_DTYPE, "there is no dtype number %d", (int)d->dtype);
  if (s->ndim < 0 || s->ndim > NEAP_MAX_DIMS)
    return neap__fail(err, NEAP_SHAPE, "a shape of %d dimensions: 0 to %d are possible", (int)s->ndim, NEAP_MAX_DIMS);
  for (int32_t i = 0; i < s->ndim; i++)
    if (s->dim[i] < 0)
      return neap__fail(err, NEAP_SHAPE, "dimension %d of shape %s is negative", (int)i,
                        neap__shape_text(s, text, sizeof text));
  /* Zero dimensions count as 1, so that strides cannot overflow either. */
  uint64_t bytes = neap__dtype_size(d->dtype);
  const uint64_t most = UINT64_C(1) << 62;
  for (int32_t i = 0; i < s->ndim; i++) {
    uint64_t n = s->dim[i] > 0 ? (uint64_t)s->dim[i] : 1;
    if (n > most / bytes)
      return neap__fail(err, NEAP_RANGE, "shape %s of %s is too large: its bytes pass 2^62",
                        neap__shape_text(s, text, sizeof text), neap__dtype_name(d->dtype));
    bytes *= n;
  }
  return NEAP_OK;
}

const char *neap__shape_text(const neap_shape *s, char *buf, size_t size) {
  size_t at = 0;
  if (size == 0) return buf;
  int32_t ndim = s->ndim < 0 ? 0 : s->ndim > NEAP_MAX_DIMS ? NEAP_MAX_DIMS : s->ndim;
  for (int32_t i = 0; i < ndim && at < size; i++) {
    int n = snprintf(buf + at, size - at, "%s%lld", i ? ", " : "[", (long long)s->dim[i]);
    at += n > 0 ? (size_t)n : 0;
  }
  if (at < size) snprintf(buf + at, size - at, "%s", ndim ? "]" : "[]");
  return buf;
}

neap_status neap__broadcast(const neap_shape *a, const neap_shape *b, neap_shape *out, neap_error *err) {
  neap_shape r = {.ndim = a->ndim > b->ndim ? a->ndim : b->ndim};
  for (int32_t back = 1; back <= r.ndim; back++) {
    int64_t x = back <= a->ndim ? a->dim[a->ndim - back] : 1;
    int64_t y = back <= b->ndim ? b->dim[b->ndim - back] : 1;
    if (x != y && x != 1 && y != 1) {
      char ta[96], tb[96];
      return neap__fail(err, NEAP_SHAPE,
                        "shapes %s and %s do not broadcast: %lld and %lld at dimension %d from the end",
                        neap__shape_text(a, ta, sizeof ta), neap__shape_text(b, tb, sizeof tb), (long long)x,
                        (long long)y, (int)back);
    }
    r.dim[r.ndim - back] = x == 1 ? y : x;
  }
  *out = r;
  return NEAP_OK;
}

neap_status neap__dim_resolve(int64_t dim, int32_t ndim, int32_t *out, neap_error *err) {
  int32_t n = ndim > 0 ? ndim : 1;
  if (dim < -n || dim >= n)
    return neap__fail(err, NEAP_RANGE, "dim %lld is out of range for %d dimension%s: %d to %d are possible",
                      (long long)dim, (int)ndim, ndim == 1 ? "" : "s", (int)-n, (int)(n - 1));
  *out = (int32_t)(dim < 0 ? dim + n : dim);
  return NEAP_OK;
}

void neap__strides_dense(const neap_shape *s, int64_t *strides) {
  int64_t step = 1;
  for (int32_t i = s->ndim - 1; i >= 0; i--) {
    strides[i] = step;
    step *= s->dim[i] > 0 ? s->dim[i] : 1;
  }
}
