/* What the files of the executable share. */
#ifndef NEAP_HOST_MAIN_H
#define NEAP_HOST_MAIN_H

#include <lua.h>

#define NEAP_PROGRAM "neap"

/* Writes "neap: message" on stderr. */
void neap__main_complain(const char *message);
/* Writes what -v prints. */
void neap__main_version(void);
/* Calls the function under its n arguments with a traceback handler, interruptible by Ctrl-C, as `lua` does.
 * Leaves results, or an error message, and returns the Lua status. */
int neap__main_call(lua_State *L, int n, int results);
/* As neap__main_call's failure: prints the message on top and pops it. Returns status. */
int neap__main_report(lua_State *L, int status);
/* Reads, runs and prints until the end of the input. */
void neap__main_repl(lua_State *L);

#endif
