#include "memory/layer.h"

neap_status neap__layer_create(neap_host *h, size_t size, const neap_resource_vtable *vt, neap_resource *below,
                               void **out, neap_error *err) {
  neap_layer *l = neap__calloc(h, 1, size);
  *out = l;
  if (!l) return neap__fail(err, NEAP_NOMEM, "no host memory for the %s resource", vt->name);
  l->base.vt = vt;
  l->base.below = below;
  l->host = h;
  l->size = size;
  return NEAP_OK;
}

neap_status neap__layer_check(neap_layer *l, size_t bytes, neap_owner owner, neap_error *err) {
  if (bytes == 0 || (unsigned)owner >= NEAP_OWNER_COUNT)
    return neap__fail(err, NEAP_INVALID, "%s: %zu bytes for owner %d cannot be reserved", l->base.vt->name, bytes,
                      (int)owner);
  if (bytes > PTRDIFF_MAX - NEAP_ALIGN) {
    l->own.refused++;
    neap__fail(err, NEAP_OOM, "%zu bytes are more than an address space holds", bytes);
    if (err) err->bytes = bytes;
    return NEAP_OOM;
  }
  return NEAP_OK;
}

void neap__layer_granted(neap_layer *l, size_t bytes, neap_owner owner) {
  const size_t size = neap__align_up(bytes);
  l->own.in_use += size;
  l->own.by_owner[owner] += size;
  l->own.count++;
  if (l->own.in_use > l->own.peak) l->own.peak = l->own.in_use;
}

void neap__layer_released(neap_layer *l, size_t bytes, neap_owner owner) {
  const size_t size = neap__align_up(bytes);
  l->own.in_use -= size;
  l->own.by_owner[owner] -= size;
}

neap_status neap__layer_reserve(neap_resource *self, size_t bytes, neap_owner owner, void **out, neap_error *err) {
  neap_layer *l = (neap_layer *)self;
  neap_status st = neap__layer_check(l, bytes, owner, err);
  if (st != NEAP_OK) return st;
  st = neap__reserve(self->below, bytes, owner, out, err);
  if (st == NEAP_OK)
    neap__layer_granted(l, bytes, owner);
  else
    l->own.refused++;
  return st;
}

void neap__layer_release(neap_resource *self, void *p, size_t bytes, neap_owner owner) {
  if (!p) return;
  neap__release(self->below, p, bytes, owner);
  neap__layer_released((neap_layer *)self, bytes, owner);
}

uint64_t neap__layer_trim(neap_resource *self, uint64_t keep) {
  return self->below ? self->below->vt->trim(self->below, keep) : 0;
}

void neap__layer_stats(neap_resource *self, neap_memory_stats *out) {
  neap_layer *l = (neap_layer *)self;
  *out = l->own;
  out->reserved = out->in_use;
  out->reserved_peak = out->peak;
  out->limit = out->largest_free = UINT64_MAX;
  if (self->below) {
    neap_memory_stats below;
    self->below->vt->stats(self->below, &below);
    out->limit = below.limit;
    out->largest_free = below.largest_free;
  }
}

void neap__layer_reset_peak(neap_resource *self) {
  neap_layer *l = (neap_layer *)self;
  l->own.peak = l->own.in_use;
  if (self->below) self->below->vt->reset_peak(self->below);
}

void neap__layer_destroy(neap_resource *self) {
  neap_layer *l = (neap_layer *)self;
  neap__free(l->host, l, l->size);
}
