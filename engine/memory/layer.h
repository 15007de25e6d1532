/* What every resource is made of: its counters, and the calls that only pass on to the one below. Private
 * to engine/memory. */
#ifndef NEAP_MEMORY_LAYER_H
#define NEAP_MEMORY_LAYER_H

#include "memory/resource.h"

/* First member of each resource's struct. */
typedef struct neap_layer {
  neap_resource base;
  neap_host *host;
  size_t size; /* of the struct that begins with this one */
  neap_memory_stats own;
} neap_layer;

/* Cleared memory of `size` bytes that begins with a layer. */
neap_status neap__layer_create(neap_host *h, size_t size, const neap_resource_vtable *vt, neap_resource *below,
                               void **out, neap_error *err);

/* Refuses what no resource can serve, so that rounding bytes up cannot overflow afterwards. */
neap_status neap__layer_check(neap_layer *l, size_t bytes, neap_owner owner, neap_error *err);

void neap__layer_granted(neap_layer *l, size_t bytes, neap_owner owner);
void neap__layer_released(neap_layer *l, size_t bytes, neap_owner owner);

/* A whole reserve: check, ask below, count. */
neap_status neap__layer_reserve(neap_resource *self, size_t bytes, neap_owner owner, void **out, neap_error *err);
void neap__layer_release(neap_resource *self, void *p, size_t bytes, neap_owner owner);
uint64_t neap__layer_trim(neap_resource *self, uint64_t keep);
void neap__layer_stats(neap_resource *self, neap_memory_stats *out);
void neap__layer_reset_peak(neap_resource *self);
void neap__layer_destroy(neap_resource *self);

#endif
