/* Attention and its gradient: against all pairs in double, masked, in blocks, in any order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"
#include "support/kernels.h"

typedef struct attention_case {
  const char *q, *k, *v, *mask; /* mask NULL: none */
  bool causal;
} attention_case;

static const attention_case cases[] = {
    {"f32[2,5,4]", "f32[2,5,4]", "f32[2,5,4]", NULL, false},
    {"f32[2,5,4]", "f32[2,5,4]", "f32[2,5,4]", NULL, true},
    {"f32[1,2,70,8]", "f32[1,2,300,8]", "f32[1,2,300,5]", NULL, false},
    {"f32[1,200,8]", "f32[1,200,8]", "f32[1,200,8]", NULL, true},
    {"f32[1,70,3]", "f32[1,140,3]", "f32[1,140,3]", NULL, true},
    {"f32[1,140,3]", "f32[1,70,3]", "f32[1,70,3]", NULL, true},
    {"f32[2,3,4,2]", "f32[2,3,6,2]", "f32[2,3,6,2]", "f32[4,6]", false},
    {"f32[2,3,4,2]", "f32[2,3,6,2]", "f32[2,3,6,2]", "bool[2,1,1,6]", false},
    {"f32[2,3,4,2]", "f32[2,3,6,2]", "f32[2,3,6,2]", "bool[3,4,1]", false},
    {"f64[2,3,2]", "f64[2,4,2]", "f64[2,4,3]", NULL, false},
    {"f64[1,80,2]", "f64[1,150,2]", "f64[1,150,3]", "f64[80,150]", false},
    {"f32[1,2,4]", "f32[1,0,4]", "f32[1,0,4]", NULL, false},
    {"f32[0,2,4]", "f32[0,3,4]", "f32[0,3,4]", NULL, false},
    {"f32[1,1,1]", "f32[1,1,1]", "f32[1,1,1]", NULL, true},
};
enum { CASES = sizeof cases / sizeof cases[0] };
static const double SCALE = 0.6;

/* A case's inputs, and what it comes to in double. */
typedef struct attention_data {
  const attention_case *c;
  kt_value q, k, v, mask, d;
  kt_call y;
  int32_t lead;
  int64_t heads, l, s, e, f;
  double *p, *want, *lse; /* (heads, l, s), (heads, l, f), (heads, l) */
} attention_data;

/* The mask's entry for a pair, by broadcasting from the right. */
static double mask_at(const attention_data *t, int64_t head, int64_t i, int64_t j) {
  int64_t at[NEAP_MAX_DIMS], place = 0, rest = head;
  for (int32_t a = t->lead; a-- > 0; rest /= t->q.desc.shape.dim[a]) at[a] = rest % t->q.desc.shape.dim[a];
  at[t->lead] = i, at[t->lead + 1] = j;
  const neap_shape *m = &t->mask.desc.shape;
  for (int32_t a = 0; a < m->ndim; a++)
    place = place * m->dim[a] + (m->dim[a] == 1 ? 0 : at[t->lead + 2 - m->ndim + a]);
  return kt_get(&t->mask, place);
}

static double score(const attention_data *t, int64_t head, int64_t i, int64_t j) {
  double dot = 0;
  if (t->c->causal && j > i) return -INFINITY;
  for (int64_t e = 0; e < t->e; e++)
    dot += kt_get(&t->q, (head * t->l + i) * t->e + e) * kt_get(&t->k, (head * t->s + j) * t->e + e);
  dot *= SCALE;
  if (!t->c->mask) return dot;
  const double m = mask_at(t, head, i, j);
  return t->mask.desc.dtype == NEAP_BOOL ? (m != 0 ? dot : -INFINITY) : dot + m;
}

static void weigh(attention_data *t, int64_t head, int64_t i) {
  const int64_t row = head * t->l + i;
  double *p = t->p + row * t->s, sum = 0;
  for (int64_t j = 0; j < t->s; j++) sum += p[j] = exp(score(t, head, i, j));
  t->lse[row] = log(sum);
  for (int64_t j = 0; j < t->s; j++) {
    p[j] = sum > 0 ? p[j] / sum : 0;
    for (int64_t f = 0; f < t->f; f++) t->want[row * t->f + f] += p[j] * kt_get(&t->v, (head * t->s + j) * t->f + f);
  }
}

