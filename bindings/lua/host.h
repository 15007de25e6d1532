/* What a host reaches of its scripts: what they registered for ticks and loading screens, and the programs they
 * exported. Part of an engine's Lua state. */
#ifndef NEAP_BINDINGS_LUA_HOST_H
#define NEAP_BINDINGS_LUA_HOST_H

#include <lua.h>

#include "graph/program.h"

/* One name; lives as long as the engine, so that a host may keep pointers to it. */
struct neap_exported {
  neap_exported *next;
  char *name;
  neap_engine *engine; /* who is told of failures; set by whoever finds it */
  neap_context *ctx;
  neap_program *program;
  neap_arena arena; /* of this program alone, so that a run takes nothing */
  uint32_t n_in, n_out;
  neap_array *in, *out; /* descriptions, without data */
  const void **at_in;   /* of a device with memory of its own: places in `staging` */
  void **at_out;
  void *staging;
  size_t staging_bytes;
};

/* NULL when there is none. Raises nothing but memory errors. */
neap_exported *neap__lua_exported(lua_State *L, const char *name);
/* Takes no memory; touches no Lua. */
neap_status neap__exported_run(neap_exported *x, const void *const *inputs, void *const *outputs, neap_error *err);

typedef struct neap_lua_tick {
  neap_tick_state state;
  uint32_t commits;
  double next; /* seconds predicted for the shortest next slice; 0: unknown */
} neap_lua_tick;

/* Both raise what the scripts raise. */
void neap__lua_tick(lua_State *L, double seconds, neap_lua_tick *out);
void neap__lua_prepare(lua_State *L);
/* Plans have to be made again: the next tick says so, if anything asked to be prepared. */
void neap__lua_prepare_due(lua_State *L);

#endif
