/* One suite for every stack of resources: what a caller may rely on, whatever lies below. */
#include "memory_stack.h"

static const char *const stacks[] = {"s", "sb", "sf", "st", "sp", "sfbp", "sfbpt", "sfbptp"};

#define LIMIT (16 * MIB)

static int open_from_state(void **state) {
  *state = open_stack(*state, LIMIT);
  return 0;
}

static int close_from_state(void **state) {
  check_stack(*state);
  close_stack(*state);
  return 0;
}

static void same_but_for_refusals(const neap_memory_stats *a, const neap_memory_stats *b) {
  assert_true(a->in_use == b->in_use && a->peak == b->peak && a->count == b->count);
  assert_memory_equal(a->by_owner, b->by_owner, sizeof a->by_owner);
}

static void grants_are_aligned_writable_and_counted(void **state) {
  static const size_t sizes[] = {1, 63, 64, 65, 1000, 8192, 8193, 65536, 100001, 1 << 20, 3 << 20};
  memory_stack *s = *state;
  char *p[sizeof sizes / sizeof sizes[0]];
  uint64_t sum = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const neap_owner owner = (neap_owner)(i % NEAP_OWNER_COUNT);
    const uint64_t before = stats_of(s->top).by_owner[owner];
    void *q;
    assert_int_equal(neap__reserve(s->top, sizes[i], owner, &q, NULL), NEAP_OK);
    p[i] = q;
    assert_true((uintptr_t)p[i] % NEAP_ALIGN == 0);
    memset(p[i], (int)i, neap__align_up(sizes[i]));
    sum += neap__align_up(sizes[i]);
    assert_true(stats_of(s->top).in_use == sum);
    assert_true(stats_of(s->top).by_owner[owner] == before + neap__align_up(sizes[i]));
    check_stack(s);
  }
  assert_true(stats_of(s->top).count == sizeof sizes / sizeof sizes[0]);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    for (size_t k = 0; k < neap__align_up(sizes[i]); k++) assert_int_equal(p[i][k], i);
    neap__release(s->top, p[i], sizes[i], (neap_owner)(i % NEAP_OWNER_COUNT));
    check_stack(s);
  }
  assert_true(stats_of(s->top).in_use == 0);
}

static void nonsense_is_refused(void **state) {
  memory_stack *s = *state;
  const neap_memory_stats before = stats_of(s->top);
  neap_memory_stats after;
  neap_error e;
  void *p;
  assert_int_equal(neap__reserve(s->top, 0, NEAP_OWNER_TENSORS, &p, &e), NEAP_INVALID);
  assert_int_equal(neap__reserve(s->top, 64, NEAP_OWNER_COUNT, &p, &e), NEAP_INVALID);
  assert_int_equal(neap__reserve(s->top, 64, (neap_owner)-1, &p, NULL), NEAP_INVALID);
  assert_int_equal(neap__reserve(s->top, SIZE_MAX, NEAP_OWNER_TENSORS, &p, &e), NEAP_OOM);
  assert_true(e.bytes == SIZE_MAX);
  assert_int_equal(neap__reserve(s->top, SIZE_MAX / 2 - 100, NEAP_OWNER_TENSORS, &p, &e), NEAP_OOM);
  after = stats_of(s->top);
  same_but_for_refusals(&before, &after);
  neap__release(s->top, NULL, 64, NEAP_OWNER_TENSORS);
}

static void a_refusal_changes_nothing(void **state) {
  memory_stack *s = *state;
  neap_memory_stats before, after;
  neap_error e;
  void *held, *p = &e;
  const size_t much = 300 * MIB + 5;
  assert_int_equal(neap__reserve(s->top, 5000, NEAP_OWNER_OPTIMIZER, &held, NULL), NEAP_OK);
  memset(held, 7, 5000);
  before = stats_of(s->top);
  assert_int_equal(neap__reserve(s->top, much, NEAP_OWNER_WORKSPACE, &p, &e), NEAP_OOM);
  assert_int_equal(e.status, NEAP_OOM);
  assert_true(e.bytes == much);
  assert_true(e.message[0] != '\0');
  assert_int_equal(neap__reserve(s->top, much, NEAP_OWNER_WORKSPACE, &p, NULL), NEAP_OOM);
  after = stats_of(s->top);
  same_but_for_refusals(&before, &after);
  assert_true(after.refused == before.refused + 2);
  for (int i = 0; i < 5000; i++) assert_int_equal(((char *)held)[i], 7);
  check_stack(s);
  assert_int_equal(neap__reserve(s->top, 5000, NEAP_OWNER_WORKSPACE, &p, NULL), NEAP_OK);
  neap__release(s->top, p, 5000, NEAP_OWNER_WORKSPACE);
  neap__release(s->top, held, 5000, NEAP_OWNER_OPTIMIZER);
}

