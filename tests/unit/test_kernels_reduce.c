/* Sums, extrema and their places: against plain loops, in slabs, in any order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"
#include "support/kernels.h"

typedef struct reduction {
  const char *input;
  int n; /* dims; -1: left out */
  int dims[4];
} reduction;

static const reduction cases[] = {
    {"f32[7]", -1, {0}},         {"f32[100003]", -1, {0}},
    {"f32[3,5]", 1, {0}},        {"f32[3,5]", 1, {-1}},
    {"f32[64,10]", 1, {0}},      {"f32[64,300]", 1, {0}},
    {"f32[300,64]", 1, {1}},     {"f32[4,6,5]", 1, {1}},
    {"f32[4,6,5]", 2, {0, 2}},   {"f32[8,16,7,7]", 3, {0, 2, 3}},
    {"f32[2,3,4,5]", 2, {1, 3}}, {"f32[2,1,4,1]", 2, {1, 2}},
    {"f32[5,0,3]", 1, {1}},      {"f32[0,3]", 1, {1}},
    {"f32[]", -1, {0}},          {"f32[1,1]", 1, {0}},
    {"f64[33,7]", 1, {0}},       {"f64[33,7]", -1, {0}},
    {"i64[9,4]", 1, {1}},        {"i32[9,4]", 1, {0}},
    {"u8[1000]", -1, {0}},       {"bool[77]", -1, {0}},
    {"f32[2,70000]", 1, {1}},    {"f32[70000,2]", 1, {0}},
    {"f32[3,40,700]", 1, {1}},   {"f32[300,50,3]", 2, {0, 1}},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static const neap_opt *options(const reduction *r, neap_opt *opt, bool keepdim) {
  memset(opt, 0, NEAP_MAX_OPTS * sizeof *opt);
  if (r->n >= 0) {
    opt[0].set = 1;
    opt[0].n = (uint8_t)r->n;
    for (int i = 0; i < r->n; i++) opt[0].v.list[i] = r->dims[i];
  }
  opt[1] = NEAP_INT(keepdim);
  return opt;
}

static bool reduces(const reduction *r, int32_t d, int32_t ndim) {
  if (r->n < 0) return true;
  for (int i = 0; i < r->n; i++)
    if ((r->dims[i] + ndim) % ndim == d) return true;
  return false;
}

/* Calls visit for each input element with the output it belongs to. */
static void each(const kt_value *x, const reduction *r, void (*visit)(void *ctx, int64_t in, int64_t out), void *ctx) {
  const neap_shape *s = &x->desc.shape;
  for (int64_t i = 0; i < kt_count(x); i++) {
    int64_t rest = i, out = 0, step = 1;
    for (int32_t d = s->ndim; d-- > 0; rest /= s->dim[d]) {
      if (reduces(r, d, s->ndim)) continue;
      out += rest % s->dim[d] * step;
      step *= s->dim[d];
    }
    visit(ctx, i, out);
  }
}

typedef struct sums {
  const kt_value *x;
  double *sum, *size;
} sums;

static void add(void *ctx, int64_t in, int64_t out) {
  sums *s = ctx;
  s->sum[out] += kt_get(s->x, in);
  s->size[out] += fabs(kt_get(s->x, in));
}

static void sums_match(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    kt_value x = kt_make(cases[i].input);
    neap_opt opt[NEAP_MAX_OPTS];
    kt_call c;
    kt_fill(&x, x.desc.dtype == NEAP_BOOL ? 2 : 9, 4);
    kt_call_op(&c, "sum", options(&cases[i], opt, i % 2), 1, &x);
    int64_t n = kt_count(&c.out[0]);
    sums s = {&x, calloc((size_t)n + 1, sizeof(double)), calloc((size_t)n + 1, sizeof(double))};
    each(&x, &cases[i], add, &s);
    for (int64_t j = 0; j < n; j++)
      if (fabs(kt_get(&c.out[0], j) - s.sum[j]) > 1e-7 * s.size[j])
        fail_msg("sum of %s at %d is %.9g, expected %.9g", cases[i].input, (int)j, kt_get(&c.out[0], j), s.sum[j]);
    kt_assert_any_order(&c);
    kt_end(&c);
    kt_free(&x);
    free(s.sum);
    free(s.size);
  }
}

static void large_sums_are_accurate(void **state) {
  (void)state;
  kt_value x = kt_make("f32[10000000]");
  kt_call c;
  for (int64_t i = 0; i < kt_count(&x); i++) ((float *)x.data)[i] = 0.1f;
  kt_call_op(&c, "sum", NULL, 1, &x);
  double exact = 1e7 * (double)0.1f;
  assert_true(fabs(kt_get(&c.out[0], 0) - exact) <= 1e-6 * exact);
  kt_end(&c);
  kt_free(&x);
}

