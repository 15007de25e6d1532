/* Ops on indices, order and places, against plain loops: in any order of tasks, over several launches, with
 * indices out of range. */
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

typedef struct indexed {
  const char *table, *index;
  int dim, limit;
} indexed;

static void begin(const indexed *c, kt_value *table, kt_value *index) {
  *table = kt_make(c->table);
  *index = kt_make(c->index);
  kt_fill(table, table->desc.dtype == NEAP_BOOL ? 2 : 9, 3);
  kt_fill(index, c->limit, 4);
}

static void expect(const kt_value *got, int64_t i, double wanted, const indexed *c, const char *op) {
  if (kt_get(got, i) != wanted)
    fail_msg("%s of %s by %s along %d: element %d is %.9g, expected %.9g", op, c->table, c->index, c->dim, (int)i,
             kt_get(got, i), wanted);
}

/* --- whole entries --- */

static const indexed selections[] = {
    {"f32[5,3]", "i64[9]", 0, 5},   {"f32[5,300]", "i64[70]", 0, 5},    {"f64[2,5,4]", "i64[3]", 1, 5},
    {"f32[40,7]", "i64[11]", 1, 7}, {"f64[7]", "i64[11]", 0, 7},        {"bool[3,5]", "i64[4]", 1, 5},
    {"i64[5,2]", "i64[4]", 0, 5},   {"f32[5,3]", "i64[0]", 0, 5},       {"f32[0,3]", "i64[0]", 0, 1},
    {"f32[5,3]", "i64[]", 0, 5},    {"f32[2000]", "i64[9000]", 0, 2000}};

static void entries_are_selected(void **state) {
  (void)state;
  for (size_t t = 0; t < sizeof selections / sizeof selections[0]; t++) {
    const indexed *c = &selections[t];
    kt_value x, index;
    kt_call s;
    begin(c, &x, &index);
    kt_call_op(&s, "index_select", KT_OPTS(NEAP_INT(c->dim)), 2, (kt_value[]){x, index});
    for (int64_t i = 0; i < kt_count(&s.out[0]); i++) {
      int64_t at[NEAP_MAX_DIMS] = {0};
      to_indices(&s.out[0].desc.shape, i, at);
      at[c->dim] = (int64_t)kt_get(&index, at[c->dim]);
      expect(&s.out[0], i, kt_get(&x, to_place(&x.desc.shape, at)), c, "index_select");
    }
    kt_assert_any_order(&s);
    kt_end(&s);
    kt_free(&x);
    kt_free(&index);
  }
}

/* Sums in the order of the indices, in the dtype itself. */
static void add_in_order(const kt_value *entries, const kt_value *index, int dim, int64_t skip, kt_value *sum) {
  for (int64_t i = 0; i < kt_count(entries); i++) {
    int64_t at[NEAP_MAX_DIMS] = {0};
    to_indices(&entries->desc.shape, i, at);
    at[dim] = (int64_t)kt_get(index, at[dim]);
    if (at[dim] == skip) continue;
    int64_t to = to_place(&sum->desc.shape, at);
    kt_set(sum, to, kt_get(sum, to) + kt_get(entries, i));
  }
}

static void check_index_add(const indexed *c, int64_t skip) {
  kt_value x, index, wanted;
  kt_call s;
  begin(c, &x, &index);
  neap_opt o = skip < 0 ? NEAP_UNSET : NEAP_INT(skip);
  kt_call_op(&s, "index_sum", KT_OPTS(NEAP_INT(c->dim), NEAP_INT(c->limit), o), 2, (kt_value[]){x, index});
  wanted = s.out[0];
  wanted.data = calloc(1, neap__desc_bytes(&wanted.desc) + 1);
  assert_non_null(wanted.data);
  add_in_order(&x, &index, c->dim, skip, &wanted);
  for (int64_t i = 0; i < kt_count(&wanted); i++) expect(&s.out[0], i, kt_get(&wanted, i), c, "index_sum");
  kt_assert_any_order(&s);
  kt_end(&s);
  kt_free(&x);
  kt_free(&index);
  kt_free(&wanted);
}

