/* How a host puts the engine into a Lua state. */
#ifndef NEAP_BINDINGS_LUA_OPEN_H
#define NEAP_BINDINGS_LUA_OPEN_H

#include <lua.h>

#include "graph/context.h"

/* Pushes the `neap` module table of L over `ctx`; pushes an error value when this fails. A state has one
 * engine: opening it again gives the same table, another context is NEAP_INVALID. With `owns` the context
 * belongs to L from the call on, whatever comes of it, and is destroyed when the state closes, after
 * everything that scripts made. Never raises a Lua error but for Lua's stack. */
neap_status neap__lua_open(lua_State *L, neap_context *ctx, bool owns);

/* Lets go of everything L holds of its engine (an unfinished update is dropped), for a host that ends the
 * engine before the state. Tensors that scripts still hold become closed ones. Raises nothing. */
void neap__lua_close(lua_State *L);

/* What luaopen_neap makes its engine with, in place of the defaults; copied, but for what callbacks point
 * to. May raise a memory error. */
void neap__lua_configure(lua_State *L, const neap_config *config);

/* The table on top, which it pops, becomes what the embedded scripts see as globals; without one they share L's.
 * For states whose own globals are cut down. May raise a memory error. */
void neap__lua_set_globals(lua_State *L);

/* `require "neap"`: an engine of L's own, unless the host opened one. */
NEAP_API int luaopen_neap(lua_State *L);

#endif
