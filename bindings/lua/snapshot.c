/* What a traced function bakes in beside tensors: the numbers, strings, booleans and nils it closes over. A later
 * change of one is found and named. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

#define MAX_DEPTH 4 /* of functions among upvalues */

/* A snapshot is a list of triples: function, index of the upvalue, its value then. */
enum { RESULT = 2, SEEN = 3 };

static bool is_primitive(int type) {
  return type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING;
}

/* The function on top: is it the standard library's? Its own settings are no part of a user's function. */
static bool is_library(lua_State *L) {
  lua_Debug ar;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &ar);
  return strncmp(ar.source, "=neap.", 6) == 0;
}

static bool seen(lua_State *L, int function) {
  lua_pushvalue(L, function);
  bool known = lua_rawget(L, SEEN) != LUA_TNIL;
  lua_pop(L, 1);
  if (known) return true;
  lua_pushvalue(L, function);
  lua_pushboolean(L, 1);
  lua_rawset(L, SEEN);
  return false;
}

/* The value is on top, and goes. */
static void add_entry(lua_State *L, int function, int upvalue) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, RESULT);
  /* nil has no place in a list: the snapshot itself stands for it. */
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushvalue(L, RESULT);
  }
  lua_rawseti(L, RESULT, n + 3);
  lua_pushinteger(L, upvalue);
  lua_rawseti(L, RESULT, n + 2);
  lua_pushvalue(L, function);
  lua_rawseti(L, RESULT, n + 1);
}

/* The Lua function on top. */
static void collect(lua_State *L, int depth) {
  int function = lua_gettop(L);
  if (seen(L, function)) return;
  luaL_checkstack(L, 8, "a snapshot");
  bool library = is_library(L);
  for (int i = 1; lua_getupvalue(L, function, i); i++) {
    int type = lua_type(L, -1);
    if (is_primitive(type) && !library) {
      add_entry(L, function, i);
      continue;
    }
    if (type == LUA_TFUNCTION && !lua_iscfunction(L, -1) && depth < MAX_DEPTH) collect(L, depth + 1);
    lua_pop(L, 1);
  }
}

/* snapshot(fn) -> table */
static int snapshot(lua_State *L) {
  char text[80];
  lua_settop(L, 1);
  if (!lua_isfunction(L, 1))
    neap__lua_fail(L, NEAP_INVALID, "snapshot", "argument 1 is %s, expected a function",
                   neap__describe(L, 1, text, sizeof text));
  lua_newtable(L);
  lua_newtable(L);
  if (!lua_iscfunction(L, 1)) {
    lua_pushvalue(L, 1);
    collect(L, 0);
  }
  lua_settop(L, RESULT);
  return 1;
}

/* Stack: snapshot, function, value then, value now. */
static int report(lua_State *L, const char *name) {
  lua_Debug ar;
  if (lua_rawequal(L, 3, 1)) {
    lua_pushnil(L);
    lua_replace(L, 3);
  }
  lua_pushvalue(L, 2);
  lua_getinfo(L, ">S", &ar);
  lua_pushstring(L, name);
  lua_insert(L, 3);
  lua_pushfstring(L, "%s:%d", ar.short_src, ar.linedefined);
  return 4;
}

/* changed(snapshot) -> nil, or name, old, new, "file:line" of the function */
static int changed(lua_State *L) {
  neap__arg_table(L, 1, "changed", "argument 1");
  lua_settop(L, 1);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  for (lua_Integer i = 1; i + 2 <= n; i += 3) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 1, i + 2);
    lua_rawgeti(L, 1, i + 1);
    int upvalue = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    const char *name = lua_getupvalue(L, 2, upvalue);
    bool same = lua_isnil(L, -1) ? lua_rawequal(L, 3, 1) : lua_rawequal(L, 3, -1);
    if (!same && name) return report(L, name);
    lua_settop(L, 1);
  }
  return 0;
}

void neap__open_snapshot(lua_State *L) {
  static const luaL_Reg functions[] = {{"snapshot", snapshot}, {"changed", changed}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
