/* Elementwise kernels: accuracy over the range of floats, broadcasting, dtypes, layouts, in place. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/vmath.h"
#include "op/op.h"
#include "support/kernels.h"

/* --- accuracy --- */

/* Distance from the exact value in units of the last place of a float. */
static double ulps(float y, double exact) {
  float rounded = (float)exact;
  if (isnan(exact)) return isnan(y) ? 0 : INFINITY;
  if (isinf(rounded)) return y == rounded ? 0 : INFINITY;
  float next = nextafterf(fabsf(rounded), INFINITY);
  return fabs((double)y - exact) / ((double)next - fabs((double)rounded));
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }
static double silu(double x) { return x * sigmoid(x); }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double relu(double x) { return x < 0 ? 0 : x; }

typedef struct accuracy {
  const char *op;
  double (*exact)(double);
  double most;      /* ulps */
  double low, high; /* inputs beyond are left out; both 0: none are */
} accuracy;

/* softplus and sigmoid compose: exp's error meets another rounding. Their limits end where exp(-x) leaves
 * the range of floats and the result is below 1e-38. */
static const accuracy functions[] = {
    {"exp", exp, 2, 0, 0},
    {"expm1", expm1, 2, 0, 0},
    {"log", log, 2, 0, 0},
    {"log1p", log1p, 2, 0, 0},
    {"tanh", tanh, 4, 0, 0},
    {"erf", erf, 4, 0, 0},
    {"sqrt", sqrt, 0.5, 0, 0},
    {"rsqrt", rsqrt, 2, 0, 0},
    {"sin", sin, 1, -1e4, 1e4},
    {"cos", cos, 1, -1e4, 1e4},
    {"floor", floor, 0, 0, 0},
    {"ceil", ceil, 0, 0, 0},
    {"sigmoid", sigmoid, 3, -87, 1e30},
    {"silu", silu, 4, -87, 1e30},
    {"softplus_unit", softplus, 4, -87, 1e30},
    {"round", rint, 0, 0, 0},
    {"relu", relu, 0, 0, 0},
    {"abs", fabs, 0, 0, 0},
};

/* Every 65,521st float by its bits, and a fine grid around 0. */
static kt_value float_range(void) {
  enum { BITS = 65521, BY_BITS = (int)(UINT32_MAX / BITS), GRID = 40000 };
  char spec[32];
  snprintf(spec, sizeof spec, "f32[%d]", BY_BITS + GRID);
  kt_value x = kt_make(spec);
  float *p = x.data;
  for (uint32_t i = 0; i < BY_BITS; i++) p[i] = neap_from_bits(i * BITS);
  for (int i = 0; i < GRID; i++) p[BY_BITS + i] = ((float)i - 0.5f * GRID) * 1e-3f;
  return x;
}

static void functions_are_accurate(void **state) {
  (void)state;
  kt_value x = float_range();
  const float *p = x.data;
  for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
    const accuracy *a = &functions[f];
    kt_call c;
    kt_call_op(&c, a->op, NULL, 1, &x);
    for (int64_t i = 0; i < kt_count(&x); i++) {
      if (a->high > a->low && !((double)p[i] >= a->low && (double)p[i] <= a->high)) continue;
      double e = ulps(((float *)c.out[0].data)[i], a->exact((double)p[i]));
      if (!(e <= a->most)) fail_msg("%s(%a) is %a: %.2f ulp", a->op, (double)p[i], kt_get(&c.out[0], i), e);
    }
    kt_end(&c);
  }
  kt_free(&x);
}

static float single_sigmoid(float x) { return 1 / (1 + neap_expf(-x)); }

/* As compiled for a processor without fused multiplication. */
static void functions_are_accurate_without_fma(void **state) {
  static const struct {
    const char *name;
    float (*f)(float);
    double (*exact)(double);
    double most, low;
  } all[] = {{"exp", neap_expf, exp, 2, -INFINITY},       {"expm1", neap_expm1f, expm1, 2, -INFINITY},
             {"log", neap_logf, log, 2, -INFINITY},       {"log1p", neap_log1pf, log1p, 2, -INFINITY},
             {"tanh", neap_tanhf, tanh, 4, -INFINITY},    {"erf", neap_erff, erf, 4, -INFINITY},
             {"sigmoid", single_sigmoid, sigmoid, 3, -87}};
  (void)state;
  kt_value x = float_range();
  const float *p = x.data;
  for (size_t f = 0; f < sizeof all / sizeof all[0]; f++)
    for (int64_t i = 0; i < kt_count(&x); i++) {
      if ((double)p[i] < all[f].low) continue;
      double e = ulps(all[f].f(p[i]), all[f].exact((double)p[i]));
      if (!(e <= all[f].most)) fail_msg("%s(%a): %.2f ulp", all[f].name, (double)p[i], e);
    }
  kt_free(&x);
}

