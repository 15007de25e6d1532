// A host whose Lua is built as C++: errors are exceptions, pass the library, and unwind the host's frames.
#include <string>
#include <vector>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "embed.h"

namespace {

int unwound = 0;

struct Witness {
  std::vector<int> held = std::vector<int>(100);
  ~Witness() { unwound++; }
};

// Calls its argument; what that raises passes through here.
int pass_through(lua_State *L) {
  Witness witness;
  lua_call(L, 0, 0);
  return 0;
}

void do_string(lua_State *L, const char *text) {
  CHECK(luaL_dostring(L, text) == LUA_OK, "%s", luaL_tolstring(L, -1, nullptr));
}

} // namespace

int main() {
  lua_State *L = luaL_newstate();
  CHECK(L, "no Lua state");
  luaL_openlibs(L);
  lua_register(L, "pass_through", pass_through);
  neap_config config;
  neap_config_init(&config);
  config.threads = 1;
  neap_engine *engine = nullptr;
  CHECK(neap_lua_open(L, &config, &engine) == NEAP_OK, "no engine");
  do_string(L, "neap = require 'neap'");
  do_string(L, "local ok, e = pcall(pass_through, function() neap.zeros(2, 3):matmul(neap.zeros(2, 3)) end) "
               "assert(not ok and e.code == 'SHAPE', tostring(e))");
  CHECK(unwound == 1, "the error unwound %d frames of the host", unwound);
  do_string(L, "local traced = neap.compile(function(x) error 'while tracing' end) "
               "local ok, e = pcall(pass_through, function() traced(neap.zeros(2)) end) "
               "assert(not ok and tostring(e):find 'while tracing') assert((neap.ones(2) + 1):sum():item() == 4)");
  CHECK(unwound == 2, "the error unwound %d frames of the host", unwound);
  OK(engine, neap_load_file(engine, SCRIPTS "/train.lua"));
  neap_arg steps = neap_integer(5);
  OK(engine, neap_call(engine, "train", &steps, 1, nullptr, 0));
  FAILS(engine, NEAP_SCRIPT, run(engine, "error 'on purpose'"));
  OK(engine, neap_set_memory_limit(engine, 1 << 20, NEAP_NOW));
  FAILS(engine, NEAP_OOM, run(engine, "neap.zeros(1 << 22)"));
  neap_destroy(engine);
  lua_close(L);
  return 0;
}
