#include <string.h>

#include "base/env.h"
#include "memory/heap.h"
#include "memory/layer.h"

#define SMALL_MOST ((size_t)8 << 10) /* larger blocks are cut from segments directly */
#define SLAB_MOST ((size_t)64 << 10)
#define SLAB_SLOTS_LEAST 4u
#define SLAB_WORDS (SLAB_MOST / NEAP_ALIGN / 64)
#define MAP_LEAST 64u

/* In units of NEAP_ALIGN, four to a doubling: a slot is at most a quarter larger than what is in it. */
static const uint16_t class_units[] = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 14,  16,
                                       20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128};
#define CLASSES (sizeof class_units / sizeof class_units[0])

/* A block of the heap, cut into slots of one class. */
typedef struct slab {
  neap_block *block;
  struct slab *prev, *next; /* slabs of the class with a free slot */
  size_t cls, slots, used;
  uint64_t free[SLAB_WORDS];
} slab;

/* What was handed out, by address: the only way back from a pointer to its block, as nothing is written into
 * the block. Open addressing, at most half full. */
typedef struct entry {
  char *p;
  neap_block *block;
} entry;

typedef struct pool_resource {
  neap_layer layer;
  neap_heap heap;
  slab *partial[CLASSES];
  slab *spare_slab;
  entry *map;
  size_t map_size; /* a power of two, or 0 */
  size_t live;
  neap_fill_fn fill;
  void *fill_user;
} pool_resource;

/* --- the map ------------------------------------------------------------------------------------------- */

static size_t home_of(const char *p, size_t map_size) {
  const uint64_t mixed = (uint64_t)((uintptr_t)p / NEAP_ALIGN) * 0x9E3779B97F4A7C15u;
  return (size_t)(mixed >> 32) & (map_size - 1);
}

static void map_put(entry *map, size_t map_size, entry e) {
  size_t i = home_of(e.p, map_size);
  while (map[i].p) i = (i + 1) & (map_size - 1);
  map[i] = e;
}

static neap_status map_make_room(pool_resource *pool, neap_error *err) {
  const size_t size = pool->map_size ? pool->map_size * 2 : MAP_LEAST;
  entry *map;
  if (pool->live < pool->map_size / 2) return NEAP_OK;
  map = neap__calloc(pool->layer.host, size, sizeof *map);
  if (!map) return neap__fail(err, NEAP_NOMEM, "no host memory for a pool of %zu blocks", size / 2);
  for (size_t i = 0; i < pool->map_size; i++)
    if (pool->map[i].p) map_put(map, size, pool->map[i]);
  neap__free(pool->layer.host, pool->map, pool->map_size * sizeof *map);
  pool->map = map;
  pool->map_size = size;
  return NEAP_OK;
}

/* Entries behind the hole move into it when their way from home leads through it, so that no mark of removed
 * entries is needed. */
static void map_close_hole(pool_resource *pool, size_t hole) {
  const size_t mask = pool->map_size - 1;
  for (size_t i = (hole + 1) & mask; pool->map[i].p; i = (i + 1) & mask) {
    const size_t home = home_of(pool->map[i].p, pool->map_size);
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    pool->map[hole] = pool->map[i];
    hole = i;
  }
  pool->map[hole].p = NULL;
}

static neap_block *map_remove(pool_resource *pool, const char *p) {
  size_t i;
  neap_block *block;
  if (!pool->map_size) return NULL;
  for (i = home_of(p, pool->map_size); pool->map[i].p != p; i = (i + 1) & (pool->map_size - 1))
    if (!pool->map[i].p) return NULL;
  block = pool->map[i].block;
  map_close_hole(pool, i);
  pool->live--;
  return block;
}

/* --- slabs --------------------------------------------------------------------------------------------- */

static size_t class_bytes(size_t cls) { return (size_t)class_units[cls] * NEAP_ALIGN; }

static size_t class_of(size_t size) {
  size_t cls = 0;
  while (class_bytes(cls) < size) cls++;
  return cls;
}

static void link_slab(pool_resource *pool, slab *s) {
  s->prev = NULL;
  s->next = pool->partial[s->cls];
  if (s->next) s->next->prev = s;
  pool->partial[s->cls] = s;
}

static void unlink_slab(pool_resource *pool, slab *s) {
  if (s->next) s->next->prev = s->prev;
  if (s->prev)
    s->prev->next = s->next;
  else
    pool->partial[s->cls] = s->next;
}

/* An eighth of a segment, so that a small budget is not eaten by slabs of one slot used. */
static size_t slab_bytes(const pool_resource *pool, size_t cls) {
  const size_t least = class_bytes(cls) * SLAB_SLOTS_LEAST;
  size_t size = neap__heap_segment_size(&pool->heap) / 8;
  if (size > SLAB_MOST) size = SLAB_MOST;
  return size < least ? least : size;
}

