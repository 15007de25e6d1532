/* Host memory: everything the engine takes outside the device budget goes through one allocator given by
 * the host, so that a test can fail the n-th request and an embedder can see every byte. */
#ifndef NEAP_BASE_HOST_H
#define NEAP_BASE_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "neap.h"

typedef struct neap_host {
  neap_alloc_fn fn; /* as lua_Alloc: fn(user, ptr, old, new); new == 0 frees */
  void *user;
  uint64_t in_use; /* bytes now; counters are the owning thread's, allocation happens on it alone */
  uint64_t peak;
  uint64_t count; /* requests so far that took or grew memory */
} neap_host;

/* fn NULL means the C library's realloc and free. */
void neap__host_init(neap_host *h, neap_alloc_fn fn, void *user);
/* NULL when refused; never aborts. Memory is not cleared by alloc and realloc, is by calloc.
 * Sizes given back must be the sizes asked for. free(NULL) is nothing. */
void *neap__alloc(neap_host *h, size_t bytes);
void *neap__calloc(neap_host *h, size_t count, size_t size); /* NULL also when count * size overflows */
void *neap__realloc(neap_host *h, void *p, size_t old_bytes, size_t new_bytes);
void neap__free(neap_host *h, void *p, size_t bytes);

/* A zone hands out memory that is all given back at once: graphs and plans are built in one, so a failure
 * half-way has a single thing to undo. Blocks are 16-byte aligned and cleared. */
typedef struct neap_zone {
  neap_host *host;
  struct neap_zone_block *head;
} neap_zone;

void neap__zone_init(neap_zone *z, neap_host *h);
void *neap__zone_alloc(neap_zone *z, size_t bytes);               /* NULL when refused */
char *neap__zone_strdup(neap_zone *z, const char *s);             /* NULL when refused */
void *neap__zone_copy(neap_zone *z, const void *p, size_t bytes); /* NULL when refused */
/* Room for element n of an array of *cap: the array itself, or a copy twice as large (the old one stays in the zone,
 * which so holds at most twice what it must). NULL when refused; nothing has changed then. */
void *neap__zone_grow(neap_zone *z, void *array, uint32_t n, uint32_t *cap, size_t size);
void neap__zone_free(neap_zone *z);

#endif
