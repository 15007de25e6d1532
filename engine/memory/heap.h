/* Blocks cut from segments of the resource below. Everything it knows is kept in host memory: a block may
 * lie where the CPU cannot reach. Private to the pool. */
#ifndef NEAP_MEMORY_HEAP_H
#define NEAP_MEMORY_HEAP_H

#include "memory/resource.h"

#define NEAP_HEAP_KINDS 2
#define NEAP_HEAP_BINS 256

typedef struct neap_block {
  char *p;
  size_t size;
  struct neap_block *prev, *next; /* neighbours in the segment, by address */
  struct neap_block *free_prev, *free_next;
  struct neap_segment *segment;
  void *slab; /* the pool's: not NULL when the block is cut into slots */
  int is_free;
} neap_block;

typedef struct neap_segment {
  neap_block first; /* always the lowest block: merging keeps the lower of two */
  struct neap_segment *prev, *next;
  size_t size;
  int kind;
} neap_segment;

typedef struct neap_heap {
  neap_host *host;
  neap_resource *below;
  neap_segment *segments;
  neap_block *bins[NEAP_HEAP_KINDS][NEAP_HEAP_BINS];
  uint64_t occupied[NEAP_HEAP_KINDS][NEAP_HEAP_BINS / 64];
  neap_block *spare_block;
  neap_segment *spare_segment;
  uint64_t reserved, reserved_peak;
} neap_heap;

void neap__heap_init(neap_heap *heap, neap_host *h, neap_resource *below);
/* Gives every segment back, used or not, and all host memory. */
void neap__heap_close(neap_heap *heap);

/* Takes the host memory the next neap__heap_take may need, so that it fails here, before anything changed,
 * or not at all. */
neap_status neap__heap_prepare(neap_heap *heap, neap_error *err);
/* size: a multiple of NEAP_ALIGN. After a successful prepare, one take. */
neap_status neap__heap_take(neap_heap *heap, size_t size, neap_block **out, neap_error *err);
void neap__heap_give(neap_heap *heap, neap_block *b); /* needs no memory */

/* Gives wholly free segments back until at most `keep` bytes are in such ones. Returns what is left in them. */
uint64_t neap__heap_trim(neap_heap *heap, uint64_t keep);
size_t neap__heap_largest(const neap_heap *heap);
size_t neap__heap_segment_size(const neap_heap *heap); /* of a shared segment made now */

#endif
