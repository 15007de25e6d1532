/* Normalization of rows and of channels: against plain loops in double, in slabs, in either layout, in any order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"
#include "support/kernels.h"

static const neap_batch constant = {.kind = NEAP_B_CONST}, total = {.kind = NEAP_B_SUM};

static void check(const char *what, const kt_value *got, int64_t i, double want, double size) {
  const double eps = got->desc.dtype == NEAP_F64 ? 1e-13 : 2e-6;
  if (!(fabs(kt_get(got, i) - want) <= eps * (1 + size)))
    fail_msg("%s at %d is %.9g, expected %.9g", what, (int)i, kt_get(got, i), want);
}

/* --- rows --- */

typedef struct row_case {
  const char *x, *params;
  int64_t dims, groups, rows, sets, inner; /* sets: of parameters, one after the other over the rows */
  bool center;
} row_case;

static const row_case row_cases[] = {
    {"f32[3,5]", "f32[5]", 1, 0, 3, 1, 1, true},          {"f32[4,300]", "f32[300]", 1, 0, 4, 1, 1, true},
    {"f32[2,3,4,5]", "f32[4,5]", 2, 0, 6, 1, 1, true},    {"f32[4,300]", "f32[300]", 1, 0, 4, 1, 1, false},
    {"f32[3,8,3,3]", "f32[8]", 1, 2, 6, 2, 9, true},      {"f32[2,6,70]", "f32[6]", 1, 6, 12, 6, 70, true},
    {"f32[5,6]", "f32[6]", 1, 3, 15, 3, 1, true},         {"f64[7,33]", "f64[33]", 1, 0, 7, 1, 1, true},
    {"f64[2,4,3]", "f64[4]", 1, 2, 4, 2, 3, true},        {"f32[0,5]", "f32[5]", 1, 0, 0, 1, 1, true},
    {"f32[70,2]", "f32[2]", 1, 0, 70, 1, 1, true},        {"f32[2,130,1]", "f32[130]", 1, 1, 2, 1, 1, true},
    {"f32[2,1000,3]", "f32[1000]", 1, 5, 10, 5, 3, true},
};
enum { ROW_CASES = sizeof row_cases / sizeof row_cases[0] };

static neap_opt *row_options(const row_case *c, neap_opt *opt) {
  memset(opt, 0, NEAP_MAX_OPTS * sizeof *opt);
  opt[0] = NEAP_INT(c->dims);
  opt[1] = NEAP_INT(c->groups);
  opt[2] = NEAP_FLOAT(1e-3);
  opt[3] = NEAP_INT(c->center);
  return opt;
}

/* What a case is run on, and its statistics in double. */
typedef struct row_data {
  kt_value x, d, w, b;
  kt_call y;
  int64_t length, params;
  double *mean, *rstd;
} row_data;

static void row_begin(row_data *r, const row_case *c) {
  neap_opt opt[NEAP_MAX_OPTS];
  r->x = kt_make(c->x), r->d = kt_make(c->x), r->w = kt_make(c->params), r->b = kt_make(c->params);
  kt_fill(&r->x, 3, 1), kt_fill(&r->d, 1, 2), kt_fill(&r->w, 2, 3), kt_fill(&r->b, 1, 4);
  r->params = kt_count(&r->w) / c->sets;
  r->length = r->params * c->inner;
  r->mean = calloc((size_t)c->rows + 1, sizeof(double));
  r->rstd = calloc((size_t)c->rows + 1, sizeof(double));
  for (int64_t i = 0; i < c->rows; i++) {
    double sum = 0, square = 0;
    for (int64_t j = 0; j < r->length; j++) sum += kt_get(&r->x, i * r->length + j);
    r->mean[i] = c->center ? sum / (double)r->length : 0;
    for (int64_t j = 0; j < r->length; j++) square += pow(kt_get(&r->x, i * r->length + j) - r->mean[i], 2);
    r->rstd[i] = 1 / sqrt(square / (double)r->length + 1e-3);
  }
  kt_call_op(&r->y, "standardize", row_options(c, opt), 3, (kt_value[]){r->x, r->w, r->b});
}

static void row_end(row_data *r) {
  kt_end(&r->y);
  kt_free(&r->x), kt_free(&r->d), kt_free(&r->w), kt_free(&r->b);
  free(r->mean), free(r->rstd);
}

/* The parameter of element j of row i. */
static int64_t param_at(const row_case *c, const row_data *r, int64_t i, int64_t j) {
  return i % c->sets * r->params + j / c->inner;
}

