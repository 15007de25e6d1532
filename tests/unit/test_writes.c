/* What a graph writes to tensors: at the end of a run, after all that can fail, and all or nothing. */
#include "fail_host.h"
#include "net.h"

enum { N = 1 << 16 };

/* Two tensors that change places, plus what is done to the first on the way, and rows that are looked up. */
typedef struct swap {
  neap_context *c;
  neap_tensor a, b, table;
  neap_graph *g;
} swap;

static void swap_tensors(swap *s, neap_context *c) {
  const int64_t n = N;
  s->c = c;
  s->a = net_tensor(c, NEAP_F32, &n, 1);
  s->b = net_tensor(c, NEAP_F32, &n, 1);
  s->table = net_tensor(c, NEAP_F32, (int64_t[]){4, N}, 2);
  net_fill(s->a.storage->data, N, 1);
  net_fill(s->b.storage->data, N, 2);
  net_fill(s->table.storage->data, 4 * N, 3);
}

/* Input: a row of the table. Outputs: a, and the row times b. a becomes tanh(b), b becomes a. */
static neap_graph *swap_graph(const swap *s) {
  neap_graph *g = neap__graph_create(&s->c->host);
  if (!g) return NULL;
  const neap_desc index = {.dtype = NEAP_I64, .shape = {1, {1}}};
  const neap_id row = neap__graph_input(g, &index), a = neap__graph_capture(g, &s->a),
                b = neap__graph_capture(g, &s->b), table = neap__graph_capture(g, &s->table);
  neap_opt opt[NEAP_MAX_OPTS] = {NEAP_INT(0)};
  const neap_id picked = neap__build(g, &neap__op_index_select, (neap_id[]){table, row}, 2, opt);
  neap__graph_where(g, "", "script.lua:7");
  neap__graph_write(g, a, b);
  neap__graph_write(g, neap__build1(g, &neap__op_tanh, b), a);
  neap__graph_output(g, a);
  neap__graph_output(g, neap__build2(g, &neap__op_mul, picked, b));
  return g;
}

static void swap_open(swap *s, uint32_t threads) {
  swap_tensors(s, net_context(threads, 0));
  s->g = swap_graph(s);
  assert_non_null(s->g);
  assert_int_equal(s->g->error.status, NEAP_OK);
  assert_int_equal(s->g->n_writes, 2);
}

static void swap_close(swap *s) {
  neap__graph_drop(s->g);
  neap__storage_drop(s->a.storage);
  neap__storage_drop(s->b.storage);
  neap__storage_drop(s->table.storage);
  neap__context_destroy(s->c);
}

typedef struct snapshot {
  float a[N], b[N];
} snapshot;

static bool same_bits(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

static snapshot take(const swap *s) {
  snapshot k;
  memcpy(k.a, s->a.storage->data, sizeof k.a);
  memcpy(k.b, s->b.storage->data, sizeof k.b);
  return k;
}

static bool unchanged(const swap *s, const snapshot *k) {
  return same_bits(k->a, s->a.storage->data, sizeof k->a) && same_bits(k->b, s->b.storage->data, sizeof k->b);
}

static bool swapped(const swap *s, const snapshot *k) {
  const float *a = s->a.storage->data;
  for (int i = 0; i < N; i++)
    if (fabs((double)a[i] - tanh((double)k->b[i])) > 1e-6) return false;
  return same_bits(k->a, s->b.storage->data, sizeof k->a);
}

static neap_status run(neap_program *p, int64_t row, float *first, float *second, neap_error *err) {
  const void *inputs[] = {&row};
  void *outputs[] = {first, second};
  return neap__program_run(p, inputs, outputs, err);
}

static neap_program *program_of(swap *s) {
  neap_program *p = NULL;
  neap_error err = {0};
  assert_int_equal(neap__program_create(s->c, &(neap_program_spec){.graph = s->g}, &p, &err), NEAP_OK);
  return p;
}

static float first[N], second[N];

static void a_run_sees_what_was_before_it(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 3; threads++) {
    swap s;
    neap_error err = {0};
    swap_open(&s, threads);
    neap_program *p = program_of(&s);
    for (int turn = 0; turn < 3; turn++) {
      const snapshot before = take(&s);
      assert_int_equal(run(p, 2, first, second, &err), NEAP_OK);
      assert_true(swapped(&s, &before));
      assert_memory_equal(first, before.a, sizeof first);
      const float *row = (const float *)s.table.storage->data + 2 * N;
      for (int i = 0; i < N; i++) assert_true(second[i] == row[i] * before.b[i]);
    }
    neap__program_destroy(p);
    swap_close(&s);
  }
}

