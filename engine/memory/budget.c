#include <stdbool.h>

#include "base/env.h"
#include "memory/layer.h"

typedef struct budget_resource {
  neap_layer layer;
  uint64_t limit;
} budget_resource;

/* Blocks are whole multiples of NEAP_ALIGN, so a rest smaller than one is no room. */
static uint64_t room(const budget_resource *b) {
  const uint64_t used = b->layer.own.in_use;
  return b->limit > used ? (b->limit - used) & ~(uint64_t)(NEAP_ALIGN - 1) : 0;
}

static neap_status over_budget(budget_resource *b, size_t bytes, neap_owner owner, neap_error *err) {
  char need[32], limit[32], used[32];
  /* A pool asks for its cache on somebody's behalf, and says itself on whose. */
  const bool named = owner != NEAP_OWNER_CACHE;
  b->layer.own.refused++;
  neap__fail(err, NEAP_OOM, "%s (%zu bytes)%s%s do not fit: the budget is %s, in use are %s",
             neap__format_bytes(bytes, need, sizeof need), bytes, named ? " for " : "",
             named ? neap__owner_name(owner) : "", neap__format_bytes(b->limit, limit, sizeof limit),
             neap__format_bytes(b->layer.own.in_use, used, sizeof used));
  if (err) err->bytes = bytes;
  return NEAP_OOM;
}

static neap_status budget_reserve(neap_resource *self, size_t bytes, neap_owner owner, void **out, neap_error *err) {
  budget_resource *b = (budget_resource *)self;
  neap_status st = neap__layer_check(&b->layer, bytes, owner, err);
  if (st != NEAP_OK) return st;
  if (b->limit != UINT64_MAX && neap__align_up(bytes) > room(b)) return over_budget(b, bytes, owner, err);
  return neap__layer_reserve(self, bytes, owner, out, err);
}

static void budget_stats(neap_resource *self, neap_memory_stats *out) {
  const budget_resource *b = (budget_resource *)self;
  neap__layer_stats(self, out);
  if (b->limit < out->limit) out->limit = b->limit;
  if (b->limit != UINT64_MAX && room(b) < out->largest_free) out->largest_free = room(b);
}

static const neap_resource_vtable budget_vtable = {
    .size = sizeof(neap_resource_vtable),
    .name = "budget",
    .reserve = budget_reserve,
    .release = neap__layer_release,
    .trim = neap__layer_trim,
    .stats = budget_stats,
    .reset_peak = neap__layer_reset_peak,
    .destroy = neap__layer_destroy,
};

neap_status neap__budget_create(neap_host *h, neap_resource *below, uint64_t limit, neap_resource **out,
                                neap_error *err) {
  void *p;
  neap_status st = neap__layer_create(h, sizeof(budget_resource), &budget_vtable, below, &p, err);
  *out = p;
  if (st == NEAP_OK) neap__budget_set(*out, limit);
  return st;
}

void neap__budget_set(neap_resource *budget, uint64_t limit) { ((budget_resource *)budget)->limit = limit; }
