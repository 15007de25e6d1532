/* A host with a Lua of its own, linked statically: the engine works in its state. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "embed.h"

static neap_status add(void *user, const neap_arg *args, size_t n_args, neap_arg *results, size_t *n_results) {
  (void)user, (void)n_args;
  results[0] = neap_number(neap_arg_number(&args[0]) + neap_arg_number(&args[1]));
  *n_results = 1;
  return NEAP_OK;
}

static void do_string(lua_State *L, const char *text) {
  CHECK(luaL_dostring(L, text) == LUA_OK, "%s", luaL_tolstring(L, -1, NULL));
}

static lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  CHECK(L, "no Lua state");
  luaL_openlibs(L);
  return L;
}

static neap_engine *open_in(lua_State *L) {
  neap_config config;
  neap_engine *engine = NULL;
  neap_config_init(&config);
  config.threads = 1;
  config.seed = 7;
  int top = lua_gettop(L);
  CHECK(neap_lua_open(L, &config, &engine) == NEAP_OK && engine, "no engine");
  CHECK(lua_gettop(L) == top, "the host's stack changed");
  return engine;
}

/* The host's own code, running in Lua, ticks the engine. */
static int tick_from_lua(lua_State *L) {
  neap_engine *engine = lua_touserdata(L, lua_upvalueindex(1));
  lua_pushinteger(L, tick(engine, 500).state);
  return 1;
}

static void check_work(lua_State *L, neap_engine *engine) {
  OK(engine, neap_register(engine, "add", add, NULL));
  lua_pushliteral(L, "the host's");
  do_string(L, "neap = require 'neap' assert((neap.tensor {1, 2} + 1):totable()[2] == 3 and host.add(1, 2) == 3)");
  OK(engine, neap_load_file(engine, SCRIPTS "/train.lua"));
  neap_arg steps = neap_integer(3);
  OK(engine, neap_call(engine, "train_by_ticks", &steps, 1, NULL, 0));
  lua_pushlightuserdata(L, engine);
  lua_pushcclosure(L, tick_from_lua, 1);
  lua_setglobal(L, "tick");
  do_string(L,
            "local co = coroutine.wrap(function() repeat local s = tick() until s == 5 return true end) assert(co())");
  do_string(L, "assert(steps() == 3 and last_loss() < 2)");
  FAILS(engine, NEAP_SCRIPT, run(engine, "error 'on purpose'"));
  OK(engine, neap_set_memory_limit(engine, 2 << 20, NEAP_NOW));
  FAILS(engine, NEAP_OOM, run(engine, "neap.zeros(1 << 22)"));
  do_string(L, "local ok, e = pcall(neap.zeros, 1 << 22) assert(not ok and e.code == 'OOM')");
  CHECK(strcmp(lua_tostring(L, -1), "the host's") == 0, "the host's stack changed");
  lua_pop(L, 1);
}

static void check_refusals(lua_State *L) {
  neap_config config;
  neap_engine *second = NULL;
  char why[300] = "";
  neap_config_init(&config);
  config.error = why;
  config.error_size = sizeof why;
  CHECK(neap_lua_open(L, &config, &second) == NEAP_INVALID && !second && strstr(why, "another engine"), "%s", why);
  config.script_instructions = 5;
  CHECK(neap_lua_open(L, &config, &second) == NEAP_INVALID && strstr(why, "script_instructions"), "%s", why);
  do_string(L, "assert((neap.tensor {1} + 1):item() == 2)");
}

int main(void) {
  lua_State *L = open_state();
  neap_engine *engine = open_in(L);
  check_work(L, engine);
  check_refusals(L);
  do_string(L, "kept = neap.ones(3)");
  neap_destroy(engine); /* the engine first: what scripts kept is closed */
  do_string(L,
            "local ok, e = pcall(function() return kept:sum() end) assert(not ok and e.code == 'CLOSED', tostring(e))");
  do_string(L, "assert(not pcall(neap.zeros, 1))");
  engine = open_in(L); /* and a second one in the same state */
  check_work(L, engine);
  lua_close(L); /* the state first */
  CHECK(neap_call(engine, "steps", NULL, 0, NULL, 0) == NEAP_CLOSED, "a call into a closed state");
  neap_destroy(engine);
  return 0;
}
