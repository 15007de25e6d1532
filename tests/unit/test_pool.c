#include "base/rng.h"
#include "memory_stack.h"

static uint64_t held(const memory_stack *s) { return stats_of(s->pool).reserved; }

static void *take(memory_stack *s, size_t bytes) {
  void *p = NULL;
  assert_int_equal(neap__reserve(s->top, bytes, NEAP_OWNER_TENSORS, &p, NULL), NEAP_OK);
  return p;
}

static void give(memory_stack *s, void *p, size_t bytes) { neap__release(s->top, p, bytes, NEAP_OWNER_TENSORS); }

static void large_blocks_are_not_rounded(void **state) {
  memory_stack *s = open_stack("sp", 0);
  const size_t bytes = 5 * MIB + 1;
  void *p = take(s, bytes);
  (void)state;
  assert_true(held(s) == neap__align_up(bytes));
  give(s, p, bytes);
  close_stack(s);
}

static void released_memory_is_used_again(void **state) {
  static const size_t sizes[] = {1, 64, 1000, 9000, 70000, MIB, 9 * MIB};
  memory_stack *s = open_stack("sp", 0);
  uint64_t asked = 0;
  (void)state;
  for (int round = 0; round < 50; round++) {
    void *p[7];
    for (size_t i = 0; i < 7; i++) p[i] = take(s, sizes[i]);
    for (size_t i = 0; i < 7; i++) give(s, p[i], sizes[i]);
    if (round == 0) asked = s->raw.asked;
  }
  assert_true(s->raw.asked == asked);
  close_stack(s);
}

static void free_neighbours_coalesce(void **state) {
  static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}};
  memory_stack *s = open_stack("sp", 0);
  const size_t third = 80 * 1024;
  (void)state;
  for (size_t o = 0; o < 6; o++) {
    void *p[3], *whole;
    for (int i = 0; i < 3; i++) p[i] = take(s, third);
    for (int i = 0; i < 3; i++) give(s, p[orders[o][i]], third);
    whole = take(s, 3 * third);
    assert_ptr_equal(whole, p[0]);
    give(s, whole, 3 * third);
  }
  assert_true(s->raw.asked == 1);
  close_stack(s);
}

static void a_refusal_below_trims_and_tries_again(void **state) {
  memory_stack *s = open_stack("sbp", 16 * MIB);
  void *p = take(s, 10 * MIB), *small;
  (void)state;
  give(s, p, 10 * MIB);
  assert_true(held(s) == 10 * MIB);
  p = take(s, 12 * MIB);
  assert_true(held(s) == 12 * MIB);
  give(s, p, 12 * MIB);
  small = take(s, 100);
  p = take(s, 15 * MIB); /* all but a shared segment, which at this budget is no more than 256 KiB */
  give(s, p, 15 * MIB);
  give(s, small, 100);
  close_stack(s);
}

static void a_small_budget_is_used_to_the_end(void **state) {
  memory_stack *s = open_stack("sbp", 4096);
  void *p[64];
  neap_error e;
  (void)state;
  for (int i = 0; i < 64; i++) p[i] = take(s, 64);
  assert_true(held(s) == 4096 && stats_of(s->top).largest_free == 0);
  assert_int_equal(neap__reserve(s->top, 1, NEAP_OWNER_TENSORS, &p[0], &e), NEAP_OOM);
  for (int i = 0; i < 64; i++) give(s, p[i], 64);
  p[0] = take(s, 4096);
  give(s, p[0], 4096);
  close_stack(s);
}

/* There is room in the segments, but the budget was lowered below what is handed out. */
static void a_lowered_limit_binds_what_the_pool_holds(void **state) {
  memory_stack *s = open_stack("sbp", MIB);
  void *a = take(s, 3000), *b;
  neap_error e;
  (void)state;
  neap__budget_set(s->budget, 4096);
  assert_int_equal(neap__reserve(s->top, 3000, NEAP_OWNER_OPTIMIZER, &b, &e), NEAP_OOM);
  assert_non_null(strstr(e.message, "optimizer"));
  assert_null(strstr(e.message, "cache"));
  assert_true(stats_of(s->top).largest_free <= 4096 - 3000);
  b = take(s, 1000);
  assert_true(stats_of(s->top).in_use <= 4096);
  give(s, a, 3000);
  give(s, b, 1000);
  close_stack(s);
}