static void attention_begin(attention_data *t, const attention_case *c) {
  *t = (attention_data){.c = c, .q = kt_make(c->q), .k = kt_make(c->k), .v = kt_make(c->v)};
  if (c->mask) t->mask = kt_make(c->mask);
  const neap_shape *q = &t->q.desc.shape;
  t->lead = q->ndim - 2;
  t->heads = 1;
  for (int32_t a = 0; a < t->lead; a++) t->heads *= q->dim[a];
  t->l = q->dim[t->lead], t->e = q->dim[t->lead + 1];
  t->s = t->k.desc.shape.dim[t->lead], t->f = t->v.desc.shape.dim[t->lead + 1];
  kt_fill(&t->q, 2, 1), kt_fill(&t->k, 2, 2), kt_fill(&t->v, 1, 3);
  if (c->mask) kt_fill(&t->mask, 2, 4);
  kt_call_op(&t->y, "attention", KT_OPTS(NEAP_INT(c->causal), NEAP_FLOAT(SCALE)), c->mask ? 4 : 3,
             (kt_value[]){t->q, t->k, t->v, t->mask});
  t->d = kt_make(c->q);
  kt_free(&t->d);
  t->d.desc = t->y.out[0].desc;
  t->d.data = calloc(1, neap__desc_bytes(&t->d.desc) + 64);
  kt_fill(&t->d, 1, 5);
  t->p = calloc((size_t)(t->heads * t->l * t->s) + 1, sizeof(double));
  t->want = calloc((size_t)(t->heads * t->l * t->f) + 1, sizeof(double));
  t->lse = calloc((size_t)(t->heads * t->l) + 1, sizeof(double));
  for (int64_t h = 0; h < t->heads; h++)
    for (int64_t i = 0; i < t->l; i++) weigh(t, h, i);
}

static void attention_end(attention_data *t) {
  kt_end(&t->y);
  kt_free(&t->q), kt_free(&t->k), kt_free(&t->v), kt_free(&t->d);
  if (t->c->mask) kt_free(&t->mask);
  free(t->p), free(t->want), free(t->lse);
}

static void check_all(const attention_data *t, const char *what, const kt_value *got, const double *want, double size) {
  const double eps = t->q.desc.dtype == NEAP_F64 ? 1e-14 : 2e-6;
  for (int64_t i = 0; i < kt_count(got); i++)
    if (kt_get(got, i) != want[i] && !(fabs(kt_get(got, i) - want[i]) <= eps * size))
      fail_msg("%s of %s with %s at %d is %.9g, expected %.9g", what, t->c->q, t->c->k, (int)i, kt_get(got, i),
               want[i]);
}

static void attention_matches(void **state) {
  (void)state;
  for (int n = 0; n < CASES; n++) {
    attention_data t;
    attention_begin(&t, &cases[n]);
    check_all(&t, "attention", &t.y.out[0], t.want, 2);
    check_all(&t, "lse", &t.y.out[1], t.lse, 10);
    kt_assert_any_order(&t.y);
    attention_end(&t);
  }
}

/* Gradients of q, k and v by the textbook. */
static void differentiate(const attention_data *t, double *dq, double *dk, double *dv) {
  for (int64_t row = 0; row < t->heads * t->l; row++) {
    const int64_t head = row / t->l;
    double dot = 0;
    for (int64_t f = 0; f < t->f; f++) dot += kt_get(&t->d, row * t->f + f) * t->want[row * t->f + f];
    for (int64_t j = 0; j < t->s; j++) {
      const int64_t key = head * t->s + j;
      const double p = t->p[row * t->s + j];
      double dp = 0;
      for (int64_t f = 0; f < t->f; f++) {
        dp += kt_get(&t->d, row * t->f + f) * kt_get(&t->v, key * t->f + f);
        dv[key * t->f + f] += p * kt_get(&t->d, row * t->f + f);
      }
      for (int64_t e = 0; e < t->e; e++) {
        dq[row * t->e + e] += p * (dp - dot) * SCALE * kt_get(&t->k, key * t->e + e);
        dk[key * t->e + e] += p * (dp - dot) * SCALE * kt_get(&t->q, row * t->e + e);
      }
    }
  }
}

static void gradients_match(void **state) {
  (void)state;
  for (int n = 0; n < CASES; n++) {
    attention_data t;
    kt_call g;
    double *want[3];
    attention_begin(&t, &cases[n]);
    kt_call_op(&g, "attention_grad", KT_OPTS(NEAP_INT(t.c->causal), NEAP_FLOAT(SCALE)), t.c->mask ? 7 : 6,
               (kt_value[]){t.d, t.q, t.k, t.v, t.y.out[0], t.y.out[1], t.mask});
    for (int i = 0; i < 3; i++) want[i] = calloc((size_t)kt_count(&g.out[i]) + 1, sizeof(double));
    differentiate(&t, want[0], want[1], want[2]);
    for (int i = 0; i < 3; i++) check_all(&t, i == 0 ? "dq" : i == 1 ? "dk" : "dv", &g.out[i], want[i], 20);
    kt_assert_any_order(&g);
    kt_end(&g);
    for (int i = 0; i < 3; i++) free(want[i]);
    attention_end(&t);
  }
}