static void infinities_and_nan_carry_through(void **state) {
  (void)state;
  kt_value x = kt_make("f32[1000]");
  kt_call c;
  kt_set(&x, 500, INFINITY);
  kt_call_op(&c, "sum", NULL, 1, &x);
  assert_true(isinf(kt_get(&c.out[0], 0)));
  kt_end(&c);
  kt_set(&x, 999, NAN);
  kt_call_op(&c, "sum", NULL, 1, &x);
  assert_true(isnan(kt_get(&c.out[0], 0)));
  kt_end(&c);
  kt_free(&x);
}

/* --- sums over samples --- */

/* The rows [first, first + rows) of a batch. */
static kt_value rows_of(const kt_value *x, int64_t first, int64_t rows) {
  kt_value part = *x;
  size_t row = neap__desc_bytes(&x->desc) / (size_t)x->desc.shape.dim[0];
  part.desc.shape.dim[0] = rows;
  part.data = aligned_alloc(64, ((size_t)rows * row + 63) / 64 * 64);
  assert_non_null(part.data);
  memcpy(part.data, (const char *)x->data + (size_t)first * row, (size_t)rows * row);
  return part;
}

static void accumulate(kt_call *c, kt_value x, int64_t per, int64_t slab, bool first) {
  c->in[0] = x;
  c->in[0].batch = (neap_batch){NEAP_B_SAMPLE, 0, per};
  c->out[0].batch = (neap_batch){.kind = NEAP_B_SUM};
  c->slab = slab;
  c->flags = first ? NEAP_LAUNCH_FIRST : 0;
  kt_run(c);
}

static void check_slabs(const char *input, const neap_opt *opt, int64_t per, int64_t slab) {
  kt_value x = kt_make(input);
  kt_call whole, parts;
  kt_fill(&x, 3, 5);
  int64_t entries = slab * per, all = x.desc.shape.dim[0];
  kt_begin(&whole, "sum", opt, 1, &x);
  kt_begin(&parts, "sum", opt, 1, &x);
  accumulate(&whole, x, per, slab, true);
  kt_assert_any_order(&whole);
  for (int64_t done = 0, step = entries; done < all; done += step, step = 2 * entries) {
    kt_value part = rows_of(&x, done, all - done < step ? all - done : step);
    accumulate(&parts, part, per, slab, done == 0);
    kt_free(&part);
  }
  assert_memory_equal(parts.out[0].data, whole.out[0].data, neap__desc_bytes(&whole.out[0].desc));
  kt_end(&whole);
  kt_end(&parts);
  kt_free(&x);
}

static void whole_slabs_keep_the_bits(void **state) {
  (void)state;
  check_slabs("f32[64]", NULL, 1, 8);
  check_slabs("f32[71]", NULL, 1, 8);
  check_slabs("f32[40,10]", NULL, 1, 8);
  check_slabs("f32[40,10]", KT_OPTS(kt_list(1, 0)), 1, 8);
  check_slabs("f32[33,10]", KT_OPTS(kt_list(1, 0)), 1, 8);
  check_slabs("f32[120,300]", KT_OPTS(kt_list(1, 0)), 3, 8);
  check_slabs("f32[32,5,9,9]", KT_OPTS(kt_list(3, 0, 2, 3)), 1, 4);
  check_slabs("f32[16,5,1,1]", KT_OPTS(kt_list(3, 0, 2, 3)), 1, 1);
  check_slabs("f32[512,1000]", NULL, 1, 8);
  check_slabs("f64[24,7]", KT_OPTS(kt_list(1, 0)), 1, 8);
  check_slabs("i64[24,7]", KT_OPTS(kt_list(1, 0)), 1, 8);
}

/* Kept samples: a sample's sum has the same bits in any batch. */
static void batch_size_does_not_show(void **state) {
  static const struct {
    const char *input;
    int dim;
  } all[] = {{"f32[9,100]", 1}, {"f32[9,70000]", 1}, {"f32[9,40,30]", 1}, {"f32[9,3,2,3]", 3}};
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    kt_value x = kt_make(all[i].input);
    kt_call whole, one;
    kt_fill(&x, 3, 6);
    kt_begin(&whole, "sum", KT_OPTS(kt_list(1, all[i].dim)), 1, &x);
    whole.in[0].batch = whole.out[0].batch = (neap_batch){NEAP_B_SAMPLE, 0, 1};
    kt_run(&whole);
    for (int64_t r = 0; r < 9; r++) {
      kt_value row = rows_of(&x, r, 1);
      kt_begin(&one, "sum", KT_OPTS(kt_list(1, all[i].dim)), 1, &row);
      one.in[0].batch = one.out[0].batch = (neap_batch){NEAP_B_SAMPLE, 0, 1};
      kt_run(&one);
      size_t bytes = neap__desc_bytes(&one.out[0].desc);
      assert_memory_equal(one.out[0].data, (char *)whole.out[0].data + (size_t)r * bytes, bytes);
      kt_end(&one);
      kt_free(&row);
    }
    kt_end(&whole);
    kt_free(&x);
  }
}

