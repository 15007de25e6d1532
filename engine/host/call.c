/* Loading scripts and calling their functions. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "host/engine.h"

/* --- loading ----------------------------------------------------------------------------------------- */

typedef struct script {
  const char *name, *text; /* text NULL: name is a file's */
  size_t length;
} script;

static int run_script(lua_State *L) {
  const script *s = lua_touserdata(L, 1);
  int result;
  if (s->text)
    result = luaL_loadbufferx(L, s->text, s->length, lua_pushfstring(L, "@%s", s->name), "t");
  else
    result = luaL_loadfilex(L, s->name, "t");
  if (result == LUA_ERRFILE) neap__lua_fail(L, NEAP_NOT_FOUND, NULL, "%s", lua_tostring(L, -1));
  if (result != LUA_OK) return lua_error(L);
  lua_call(L, 0, 0);
  return 0;
}

neap_status neap_load(neap_engine *e, const char *name, const char *text, size_t length) {
  if (!e) return NEAP_INVALID;
  if (!name || (!text && length)) return neap__refuse(e, NEAP_INVALID, "neap_load: %s is NULL", name ? "text" : "name");
  script s = {name, text ? text : "", length};
  return neap__enter(e, run_script, &s);
}

neap_status neap_load_file(neap_engine *e, const char *path) {
  if (!e) return NEAP_INVALID;
  if (!path) return neap__refuse(e, NEAP_INVALID, "neap_load_file: path is NULL");
  script s = {path, NULL, 0};
  return neap__enter(e, run_script, &s);
}

/* --- calling ----------------------------------------------------------------------------------------- */

typedef struct call {
  const char *name;
  const neap_arg *args;
  size_t n_args;
  neap_arg *results;
  size_t n_results;
  neap_transfer transfer;
} call;

/* Pushes the value that "a.b.c" names, from the globals on. */
static void push_function(lua_State *L, const char *name) {
  const char *part = name;
  lua_pushglobaltable(L);
  for (;;) {
    size_t n = strcspn(part, ".");
    lua_pushlstring(L, part, n);
    if (!lua_istable(L, -2) && !lua_isuserdata(L, -2)) break;
    lua_gettable(L, -2);
    lua_remove(L, -2);
    if (part[n] == '\0') {
      if (lua_isnil(L, -1)) break;
      return;
    }
    part += n + 1;
  }
  neap__lua_fail(L, NEAP_NOT_FOUND, NULL, "no script has defined a function '%s'", name);
}

static int run_call(lua_State *L) {
  call *c = lua_touserdata(L, 1);
  luaL_checkstack(L, (int)(c->n_args + c->n_results) + LUA_MINSTACK, "arguments and results");
  push_function(L, c->name);
  for (size_t i = 0; i < c->n_args; i++) neap__push_arg(L, &c->transfer, &c->args[i], i, "argument", false);
  lua_call(L, (int)c->n_args, (int)c->n_results);
  for (size_t i = 0; i < c->n_results; i++) neap__take_result(L, (int)i + 2, &c->results[i], i);
  return (int)c->n_results;
}

static neap_status check_call(neap_engine *e, const call *c) {
  if (!c->name) return neap__refuse(e, NEAP_INVALID, "neap_call: name is NULL");
  if (c->n_args > NEAP_MAX_ARGS || c->n_results > NEAP_MAX_ARGS)
    return neap__refuse(e, NEAP_RANGE, "neap_call '%s': %zu arguments and %zu results, expected at most %d", c->name,
                        c->n_args, c->n_results, NEAP_MAX_ARGS);
  if ((c->n_args && !c->args) || (c->n_results && !c->results))
    return neap__refuse(e, NEAP_INVALID, "neap_call '%s': the %s are NULL", c->name, c->args ? "results" : "arguments");
  return NEAP_OK;
}

neap_status neap_call(neap_engine *e, const char *name, const neap_arg *args, size_t n_args, neap_arg *results,
                      size_t n_results) {
  if (!e) return NEAP_INVALID;
  call c = {name, args, n_args, results, n_results, {.ctx = e->ctx}};
  neap_status s = check_call(e, &c);
  if (s != NEAP_OK) return s;
  s = neap__enter(e, run_call, &c);
  neap__transfer_end(&c.transfer);
  return s;
}