static void threads_write_the_same_bits(void **state) {
  (void)state;
  snapshot one;
  for (uint32_t threads = 1; threads <= 3; threads++) {
    swap s;
    neap_error err = {0};
    swap_open(&s, threads);
    neap_program *p = program_of(&s);
    for (int turn = 0; turn < 3; turn++) assert_int_equal(run(p, 1, first, second, &err), NEAP_OK);
    if (threads == 1) one = take(&s);
    assert_true(unchanged(&s, &one));
    neap__program_destroy(p);
    swap_close(&s);
  }
}

static void a_run_that_fails_or_is_dropped_writes_nothing(void **state) {
  (void)state;
  swap s;
  neap_run r;
  neap_error err = {0};
  swap_open(&s, 2);
  neap_program *p = program_of(&s);
  const snapshot before = take(&s);
  assert_int_equal(run(p, 4, first, second, &err), NEAP_RANGE);
  assert_true(unchanged(&s, &before));
  const int64_t row = 1;
  const void *inputs[] = {&row};
  void *outputs[] = {first, second};
  assert_int_equal(neap__run_begin(&r, p, &s.c->infer, inputs, outputs, &err), NEAP_OK);
  assert_int_equal(neap__run_step(&r, 0, &err), NEAP_OK);
  assert_false(r.done);
  assert_int_equal(neap__run_commit(&r, &err), NEAP_INTERNAL);
  while (!r.done) assert_int_equal(neap__run_step(&r, 0, &err), NEAP_OK);
  assert_true(unchanged(&s, &before));
  neap__run_end(&r);
  assert_true(unchanged(&s, &before));
  assert_int_equal(neap__run_commit(&r, &err), NEAP_INTERNAL);
  assert_int_equal(run(p, 1, first, second, &err), NEAP_OK);
  assert_true(swapped(&s, &before));
  neap__program_destroy(p);
  swap_close(&s);
}

static void a_closed_tensor_stops_a_run_before_it_begins(void **state) {
  (void)state;
  swap s;
  neap_error err = {0};
  swap_open(&s, 1);
  neap_program *p = program_of(&s);
  const snapshot before = take(&s);
  neap__storage_close(s.b.storage);
  assert_int_equal(run(p, 1, first, second, &err), NEAP_CLOSED);
  assert_memory_equal(before.a, s.a.storage->data, sizeof before.a);
  neap__program_destroy(p);
  swap_close(&s);
}

/* From nothing to written, with the n-th request refused, for every n. */
static neap_status whole(swap *s, neap_error *err) {
  neap_program *p = NULL;
  neap_graph *g = swap_graph(s);
  neap_status st = g ? g->error.status : NEAP_NOMEM;
  if (st == NEAP_OK) st = neap__program_create(s->c, &(neap_program_spec){.graph = g}, &p, err);
  neap__graph_drop(g);
  if (st == NEAP_OK) st = run(p, 3, first, second, err);
  neap__program_destroy(p);
  return st;
}

static void a_refused_allocation_changes_nothing(void **state) {
  (void)state;
  fail_host h;
  neap_config config = {
      .size = sizeof config, .device = "cpu", .threads = 2, .alloc = fail_host_alloc, .alloc_user = &h};
  neap_context *c = NULL;
  neap_error err = {0};
  fail_host_init(&h);
  assert_int_equal(neap__context_create(&config, &c, &err), NEAP_OK);
  swap s;
  swap_tensors(&s, c);
  neap_status st = NEAP_NOMEM;
  int refused = 0;
  for (uint64_t n = 1; st != NEAP_OK; n++, refused++) {
    const snapshot before = take(&s);
    const uint64_t blocks = h.blocks;
    h.until = n;
    st = whole(&s, &err);
    h.until = 0;
    assert_true(st == NEAP_OK ? swapped(&s, &before) : unchanged(&s, &before));
    if (st != NEAP_OK) assert_int_equal(st, NEAP_NOMEM);
    assert_true(h.blocks <= blocks + 4); /* what kernels and pools keep for later, but no program */
  }
  assert_true(refused > 10);
  s.g = NULL;
  swap_close(&s);
  assert_int_equal(h.blocks, 0);
  assert_int_equal(h.wrong, 0);
}