static void entries_are_added(void **state) {
  static const indexed all[] = {{"f32[9,3]", "i64[9]", 0, 5},     {"f32[70,300]", "i64[70]", 0, 5},
                                {"f64[2,6,4]", "i64[6]", 1, 3},   {"f32[40,11]", "i64[11]", 1, 7},
                                {"f32[1000]", "i64[1000]", 0, 3}, {"f32[0,3]", "i64[0]", 0, 4}};
  (void)state;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++) {
    check_index_add(&all[t], -1);
    check_index_add(&all[t], 1);
  }
}

static kt_value rows_of(const kt_value *x, int64_t first, int64_t rows) {
  kt_value part = *x;
  size_t row = neap__desc_bytes(&x->desc) / (size_t)x->desc.shape.dim[0];
  part.desc.shape.dim[0] = rows;
  part.data = aligned_alloc(64, ((size_t)rows * row + 63) / 64 * 64);
  assert_non_null(part.data);
  memcpy(part.data, (const char *)x->data + (size_t)first * row, (size_t)rows * row);
  return part;
}

/* A sum over samples goes on from what the output holds, to the same bits wherever the batch is cut. */
static void sums_go_on_over_launches(void **state) {
  kt_value x = kt_make("f32[64,40]"), index = kt_make("i64[64]");
  kt_call whole, parts;
  neap_opt options[NEAP_MAX_OPTS] = {NEAP_INT(0), NEAP_INT(5)};
  (void)state;
  kt_fill(&x, 3, 1);
  kt_fill(&index, 5, 2);
  kt_call_op(&whole, "index_sum", options, 2, (kt_value[]){x, index});
  kt_begin(&parts, "index_sum", options, 2, (kt_value[]){x, index});
  for (int64_t at = 0, n; at < 64; at += n) {
    n = at % 3 + 7 < 64 - at ? at % 3 + 7 : 64 - at;
    parts.in[0] = rows_of(&x, at, n);
    parts.in[1] = rows_of(&index, at, n);
    parts.in[0].batch = parts.in[1].batch = (neap_batch){NEAP_B_SAMPLE, 0, 1};
    parts.out[0].batch = (neap_batch){.kind = NEAP_B_SUM};
    parts.flags = at == 0 ? NEAP_LAUNCH_FIRST : 0;
    kt_run(&parts);
    kt_free(&parts.in[0]);
    kt_free(&parts.in[1]);
  }
  assert_memory_equal(parts.out[0].data, whole.out[0].data, neap__desc_bytes(&whole.out[0].desc));
  kt_end(&parts);
  kt_end(&whole);
  kt_free(&x);
  kt_free(&index);
}

static void embedding_reads_rows(void **state) {
  kt_value index = kt_make("i64[3,4]"), table = kt_make("f32[7,5]");
  kt_call c;
  (void)state;
  kt_fill(&index, 7, 1);
  kt_fill(&table, 3, 2);
  kt_call_op(&c, "embedding", NULL, 2, (kt_value[]){index, table});
  assert_int_equal(c.out[0].desc.shape.ndim, 3);
  for (int64_t i = 0; i < 60; i++)
    assert_true(kt_get(&c.out[0], i) == kt_get(&table, (int64_t)kt_get(&index, i / 5) * 5 + i % 5));
  kt_end(&c);
  kt_free(&index);
  kt_free(&table);
}

/* --- single elements --- */

static const indexed picks[] = {{"f32[4,6]", "i64[4,3]", 1, 6},         {"f32[4,6]", "i64[9,6]", 0, 4},
                                {"f32[4,70]", "i64[9,66]", 0, 4},       {"f64[3,4,5]", "i64[2,7,5]", 1, 4},
                                {"f32[200,9]", "i64[200,1]", 1, 9},     {"i64[7]", "i64[20]", 0, 7},
                                {"bool[3,4]", "i64[3,2]", 1, 4},        {"i32[3,4]", "i64[2,4]", 0, 3},
                                {"f32[2,3,4,5]", "i64[2,6,3,5]", 1, 3}, {"f32[3,4]", "i64[3,0]", 1, 4}};

