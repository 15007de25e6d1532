/* Ops that move elements, against index arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"
#include "support/kernels.h"

/* Place i of a row-major shape as indices, and back. */
static void to_indices(const neap_shape *s, int64_t i, int64_t *at) {
  for (int32_t d = s->ndim; d-- > 0; i /= s->dim[d]) at[d] = i % s->dim[d];
}

static int64_t to_place(const neap_shape *s, const int64_t *at) {
  int64_t i = 0;
  for (int32_t d = 0; d < s->ndim; d++) i = i * s->dim[d] + at[d];
  return i;
}

static kt_value counted(const char *spec) {
  kt_value v = kt_make(spec);
  for (int64_t i = 0; i < kt_count(&v); i++) kt_set(&v, i, (double)(i % 251));
  return v;
}

static void permute_moves_dimensions(void **state) {
  static const struct {
    const char *input;
    int n, dims[4];
  } all[] = {{"f32[2,3,4]", 3, {2, 0, 1}},      {"f32[100,70]", 2, {1, 0}},        {"f64[33,65]", 2, {1, 0}},
             {"u8[300,517]", 2, {1, 0}},        {"f32[2,3,4,5]", 4, {0, 2, 3, 1}}, {"f32[2,3,40,50]", 4, {0, 3, 1, 2}},
             {"i64[4,5,6]", 3, {1, 0, 2}},      {"f32[3,1,5]", 3, {2, 1, 0}},      {"f32[0,3]", 2, {1, 0}},
             {"f32[6,5,7,3]", 4, {3, 2, 1, 0}}, {"f32[5,6]", 2, {0, 1}},           {"f32[500,600]", 2, {-1, 0}}};
  (void)state;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++) {
    kt_value x = counted(all[t].input);
    neap_opt dims = {.set = 1, .n = (uint8_t)all[t].n};
    for (int i = 0; i < all[t].n; i++) dims.v.list[i] = all[t].dims[i];
    kt_call c;
    kt_call_op(&c, "permute", KT_OPTS(dims), 1, &x);
    for (int64_t i = 0; i < kt_count(&c.out[0]); i++) {
      int64_t at[NEAP_MAX_DIMS], from[NEAP_MAX_DIMS];
      to_indices(&c.out[0].desc.shape, i, at);
      for (int d = 0; d < all[t].n; d++) from[(all[t].dims[d] + all[t].n) % all[t].n] = at[d];
      if (kt_get(&c.out[0], i) != kt_get(&x, to_place(&x.desc.shape, from))) fail_msg("%s at %d", all[t].input, (int)i);
    }
    kt_assert_any_order(&c);
    kt_end(&c);
    kt_free(&x);
  }
}

static void expand_repeats(void **state) {
  static const struct {
    const char *from, *to;
  } all[] = {{"f32[3]", "f32[4,3]"},       {"f32[4,1]", "f32[4,300]"},   {"f32[]", "f32[2,3]"},
             {"f32[2,1,3]", "f32[2,5,3]"}, {"f64[1,3]", "f64[20000,3]"}, {"u8[1]", "u8[40000]"},
             {"f32[1,3]", "f32[0,3]"},     {"f32[4,3]", "f32[4,3]"}};
  (void)state;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++) {
    kt_value in[2] = {counted(all[t].from), counted(all[t].to)};
    const neap_shape *from = &in[0].desc.shape, *to = &in[1].desc.shape;
    neap_opt shape = {.set = 1, .n = (uint8_t)to->ndim};
    memcpy(shape.v.list, to->dim, sizeof shape.v.list);
    kt_call c, like;
    kt_call_op(&c, "expand", KT_OPTS(shape), 1, in);
    kt_call_op(&like, "expand_as", NULL, 2, in);
    assert_true(neap__shape_equal(&c.out[0].desc.shape, to));
    for (int64_t i = 0; i < kt_count(&c.out[0]); i++) {
      int64_t at[NEAP_MAX_DIMS], own[NEAP_MAX_DIMS];
      to_indices(to, i, at);
      for (int32_t d = 0; d < from->ndim; d++) own[d] = from->dim[d] == 1 ? 0 : at[d + to->ndim - from->ndim];
      double expected = kt_get(&in[0], to_place(from, own));
      assert_true(kt_get(&c.out[0], i) == expected && kt_get(&like.out[0], i) == expected);
    }
    kt_assert_any_order(&c);
    kt_end(&c);
    kt_end(&like);
    kt_free(&in[0]);
    kt_free(&in[1]);
  }
}

