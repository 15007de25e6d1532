/* Functions of the host's that scripts call as host.NAME. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "host/engine.h"

static const char table_key;

void neap__push_host_table(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &table_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &table_key);
}

void neap__drop_host_table(lua_State *L) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &table_key);
}

/* Upvalue 1 of the function that scripts see; upvalue 2 is its name. */
typedef struct registered {
  neap_function fn;
  void *user;
} registered;

/* The elements of the tensor at index in host memory, which lasts as long as the stack below does. */
static void read_tensor(lua_State *L, int index, const char *name, neap_array *out) {
  neap_lua_tensor *t = neap__concrete_check(L, index, name);
  neap_context *ctx = t->base.lua->ctx;
  neap_desc d = neap__tensor_desc(&t->t);
  neap_error err;
  *out = (neap_array){.bytes = neap__desc_bytes(&d), .dtype = d.dtype, .ndim = d.shape.ndim};
  memcpy(out->dim, d.shape.dim, sizeof out->dim);
  if (ctx->info.host_memory) {
    out->data = neap__tensor_data(&t->t);
    return;
  }
  out->data = lua_newuserdatauv(L, out->bytes + 1, 0);
  lua_replace(L, index);
  neap__ok(L, neap__copy(ctx, out->data, neap__tensor_data(&t->t), out->bytes, NEAP_COPY_OUT, &err), &err);
}

static void read_arg(lua_State *L, int index, const char *name, neap_arg *out) {
  if (neap__tensor_test(L, index)) {
    out->type = NEAP_ARG_TENSOR;
    read_tensor(L, index, name, &out->as.tensor);
    return;
  }
  char text[80];
  if (lua_type(L, index) > LUA_TSTRING || lua_type(L, index) == LUA_TLIGHTUSERDATA)
    neap__lua_fail(L, NEAP_INVALID, name, "argument %d is %s, expected nil, a boolean, number, string or tensor", index,
                   neap__describe(L, index, text, sizeof text));
  neap__take_result(L, index, out, (size_t)index - 1);
}

static _Noreturn void raise_failure(lua_State *L, const char *name, neap_status status, const neap_arg *result,
                                    size_t n) {
  const char *text = "";
  int length = 0;
  if (n && result->type == NEAP_ARG_STRING && result->as.string.text) {
    text = result->as.string.text;
    length = result->as.string.length > 500 ? 500 : (int)result->as.string.length;
  }
  neap__lua_fail(L, status, name, "%.*s", length ? length : (int)strlen(neap_status_text(status)),
                 length ? text : neap_status_text(status));
}

static int call_host(lua_State *L) {
  const registered *r = lua_touserdata(L, lua_upvalueindex(1));
  const char *name = lua_tostring(L, lua_upvalueindex(2));
  neap_arg args[NEAP_MAX_ARGS], results[NEAP_MAX_ARGS];
  size_t n = (size_t)lua_gettop(L), n_results = 0;
  neap_transfer transfer = {.ctx = neap__engine_of(L)->ctx};
  if (n > NEAP_MAX_ARGS) neap__lua_fail(L, NEAP_RANGE, name, "%zu arguments, expected at most %d", n, NEAP_MAX_ARGS);
  for (size_t i = 0; i < n; i++) read_arg(L, (int)i + 1, name, &args[i]);
  memset(results, 0, sizeof results);
  neap_status s = r->fn(r->user, args, n, results, &n_results);
  if (n_results > NEAP_MAX_ARGS)
    neap__lua_fail(L, NEAP_RANGE, name, "the host gave %zu results, expected at most %d", n_results, NEAP_MAX_ARGS);
  if (s != NEAP_OK) raise_failure(L, name, s, results, n_results);
  luaL_checkstack(L, NEAP_MAX_ARGS + LUA_MINSTACK, "results of the host");
  for (size_t i = 0; i < n_results; i++) neap__push_arg(L, &transfer, &results[i], i, "result", true);
  return (int)n_results;
}

/* --- registering ------------------------------------------------------------------------------------- */

typedef struct registration {
  const char *name;
  registered r;
} registration;

static int add_function(lua_State *L) {
  const registration *n = lua_touserdata(L, 1);
  neap__push_host_table(L);
  lua_pushstring(L, n->name);
  if (n->r.fn) {
    registered *r = lua_newuserdatauv(L, sizeof *r, 0);
    *r = n->r;
    lua_pushfstring(L, "host.%s", n->name);
    lua_pushcclosure(L, call_host, 2);
  } else {
    lua_pushnil(L);
  }
  lua_rawset(L, -3);
  return 0;
}

neap_status neap_register(neap_engine *e, const char *name, neap_function fn, void *user) {
  if (!e) return NEAP_INVALID;
  if (!name || !name[0]) return neap__refuse(e, NEAP_INVALID, "neap_register: the name is %s", name ? "empty" : "NULL");
  registration n = {name, {fn, user}};
  return neap__enter(e, add_function, &n);
}