static void elements_are_gathered(void **state) {
  (void)state;
  for (size_t t = 0; t < sizeof picks / sizeof picks[0]; t++) {
    const indexed *c = &picks[t];
    kt_value x, index;
    kt_call s;
    begin(c, &x, &index);
    kt_call_op(&s, "gather", KT_OPTS(NEAP_INT(c->dim)), 2, (kt_value[]){x, index});
    for (int64_t i = 0; i < kt_count(&index); i++) {
      int64_t at[NEAP_MAX_DIMS] = {0};
      to_indices(&index.desc.shape, i, at);
      at[c->dim] = (int64_t)kt_get(&index, i);
      expect(&s.out[0], i, kt_get(&x, to_place(&x.desc.shape, at)), c, "gather");
    }
    kt_assert_any_order(&s);
    kt_end(&s);
    kt_free(&x);
    kt_free(&index);
  }
}

static void elements_are_scattered(void **state) {
  (void)state;
  for (size_t t = 0; t < sizeof picks / sizeof picks[0]; t++) {
    const indexed *c = &picks[t];
    kt_value like, index, source, wanted;
    kt_call s;
    begin(c, &like, &index);
    if (like.desc.dtype != NEAP_BOOL) {
      source = index;
      source.desc.dtype = like.desc.dtype;
      source.data = calloc((size_t)kt_count(&index) + 1, 8);
      wanted = like;
      wanted.data = calloc((size_t)kt_count(&like) + 1, 8);
      assert_true(source.data && wanted.data);
      kt_fill(&source, 9, 7);
      kt_call_op(&s, "scatter_sum", KT_OPTS(NEAP_INT(c->dim)), 3, (kt_value[]){source, index, like});
      for (int64_t i = 0; i < kt_count(&index); i++) {
        int64_t at[NEAP_MAX_DIMS] = {0};
        to_indices(&index.desc.shape, i, at);
        at[c->dim] = (int64_t)kt_get(&index, i);
        int64_t to = to_place(&like.desc.shape, at);
        kt_set(&wanted, to, kt_get(&wanted, to) + kt_get(&source, i));
      }
      for (int64_t i = 0; i < kt_count(&like); i++) expect(&s.out[0], i, kt_get(&wanted, i), c, "scatter_sum");
      kt_assert_any_order(&s);
      kt_end(&s);
      kt_free(&source);
      kt_free(&wanted);
    }
    kt_free(&like);
    kt_free(&index);
  }
}

/* --- bad indices --- */

static void fault_of(const char *op, const neap_opt *opt, uint32_t n, const kt_value *in, int64_t row, int64_t value,
                     int64_t limit) {
  kt_call c;
  kt_call_op(&c, op, opt, n, in);
  assert_int_equal(c.fault.code, NEAP_RANGE);
  assert_int_equal(c.fault.row, row);
  assert_int_equal(c.fault.value, value);
  assert_int_equal(c.fault.limit, limit);
  kt_end(&c);
}

static void indices_out_of_range_are_told(void **state) {
  kt_value x = kt_make("f32[3,2]"), list = kt_make("i64[3]"), places = kt_make("i64[3,2]");
  (void)state;
  for (int64_t bad = -1; bad <= 3; bad += 4) {
    kt_set(&list, 2, (double)bad);
    kt_set(&places, 5, (double)bad);
    fault_of("index_select", KT_OPTS(NEAP_INT(0)), 2, (kt_value[]){x, list}, 2, bad, 3);
    fault_of("embedding", NULL, 2, (kt_value[]){list, x}, 2, bad, 3);
    fault_of("index_sum", KT_OPTS(NEAP_INT(0), NEAP_INT(3)), 2, (kt_value[]){x, list}, 2, bad, 3);
    fault_of("gather", KT_OPTS(NEAP_INT(0)), 2, (kt_value[]){x, places}, 5, bad, 3);
    fault_of("scatter_sum", KT_OPTS(NEAP_INT(0)), 3, (kt_value[]){x, places, x}, 5, bad, 3);
    fault_of("one_hot", KT_OPTS(NEAP_INT(3)), 1, &list, 2, bad, 3);
  }
  kt_free(&x);
  kt_free(&list);
  kt_free(&places);
}

