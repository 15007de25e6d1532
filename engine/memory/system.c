#include "memory/layer.h"

typedef struct system_resource {
  neap_layer layer;
  neap_raw_reserve reserve;
  neap_raw_release release;
  void *user;
} system_resource;

static neap_status system_reserve(neap_resource *self, size_t bytes, neap_owner owner, void **out, neap_error *err) {
  system_resource *s = (system_resource *)self;
  const size_t size = neap__align_up(bytes);
  void *p = NULL;
  neap_status st = neap__layer_check(&s->layer, bytes, owner, err);
  if (st != NEAP_OK) return st;
  st = s->reserve(s->user, size, &p, err);
  if (st == NEAP_OK && (uintptr_t)p % NEAP_ALIGN != 0) {
    s->release(s->user, p, size);
    st = neap__fail(err, NEAP_INTERNAL, "the backend's memory is not aligned to %u bytes", NEAP_ALIGN);
  }
  if (st != NEAP_OK) {
    s->layer.own.refused++;
    if (err) err->bytes = bytes;
    return st;
  }
  neap__layer_granted(&s->layer, bytes, owner);
  *out = p;
  return NEAP_OK;
}

static void system_release(neap_resource *self, void *p, size_t bytes, neap_owner owner) {
  system_resource *s = (system_resource *)self;
  if (!p) return;
  s->release(s->user, p, neap__align_up(bytes));
  neap__layer_released(&s->layer, bytes, owner);
}

static const neap_resource_vtable system_vtable = {
    .size = sizeof(neap_resource_vtable),
    .name = "system",
    .reserve = system_reserve,
    .release = system_release,
    .trim = neap__layer_trim,
    .stats = neap__layer_stats,
    .reset_peak = neap__layer_reset_peak,
    .destroy = neap__layer_destroy,
};

neap_status neap__system_create(neap_host *h, neap_raw_reserve reserve, neap_raw_release release, void *user,
                                neap_resource **out, neap_error *err) {
  void *p;
  system_resource *s;
  neap_status st = neap__layer_create(h, sizeof *s, &system_vtable, NULL, &p, err);
  *out = p;
  if (st != NEAP_OK) return st;
  s = p;
  s->reserve = reserve;
  s->release = release;
  s->user = user;
  return NEAP_OK;
}
