/* What a traced function bakes in: the numbers, strings, booleans, nils, functions, tensors and modules that it
 * closes over, and the tensors and modules in tables that it closes over (among them that of its globals). A later
 * change of one is found and named. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

#define MAX_DEPTH 4     /* of functions among upvalues */
#define MAX_FIELDS 4096 /* looked at in a table: larger ones are data */

/* A snapshot is a list of entries of five: function, index of the upvalue, key in its table, key in the table there
 * (false: none), and the value then. */
enum { RESULT = 2, SEEN = 3, STRIDE = 5 };

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

/* Adds an entry for the value on top, which goes. Keys are stack indices, 0: none. */
static void add_entry(lua_State *L, int function, int upvalue, int key, int inner) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, RESULT);
  /* nil has no place in a list: the snapshot itself stands for it. */
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushvalue(L, RESULT);
  }
  lua_rawseti(L, RESULT, n + 5);
  for (int i = 0; i < 2; i++) {
    const int at = i ? inner : key;
    if (at)
      lua_pushvalue(L, at);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, RESULT, n + 3 + i);
  }
  lua_pushinteger(L, upvalue);
  lua_rawseti(L, RESULT, n + 2);
  lua_pushvalue(L, function);
  lua_rawseti(L, RESULT, n + 1);
}

static bool is_object(lua_State *L, int index) {
  if (!lua_istable(L, index)) return neap__tensor_test(L, index) != NULL;
  if (!lua_getmetatable(L, index)) return false;
  lua_pop(L, 1);
  return true;
}

/* Tensors and objects in the plain table on top, and in plain tables there. `key` is the stack index of its own key,
 * 0 when it is the upvalue itself. */
static void collect_fields(lua_State *L, int function, int upvalue, int key) {
  const int table = lua_gettop(L);
  int left = MAX_FIELDS;
  if (!key && seen(L, table)) return;
  luaL_checkstack(L, 8, "a snapshot");
  for (lua_pushnil(L); left-- > 0 && lua_next(L, table); lua_pop(L, 1)) {
    const int k = table + 1;
    if (lua_type(L, k) != LUA_TSTRING && !lua_isinteger(L, k)) continue;
    if (is_object(L, -1)) {
      lua_pushvalue(L, -1);
      add_entry(L, function, upvalue, key ? key : k, key ? k : 0);
    } else if (lua_istable(L, -1) && !key) {
      collect_fields(L, function, upvalue, k);
    }
  }
  lua_settop(L, table);
}

/* The Lua function on top. */
static void collect(lua_State *L, int depth) {
  int function = lua_gettop(L);
  if (seen(L, function)) return;
  luaL_checkstack(L, 8, "a snapshot");
  const bool library = is_library(L);
  for (int i = 1; lua_getupvalue(L, function, i); i++, lua_settop(L, function)) {
    const int type = lua_type(L, -1);
    if (type == LUA_TFUNCTION && !lua_iscfunction(L, -1) && depth < MAX_DEPTH) collect(L, depth + 1);
    if (library) continue;
    if (lua_istable(L, -1) && !is_object(L, -1))
      collect_fields(L, function, i, 0);
    else if (is_primitive(type) || type == LUA_TFUNCTION || is_object(L, -1))
      add_entry(L, function, i, 0, 0);
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

static bool captured(const neap_graph *g, const neap_lua_tensor *t) {
  for (uint32_t i = 0; i < g->n_captures; i++)
    if (g->captures[i].storage == t->t.storage) return true;
  return false;
}

/* Whether the trace could have seen the value on top. */
static bool matters(lua_State *L, const neap_graph *g, int used) {
  const neap_lua_tensor *t = neap__tensor_test(L, -1);
  if (t) return captured(g, t);
  if (!lua_istable(L, -1) || lua_rawequal(L, -1, 1)) return true;
  lua_pushvalue(L, -1);
  bool is = lua_rawget(L, used) != LUA_TNIL;
  lua_pop(L, 1);
  return is;
}

/* settle(snapshot, graph, used): after the trace, forgets tensors that the graph did not capture and objects that are
 * no keys of `used`. */
static int settle(lua_State *L) {
  neap__arg_table(L, 1, "settle", "argument 1");
  const neap_lua_graph *g = neap__graph_check(L, 2, "settle");
  neap__arg_table(L, 3, "settle", "argument 3");
  lua_settop(L, 3);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  lua_Integer kept = 0;
  for (lua_Integer i = 0; i < n; i += STRIDE) {
    lua_rawgeti(L, 1, i + STRIDE);
    if (matters(L, g->g, 3)) {
      for (int k = 1; k <= STRIDE; k++) {
        lua_rawgeti(L, 1, i + k);
        lua_rawseti(L, 1, kept + k);
      }
      kept += STRIDE;
    }
    lua_settop(L, 3);
  }
  for (lua_Integer i = n; i > kept; i--) {
    lua_pushnil(L);
    lua_rawseti(L, 1, i);
  }
  return 0;
}

/* Replaces the table on top by its field, when there is a key at the index. */
static void follow(lua_State *L, int key) {
  if (!lua_toboolean(L, key)) return;
  if (!lua_istable(L, -1)) {
    lua_pushnil(L);
  } else {
    lua_pushvalue(L, key);
    lua_rawget(L, -2);
  }
  lua_remove(L, -2);
}

/* "_ENV" is no name that a script knows its globals by. */
static void push_name(lua_State *L, const char *upvalue) {
  const char *name = strcmp(upvalue, "_ENV") ? upvalue : "";
  lua_pushstring(L, name);
  for (int key = 3; key <= 4; key++) {
    if (!lua_toboolean(L, key)) continue;
    lua_pushfstring(L,
                    lua_isinteger(L, key)  ? "[%s]"
                    : key == 3 && !name[0] ? "%s"
                                           : ".%s",
                    (lua_pushvalue(L, key), lua_tostring(L, -1)));
    lua_remove(L, -2);
    lua_concat(L, 2);
  }
}

/* Stack: snapshot, function, keys, value then, value now. */
static int report(lua_State *L, const char *upvalue) {
  lua_Debug ar;
  push_name(L, upvalue);
  if (lua_rawequal(L, 5, 1))
    lua_pushnil(L);
  else
    lua_pushvalue(L, 5);
  lua_pushvalue(L, 6);
  lua_pushvalue(L, 2);
  lua_getinfo(L, ">S", &ar);
  lua_pushfstring(L, "%s:%d", ar.short_src, ar.linedefined);
  return 4;
}

/* changed(snapshot) -> nil, or name, old, new, "file:line" of the function */
static int changed(lua_State *L) {
  neap__arg_table(L, 1, "changed", "argument 1");
  lua_settop(L, 1);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  for (lua_Integer i = 0; i < n; i += STRIDE) {
    lua_rawgeti(L, 1, i + 1);
    lua_rawgeti(L, 1, i + 3);
    lua_rawgeti(L, 1, i + 4);
    lua_rawgeti(L, 1, i + 5);
    lua_rawgeti(L, 1, i + 2);
    const int upvalue = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    const char *name = lua_getupvalue(L, 2, upvalue);
    if (name) {
      follow(L, 3);
      follow(L, 4);
      const bool same = lua_isnil(L, -1) ? lua_rawequal(L, 5, 1) : lua_rawequal(L, 5, -1);
      if (!same) return report(L, name);
    }
    lua_settop(L, 1);
  }
  return 0;
}

void neap__open_snapshot(lua_State *L) {
  static const luaL_Reg functions[] = {{"snapshot", snapshot}, {"settle", settle}, {"changed", changed}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
