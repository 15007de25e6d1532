/* Error objects: plain tables {code, message, op, shapes, bytes, where}. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

static const char meta_key;

#define MAX_LEVELS 200 /* of the stack are looked through for a line of the script's */

static bool is_library(const lua_Debug *ar) { return strncmp(ar->source, "=neap.", 6) == 0; }

const char *neap__lua_where(lua_State *L, char *buf, size_t size) {
  lua_Debug ar;
  buf[0] = '\0';
  for (int level = 0; level < MAX_LEVELS && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || is_library(&ar)) continue;
    snprintf(buf, size, "%s:%d", ar.short_src, ar.currentline);
    break;
  }
  return buf;
}

static void set_text(lua_State *L, const char *field, const char *text) {
  if (!text[0]) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

/* "OOM" for NEAP_OOM */
static const char *code_of(neap_status status) {
  const char *name = neap_status_name(status);
  return strncmp(name, "NEAP_", 5) == 0 ? name + 5 : name;
}

static int error_tostring(lua_State *L);
static int error_concat(lua_State *L);

/* Made at first use: an engine that cannot be opened has errors, too. */
static void set_meta(lua_State *L) {
  static const luaL_Reg meta[] = {{"__tostring", error_tostring}, {"__concat", error_concat}, {NULL, NULL}};
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_newtable(L);
    luaL_setfuncs(L, meta, 0);
    lua_pushliteral(L, "neap.error");
    lua_setfield(L, -2, "__name");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
  }
  lua_setmetatable(L, -2);
}

void neap__push_error(lua_State *L, const neap_error *err) {
  char where[sizeof err->where];
  luaL_checkstack(L, 8, "an error object");
  lua_createtable(L, 0, 6);
  set_text(L, "code", code_of(err->status));
  set_text(L, "message", err->message[0] ? err->message : neap_status_text(err->status));
  set_text(L, "op", err->op);
  set_text(L, "shapes", err->shapes);
  set_text(L, "where", err->where[0] ? err->where : neap__lua_where(L, where, sizeof where));
  if (err->bytes) {
    lua_pushinteger(L, (lua_Integer)err->bytes);
    lua_setfield(L, -2, "bytes");
  }
  set_meta(L);
}

void neap__raise(lua_State *L, const neap_error *err) {
  neap__push_error(L, err);
  for (;;) lua_error(L);
}

static void format(neap_error *err, neap_status status, const char *fmt, va_list args) {
  char text[sizeof err->message];
  vsnprintf(text, sizeof text, fmt, args);
  neap__fail(err, status, "%s", text);
}

void neap__lua_fail(lua_State *L, neap_status status, const char *op, const char *fmt, ...) {
  neap_error err;
  va_list args;
  va_start(args, fmt);
  format(&err, status, fmt, args);
  va_end(args);
  if (op) snprintf(err.op, sizeof err.op, "%s", op);
  neap__raise(L, &err);
}

/* The field's text, or "" for what is no string. Leaves it on the stack. */
static const char *field(lua_State *L, int index, const char *name) {
  lua_pushstring(L, name);
  lua_rawget(L, index);
  return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
}

/* "script.lua:12: conv2d: message (shapes)" */
static int error_tostring(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  const char *where = field(L, 1, "where"), *op = field(L, 1, "op"), *message = field(L, 1, "message");
  const char *shapes = field(L, 1, "shapes");
  size_t n = strlen(op);
  bool named = n == 0 || (strncmp(message, op, n) == 0 && message[n] == ':');
  bool shown = shapes[0] == '\0' || strstr(message, shapes);
  lua_pushfstring(L, "%s%s%s%s%s%s%s%s", where, where[0] ? ": " : "", named ? "" : op, named ? "" : ": ",
                  message[0] ? message : "unknown error", shown ? "" : " (", shown ? "" : shapes, shown ? "" : ")");
  return 1;
}

static int error_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* core.error(code, message[, fields]) */
static int new_error(lua_State *L) {
  char where[200];
  lua_settop(L, 3);
  neap__arg_string(L, 1, "error", "the code", NULL);
  neap__arg_string(L, 2, "error", "the message", NULL);
  lua_createtable(L, 0, 6);
  lua_pushvalue(L, 1);
  lua_setfield(L, 4, "code");
  lua_pushvalue(L, 2);
  lua_setfield(L, 4, "message");
  set_text(L, "where", neap__lua_where(L, where, sizeof where));
  if (!lua_isnil(L, 3)) {
    neap__arg_table(L, 3, "error", "fields");
    for (lua_pushnil(L); lua_next(L, 3);) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, 4);
    }
  }
  set_meta(L);
  return 1;
}

void neap__open_error(lua_State *L) {
  lua_pushcfunction(L, new_error);
  lua_setfield(L, -2, "error");
}
