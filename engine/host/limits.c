/* Script limits. Lua memory is counted in the allocator; instructions and time by a count hook, which coroutines
 * inherit from whoever makes them.
 *
 * A script may catch the error that a reached limit raises. It comes again at each next instruction of that
 * coroutine, and resuming another one raises it too, so that catching it does not help. */
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "host/engine.h"

#define PERIOD 1000 /* instructions between two looks */

/* For a new block Lua gives its kind in place of a size. */
void *neap__lua_alloc(void *user, void *p, size_t old_size, size_t new_size) {
  neap_engine *e = user;
  if (!p) old_size = 0;
  if (new_size == 0) {
    neap__free(&e->lua, p, old_size);
    return NULL;
  }
  if (e->limits.bytes && new_size > old_size && e->lua.in_use + (new_size - old_size) > e->limits.bytes) {
    e->limits.refused = true;
    return NULL;
  }
  return neap__realloc(&e->lua, p, old_size, new_size);
}

static int period(const neap_limits *l) {
  return l->instructions && l->instructions < PERIOD ? (int)l->instructions : PERIOD;
}

static _Noreturn void raise_limit(lua_State *L, const neap_limits *l) {
  if (l->instructions && l->done > l->instructions)
    neap__lua_fail(L, NEAP_LIMIT, NULL, "the script ran more than %llu instructions in one call, its limit",
                   (unsigned long long)l->instructions);
  neap__lua_fail(L, NEAP_LIMIT, NULL, "the script ran longer than %g seconds in one call, its limit", l->seconds);
}

static neap_engine *engine_of_state(lua_State *L) {
  void *e = NULL;
  lua_getallocf(L, &e);
  return e;
}

static void look(lua_State *L, lua_Debug *ar) {
  (void)ar;
  neap_limits *l = &engine_of_state(L)->limits;
  l->done += (uint64_t)lua_gethookcount(L);
  if (l->instructions && l->done > l->instructions) l->reached = true;
  if (l->seconds > 0 && neap__clock() > l->deadline) l->reached = true;
  int count = l->reached ? 1 : period(l);
  if (count != lua_gethookcount(L)) lua_sethook(L, look, LUA_MASKCOUNT, count);
  if (l->reached) raise_limit(L, l);
}

void neap__limits_watch(neap_engine *e) {
  if (neap__limits_timed(e)) lua_sethook(e->L, look, LUA_MASKCOUNT, period(&e->limits));
}

void neap__limits_begin(neap_engine *e) {
  neap_limits *l = &e->limits;
  l->done = 0;
  l->reached = l->refused = false;
  l->deadline = l->seconds > 0 ? neap__clock() + l->seconds : 0;
  if (e->owns_lua) neap__limits_watch(e);
}

/* --- what would slip past --------------------------------------------------------------------------- */

static void check_limit(lua_State *L) {
  const neap_limits *l = &engine_of_state(L)->limits;
  if (l->reached) raise_limit(L, l);
}

/* Upvalue 1: the function it stands for. */
static int call_checked(lua_State *L) {
  check_limit(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  check_limit(L);
  return lua_gettop(L);
}

/* coroutine.wrap: the function it gives resumes, too. */
static int wrap_checked(lua_State *L) {
  call_checked(L);
  lua_settop(L, 1);
  lua_pushcclosure(L, call_checked, 1);
  return 1;
}

/* Hooks do not run in finalizers. */
static int setmetatable_checked(lua_State *L) {
  if (lua_istable(L, 2)) {
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL)
      neap__lua_fail(L, NEAP_LIMIT, "setmetatable",
                     "__gc is refused where scripts have a limit of instructions or time");
    lua_pop(L, 1);
  }
  return call_checked(L);
}

static void replace(lua_State *L, const char *library, const char *name, lua_CFunction fn) {
  lua_getglobal(L, library);
  if (lua_istable(L, -1) && lua_getfield(L, -1, name) == LUA_TFUNCTION) {
    lua_pushcclosure(L, fn, 1);
    lua_setfield(L, -2, name);
  }
}

/* The rest of debug reaches what was replaced, through upvalues and the stacks of other coroutines. */
static void keep_traceback(lua_State *L) {
  if (lua_getglobal(L, "debug") != LUA_TTABLE) return;
  lua_getfield(L, -1, "traceback");
  for (lua_pushnil(L); lua_next(L, -3);) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, -5);
  }
  lua_setfield(L, -2, "traceback");
}

void neap__limits_guard(lua_State *L) {
  int top = lua_gettop(L);
  replace(L, "coroutine", "resume", call_checked);
  replace(L, "coroutine", "wrap", wrap_checked);
  replace(L, "coroutine", "close", call_checked);
  replace(L, LUA_GNAME, "setmetatable", setmetatable_checked);
  keep_traceback(L);
  lua_settop(L, top);
}
