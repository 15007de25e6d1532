/* Dtypes, shapes, storages and views. */
#include "memory_stack.h"
#include "tensor/tensor.h"

static neap_shape shape(int32_t ndim, const int64_t *dim) {
  neap_shape s = {.ndim = ndim};
  for (int32_t i = 0; i < ndim; i++) s.dim[i] = dim[i];
  return s;
}

#define SHAPE(...) shape((int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static void same_shape(const neap_shape *a, const neap_shape *b) {
  char x[200], y[200];
  assert_string_equal(neap__shape_text(a, x, sizeof x), neap__shape_text(b, y, sizeof y));
}

static void dtypes_have_names_and_sizes(void **state) {
  static const struct {
    neap_dtype t;
    const char *name;
    size_t size;
    bool is_float;
  } all[] = {{NEAP_F32, "fp32", 4, true},    {NEAP_F64, "fp64", 8, true},     {NEAP_I64, "int64", 8, false},
             {NEAP_I32, "int32", 4, false},  {NEAP_U8, "uint8", 1, false},    {NEAP_BOOL, "bool", 1, false},
             {NEAP_F16, "fp16", 2, true},    {NEAP_BF16, "bf16", 2, true},    {NEAP_F32, "float32", 4, true},
             {NEAP_F64, "float64", 8, true}, {NEAP_BF16, "bfloat16", 2, true}};
  neap_dtype t;
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    assert_true(neap__dtype_parse(all[i].name, &t));
    assert_int_equal(t, all[i].t);
    assert_int_equal(neap__dtype_size(t), all[i].size);
    assert_int_equal(neap__dtype_is_float(t), all[i].is_float);
    if (i < NEAP_DTYPE_COUNT) assert_string_equal(neap__dtype_name(t), all[i].name);
  }
  assert_false(neap__dtype_parse("float", &t));
  assert_false(neap__dtype_parse("", &t));
  assert_string_equal(neap__dtype_name((neap_dtype)77), "unknown");
  assert_int_equal(neap__dtype_size((neap_dtype)-1), 0);
}

static void promotion_is_symmetric_and_never_narrows(void **state) {
  (void)state;
  for (int a = 0; a < NEAP_DTYPE_COUNT; a++) {
    assert_int_equal(neap__dtype_promote((neap_dtype)a, (neap_dtype)a), a);
    for (int b = 0; b < NEAP_DTYPE_COUNT; b++) {
      const neap_dtype t = neap__dtype_promote((neap_dtype)a, (neap_dtype)b);
      assert_int_equal(neap__dtype_promote((neap_dtype)b, (neap_dtype)a), t);
      assert_int_equal(neap__dtype_promote(t, (neap_dtype)a), t);
      if (neap__dtype_is_float((neap_dtype)a)) assert_true(neap__dtype_is_float(t));
    }
  }
  assert_int_equal(neap__dtype_promote(NEAP_F16, NEAP_BF16), NEAP_F32);
  assert_int_equal(neap__dtype_promote(NEAP_I64, NEAP_F16), NEAP_F16);
  assert_int_equal(neap__dtype_promote(NEAP_BOOL, NEAP_U8), NEAP_U8);
  assert_int_equal(neap__dtype_promote(NEAP_U8, NEAP_I32), NEAP_I32);
  assert_int_equal(neap__dtype_promote(NEAP_F32, NEAP_F64), NEAP_F64);
}

