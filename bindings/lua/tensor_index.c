/* t[i], t[{i, {from, to}, {}}] and assignment to them. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "op/op.h"

/* One part of a key: a single position, or a range. 0-based. */
typedef struct part {
  bool single;
  int64_t start, length;
} part;

typedef struct key {
  int n;
  part parts[NEAP_MAX_DIMS];
} key;

/* --- keys -------------------------------------------------------------------------------------------- */

/* 1-based or negative -> 0-based, within a dimension of n entries. */
static int64_t resolve(lua_State *L, int64_t i, int64_t n, int dim) {
  if (i == 0)
    neap__lua_fail(L, NEAP_RANGE, "index",
                   "position 0 in dimension %d: positions start at 1 (values stored in tensors, as labels, start at 0)",
                   dim + 1);
  if (i > n || i < -n)
    neap__lua_fail(L, NEAP_RANGE, "index", "position %lld is outside dimension %d, which has %lld entries",
                   (long long)i, dim + 1, (long long)n);
  return i > 0 ? i - 1 : i + n;
}

static int64_t whole(lua_State *L, int index, int dim) {
  int64_t i;
  char text[80];
  if (!neap__to_integer(L, index, &i))
    neap__lua_fail(L, lua_type(L, index) == LUA_TNUMBER ? NEAP_RANGE : NEAP_INVALID, "index",
                   "%s in dimension %d: expected a whole number, a range {from, to}, or {} for all",
                   neap__describe(L, index, text, sizeof text), dim + 1);
  return i;
}

/* {from, to}: both included; from = to + 1 is empty. */
static part parse_range(lua_State *L, int index, int64_t n, int dim) {
  size_t entries = lua_rawlen(L, index);
  part p = {false, 0, n};
  if (entries == 0 && (lua_pushnil(L), lua_next(L, index) == 0)) return p;
  if (entries != 2)
    neap__lua_fail(L, NEAP_INVALID, "index", "a range in dimension %d has %zu entries, expected {from, to} or {}",
                   dim + 1, entries);
  lua_rawgeti(L, index, 1);
  lua_rawgeti(L, index, 2);
  int64_t from = whole(L, -2, dim), to = whole(L, -1, dim);
  lua_pop(L, 2);
  if (from > 0 && to == from - 1 && from <= n + 1) return (part){false, from - 1, 0};
  p.start = resolve(L, from, n, dim);
  p.length = resolve(L, to, n, dim) - p.start + 1;
  if (p.length < 0)
    neap__lua_fail(L, NEAP_RANGE, "index", "the range {%lld, %lld} in dimension %d runs backwards", (long long)from,
                   (long long)to, dim + 1);
  return p;
}

static part parse_part(lua_State *L, int index, int64_t n, int dim) {
  if (lua_istable(L, index)) return parse_range(L, index, n, dim);
  return (part){true, resolve(L, whole(L, index, dim), n, dim), 1};
}

/* The key at stack slot 2. */
static void parse_key(lua_State *L, const neap_shape *s, key *k) {
  char text[80], shape[96];
  bool table = lua_istable(L, 2);
  if (!table && lua_type(L, 2) != LUA_TNUMBER)
    neap__lua_fail(L, NEAP_INVALID, "index", "the key is %s, expected a position or a table of positions and ranges",
                   neap__describe(L, 2, text, sizeof text));
  size_t n = table ? lua_rawlen(L, 2) : 1;
  if (n > (size_t)s->ndim)
    neap__lua_fail(L, NEAP_SHAPE, "index", "%zu positions for a tensor of shape %s", n,
                   neap__shape_text(s, shape, sizeof shape));
  k->n = (int)n;
  for (int i = 0; i < k->n; i++) {
    if (table)
      lua_rawgeti(L, 2, i + 1);
    else
      lua_pushvalue(L, 2);
    k->parts[i] = parse_part(L, lua_gettop(L), s->dim[i], i);
    lua_pop(L, 1);
  }
}

/* --- strided views of concrete tensors ----------------------------------------------------------------- */

static neap_status view_of(const neap_tensor *t, const key *k, neap_tensor *out, neap_error *err) {
  *out = *t;
  int dim = 0;
  for (int i = 0; i < k->n; i++) {
    const part *p = &k->parts[i];
    neap_tensor from = *out;
    neap_status s = p->single ? neap__tensor_select(&from, dim, p->start, out, err)
                              : neap__tensor_narrow(&from, dim, p->start, p->length, out, err);
    if (s != NEAP_OK) return s;
    if (!p->single) dim++;
  }
  return NEAP_OK;
}

