/* Training within a host's frame, and the memory it may have. */
#include <math.h>

#include "bindings/lua/host.h"
#include "bindings/lua/lua_neap.h"
#include "bindings/lua/open.h"
#include "host/engine.h"

/* --- ticks ------------------------------------------------------------------------------------------- */

typedef struct tick {
  double seconds;
  neap_lua_tick out;
} tick;

static int run_tick(lua_State *L) {
  tick *t = lua_touserdata(L, 1);
  neap__lua_tick(L, t->seconds, &t->out);
  return 0;
}

static uint64_t to_microseconds(double seconds) { return seconds > 0 ? (uint64_t)ceil(seconds * 1e6) : 0; }

neap_status neap_tick(neap_engine *e, uint64_t microseconds, neap_tick_result *result) {
  const size_t least = offsetof(neap_tick_result, next_us) + sizeof result->next_us;
  double began = neap__clock();
  tick t = {(double)microseconds * 1e-6, {.state = NEAP_TICK_IDLE}};
  if (!e) return NEAP_INVALID;
  if (result && result->size < least)
    return neap__refuse(e, NEAP_INVALID, "neap_tick: result.size is %zu, expected at least %zu", result->size, least);
  neap_status s = neap__enter(e, run_tick, &t);
  if (!result) return s;
  result->state = s == NEAP_STOPPED ? NEAP_TICK_STOPPED : t.out.state;
  result->commits = t.out.commits;
  result->next_us = to_microseconds(t.out.next);
  result->used_us = to_microseconds(neap__clock() - began);
  return s;
}

static int run_prepare(lua_State *L) {
  neap__lua_prepare(L);
  return 0;
}

neap_status neap_prepare(neap_engine *e) { return e ? neap__enter(e, run_prepare, NULL) : NEAP_INVALID; }

/* --- memory ------------------------------------------------------------------------------------------ */

typedef struct limit {
  uint64_t bytes;
  bool now;
} limit;

static uint64_t in_use(const neap_context *c) {
  neap_memory_stats s;
  c->memory->vt->stats(c->memory, &s);
  return s.in_use;
}

/* Twice, as what a finalized object refers to is found dead by the next cycle only. */
static void collect(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
}

static int run_limit(lua_State *L) {
  const limit *l = lua_touserdata(L, 1);
  neap_lua *s = neap__lua_get(L);
  if (l->now) neap__updates_drop(s);
  neap__context_limit(s->ctx, l->bytes, l->now);
  neap__lua_prepare_due(L);
  if (!l->now || in_use(s->ctx) <= l->bytes) return 0;
  collect(L);
  neap__context_limit(s->ctx, l->bytes, true);
  uint64_t left = in_use(s->ctx);
  if (left <= l->bytes) return 0;
  neap_error err;
  neap__fail(&err, NEAP_OOM, "%llu bytes must stay, more than the new limit of %llu", (unsigned long long)left,
             (unsigned long long)l->bytes);
  err.bytes = left;
  neap__raise(L, &err);
}

neap_status neap_set_memory_limit(neap_engine *e, uint64_t bytes, neap_when when) {
  if (!e) return NEAP_INVALID;
  if (when != NEAP_NOW && when != NEAP_NEXT)
    return neap__refuse(e, NEAP_INVALID, "neap_set_memory_limit: when is %d, expected NEAP_NOW or NEAP_NEXT",
                        (int)when);
  limit l = {bytes ? bytes : UINT64_MAX, when == NEAP_NOW};
  return neap__enter(e, run_limit, &l);
}
