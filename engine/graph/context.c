#include "graph/context.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "graph/cache.h"

static neap_status raw_reserve(void *user, size_t bytes, void **out, neap_error *err) {
  neap_context *c = user;
  return c->backend->vt->reserve(c->backend, bytes, out, err);
}

static void raw_release(void *user, void *p, size_t bytes) {
  neap_context *c = user;
  c->backend->vt->release(c->backend, p, bytes);
}

static uint32_t cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int n = CPU_COUNT(&set);
  return n > 0 ? (uint32_t)n : 1;
}

static neap_status choose_threads(const neap_config *config, uint32_t *out, neap_error *err) {
  const char *text = neap__env("NEAP_THREADS");
  *out = config->threads;
  if (*out) return NEAP_OK;
  if (!text) return *out = cores(), NEAP_OK;
  char *end;
  long n = strtol(text, &end, 10);
  if (*end || n < 1 || n > 4096)
    return neap__fail(err, NEAP_RANGE, "NEAP_THREADS is '%s', expected a number from 1 to 4096", text);
  *out = (uint32_t)n;
  return NEAP_OK;
}

static neap_status choose_limit(const neap_config *config, uint64_t *out, neap_error *err) {
  const char *text = neap__env("NEAP_MEMORY");
  *out = config->memory_limit ? config->memory_limit : UINT64_MAX;
  return config->memory_limit || !text ? NEAP_OK : neap__parse_bytes(text, out, err);
}

static const char *choose_device(const neap_config *config) {
  if (config->device) return config->device;
  const char *text = neap__env("NEAP_DEVICE");
  return text ? text : "auto";
}

static void fill_block(void *user, void *p, int byte, size_t bytes) {
  neap_context *c = user;
  c->backend->vt->fill(c->backend, p, byte, bytes, NULL);
}

static neap_status stack_memory(neap_context *c, uint64_t limit, neap_error *err) {
  neap_host *h = &c->host;
  neap_status s = neap__system_create(h, raw_reserve, raw_release, c, &c->system, err);
  if (s == NEAP_OK) s = neap__fault_create(h, c->system, &c->fault, err);
  if (s == NEAP_OK) s = neap__budget_create(h, c->fault, limit, &c->budget, err);
  if (s == NEAP_OK) s = neap__pool_create(h, c->budget, &c->pool, err);
  if (s != NEAP_OK) return s;
  c->memory = c->pool;
#ifdef NEAP_DEBUG
  neap__pool_set_fill(c->pool, fill_block, c);
#else
  (void)fill_block;
#endif
  return NEAP_OK;
}

static void destroy_resource(neap_resource *r) {
  if (r) r->vt->destroy(r);
}

void neap__context_destroy(neap_context *c) {
  if (!c) return;
  neap__cache_destroy(c);
  neap__arena_drop(&c->train);
  neap__arena_drop(&c->infer);
  destroy_resource(c->pool);
  destroy_resource(c->budget);
  destroy_resource(c->fault);
  destroy_resource(c->system);
  if (c->backend) neap__backend_close(c->backend);
  neap__threads_destroy(c->threads);
  neap_host h = c->host;
  neap__free(&h, c, sizeof *c);
}

static neap_status fill_context(neap_context *c, const neap_config *config, neap_error *err) {
  uint32_t threads;
  uint64_t limit;
  neap_status s = choose_threads(config, &threads, err);
  if (s == NEAP_OK) s = choose_limit(config, &limit, err);
  if (s == NEAP_OK)
    s = neap__threads_create(&c->host, threads, config->parallel_for, config->parallel_user, &c->threads, err);
  if (s != NEAP_OK) return s;
  neap_backend_config bc = {.size = sizeof bc, .host = &c->host, .threads = c->threads, .log = &c->log};
  s = neap__backend_open(choose_device(config), &bc, &c->backend, err);
  if (s != NEAP_OK) return s;
  c->backend->vt->info(c->backend, &c->info);
  s = stack_memory(c, limit, err);
  return s == NEAP_OK ? neap__cache_create(c, err) : s;
}

