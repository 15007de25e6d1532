/* What programs, updates and scripts of one engine share: memory, threads, backend, caches. Independent of
 * Lua. One thread at a time. */
#ifndef NEAP_GRAPH_CONTEXT_H
#define NEAP_GRAPH_CONTEXT_H

#include "backend/backend.h"
#include "base/rng.h"
#include "memory/resource.h"

/* One block that programs run in, one after the other. It is as large as the largest need so far, unless
 * memory is short; whoever is between begin and end of a run holds it. */
typedef struct neap_arena {
  struct neap_context *ctx;
  void *base;
  size_t bytes;
  const void *holder; /* the run that uses it now, NULL: free */
} neap_arena;

typedef struct neap_program_cache neap_program_cache;

typedef struct neap_context {
  neap_host host;
  neap_log log;
  neap_threads *threads;
  neap_backend *backend;
  neap_backend_info info;
  neap_resource *system, *fault, *budget, *pool;
  neap_resource *memory; /* the top of the stack: what everything reserves from */
  neap_arena train;      /* updates */
  neap_arena infer;      /* everything else: may run between the slices of an update */
  neap_program_cache *cache;
  neap_rng rng;     /* outside updates; (seed, position) is saved */
  uint64_t seed;    /* of what programs draw */
  uint64_t updates; /* committed; saved */
  uint64_t draws;   /* runs outside updates that drew numbers; saved */
  /* Asked before a refusal is passed on: frees what only garbage holds. Returns true when it may have
   * freed something. */
  bool (*on_pressure)(void *user);
  void *pressure_user;
} neap_context;

/* config NULL: defaults. On failure nothing is left. */
neap_status neap__context_create(const neap_config *config, neap_context **out, neap_error *err);
void neap__context_destroy(neap_context *c); /* NULL is nothing; storages must be dropped before */

/* A new dense tensor of this engine; contents undefined. Under pressure: caches, garbage, then NEAP_OOM. */
neap_status neap__context_tensor(neap_context *c, const neap_desc *d, neap_owner owner, neap_tensor *out,
                                 neap_error *err);
/* Reserves with the same pressure sequence. */
neap_status neap__context_reserve(neap_context *c, size_t bytes, neap_owner owner, void **out, neap_error *err);
/* limit UINT64_MAX: none. now: gives memory back before it returns (idle arenas, pool); the caller has
 * dropped unfinished updates. */
void neap__context_limit(neap_context *c, uint64_t limit, bool now);

/* Gives back to the system what is idle: arenas nobody holds, and what the pool keeps for reuse. */
void neap__context_release(neap_context *c);

/* Makes the arena at least `bytes` large and lends it to `holder`; NEAP_BUSY when someone else holds it. */
neap_status neap__arena_take(neap_arena *a, const void *holder, size_t bytes, neap_error *err);
void neap__arena_return(neap_arena *a, const void *holder); /* keeps the block; nothing when not the holder */
void neap__arena_drop(neap_arena *a);                       /* gives the block back; must not be held */

#endif
