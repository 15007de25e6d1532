/* Values between the host and its scripts. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "host/engine.h"

_Static_assert(NEAP_ARRAY_DIMS == NEAP_MAX_DIMS, "public arrays hold every shape");
_Static_assert(sizeof(neap_array) == 88 && sizeof(neap_arg) == 96, "these come in arrays: their size is for good");

/* --- to Lua ------------------------------------------------------------------------------------------ */

static void check_array(lua_State *L, const neap_array *a, size_t i, const char *what, neap_desc *d) {
  neap_error err;
  if ((unsigned)a->dtype >= NEAP_DTYPE_COUNT)
    neap__lua_fail(L, NEAP_DTYPE, NULL, "%s %zu: dtype %d is none", what, i + 1, (int)a->dtype);
  if (a->ndim < 0 || a->ndim > NEAP_MAX_DIMS)
    neap__lua_fail(L, NEAP_SHAPE, NULL, "%s %zu: ndim is %d, expected 0 to %d", what, i + 1, (int)a->ndim,
                   NEAP_MAX_DIMS);
  d->dtype = a->dtype;
  d->shape.ndim = a->ndim;
  memcpy(d->shape.dim, a->dim, (size_t)a->ndim * sizeof a->dim[0]);
  neap_status s = neap__desc_check(d, &err);
  if (s != NEAP_OK) neap__lua_fail(L, s, NULL, "%s %zu: %s", what, i + 1, err.message);
  size_t need = neap__desc_bytes(d);
  if (need > a->bytes)
    neap__lua_fail(L, NEAP_RANGE, NULL, "%s %zu has %zu bytes, its shape needs %zu", what, i + 1, a->bytes, need);
  if (need && (!a->data || (uintptr_t)a->data % neap__dtype_size(a->dtype)))
    neap__lua_fail(L, NEAP_INVALID, NULL, "%s %zu: data is %p, expected memory aligned to %s", what, i + 1, a->data,
                   neap__dtype_name(a->dtype));
}

static void push_copy(lua_State *L, neap_lua *s, const neap_array *a, const neap_desc *d) {
  neap_error err;
  neap_lua_tensor *t = neap__push_new(L, s, d);
  neap__ok(L, neap__copy(s->ctx, neap__tensor_data(&t->t), a->data, neap__desc_bytes(d), NEAP_COPY_IN, &err), &err);
}

static neap_storage *push_view(lua_State *L, neap_lua *s, const neap_array *a, const neap_desc *d) {
  neap_error err;
  neap_lua_tensor *t = neap__push_tensor(L, s);
  t->t.dtype = d->dtype;
  t->t.shape = d->shape;
  neap__strides_dense(&d->shape, t->t.stride);
  neap__ok(L, neap__storage_borrow(&s->ctx->host, a->data, neap__desc_bytes(d), &t->t.storage, &err), &err);
  return t->t.storage;
}

static void push_tensor(lua_State *L, neap_transfer *t, const neap_array *a, size_t i, const char *what, bool copy) {
  neap_lua *s = neap__lua_get(L);
  neap_desc d;
  check_array(L, a, i, what, &d);
  if (copy || !s->ctx->info.host_memory)
    push_copy(L, s, a, &d);
  else
    t->lent[t->n_lent++] = neap__storage_retain(push_view(L, s, a, &d));
}

void neap__push_arg(lua_State *L, neap_transfer *t, const neap_arg *a, size_t i, const char *what, bool copy) {
  switch (a->type) {
    case NEAP_ARG_NIL: lua_pushnil(L); return;
    case NEAP_ARG_BOOL: lua_pushboolean(L, a->as.boolean); return;
    case NEAP_ARG_INTEGER: lua_pushinteger(L, a->as.integer); return;
    case NEAP_ARG_NUMBER: lua_pushnumber(L, a->as.number); return;
    case NEAP_ARG_STRING:
      if (!a->as.string.text && a->as.string.length)
        neap__lua_fail(L, NEAP_INVALID, NULL, "%s %zu is a string of %zu bytes at NULL", what, i + 1,
                       a->as.string.length);
      lua_pushlstring(L, a->as.string.text ? a->as.string.text : "", a->as.string.length);
      return;
    case NEAP_ARG_TENSOR: push_tensor(L, t, &a->as.tensor, i, what, copy); return;
  }
  neap__lua_fail(L, NEAP_INVALID, NULL, "%s %zu: type %d is none", what, i + 1, (int)a->type);
}

/* What a script kept of a lent tensor is a closed one from here on. */
void neap__transfer_end(neap_transfer *t) {
  for (size_t i = 0; i < t->n_lent; i++) {
    neap__storage_close(t->lent[i]);
    neap__storage_drop(t->lent[i]);
  }
  t->n_lent = 0;
}

/* --- from Lua ---------------------------------------------------------------------------------------- */

static void take_tensor(lua_State *L, const neap_lua_tensor *t, neap_arg *out, size_t i) {
  neap_array room = out->type == NEAP_ARG_TENSOR ? out->as.tensor : (neap_array){.data = NULL};
  neap_desc d = neap__tensor_desc(&t->t);
  neap_error err;
  char shape[96];
  size_t need = neap__desc_bytes(&d);
  if (need > room.bytes || (need && !room.data))
    neap__lua_fail(L, NEAP_RANGE, NULL, "result %zu is a tensor (%s %s) of %zu bytes, the host gives room for %zu",
                   i + 1, neap__dtype_name(d.dtype), neap__shape_text(&d.shape, shape, sizeof shape), need,
                   room.data ? room.bytes : 0);
  neap__ok(L, neap__copy(t->base.lua->ctx, room.data, neap__tensor_data(&t->t), need, NEAP_COPY_OUT, &err), &err);
  room.bytes = need;
  room.dtype = d.dtype;
  room.ndim = d.shape.ndim;
  memcpy(room.dim, d.shape.dim, sizeof room.dim);
  out->type = NEAP_ARG_TENSOR;
  out->as.tensor = room;
}

void neap__take_result(lua_State *L, int index, neap_arg *out, size_t i) {
  char text[80];
  switch (lua_type(L, index)) {
    case LUA_TNIL: out->type = NEAP_ARG_NIL; return;
    case LUA_TBOOLEAN: *out = neap_bool(lua_toboolean(L, index)); return;
    case LUA_TNUMBER:
      *out = lua_isinteger(L, index) ? neap_integer(lua_tointeger(L, index)) : neap_number(lua_tonumber(L, index));
      return;
    case LUA_TSTRING: {
      size_t length;
      const char *s = lua_tolstring(L, index, &length);
      *out = neap_string(s, length);
      return;
    }
    default:
      if (!neap__tensor_test(L, index))
        neap__lua_fail(L, NEAP_INVALID, NULL, "result %zu is %s, expected nil, a boolean, number, string or tensor",
                       i + 1, neap__describe(L, index, text, sizeof text));
      take_tensor(L, neap__concrete_check(L, index, "the host"), out, i);
  }
}