static void wrong_shapes_and_dtypes_are_named(void **state) {
  kt_value x = kt_make("f32[3,2]"), list = kt_make("i64[4]"), wide = kt_make("i64[4,3]"), real = kt_make("f32[4]");
  neap_desc out;
  neap_error err = {0};
  (void)state;
  neap_opt dim[NEAP_MAX_OPTS] = {NEAP_INT(0)};
  assert_int_equal(kt_infer("index_select", dim, 2, (kt_value[]){x, wide}, &out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "[4, 3]"));
  assert_int_equal(kt_infer("index_select", dim, 2, (kt_value[]){x, real}, &out, &err), NEAP_DTYPE);
  assert_non_null(strstr(err.message, "fp32"));
  assert_int_equal(kt_infer("gather", dim, 2, (kt_value[]){x, wide}, &out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "[3, 2]"));
  assert_int_equal(kt_infer("embedding", NULL, 2, (kt_value[]){list, list}, &out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "[rows, width]"));
  assert_int_equal(kt_infer("embedding", KT_OPTS(NEAP_INT(3)), 2, (kt_value[]){list, x}, &out, &err), NEAP_RANGE);
  assert_non_null(strstr(err.message, "3 rows"));
  assert_int_equal(kt_infer("one_hot", KT_OPTS(NEAP_INT(0)), 1, &list, &out, &err), NEAP_RANGE);
  assert_int_equal(kt_infer("triu", NULL, 1, &list, &out, &err), NEAP_SHAPE);
  kt_free(&x);
  kt_free(&list);
  kt_free(&wide);
  kt_free(&real);
}

/* --- order --- */

static bool before(double a, double b, bool descending) {
  if (isnan(a) || isnan(b)) return descending ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
  return descending ? a > b : a < b;
}

/* A permutation in which no element comes before one that it follows, equal ones in their old order. */
static void check_argsort(const kt_value *x, int64_t dim, bool descending) {
  kt_call c;
  kt_call_op(&c, "argsort", KT_OPTS(NEAP_INT(dim), NEAP_INT(descending)), 1, x);
  int64_t r = x->desc.shape.dim[dim], inner = 1;
  for (int32_t d = (int32_t)dim + 1; d < x->desc.shape.ndim; d++) inner *= x->desc.shape.dim[d];
  for (int64_t line = 0; r > 0 && line < kt_count(x) / r; line++) {
    int64_t at = line / inner * r * inner + line % inner, sum = 0;
    for (int64_t i = 0; i < r; i++) {
      int64_t place = (int64_t)kt_get(&c.out[0], at + i * inner);
      assert_in_range(place, 0, r - 1);
      sum += place;
      if (i == 0) continue;
      int64_t last = (int64_t)kt_get(&c.out[0], at + (i - 1) * inner);
      double a = kt_get(x, at + last * inner), b = kt_get(x, at + place * inner);
      assert_false(before(b, a, descending));
      if (!before(a, b, descending)) assert_true(last < place);
    }
    assert_int_equal(sum, r * (r - 1) / 2);
  }
  kt_assert_any_order(&c);
  kt_end(&c);
}

static void elements_are_ordered(void **state) {
  static const struct {
    const char *input;
    int dim;
    double range;
  } all[] = {{"f32[3,5]", 1, 9},  {"f32[100]", 0, 9},   {"f32[2,37,3]", 1, 9}, {"f64[5,1000]", 1, 9},
             {"i64[4,90]", 1, 6}, {"i32[33,2]", 0, 40}, {"u8[70]", 0, 9},      {"bool[70]", 0, 2},
             {"f32[2,0]", 1, 1},  {"f32[0,3]", 1, 1},   {"f32[16]", 0, 1},     {"f32[17]", 0, 0.01},
             {"f32[1,1]", 1, 1}};
  (void)state;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++) {
    kt_value x = kt_make(all[t].input);
    kt_fill(&x, all[t].range, 5);
    check_argsort(&x, all[t].dim, false);
    check_argsort(&x, all[t].dim, true);
    kt_free(&x);
  }
}

