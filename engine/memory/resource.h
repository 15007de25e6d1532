/* Memory resources stack on one interface: trace over pool over budget over fault over what a backend
 * reserves. Each can be tested alone, by the same suite, and each counts by owner. */
#ifndef NEAP_MEMORY_RESOURCE_H
#define NEAP_MEMORY_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/host.h"
#include "base/log.h"
#include "base/status.h"

#define NEAP_ALIGN 64u /* every block begins on such a boundary and its size is rounded up to it */

#define NEAP_OWNER_MAP(XX)     \
  XX(PARAMETERS, parameters)   \
  XX(GRADIENTS, gradients)     \
  XX(OPTIMIZER, optimizer)     \
  XX(ACTIVATIONS, activations) \
  XX(WORKSPACE, workspace)     \
  XX(TENSORS, tensors)         \
  XX(STAGING, staging)         \
  XX(CHECKPOINT, checkpoint)   \
  XX(CACHE, cache)

typedef enum neap_owner {
#define XX(upper, lower) NEAP_OWNER_##upper,
  NEAP_OWNER_MAP(XX)
#undef XX
      NEAP_OWNER_COUNT
} neap_owner;

const char *neap__owner_name(neap_owner owner); /* "parameters", ... */

typedef struct neap_memory_stats {
  uint64_t in_use;   /* bytes handed out by this resource */
  uint64_t peak;     /* highest in_use since the last reset */
  uint64_t reserved; /* bytes this resource holds from the one below */
  uint64_t reserved_peak;
  uint64_t limit;                      /* the tightest budget at or below; UINT64_MAX: none */
  uint64_t largest_free;               /* largest request that would succeed without any collection */
  uint64_t count;                      /* requests granted so far */
  uint64_t refused;                    /* requests refused so far */
  uint64_t by_owner[NEAP_OWNER_COUNT]; /* of in_use */
} neap_memory_stats;

typedef struct neap_resource neap_resource;

/* Not thread-safe: a resource belongs to its engine's thread. */
typedef struct neap_resource_vtable {
  uint32_t size; /* sizeof this struct where it was compiled; fields are only appended */
  const char *name;
  /* bytes > 0. *out is NEAP_ALIGN-aligned. NEAP_OOM when refused (err names bytes, budget, in use): a
   * refusal changes nothing. */
  neap_status (*reserve)(neap_resource *self, size_t bytes, neap_owner owner, void **out, neap_error *err);
  /* bytes and owner as they were at reserve. Cannot fail. */
  void (*release)(neap_resource *self, void *p, size_t bytes, neap_owner owner);
  /* Gives back to the resource below, and in the end to the system, what is cached and unused, until at
   * most `keep` unused bytes are held. Returns the bytes given back. */
  uint64_t (*trim)(neap_resource *self, uint64_t keep);
  void (*stats)(neap_resource *self, neap_memory_stats *out);
  void (*reset_peak)(neap_resource *self); /* here and below */
  void (*destroy)(neap_resource *self);    /* this resource alone, not the one below; all must be released */
} neap_resource_vtable;

struct neap_resource {
  const neap_resource_vtable *vt;
  neap_resource *below; /* NULL at the bottom */
};

#define neap__reserve(r, bytes, owner, out, err) ((r)->vt->reserve((r), (bytes), (owner), (out), (err)))
#define neap__release(r, p, bytes, owner) ((r)->vt->release((r), (p), (bytes), (owner)))

static inline size_t neap__align_up(size_t bytes) { return (bytes + (NEAP_ALIGN - 1)) & ~(size_t)(NEAP_ALIGN - 1); }

/* --- what stacks ------------------------------------------------------------------------------------ */

/* The system's memory through a pair of functions (a backend's reserve and release). Blocks go back to
 * the system at release. */
typedef neap_status (*neap_raw_reserve)(void *user, size_t bytes, void **out, neap_error *err);
typedef void (*neap_raw_release)(void *user, void *p, size_t bytes);
neap_status neap__system_create(neap_host *h, neap_raw_reserve reserve, neap_raw_release release, void *user,
                                neap_resource **out, neap_error *err);

/* Refuses the n-th request from now (1 is the next); every = 1: that one and all after it; n = 0: never. */
neap_status neap__fault_create(neap_host *h, neap_resource *below, neap_resource **out, neap_error *err);
void neap__fault_set(neap_resource *fault, uint64_t n, int every);

/* Refuses what would take in_use above the limit (UINT64_MAX: none). Lowering the limit below what is in
 * use is allowed and refuses requests until enough is released. */
neap_status neap__budget_create(neap_host *h, neap_resource *below, uint64_t limit, neap_resource **out,
                                neap_error *err);
void neap__budget_set(neap_resource *budget, uint64_t limit);

/* Keeps released blocks for reuse. Small requests come from size classes, larger ones from segments whose
 * free neighbours coalesce; segments wholly free go back on trim, and a refusal from below trims
 * everything unused and tries again before it is passed on. A request of more than half a segment gets a
 * segment of its own size, so the pool's rounding is never more than NEAP_ALIGN on large blocks.
 * Segments shrink with the budget (a 64th of it, from 64 KiB to 2 MiB). What it holds below is counted there
 * as NEAP_OWNER_CACHE; who has it is counted here. It never touches the memory itself. */
neap_status neap__pool_create(neap_host *h, neap_resource *below, neap_resource **out, neap_error *err);
/* From now on blocks are filled when taken and when given back, by the one who can reach the memory: a debug
 * build sets this so that a read of fresh or stale memory shows. NULL: no filling, as at first. */
typedef void (*neap_fill_fn)(void *user, void *p, int byte, size_t n);
#define NEAP_FILL_TAKEN 0xA5
#define NEAP_FILL_RELEASED 0xDB
void neap__pool_set_fill(neap_resource *pool, neap_fill_fn fill, void *user);

/* Passes on and tells `fn` of every "grant", "refuse" (p NULL) and "release", after it was counted. */
typedef void (*neap_trace_fn)(void *user, const char *event, neap_owner owner, size_t bytes, const void *p);
neap_status neap__trace_create(neap_host *h, neap_resource *below, neap_trace_fn fn, void *user, neap_resource **out,
                               neap_error *err);

#endif
