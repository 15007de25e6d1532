/* softmax, class losses: against fp64 loops, with extreme scores and bad labels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"
#include "support/kernels.h"

/* --- softmax --- */

typedef struct lines {
  int64_t outer, r, inner;
} lines;

static lines lines_of(const neap_shape *s, int64_t dim) {
  lines l = {1, 1, 1};
  for (int32_t d = 0; d < s->ndim; d++) *(d < dim ? &l.outer : d == dim ? &l.r : &l.inner) *= s->dim[d];
  return l;
}

static double log_sum_exp(const kt_value *x, int64_t at, int64_t r, int64_t step) {
  double m = -INFINITY, sum = 0;
  for (int64_t i = 0; i < r; i++) m = fmax(m, kt_get(x, at + i * step));
  for (int64_t i = 0; i < r; i++) sum += exp(kt_get(x, at + i * step) - m);
  return m + log(sum);
}

static void near(double got, double expected, double tolerance, const char *what) {
  if (isnan(expected) ? !isnan(got) : !(fabs(got - expected) <= tolerance * (1 + fabs(expected)) || got == expected))
    fail_msg("%s is %.9g, expected %.9g", what, got, expected);
}

static void check_softmax(const char *spec, int64_t dim, double range) {
  kt_value x = kt_make(spec), d = kt_make(spec);
  kt_call soft, log_soft, soft_grad, log_grad;
  double tolerance = x.desc.dtype == NEAP_F64 ? 1e-13 : 1e-6;
  kt_fill(&x, range, 2);
  kt_fill(&d, 1, 3);
  kt_call_op(&soft, "softmax", KT_OPTS(NEAP_INT(dim)), 1, &x);
  kt_call_op(&log_soft, "log_softmax", KT_OPTS(NEAP_INT(dim)), 1, &x);
  kt_call_op(&soft_grad, "softmax_grad", KT_OPTS(NEAP_INT(dim)), 2, (kt_value[]){d, soft.out[0]});
  kt_call_op(&log_grad, "log_softmax_grad", KT_OPTS(NEAP_INT(dim)), 2, (kt_value[]){d, log_soft.out[0]});
  lines l = lines_of(&x.desc.shape, dim);
  for (int64_t k = 0; k < l.outer * l.inner; k++) {
    int64_t at = k / l.inner * l.r * l.inner + k % l.inner;
    double lse = log_sum_exp(&x, at, l.r, l.inner), dot = 0, sum = 0;
    for (int64_t i = at; i < at + l.r * l.inner; i += l.inner) {
      dot += kt_get(&d, i) * exp(kt_get(&x, i) - lse);
      sum += kt_get(&d, i);
    }
    for (int64_t i = at; i < at + l.r * l.inner; i += l.inner) {
      double p = exp(kt_get(&x, i) - lse), g = kt_get(&d, i);
      near(kt_get(&soft.out[0], i), p, tolerance, "softmax");
      near(kt_get(&log_soft.out[0], i), kt_get(&x, i) - lse, tolerance, "log_softmax");
      near(kt_get(&soft_grad.out[0], i), p * (g - dot), 4 * tolerance, "softmax_grad");
      near(kt_get(&log_grad.out[0], i), g - p * sum, 4 * tolerance, "log_softmax_grad");
    }
  }
  kt_assert_any_order(&soft);
  kt_assert_any_order(&log_grad);
  kt_end(&soft);
  kt_end(&log_soft);
  kt_end(&soft_grad);
  kt_end(&log_grad);
  kt_free(&x);
  kt_free(&d);
}

static void softmax_matches(void **state) {
  (void)state;
  check_softmax("f32[64,10]", 1, 5);
  check_softmax("f32[7,1000]", 1, 20);
  check_softmax("f32[9,5]", 0, 5);
  check_softmax("f32[3,6,200]", 1, 5);
  check_softmax("f32[0,4]", 1, 5);
  check_softmax("f32[4,1]", 1, 5);
  check_softmax("f32[6,8]", 1, 1e4);
  check_softmax("f64[5,17]", 1, 50);
  check_softmax("f64[3,6,9]", 1, 5);
}

/* As torch: -inf has no weight, a row of -inf or with +inf is NaN. */
static void softmax_of_infinities(void **state) {
  (void)state;
  kt_value x = kt_make("f32[4,3]");
  kt_call c;
  const double rows[4][3] = {{0, -INFINITY, 0}, {-INFINITY, -INFINITY, -INFINITY}, {0, INFINITY, 0}, {0, NAN, 0}};
  for (int64_t i = 0; i < 12; i++) kt_set(&x, i, rows[i / 3][i % 3]);
  kt_call_op(&c, "softmax", KT_OPTS(NEAP_INT(-1)), 1, &x);
  assert_true(kt_get(&c.out[0], 0) == 0.5 && kt_get(&c.out[0], 1) == 0);
  for (int64_t i = 3; i < 6; i++) assert_true(isnan(kt_get(&c.out[0], i)));
  assert_true(isnan(kt_get(&c.out[0], 7)));
  for (int64_t i = 9; i < 12; i++) assert_true(isnan(kt_get(&c.out[0], i)));
  kt_end(&c);
  kt_free(&x);
}

/* --- class losses --- */

static int64_t class_place(const lines *l, int64_t k, int64_t label) {
  return (k / l->inner * l->r + label) * l->inner + k % l->inner;
}

