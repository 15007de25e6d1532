#include "memory/heap.h"

#include <string.h>

#define SEGMENT_MOST ((size_t)512 << 10)
#define SEGMENT_LEAST ((size_t)4 << 10)
#define BUDGET_PARTS 64u /* a shared segment is at most this part of the budget */

/* Small and large blocks do not share segments: one small block left behind would hold a large segment. */
enum { SHARED, OWN };

void neap__heap_init(neap_heap *heap, neap_host *h, neap_resource *below) {
  memset(heap, 0, sizeof *heap);
  heap->host = h;
  heap->below = below;
}

size_t neap__heap_segment_size(const neap_heap *heap) {
  neap_memory_stats below;
  size_t size = SEGMENT_MOST;
  heap->below->vt->stats(heap->below, &below);
  while (size > SEGMENT_LEAST && size > below.limit / BUDGET_PARTS) size /= 2;
  return size;
}

/* --- bins: free blocks by size, four bins for each doubling ------------------------------------------- */

static unsigned log2_floor(uint64_t x) {
  unsigned n = 0;
  while (x >>= 1) n++;
  return n;
}

static unsigned bin_of(size_t size) {
  const uint64_t units = size / NEAP_ALIGN;
  const unsigned octave = log2_floor(units);
  const unsigned quarter = (unsigned)((octave >= 2 ? units >> (octave - 2) : units << (2 - octave)) & 3);
  return octave * 4 + quarter;
}

static void bin_put(neap_heap *heap, neap_block *b) {
  const int kind = b->segment->kind;
  const unsigned bin = bin_of(b->size);
  b->is_free = 1;
  b->free_prev = NULL;
  b->free_next = heap->bins[kind][bin];
  if (b->free_next) b->free_next->free_prev = b;
  heap->bins[kind][bin] = b;
  heap->occupied[kind][bin / 64] |= 1ull << bin % 64;
}

static void bin_drop(neap_heap *heap, neap_block *b) {
  const int kind = b->segment->kind;
  const unsigned bin = bin_of(b->size);
  b->is_free = 0;
  if (b->free_next) b->free_next->free_prev = b->free_prev;
  if (b->free_prev)
    b->free_prev->free_next = b->free_next;
  else if (!(heap->bins[kind][bin] = b->free_next))
    heap->occupied[kind][bin / 64] &= ~(1ull << bin % 64);
}

static int is_whole(const neap_block *b) { return !b->prev && !b->next; }

/* An unused large segment is not cut for a request much smaller than it: the next request of its own size
 * would find it cut. */
static int suits(const neap_block *b, size_t size) {
  if (b->size < size) return 0;
  return b->segment->kind == SHARED || !is_whole(b) || b->size - size <= size / 8;
}

static neap_block *smallest_in(neap_block *list, size_t size) {
  neap_block *best = NULL;
  for (neap_block *b = list; b; b = b->free_next)
    if (suits(b, size) && (!best || b->size < best->size)) best = b;
  return best;
}

static neap_block *find(const neap_heap *heap, int kind, size_t size) {
  for (unsigned bin = bin_of(size); bin < NEAP_HEAP_BINS; bin++) {
    neap_block *b;
    if (!heap->occupied[kind][bin / 64]) {
      bin |= 63; /* nothing in this word of the map */
      continue;
    }
    if ((b = smallest_in(heap->bins[kind][bin], size))) return b;
  }
  return NULL;
}

static size_t largest_of(const neap_heap *heap, int kind) {
  size_t most = 0;
  for (unsigned bin = NEAP_HEAP_BINS; bin-- > 0 && !most;)
    for (const neap_block *b = heap->bins[kind][bin]; b; b = b->free_next)
      if (b->size > most) most = b->size;
  return most;
}

size_t neap__heap_largest(const neap_heap *heap) {
  const size_t shared = largest_of(heap, SHARED), own = largest_of(heap, OWN);
  return shared > own ? shared : own;
}

/* --- segments ------------------------------------------------------------------------------------------ */

neap_status neap__heap_prepare(neap_heap *heap, neap_error *err) {
  if (!heap->spare_block) heap->spare_block = neap__alloc(heap->host, sizeof *heap->spare_block);
  if (!heap->spare_segment) heap->spare_segment = neap__alloc(heap->host, sizeof *heap->spare_segment);
  if (heap->spare_block && heap->spare_segment) return NEAP_OK;
  return neap__fail(err, NEAP_NOMEM, "no host memory for the pool's bookkeeping");
}

