#include "graph/cache.h"

#include <string.h>

#include "graph/plan.h"

#define BUCKETS 256u
#define MOST_BYTES (64u << 20)

typedef struct entry {
  struct entry *next;          /* in its bucket */
  struct entry *newer, *older; /* by last use */
  uint64_t hash, bytes;
  neap_program *program;
} entry;

struct neap_program_cache {
  entry *buckets[BUCKETS];
  entry *newest, *oldest;
  uint64_t bytes;
};

static uint64_t mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 32);
}

/* By its bits, so that NaN is itself and -0 is not 0. */
static uint64_t bits_of(double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static uint64_t mix_desc(uint64_t h, const neap_desc *d) {
  h = mix(h, (uint64_t)d->dtype * 16 + (uint64_t)d->shape.ndim);
  for (int32_t i = 0; i < d->shape.ndim; i++) h = mix(h, (uint64_t)d->shape.dim[i]);
  return h;
}

static uint64_t mix_options(uint64_t h, const neap_opt *opt) {
  for (uint32_t i = 0; i < NEAP_MAX_OPTS; i++) {
    if (!opt[i].set) continue;
    h = mix(h, i + 1);
    for (uint32_t k = 0; k < (opt[i].n ? opt[i].n : 1u); k++) h = mix(h, (uint64_t)opt[i].v.list[k]);
  }
  return h;
}

static uint64_t hash_graph(const neap_graph *g) {
  uint64_t h = 1;
  for (uint32_t i = 0; i < g->n_values; i++) {
    const neap_value *v = &g->values[i];
    h = mix(h, (uint64_t)v->kind);
    if (v->kind == NEAP_VALUE_NODE) continue;
    h = mix_desc(h, &v->desc);
    h = mix(h, bits_of(v->number));
  }
  for (uint32_t k = 0; k < g->n_nodes; k++) {
    const neap_node *n = g->nodes[k];
    h = mix(h, (uint64_t)(uintptr_t)n->op);
    for (uint32_t i = 0; i < n->n_in; i++) h = mix(h, n->in[i]);
    h = mix(mix_options(h, n->opt), n->salt);
  }
  for (uint32_t i = 0; i < g->n_outputs; i++) h = mix(h, g->outputs[i]);
  for (uint32_t i = 0; i < g->n_writes; i++) h = mix(mix(h, g->writes[i].value), g->writes[i].target);
  return h;
}

static bool same_options(const neap_opt *a, const neap_opt *b) {
  for (uint32_t i = 0; i < NEAP_MAX_OPTS; i++) {
    if (a[i].set != b[i].set || a[i].n != b[i].n) return false;
    size_t n = a[i].n ? a[i].n : 1u;
    if (a[i].set && memcmp(a[i].v.list, b[i].v.list, n * sizeof(int64_t))) return false;
  }
  return true;
}

static bool same_value(const neap_value *a, const neap_value *b) {
  return a->kind == b->kind && a->desc.dtype == b->desc.dtype && neap__shape_equal(&a->desc.shape, &b->desc.shape) &&
         a->index == b->index && bits_of(a->number) == bits_of(b->number);
}

static bool same_node(const neap_node *a, const neap_node *b) {
  return a->op == b->op && a->called == b->called && a->salt == b->salt && a->n_in == b->n_in &&
         !memcmp(a->in, b->in, a->n_in * sizeof *a->in) && same_options(a->opt, b->opt);
}

static bool same_graph(const neap_graph *a, const neap_graph *b) {
  if (a->n_values != b->n_values || a->n_nodes != b->n_nodes || a->n_inputs != b->n_inputs ||
      a->n_captures != b->n_captures || a->n_outputs != b->n_outputs || a->n_writes != b->n_writes)
    return false;
  for (uint32_t i = 0; i < a->n_values; i++)
    if (!same_value(&a->values[i], &b->values[i])) return false;
  for (uint32_t k = 0; k < a->n_nodes; k++)
    if (!same_node(a->nodes[k], b->nodes[k])) return false;
  for (uint32_t i = 0; i < a->n_writes; i++)
    if (a->writes[i].value != b->writes[i].value || a->writes[i].target != b->writes[i].target) return false;
  return !a->n_outputs || !memcmp(a->outputs, b->outputs, a->n_outputs * sizeof *a->outputs);
}

static bool copy_writes(neap_graph *c, const neap_graph *g) {
  c->writes = neap__zone_copy(&c->zone, g->writes, g->n_writes * sizeof *g->writes);
  if (!c->writes && g->n_writes) return false;
  c->n_writes = g->n_writes;
  for (uint32_t i = 0; i < g->n_writes; i++) c->writes[i].where = "";
  return true;
}

/* The same graph without hold on anybody's tensors, so that a cached program keeps none alive. */
static neap_graph *copy_graph(neap_host *h, const neap_graph *g) {
  neap_graph *c = neap__graph_create(h);
  if (!c) return NULL;
  c->values = neap__zone_copy(&c->zone, g->values, g->n_values * sizeof *g->values);
  c->n_values = g->n_values;
  c->inputs = neap__zone_copy(&c->zone, g->inputs, g->n_inputs * sizeof *g->inputs);
  c->n_inputs = g->n_inputs;
  c->outputs = neap__zone_copy(&c->zone, g->outputs, g->n_outputs * sizeof *g->outputs);
  c->n_outputs = g->n_outputs;
  c->capture_ids = neap__zone_copy(&c->zone, g->capture_ids, g->n_captures * sizeof *g->capture_ids);
  c->captures = neap__zone_alloc(&c->zone, g->n_captures * sizeof *g->captures);
  c->nodes = neap__zone_alloc(&c->zone, g->n_nodes * sizeof(neap_node *));
  bool ok = (c->values || !g->n_values) && (c->inputs || !g->n_inputs) && (c->outputs || !g->n_outputs) &&
            ((c->captures && c->capture_ids) || !g->n_captures) && (c->nodes || !g->n_nodes) && copy_writes(c, g);
  for (uint32_t k = 0; ok && k < g->n_nodes; k++) {
    neap_node *n = neap__zone_copy(&c->zone, g->nodes[k], sizeof *n);
    if (n) n->in = neap__zone_copy(&c->zone, n->in, (n->n_in ? n->n_in : 1u) * sizeof *n->in);
    ok = n && n->in;
    if (!ok) break;
    n->path = n->where = "";
    c->nodes[k] = n;
    c->n_nodes = k + 1;
  }
  if (ok) {
    /* The descs are needed for accounting; storages come with each use. */
    for (uint32_t i = 0; i < g->n_captures; i++) {
      c->captures[i] = g->captures[i];
      c->captures[i].storage = NULL;
    }
    c->n_captures = g->n_captures;
    return c;
  }
  neap__graph_drop(c);
  return NULL;
}

neap_status neap__cache_create(neap_context *c, neap_error *err) {
  c->cache = neap__calloc(&c->host, 1, sizeof *c->cache);
  return c->cache ? NEAP_OK : neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for the program cache");
}

static void unlink_use(neap_program_cache *k, entry *e) {
  *(e->newer ? &e->newer->older : &k->newest) = e->older;
  *(e->older ? &e->older->newer : &k->oldest) = e->newer;
}

static void link_newest(neap_program_cache *k, entry *e) {
  e->newer = NULL;
  e->older = k->newest;
  *(k->newest ? &k->newest->newer : &k->oldest) = e;
  k->newest = e;
}

static void evict(neap_context *c, entry *e) {
  neap_program_cache *k = c->cache;
  entry **at = &k->buckets[e->hash % BUCKETS];
  while (*at != e) at = &(*at)->next;
  *at = e->next;
  unlink_use(k, e);
  k->bytes -= e->bytes;
  neap__program_destroy(e->program);
  neap__free(&c->host, e, sizeof *e);
}

void neap__cache_destroy(neap_context *c) {
  if (!c->cache) return;
  while (c->cache->oldest) evict(c, c->cache->oldest);
  neap__free(&c->host, c->cache, sizeof *c->cache);
  c->cache = NULL;
}

static neap_status add(neap_context *c, const neap_graph *g, uint64_t hash, entry **out, neap_error *err) {
  uint64_t before = c->host.in_use;
  entry *e = neap__calloc(&c->host, 1, sizeof *e);
  neap_graph *copy = e ? copy_graph(&c->host, g) : NULL;
  neap_status s = copy ? NEAP_OK : neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for a program");
  neap_program_spec spec = {.graph = copy};
  if (s == NEAP_OK) s = neap__program_create(c, &spec, &e->program, err);
  neap__graph_drop(copy);
  if (s != NEAP_OK) {
    neap__free(&c->host, e, sizeof *e);
    return s;
  }
  neap_program_cache *k = c->cache;
  e->hash = hash;
  e->bytes = c->host.in_use - before;
  e->next = k->buckets[hash % BUCKETS];
  k->buckets[hash % BUCKETS] = e;
  link_newest(k, e);
  k->bytes += e->bytes;
  while (k->bytes > MOST_BYTES && k->oldest != e) evict(c, k->oldest);
  return *out = e, NEAP_OK;
}

neap_status neap__program_cached(neap_context *c, neap_graph *g, neap_program **out, neap_error *err) {
  if (g->error.status != NEAP_OK) {
    if (err) *err = g->error;
    return g->error.status;
  }
  uint64_t hash = hash_graph(g);
  entry *e = c->cache->buckets[hash % BUCKETS];
  while (e && (e->hash != hash || !same_graph(e->program->graph, g))) e = e->next;
  if (e) {
    unlink_use(c->cache, e);
    link_newest(c->cache, e);
  } else {
    neap_status s = add(c, g, hash, &e, err);
    if (s != NEAP_OK) return s;
  }
  e->program->captures = g->captures;
  *out = e->program;
  return NEAP_OK;
}
