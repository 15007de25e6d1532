/* Engines: configuration, life, errors, memory. */
#include "host/engine.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bindings/lua/open.h"

#define MAX_THREADS 4096

const char *neap_version(void) { return NEAP_VERSION_TEXT; }

/* --- configuration ----------------------------------------------------------------------------------- */

void neap_config_init_sized(neap_config *config, size_t size) {
  neap_config defaults = {.size = size, .log_level = NEAP_LOG_WARN};
  if (!config) return;
  memset(config, 0, size);
  memcpy(config, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

static neap_status check_config(const neap_config *c, neap_error *err) {
  if (c->threads > MAX_THREADS)
    return neap__fail(err, NEAP_RANGE, "config.threads is %u, expected at most %d", c->threads, MAX_THREADS);
  if (isnan(c->script_seconds) || c->script_seconds < 0)
    return neap__fail(err, NEAP_RANGE, "config.script_seconds is %g, expected 0 or more", c->script_seconds);
  if (c->error_size && !c->error)
    return neap__fail(err, NEAP_INVALID, "config.error_size is %zu, but config.error is NULL", c->error_size);
  return NEAP_OK;
}

neap_status neap__config_read(const neap_config *given, neap_config *out, neap_error *err) {
  const size_t least = offsetof(neap_config, error_size) + sizeof out->error_size;
  neap_config_init(out);
  if (!given) return NEAP_OK;
  if (given->size < least)
    return neap__fail(err, NEAP_INVALID, "config.size is %zu, expected at least %zu: call neap_config_init first",
                      given->size, least);
  memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
  out->size = sizeof *out;
  return check_config(out, err);
}

neap_status neap__create_failed(const neap_config *config, const neap_error *err) {
  neap_log log = {config->log, config->log_user, config->log_level};
  neap__log(&log, NEAP_LOG_ERROR, "%s", err->message);
  if (config->error && config->error_size) snprintf(config->error, config->error_size, "%s", err->message);
  return err->status;
}

/* --- life -------------------------------------------------------------------------------------------- */

static void point_failure(neap_engine *e) {
  e->failure = (neap_failure){.size = sizeof e->failure,
                              .message = e->error.message,
                              .where = e->error.where,
                              .op = e->error.op,
                              .shapes = e->error.shapes};
}

neap_status neap__engine_make(const neap_config *config, neap_engine **out, neap_error *err) {
  neap_host h;
  neap__host_init(&h, config->alloc, config->alloc_user);
  neap_engine *e = neap__calloc(&h, 1, sizeof *e);
  if (!e) return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for an engine");
  e->host = h;
  neap__host_init(&e->lua, config->alloc, config->alloc_user);
  e->limits.instructions = config->script_instructions;
  e->limits.seconds = config->script_seconds;
  e->limits.bytes = config->script_bytes;
  point_failure(e);
  neap_status s = neap__context_create(config, &e->ctx, err);
  if (s != NEAP_OK) {
    neap__engine_free(e);
    return s;
  }
  *out = e;
  return NEAP_OK;
}

void neap__engine_free(neap_engine *e) {
  neap__context_destroy(e->ctx);
  neap_host h = e->host;
  neap__free(&h, e, sizeof *e);
}

typedef struct opening {
  neap_engine *engine;
  const neap_config *config;
} opening;

static int open_state(lua_State *L) {
  opening *o = lua_touserdata(L, 1);
  neap__engine_bind(L, o->engine);
  neap__sandbox_open(L, o->engine, o->config);
  return 0;
}

static void log_warning(void *user, const char *text, int to_continue) {
  neap_engine *e = user;
  (void)to_continue;
  if (text[0] != '@') neap__log(&e->ctx->log, NEAP_LOG_WARN, "script: %s", text);
}

static neap_status open_lua(neap_engine *e, const neap_config *config, neap_error *err) {
  e->L = lua_newstate(neap__lua_alloc, e);
  if (!e->L) {
    return e->limits.refused
               ? neap__fail(err, NEAP_LIMIT, "config.script_bytes is %zu: too few for a Lua state", e->limits.bytes)
               : neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for a Lua state");
  }
  e->owns_lua = true;
  lua_setwarnf(e->L, log_warning, e);
  neap__limits_watch(e);
  opening o = {e, config};
  neap_status s = neap__enter(e, open_state, &o);
  *err = e->error;
  return s;
}

static neap_status create(const neap_config *config, neap_engine **out, neap_error *err) {
  neap_engine *e = NULL;
  neap_status s = neap__sandbox_check(config, err);
  if (s == NEAP_OK) s = neap__engine_make(config, &e, err);
  if (s != NEAP_OK) return s;
  s = open_lua(e, config, err);
  if (s != NEAP_OK) {
    neap_destroy(e);
    return s;
  }
  *out = e;
  return NEAP_OK;
}

neap_status neap_engine_create(const neap_config *given, neap_engine **out) {
  neap_config config;
  neap_error err;
  if (!out) return NEAP_INVALID;
  *out = NULL;
  neap_status s = neap__config_read(given, &config, &err);
  if (s == NEAP_OK) s = create(&config, out, &err);
  return s == NEAP_OK ? s : neap__create_failed(&config, &err);
}

/* What Lua holds of the engine goes first, since finalizers reach into it. */
void neap_destroy(neap_engine *e) {
  if (!e) return;
  if (e->L) {
    lua_settop(e->L, 0);
    neap__lua_close(e->L);
    if (e->owns_lua)
      lua_close(e->L);
    else
      neap__guest_leave(e->L);
  }
  neap__engine_free(e);
}

/* --- errors ------------------------------------------------------------------------------------------ */

neap_status neap__leave(neap_engine *e, neap_status status) {
  if (status == NEAP_OK) neap__error_clear(&e->error);
  e->failure.status = status;
  e->failure.bytes = e->error.bytes;
  return status;
}

neap_status neap__refuse(neap_engine *e, neap_status status, const char *fmt, ...) {
  char text[sizeof e->error.message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return neap__leave(e, neap__fail(&e->error, status, "%s", text));
}

const neap_failure *neap_last_error(const neap_engine *e) {
  static const neap_failure none = {.size = sizeof none,
                                    .status = NEAP_INVALID,
                                    .message = "the engine is NULL",
                                    .where = "",
                                    .op = "",
                                    .shapes = ""};
  return e ? &e->failure : &none;
}

/* --- memory ------------------------------------------------------------------------------------------ */

neap_status neap_memory(neap_engine *e, neap_memory_info *info) {
  const size_t least = offsetof(neap_memory_info, lua) + sizeof info->lua;
  if (!e) return NEAP_INVALID;
  if (!info || info->size < least)
    return neap__refuse(e, NEAP_INVALID, "neap_memory: info.size is %zu, expected at least %zu", info ? info->size : 0,
                        least);
  neap_memory_stats s;
  e->ctx->memory->vt->stats(e->ctx->memory, &s);
  const uint64_t *by = s.by_owner;
  neap_memory_info all = {.size = info->size,
                          .limit = s.limit == UINT64_MAX ? 0 : s.limit,
                          .in_use = s.in_use,
                          .peak = s.peak,
                          .reserved = s.reserved,
                          .reserved_peak = s.reserved_peak,
                          .parameters = by[NEAP_OWNER_PARAMETERS],
                          .gradients = by[NEAP_OWNER_GRADIENTS],
                          .optimizer = by[NEAP_OWNER_OPTIMIZER],
                          .activations = by[NEAP_OWNER_ACTIVATIONS],
                          .workspace = by[NEAP_OWNER_WORKSPACE],
                          .tensors = by[NEAP_OWNER_TENSORS],
                          .staging = by[NEAP_OWNER_STAGING],
                          .checkpoint = by[NEAP_OWNER_CHECKPOINT],
                          .host = e->ctx->host.in_use + e->host.in_use,
                          .lua = e->lua.in_use};
  memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
  return NEAP_OK;
}