neap_status neap__context_create(const neap_config *config, neap_context **out, neap_error *err) {
  neap_config defaults = {.size = sizeof defaults, .log_level = NEAP_LOG_WARN};
  if (!config) config = &defaults;
  neap_host h;
  neap__host_init(&h, config->alloc, config->alloc_user);
  neap_context *c = neap__calloc(&h, 1, sizeof *c);
  if (!c) return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for an engine");
  c->host = h;
  c->log = (neap_log){config->log, config->log_user, config->log_level};
  c->seed = c->rng.seed = config->seed;
  c->train.ctx = c->infer.ctx = c;
  neap_status s = fill_context(c, config, err);
  if (s != NEAP_OK) {
    neap__context_destroy(c);
    return s;
  }
  *out = c;
  return NEAP_OK;
}

static void drop_idle(neap_arena *a) {
  if (!a->holder) neap__arena_drop(a);
}

/* What can go without anybody noticing but by a slower next call, cheapest first; the pool has given back
 * its own unused blocks before it refused. False when there is nothing more to try. */
static bool relieve(neap_context *c, int round) {
  switch (round) {
    case 0: drop_idle(&c->infer); return true;
    case 1:
      if (c->on_pressure) c->on_pressure(c->pressure_user);
      return true;
    case 2: drop_idle(&c->train); return true;
    default: return false;
  }
}

neap_status neap__context_reserve(neap_context *c, size_t bytes, neap_owner owner, void **out, neap_error *err) {
  neap_status s = neap__reserve(c->memory, bytes, owner, out, err);
  for (int round = 0; s == NEAP_OOM && relieve(c, round); round++) s = neap__reserve(c->memory, bytes, owner, out, err);
  return s;
}

neap_status neap__context_tensor(neap_context *c, const neap_desc *d, neap_owner owner, neap_tensor *out,
                                 neap_error *err) {
  neap_status s = neap__desc_check(d, err);
  if (s != NEAP_OK) return s;
  s = neap__tensor_create(&c->host, c->memory, d, owner, out, err);
  for (int round = 0; s == NEAP_OOM && relieve(c, round); round++)
    s = neap__tensor_create(&c->host, c->memory, d, owner, out, err);
  return s;
}

void neap__context_limit(neap_context *c, uint64_t limit, bool now) {
  neap__budget_set(c->budget, limit);
  if (now) neap__context_release(c);
}

void neap__context_release(neap_context *c) {
  drop_idle(&c->train);
  drop_idle(&c->infer);
  c->pool->vt->trim(c->pool, 0);
}

neap_status neap__arena_take(neap_arena *a, const void *holder, size_t bytes, neap_error *err) {
  if (a->holder && a->holder != holder)
    return neap__fail(err, NEAP_BUSY, "an update is unfinished: finish it or drop it first");
  neap_memory_stats stats;
  a->ctx->memory->vt->stats(a->ctx->memory, &stats);
  /* A limit lowered since the block was reserved binds it too: it is asked for anew. */
  if (a->bytes < bytes || stats.in_use > stats.limit) {
    neap__arena_drop(a);
    void *base = NULL;
    neap_status s = bytes ? neap__context_reserve(a->ctx, bytes, NEAP_OWNER_ACTIVATIONS, &base, err) : NEAP_OK;
    if (s != NEAP_OK) return s;
    a->base = base;
    a->bytes = bytes;
  }
  a->holder = holder;
  return NEAP_OK;
}

void neap__arena_return(neap_arena *a, const void *holder) {
  if (a->holder == holder) a->holder = NULL;
}

void neap__arena_drop(neap_arena *a) {
  if (a->base) neap__release(a->ctx->memory, a->base, a->bytes, NEAP_OWNER_ACTIVATIONS);
  a->base = NULL;
  a->bytes = 0;
  a->holder = NULL;
}