static void special_values_have_their_place(void **state) {
  static const double values[] = {0.0, -0.0, NAN, -INFINITY, INFINITY, -1, 1e-40, -1e-40, -NAN, 0.0};
  kt_value x = kt_make("f32[10]"), l = kt_make("i64[3]");
  kt_call c;
  (void)state;
  for (int i = 0; i < 10; i++) kt_set(&x, i, values[i]);
  check_argsort(&x, 0, false);
  check_argsort(&x, 0, true);
  kt_call_op(&c, "argsort", KT_OPTS(NEAP_INT(0)), 1, &x);
  static const int wanted[] = {3, 5, 7, 0, 1, 9, 6, 4, 2, 8};
  for (int i = 0; i < 10; i++) assert_int_equal((int)kt_get(&c.out[0], i), wanted[i]);
  kt_end(&c);
  ((int64_t *)l.data)[0] = INT64_MAX;
  ((int64_t *)l.data)[1] = INT64_MIN;
  kt_call_op(&c, "argsort", KT_OPTS(NEAP_INT(0)), 1, &l);
  static const int whole[] = {1, 2, 0};
  for (int i = 0; i < 3; i++) assert_int_equal((int)kt_get(&c.out[0], i), whole[i]);
  kt_end(&c);
  kt_free(&x);
  kt_free(&l);
}

/* --- places --- */

static void running_sums_match(void **state) {
  static const indexed all[] = {{"f32[4,9]", "", 1, 0}, {"f32[3,50,70]", "", 1, 0}, {"f64[9]", "", 0, 0},
                                {"i32[3,4]", "", 0, 0}, {"u8[300]", "", 0, 0},      {"bool[9]", "", 0, 0},
                                {"f32[2,0]", "", 1, 0}, {"i64[5,3]", "", 0, 0},     {"f32[0,4]", "", 1, 0}};
  (void)state;
  for (size_t t = 0; t < sizeof all / sizeof all[0] * 2; t++) {
    const indexed *c = &all[t / 2];
    bool reverse = t % 2;
    kt_value x = kt_make(c->table);
    kt_call s;
    kt_fill(&x, x.desc.dtype == NEAP_BOOL ? 2 : 9, 3);
    kt_call_op(&s, "running_sum", KT_OPTS(NEAP_INT(c->dim), NEAP_INT(reverse)), 1, &x);
    assert_int_equal(s.out[0].desc.dtype, neap__dtype_is_float(x.desc.dtype) ? x.desc.dtype : NEAP_I64);
    for (int64_t i = 0; i < kt_count(&x); i++) {
      int64_t at[NEAP_MAX_DIMS] = {0}, end, step = reverse ? -1 : 1;
      double sum = 0;
      to_indices(&x.desc.shape, i, at);
      end = at[c->dim] + step;
      for (at[c->dim] = reverse ? x.desc.shape.dim[c->dim] - 1 : 0; at[c->dim] != end; at[c->dim] += step)
        sum += kt_get(&x, to_place(&x.desc.shape, at));
      expect(&s.out[0], i, x.desc.dtype == NEAP_F32 ? (double)(float)sum : sum, c, "running_sum");
    }
    kt_assert_any_order(&s);
    kt_end(&s);
    kt_free(&x);
  }
}