static void peaks_stand_until_reset(void **state) {
  memory_stack *s = *state;
  void *p, *q;
  assert_int_equal(neap__reserve(s->top, MIB, NEAP_OWNER_TENSORS, &p, NULL), NEAP_OK);
  assert_int_equal(neap__reserve(s->top, 2 * MIB, NEAP_OWNER_TENSORS, &q, NULL), NEAP_OK);
  neap__release(s->top, q, 2 * MIB, NEAP_OWNER_TENSORS);
  s->top->vt->trim(s->top, 0);
  assert_true(stats_of(s->top).peak == 3 * MIB);
  s->top->vt->reset_peak(s->top);
  for (size_t i = 0; i < s->levels; i++) {
    const neap_memory_stats m = stats_of(s->level[i]);
    assert_true(m.peak == m.in_use);
    assert_true(m.reserved_peak == m.reserved);
  }
  assert_true(stats_of(s->top).peak == MIB);
  neap__release(s->top, p, MIB, NEAP_OWNER_TENSORS);
}

static void the_largest_free_request_succeeds(void **state) {
  memory_stack *s = *state;
  void *held, *p;
  uint64_t largest;
  assert_int_equal(neap__reserve(s->top, 12345, NEAP_OWNER_CACHE, &held, NULL), NEAP_OK);
  largest = stats_of(s->top).largest_free;
  assert_true(stats_of(s->top).limit == (s->budget ? LIMIT : UINT64_MAX));
  if (s->budget) {
    assert_true(largest >= LIMIT / 2 && largest < LIMIT);
    assert_int_equal(neap__reserve(s->top, largest + 1, NEAP_OWNER_CACHE, &p, NULL), NEAP_OOM);
    assert_int_equal(neap__reserve(s->top, largest, NEAP_OWNER_CACHE, &p, NULL), NEAP_OK);
    neap__release(s->top, p, largest, NEAP_OWNER_CACHE);
  } else {
    assert_true(largest == UINT64_MAX);
  }
  neap__release(s->top, held, 12345, NEAP_OWNER_CACHE);
}

static void trim_gives_all_back_to_the_system(void **state) {
  memory_stack *s = *state;
  void *p[40];
  uint64_t held;
  for (size_t i = 0; i < 40; i++)
    assert_int_equal(neap__reserve(s->top, 1 + i * i * 100, NEAP_OWNER_TENSORS, &p[i], NULL), NEAP_OK);
  for (size_t i = 0; i < 40; i += 2) neap__release(s->top, p[i], 1 + i * i * 100, NEAP_OWNER_TENSORS);
  s->top->vt->trim(s->top, 0);
  check_stack(s);
  for (size_t i = 1; i < 40; i += 2) neap__release(s->top, p[i], 1 + i * i * 100, NEAP_OWNER_TENSORS);
  held = s->raw.in_use;
  assert_true(s->top->vt->trim(s->top, held) == 0);
  assert_true(s->raw.in_use == held);
  assert_true(s->top->vt->trim(s->top, 0) == held);
  assert_true(s->raw.in_use == 0);
  for (size_t i = 0; i < s->levels; i++) assert_true(stats_of(s->level[i]).reserved == 0);
}

static void a_fault_below_is_survived(void **state) {
  memory_stack *s = *state;
  neap_error e;
  void *p;
  if (!s->fault) return; /* nothing to inject with */
  neap__fault_set(s->fault, 1, 1);
  assert_int_equal(neap__reserve(s->top, 100, NEAP_OWNER_TENSORS, &p, &e), NEAP_OOM);
  assert_true(e.bytes == 100);
  assert_true(s->raw.in_use == 0);
  check_stack(s);
  neap__fault_set(s->fault, 0, 0);
  assert_int_equal(neap__reserve(s->top, 100, NEAP_OWNER_TENSORS, &p, &e), NEAP_OK);
  neap__release(s->top, p, 100, NEAP_OWNER_TENSORS);
}

static void a_refused_layer_leaves_nothing(void **state) {
  memory_stack *s = *state;
  static const char kinds[] = "sbfpt";
  for (size_t i = 0; i < sizeof kinds - 1; i++) {
    neap_resource *top = s->top;
    const size_t levels = s->levels;
    s->host.until = 1;
    assert_int_equal(add_level(s, kinds[i], 1), NEAP_NOMEM);
    assert_null(s->level[levels]);
    assert_true(s->top == top && s->levels == levels);
  }
}

static int budget_only(void **state) {
  *state = open_stack("sb", 1000);
  return 0;
}