static void impossible_descriptions_are_refused(void **state) {
  static const struct {
    neap_status expected;
    neap_desc d;
    const char *says;
  } all[] = {
      {NEAP_OK, {NEAP_F32, {0, {0}}}, ""},
      {NEAP_OK, {NEAP_F32, {2, {0, 5}}}, ""},
      {NEAP_OK, {NEAP_U8, {1, {INT64_C(1) << 62}}}, ""},
      {NEAP_RANGE, {NEAP_U8, {1, {(INT64_C(1) << 62) + 1}}}, "[4611686018427387905] of uint8"},
      {NEAP_RANGE, {NEAP_F64, {2, {INT64_C(1) << 31, INT64_C(1) << 30}}}, "2^62"},
      {NEAP_RANGE, {NEAP_F32, {3, {0, INT64_MAX, INT64_MAX}}}, "too large"},
      {NEAP_SHAPE, {NEAP_F32, {2, {3, -1}}}, "dimension 1 of shape [3, -1] is negative"},
      {NEAP_SHAPE, {NEAP_F32, {NEAP_MAX_DIMS + 1, {1}}}, "9 dimensions"},
      {NEAP_SHAPE, {NEAP_F32, {-1, {1}}}, "-1 dimensions"},
      {NEAP_DTYPE, {(neap_dtype)8, {1, {1}}}, "dtype number 8"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    neap_error e = {.status = NEAP_OK};
    assert_int_equal(neap__desc_check(&all[i].d, &e), all[i].expected);
    assert_non_null(strstr(e.message, all[i].says));
    assert_int_equal(neap__desc_check(&all[i].d, NULL), all[i].expected);
  }
}

static void shape_text_fits_any_buffer(void **state) {
  const neap_shape s = SHAPE(2, 30, 4), none = {.ndim = 0};
  char buf[32];
  (void)state;
  assert_string_equal(neap__shape_text(&s, buf, sizeof buf), "[2, 30, 4]");
  assert_string_equal(neap__shape_text(&none, buf, sizeof buf), "[]");
  for (size_t size = 1; size < sizeof buf; size++) {
    memset(buf, '?', sizeof buf);
    neap__shape_text(&s, buf, size);
    assert_true(strlen(buf) < size);
    assert_int_equal(strncmp(buf, "[2, 30, 4]", strlen(buf)), 0);
  }
}

static void broadcasting_is_numpys(void **state) {
  neap_shape out, a = SHAPE(4, 1, 3), b = SHAPE(2, 1), expected = SHAPE(4, 2, 3);
  const neap_shape scalar = {.ndim = 0}, zero = SHAPE(0, 3), five = SHAPE(5, 3), one = SHAPE(1, 3);
  neap_error e;
  (void)state;
  assert_int_equal(neap__broadcast(&a, &b, &out, &e), NEAP_OK);
  same_shape(&out, &expected);
  assert_int_equal(neap__broadcast(&b, &a, &out, &e), NEAP_OK);
  same_shape(&out, &expected);
  assert_int_equal(neap__broadcast(&scalar, &a, &out, &e), NEAP_OK);
  same_shape(&out, &a);
  assert_int_equal(neap__broadcast(&zero, &one, &out, &e), NEAP_OK);
  same_shape(&out, &zero);
  out = a;
  assert_int_equal(neap__broadcast(&zero, &five, &out, &e), NEAP_SHAPE);
  assert_non_null(strstr(e.message, "[0, 3] and [5, 3]"));
  same_shape(&out, &a);
}

static void dims_count_from_both_ends(void **state) {
  neap_error e;
  int32_t d = 7;
  (void)state;
  for (int32_t i = -3; i < 3; i++) {
    assert_int_equal(neap__dim_resolve(i, 3, &d, &e), NEAP_OK);
    assert_int_equal(d, (i + 3) % 3);
  }
  assert_int_equal(neap__dim_resolve(-1, 0, &d, &e), NEAP_OK);
  assert_int_equal(d, 0);
  d = 7;
  assert_int_equal(neap__dim_resolve(3, 3, &d, &e), NEAP_RANGE);
  assert_non_null(strstr(e.message, "dim 3"));
  assert_int_equal(neap__dim_resolve(-4, 3, &d, &e), NEAP_RANGE);
  assert_int_equal(neap__dim_resolve(INT64_MIN, 3, &d, NULL), NEAP_RANGE);
  assert_int_equal(neap__dim_resolve(1, 0, &d, NULL), NEAP_RANGE);
  assert_int_equal(d, 7);
}

/* --- tensors, over a pool --------------------------------------------------------------------------- */

static int open_memory(void **state) {
  *state = open_stack("sbp", 16 * MIB);
  return 0;
}

static int close_memory(void **state) {
  memory_stack *s = *state;
  s->top->vt->trim(s->top, 0);
  assert_true(stats_of(s->top).in_use == 0);
  close_stack(s);
  return 0;
}

/* A tensor of float32 that counts up from 0. */
static neap_tensor counting(memory_stack *s, const neap_shape *sh) {
  const neap_desc d = {NEAP_F32, *sh};
  neap_tensor t;
  assert_int_equal(neap__tensor_create(&s->host.host, s->top, &d, NEAP_OWNER_TENSORS, &t, NULL), NEAP_OK);
  float *p = (float *)(void *)neap__tensor_data(&t);
  for (int64_t i = 0; i < neap__shape_count(sh); i++) p[i] = (float)i;
  return t;
}

static double at(const neap_tensor *t, int64_t i, int64_t j) {
  const float *p = (const float *)(void *)neap__tensor_data(t);
  return (double)p[i * t->stride[0] + j * t->stride[1]];
}

static void tensors_give_back_what_they_take(void **state) {
  memory_stack *s = *state;
  const neap_shape sh = SHAPE(3, 5), none = SHAPE(3, 0);
  neap_tensor t = counting(s, &sh), empty = counting(s, &none);
  assert_true(stats_of(s->top).by_owner[NEAP_OWNER_TENSORS] == 64);
  assert_true((uintptr_t)neap__tensor_data(&t) % NEAP_ALIGN == 0);
  assert_null(neap__tensor_data(&empty));
  assert_true(t.storage->serial != empty.storage->serial);
  assert_ptr_equal(neap__storage_retain(t.storage), t.storage);
  neap__storage_drop(t.storage);
  assert_true(stats_of(s->top).in_use == 64);
  neap__storage_drop(t.storage);
  neap__storage_drop(empty.storage);
  neap__storage_drop(NULL);
}

static void closing_gives_bytes_back_at_once(void **state) {
  memory_stack *s = *state;
  const neap_shape sh = SHAPE(64);
  neap_tensor t = counting(s, &sh);
  neap__storage_close(t.storage);
  assert_true(stats_of(s->top).in_use == 0);
  assert_true(t.storage->closed);
  assert_null(neap__tensor_data(&t));
  neap__storage_close(t.storage);
  neap__storage_drop(t.storage);
}

static void borrowed_memory_is_left_alone(void **state) {
  memory_stack *s = *state;
  float mine[4] = {1, 2, 3, 4};
  neap_storage *b;
  assert_int_equal(neap__storage_borrow(&s->host.host, mine, sizeof mine, &b, NULL), NEAP_OK);
  assert_ptr_equal(b->data, mine);
  neap__storage_drop(b);
  assert_true(mine[3] == 4);
}

static void storages_move_into_a_parent(void **state) {
  memory_stack *s = *state;
  neap_storage *child, *flat;
  neap_host *h = &s->host.host;
  assert_int_equal(neap__storage_create(h, s->top, 64, NEAP_OWNER_TENSORS, &child, NULL), NEAP_OK);
  assert_int_equal(neap__storage_create(h, s->top, 256, NEAP_OWNER_PARAMETERS, &flat, NULL), NEAP_OK);
  char *place = (char *)flat->data + 128;
  const uint64_t serial = child->serial;
  neap__storage_rebind(child, flat, place);
  assert_true(stats_of(s->top).in_use == 256);
  assert_true(child->data == place && child->serial == serial && child->bytes == 64);
  neap__storage_drop(flat); /* the child keeps it */
  assert_true(stats_of(s->top).in_use == 256);
  neap__storage_rebind(child, child->parent, place - 64); /* within the parent whose last reference it holds */
  assert_true(child->data == place - 64 && stats_of(s->top).in_use == 256);
  neap__storage_drop(child);
}

static void refusals_leave_nothing(void **state) {
  memory_stack *s = *state;
  const neap_desc d = {NEAP_F32, SHAPE(1024)}, large = {NEAP_F32, SHAPE(32 << 20)}, bad = {NEAP_F32, SHAPE(-1)};
  neap_tensor t;
  neap_error e;
  neap_storage *warm; /* the pool makes its own records at the first request, and keeps them */
  assert_int_equal(neap__storage_create(&s->host.host, s->top, 64, NEAP_OWNER_TENSORS, &warm, NULL), NEAP_OK);
  neap__storage_drop(warm);
  const uint64_t before = s->host.host.in_use;
  assert_int_equal(neap__tensor_create(&s->host.host, s->top, &large, NEAP_OWNER_TENSORS, &t, &e), NEAP_OOM);
  assert_int_equal(neap__tensor_create(&s->host.host, s->top, &bad, NEAP_OWNER_TENSORS, &t, &e), NEAP_SHAPE);
  assert_true(s->host.host.in_use == before);
  s->host.until = 1;
  assert_int_equal(neap__tensor_create(&s->host.host, s->top, &d, NEAP_OWNER_TENSORS, &t, &e), NEAP_NOMEM);
  assert_non_null(strstr(e.message, "storage"));
  s->host.until = 1;
  assert_int_equal(neap__storage_borrow(&s->host.host, &e, 1, &t.storage, &e), NEAP_NOMEM);
  assert_true(s->host.host.in_use == before);
}

static void views_find_their_elements(void **state) {
  memory_stack *s = *state;
  const neap_shape sh = SHAPE(2, 3, 4);
  neap_tensor t = counting(s, &sh), v, w;
  assert_true(neap__tensor_dense(&t));
  assert_int_equal(neap__tensor_select(&t, 1, 2, &v, NULL), NEAP_OK); /* [2, 4]: 12 i + 8 + j */
  assert_int_equal(v.shape.ndim, 2);
  assert_true(at(&v, 1, 3) == 23 && at(&v, 0, 0) == 8);
  assert_false(neap__tensor_dense(&v));
  assert_int_equal(neap__tensor_narrow(&v, -1, 1, 2, &w, NULL), NEAP_OK);
  assert_true(at(&w, 1, 1) == 22 && w.shape.dim[1] == 2);
  assert_int_equal(neap__tensor_select(&t, 0, 1, &v, NULL), NEAP_OK);
  assert_true(neap__tensor_dense(&v) && at(&v, 2, 3) == 23);
  assert_int_equal(neap__tensor_narrow(&t, 0, 2, 0, &v, NULL), NEAP_OK);
  assert_true(neap__tensor_dense(&v) && neap__shape_count(&v.shape) == 0);
  assert_int_equal(t.storage->refs, 1);
  neap__storage_drop(t.storage);
}

static void views_outside_are_refused(void **state) {
  memory_stack *s = *state;
  const neap_shape sh = SHAPE(2, 3), scalar = {.ndim = 0};
  neap_tensor t = counting(s, &sh), point = counting(s, &scalar), v;
  neap_error e;
  assert_int_equal(neap__tensor_narrow(&t, 1, 2, 2, &v, &e), NEAP_RANGE);
  assert_non_null(strstr(e.message, "start 2 and length 2"));
  assert_int_equal(neap__tensor_narrow(&t, 1, -1, 1, &v, &e), NEAP_RANGE);
  assert_int_equal(neap__tensor_narrow(&t, 1, 0, -1, &v, &e), NEAP_RANGE);
  assert_int_equal(neap__tensor_narrow(&t, 1, 1, INT64_MAX, &v, &e), NEAP_RANGE);
  assert_int_equal(neap__tensor_narrow(&t, 2, 0, 1, &v, &e), NEAP_RANGE);
  assert_int_equal(neap__tensor_narrow(&point, 0, 0, 1, &v, &e), NEAP_SHAPE);
  assert_int_equal(neap__tensor_select(&t, 0, 2, &v, &e), NEAP_RANGE);
  assert_int_equal(neap__tensor_select(&t, 0, -1, &v, &e), NEAP_RANGE);
  assert_int_equal(neap__tensor_select(&point, 0, 0, &v, &e), NEAP_SHAPE);
  neap__storage_drop(t.storage);
  neap__storage_drop(point.storage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dtypes_have_names_and_sizes),
      cmocka_unit_test(promotion_is_symmetric_and_never_narrows),
      cmocka_unit_test(impossible_descriptions_are_refused),
      cmocka_unit_test(shape_text_fits_any_buffer),
      cmocka_unit_test(broadcasting_is_numpys),
      cmocka_unit_test(dims_count_from_both_ends),
      cmocka_unit_test_setup_teardown(tensors_give_back_what_they_take, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(closing_gives_bytes_back_at_once, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(borrowed_memory_is_left_alone, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(storages_move_into_a_parent, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(refusals_leave_nothing, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(views_find_their_elements, open_memory, close_memory),
      cmocka_unit_test_setup_teardown(views_outside_are_refused, open_memory, close_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