/* When nothing else is left, a request takes a free slot that is too large for it. */
static void no_smaller_request_is_refused(void **state) {
  memory_stack *s = open_stack("sbp", 8 * MIB);
  void *slot = take(s, 8192), *rest, *p;
  uint64_t bytes;
  (void)state;
  while ((bytes = stats_of(s->top).largest_free) > 8192) {
    rest = take(s, bytes);
    (void)rest; /* given back by the pool's end, which takes its segments back used or not */
  }
  for (bytes = stats_of(s->top).largest_free; bytes > 0; bytes = stats_of(s->top).largest_free) {
    p = take(s, 1);
    assert_non_null(p);
  }
  assert_int_equal(neap__reserve(s->top, 1, NEAP_OWNER_TENSORS, &p, NULL), NEAP_OOM);
  give(s, slot, 8192);
  p = take(s, 1);
  assert_non_null(p);
  close_stack(s);
}

static void trim_keeps_what_it_is_told(void **state) {
  memory_stack *s = open_stack("sp", 0);
  void *p = take(s, 8 * MIB), *q = take(s, 4 * MIB), *r = take(s, 4 * MIB);
  (void)state;
  give(s, p, 8 * MIB);
  give(s, q, 4 * MIB);
  s->top->vt->trim(s->top, 8 * MIB);
  assert_true(held(s) - stats_of(s->top).in_use <= 8 * MIB && held(s) >= 8 * MIB);
  s->top->vt->trim(s->top, 0);
  assert_true(held(s) == 4 * MIB);
  give(s, r, 4 * MIB);
  close_stack(s);
}

static void a_wrong_release_is_nothing(void **state) {
  memory_stack *s = open_stack("sp", 0);
  char *p = take(s, 100), *q;
  char other[64];
  (void)state;
  neap__release(s->top, other, 64, NEAP_OWNER_TENSORS);
  neap__release(s->top, p + 64, 64, NEAP_OWNER_TENSORS);
  give(s, p, 100);
  give(s, p, 100);
  assert_true(stats_of(s->top).in_use == 0);
  q = take(s, 100);
  assert_ptr_not_equal(q, take(s, 100));
  close_stack(s);
}

static void fill(void *user, void *p, int byte, size_t n) {
  *(uint64_t *)user += n;
  memset(p, byte, n);
}

static void blocks_are_filled_on_request(void **state) {
  memory_stack *s = open_stack("sp", 0);
  uint64_t filled = 0;
  unsigned char *p;
  void *keep = take(s, 10); /* holds the slab, so that the bytes may be looked at after release */
  (void)state;
  neap__pool_set_fill(s->pool, fill, &filled);
  p = take(s, 100);
  assert_true(filled == 128);
  for (int i = 0; i < 128; i++) assert_int_equal(p[i], NEAP_FILL_TAKEN);
  give(s, p, 100);
  assert_true(filled == 256);
  for (int i = 0; i < 128; i++) assert_int_equal(p[i], NEAP_FILL_RELEASED);
  neap__pool_set_fill(s->pool, NULL, NULL);
  give(s, keep, 10);
  assert_true(filled == 256);
  close_stack(s);
}

/* --- a random run against a plain list ----------------------------------------------------------------- */

#define MOST_LIVE 300

typedef struct live_block {
  char *p;
  size_t bytes;
  neap_owner owner;
} live_block;

typedef struct shadow {
  memory_stack *s;
  neap_rng rng;
  live_block live[MOST_LIVE];
  size_t count;
  uint64_t by_owner[NEAP_OWNER_COUNT];
} shadow;