static void budget_is_exact_and_may_fall(void **state) {
  memory_stack *s = *state;
  neap_error e;
  void *p, *q;
  assert_true(stats_of(s->top).largest_free == 960);
  assert_int_equal(neap__reserve(s->top, 961, NEAP_OWNER_TENSORS, &p, &e), NEAP_OOM);
  assert_non_null(strstr(e.message, "961"));
  assert_non_null(strstr(e.message, "tensors"));
  assert_non_null(strstr(e.message, "1000 B"));
  assert_true(s->raw.asked == 0);
  assert_int_equal(neap__reserve(s->top, 897, NEAP_OWNER_TENSORS, &p, &e), NEAP_OK);
  assert_int_equal(neap__reserve(s->top, 1, NEAP_OWNER_TENSORS, &q, &e), NEAP_OOM);
  neap__budget_set(s->budget, 100);
  assert_true(stats_of(s->top).largest_free == 0 && stats_of(s->top).in_use == 960);
  assert_int_equal(neap__reserve(s->top, 1, NEAP_OWNER_TENSORS, &q, &e), NEAP_OOM);
  neap__release(s->top, p, 897, NEAP_OWNER_TENSORS);
  assert_int_equal(neap__reserve(s->top, 64, NEAP_OWNER_TENSORS, &p, &e), NEAP_OK);
  neap__release(s->top, p, 64, NEAP_OWNER_TENSORS);
  neap__budget_set(s->budget, UINT64_MAX);
  assert_int_equal(neap__reserve(s->top, 4096, NEAP_OWNER_TENSORS, &p, &e), NEAP_OK);
  neap__release(s->top, p, 4096, NEAP_OWNER_TENSORS);
}

static int fault_only(void **state) {
  *state = open_stack("sft", 0);
  return 0;
}

static unsigned refusals_of_ten(memory_stack *s) {
  unsigned map = 0;
  for (unsigned i = 0; i < 10; i++) {
    void *p;
    if (neap__reserve(s->top, 64, NEAP_OWNER_TENSORS, &p, NULL) == NEAP_OK)
      neap__release(s->top, p, 64, NEAP_OWNER_TENSORS);
    else
      map |= 1u << i;
  }
  return map;
}

static void faults_come_where_they_are_set(void **state) {
  memory_stack *s = *state;
  assert_int_equal(refusals_of_ten(s), 0);
  neap__fault_set(s->fault, 3, 0);
  assert_int_equal(refusals_of_ten(s), 0x004);
  neap__fault_set(s->fault, 3, 1);
  assert_int_equal(refusals_of_ten(s), 0x3fc);
  assert_int_equal(refusals_of_ten(s), 0x3ff);
  neap__fault_set(s->fault, 0, 1);
  assert_int_equal(refusals_of_ten(s), 0);
  assert_true(s->grants == 31 && s->releases == 31 && s->refusals == 19);
}

static void owners_have_names(void **state) {
  (void)state;
  assert_string_equal(neap__owner_name(NEAP_OWNER_PARAMETERS), "parameters");
  assert_string_equal(neap__owner_name(NEAP_OWNER_CACHE), "cache");
  assert_string_equal(neap__owner_name(NEAP_OWNER_COUNT), "unknown");
}

static neap_status crooked_reserve(void *user, size_t bytes, void **out, neap_error *err) {
  (void)bytes;
  (void)err;
  *out = (char *)user + 1;
  return NEAP_OK;
}

static void crooked_release(void *user, void *p, size_t bytes) {
  (void)bytes;
  assert_ptr_equal(p, (char *)user + 1);
}

static void crooked_memory_is_an_error(void **state) {
  static char bytes[64];
  fail_host f;
  neap_resource *r;
  void *p;
  (void)state;
  fail_host_init(&f);
  assert_int_equal(neap__system_create(&f.host, crooked_reserve, crooked_release, bytes, &r, NULL), NEAP_OK);
  assert_int_equal(neap__reserve(r, 1, NEAP_OWNER_TENSORS, &p, NULL), NEAP_INTERNAL);
  assert_true(stats_of(r).in_use == 0 && stats_of(r).refused == 1);
  r->vt->destroy(r);
  assert_true(f.host.in_use == 0);
}

#define CHECK(f) \
  { #f, f, open_from_state, close_from_state, NULL }

static const struct CMUnitTest suite[] = {
    CHECK(grants_are_aligned_writable_and_counted),
    CHECK(nonsense_is_refused),
    CHECK(a_refusal_changes_nothing),
    CHECK(peaks_stand_until_reset),
    CHECK(the_largest_free_request_succeeds),
    CHECK(trim_gives_all_back_to_the_system),
    CHECK(a_fault_below_is_survived),
    CHECK(a_refused_layer_leaves_nothing),
};

int main(void) {
  const struct CMUnitTest own[] = {
      cmocka_unit_test_setup_teardown(budget_is_exact_and_may_fall, budget_only, close_from_state),
      cmocka_unit_test_setup_teardown(faults_come_where_they_are_set, fault_only, close_from_state),
      cmocka_unit_test(owners_have_names),
      cmocka_unit_test(crooked_memory_is_an_error),
  };
  int failed = cmocka_run_group_tests_name("own", own, NULL, NULL);
  for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++) {
    struct CMUnitTest tests[sizeof suite / sizeof suite[0]];
    memcpy(tests, suite, sizeof suite);
    for (size_t k = 0; k < sizeof suite / sizeof suite[0]; k++) {
      union {
        const char *text;
        void *state;
      } name = {stacks[i]};
      tests[k].initial_state = name.state;
    }
    failed += cmocka_run_group_tests_name(stacks[i], tests, NULL, NULL);
  }
  return failed;
}
