/* From C into Lua and back: every call is protected, and what was raised becomes a status with its details. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "host/engine.h"

static const char engine_key;

neap_engine *neap__engine_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &engine_key);
  neap_engine *e = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!e) neap__lua_fail(L, NEAP_CLOSED, NULL, "the engine of this Lua state was closed");
  return e;
}

bool neap__engine_is(lua_State *L, const neap_engine *e) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &engine_key);
  bool same = lua_touserdata(L, -1) == e;
  lua_pop(L, 1);
  return same;
}

void neap__engine_bind(lua_State *L, neap_engine *e) {
  if (e)
    lua_pushlightuserdata(L, e);
  else
    lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &engine_key);
}

/* --- errors ------------------------------------------------------------------------------------------ */

/* "OOM" -> NEAP_OOM; whatever else a script calls its errors is NEAP_SCRIPT. */
static neap_status status_of_code(const char *code) {
  static const struct {
    const char *name;
    neap_status status;
  } codes[] = {
#define XX(name, value, text) {#name, NEAP_##name},
      NEAP_STATUS_MAP(XX)
#undef XX
  };
  for (size_t i = 1; i < sizeof codes / sizeof codes[0]; i++)
    if (strcmp(codes[i].name, code) == 0) return codes[i].status;
  return NEAP_SCRIPT;
}

/* The string field of the table at 1, or "". Stays on the stack. */
static const char *field(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  lua_rawget(L, 1);
  return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
}

static void describe_table(lua_State *L, neap_error *err) {
  err->status = status_of_code(field(L, "code"));
  snprintf(err->where, sizeof err->where, "%s", field(L, "where"));
  snprintf(err->op, sizeof err->op, "%s", field(L, "op"));
  snprintf(err->shapes, sizeof err->shapes, "%s", field(L, "shapes"));
  snprintf(err->message, sizeof err->message, "%s", field(L, "message"));
  lua_pushliteral(L, "bytes");
  lua_rawget(L, 1);
  lua_Integer bytes = lua_tointeger(L, -1);
  err->bytes = bytes > 0 ? (uint64_t)bytes : 0;
}

/* "ai.lua:3: text" is told apart into where and message. */
static void describe_text(lua_State *L, neap_error *err) {
  const char *text = luaL_tolstring(L, 1, NULL);
  neap__lua_where(L, err->where, sizeof err->where);
  size_t n = strlen(err->where);
  if (n && strncmp(text, err->where, n) == 0 && strncmp(text + n, ": ", 2) == 0) text += n + 2;
  snprintf(err->message, sizeof err->message, "%s", text);
}

/* The message handler: runs where the error was raised. Upvalue 1: the engine, when it is not L's yet. */
static int note_error(lua_State *L) {
  neap_engine *e = lua_touserdata(L, lua_upvalueindex(1));
  neap_error *err = e ? &e->error : &neap__engine_of(L)->error;
  lua_settop(L, 1);
  neap__error_clear(err);
  err->status = NEAP_SCRIPT;
  if (lua_istable(L, 1)) describe_table(L, err);
  if (!err->message[0]) describe_text(L, err);
  lua_settop(L, 1);
  return 1;
}

/* What Lua could not call the handler for, or what went wrong in it. */
static neap_status outcome(neap_engine *e, int result) {
  neap_error *err = &e->error;
  if (result == LUA_OK) return NEAP_OK;
  if (result == LUA_ERRMEM && e->limits.refused)
    return neap__fail(err, NEAP_LIMIT, "scripts need more than %zu bytes of Lua memory, their limit", e->limits.bytes);
  if (result == LUA_ERRMEM) return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for Lua");
  if (err->status == NEAP_OK)
    return neap__fail(err, e->limits.reached ? NEAP_LIMIT : NEAP_SCRIPT, "an error in the handling of an error");
  return err->status;
}

neap_status neap__enter(neap_engine *e, lua_CFunction fn, void *request) {
  if (e->busy) return neap__refuse(e, NEAP_BUSY, "the engine is in a call already");
  if (!e->L) return neap__refuse(e, NEAP_CLOSED, "the Lua state of the engine was closed");
  neap__error_clear(&e->error);
  lua_settop(e->L, 0);
  if (!lua_checkstack(e->L, LUA_MINSTACK)) return neap__leave(e, outcome(e, LUA_ERRMEM));
  e->busy = true;
  neap__limits_begin(e);
  lua_pushcfunction(e->L, note_error);
  lua_pushcfunction(e->L, fn);
  lua_pushlightuserdata(e->L, request);
  neap_status s = outcome(e, lua_pcall(e->L, 1, LUA_MULTRET, 1));
  if (s != NEAP_OK) lua_settop(e->L, 0);
  e->busy = false;
  return neap__leave(e, s);
}

/* --- in a state of the host's ------------------------------------------------------------------------ */

typedef struct visit {
  neap_engine *engine;
  lua_CFunction fn;
  int result;
} visit;

static int run_visit(lua_State *L) {
  visit *v = lua_touserdata(L, 1);
  lua_pushlightuserdata(L, v->engine);
  lua_pushcclosure(L, note_error, 1);
  lua_pushcfunction(L, v->fn);
  lua_pushlightuserdata(L, v->engine);
  v->result = lua_pcall(L, 1, 0, -3);
  return 0;
}

neap_status neap__enter_state(neap_engine *e, lua_State *L, lua_CFunction fn) {
  visit v = {e, fn, LUA_ERRMEM};
  neap__error_clear(&e->error);
  int top = lua_gettop(L);
  if (!lua_checkstack(L, LUA_MINSTACK)) return outcome(e, LUA_ERRMEM);
  lua_pushcfunction(L, run_visit);
  lua_pushlightuserdata(L, &v);
  int result = lua_pcall(L, 1, 0, 0);
  lua_settop(L, top);
  return outcome(e, result == LUA_OK ? v.result : result);
}