static size_t random_size(neap_rng *r) {
  static const size_t scale[] = {64, 512, 4096, 9000, 65536, 300000, 3000000};
  return 1 + (size_t)neap__rng_below(r, scale[neap__rng_below(r, 7)]);
}

static void mark(const shadow *h, const live_block *b) {
  if (h->s->raw.out_of_reach) return;
  memset(b->p, (int)((uintptr_t)b->p / 64 & 0x7f), b->bytes < 64 ? b->bytes : 64);
  b->p[b->bytes - 1] = (char)((uintptr_t)b->p / 64 & 0x7f);
}

static void check_mark(const shadow *h, const live_block *b) {
  if (h->s->raw.out_of_reach) return;
  assert_int_equal(b->p[0], (uintptr_t)b->p / 64 & 0x7f);
  assert_int_equal(b->p[b->bytes - 1], (uintptr_t)b->p / 64 & 0x7f);
}

static void shadow_take(shadow *h) {
  live_block b = {NULL, random_size(&h->rng), (neap_owner)neap__rng_below(&h->rng, NEAP_OWNER_COUNT)};
  void *p;
  if (neap__reserve(h->s->top, b.bytes, b.owner, &p, NULL) != NEAP_OK) return;
  b.p = p;
  assert_true((uintptr_t)b.p % NEAP_ALIGN == 0);
  for (size_t i = 0; i < h->count; i++) {
    const live_block *o = &h->live[i];
    assert_true(b.p + neap__align_up(b.bytes) <= o->p || o->p + neap__align_up(o->bytes) <= b.p);
  }
  mark(h, &b);
  h->by_owner[b.owner] += neap__align_up(b.bytes);
  h->live[h->count++] = b;
}

static void shadow_give(shadow *h) {
  const size_t i = (size_t)neap__rng_below(&h->rng, h->count);
  const live_block b = h->live[i];
  check_mark(h, &b);
  neap__release(h->s->top, b.p, b.bytes, b.owner);
  h->by_owner[b.owner] -= neap__align_up(b.bytes);
  h->live[i] = h->live[--h->count];
}

static void random_run(memory_stack *s, uint64_t seed, int steps) {
  static shadow h;
  memset(&h, 0, sizeof h);
  h.s = s;
  h.rng.seed = seed;
  for (int i = 0; i < steps; i++) {
    /* Waves: mostly taking, then mostly giving, so that segments fill, split and coalesce. */
    const uint64_t taking = i / 500 % 2 ? 40 : 60;
    neap_memory_stats m;
    if (h.count < MOST_LIVE && (h.count == 0 || neap__rng_below(&h.rng, 100) < taking))
      shadow_take(&h);
    else
      shadow_give(&h);
    if (i % 1000 == 999) s->top->vt->trim(s->top, 0);
    m = stats_of(s->top);
    assert_memory_equal(m.by_owner, h.by_owner, sizeof h.by_owner);
    if (i % 50 == 0) check_stack(s);
  }
  while (h.count > 0) shadow_give(&h);
  assert_true(stats_of(s->top).in_use == 0);
  s->top->vt->trim(s->top, 0);
  assert_true(held(s) == 0 && s->raw.in_use == 0);
}

static void random_runs_keep_blocks_apart(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 4; seed++) {
    memory_stack *s = open_stack("sp", 0);
    random_run(s, seed, 6000);
    close_stack(s);
  }
}

static void random_runs_under_a_tight_budget(void **state) {
  static const uint64_t budgets[] = {100000, MIB, 8 * MIB, 64 * MIB};
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    memory_stack *s = open_stack("sfbpt", budgets[i]);
    random_run(s, 100 + i, 6000);
    close_stack(s);
  }
}

static void the_pool_never_touches_the_memory(void **state) {
  memory_stack *s = open_stack("sbp", 64 * MIB);
  (void)state;
  s->raw.out_of_reach = 1;
  random_run(s, 77, 6000);
  close_stack(s);
}

