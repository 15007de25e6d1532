/* Script limits. Lua memory is counted in the allocator; instructions and time by a count hook, which coroutines
 * inherit from whoever makes them.
 *
 * A script may catch the error that a reached limit raises. It comes again at each next instruction of that
 * coroutine, and resuming another one raises it too, so that catching it does not help. What Lua runs without
 * hooks must not be a script's: finalizers; message handlers of an error that a hook raised; and what is still
 * to be closed of a coroutine that ended in a hook. */
#include <lualib.h>

#include "bindings/lua/lua_neap.h"
#include "host/engine.h"

#define PERIOD 1000 /* instructions between two looks */

static const char ended_key; /* of the weak table of coroutines that ended in the hook */

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
  if (!l->reached) return;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &ended_key) == LUA_TTABLE) {
    lua_pushthread(L);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
  raise_limit(L, l);
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

/* Calls the function at upvalue 1 with all arguments. */
static int call_original(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static int resume_checked(lua_State *L) {
  check_limit(L);
  int n = call_original(L);
  check_limit(L);
  return n;
}

/* Whether the coroutine at index ended in the hook. */
static bool ended_in_hook(lua_State *L, int index) {
  lua_pushvalue(L, index);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &ended_key);
  lua_insert(L, -2);
  bool ended = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return ended;
}

static int close_checked(lua_State *L) {
  check_limit(L);
  if (lua_isthread(L, 1) && ended_in_hook(L, 1))
    neap__lua_fail(L, NEAP_LIMIT, "coroutine.close", "a coroutine that a limit ended cannot be closed");
  return call_original(L);
}

/* What coroutine.wrap gives: upvalue 1 resumes, 2 closes, 3 is the coroutine. As Lua's own, but that what a limit
 * ended stays as it is. */
static int wrapped(lua_State *L) {
  check_limit(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_rotate(L, 1, 2);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  check_limit(L);
  if (lua_toboolean(L, 1)) return lua_gettop(L) - 1;
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, lua_upvalueindex(3));
  if (!ended_in_hook(L, lua_gettop(L))) lua_call(L, 1, 0);
  lua_settop(L, 2);
  if (lua_type(L, 2) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, 2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

/* Upvalues as of `wrapped`, but that the third is coroutine.create. */
static int wrap_checked(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_pushcclosure(L, wrapped, 3);
  return 1;
}

/* Upvalue 1: the script's handler. */
static int handle_checked(lua_State *L) {
  if (engine_of_state(L)->limits.reached) return 1;
  return call_original(L);
}

static int finish_xpcall(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

/* xpcall(f, handler, ...); upvalue 1 is Lua's own. */
static int xpcall_checked(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, handle_checked, 1);
  lua_replace(L, 2);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, finish_xpcall);
  return lua_gettop(L);
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
  return call_original(L);
}

static void replace(lua_State *L, const char *library, const char *name, lua_CFunction fn) {
  lua_getglobal(L, library);
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, fn, 1);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

static void guard_coroutines(lua_State *L) {
  if (lua_getglobal(L, LUA_COLIBNAME) != LUA_TTABLE) return;
  lua_getfield(L, -1, "resume");
  lua_getfield(L, -2, "close");
  lua_getfield(L, -3, "create");
  lua_pushcclosure(L, wrap_checked, 3);
  lua_setfield(L, -2, "wrap");
  replace(L, LUA_COLIBNAME, "resume", resume_checked);
  replace(L, LUA_COLIBNAME, "close", close_checked);
}

static void make_ended(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ended_key);
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
  make_ended(L);
  guard_coroutines(L);
  replace(L, LUA_GNAME, "setmetatable", setmetatable_checked);
  replace(L, LUA_GNAME, "xpcall", xpcall_checked);
  keep_traceback(L);
  lua_settop(L, top);
}