/* Copies between a strided view and a dense block, as runs of what is contiguous in the view. */
static neap_status move_runs(neap_context *ctx, const neap_tensor *view, char *dense, bool to_view, neap_error *err) {
  size_t size = neap__dtype_size(view->dtype);
  int outer = view->shape.ndim;
  int64_t run = 1, at[NEAP_MAX_DIMS] = {0}, count = neap__shape_count(&view->shape);
  while (outer > 0 && (view->stride[outer - 1] == run || view->shape.dim[outer - 1] == 1))
    run *= view->shape.dim[--outer];
  for (int64_t done = 0; done < count; done += run) {
    int64_t offset = 0;
    for (int i = 0; i < outer; i++) offset += at[i] * view->stride[i];
    char *p = neap__tensor_data(view) + (ptrdiff_t)offset * (ptrdiff_t)size, *q = dense + (size_t)done * size;
    neap_status s = neap__copy(ctx, to_view ? p : q, to_view ? q : p, (size_t)run * size, NEAP_COPY_WITHIN, err);
    if (s != NEAP_OK) return s;
    for (int i = outer - 1; i >= 0 && ++at[i] == view->shape.dim[i]; i--) at[i] = 0;
  }
  return NEAP_OK;
}

neap_status neap__gather(neap_context *ctx, const neap_tensor *view, const neap_tensor *out, neap_error *err) {
  return move_runs(ctx, view, neap__tensor_data(out), false, err);
}

/* --- reading ----------------------------------------------------------------------------------------- */

static int get_concrete(lua_State *L, neap_lua_tensor *t, const key *k) {
  neap_tensor view;
  neap_error err;
  neap__ok(L, view_of(&t->t, k, &view, &err), &err);
  if (neap__tensor_dense(&view)) {
    neap__push_view(L, t->base.lua, &view);
    return 1;
  }
  neap_desc d = neap__tensor_desc(&view);
  neap_lua_tensor *out = neap__push_made(L, t->base.lua, &d, "index");
  neap__tensor_usable(L, t, "index");
  neap__ok(L, neap__gather(t->base.lua->ctx, &view, &out->t, &err), &err);
  return 1;
}

static int get_traced(lua_State *L, neap_lua *s, const key *k) {
  int dim = 0;
  lua_pushvalue(L, 1);
  for (int i = 0; i < k->n; i++) {
    const part *p = &k->parts[i];
    int in = lua_gettop(L);
    neap_opt opt[NEAP_MAX_OPTS] = {NEAP_INT(dim), NEAP_INT(p->start)};
    if (!p->single) opt[2] = NEAP_INT(p->length);
    neap__apply(L, s, p->single ? &neap__op_select : &neap__op_narrow, &in, 1, opt);
    lua_replace(L, in);
    if (!p->single) dim++;
  }
  return 1;
}

int neap__tensor_get(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_check(L, 1, "index");
  key k;
  parse_key(L, &t->t.shape, &k);
  return t->base.lua->trace ? get_traced(L, t->base.lua, &k) : get_concrete(L, t, &k);
}

/* --- writing ----------------------------------------------------------------------------------------- */

int neap__tensor_set(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_check(L, 1, "index");
  neap_lua *s = t->base.lua;
  neap_tensor view;
  neap_error err;
  key k;
  char text[80];
  if (lua_type(L, 2) == LUA_TSTRING)
    neap__lua_fail(L, NEAP_INVALID, "index", "a tensor has no field %s to set",
                   neap__describe(L, 2, text, sizeof text));
  if (s->trace)
    neap__lua_fail(L, NEAP_INVALID, "index",
                   "t[...] = v inside a traced function: values do not change there; make a new one with neap.where, "
                   "or neap.cat of what t:narrow gives");
  parse_key(L, &t->t.shape, &k);
  neap__ok(L, view_of(&t->t, &k, &view, &err), &err);
  neap_desc d = neap__tensor_desc(&view);
  neap_lua_tensor *value = neap__push_as(L, s, 3, &d, "index");
  if (value->t.storage == view.storage) { /* may overlap */
    neap_lua_tensor *copy = neap__push_made(L, s, &d, "index");
    neap__ok(L, neap__gather(s->ctx, &value->t, &copy->t, &err), &err);
    value = copy;
  }
  neap__tensor_usable(L, t, "index");
  neap__updates_guard(L, t->base.lua, &t->t, "index");
  neap__ok(L, move_runs(s->ctx, &view, neap__tensor_data(&value->t), true, &err), &err);
  return 0;
}
