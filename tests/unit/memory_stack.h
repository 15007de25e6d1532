/* Stacks of memory resources for tests, over raw memory that is counted and may be refused. */
#ifndef NEAP_TESTS_MEMORY_STACK_H
#define NEAP_TESTS_MEMORY_STACK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fail_host.h"
#include "memory/resource.h"

#define MIB ((size_t)1 << 20)

typedef struct raw_memory {
  uint64_t in_use, asked;
  uint64_t limit;   /* refuses above it */
  int out_of_reach; /* reading or writing it ends the process, as with a device's memory */
} raw_memory;

static inline neap_status raw_reserve(void *user, size_t bytes, void **out, neap_error *err) {
  raw_memory *m = user;
  void *p = NULL;
  m->asked++;
  if (bytes > m->limit - m->in_use) return neap__fail(err, NEAP_OOM, "the device has no %zu bytes", bytes);
  if (m->out_of_reach)
    p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  else if (posix_memalign(&p, NEAP_ALIGN, bytes) != 0)
    p = NULL;
  if (!p || p == MAP_FAILED) return neap__fail(err, NEAP_OOM, "the device has no %zu bytes", bytes);
  m->in_use += bytes;
  *out = p;
  return NEAP_OK;
}

static inline void raw_release(void *user, void *p, size_t bytes) {
  raw_memory *m = user;
  m->in_use -= bytes;
  if (m->out_of_reach)
    munmap(p, bytes);
  else
    free(p);
}

/* Written bottom first: s system, b budget, f fault, p pool, t trace. */
typedef struct memory_stack {
  fail_host host;
  raw_memory raw;
  neap_resource *level[8];
  size_t levels;
  neap_resource *top, *budget, *fault, *pool;
  uint64_t grants, refusals, releases; /* told to the trace */
} memory_stack;

static inline void count_event(void *user, const char *event, neap_owner owner, size_t bytes, const void *p) {
  memory_stack *s = user;
  (void)owner;
  (void)bytes;
  s->grants += strcmp(event, "grant") == 0 && p;
  s->refusals += strcmp(event, "refuse") == 0 && !p;
  s->releases += strcmp(event, "release") == 0 && p;
}

static inline neap_status add_level(memory_stack *s, char kind, uint64_t limit) {
  neap_host *h = &s->host.host;
  neap_resource **out = &s->level[s->levels];
  neap_status st = NEAP_INVALID;
  if (kind == 's') st = neap__system_create(h, raw_reserve, raw_release, &s->raw, out, NULL);
  if (kind == 'b') st = neap__budget_create(h, s->top, limit, out, NULL);
  if (kind == 'f') st = neap__fault_create(h, s->top, out, NULL);
  if (kind == 'p') st = neap__pool_create(h, s->top, out, NULL);
  if (kind == 't') st = neap__trace_create(h, s->top, count_event, s, out, NULL);
  if (st != NEAP_OK) return st;
  s->top = *out;
  s->levels++;
  if (kind == 'b') s->budget = s->top;
  if (kind == 'f') s->fault = s->top;
  if (kind == 'p') s->pool = s->top;
  return NEAP_OK;
}

static inline memory_stack *open_stack(const char *kinds, uint64_t limit) {
  memory_stack *s = calloc(1, sizeof *s);
  assert_non_null(s);
  fail_host_init(&s->host);
  s->raw.limit = 256 * MIB;
  for (; *kinds; kinds++) assert_int_equal(add_level(s, *kinds, limit), NEAP_OK);
  return s;
}

static inline void close_stack(memory_stack *s) {
  while (s->levels > 0) {
    neap_resource *r = s->level[--s->levels];
    r->vt->destroy(r);
  }
  assert_true(s->raw.in_use == 0);
  assert_true(s->host.host.in_use == 0 && s->host.blocks == 0 && s->host.wrong == 0);
  free(s);
}

static inline neap_memory_stats stats_of(neap_resource *r) {
  neap_memory_stats m;
  r->vt->stats(r, &m);
  return m;
}

/* What must hold at every level at any time. */
static inline void check_stack(const memory_stack *s) {
  for (size_t i = 0; i < s->levels; i++) {
    const neap_memory_stats m = stats_of(s->level[i]);
    uint64_t sum = 0;
    for (int o = 0; o < NEAP_OWNER_COUNT; o++) sum += m.by_owner[o];
    assert_true(sum == m.in_use);
    assert_true(m.peak >= m.in_use && m.reserved >= m.in_use && m.reserved_peak >= m.reserved);
    if (i > 0) assert_true(m.reserved == stats_of(s->level[i - 1]).in_use);
    if (i == 0) assert_true(m.in_use == s->raw.in_use);
  }
}

#endif
