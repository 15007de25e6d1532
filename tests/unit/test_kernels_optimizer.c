/* Optimizer steps and the sum of squares, against fp64 loops of the published formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/hyper.h"
#include "support/kernels.h"

enum { N = 5003, STEPS = 5 };

typedef struct state {
  double p[N], m[N], v[N];
} numbers;

static void near(const kt_value *got, const double *expected, double tolerance, const char *what) {
  for (int64_t i = 0; i < N; i++)
    if (!(fabs(kt_get(got, i) - expected[i]) <= tolerance * (1 + fabs(expected[i]))))
      fail_msg("%s[%d] is %.9g, expected %.9g", what, (int)i, kt_get(got, i), expected[i]);
}

/* As torch.optim.SGD's documentation has it, with a momentum buffer that starts at 0. */
static void sgd_reference(numbers *s, const kt_value *grad, const double *h) {
  const double momentum = h[NEAP_H_BETA1];
  for (int64_t i = 0; i < N; i++) {
    double g = kt_get(grad, i) * h[NEAP_H_SCALE] + h[NEAP_H_L2] * s->p[i];
    s->m[i] = momentum * s->m[i] + h[NEAP_H_FRESH] * g;
    s->p[i] -= h[NEAP_H_LR] * (h[NEAP_H_ALSO] != 0 ? g + momentum * s->m[i] : s->m[i]);
  }
}

/* As torch.optim.Adam's and AdamW's. */
static void adam_reference(numbers *s, const kt_value *grad, const double *h) {
  for (int64_t i = 0; i < N; i++) {
    double g = kt_get(grad, i) * h[NEAP_H_SCALE] + h[NEAP_H_L2] * s->p[i];
    s->m[i] = h[NEAP_H_BETA1] * s->m[i] + (1 - h[NEAP_H_BETA1]) * g;
    s->v[i] = h[NEAP_H_BETA2] * s->v[i] + (1 - h[NEAP_H_BETA2]) * g * g;
    s->p[i] *= h[NEAP_H_KEEP];
    s->p[i] -= h[NEAP_H_LR] / h[NEAP_H_BIAS1] * s->m[i] / (sqrt(s->v[i]) / sqrt(h[NEAP_H_BIAS2]) + h[NEAP_H_EPS]);
  }
}

/* Runs `op` in place on p, g, moments and compares with the reference after each step. */
static void check_steps(const char *op, uint32_t moments, const double *hyper,
                        void (*reference)(numbers *, const kt_value *, const double *)) {
  kt_value in[5];
  numbers *s = calloc(1, sizeof *s);
  for (uint32_t i = 0; i < 2 + moments; i++) in[i] = kt_make("f32[5003]");
  in[2 + moments] = kt_make("f64[16]");
  double *h = in[2 + moments].data;
  memcpy(h, hyper, NEAP_HYPER * sizeof *h);
  kt_fill(&in[0], 1, 1);
  for (int64_t i = 0; i < N; i++) s->p[i] = kt_get(&in[0], i);
  for (int step = 1; step <= STEPS; step++) {
    kt_call c;
    kt_fill(&in[1], 2, (uint32_t)step + 10);
    h[NEAP_H_BIAS1] = 1 - pow(h[NEAP_H_BETA1], step);
    h[NEAP_H_BIAS2] = 1 - pow(h[NEAP_H_BETA2], step);
    kt_begin(&c, op, NULL, 3 + moments, in);
    if (step == 1) {
      kt_run(&c);
      kt_assert_any_order(&c);
    }
    kt_call over = c;
    for (uint32_t o = 0; o <= moments; o++) over.out[o].data = in[o ? o + 1 : 0].data;
    kt_run(&over);
    kt_end(&c);
    reference(s, &in[1], h);
  }
  near(&in[0], s->p, 3e-6, op);
  if (moments > 0) near(&in[2], s->m, 3e-6, op);
  if (moments > 1) near(&in[3], s->v, 3e-6, op);
  for (uint32_t i = 0; i < 3 + moments; i++) kt_free(&in[i]);
  free(s);
}