static void check_nll(const char *scores, const char *target, double range, bool ignore) {
  kt_value in[2] = {kt_make(scores), kt_make(target)};
  bool single = in[0].desc.shape.ndim == 1;
  lines l = lines_of(&in[0].desc.shape, single ? 0 : 1);
  neap_opt none[NEAP_MAX_OPTS] = {{0}}, skip[NEAP_MAX_OPTS] = {NEAP_INT(-100)};
  kt_call c, back, pick, pick_back;
  kt_fill(&in[0], range, 4);
  kt_fill(&in[1], (double)l.r, 5);
  for (int64_t k = 0; ignore && k < kt_count(&in[1]); k += 3) kt_set(&in[1], k, -100);
  kt_call_op(&c, "softmax_nll", ignore ? skip : none, 2, in);
  kt_call_op(&pick, "pick_nll", ignore ? skip : none, 2, in);
  kt_value d = {.desc = c.out[0].desc, .data = calloc((size_t)kt_count(&c.out[0]) + 1, sizeof(double))};
  kt_fill(&d, 1, 6);
  kt_call_op(&back, "softmax_nll_grad", ignore ? skip : none, 4, (kt_value[]){d, in[0], in[1], c.out[1]});
  kt_call_op(&pick_back, "pick_nll_grad", ignore ? skip : none, 3, (kt_value[]){d, in[0], in[1]});
  for (int64_t k = 0; k < l.outer * l.inner; k++) {
    int64_t t = ((int64_t *)in[1].data)[k];
    double lse = log_sum_exp(&in[0], class_place(&l, k, 0), l.r, l.inner), g = kt_get(&d, k);
    near(kt_get(&c.out[1], k), lse, 1e-6, "lse");
    near(kt_get(&c.out[0], k), t < 0 ? 0 : lse - kt_get(&in[0], class_place(&l, k, t)), 2e-6, "softmax_nll");
    near(kt_get(&pick.out[0], k), t < 0 ? 0 : -kt_get(&in[0], class_place(&l, k, t)), 0, "pick_nll");
    for (int64_t i = 0; i < l.r; i++) {
      int64_t at = class_place(&l, k, i);
      double p = exp(kt_get(&in[0], at) - lse);
      near(kt_get(&back.out[0], at), t < 0 ? 0 : g * (p - (i == t)), 2e-6, "softmax_nll_grad");
      near(kt_get(&pick_back.out[0], at), i == t ? -g : 0, 0, "pick_nll_grad");
    }
  }
  assert_int_equal(c.fault.code, NEAP_OK);
  kt_assert_any_order(&c);
  kt_assert_any_order(&back);
  kt_end(&c);
  kt_end(&back);
  kt_end(&pick);
  kt_end(&pick_back);
  free(d.data);
  kt_free(&in[0]);
  kt_free(&in[1]);
}

static void class_losses_match(void **state) {
  (void)state;
  check_nll("f32[64,10]", "i64[64]", 5, false);
  check_nll("f32[64,10]", "i64[64]", 1e4, true);
  check_nll("f32[5,1000]", "i64[5]", 5, false);
  check_nll("f32[3,4,150]", "i64[3,150]", 5, true);
  check_nll("f32[2,4,5,6]", "i64[2,5,6]", 5, false);
  check_nll("f32[7]", "i64[]", 5, false);
  check_nll("f32[0,7]", "i64[0]", 5, false);
  check_nll("f64[6,7]", "i64[6]", 5, true);
}

/* The first bad label is told with its place and the number of classes; it costs nothing meanwhile. */
static void bad_labels_are_faults(void **state) {
  static const int64_t bad[] = {10, -1, -100, INT64_MAX};
  (void)state;
  for (int i = 0; i < 4; i++) {
    kt_value in[2] = {kt_make("f32[6,10]"), kt_make("i64[6]")};
    kt_call c, pick;
    ((int64_t *)in[1].data)[4] = bad[i];
    kt_call_op(&c, "softmax_nll", NULL, 2, in);
    kt_call_op(&pick, "pick_nll", NULL, 2, in);
    for (int k = 0; k < 2; k++) {
      const neap_fault *f = k ? &pick.fault : &c.fault;
      assert_int_equal(f->code, NEAP_RANGE);
      assert_true(f->row == 4 && f->value == bad[i] && f->limit == 10);
    }
    assert_true(kt_get(&c.out[0], 4) == 0);
    kt_end(&c);
    kt_end(&pick);
    kt_free(&in[0]);
    kt_free(&in[1]);
  }
}

static void bad_targets_are_named(void **state) {
  (void)state;
  kt_value in[2] = {kt_make("f32[2,3]"), kt_make("i64[3]")}, other[2] = {kt_make("i64[2,3]"), kt_make("f32[2]")},
           whole = other[0];
  neap_desc out[2];
  neap_error err = {0};
  assert_int_equal(kt_infer("softmax_nll", NULL, 2, in, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "scores [2, 3] go with a target of shape [2], this one has [3]"));
  assert_int_equal(kt_infer("softmax_nll", NULL, 2, other, out, &err), NEAP_DTYPE);
  assert_non_null(strstr(err.message, "int64, expected a floating-point"));
  other[0] = in[0];
  assert_int_equal(kt_infer("softmax_nll", NULL, 2, other, out, &err), NEAP_DTYPE);
  assert_non_null(strstr(err.message, "fp32, expected class indices as int64"));
  for (int i = 0; i < 2; i++) kt_free(&in[i]);
  kt_free(&other[1]);
  kt_free(&whole);
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax_matches),       cmocka_unit_test(softmax_of_infinities),
      cmocka_unit_test(class_losses_match),    cmocka_unit_test(bad_labels_are_faults),
      cmocka_unit_test(bad_targets_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
