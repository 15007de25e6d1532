#include <string.h>

#include "base/host.h"

#define ZONE_ALIGN 16u
#define ZONE_FIRST 1024u
#define ZONE_MOST 65536u

typedef struct neap_zone_block {
  struct neap_zone_block *next;
  size_t size; /* of the allocation, this header included */
  size_t used; /* from the start of the block */
} neap_zone_block;

void neap__zone_init(neap_zone *z, neap_host *h) {
  z->host = h;
  z->head = NULL;
}

/* The host's allocator need not align to 16, so the address is aligned, not the offset. */
static void *take_from(neap_zone_block *b, size_t bytes) {
  uintptr_t base = (uintptr_t)b;
  uintptr_t at = (base + b->used + (ZONE_ALIGN - 1)) & ~(uintptr_t)(ZONE_ALIGN - 1);
  size_t start = (size_t)(at - base);
  if (start > b->size || bytes > b->size - start) return NULL;
  b->used = start + bytes;
  return (char *)b + start;
}

static neap_zone_block *new_block(neap_zone *z, size_t size) {
  neap_zone_block *b = neap__calloc(z->host, 1, size);
  if (!b) return NULL;
  b->size = size;
  b->used = sizeof *b;
  return b;
}

/* Blocks double, so that a big graph takes few host requests and a small one little memory. */
static size_t next_size(const neap_zone *z) {
  size_t size = z->head ? z->head->size * 2 : ZONE_FIRST;
  return size > ZONE_MOST ? ZONE_MOST : size;
}

void *neap__zone_alloc(neap_zone *z, size_t bytes) {
  const size_t extra = sizeof(neap_zone_block) + ZONE_ALIGN;
  neap_zone_block *b;
  void *p;
  if (bytes == 0) bytes = 1;
  if (bytes > SIZE_MAX - extra) return NULL;
  if (z->head && (p = take_from(z->head, bytes))) return p;
  if (z->head && bytes + extra > next_size(z)) {
    /* A block of its own goes behind the head, whose rest stays in use. */
    if (!(b = new_block(z, bytes + extra))) return NULL;
    b->next = z->head->next;
    z->head->next = b;
    return take_from(b, bytes);
  }
  if (!(b = new_block(z, bytes + extra > next_size(z) ? bytes + extra : next_size(z)))) return NULL;
  b->next = z->head;
  z->head = b;
  return take_from(b, bytes);
}

void *neap__zone_copy(neap_zone *z, const void *p, size_t bytes) {
  void *q = neap__zone_alloc(z, bytes);
  if (q && bytes) memcpy(q, p, bytes);
  return q;
}

char *neap__zone_strdup(neap_zone *z, const char *s) { return neap__zone_copy(z, s, strlen(s) + 1); }

void *neap__zone_grow(neap_zone *z, void *array, uint32_t n, uint32_t *cap, size_t size) {
  if (n < *cap) return array;
  const uint32_t want = *cap ? *cap * 2 : 16;
  char *p = neap__zone_alloc(z, (size_t)want * size);
  if (!p) return NULL;
  if (n) memcpy(p, array, (size_t)n * size);
  *cap = want;
  return p;
}

void neap__zone_free(neap_zone *z) {
  neap_zone_block *b = z->head, *next;
  for (; b; b = next) {
    next = b->next;
    neap__free(z->host, b, b->size);
  }
  z->head = NULL;
}