static void no_samples_give_zero(void **state) {
  (void)state;
  kt_value x = kt_make("f32[0,3]");
  kt_call c;
  kt_begin(&c, "sum", KT_OPTS(kt_list(1, 0)), 1, &x);
  for (int64_t i = 0; i < 3; i++) kt_set(&c.out[0], i, 7);
  accumulate(&c, x, 1, 8, false);
  assert_true(kt_get(&c.out[0], 2) == 7);
  accumulate(&c, x, 1, 8, true);
  for (int64_t i = 0; i < 3; i++) assert_true(kt_get(&c.out[0], i) == 0);
  kt_end(&c);
  kt_free(&x);
}

/* --- extrema --- */

typedef struct best {
  const kt_value *x;
  double *value, *place, *seen;
  double sign;
} best;

static void choose(void *ctx, int64_t in, int64_t out) {
  best *b = ctx;
  double v = kt_get(b->x, in);
  if (b->seen[out] == 0 || b->sign * v > b->sign * b->value[out] || (isnan(v) && !isnan(b->value[out]))) {
    b->value[out] = v;
    b->place[out] = b->seen[out];
  }
  b->seen[out]++;
}

static void check_extremum(const reduction *r, bool largest, bool nan) {
  kt_value x = kt_make(r->input);
  neap_opt opt[NEAP_MAX_OPTS];
  kt_call value, place;
  kt_fill(&x, 6, 8);
  if (nan && kt_count(&x) > 2) kt_set(&x, kt_count(&x) / 2, NAN);
  kt_call_op(&value, largest ? "amax" : "amin", options(r, opt, false), 1, &x);
  size_t n = (size_t)kt_count(&value.out[0]) + 1;
  best b = {&x, calloc(n, 8), calloc(n, 8), calloc(n, 8), largest ? 1 : -1};
  each(&x, r, choose, &b);
  bool places = r->n == 1 || r->n == -1;
  if (places) {
    if (r->n == 1) opt[0] = kt_list(1, r->dims[0]);
    kt_call_op(&place, largest ? "argmax" : "argmin", opt, 1, &x);
    assert_int_equal(place.out[0].desc.dtype, NEAP_I64);
  }
  for (int64_t i = 0; i < kt_count(&value.out[0]); i++) {
    double v = kt_get(&value.out[0], i);
    if (v != b.value[i] && !(isnan(v) && isnan(b.value[i])))
      fail_msg("extremum of %s at %d is %g, expected %g", r->input, (int)i, v, b.value[i]);
    if (places && kt_get(&place.out[0], i) != b.place[i])
      fail_msg("place in %s at %d is %g, expected %g", r->input, (int)i, kt_get(&place.out[0], i), b.place[i]);
  }
  if (places) kt_end(&place);
  kt_end(&value);
  kt_free(&x);
  free(b.value);
  free(b.place);
  free(b.seen);
}

static void extrema_match(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    if (!strcmp(cases[i].input, "f32[5,0,3]")) continue; /* nothing to choose from */
    check_extremum(&cases[i], true, false);
    check_extremum(&cases[i], false, false);
    if (!strncmp(cases[i].input, "f32", 3)) check_extremum(&cases[i], true, true);
  }
}

static void bad_dims_are_named(void **state) {
  (void)state;
  kt_value x = kt_make("f32[2,0]");
  neap_desc out;
  neap_error err = {0};
  assert_int_equal(kt_infer("sum", KT_OPTS(kt_list(1, 2)), 1, &x, &out, &err), NEAP_RANGE);
  assert_non_null(strstr(err.message, "2"));
  assert_int_equal(kt_infer("sum", KT_OPTS(kt_list(2, 1, -1)), 1, &x, &out, &err), NEAP_INVALID);
  assert_non_null(strstr(err.message, "twice"));
  assert_int_equal(kt_infer("amax", KT_OPTS(kt_list(1, 1)), 1, &x, &out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "[2, 0]"));
  assert_int_equal(kt_infer("argmin", KT_OPTS(kt_list(1, -2)), 1, &x, &out, &err), NEAP_OK);
  assert_int_equal(out.shape.ndim, 1);
  assert_int_equal(out.shape.dim[0], 0);
  kt_free(&x);
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_match),
      cmocka_unit_test(large_sums_are_accurate),
      cmocka_unit_test(infinities_and_nan_carry_through),
      cmocka_unit_test(whole_slabs_keep_the_bits),
      cmocka_unit_test(batch_size_does_not_show),
      cmocka_unit_test(no_samples_give_zero),
      cmocka_unit_test(extrema_match),
      cmocka_unit_test(bad_dims_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