/* Scores far apart and queries that see nothing give no NaN. */
static void extremes_stay_finite(void **state) {
  (void)state;
  kt_value q = kt_make("f32[1,2,1]"), k = kt_make("f32[1,3,1]"), v = kt_make("f32[1,3,1]"), mask = kt_make("bool[2,3]");
  kt_call y, g;
  kt_fill(&v, 1, 1);
  for (int64_t i = 0; i < 3; i++) kt_set(&k, i, (double)i * 1e4), kt_set(&mask, i, 1);
  kt_set(&q, 0, 1), kt_set(&q, 1, 1);
  kt_call_op(&y, "attention", KT_OPTS(NEAP_INT(0), NEAP_FLOAT(1)), 4, (kt_value[]){q, k, v, mask});
  assert_true(kt_get(&y.out[0], 0) == kt_get(&v, 2));
  assert_true(kt_get(&y.out[0], 1) == 0);
  assert_true(isinf(kt_get(&y.out[1], 1)));
  kt_call_op(&g, "attention_grad", KT_OPTS(NEAP_INT(0), NEAP_FLOAT(1)), 7,
             (kt_value[]){y.out[0], q, k, v, y.out[0], y.out[1], mask});
  assert_true(kt_get(&g.out[0], 1) == 0);
  for (int64_t i = 0; i < 3; i++) assert_true(isfinite(kt_get(&g.out[1], i)) && isfinite(kt_get(&g.out[2], i)));
  kt_end(&g), kt_end(&y);
  kt_free(&q), kt_free(&k), kt_free(&v), kt_free(&mask);
}

static void bad_inputs_are_named(void **state) {
  (void)state;
  kt_value q = kt_make("f32[2,5,4]"), k = kt_make("f32[2,6,4]"), v = kt_make("f32[2,6,3]"), odd = kt_make("f32[2,6,5]");
  kt_value wide = kt_make("f64[2,6,4]"), mask = kt_make("bool[5,5]"), number = kt_make("i64[5,6]");
  kt_value fits = kt_make("bool[5,6]"), more = kt_make("bool[3,2,5,6]");
  neap_desc out[NEAP_MAX_OUT];
  neap_error err = {0};
  assert_int_equal(kt_infer("attention", NULL, 3, (kt_value[]){q, k, v}, out, &err), NEAP_OK);
  assert_int_equal(out[0].shape.dim[2], 3);
  assert_int_equal(out[1].shape.ndim, 2);
  assert_int_equal(kt_infer("attention", NULL, 3, (kt_value[]){q, odd, v}, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "key [2, 6, 5]"));
  assert_int_equal(kt_infer("attention", NULL, 3, (kt_value[]){q, wide, v}, out, &err), NEAP_DTYPE);
  assert_int_equal(kt_infer("attention", NULL, 4, (kt_value[]){q, k, v, mask}, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "[5, 5] does not broadcast to [2, 5, 6]"));
  assert_int_equal(kt_infer("attention", NULL, 4, (kt_value[]){q, k, v, more}, out, &err), NEAP_SHAPE);
  assert_int_equal(kt_infer("attention", NULL, 4, (kt_value[]){q, k, v, number}, out, &err), NEAP_DTYPE);
  assert_non_null(strstr(err.message, "int64"));
  assert_int_equal(kt_infer("attention", KT_OPTS(NEAP_INT(1)), 4, (kt_value[]){q, k, v, fits}, out, &err),
                   NEAP_INVALID);
  assert_int_equal(kt_infer("attention_grad", NULL, 6, (kt_value[]){q, q, k, v, q, q}, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "input 1 has shape [2, 5, 4], expected [2, 5, 3]"));
  kt_free(&q), kt_free(&k), kt_free(&v), kt_free(&odd), kt_free(&wide), kt_free(&mask), kt_free(&number);
  kt_free(&fits), kt_free(&more);
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_matches),
      cmocka_unit_test(gradients_match),
      cmocka_unit_test(extremes_stay_finite),
      cmocka_unit_test(bad_inputs_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
