/* The Lua standard library, embedded: the files of scripts/neap, by the name that require knows them by. */
#ifndef NEAP_BINDINGS_LUA_SCRIPTS_H
#define NEAP_BINDINGS_LUA_SCRIPTS_H

#include <stddef.h>

typedef struct neap_script {
  const char *name; /* "neap" for init.lua, "neap.nn" for nn.lua */
  const char *text; /* source text, size bytes and a zero after them */
  size_t size;
} neap_script;

extern const neap_script neap__scripts[]; /* sorted by file; ends with name NULL */

#endif