static void rows_match(void **state) {
  (void)state;
  for (int n = 0; n < ROW_CASES; n++) {
    const row_case *c = &row_cases[n];
    row_data r;
    row_begin(&r, c);
    for (int64_t i = 0; i < c->rows; i++) {
      check("mean", &r.y.out[1], i, r.mean[i], 3);
      check("rstd", &r.y.out[2], i, r.rstd[i], r.rstd[i]);
      for (int64_t j = 0; j < r.length; j++) {
        const int64_t at = i * r.length + j, p = param_at(c, &r, i, j);
        const double h = (kt_get(&r.x, at) - r.mean[i]) * r.rstd[i];
        check(c->x, &r.y.out[0], at, h * kt_get(&r.w, p) + kt_get(&r.b, p), fabs(h) * 2);
      }
    }
    kt_assert_any_order(&r.y);
    row_end(&r);
  }
}

/* rstd (g - mean(g) - h mean(g h)) with g = d w. */
static void row_gradients_match(void **state) {
  (void)state;
  for (int n = 0; n < ROW_CASES; n++) {
    const row_case *c = &row_cases[n];
    neap_opt opt[NEAP_MAX_OPTS];
    row_data r;
    kt_call dx;
    row_begin(&r, c);
    kt_call_op(&dx, "standardize_grad", row_options(c, opt), 5, (kt_value[]){r.d, r.x, r.y.out[1], r.y.out[2], r.w});
    for (int64_t i = 0; i < c->rows; i++) {
      double plain = 0, dot = 0;
      for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < r.length; j++) {
          const int64_t at = i * r.length + j;
          const double g = kt_get(&r.d, at) * kt_get(&r.w, param_at(c, &r, i, j));
          const double h = (kt_get(&r.x, at) - r.mean[i]) * r.rstd[i];
          plain += pass ? 0 : g / (double)r.length;
          dot += pass ? 0 : g * h / (double)r.length;
          if (pass) check(c->x, &dx.out[0], at, r.rstd[i] * (g - (c->center ? plain : 0) - h * dot), r.rstd[i] * 4);
        }
    }
    kt_assert_any_order(&dx);
    kt_end(&dx);
    row_end(&r);
  }
}

static void row_weight_gradients_match(void **state) {
  (void)state;
  for (int n = 0; n < ROW_CASES; n++) {
    const row_case *c = &row_cases[n];
    neap_opt opt[NEAP_MAX_OPTS];
    row_data r;
    kt_call dw;
    row_begin(&r, c);
    kt_call_op(&dw, "standardize_grad_weight", row_options(c, opt), 4, (kt_value[]){r.d, r.x, r.y.out[1], r.y.out[2]});
    double *w = calloc((size_t)kt_count(&r.w) + 1, sizeof *w), *b = calloc((size_t)kt_count(&r.w) + 1, sizeof *b);
    for (int64_t i = 0; i < c->rows * r.length; i++) {
      const int64_t row = i / r.length, p = param_at(c, &r, row, i % r.length);
      w[p] += kt_get(&r.d, i) * (kt_get(&r.x, i) - r.mean[row]) * r.rstd[row];
      b[p] += kt_get(&r.d, i);
    }
    for (int64_t p = 0; p < kt_count(&r.w); p++) {
      check("weight's gradient", &dw.out[0], p, w[p], 10);
      check("bias's gradient", &dw.out[1], p, b[p], 10);
    }
    kt_assert_any_order(&dw);
    kt_end(&dw);
    row_end(&r);
    free(w), free(b);
  }
}

/* Samples [first, first + n) of a value whose first dimension they are. */
static kt_value part_of(const kt_value *v, int64_t first, int64_t n) {
  kt_value part = *v;
  const size_t row = neap__desc_bytes(&v->desc) / (size_t)v->desc.shape.dim[0];
  part.desc.shape.dim[0] = n;
  part.data = aligned_alloc(64, ((size_t)n * row + 127) & ~(size_t)63);
  assert_non_null(part.data);
  memcpy(part.data, (const char *)v->data + (size_t)first * row, (size_t)n * row);
  return part;
}