static neap_status add_slab(pool_resource *pool, size_t cls, neap_error *err) {
  slab *s = pool->spare_slab;
  neap_block *block;
  neap_status st = neap__heap_take(&pool->heap, neap__align_up(slab_bytes(pool, cls)), &block, err);
  if (st != NEAP_OK) return st;
  pool->spare_slab = NULL;
  memset(s, 0, sizeof *s);
  s->block = block;
  s->cls = cls;
  s->slots = block->size / class_bytes(cls);
  for (size_t i = 0; i < s->slots; i++) s->free[i / 64] |= 1ull << i % 64;
  block->slab = s;
  link_slab(pool, s);
  return NEAP_OK;
}

static unsigned lowest_bit(uint64_t word) {
  unsigned i = 0;
  while (!(word >> i & 1)) i++;
  return i;
}

static entry take_slot(pool_resource *pool, slab *s) {
  size_t w = 0, slot;
  entry e;
  while (!s->free[w]) w++;
  slot = w * 64 + lowest_bit(s->free[w]);
  s->free[w] &= s->free[w] - 1;
  if (++s->used == s->slots) unlink_slab(pool, s);
  e.p = s->block->p + slot * class_bytes(s->cls);
  e.block = s->block;
  return e;
}

static void give_slot(pool_resource *pool, slab *s, const char *p) {
  const size_t slot = (size_t)(p - s->block->p) / class_bytes(s->cls);
  s->free[slot / 64] |= 1ull << slot % 64;
  if (s->used-- == s->slots) link_slab(pool, s);
  if (s->used > 0) return;
  unlink_slab(pool, s);
  neap__heap_give(&pool->heap, s->block);
  if (pool->spare_slab)
    neap__free(pool->layer.host, s, sizeof *s);
  else
    pool->spare_slab = s;
}

/* --- the resource -------------------------------------------------------------------------------------- */

static neap_status prepare(pool_resource *pool, neap_error *err) {
  neap_status st = map_make_room(pool, err);
  if (st != NEAP_OK) return st;
  if (!pool->spare_slab) pool->spare_slab = neap__alloc(pool->layer.host, sizeof *pool->spare_slab);
  if (!pool->spare_slab) return neap__fail(err, NEAP_NOMEM, "no host memory for the pool's bookkeeping");
  return neap__heap_prepare(&pool->heap, err);
}

static neap_status place_block(pool_resource *pool, size_t size, entry *out, neap_error *err) {
  neap_status st = neap__heap_take(&pool->heap, size, &out->block, err);
  if (st == NEAP_OK) out->p = out->block->p;
  return st;
}

static neap_status place_small(pool_resource *pool, size_t size, entry *out, neap_error *err) {
  size_t cls = class_of(size);
  neap_status st = pool->partial[cls] ? NEAP_OK : add_slab(pool, cls, err);
  if (st == NEAP_OOM) {
    /* No room for a slab: a block of its own, or else a slot that is too large. */
    st = place_block(pool, size, out, err);
    if (st != NEAP_OOM) return st;
    while (cls < CLASSES && !pool->partial[cls]) cls++;
    if (cls == CLASSES) return st;
    st = NEAP_OK;
  }
  if (st == NEAP_OK) *out = take_slot(pool, pool->partial[cls]);
  return st;
}

static void explain(const pool_resource *pool, size_t bytes, neap_owner owner, neap_error *err) {
  if (err->status != NEAP_OOM) return;
  neap__fail(err, NEAP_OOM, "%s: %s; the pool holds %llu bytes of it, %llu of them handed out", neap__owner_name(owner),
             err->message, (unsigned long long)pool->heap.reserved, (unsigned long long)pool->layer.own.in_use);
  err->bytes = bytes;
}

/* A limit that was lowered below what the pool holds binds what it hands out too, though there may be room in
 * its segments. */
static neap_status check_limit(const pool_resource *pool, size_t size, neap_error *err) {
  neap_resource *below = pool->layer.base.below;
  neap_memory_stats s;
  char need[32], limit[32], used[32];
  below->vt->stats(below, &s);
  if (s.limit == UINT64_MAX || (pool->layer.own.in_use <= s.limit && size <= s.limit - pool->layer.own.in_use))
    return NEAP_OK;
  return neap__fail(err, NEAP_OOM, "%s (%zu bytes) do not fit: the budget is %s, in use are %s",
                    neap__format_bytes(size, need, sizeof need), size, neap__format_bytes(s.limit, limit, sizeof limit),
                    neap__format_bytes(pool->layer.own.in_use, used, sizeof used));
}