static void narrow_and_place_are_inverse(void **state) {
  static const struct {
    const char *input;
    int64_t dim, start, length;
  } all[] = {{"f32[5,3]", 0, 1, 3},   {"f32[5,300]", 1, 7, 100}, {"f32[4,6,5]", 1, 2, 3}, {"i64[9]", 0, 0, 9},
             {"f32[4,6]", -1, -2, 2}, {"f32[4]", 0, 2, 0},       {"u8[3,5]", 1, 4, 1}};
  (void)state;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++) {
    kt_value x = counted(all[t].input);
    kt_call c, back;
    kt_call_op(&c, "narrow", KT_OPTS(NEAP_INT(all[t].dim), NEAP_INT(all[t].start), NEAP_INT(all[t].length)), 1, &x);
    int64_t dim = c.opt[0].v.i, start = c.opt[1].v.i, size = x.desc.shape.dim[dim];
    kt_call_op(&back, "place", KT_OPTS(NEAP_INT(dim), NEAP_INT(start), NEAP_INT(size)), 1, c.out);
    assert_true(neap__shape_equal(&back.out[0].desc.shape, &x.desc.shape));
    for (int64_t i = 0; i < kt_count(&x); i++) {
      int64_t at[NEAP_MAX_DIMS];
      to_indices(&x.desc.shape, i, at);
      bool inside = at[dim] >= start && at[dim] < start + all[t].length;
      assert_true(kt_get(&back.out[0], i) == (inside ? kt_get(&x, i) : 0));
    }
    kt_end(&c);
    kt_end(&back);
    kt_free(&x);
  }
}

static void pad_surrounds(void **state) {
  (void)state;
  kt_value x = counted("f32[2,3,4]");
  kt_call c;
  kt_call_op(&c, "pad_value", KT_OPTS(kt_list(4, 1, 2, 0, 3), NEAP_FLOAT(-1.5)), 1, &x);
  const neap_shape *s = &c.out[0].desc.shape;
  assert_true(s->dim[0] == 2 && s->dim[1] == 6 && s->dim[2] == 7);
  for (int64_t i = 0; i < kt_count(&c.out[0]); i++) {
    int64_t at[NEAP_MAX_DIMS];
    to_indices(s, i, at);
    at[2] -= 1;
    bool inside = at[1] < 3 && at[2] >= 0 && at[2] < 4;
    assert_true(kt_get(&c.out[0], i) == (inside ? kt_get(&x, to_place(&x.desc.shape, at)) : -1.5));
  }
  kt_end(&c);
  kt_free(&x);
}

static void concat_joins(void **state) {
  (void)state;
  kt_value in[3] = {counted("f32[4,3,5]"), counted("f32[4,0,5]"), counted("f32[4,200,5]")};
  kt_call c;
  kt_call_op(&c, "concat", KT_OPTS(NEAP_INT(-2)), 3, in);
  const neap_shape *s = &c.out[0].desc.shape;
  assert_int_equal(s->dim[1], 203);
  for (int64_t i = 0; i < kt_count(&c.out[0]); i++) {
    int64_t at[NEAP_MAX_DIMS] = {0};
    to_indices(s, i, at);
    const kt_value *from = at[1] < 3 ? &in[0] : &in[2];
    if (at[1] >= 3) at[1] -= 3;
    assert_true(kt_get(&c.out[0], i) == kt_get(from, to_place(&from->desc.shape, at)));
  }
  kt_assert_any_order(&c);
  kt_end(&c);
  for (int i = 0; i < 3; i++) kt_free(&in[i]);
}

static void full_fills(void **state) {
  (void)state;
  kt_call c;
  kt_call_op(&c, "full", KT_OPTS(kt_list(2, 300, 100), NEAP_FLOAT(2.5)), 0, NULL);
  for (int64_t i = 0; i < kt_count(&c.out[0]); i++) assert_true(kt_get(&c.out[0], i) == 2.5);
  kt_end(&c);
  kt_call_op(&c, "full", KT_OPTS(kt_list(1, 3), NEAP_FLOAT(-7), NEAP_INT(NEAP_I64)), 0, NULL);
  for (int64_t i = 0; i < 3; i++) assert_true(((int64_t *)c.out[0].data)[i] == -7);
  kt_end(&c);
}