static void add_part(kt_call *to, const kt_value *in, int64_t first, int64_t n) {
  for (uint32_t i = 0; i < to->n_in; i++) {
    to->in[i] = part_of(&in[i], first, n);
    to->in[i].batch = (neap_batch){NEAP_B_SAMPLE, 0, 1};
  }
  to->out[0].batch = to->out[1].batch = total;
  to->flags = first == 0 ? NEAP_LAUNCH_FIRST : 0;
  kt_run(to);
  for (uint32_t i = 0; i < to->n_in; i++) kt_free(&to->in[i]);
}

static void check_slabs(const char *x, const char *stats, int64_t groups) {
  kt_value in[4] = {kt_make(x), kt_make(x), kt_make(stats), kt_make(stats)};
  neap_opt *opt = KT_OPTS(NEAP_INT(1), NEAP_INT(groups), NEAP_UNSET, NEAP_INT(1));
  const int64_t all = in[0].desc.shape.dim[0];
  kt_call whole, parts;
  for (uint32_t i = 0; i < 4; i++) kt_fill(&in[i], 1, i + 1);
  kt_begin(&whole, "standardize_grad_weight", opt, 4, in);
  kt_begin(&parts, "standardize_grad_weight", opt, 4, in);
  add_part(&whole, in, 0, all);
  for (int64_t at = 0; at < all; at += 16) add_part(&parts, in, at, all - at < 16 ? all - at : 16);
  for (uint32_t o = 0; o < 2; o++)
    assert_memory_equal(parts.out[o].data, whole.out[o].data, neap__desc_bytes(&whole.out[o].desc));
  kt_end(&whole);
  kt_end(&parts);
  for (uint32_t i = 0; i < 4; i++) kt_free(&in[i]);
}

static void whole_slabs_keep_the_bits(void **state) {
  (void)state;
  check_slabs("f32[67,5,9]", "f32[67,5]", 0);
  check_slabs("f32[40,100]", "f32[40]", 0);
  check_slabs("f32[35,6,7]", "f32[35,3]", 3);
  check_slabs("f64[24,8]", "f64[24,2]", 2);
}

/* --- channels --- */

typedef struct channel_data {
  kt_value x, d, w, b;
  int64_t n, c, inner;
  double *mean, *rstd, *var, *dw, *db;
} channel_data;

static int64_t element(const channel_data *t, int64_t i, int64_t c, int64_t p) { return (i * t->c + c) * t->inner + p; }

static void channel_begin(channel_data *t, const char *x, const char *params) {
  t->x = kt_make(x), t->d = kt_make(x), t->w = kt_make(params), t->b = kt_make(params);
  kt_fill(&t->x, 3, 1), kt_fill(&t->d, 1, 2), kt_fill(&t->w, 2, 3), kt_fill(&t->b, 1, 4);
  t->n = t->x.desc.shape.dim[0], t->c = t->x.desc.shape.dim[1], t->inner = kt_count(&t->x) / (t->n * t->c);
  double **made[] = {&t->mean, &t->rstd, &t->var, &t->dw, &t->db};
  for (int i = 0; i < 5; i++) *made[i] = calloc((size_t)t->c, sizeof(double));
  const double n = (double)(t->n * t->inner);
  for (int64_t c = 0; c < t->c; c++) {
    for (int64_t i = 0; i < t->n * t->inner; i++)
      t->mean[c] += kt_get(&t->x, element(t, i / t->inner, c, i % t->inner)) / n;
    for (int64_t i = 0; i < t->n * t->inner; i++)
      t->var[c] += pow(kt_get(&t->x, element(t, i / t->inner, c, i % t->inner)) - t->mean[c], 2) / n;
    t->rstd[c] = 1 / sqrt(t->var[c] + 1e-3);
    for (int64_t i = 0; i < t->n * t->inner; i++) {
      const int64_t at = element(t, i / t->inner, c, i % t->inner);
      t->db[c] += kt_get(&t->d, at);
      t->dw[c] += kt_get(&t->d, at) * (kt_get(&t->x, at) - t->mean[c]) * t->rstd[c];
    }
  }
}

static void channel_end(channel_data *t) {
  kt_free(&t->x), kt_free(&t->d), kt_free(&t->w), kt_free(&t->b);
  free(t->mean), free(t->rstd), free(t->var), free(t->dw), free(t->db);
}

/* A copy with channels innermost. */
static kt_value channels_last(const kt_value *v, const channel_data *t) {
  kt_value out = part_of(v, 0, t->n);
  out.layout = NEAP_LAYOUT_LAST;
  for (int64_t i = 0; i < kt_count(v); i++)
    kt_set(&out, (i / t->inner / t->c * t->inner + i % t->inner) * t->c + i / t->inner % t->c, kt_get(v, i));
  return out;
}

