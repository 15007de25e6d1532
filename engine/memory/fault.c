#include "memory/layer.h"

typedef struct fault_resource {
  neap_layer layer;
  uint64_t until; /* requests until the refused one; 0: never */
  int every;
} fault_resource;

static int refuse_now(fault_resource *f) {
  if (f->until == 0) return 0;
  if (f->until == 1 && f->every) return 1;
  return --f->until == 0;
}

static neap_status fault_reserve(neap_resource *self, size_t bytes, neap_owner owner, void **out, neap_error *err) {
  fault_resource *f = (fault_resource *)self;
  if (!refuse_now(f)) return neap__layer_reserve(self, bytes, owner, out, err);
  f->layer.own.refused++;
  neap__fail(err, NEAP_OOM, "%zu bytes for %s were refused by an injected fault", bytes, neap__owner_name(owner));
  if (err) err->bytes = bytes;
  return NEAP_OOM;
}

static const neap_resource_vtable fault_vtable = {
    .size = sizeof(neap_resource_vtable),
    .name = "fault",
    .reserve = fault_reserve,
    .release = neap__layer_release,
    .trim = neap__layer_trim,
    .stats = neap__layer_stats,
    .reset_peak = neap__layer_reset_peak,
    .destroy = neap__layer_destroy,
};

neap_status neap__fault_create(neap_host *h, neap_resource *below, neap_resource **out, neap_error *err) {
  void *p;
  neap_status st = neap__layer_create(h, sizeof(fault_resource), &fault_vtable, below, &p, err);
  *out = p;
  return st;
}

void neap__fault_set(neap_resource *fault, uint64_t n, int every) {
  fault_resource *f = (fault_resource *)fault;
  f->until = n;
  f->every = every;
}
