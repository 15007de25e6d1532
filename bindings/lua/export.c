/* neap.export: programs that a host runs without Lua. */
#include <math.h>
#include <string.h>

#include "bindings/lua/lua_host.h"

/* --- life -------------------------------------------------------------------------------------------- */

/* What a run needs; the name and the place in the list stay. */
static void empty(neap_exported *x) {
  neap_host *h = &x->ctx->host;
  neap__program_destroy(x->program);
  neap__arena_drop(&x->arena);
  if (x->staging) neap__release(x->ctx->memory, x->staging, x->staging_bytes, NEAP_OWNER_STAGING);
  neap__free(h, x->in, (x->n_in + 1u) * sizeof *x->in);
  neap__free(h, x->out, (x->n_out + 1u) * sizeof *x->out);
  neap__free(h, x->at_in, (x->n_in + 1u) * sizeof *x->at_in);
  neap__free(h, x->at_out, (x->n_out + 1u) * sizeof *x->at_out);
}

void neap__exports_drop(neap_lua_host *h) {
  neap_host *host = &h->base.lua->ctx->host;
  while (h->exported) {
    neap_exported *x = h->exported;
    h->exported = x->next;
    empty(x);
    neap__free(host, x->name, strlen(x->name) + 1);
    neap__free(host, x, sizeof *x);
  }
}

static neap_exported *find(const neap_lua_host *h, const char *name) {
  neap_exported *x = h->exported;
  while (x && strcmp(x->name, name) != 0) x = x->next;
  return x;
}

neap_exported *neap__lua_exported(lua_State *L, const char *name) { return find(neap__lua_host(L), name); }

/* --- building: engine calls alone, so that nothing is lost ------------------------------------------- */

static neap_array describe(const neap_desc *d) {
  neap_array a = {.bytes = neap__desc_bytes(d), .dtype = d->dtype, .ndim = d->shape.ndim};
  memcpy(a.dim, d->shape.dim, (size_t)d->shape.ndim * sizeof a.dim[0]);
  return a;
}

static neap_status describe_all(neap_exported *x, const neap_graph *g, neap_error *err) {
  neap_host *h = &x->ctx->host;
  x->n_in = g->n_inputs;
  x->n_out = g->n_outputs;
  x->in = neap__calloc(h, x->n_in + 1u, sizeof *x->in);
  x->out = neap__calloc(h, x->n_out + 1u, sizeof *x->out);
  x->at_in = neap__calloc(h, x->n_in + 1u, sizeof *x->at_in);
  x->at_out = neap__calloc(h, x->n_out + 1u, sizeof *x->at_out);
  if (!x->in || !x->out || !x->at_in || !x->at_out)
    return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for an exported program");
  for (uint32_t i = 0; i < x->n_in; i++) x->in[i] = describe(neap__desc_of(g, g->inputs[i]));
  for (uint32_t i = 0; i < x->n_out; i++) x->out[i] = describe(neap__desc_of(g, g->outputs[i]));
  return NEAP_OK;
}

/* Inputs and outputs one after the other in device memory. */
static neap_status stage(neap_exported *x, neap_error *err) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < x->n_in; i++) bytes += neap__align_up(x->in[i].bytes);
  for (uint32_t i = 0; i < x->n_out; i++) bytes += neap__align_up(x->out[i].bytes);
  if (bytes == 0) return NEAP_OK;
  neap_status s = neap__context_reserve(x->ctx, bytes, NEAP_OWNER_STAGING, &x->staging, err);
  if (s != NEAP_OK) return s;
  x->staging_bytes = bytes;
  char *at = x->staging;
  for (uint32_t i = 0; i < x->n_in; at += neap__align_up(x->in[i++].bytes)) x->at_in[i] = at;
  for (uint32_t i = 0; i < x->n_out; at += neap__align_up(x->out[i++].bytes)) x->at_out[i] = at;
  return NEAP_OK;
}

static neap_status reserve(neap_exported *x, neap_error *err) {
  neap_program_memory m;
  neap__program_memory(x->program, &m);
  neap_status s = neap__arena_take(&x->arena, x, (size_t)m.arena, err);
  if (s == NEAP_OK) neap__arena_return(&x->arena, x);
  if (s == NEAP_OK && !x->ctx->info.host_memory) s = stage(x, err);
  return s;
}

static neap_status build(neap_exported *x, neap_context *ctx, neap_graph *g, neap_error *err) {
  neap_program_spec spec = {.graph = g};
  memset(x, 0, sizeof *x);
  x->ctx = x->arena.ctx = ctx;
  neap_status s = describe_all(x, g, err);
  if (s == NEAP_OK) s = neap__program_create(ctx, &spec, &x->program, err);
  if (s == NEAP_OK) s = reserve(x, err);
  if (s != NEAP_OK) empty(x);
  return s;
}

static bool same_arrays(const neap_array *a, uint32_t n, const neap_array *b, uint32_t m) {
  for (uint32_t i = 0; i < n && n == m; i++) {
    if (a[i].dtype != b[i].dtype || a[i].ndim != b[i].ndim || memcmp(a[i].dim, b[i].dim, sizeof a[i].dim) != 0)
      return false;
  }
  return n == m;
}

/* Puts the program into the place that its name has. The host keeps pointers to it and knows its shapes, so they do
 * not change. */