static void dimensions_are_reversed(void **state) {
  static const indexed all[] = {{"f32[4,9]", "", 1, 0}, {"f32[4,9]", "", 0, 0},  {"f64[2,5,3]", "", 1, 0},
                                {"u8[11]", "", 0, 0},   {"f32[0,3]", "", 0, 0},  {"i64[5,2]", "", 1, 0},
                                {"f32[3,0]", "", 0, 0}, {"bool[2,3]", "", 0, 0}, {"f32[2,3000]", "", 1, 0}};
  (void)state;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++) {
    const indexed *c = &all[t];
    kt_value x = kt_make(c->table);
    kt_call s;
    kt_fill(&x, x.desc.dtype == NEAP_BOOL ? 2 : 9, 3);
    kt_call_op(&s, "reverse", KT_OPTS(NEAP_INT(c->dim)), 1, &x);
    for (int64_t i = 0; i < kt_count(&x); i++) {
      int64_t at[NEAP_MAX_DIMS] = {0};
      to_indices(&x.desc.shape, i, at);
      at[c->dim] = x.desc.shape.dim[c->dim] - 1 - at[c->dim];
      expect(&s.out[0], i, kt_get(&x, to_place(&x.desc.shape, at)), c, "reverse");
    }
    kt_assert_any_order(&s);
    kt_end(&s);
    kt_free(&x);
  }
}

static void assert_triangle(const kt_value *got, const kt_value *x, int64_t diagonal, bool upper) {
  int32_t n = x->desc.shape.ndim;
  for (int64_t i = 0; i < kt_count(x); i++) {
    int64_t at[NEAP_MAX_DIMS] = {0};
    to_indices(&x->desc.shape, i, at);
    int64_t beyond = at[n - 1] - at[n - 2];
    bool kept = upper ? beyond >= diagonal : beyond <= diagonal;
    assert_true(kt_get(got, i) == (kept ? kt_get(x, i) : 0));
  }
}

static void check_triangle(const char *spec, int64_t diagonal, bool upper) {
  kt_value x = kt_make(spec);
  kt_call s;
  kt_fill(&x, x.desc.dtype == NEAP_BOOL ? 2 : 9, 3);
  kt_call_op(&s, upper ? "triu" : "tril", KT_OPTS(NEAP_INT(diagonal)), 1, &x);
  assert_triangle(&s.out[0], &x, diagonal, upper);
  kt_assert_any_order(&s);
  memcpy(s.out[0].data, x.data, neap__desc_bytes(&x.desc));
  s.in[0].data = s.out[0].data; /* in place */
  kt_run(&s);
  assert_triangle(&s.out[0], &x, diagonal, upper);
  kt_end(&s);
  kt_free(&x);
}

static void triangles_are_cut(void **state) {
  static const char *const all[] = {"f32[3,4]", "f64[2,4,3]", "bool[5,5]", "f32[0,3]", "f32[3,0]", "i64[300,7]"};
  static const int64_t diagonals[] = {0, 1, -1, 3, -3, 100, -100, INT64_MAX, INT64_MIN};
  (void)state;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++)
    for (size_t d = 0; d < sizeof diagonals / sizeof diagonals[0]; d++) {
      check_triangle(all[t], diagonals[d], true);
      check_triangle(all[t], diagonals[d], false);
    }
}

static void classes_become_vectors(void **state) {
  kt_value x = kt_make("i64[300,2]");
  kt_call c;
  (void)state;
  kt_fill(&x, 7, 3);
  kt_call_op(&c, "one_hot", KT_OPTS(NEAP_INT(7)), 1, &x);
  assert_int_equal(c.out[0].desc.dtype, NEAP_I64);
  for (int64_t i = 0; i < kt_count(&c.out[0]); i++)
    assert_true(kt_get(&c.out[0], i) == (kt_get(&x, i / 7) == (double)(i % 7)));
  kt_assert_any_order(&c);
  kt_end(&c);
  kt_free(&x);
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(entries_are_selected),
      cmocka_unit_test(entries_are_added),
      cmocka_unit_test(sums_go_on_over_launches),
      cmocka_unit_test(embedding_reads_rows),
      cmocka_unit_test(elements_are_gathered),
      cmocka_unit_test(elements_are_scattered),
      cmocka_unit_test(indices_out_of_range_are_told),
      cmocka_unit_test(wrong_shapes_and_dtypes_are_named),
      cmocka_unit_test(elements_are_ordered),
      cmocka_unit_test(special_values_have_their_place),
      cmocka_unit_test(running_sums_match),
      cmocka_unit_test(dimensions_are_reversed),
      cmocka_unit_test(triangles_are_cut),
      cmocka_unit_test(classes_become_vectors),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