/* Where element (i, c, p) lies in an output. */
static int64_t place(const channel_data *t, bool last, int64_t i, int64_t c, int64_t p) {
  return last ? (i * t->inner + p) * t->c + c : element(t, i, c, p);
}

static void check_channels(const char *x, const char *params, bool last) {
  channel_data t;
  kt_call y, dx;
  channel_begin(&t, x, params);
  const double n = (double)(t.n * t.inner);
  kt_value xs = last ? channels_last(&t.x, &t) : part_of(&t.x, 0, t.n);
  kt_value ds = last ? channels_last(&t.d, &t) : part_of(&t.d, 0, t.n);
  kt_begin(&y, "batch_norm_train", KT_OPTS(NEAP_FLOAT(1e-3)), 3, (kt_value[]){xs, t.w, t.b});
  kt_begin(&dx, "batch_norm_grad", KT_OPTS(NEAP_FLOAT(1e-3)), 3, (kt_value[]){ds, xs, t.w});
  y.out[0].layout = dx.out[0].layout = xs.layout;
  kt_run(&y);
  kt_run(&dx);
  for (int64_t c = 0; c < t.c; c++) {
    check("mean", &y.out[1], c, t.mean[c], 3);
    check("variance", &y.out[2], c, t.var[c] * n / (n - 1), 9);
    check("weight's gradient", &dx.out[1], c, t.dw[c], sqrt(n));
    check("bias's gradient", &dx.out[2], c, t.db[c], sqrt(n));
    for (int64_t i = 0; i < t.n; i++)
      for (int64_t p = 0; p < t.inner; p++) {
        const int64_t at = element(&t, i, c, p), to = place(&t, last, i, c, p);
        const double h = (kt_get(&t.x, at) - t.mean[c]) * t.rstd[c], w = kt_get(&t.w, c);
        check(x, &y.out[0], to, h * w + kt_get(&t.b, c), fabs(h * w));
        check(x, &dx.out[0], to, w * t.rstd[c] * (kt_get(&t.d, at) - t.db[c] / n - h * t.dw[c] / n), 3);
      }
  }
  kt_assert_any_order(&y);
  kt_assert_any_order(&dx);
  kt_end(&y), kt_end(&dx);
  kt_free(&xs), kt_free(&ds);
  channel_end(&t);
}

static void channels_match(void **state) {
  (void)state;
  check_channels("f32[4,3,5,5]", "f32[3]", false);
  check_channels("f32[4,3,5,5]", "f32[3]", true);
  check_channels("f32[9,37,3,2]", "f32[37]", true);
  check_channels("f32[2,2,70,50]", "f32[2]", false);
  check_channels("f32[100,20]", "f32[20]", false);
  check_channels("f32[5,1,7]", "f32[1]", true);
  check_channels("f64[3,5,6]", "f64[5]", false);
  check_channels("f64[3,5,6,2]", "f64[5]", true);
}

/* The spread around a large mean survives. */
static void a_large_mean_is_no_variance(void **state) {
  (void)state;
  kt_value x = kt_make("f32[1000,1]");
  kt_call y;
  for (int64_t i = 0; i < 1000; i++) kt_set(&x, i, 100000 + (double)(i % 2));
  kt_call_op(&y, "batch_norm_train", KT_OPTS(NEAP_FLOAT(0)), 1, &x);
  for (int64_t i = 0; i < 1000; i++) assert_true(fabs(kt_get(&y.out[0], i) - (i % 2 ? 1 : -1)) < 0.02);
  kt_end(&y);
  for (int64_t i = 0; i < 1000; i++) kt_set(&x, i, 7);
  kt_call_op(&y, "batch_norm_train", KT_OPTS(NEAP_FLOAT(1e-5)), 1, &x);
  for (int64_t i = 0; i < 1000; i++) assert_true(kt_get(&y.out[0], i) == 0);
  kt_end(&y);
  kt_free(&x);
}