/* To channels-last and back; in between element (n, c, s) lies at (n, s, c). */
static void copy_changes_layouts(void **state) {
  static const char *const inputs[] = {"f32[2,3,4,5]", "f32[3,64,17,19]", "f32[2,100,33]", "f64[2,5,7]",
                                       "f32[1,1,4,4]", "f32[2,8,1,1]",    "f32[0,3,4,4]"};
  (void)state;
  for (size_t t = 0; t < sizeof inputs / sizeof inputs[0]; t++) {
    kt_value x = counted(inputs[t]);
    kt_call c, back;
    kt_begin(&c, "copy", NULL, 1, &x);
    c.out[0].layout = NEAP_LAYOUT_LAST;
    kt_run(&c);
    kt_assert_any_order(&c);
    const neap_shape *s = &x.desc.shape;
    int64_t rest = 1;
    for (int32_t d = 2; d < s->ndim; d++) rest *= s->dim[d];
    for (int64_t i = 0; i < kt_count(&x); i++) {
      int64_t spatial = i % rest, channel = i / rest % s->dim[1], sample = i / rest / s->dim[1];
      assert_true(kt_get(&c.out[0], (sample * rest + spatial) * s->dim[1] + channel) == kt_get(&x, i));
    }
    kt_begin(&back, "copy", NULL, 1, c.out);
    back.in[0].layout = NEAP_LAYOUT_LAST;
    kt_run(&back);
    if (kt_count(&x)) assert_memory_equal(back.out[0].data, x.data, neap__desc_bytes(&x.desc));
    kt_end(&back);
    kt_end(&c);
    kt_free(&x);
  }
}

static void bad_shapes_are_named(void **state) {
  (void)state;
  kt_value in[2] = {kt_make("f32[2,3]"), kt_make("f32[2,4]")};
  neap_desc out;
  neap_error err = {0};
  static const struct {
    const char *op;
    neap_opt opt[3];
    uint32_t n_in;
    neap_status status;
    const char *text;
  } all[] = {
      {"reshape", {{.set = 1, .n = 2, .v.list = {4, -1}}}, 1, NEAP_SHAPE, "[2, 3] of 6 elements"},
      {"reshape", {{.set = 1, .n = 2, .v.list = {-1, -1}}}, 1, NEAP_SHAPE, "one may be -1"},
      {"reshape", {{.set = 1, .n = 2, .v.list = {INT64_MAX, 3}}}, 1, NEAP_RANGE, "too large"},
      {"reshape", {{.set = 0}}, 1, NEAP_INVALID, "shape"},
      {"permute", {{.set = 1, .n = 2, .v.list = {0, 0}}}, 1, NEAP_INVALID, "twice"},
      {"permute", {{.set = 1, .n = 1, .v.list = {0}}}, 1, NEAP_SHAPE, "1 dims"},
      {"permute", {{.set = 1, .n = 2, .v.list = {0, 5}}}, 1, NEAP_RANGE, "5"},
      {"expand", {{.set = 1, .n = 2, .v.list = {2, 4}}}, 1, NEAP_SHAPE, "[2, 3] does not expand to [2, 4]"},
      {"expand", {{.set = 1, .n = 1, .v.list = {3}}}, 1, NEAP_SHAPE, "does not expand"},
      {"narrow", {{.set = 1}, {.set = 1, .v.i = 1}, {.set = 1, .v.i = 2}}, 1, NEAP_RANGE, "size 2"},
      {"narrow", {{.set = 1}, {.set = 1, .v.i = -3}, {.set = 1, .v.i = 1}}, 1, NEAP_RANGE, "-3"},
      {"pad_value", {{.set = 1, .n = 3, .v.list = {1, 1, 1}}}, 1, NEAP_INVALID, "3 amounts"},
      {"pad_value", {{.set = 1, .n = 2, .v.list = {1, -1}}}, 1, NEAP_RANGE, "-1"},
      {"concat", {{.set = 1}}, 2, NEAP_SHAPE, "[2, 4], expected [2, 3] but for dimension 1"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    neap_opt opt[NEAP_MAX_OPTS];
    memset(opt, 0, sizeof opt);
    memcpy(opt, all[i].opt, sizeof all[i].opt);
    assert_int_equal(kt_infer(all[i].op, opt, all[i].n_in, in, &out, &err), all[i].status);
    if (!strstr(err.message, all[i].text)) fail_msg("%s: \"%s\" lacks \"%s\"", all[i].op, err.message, all[i].text);
  }
  kt_free(&in[0]);
  kt_free(&in[1]);
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(permute_moves_dimensions),
      cmocka_unit_test(expand_repeats),
      cmocka_unit_test(narrow_and_place_are_inverse),
      cmocka_unit_test(pad_surrounds),
      cmocka_unit_test(concat_joins),
      cmocka_unit_test(full_fills),
      cmocka_unit_test(copy_changes_layouts),
      cmocka_unit_test(bad_shapes_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