static neap_status place(neap_lua_host *h, const char *name, neap_exported *fresh, neap_error *err) {
  neap_host *host = &fresh->ctx->host;
  neap_exported *x = find(h, name);
  if (x && (!same_arrays(x->in, x->n_in, fresh->in, fresh->n_in) ||
            !same_arrays(x->out, x->n_out, fresh->out, fresh->n_out)))
    return neap__fail(err, NEAP_SHAPE, "'%s' was exported before with other shapes: give this one another name", name);
  if (!x) {
    x = neap__calloc(host, 1, sizeof *x);
    char *copy = neap__alloc(host, strlen(name) + 1);
    if (!x || !copy) {
      neap__free(host, x, sizeof *x);
      neap__free(host, copy, strlen(name) + 1);
      return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for an exported program");
    }
    x->name = memcpy(copy, name, strlen(name) + 1);
    x->next = h->exported;
    h->exported = x;
  } else {
    empty(x);
  }
  fresh->next = x->next;
  fresh->name = x->name;
  fresh->engine = x->engine;
  *x = *fresh;
  return NEAP_OK;
}

static neap_status export(neap_lua_host *h, const char *name, neap_context *ctx, neap_graph *g, neap_error *err) {
  neap_exported fresh;
  neap_status s = build(&fresh, ctx, g, err);
  if (s != NEAP_OK) return s;
  s = place(h, name, &fresh, err);
  if (s != NEAP_OK) empty(&fresh);
  return s;
}

/* --- from a script ----------------------------------------------------------------------------------- */

/* Calls the library's own trace with the shapes (or tensors that stand for their like); leaves the graph. */
static neap_lua_graph *push_graph(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "neap.trace") != LUA_TTABLE)
    neap__lua_fail(L, NEAP_INTERNAL, "export", "the standard library is not loaded");
  lua_getfield(L, -1, "trace");
  lua_pushvalue(L, 2);
  lua_pushliteral(L, "neap.export");
  lua_Integer n = (lua_Integer)lua_rawlen(L, 3);
  luaL_checkstack(L, (int)n + LUA_MINSTACK, "inputs of an exported function");
  char text[80];
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 3, i);
    if (!lua_istable(L, -1) && !neap__tensor_test(L, -1))
      neap__lua_fail(L, NEAP_INVALID, "export", "shape %d is %s, expected a list as {1, 4}", (int)i,
                     neap__describe(L, -1, text, sizeof text));
  }
  lua_call(L, (int)n + 2, 1);
  lua_getfield(L, -1, "graph");
  return neap__graph_check(L, lua_gettop(L), "export");
}

int neap__export(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  lua_settop(L, 3);
  const char *name = neap__arg_string(L, 1, "export", "the name", NULL);
  neap__arg_table(L, 3, "export", "the list of shapes");
  if (s->trace) neap__lua_fail(L, NEAP_INVALID, "export", "a function is being traced: export outside of it");
  neap_lua_graph *g = push_graph(L);
  neap__graph_pure(L, g, "neap.export");
  g->sealed = true;
  neap_lua_host *h = neap__lua_host(L);
  neap__ok(L, NEAP_CALL(s, L, export(h, name, s->ctx, g->g, &err)), &err);
  return 0;
}

/* --- from the host ----------------------------------------------------------------------------------- */

static neap_status check_pointers(const char *what, const neap_array *a, uint32_t n, const void *const *p,
                                  neap_error *err) {
  if (n && !p) return neap__fail(err, NEAP_INVALID, "the %ss are NULL, expected %u pointers", what, n);
  for (uint32_t i = 0; i < n; i++)
    if (a[i].bytes && (!p[i] || (uintptr_t)p[i] % neap__dtype_size(a[i].dtype)))
      return neap__fail(err, NEAP_INVALID, "%s %u is at %p, expected %zu bytes aligned to %s", what, i + 1, p[i],
                        a[i].bytes, neap__dtype_name(a[i].dtype));
  return NEAP_OK;
}

static neap_status run(neap_exported *x, const void *const *inputs, void *const *outputs, neap_error *err) {
  neap_run r;
  neap_status s = neap__run_begin(&r, x->program, &x->arena, inputs, outputs, err);
  if (s != NEAP_OK) return s;
  s = neap__run_step(&r, INFINITY, err);
  neap__run_end(&r);
  return s;
}

static neap_status run_staged(neap_exported *x, const void *const *inputs, void *const *outputs, neap_error *err) {
  neap_backend *b = x->ctx->backend;
  neap_status s = NEAP_OK;
  for (uint32_t i = 0; i < x->n_in && s == NEAP_OK; i++)
    s = b->vt->copy(b, (void *)(uintptr_t)x->at_in[i], inputs[i], x->in[i].bytes, NEAP_COPY_IN, err);
  if (s == NEAP_OK) s = run(x, x->at_in, x->at_out, err);
  for (uint32_t i = 0; i < x->n_out && s == NEAP_OK; i++)
    s = b->vt->copy(b, outputs[i], x->at_out[i], x->out[i].bytes, NEAP_COPY_OUT, err);
  return s;
}

neap_status neap__exported_run(neap_exported *x, const void *const *inputs, void *const *outputs, neap_error *err) {
  neap_status s = check_pointers("input", x->in, x->n_in, inputs, err);
  if (s == NEAP_OK) s = check_pointers("output", x->out, x->n_out, (const void *const *)outputs, err);
  if (s != NEAP_OK) return s;
  return x->ctx->info.host_memory ? run(x, inputs, outputs, err) : run_staged(x, inputs, outputs, err);
}