/* lr, momentum, weight decay, Nesterov, scale, 1 - dampening */
static void set_sgd(double *h, const double *with) {
  static const int places[] = {NEAP_H_LR, NEAP_H_BETA1, NEAP_H_L2, NEAP_H_ALSO, NEAP_H_SCALE, NEAP_H_FRESH};
  memset(h, 0, NEAP_HYPER * sizeof *h);
  for (int k = 0; k < 6; k++) h[places[k]] = with[k];
}

static void sgd_matches(void **state) {
  static const double cases[][6] = {{0.1, 0, 0, 0, 1, 1},
                                    {0.1, 0, 0.01, 0, -0.5, 1},
                                    {0.1, 0.9, 0, 0, 1, 1},
                                    {0.1, 0.9, 0.01, 1, 0.25, 1},
                                    {0.1, 0.9, 0.01, 0, -1, 0.7}};
  double h[NEAP_HYPER];
  (void)state;
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    set_sgd(h, cases[k]);
    check_steps(k < 2 ? "sgd_plain_step" : "sgd_step", k < 2 ? 0 : 1, h, sgd_reference);
  }
}

/* lr, beta1, beta2, eps, weight decay, what decoupled decay keeps, scale */
static void set_adam(double *h, const double *with) {
  static const int places[] = {NEAP_H_LR, NEAP_H_BETA1, NEAP_H_BETA2, NEAP_H_EPS, NEAP_H_L2, NEAP_H_KEEP, NEAP_H_SCALE};
  memset(h, 0, NEAP_HYPER * sizeof *h);
  for (int k = 0; k < 7; k++) h[places[k]] = with[k];
}

static void adam_matches(void **state) {
  static const double cases[][7] = {
      {1e-3, 0.9, 0.999, 1e-8, 0, 1, 1}, {1e-2, 0.8, 0.99, 1e-6, 0.1, 1, 0.5}, {1e-2, 0.9, 0.999, 1e-8, 0, 0.999, 1}};
  double h[NEAP_HYPER];
  (void)state;
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    set_adam(h, cases[k]);
    check_steps("adam_step", 2, h, adam_reference);
  }
}

static double sum_of_squares(kt_value *x) {
  kt_call c;
  kt_call_op(&c, "sumsq", NULL, 1, x);
  kt_assert_any_order(&c);
  double y = kt_get(&c.out[0], 0);
  kt_end(&c);
  return y;
}

static void sumsq_matches(void **state) {
  static const char *const specs[] = {"f32[0]", "f32[1]", "f32[5003]", "f32[300000]", "f64[9001]", "f32[7,9]"};
  (void)state;
  for (size_t t = 0; t < sizeof specs / sizeof specs[0]; t++) {
    kt_value x = kt_make(specs[t]);
    double expected = 0;
    kt_fill(&x, 3, 7);
    for (int64_t i = 0; i < kt_count(&x); i++) expected += kt_get(&x, i) * kt_get(&x, i);
    assert_true(fabs(sum_of_squares(&x) - expected) <= 1e-12 * expected);
    kt_free(&x);
  }
  kt_value x = kt_make("f32[20000]");
  kt_set(&x, 3, 3e38);
  assert_true(fabs(sum_of_squares(&x) / 9e76 - 1) < 1e-6); /* beyond the range of fp32 */
  kt_set(&x, 19999, INFINITY);
  assert_true(isinf(sum_of_squares(&x)));
  kt_set(&x, 10000, NAN);
  assert_true(isnan(sum_of_squares(&x)));
  kt_free(&x);
}

static void bad_segments_are_named(void **state) {
  (void)state;
  kt_value in[4] = {kt_make("f32[5]"), kt_make("f32[6]"), kt_make("f32[5]"), kt_make("f64[16]")};
  neap_desc out[NEAP_MAX_OUT];
  neap_error err = {0};
  assert_int_equal(kt_infer("sgd_step", NULL, 4, in, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "input 2 is fp32 [6]"));
  in[1].desc.shape.dim[0] = 5;
  in[3].desc.shape.dim[0] = 3;
  assert_int_equal(kt_infer("sgd_step", NULL, 4, in, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "fp64 [3], expected fp64 [16]"));
  for (int i = 0; i < 4; i++) kt_free(&in[i]);
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sgd_matches),
      cmocka_unit_test(adam_matches),
      cmocka_unit_test(sumsq_matches),
      cmocka_unit_test(bad_segments_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
