/* Values for inputs, and comparisons of outputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"

kt_value cf_buffer(const neap_desc *d) {
  kt_value v = {.desc = *d};
  const size_t bytes = neap__align_up(neap__desc_bytes(d) + 1);
  v.data = aligned_alloc(NEAP_ALIGN, bytes);
  assert_non_null(v.data);
  memset(v.data, 0, bytes);
  return v;
}

kt_value cf_copy(const kt_value *v) {
  kt_value copy = cf_buffer(&v->desc);
  memcpy(copy.data, v->data, neap__desc_bytes(&v->desc));
  return copy;
}

static uint32_t next(uint32_t *state) { /* the high bits of a 64-bit mix would do as well; 2^32 is plenty here */
  *state = *state * 1664525u + 1013904223u;
  return *state >> 9; /* 23 bits */
}

static uint32_t stream(uint32_t i) { return i * 2654435761u + 97u; }

/* A shuffled ladder, so fine that thousands of steps stay within a few units. */
static void fill_distinct(kt_value *v, uint32_t *state, double offset, bool positive) {
  const int64_t n = kt_count(v);
  double step = 1.0 / 16;
  while ((double)n * step > 8) step /= 2;
  for (int64_t i = 0; i < n; i++) {
    const int64_t j = (int64_t)(next(state) % (uint32_t)(i + 1)); /* inside-out shuffle */
    kt_set(v, i, kt_get(v, j));
    kt_set(v, j, ((double)(positive ? i + 1 : i - n / 2) + offset) * step);
  }
}

static double draw_float(uint32_t *state, double offset, const cf_input *in) {
  const int32_t r = (int32_t)next(state), k = in->positive || in->above != 0 ? 8 + r % 120
                                              : in->unit                     ? r % 51 - 25
                                                                             : r % 128 - 64;
  return ((double)k + offset) / 32 + in->above;
}

static double draw_integer(uint32_t *state, const cf_input *in) {
  if (in->desc.dtype == NEAP_BOOL) return next(state) % 2;
  if (in->positive) return 1 + next(state) % (uint32_t)(in->below > 0 ? in->below : 9);
  if (in->below > 0) return next(state) % (uint32_t)in->below;
  return in->desc.dtype == NEAP_U8 ? next(state) % 10 : (double)(next(state) % 11) - 5;
}

kt_value cf_values(const cf_input *in, uint32_t i) {
  const double offset = (double)(i % 7 + 1) / 8;
  uint32_t state = stream(i + 1);
  kt_value v = cf_buffer(&in->desc);
  if (!neap__dtype_is_float(in->desc.dtype))
    for (int64_t k = 0; k < kt_count(&v); k++) kt_set(&v, k, draw_integer(&state, in));
  else if (in->distinct)
    fill_distinct(&v, &state, offset, in->positive);
  else
    for (int64_t k = 0; k < kt_count(&v); k++) kt_set(&v, k, draw_float(&state, offset, in));
  return v;
}

kt_value cf_weights(const neap_desc *d, uint32_t which) {
  uint32_t state = stream(which + 1000);
  kt_value v = cf_buffer(d);
  for (int64_t k = 0; k < kt_count(&v); k++) kt_set(&v, k, (double)((int32_t)(next(&state) % 255) - 127) / 128);
  return v;
}

static double largest(const kt_value *v) {
  double most = 1;
  for (int64_t i = 0; i < kt_count(v); i++) {
    const double x = fabs(kt_get(v, i));
    if (isfinite(x) && x > most) most = x;
  }
  return most;
}

static bool agree(double a, double b, double limit) {
  if (isnan(b)) return isnan(a);
  if (isinf(b)) return a == b;
  return fabs(a - b) <= limit;
}

static bool same_shape(const cf_case *c, const char *what, const kt_value *a, const kt_value *b) {
  char x[96], y[96];
  if (neap__shape_equal(&a->desc.shape, &b->desc.shape)) return true;
  cf_complain(c, "%s has shape %s, expected %s", what, neap__shape_text(&a->desc.shape, x, sizeof x),
              neap__shape_text(&b->desc.shape, y, sizeof y));
  return false;
}

bool cf_close(const cf_case *c, const char *what, const kt_value *a, const kt_value *b, double rel) {
  if (!same_shape(c, what, a, b)) return false;
  const double limit = neap__dtype_is_float(a->desc.dtype) ? rel * largest(b) : 0;
  for (int64_t i = 0; i < kt_count(a); i++) {
    if (agree(kt_get(a, i), kt_get(b, i), limit)) continue;
    cf_complain(c, "%s, element %lld: %.9g, expected %.9g within %.2g", what, (long long)i, kt_get(a, i), kt_get(b, i),
                limit);
    return false;
  }
  return true;
}

bool cf_same_bits(const cf_case *c, const char *what, const kt_value *a, const kt_value *b) {
  if (!same_shape(c, what, a, b)) return false;
  const size_t size = neap__dtype_size(a->desc.dtype);
  for (int64_t i = 0; i < kt_count(a); i++) {
    if (memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)i * size, size) == 0) continue;
    cf_complain(c, "%s, element %lld: %.9g, expected the bits of %.9g", what, (long long)i, kt_get(a, i), kt_get(b, i));
    return false;
  }
  return true;
}