/* Whatever is free in one piece must be given: the plan relies on it. */
static void largest_free_is_honest_at_random_times(void **state) {
  memory_stack *s = open_stack("sbp", 8 * MIB);
  static shadow h;
  (void)state;
  memset(&h, 0, sizeof h);
  h.s = s;
  h.rng.seed = 5;
  for (int i = 0; i < 4000; i++) {
    if (h.count < MOST_LIVE && (h.count == 0 || neap__rng_below(&h.rng, 100) < 52))
      shadow_take(&h);
    else
      shadow_give(&h);
    if (i % 7 == 0) {
      const uint64_t bytes = stats_of(s->top).largest_free;
      if (bytes) give(s, take(s, bytes), bytes);
    }
  }
  while (h.count > 0) shadow_give(&h);
  close_stack(s);
}

/* --- the host refuses ---------------------------------------------------------------------------------- */

static neap_status one_of_each_size(memory_stack *s) {
  static const size_t sizes[] = {64, 700, 8000, 9000, 70000, 3 * MIB};
  void *p[150];
  size_t n;
  neap_status st = NEAP_OK;
  for (n = 0; n < 150; n++) {
    const neap_memory_stats before = stats_of(s->top);
    neap_memory_stats after;
    st = neap__reserve(s->top, sizes[n % 6], NEAP_OWNER_TENSORS, &p[n], NULL);
    if (st == NEAP_OK) continue;
    after = stats_of(s->top);
    assert_true(after.refused == before.refused + 1);
    after.refused = before.refused;
    assert_memory_equal(&after, &before, sizeof after);
    check_stack(s);
    break;
  }
  while (n-- > 0) neap__release(s->top, p[n], sizes[n % 6], NEAP_OWNER_TENSORS);
  assert_true(stats_of(s->top).in_use == 0);
  return st;
}

static void every_host_refusal_changes_nothing(void **state) {
  (void)state;
  for (int every = 0; every < 2; every++) {
    uint64_t n = 1;
    for (neap_status st = NEAP_NOMEM; st != NEAP_OK; n++) {
      memory_stack *s = open_stack("sfbpt", 128 * MIB);
      s->host.until = n;
      s->host.every = every;
      st = one_of_each_size(s);
      assert_true(st == NEAP_OK || st == NEAP_NOMEM);
      s->host.until = 0;
      assert_int_equal(one_of_each_size(s), NEAP_OK);
      close_stack(s);
      assert_true(n < 10000);
    }
    assert_true(n > 20);
  }
}

static void release_and_trim_need_no_host_memory(void **state) {
  memory_stack *s = open_stack("sp", 0);
  void *p[200];
  (void)state;
  for (size_t i = 0; i < 200; i++) p[i] = take(s, 1 + i * 531);
  s->host.until = 1;
  s->host.every = 1;
  for (size_t i = 0; i < 200; i++) give(s, p[i * 77 % 200], 1 + i * 77 % 200 * 531);
  s->top->vt->trim(s->top, 0);
  assert_true(s->raw.in_use == 0);
  close_stack(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_blocks_are_not_rounded),       cmocka_unit_test(released_memory_is_used_again),
      cmocka_unit_test(free_neighbours_coalesce),           cmocka_unit_test(a_refusal_below_trims_and_tries_again),
      cmocka_unit_test(a_small_budget_is_used_to_the_end),  cmocka_unit_test(a_lowered_limit_binds_what_the_pool_holds),
      cmocka_unit_test(no_smaller_request_is_refused),      cmocka_unit_test(trim_keeps_what_it_is_told),
      cmocka_unit_test(a_wrong_release_is_nothing),         cmocka_unit_test(blocks_are_filled_on_request),
      cmocka_unit_test(random_runs_keep_blocks_apart),      cmocka_unit_test(random_runs_under_a_tight_budget),
      cmocka_unit_test(the_pool_never_touches_the_memory),  cmocka_unit_test(largest_free_is_honest_at_random_times),
      cmocka_unit_test(every_host_refusal_changes_nothing), cmocka_unit_test(release_and_trim_need_no_host_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
