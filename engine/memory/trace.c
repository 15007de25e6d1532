#include "memory/layer.h"

typedef struct trace_resource {
  neap_layer layer;
  neap_trace_fn fn;
  void *user;
} trace_resource;

static void tell(const trace_resource *t, const char *event, neap_owner owner, size_t bytes, const void *p) {
  if (t->fn) t->fn(t->user, event, owner, bytes, p);
}

static neap_status trace_reserve(neap_resource *self, size_t bytes, neap_owner owner, void **out, neap_error *err) {
  const trace_resource *t = (trace_resource *)self;
  neap_status st = neap__layer_reserve(self, bytes, owner, out, err);
  tell(t, st == NEAP_OK ? "grant" : "refuse", owner, bytes, st == NEAP_OK ? *out : NULL);
  return st;
}

static void trace_release(neap_resource *self, void *p, size_t bytes, neap_owner owner) {
  if (!p) return;
  neap__layer_release(self, p, bytes, owner);
  tell((trace_resource *)self, "release", owner, bytes, p);
}

static const neap_resource_vtable trace_vtable = {
    .size = sizeof(neap_resource_vtable),
    .name = "trace",
    .reserve = trace_reserve,
    .release = trace_release,
    .trim = neap__layer_trim,
    .stats = neap__layer_stats,
    .reset_peak = neap__layer_reset_peak,
    .destroy = neap__layer_destroy,
};

neap_status neap__trace_create(neap_host *h, neap_resource *below, neap_trace_fn fn, void *user, neap_resource **out,
                               neap_error *err) {
  void *p;
  trace_resource *t;
  neap_status st = neap__layer_create(h, sizeof *t, &trace_vtable, below, &p, err);
  *out = p;
  if (st != NEAP_OK) return st;
  t = p;
  t->fn = fn;
  t->user = user;
  return NEAP_OK;
}