static neap_status add_segment(neap_heap *heap, size_t size, int kind, neap_error *err) {
  neap_segment *s = heap->spare_segment;
  void *p;
  neap_status st = neap__reserve(heap->below, size, NEAP_OWNER_CACHE, &p, err);
  if (st != NEAP_OK) return st;
  heap->spare_segment = NULL;
  memset(s, 0, sizeof *s);
  s->size = s->first.size = size;
  s->kind = kind;
  s->first.p = p;
  s->first.segment = s;
  s->next = heap->segments;
  if (s->next) s->next->prev = s;
  heap->segments = s;
  bin_put(heap, &s->first);
  heap->reserved += size;
  if (heap->reserved > heap->reserved_peak) heap->reserved_peak = heap->reserved;
  return NEAP_OK;
}

static void keep_spare_block(neap_heap *heap, neap_block *b) {
  if (heap->spare_block)
    neap__free(heap->host, b, sizeof *b);
  else
    heap->spare_block = b;
}

static void drop_segment(neap_heap *heap, neap_segment *s) {
  if (s->next) s->next->prev = s->prev;
  if (s->prev)
    s->prev->next = s->next;
  else
    heap->segments = s->next;
  heap->reserved -= s->size;
  neap__release(heap->below, s->first.p, s->size, NEAP_OWNER_CACHE);
  if (heap->spare_segment)
    neap__free(heap->host, s, sizeof *s);
  else
    heap->spare_segment = s;
}

static int is_unused(const neap_segment *s) { return s->first.is_free && is_whole(&s->first); }

uint64_t neap__heap_trim(neap_heap *heap, uint64_t keep) {
  uint64_t unused = 0;
  neap_segment *s, *next;
  for (s = heap->segments; s; s = s->next)
    if (is_unused(s)) unused += s->size;
  for (s = heap->segments; s && unused > keep; s = next) {
    next = s->next;
    if (!is_unused(s)) continue;
    unused -= s->size;
    bin_drop(heap, &s->first);
    drop_segment(heap, s);
  }
  return unused;
}

void neap__heap_close(neap_heap *heap) {
  while (heap->segments) {
    neap_segment *s = heap->segments;
    neap_block *b, *next;
    for (b = s->first.next; b; b = next) {
      next = b->next;
      neap__free(heap->host, b, sizeof *b);
    }
    drop_segment(heap, s);
  }
  neap__free(heap->host, heap->spare_block, sizeof *heap->spare_block);
  neap__free(heap->host, heap->spare_segment, sizeof *heap->spare_segment);
}

/* --- take and give ------------------------------------------------------------------------------------- */

/* The exact size comes second, so that a request is never refused for the sake of a full segment. */
static neap_status grow(neap_heap *heap, size_t size, size_t segment, int kind, neap_error *err) {
  neap_status st = NEAP_OOM;
  if (kind == SHARED) st = add_segment(heap, segment, kind, err);
  if (st == NEAP_OOM) st = add_segment(heap, size, kind, err);
  return st;
}

static void cut(neap_heap *heap, neap_block *b, size_t size) {
  bin_drop(heap, b);
  if (b->size > size) {
    neap_block *rest = heap->spare_block;
    heap->spare_block = NULL;
    memset(rest, 0, sizeof *rest);
    rest->p = b->p + size;
    rest->size = b->size - size;
    rest->segment = b->segment;
    rest->prev = b;
    rest->next = b->next;
    if (rest->next) rest->next->prev = rest;
    b->next = rest;
    b->size = size;
    bin_put(heap, rest);
  }
}

neap_status neap__heap_take(neap_heap *heap, size_t size, neap_block **out, neap_error *err) {
  const size_t segment = neap__heap_segment_size(heap);
  const int kind = size <= segment / 2 ? SHARED : OWN;
  neap_block *b = find(heap, kind, size);
  neap_status st = NEAP_OK;
  if (!b) {
    st = grow(heap, size, segment, kind, err);
    if (st == NEAP_OOM) {
      const uint64_t before = heap->reserved;
      neap__heap_trim(heap, 0);
      if (heap->below->vt->trim(heap->below, 0) > 0 || heap->reserved < before)
        st = grow(heap, size, segment, kind, err);
    }
    b = find(heap, st == NEAP_OOM ? !kind : kind, size);
  }
  if (!b) return st;
  cut(heap, b, size);
  *out = b;
  return NEAP_OK;
}

static void absorb_next(neap_heap *heap, neap_block *b) {
  neap_block *n = b->next;
  b->size += n->size;
  b->next = n->next;
  if (b->next) b->next->prev = b;
  keep_spare_block(heap, n);
}

void neap__heap_give(neap_heap *heap, neap_block *b) {
  b->slab = NULL;
  if (b->next && b->next->is_free) {
    bin_drop(heap, b->next);
    absorb_next(heap, b);
  }
  if (b->prev && b->prev->is_free) {
    b = b->prev;
    bin_drop(heap, b);
    absorb_next(heap, b);
  }
  bin_put(heap, b);
}
