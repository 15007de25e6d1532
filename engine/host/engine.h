/* What the files of the host API share. */
#ifndef NEAP_HOST_ENGINE_H
#define NEAP_HOST_ENGINE_H

#include <stdbool.h>

#include <lauxlib.h>
#include <lua.h>

#include "graph/context.h"

/* What scripts may use up, and have. */
typedef struct neap_limits {
  uint64_t instructions, done; /* of a call; 0: no limit */
  double seconds, deadline;    /* 0: no limit */
  size_t bytes;                /* of Lua memory; 0: no limit */
  bool reached;                /* in this call; the script is being unwound */
  bool refused;                /* memory, in this call, because of `bytes` */
} neap_limits;

struct neap_engine {
  neap_host host; /* of this struct alone */
  neap_host lua;  /* of its own Lua state */
  neap_context *ctx;
  lua_State *L; /* calls run here: its own state, or a thread of the host's; NULL once that is closed */
  bool owns_lua;
  bool busy;
  neap_limits limits;
  neap_error error;
  neap_failure failure; /* points into error */
};

/* --- engine.c ---------------------------------------------------------------------------------------- */

/* Checks, and fills with defaults what a smaller struct does not have. given NULL: all defaults. */
neap_status neap__config_read(const neap_config *given, neap_config *out, neap_error *err);
/* An engine with its context and without Lua. */
neap_status neap__engine_make(const neap_config *config, neap_engine **out, neap_error *err);
/* Everything but Lua. */
void neap__engine_free(neap_engine *e);
/* Tells the host why there is no engine. Returns err's status. */
neap_status neap__create_failed(const neap_config *config, const neap_error *err);
/* What e->error says becomes what neap_last_error tells. Returns status. */
neap_status neap__leave(neap_engine *e, neap_status status);
/* As neap__fail, for calls on an engine. */
neap_status neap__refuse(neap_engine *e, neap_status status, const char *fmt, ...) NEAP_PRINTF(3, 4);

/* --- enter.c: from C into Lua ------------------------------------------------------------------------ */

/* The engine of L; raises NEAP_CLOSED when it is gone. Takes no memory. */
neap_engine *neap__engine_of(lua_State *L);
/* L's engine is e from now on (NULL: none). Raises memory errors. */
void neap__engine_bind(lua_State *L, neap_engine *e);
bool neap__engine_is(lua_State *L, const neap_engine *e); /* whether e is L's; needs a slot of the stack */
/* Runs fn(e as light userdata) protected in a state of the host's, whose stack stays as it was. */
neap_status neap__enter_state(neap_engine *e, lua_State *L, lua_CFunction fn);
/* Runs fn(request as light userdata) protected, within the script limits. What it returns stays on e->L from
 * index 2 on until the next call. NEAP_BUSY inside another call. */
neap_status neap__enter(neap_engine *e, lua_CFunction fn, void *request);

/* --- limits.c ---------------------------------------------------------------------------------------- */

void *neap__lua_alloc(void *user, void *p, size_t old_size, size_t new_size); /* user: the engine */
/* From now on instructions are counted in L and in coroutines made from now on. Raises nothing. */
void neap__limits_watch(neap_engine *e);
void neap__limits_begin(neap_engine *e);
static inline bool neap__limits_timed(const neap_engine *e) { return e->limits.instructions || e->limits.seconds > 0; }
/* Replaces what would let a script slip past the limits. May raise memory errors. */
void neap__limits_guard(lua_State *L);

/* --- sandbox.c --------------------------------------------------------------------------------------- */

/* NEAP_INVALID when a name in config->modules is none of Lua's libraries. */
neap_status neap__sandbox_check(const neap_config *config, neap_error *err);
/* Opens Lua's libraries as the config says, the table of host functions, and "neap". May raise. */
void neap__sandbox_open(lua_State *L, neap_engine *e, const neap_config *config);

/* --- values.c ---------------------------------------------------------------------------------------- */

/* Arguments and results of one call. The tensors lent to the script are taken back when it is over. */
typedef struct neap_transfer {
  neap_context *ctx;
  neap_storage *lent[NEAP_MAX_ARGS];
  size_t n_lent;
} neap_transfer;

/* Pushes a value of the host's; a tensor is lent, or copied where the device has memory of its own or
 * `copy` says so. i counts from 0; `what` ("argument") is for errors. */
void neap__push_arg(lua_State *L, neap_transfer *t, const neap_arg *a, size_t i, const char *what, bool copy);
/* A script's value for the host. Strings stay Lua's; tensors are copied into the room that *out gives. */
void neap__take_result(lua_State *L, int index, neap_arg *out, size_t i);
void neap__transfer_end(neap_transfer *t);

/* --- register.c -------------------------------------------------------------------------------------- */

/* Pushes the table of host functions. May raise memory errors. */
void neap__push_host_table(lua_State *L);
/* L's next engine has a new one. Raises nothing. */
void neap__drop_host_table(lua_State *L);

/* --- lua_open.c -------------------------------------------------------------------------------------- */

/* L forgets its engine, which was given to it with neap_lua_open. Raises nothing. */
void neap__guest_leave(lua_State *L);

#endif
