/* A program that exports functions with Lua's names, as one with another Lua in it does. Here they end the process:
 * libneap must use its own and never these. */
#include "embed.h"

#define TRAP(name)                                        \
  void name(void);                                        \
  void name(void) {                                       \
    fprintf(stderr, "the program's own " #name " ran\n"); \
    abort();                                              \
  }

TRAP(lua_newstate)
TRAP(lua_close)
TRAP(lua_newthread)
TRAP(lua_pcallk)
TRAP(lua_callk)
TRAP(lua_error)
TRAP(lua_gettop)
TRAP(lua_settop)
TRAP(lua_gc)
TRAP(lua_load)
TRAP(lua_pushstring)
TRAP(lua_pushlstring)
TRAP(lua_pushcclosure)
TRAP(lua_getfield)
TRAP(lua_setfield)
TRAP(lua_rawgetp)
TRAP(lua_rawsetp)
TRAP(lua_newuserdatauv)
TRAP(lua_touserdata)
TRAP(lua_tolstring)
TRAP(lua_createtable)
TRAP(lua_setmetatable)
TRAP(luaL_newstate)
TRAP(luaL_openlibs)
TRAP(luaL_loadbufferx)
TRAP(luaL_requiref)
TRAP(luaL_setfuncs)
TRAP(luaL_error)
TRAP(luaopen_base)
TRAP(luaopen_string)
TRAP(luaD_throw)
TRAP(luaM_malloc_)

int main(void) {
  neap_engine *engine = open_plain();
  OK(engine, neap_load_file(engine, SCRIPTS "/train.lua"));
  neap_arg steps = neap_integer(3);
  OK(engine, neap_call(engine, "train", &steps, 1, NULL, 0));
  CHECK(ask(engine, "last_loss") < 2, "loss %g", ask(engine, "last_loss"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "error 'on purpose'"));
  neap_destroy(engine);
  return 0;
}