static neap_status pool_reserve(neap_resource *self, size_t bytes, neap_owner owner, void **out, neap_error *err) {
  pool_resource *pool = (pool_resource *)self;
  const size_t size = neap__align_up(bytes);
  neap_error why; /* aside: an attempt that failed on the way to a success leaves no trace in *err */
  entry e;
  neap_status st = neap__layer_check(&pool->layer, bytes, owner, err);
  if (st != NEAP_OK) return st;
  neap__error_clear(&why);
  st = check_limit(pool, size, &why);
  if (st == NEAP_OK) st = prepare(pool, &why);
  if (st == NEAP_OK) st = size <= SMALL_MOST ? place_small(pool, size, &e, &why) : place_block(pool, size, &e, &why);
  if (st != NEAP_OK) {
    pool->layer.own.refused++;
    explain(pool, bytes, owner, &why);
    if (err) *err = why;
    return st;
  }
  map_put(pool->map, pool->map_size, e);
  pool->live++;
  neap__layer_granted(&pool->layer, bytes, owner);
  if (pool->fill) pool->fill(pool->fill_user, e.p, NEAP_FILL_TAKEN, size);
  *out = e.p;
  return NEAP_OK;
}

static void pool_release(neap_resource *self, void *p, size_t bytes, neap_owner owner) {
  pool_resource *pool = (pool_resource *)self;
  neap_block *block = p ? map_remove(pool, p) : NULL;
  if (!block) return; /* not ours, or given back before: nothing here may be touched for it */
  if (pool->fill) pool->fill(pool->fill_user, p, NEAP_FILL_RELEASED, neap__align_up(bytes));
  if (block->slab)
    give_slot(pool, block->slab, p);
  else
    neap__heap_give(&pool->heap, block);
  neap__layer_released(&pool->layer, bytes, owner);
}

static uint64_t held_by_system(neap_resource *r) {
  neap_memory_stats s;
  while (r->below) r = r->below;
  r->vt->stats(r, &s);
  return s.in_use;
}

/* What came back to the system is measured there: the layers below may keep some of it, or add to it. */
static uint64_t pool_trim(neap_resource *self, uint64_t keep) {
  pool_resource *pool = (pool_resource *)self;
  const uint64_t before = held_by_system(self);
  const uint64_t kept = neap__heap_trim(&pool->heap, keep);
  self->below->vt->trim(self->below, keep - kept);
  return before - held_by_system(self);
}

static size_t largest_slot(const pool_resource *pool) {
  for (size_t cls = CLASSES; cls-- > 0;)
    if (pool->partial[cls]) return class_bytes(cls);
  return 0;
}

static void pool_stats(neap_resource *self, neap_memory_stats *out) {
  const pool_resource *pool = (pool_resource *)self;
  const size_t block = neap__heap_largest(&pool->heap), slot = largest_slot(pool);
  neap__layer_stats(self, out);
  out->reserved = pool->heap.reserved;
  out->reserved_peak = pool->heap.reserved_peak;
  if (out->largest_free < block) out->largest_free = block;
  if (out->largest_free < slot) out->largest_free = slot;
  const uint64_t room = out->limit > out->in_use ? out->limit - out->in_use : 0;
  if (out->limit != UINT64_MAX && out->largest_free > room) out->largest_free = room & ~(uint64_t)(NEAP_ALIGN - 1);
}

static void pool_reset_peak(neap_resource *self) {
  pool_resource *pool = (pool_resource *)self;
  pool->heap.reserved_peak = pool->heap.reserved;
  neap__layer_reset_peak(self);
}

static void pool_destroy(neap_resource *self) {
  pool_resource *pool = (pool_resource *)self;
  neap_host *host = pool->layer.host;
  for (neap_segment *s = pool->heap.segments; s; s = s->next)
    for (neap_block *b = &s->first; b; b = b->next) neap__free(host, b->slab, sizeof(slab));
  neap__free(host, pool->spare_slab, sizeof *pool->spare_slab);
  neap__free(host, pool->map, pool->map_size * sizeof *pool->map);
  neap__heap_close(&pool->heap);
  neap__layer_destroy(self);
}

static const neap_resource_vtable pool_vtable = {
    .size = sizeof(neap_resource_vtable),
    .name = "pool",
    .reserve = pool_reserve,
    .release = pool_release,
    .trim = pool_trim,
    .stats = pool_stats,
    .reset_peak = pool_reset_peak,
    .destroy = pool_destroy,
};

neap_status neap__pool_create(neap_host *h, neap_resource *below, neap_resource **out, neap_error *err) {
  void *p;
  neap_status st = neap__layer_create(h, sizeof(pool_resource), &pool_vtable, below, &p, err);
  *out = p;
  if (st == NEAP_OK) neap__heap_init(&((pool_resource *)p)->heap, h, below);
  return st;
}

void neap__pool_set_fill(neap_resource *r, neap_fill_fn fill, void *user) {
  pool_resource *pool = (pool_resource *)r;
  pool->fill = fill;
  pool->fill_user = user;
}
