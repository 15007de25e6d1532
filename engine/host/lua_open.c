/* Engines for a Lua state that the host has. */
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "bindings/lua/open.h"
#include "host/engine.h"

static const char guest_key;

/* What L keeps of an engine: the thread its calls run in, and word when L closes. */
typedef struct guest {
  neap_engine *engine; /* NULL once it is gone */
} guest;

/* The state closes before the engine: nothing of it may be touched from here on. */
static int guest_gc(lua_State *L) {
  guest *g = lua_touserdata(L, 1);
  if (!g->engine) return 0;
  neap__lua_close(L);
  g->engine->L = NULL;
  g->engine = NULL;
  return 0;
}

static void make_guest(lua_State *L, neap_engine *e) {
  guest *g = lua_newuserdatauv(L, sizeof *g, 1);
  g->engine = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, guest_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  e->L = lua_newthread(L);
  lua_setiuservalue(L, -2, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &guest_key);
  g->engine = e;
}

/* Raises nothing: the keys are there, and nil takes no memory. */
void neap__guest_leave(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &guest_key);
  guest *g = lua_touserdata(L, -1);
  if (g) g->engine = NULL;
  lua_pop(L, 1);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &guest_key);
  neap__engine_bind(L, NULL);
  neap__drop_host_table(L);
}

static int open_guest(lua_State *L) {
  neap_engine *e = lua_touserdata(L, 1);
  luaL_checkversion(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &guest_key) != LUA_TNIL)
    neap__lua_fail(L, NEAP_INVALID, NULL, "this Lua state has another engine already");
  neap__engine_bind(L, e);
  neap_status s = neap__lua_open(L, e->ctx, false);
  if (s == NEAP_NOMEM) neap__lua_fail(L, s, NULL, "Lua refused memory");
  if (s != NEAP_OK) return lua_error(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_insert(L, -2);
  lua_setfield(L, -2, "neap");
  neap__push_host_table(L);
  lua_setglobal(L, "host");
  make_guest(L, e);
  return 0;
}

static neap_status check_guest(const neap_config *c, neap_error *err) {
  const char *what = c->script_instructions  ? "script_instructions"
                     : c->script_bytes       ? "script_bytes"
                     : c->script_seconds > 0 ? "script_seconds"
                     : c->modules            ? "modules"
                     : c->script_path        ? "script_path"
                                             : NULL;
  if (!what) return NEAP_OK;
  return neap__fail(err, NEAP_INVALID, "config.%s is set, but this Lua state is the host's: its limits are, too", what);
}

static neap_status open_in(lua_State *L, const neap_config *config, neap_engine **out, neap_error *err) {
  neap_engine *e = NULL;
  neap_status s = check_guest(config, err);
  if (s == NEAP_OK) s = neap__engine_make(config, &e, err);
  if (s != NEAP_OK) return s;
  s = neap__enter_state(e, L, open_guest);
  if (s == NEAP_OK) return *out = e, NEAP_OK;
  *err = e->error;
  if (neap__engine_is(L, e)) {
    neap__lua_close(L);
    neap__guest_leave(L);
  }
  neap__engine_free(e);
  return s;
}

neap_status neap_lua_open(lua_State *L, const neap_config *given, neap_engine **out) {
  neap_config config;
  neap_error err;
  if (!L || !out) return NEAP_INVALID;
  *out = NULL;
  neap_status s = neap__config_read(given, &config, &err);
  if (s == NEAP_OK) s = open_in(L, &config, out, &err);
  return s == NEAP_OK ? s : neap__create_failed(&config, &err);
}