static void a_refused_arena_changes_nothing(void **state) {
  (void)state;
  swap s;
  neap_error err = {0};
  swap_open(&s, 1);
  neap_program *p = program_of(&s);
  const snapshot before = take(&s);
  neap__context_release(s.c);
  neap__fault_set(s.c->fault, 1, 1);
  assert_int_equal(run(p, 1, first, second, &err), NEAP_OOM);
  assert_true(unchanged(&s, &before));
  neap__fault_set(s.c->fault, 0, 0);
  assert_int_equal(run(p, 1, first, second, &err), NEAP_OK);
  assert_true(swapped(&s, &before));
  neap__program_destroy(p);
  swap_close(&s);
}

static void cached_programs_are_told_apart_and_keep_no_tensor(void **state) {
  (void)state;
  swap s;
  neap_error err = {0};
  neap_program *writes, *plain, *again;
  swap_open(&s, 1);
  const uint32_t refs = s.a.storage->refs;
  neap_graph *other = swap_graph(&s), *same = swap_graph(&s);
  other->n_writes = 0;
  assert_int_equal(neap__program_cached(s.c, s.g, &writes, &err), NEAP_OK);
  assert_int_equal(neap__program_cached(s.c, other, &plain, &err), NEAP_OK);
  assert_ptr_not_equal(writes, plain);
  assert_int_equal(neap__program_cached(s.c, same, &again, &err), NEAP_OK);
  assert_ptr_equal(writes, again);
  const snapshot before = take(&s);
  assert_int_equal(run(again, 0, first, second, &err), NEAP_OK);
  assert_true(swapped(&s, &before));
  neap__graph_drop(other);
  neap__graph_drop(same);
  assert_int_equal(s.a.storage->refs, refs);
  swap_close(&s);
}

static void a_write_is_checked_and_the_last_counts(void **state) {
  (void)state;
  swap s;
  swap_open(&s, 1);
  neap_graph *g = s.g;
  const neap_id a = neap__graph_capture(g, &s.a), b = neap__graph_capture(g, &s.b),
                t = neap__graph_capture(g, &s.table);
  const neap_id value = g->writes[1].value;
  neap__graph_write(g, value, b);
  assert_int_equal(g->n_writes, 2);
  assert_int_equal(g->writes[0].target, a);
  assert_int_equal(g->writes[1].target, b);
  assert_int_equal(g->writes[1].value, value);
  assert_string_equal(g->writes[1].where, "script.lua:7");
  neap__graph_write(g, value, t);
  assert_int_equal(g->error.status, NEAP_SHAPE);
  assert_non_null(strstr(g->error.message, "[4, 65536]"));
  neap__error_clear(&g->error);
  neap__graph_write(g, a, value);
  assert_int_equal(g->error.status, NEAP_INVALID);
  neap__error_clear(&g->error);
  neap__graph_write(g, neap__graph_const(g, NEAP_F64, 1), a);
  assert_int_equal(g->error.status, NEAP_SHAPE);
  neap__error_clear(&g->error);
  assert_int_equal(g->n_writes, 2);
  swap_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_sees_what_was_before_it),
      cmocka_unit_test(threads_write_the_same_bits),
      cmocka_unit_test(a_run_that_fails_or_is_dropped_writes_nothing),
      cmocka_unit_test(a_closed_tensor_stops_a_run_before_it_begins),
      cmocka_unit_test(a_refused_allocation_changes_nothing),
      cmocka_unit_test(a_refused_arena_changes_nothing),
      cmocka_unit_test(cached_programs_are_told_apart_and_keep_no_tensor),
      cmocka_unit_test(a_write_is_checked_and_the_last_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