static void special_values(void **state) {
  static const struct {
    const char *op;
    float x, y;
  } cases[] = {
      {"exp", INFINITY, INFINITY},
      {"exp", -INFINITY, 0},
      {"exp", 89, INFINITY},
      {"exp", -104, 0},
      {"exp", -103, 0x1p-149f},
      {"log", 0, -INFINITY},
      {"log", -1, NAN},
      {"log", INFINITY, INFINITY},
      {"log1p", -1, -INFINITY},
      {"log1p", INFINITY, INFINITY},
      {"tanh", INFINITY, 1},
      {"tanh", -INFINITY, -1},
      {"erf", INFINITY, 1},
      {"erf", -INFINITY, -1},
      {"sigmoid", -INFINITY, 0},
      {"sigmoid", INFINITY, 1},
      {"sigmoid", -200, 0},
      {"relu", -INFINITY, 0},
      {"exp", NAN, NAN},
      {"log", NAN, NAN},
      {"tanh", NAN, NAN},
      {"erf", NAN, NAN},
      {"relu", NAN, NAN},
      {"sigmoid", NAN, NAN},
      {"silu_slope", -200, 0},
      {"gelu_erf", -30, 0},
      {"expm1", INFINITY, INFINITY},
      {"expm1", -INFINITY, -1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    kt_value x = kt_make("f32[1]");
    kt_call c;
    kt_set(&x, 0, (double)cases[i].x);
    kt_call_op(&c, cases[i].op, NULL, 1, &x);
    float y = ((float *)c.out[0].data)[0];
    if (!(y == cases[i].y || (isnan(y) && isnan(cases[i].y))))
      fail_msg("%s(%g) is %g, expected %g", cases[i].op, (double)cases[i].x, (double)y, (double)cases[i].y);
    kt_end(&c);
    kt_free(&x);
  }
}

/* The place of an element in a tensor does not show in its bits. */
static void bits_do_not_depend_on_place(void **state) {
  static const char *const ops[] = {"exp", "expm1",   "log",      "log1p",        "tanh",
                                    "erf", "sigmoid", "gelu_erf", "softplus_unit"};
  (void)state;
  kt_value x = kt_make("f32[1027]"), one = kt_make("f32[1]");
  kt_fill(&x, 9, 1);
  for (size_t f = 0; f < sizeof ops / sizeof ops[0]; f++) {
    kt_call all, single;
    kt_call_op(&all, ops[f], NULL, 1, &x);
    for (int64_t i = 0; i < 1027; i++) {
      kt_set(&one, 0, kt_get(&x, i));
      kt_call_op(&single, ops[f], NULL, 1, &one);
      assert_memory_equal(single.out[0].data, (float *)all.out[0].data + i, sizeof(float));
      kt_end(&single);
    }
    kt_end(&all);
  }
  kt_free(&x);
  kt_free(&one);
}

/* --- broadcasting and dtypes against a plain loop --- */

static int64_t place(const neap_shape *in, const neap_shape *out, int64_t i) {
  int64_t offset = 0, step = 1;
  for (int32_t d = out->ndim; d-- > 0;) {
    int64_t at = i % out->dim[d];
    int32_t own = d - (out->ndim - in->ndim);
    i /= out->dim[d];
    if (own < 0) continue;
    if (in->dim[own] != 1) offset += at * step;
    step *= in->dim[own];
  }
  return offset;
}

static double reference(const char *op, double a, double b) {
  if (!strcmp(op, "add")) return a + b;
  if (!strcmp(op, "sub")) return a - b;
  if (!strcmp(op, "mul")) return a * b;
  if (!strcmp(op, "div")) return a / b;
  if (!strcmp(op, "maximum")) return isnan(a) || a > b ? a : b;
  if (!strcmp(op, "minimum")) return isnan(a) || a < b ? a : b;
  if (!strcmp(op, "eq")) return a == b;
  if (!strcmp(op, "lt")) return a < b;
  if (!strcmp(op, "logical_and")) return a != 0 && b != 0;
  fail_msg("no reference of %s", op);
  return 0;
}

static void check_binary(const char *op, const char *a_spec, const char *b_spec, neap_dtype expected) {
  kt_value in[2] = {kt_make(a_spec), kt_make(b_spec)};
  kt_call c;
  for (int i = 0; i < 2; i++) kt_fill(&in[i], in[i].desc.dtype == NEAP_BOOL ? 2 : 5, (uint32_t)i + 3);
  kt_call_op(&c, op, NULL, 2, in);
  assert_int_equal(c.out[0].desc.dtype, expected);
  for (int64_t i = 0; i < kt_count(&c.out[0]); i++) {
    double a = kt_get(&in[0], place(&in[0].desc.shape, &c.out[0].desc.shape, i));
    double b = kt_get(&in[1], place(&in[1].desc.shape, &c.out[0].desc.shape, i)), y = reference(op, a, b);
    if (expected == NEAP_F32) y = (double)(float)y;
    if (kt_get(&c.out[0], i) != y && !(isnan(y) && isnan(kt_get(&c.out[0], i))))
      fail_msg("%s(%s, %s) at %d is %g, expected %g", op, a_spec, b_spec, (int)i, kt_get(&c.out[0], i), y);
  }
  kt_assert_any_order(&c);
  kt_end(&c);
  kt_free(&in[0]);
  kt_free(&in[1]);
}

static void binaries_broadcast(void **state) {
  static const char *const shapes[][2] = {
      {"f32[1000]", "f32[1000]"},
      {"f32[200,50]", "f32[50]"},
      {"f32[200,50]", "f32[200,1]"},
      {"f32[50]", "f32[7,50]"},
      {"f32[7,300]", "f32[300]"},
      {"f32[7,300]", "f32[7,1]"},
      {"f32[]", "f32[1000]"},
      {"f32[1000]", "f32[1]"},
      {"f32[4,3,5,5]", "f32[3,1,1]"},
      {"f32[4,1,5]", "f32[1,6,1]"},
      {"f32[2,1,3,1]", "f32[4,1,200]"},
      {"f32[3,1]", "f32[1,3]"},
      {"f32[0,3]", "f32[3]"},
      {"f32[0]", "f32[1]"},
      {"f32[]", "f32[]"},
      {"f32[70000]", "f32[70000]"},
      {"f32[3000,10]", "f32[10]"},
      {"f32[10]", "f32[3000,10]"},
      {"f32[3000,3]", "f32[3000,1]"},
      {"f32[1,8]", "f32[1,8]"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    check_binary("add", shapes[i][0], shapes[i][1], NEAP_F32);
    check_binary("sub", shapes[i][0], shapes[i][1], NEAP_F32);
    check_binary("div", shapes[i][0], shapes[i][1], NEAP_F32);
    check_binary("maximum", shapes[i][0], shapes[i][1], NEAP_F32);
    check_binary("lt", shapes[i][0], shapes[i][1], NEAP_BOOL);
  }
}

static void dtypes_promote(void **state) {
  (void)state;
  check_binary("add", "f64[700]", "f64[700]", NEAP_F64);
  check_binary("mul", "f32[7,100]", "f64[100]", NEAP_F64);
  check_binary("mul", "f32[3,5]", "bool[5]", NEAP_F32);
  check_binary("add", "i64[700]", "i64[1]", NEAP_I64);
  check_binary("sub", "i32[7,3]", "i64[3]", NEAP_I64);
  check_binary("add", "u8[7,3]", "i32[7,1]", NEAP_I32);
  check_binary("minimum", "u8[9]", "u8[9]", NEAP_U8);
  check_binary("div", "i64[9]", "i32[9]", NEAP_F32);
  check_binary("add", "f32[2000]", "i64[2000]", NEAP_F32);
  check_binary("eq", "i64[2000]", "i64[]", NEAP_BOOL);
  check_binary("eq", "bool[2000]", "bool[2000]", NEAP_BOOL);
  check_binary("lt", "f32[9]", "i64[9]", NEAP_BOOL);
  check_binary("logical_and", "bool[9]", "bool[9]", NEAP_BOOL);
  check_binary("logical_and", "f32[9]", "i64[9]", NEAP_BOOL);
}

static void integers_wrap(void **state) {
  (void)state;
  kt_value in[2] = {kt_make("i64[1]"), kt_make("i64[1]")};
  kt_call c;
  *(int64_t *)in[0].data = INT64_MAX;
  *(int64_t *)in[1].data = 1;
  kt_call_op(&c, "add", NULL, 2, in);
  assert_true(*(int64_t *)c.out[0].data == INT64_MIN);
  kt_end(&c);
  *(int64_t *)in[0].data = INT64_MIN;
  kt_call_op(&c, "neg", NULL, 1, in);
  assert_true(*(int64_t *)c.out[0].data == INT64_MIN);
  kt_end(&c);
  kt_free(&in[0]);
  kt_free(&in[1]);
}

static void where_chooses(void **state) {
  static const char *const shapes[][3] = {
      {"bool[300]", "f32[300]", "f32[300]"},   {"bool[300]", "f32[300]", "f32[]"},  {"bool[300]", "f32[]", "f32[300]"},
      {"bool[4,1]", "f32[4,200]", "f32[200]"}, {"bool[5,3]", "f32[3]", "i64[5,1]"}, {"bool[9]", "i64[9]", "i64[]"},
      {"bool[9]", "bool[9]", "bool[9]"},       {"bool[0]", "f64[0]", "f64[1]"}};
  (void)state;
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    kt_value in[3];
    kt_call c;
    for (int i = 0; i < 3; i++) {
      in[i] = kt_make(shapes[s][i]);
      kt_fill(&in[i], in[i].desc.dtype == NEAP_BOOL ? 2 : 7, (uint32_t)i + 9);
    }
    kt_call_op(&c, "where", NULL, 3, in);
    const neap_shape *out = &c.out[0].desc.shape;
    for (int64_t i = 0; i < kt_count(&c.out[0]); i++) {
      int which = kt_get(&in[0], place(&in[0].desc.shape, out, i)) != 0 ? 1 : 2;
      assert_true(kt_get(&c.out[0], i) == kt_get(&in[which], place(&in[which].desc.shape, out, i)));
    }
    kt_end(&c);
    for (int i = 0; i < 3; i++) kt_free(&in[i]);
  }
}

static void in_place_on_either_input(void **state) {
  static const char *const shapes[][2] = {
      {"f32[5000]", "f32[5000]"}, {"f32[100,30]", "f32[30]"}, {"f32[100,30]", "f32[100,1]"}};
  (void)state;
  for (size_t s = 0; s < 3; s++)
    for (uint32_t over = 0; over < 2; over++) {
      kt_value in[2] = {kt_make(shapes[s][over]), kt_make(shapes[s][!over])};
      kt_call c, again;
      kt_fill(&in[0], 3, 1);
      kt_fill(&in[1], 3, 2);
      kt_call_op(&c, "sub", NULL, 2, in);
      uint32_t full = kt_count(&in[over]) == kt_count(&c.out[0]) ? over : !over;
      kt_begin(&again, "sub", NULL, 2, in);
      void *own = again.out[0].data;
      again.out[0].data = in[full].data;
      kt_run(&again);
      assert_memory_equal(in[full].data, c.out[0].data, neap__desc_bytes(&c.out[0].desc));
      again.out[0].data = own;
      kt_end(&again);
      kt_end(&c);
      kt_free(&in[0]);
      kt_free(&in[1]);
    }
}

/* --- layouts --- */

static void channels_last_stays(void **state) {
  (void)state;
  neap_backend *b = kt_backend();
  kt_value x = kt_make("f32[2,3,4,5]"), bias = kt_make("f32[3,1,1]"), one = kt_make("f32[]");
  neap_operand in[2] = {{x.desc, NEAP_LAYOUT_LAST, {0}}, {x.desc, NEAP_LAYOUT_PLAIN, {0}}}, out = {x.desc, 0, {0}};
  neap_sig s = {&neap__op_add, NULL, 2, 1, in, &out, 1, 0};
  neap_layout want[2], gives;
  b->vt->layouts(b, &s, want, &gives);
  assert_true(want[0] == NEAP_LAYOUT_LAST && want[1] == NEAP_LAYOUT_LAST && gives == NEAP_LAYOUT_LAST);
  in[1].desc = one.desc;
  b->vt->layouts(b, &s, want, &gives);
  assert_true(want[0] == NEAP_LAYOUT_LAST && want[1] == NEAP_LAYOUT_PLAIN && gives == NEAP_LAYOUT_LAST);
  in[1].desc = bias.desc;
  b->vt->layouts(b, &s, want, &gives);
  assert_true(want[0] == NEAP_LAYOUT_PLAIN && gives == NEAP_LAYOUT_PLAIN);

  kt_value both[2] = {x, one};
  kt_call c;
  kt_fill(&both[0], 3, 1);
  kt_set(&both[1], 0, 2);
  kt_begin(&c, "mul", NULL, 2, both);
  c.in[0].layout = c.out[0].layout = NEAP_LAYOUT_LAST;
  kt_run(&c);
  for (int64_t i = 0; i < kt_count(&x); i++) assert_true(kt_get(&c.out[0], i) == 2 * kt_get(&x, i));
  kt_end(&c);
  kt_free(&x);
  kt_free(&bias);
  kt_free(&one);
}

/* --- errors and conversion --- */

static void bad_inputs_are_named(void **state) {
  (void)state;
  kt_value in[3] = {kt_make("f32[2,3]"), kt_make("f32[4]"), kt_make("f32[2,3]")},
           flags[2] = {kt_make("bool[2]"), kt_make("bool[2]")};
  neap_desc out;
  neap_error err = {0};
  assert_int_equal(kt_infer("add", NULL, 2, in, &out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "[2, 3] and [4]"));
  assert_int_equal(kt_infer("add", NULL, 2, flags, &out, &err), NEAP_DTYPE);
  assert_non_null(strstr(err.message, "bool"));
  assert_int_equal(kt_infer("where", NULL, 3, (kt_value[]){in[0], in[0], in[2]}, &out, &err), NEAP_DTYPE);
  assert_non_null(strstr(err.message, "fp32, expected bool"));
  for (int i = 0; i < 2; i++) kt_free(&flags[i]);
  for (int i = 0; i < 3; i++) kt_free(&in[i]);
}

static void conversion_saturates(void **state) {
  static const double x[] = {0, -0.5, 1.9, -1.9, 300, -300, 3e9, -3e9, 1e30, -1e30, NAN, INFINITY};
  enum { N = sizeof x / sizeof x[0] };
  static const int64_t i64[N] = {0, 0, 1, -1, 300, -300, 3000000000, -3000000000, INT64_MAX, INT64_MIN, 0, INT64_MAX};
  static const int32_t i32[N] = {0, 0, 1, -1, 300, -300, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, INT32_MAX};
  static const uint8_t u8[N] = {0, 0, 1, 0, 255, 0, 255, 0, 255, 0, 0, 255};
  static const uint8_t flag[N] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  static const struct {
    neap_dtype t;
    const void *expected;
  } to[] = {{NEAP_I64, i64}, {NEAP_I32, i32}, {NEAP_U8, u8}, {NEAP_BOOL, flag}};
  (void)state;
  for (int from = 0; from < 2; from++) {
    kt_value v = kt_make(from ? "f64[12]" : "f32[12]");
    for (int64_t i = 0; i < N; i++) kt_set(&v, i, x[i]);
    for (size_t t = 0; t < 4; t++) {
      kt_call c;
      kt_call_op(&c, "to", KT_OPTS(NEAP_INT(to[t].t)), 1, &v);
      assert_memory_equal(c.out[0].data, to[t].expected, neap__desc_bytes(&c.out[0].desc));
      kt_end(&c);
    }
    kt_free(&v);
  }
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_are_accurate),
      cmocka_unit_test(functions_are_accurate_without_fma),
      cmocka_unit_test(special_values),
      cmocka_unit_test(bits_do_not_depend_on_place),
      cmocka_unit_test(binaries_broadcast),
      cmocka_unit_test(dtypes_promote),
      cmocka_unit_test(integers_wrap),
      cmocka_unit_test(where_chooses),
      cmocka_unit_test(in_place_on_either_input),
      cmocka_unit_test(channels_last_stays),
      cmocka_unit_test(bad_inputs_are_named),
      cmocka_unit_test(conversion_saturates),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
