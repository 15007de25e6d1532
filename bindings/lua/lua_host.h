/* What host.c and export.c share. */
#ifndef NEAP_BINDINGS_LUA_LUA_HOST_H
#define NEAP_BINDINGS_LUA_LUA_HOST_H

#include "bindings/lua/host.h"
#include "bindings/lua/lua_neap.h"

typedef struct neap_lua_host {
  neap_handle base;
  neap_exported *exported;
  bool due;         /* for preparing */
  lua_Integer turn; /* who is asked first by the next tick */
  double patience;  /* what is left of a prediction that keeps a slice waiting */
} neap_lua_host;

neap_lua_host *neap__lua_host(lua_State *L); /* raises memory errors, and NEAP_CLOSED */
void neap__exports_drop(neap_lua_host *h);
int neap__export(lua_State *L); /* neap.export(name, fn, shapes) */

#endif
