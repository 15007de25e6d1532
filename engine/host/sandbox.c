/* The Lua state of an engine: which libraries scripts see, text chunks only, and nothing that ends the process
 * or loads native code. */
#include <stdio.h>
#include <string.h>

#include <lualib.h>

#include "bindings/lua/lua_neap.h"
#include "bindings/lua/open.h"
#include "host/engine.h"

static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},
                                     {LUA_LOADLIBNAME, luaopen_package},
                                     {LUA_COLIBNAME, luaopen_coroutine},
                                     {LUA_TABLIBNAME, luaopen_table},
                                     {LUA_IOLIBNAME, luaopen_io},
                                     {LUA_OSLIBNAME, luaopen_os},
                                     {LUA_STRLIBNAME, luaopen_string},
                                     {LUA_MATHLIBNAME, luaopen_math},
                                     {LUA_UTF8LIBNAME, luaopen_utf8},
                                     {LUA_DBLIBNAME, luaopen_debug},
                                     {NULL, NULL}};

static bool is_library(const char *name) {
  if (strcmp(name, "base") == 0) return true;
  for (const luaL_Reg *l = libraries; l->name; l++)
    if (strcmp(l->name, name) == 0) return true;
  return false;
}

neap_status neap__sandbox_check(const neap_config *config, neap_error *err) {
  for (const char *const *m = config->modules; m && *m; m++)
    if (!is_library(*m))
      return neap__fail(err, NEAP_INVALID,
                        "config.modules names '%s', expected base, package, coroutine, table, io, os, string, math, "
                        "utf8 or debug",
                        *m);
  return NEAP_OK;
}

static bool allowed(const neap_config *config, const char *name) {
  if (!config->modules || strcmp(name, LUA_GNAME) == 0) return true;
  for (const char *const *m = config->modules; *m; m++)
    if (strcmp(*m, name) == 0) return true;
  return false;
}

/* --- text chunks only -------------------------------------------------------------------------------- */

/* Upvalue 1: `load` or `loadfile`; upvalue 2: the position of its argument `mode`. */
static int load_text(lua_State *L) {
  int mode = (int)lua_tointeger(L, lua_upvalueindex(2));
  if (lua_gettop(L) < mode) lua_settop(L, mode);
  lua_pushliteral(L, "t");
  lua_replace(L, mode);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static int finish_dofile(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L) - 1;
}

static int dofile_text(lua_State *L) {
  const char *name = luaL_optstring(L, 1, NULL);
  lua_settop(L, 1);
  if (luaL_loadfilex(L, name, "t") != LUA_OK) return lua_error(L);
  lua_callk(L, 0, LUA_MULTRET, 0, finish_dofile);
  return finish_dofile(L, LUA_OK, 0);
}

/* As Lua's own searcher, in package.searchers: name -> loader, file; or a text that says where it looked.
 * Upvalue 1: package. */
static int search_text(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_getfield(L, lua_upvalueindex(1), "searchpath");
  lua_pushvalue(L, 1);
  if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING)
    return luaL_error(L, "'package.path' must be a string");
  lua_call(L, 2, 2);
  if (lua_isnil(L, -2)) return 1;
  const char *file = lua_tostring(L, -2);
  if (luaL_loadfilex(L, file, "t") != LUA_OK)
    return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, file, lua_tostring(L, -1));
  lua_pushstring(L, file);
  return 2;
}

static void wrap_load(lua_State *L, const char *name, int mode) {
  lua_getglobal(L, name);
  lua_pushinteger(L, mode);
  lua_pushcclosure(L, load_text, 2);
  lua_setglobal(L, name);
}

/* --- the process is the host's ----------------------------------------------------------------------- */

static int refuse_exit(lua_State *L) {
  neap__lua_fail(L, NEAP_UNSUPPORTED, "os.exit", "a script does not end its host: return, or raise an error");
}

static void set_nil(lua_State *L, const char *name) {
  lua_pushnil(L);
  lua_setfield(L, -2, name);
}

/* Preloaded modules and text files are found, native code is not. */
static void restrict_package(lua_State *L, const neap_config *config) {
  lua_getglobal(L, LUA_LOADLIBNAME);
  set_nil(L, "loadlib");
  set_nil(L, "cpath");
  if (config->script_path) {
    lua_pushstring(L, config->script_path);
    lua_setfield(L, -2, "path");
  }
  lua_getfield(L, -1, "searchers");
  for (lua_Integer i = 2; i <= 4; i++) {
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  if (allowed(config, LUA_LOADLIBNAME)) {
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, search_text, 1);
    lua_rawseti(L, -2, 2);
  }
  lua_pop(L, 2);
}

static void restrict_functions(lua_State *L, const neap_config *config) {
  wrap_load(L, "load", 3);
  wrap_load(L, "loadfile", 2);
  lua_pushcfunction(L, dofile_text);
  lua_setglobal(L, "dofile");
  if (!allowed(config, LUA_IOLIBNAME)) {
    lua_pushglobaltable(L);
    set_nil(L, "loadfile");
    set_nil(L, "dofile");
    lua_pop(L, 1);
  }
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_pushcfunction(L, refuse_exit);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}

/* --- opening ----------------------------------------------------------------------------------------- */

/* The engine's own scripts use all libraries, whatever those of the host may: a copy of the globals is theirs. */
static void keep_globals(lua_State *L) {
  lua_newtable(L);
  lua_pushglobaltable(L);
  for (lua_pushnil(L); lua_next(L, -2);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
  neap__lua_set_globals(L);
}

static void hide_libraries(lua_State *L, const neap_config *config) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushglobaltable(L);
  for (const luaL_Reg *l = libraries; l->name; l++) {
    if (allowed(config, l->name)) continue;
    set_nil(L, l->name);
    lua_pushnil(L);
    lua_setfield(L, -3, l->name);
  }
  lua_pop(L, 2);
}

static void open_neap(lua_State *L, neap_engine *e) {
  neap_status s = neap__lua_open(L, e->ctx, false);
  if (s == NEAP_NOMEM)
    neap__lua_fail(L, e->limits.refused ? NEAP_LIMIT : s, NULL, "there is too little memory for Lua to open neap");
  if (s != NEAP_OK) lua_error(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_insert(L, -2);
  lua_setfield(L, -2, "neap");
  lua_pop(L, 1);
}

void neap__sandbox_open(lua_State *L, neap_engine *e, const neap_config *config) {
  lua_pushboolean(L, 1); /* the environment is not read: it is the host's, and paths come from the config */
  lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  for (const luaL_Reg *l = libraries; l->name; l++) {
    luaL_requiref(L, l->name, l->func, 1);
    lua_pop(L, 1);
  }
  restrict_package(L, config);
  restrict_functions(L, config);
  if (config->modules || neap__limits_timed(e)) keep_globals(L);
  open_neap(L, e);
  if (config->modules) hide_libraries(L, config);
  if (neap__limits_timed(e)) neap__limits_guard(L);
  neap__push_host_table(L);
  lua_setglobal(L, "host");
}
