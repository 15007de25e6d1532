#include "base/host.h"

#include <stdlib.h>
#include <string.h>

static void *libc_alloc(void *user, void *p, size_t old_size, size_t new_size) {
  (void)user;
  (void)old_size;
  if (new_size == 0) {
    free(p);
    return NULL;
  }
  return realloc(p, new_size);
}

void neap__host_init(neap_host *h, neap_alloc_fn fn, void *user) {
  h->fn = fn ? fn : libc_alloc;
  h->user = fn ? user : NULL;
  h->in_use = h->peak = h->count = 0;
}

/* A request for nothing takes a byte, so that NULL always means refused and new_size 0 always means free. */
static size_t at_least_one(size_t bytes) { return bytes ? bytes : 1; }

static void count_change(neap_host *h, size_t old_bytes, size_t new_bytes) {
  h->in_use = h->in_use - old_bytes + new_bytes;
  if (h->in_use > h->peak) h->peak = h->in_use;
  if (new_bytes > old_bytes) h->count++;
}

void *neap__alloc(neap_host *h, size_t bytes) {
  size_t n = at_least_one(bytes);
  void *p = h->fn(h->user, NULL, 0, n);
  if (p) count_change(h, 0, n);
  return p;
}

void *neap__calloc(neap_host *h, size_t count, size_t size) {
  void *p;
  if (size && count > SIZE_MAX / size) return NULL;
  p = neap__alloc(h, count * size);
  if (p) memset(p, 0, at_least_one(count * size));
  return p;
}

void *neap__realloc(neap_host *h, void *p, size_t old_bytes, size_t new_bytes) {
  size_t from = at_least_one(old_bytes), to = at_least_one(new_bytes);
  void *q;
  if (!p) return neap__alloc(h, new_bytes);
  q = h->fn(h->user, p, from, to);
  if (q) count_change(h, from, to);
  return q;
}

void neap__free(neap_host *h, void *p, size_t bytes) {
  if (!p) return;
  h->fn(h->user, p, at_least_one(bytes), 0);
  count_change(h, at_least_one(bytes), 0);
}