/* Micro-batches add their statistics by their share of the samples. */
static void statistics_add_up(void **state) {
  (void)state;
  kt_value x = kt_make("f32[12,3]");
  kt_call c;
  kt_fill(&x, 2, 7);
  kt_begin(&c, "batch_norm_train", KT_OPTS(NEAP_FLOAT(1e-5)), 1, &x);
  const kt_value y = c.out[0];
  for (int64_t at = 0; at < 12; at += 4) {
    c.in[0] = part_of(&x, at, 4);
    c.in[0].batch = (neap_batch){NEAP_B_SAMPLE, 0, 1};
    c.out[0].desc = c.in[0].desc;
    c.out[1].batch = c.out[2].batch = total;
    c.flags = at == 0 ? NEAP_LAUNCH_FIRST : 0;
    kt_run(&c);
    kt_free(&c.in[0]);
  }
  for (int64_t j = 0; j < 3; j++) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < 12; i++) mean += kt_get(&x, i * 3 + j) / 12;
    for (int64_t i = 0; i < 12; i++) {
      double own = 0;
      for (int64_t k = i / 4 * 4; k < i / 4 * 4 + 4; k++) own += kt_get(&x, k * 3 + j) / 4;
      var += pow(kt_get(&x, i * 3 + j) - own, 2) / 9;
    }
    check("mean", &c.out[1], j, mean, 1);
    check("variance", &c.out[2], j, var, 1);
  }
  c.out[0] = y;
  kt_end(&c);
  kt_free(&x);
}

static void nothing_adds_nothing(void **state) {
  (void)state;
  kt_value x = kt_make("f32[0,2,3]");
  kt_call c;
  kt_begin(&c, "batch_norm_grad", KT_OPTS(NEAP_FLOAT(1e-5)), 2, (kt_value[]){x, x});
  c.out[1].batch = c.out[2].batch = total;
  for (int64_t i = 0; i < 2; i++) kt_set(&c.out[1], i, 7);
  c.flags = 0;
  kt_run(&c);
  assert_true(kt_get(&c.out[1], 1) == 7);
  c.flags = NEAP_LAUNCH_FIRST;
  kt_run(&c);
  assert_true(kt_get(&c.out[1], 1) == 0);
  c.out[1].batch = c.out[2].batch = constant;
  kt_end(&c);
  kt_free(&x);
}

static void bad_shapes_are_named(void **state) {
  (void)state;
  kt_value x = kt_make("f32[2,5]"), w = kt_make("f32[4]"), one = kt_make("f32[1,5]"), flat = kt_make("f32[5]");
  kt_value half = kt_make("f64[5]"), whole = kt_make("i64[2,5]");
  neap_desc out[NEAP_MAX_OUT];
  neap_error err = {0};
  assert_int_equal(kt_infer("standardize", NULL, 2, (kt_value[]){x, w}, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "weight has shape [4], expected [5]"));
  assert_int_equal(kt_infer("standardize", NULL, 2, (kt_value[]){x, half}, out, &err), NEAP_DTYPE);
  assert_non_null(strstr(err.message, "fp64"));
  assert_int_equal(kt_infer("standardize", NULL, 1, &whole, out, &err), NEAP_DTYPE);
  assert_int_equal(kt_infer("standardize", KT_OPTS(NEAP_INT(3)), 1, &x, out, &err), NEAP_SHAPE);
  assert_int_equal(kt_infer("standardize", KT_OPTS(NEAP_INT(1), NEAP_INT(2)), 1, &x, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "5 channels, which 2 groups"));
  assert_int_equal(kt_infer("standardize", KT_OPTS(NEAP_INT(1), NEAP_INT(1)), 1, &flat, out, &err), NEAP_SHAPE);
  assert_int_equal(kt_infer("standardize_grad", NULL, 4, (kt_value[]){x, x, w, w}, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "mean has shape [4], expected [2]"));
  assert_int_equal(kt_infer("batch_norm_train", NULL, 1, &one, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "1 value a channel"));
  assert_int_equal(kt_infer("batch_norm_train", NULL, 2, (kt_value[]){x, w}, out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "expected [5] for the channels"));
  assert_int_equal(kt_infer("batch_norm_grad", NULL, 2, (kt_value[]){x, one}, out, &err), NEAP_SHAPE);
  kt_free(&x), kt_free(&w), kt_free(&one), kt_free(&flat), kt_free(&half), kt_free(&whole);
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_match),
      cmocka_unit_test(row_gradients_match),
      cmocka_unit_test(row_weight_gradients_match),
      cmocka_unit_test(whole_slabs_keep_the_bits),
      cmocka_unit_test(channels_match),
      cmocka_unit_test(a_large_mean_is_no_variance),
      cmocka_unit_test(statistics_add_up),
      cmocka_unit_test(nothing_adds_nothing),
      cmocka_unit_test(bad_shapes_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
