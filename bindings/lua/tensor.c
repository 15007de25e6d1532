/* The tensor userdata: dense values in device memory, or symbols of a trace. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "op/op.h"

static void drop(neap_handle *h) {
  neap_lua_tensor *t = (neap_lua_tensor *)h;
  neap__storage_drop(t->t.storage);
  t->t.storage = NULL;
}

const neap_class neap__tensor_class = {"neap.tensor", drop};

/* --- finding ----------------------------------------------------------------------------------------- */

neap_lua_tensor *neap__tensor_test(lua_State *L, int index) { return neap__handle_test(L, index, &neap__tensor_class); }

void neap__tensor_usable(lua_State *L, const neap_lua_tensor *t, const char *function) {
  const neap_lua *s = t->base.lua;
  char shape[96];
  if (!s || (t->trace == 0 && (!t->t.storage || t->t.storage->closed)))
    neap__lua_fail(L, NEAP_CLOSED, function, "the tensor (%s %s) was closed", neap__dtype_name(t->t.dtype),
                   neap__shape_text(&t->t.shape, shape, sizeof shape));
  if (t->trace && (!s->trace || s->trace->serial != t->trace))
    neap__lua_fail(L, NEAP_INVALID, function,
                   "the tensor (%s %s) stands for a value of a traced function that has ended: return it from "
                   "the function to see it",
                   neap__dtype_name(t->t.dtype), neap__shape_text(&t->t.shape, shape, sizeof shape));
}

neap_lua_tensor *neap__tensor_check(lua_State *L, int index, const char *function) {
  neap_lua_tensor *t = neap__tensor_test(L, index);
  char text[80];
  if (!t)
    neap__lua_fail(L, NEAP_INVALID, function, "argument %d is %s, expected a tensor", index,
                   neap__describe(L, index, text, sizeof text));
  neap__tensor_usable(L, t, function);
  return t;
}

neap_lua_tensor *neap__concrete_check(lua_State *L, int index, const char *function) {
  neap_lua_tensor *t = neap__tensor_check(L, index, function);
  if (t->trace)
    neap__lua_fail(L, NEAP_INVALID, NULL,
                   "%s inside a traced function: the value is not known while the function is traced, only its "
                   "shape and dtype are; return the tensor and look at it outside",
                   function);
  return t;
}

/* --- making ------------------------------------------------------------------------------------------ */

neap_lua_tensor *neap__push_tensor(lua_State *L, neap_lua *s) {
  return neap__handle_new(L, s, &neap__tensor_class, sizeof(neap_lua_tensor), 0);
}

neap_lua_tensor *neap__push_made(lua_State *L, neap_lua *s, const neap_desc *d, const char *function) {
  neap_error err;
  neap__lua_ready(L, s);
  neap_status st = neap__desc_check(d, &err);
  if (st == NEAP_OK) {
    neap__lua_grew(L, s, neap__desc_bytes(d));
    neap_lua_tensor *t = neap__push_tensor(L, s);
    st = NEAP_CALL(s, L, neap__context_tensor(s->ctx, d, NEAP_OWNER_TENSORS, &t->t, &err));
    if (st == NEAP_OK) return t;
  }
  if (function) snprintf(err.op, sizeof err.op, "%s", function);
  neap__raise(L, &err);
}

neap_lua_tensor *neap__push_view(lua_State *L, neap_lua *s, const neap_tensor *of) {
  neap_lua_tensor *t = neap__push_tensor(L, s);
  t->t = *of;
  t->view = true;
  neap__storage_retain(of->storage);
  return t;
}

neap_lua_tensor *neap__push_symbol(lua_State *L, neap_lua *s, neap_id id) {
  neap_lua_tensor *t = neap__push_tensor(L, s);
  const neap_desc *d = neap__desc_of(s->trace->g, id);
  t->t.dtype = d->dtype;
  t->t.shape = d->shape;
  t->trace = s->trace->serial;
  t->id = id;
  return t;
}

static neap_lua_tensor *push_number(lua_State *L, neap_lua *s, int index, neap_dtype dtype, const char *function) {
  char element[8];
  neap_error err;
  neap_desc d = {.dtype = dtype};
  neap_status st = neap__encode(L, index, dtype, element, &err);
  if (st != NEAP_OK) neap__lua_fail(L, st, function, "%s", err.message);
  neap_lua_tensor *t = neap__push_made(L, s, &d, function);
  neap__ok(L, neap__copy(s->ctx, neap__tensor_data(&t->t), element, neap__dtype_size(dtype), NEAP_COPY_IN, &err), &err);
  return t;
}

static void apply_with_list(lua_State *L, neap_lua *s, const neap_op *op, int index, const neap_shape *shape) {
  neap_opt opt[NEAP_MAX_OPTS] = {{.set = 1, .n = (uint8_t)shape->ndim}};
  memcpy(opt[0].v.list, shape->dim, sizeof opt[0].v.list);
  neap__apply(L, s, op, &index, 1, opt);
}

static void apply_to(lua_State *L, neap_lua *s, int index, neap_dtype dtype) {
  neap_opt opt[NEAP_MAX_OPTS] = {NEAP_INT(dtype)};
  neap__apply(L, s, &neap__op_to, &index, 1, opt);
}

neap_lua_tensor *neap__push_as(lua_State *L, neap_lua *s, int index, const neap_desc *d, const char *function) {
  index = lua_absindex(L, index);
  neap_lua_tensor *t;
  if (lua_isnumber(L, index) || lua_isboolean(L, index)) {
    t = push_number(L, s, index, d->dtype, function);
  } else {
    t = neap__concrete_check(L, index, function);
    lua_pushvalue(L, index);
  }
  if (t->t.dtype != d->dtype) {
    apply_to(L, s, lua_gettop(L), d->dtype);
    lua_replace(L, -2);
    t = neap__tensor_test(L, -1);
  }
  if (!neap__shape_equal(&t->t.shape, &d->shape)) {
    apply_with_list(L, s, &neap__op_expand, lua_gettop(L), &d->shape);
    lua_replace(L, -2);
    t = neap__tensor_test(L, -1);
  }
  return t;
}

/* --- methods ----------------------------------------------------------------------------------------- */

static int numel(lua_State *L) {
  lua_pushinteger(L, neap__shape_count(&neap__tensor_check(L, 1, "numel")->t.shape));
  return 1;
}

static int item(lua_State *L) {
  neap_lua_tensor *t = neap__concrete_check(L, 1, "item()");
  char element[8], shape[96];
  neap_error err;
  if (neap__shape_count(&t->t.shape) != 1)
    neap__lua_fail(L, NEAP_SHAPE, "item()", "the tensor has shape %s, expected one element",
                   neap__shape_text(&t->t.shape, shape, sizeof shape));
  neap__ok(L,
           neap__copy(t->base.lua->ctx, element, neap__tensor_data(&t->t), neap__dtype_size(t->t.dtype), NEAP_COPY_OUT,
                      &err),
           &err);
  neap__push_element(L, t->t.dtype, element);
  return 1;
}

static void push_nested(lua_State *L, neap_stage *r, const neap_tensor *t, int dim) {
  if (dim == t->shape.ndim) {
    char element[8];
    neap_error err;
    neap__ok(L, neap__stage_take(r, element, neap__dtype_size(t->dtype), &err), &err);
    neap__push_element(L, t->dtype, element);
    return;
  }
  int64_t n = t->shape.dim[dim];
  luaL_checkstack(L, 2, "nested tables");
  lua_createtable(L, n > INT32_MAX ? INT32_MAX : (int)n, 0);
  for (int64_t i = 1; i <= n; i++) {
    push_nested(L, r, t, dim + 1);
    lua_rawseti(L, -2, i);
  }
}

static int totable(lua_State *L) {
  neap_lua_tensor *t = neap__concrete_check(L, 1, "totable()");
  neap_desc d = neap__tensor_desc(&t->t);
  neap_stage r;
  neap__stage_begin(&r, t->base.lua->ctx, neap__tensor_data(&t->t), neap__desc_bytes(&d));
  push_nested(L, &r, &t->t, 0);
  return 1;
}

static int tobytes(lua_State *L) {
  neap_lua_tensor *t = neap__concrete_check(L, 1, "tobytes()");
  neap_desc d = neap__tensor_desc(&t->t);
  luaL_Buffer b;
  neap_error err;
  size_t bytes = neap__desc_bytes(&d);
  char *p = luaL_buffinitsize(L, &b, bytes);
  neap__tensor_usable(L, t, "tobytes()"); /* making room may have run finalizers */
  neap__ok(L, neap__copy(t->base.lua->ctx, p, neap__tensor_data(&t->t), bytes, NEAP_COPY_OUT, &err), &err);
  luaL_pushresultsize(&b, bytes);
  return 1;
}

static int clone(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_check(L, 1, "clone");
  neap_error err;
  lua_settop(L, 1);
  if (t->trace) return 1; /* values of a trace never change */
  neap_desc d = neap__tensor_desc(&t->t);
  neap_lua_tensor *copy = neap__push_made(L, t->base.lua, &d, "clone");
  neap__tensor_usable(L, t, "clone");
  neap__ok(L,
           neap__copy(t->base.lua->ctx, neap__tensor_data(&copy->t), neap__tensor_data(&t->t), neap__desc_bytes(&d),
                      NEAP_COPY_WITHIN, &err),
           &err);
  return 1;
}

static int detach(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_check(L, 1, "detach");
  if (t->base.lua->trace) {
    const neap_opt none[NEAP_MAX_OPTS] = {{0}};
    int in = 1;
    neap__apply(L, t->base.lua, &neap__op_stop, &in, 1, none);
    return 1;
  }
  neap__push_view(L, t->base.lua, &t->t);
  return 1;
}

static int copy_(lua_State *L) {
  neap_lua_tensor *t = neap__concrete_check(L, 1, "copy_");
  neap_lua *s = t->base.lua;
  neap_desc d = neap__tensor_desc(&t->t);
  neap_error err;
  lua_settop(L, 2);
  if (s->trace)
    neap__lua_fail(L, NEAP_INVALID, "copy_", "copy_ inside a traced function: tensors are not changed there");
  neap_lua_tensor *from = neap__push_as(L, s, 2, &d, "copy_");
  if (from->t.storage == t->t.storage) { /* they may overlap */
    lua_pushcfunction(L, clone);
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    from = neap__tensor_test(L, -1);
  }
  neap__tensor_usable(L, t, "copy_");
  neap__updates_guard(L, s, &t->t, "copy_");
  neap__ok(L,
           neap__copy(s->ctx, neap__tensor_data(&t->t), neap__tensor_data(&from->t), neap__desc_bytes(&d),
                      NEAP_COPY_WITHIN, &err),
           &err);
  lua_settop(L, 1);
  return 1;
}

/* Frees the bytes at once, even when views or programs still refer to them: those raise from now on. A view
 * lets go of its share alone. */
static int close_tensor(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_test(L, 1);
  char text[80];
  if (!t)
    neap__lua_fail(L, NEAP_INVALID, "close", "argument 1 is %s, expected a tensor",
                   neap__describe(L, 1, text, sizeof text));
  if (t->base.lua && t->t.storage && !t->view) neap__storage_close(t->t.storage);
  neap__handle_drop(&t->base);
  return 0;
}

/* --- fields and text --------------------------------------------------------------------------------- */

static void push_shape(lua_State *L, const neap_shape *s) {
  lua_createtable(L, s->ndim, 0);
  for (int i = 0; i < s->ndim; i++) {
    lua_pushinteger(L, s->dim[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Upvalue 1: the table of methods. */
static int index_tensor(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_test(L, 1);
  if (!t) return 0;
  if (lua_type(L, 2) != LUA_TSTRING) return neap__tensor_get(L);
  const char *key = lua_tostring(L, 2);
  if (strcmp(key, "shape") == 0)
    push_shape(L, &t->t.shape);
  else if (strcmp(key, "dtype") == 0)
    lua_pushstring(L, neap__dtype_name(t->t.dtype));
  else if (strcmp(key, "ndim") == 0)
    lua_pushinteger(L, t->t.shape.ndim);
  else
    lua_rawget(L, lua_upvalueindex(1));
  return 1;
}

#define SMALL 100 /* elements that are written out */

/* Replaces the element on top by its text; digits as the dtype has them. */
static void push_text(lua_State *L, neap_dtype dtype) {
  char text[40];
  if (neap__dtype_is_float(dtype)) {
    snprintf(text, sizeof text, "%.*g", dtype == NEAP_F64 ? 16 : 7, lua_tonumber(L, -1));
    lua_pushstring(L, text);
  } else {
    luaL_tolstring(L, -1, NULL);
  }
  lua_remove(L, -2);
}

static void add_elements(lua_State *L, luaL_Buffer *b, neap_stage *r, const neap_tensor *t, int dim) {
  if (dim == t->shape.ndim) {
    char element[8];
    neap_error err;
    neap__ok(L, neap__stage_take(r, element, neap__dtype_size(t->dtype), &err), &err);
    neap__push_element(L, t->dtype, element);
    push_text(L, t->dtype);
    luaL_addvalue(b);
    return;
  }
  luaL_addchar(b, '{');
  for (int64_t i = 0; i < t->shape.dim[dim]; i++) {
    if (i) luaL_addstring(b, ", ");
    add_elements(L, b, r, t, dim + 1);
  }
  luaL_addchar(b, '}');
}

static const char *state_of(const neap_lua_tensor *t) {
  if (!t->base.lua || (t->trace == 0 && (!t->t.storage || t->t.storage->closed))) return " (closed)";
  return t->trace ? " (traced)" : "";
}

static int tensor_tostring(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_test(L, 1);
  if (!t) return 0;
  char shape[96];
  const char *state = state_of(t);
  luaL_Buffer b;
  lua_settop(L, 1);
  lua_pushfstring(L, "tensor %s %s%s", neap__dtype_name(t->t.dtype), neap__shape_text(&t->t.shape, shape, sizeof shape),
                  state);
  if (state[0] || neap__shape_count(&t->t.shape) > SMALL) return 1;
  neap_desc d = neap__tensor_desc(&t->t);
  neap_stage r;
  neap__stage_begin(&r, t->base.lua->ctx, neap__tensor_data(&t->t), neap__desc_bytes(&d));
  luaL_buffinit(L, &b);
  add_elements(L, &b, &r, &t->t, 0);
  luaL_pushresult(&b);
  lua_pushfstring(L, "%s %s", lua_tostring(L, 2), lua_tostring(L, 3));
  return 1;
}

static int no_order(lua_State *L) {
  neap__lua_fail(L, NEAP_INVALID, NULL,
                 "tensors are compared element by element: use a:lt(b), a:le(b), a:gt(b), a:ge(b)");
}

static int is_tensor(lua_State *L) {
  lua_pushboolean(L, neap__tensor_test(L, 1) != NULL);
  return 1;
}

/* --- parameters -------------------------------------------------------------------------------------- */

/* Counts the bytes with the parameters when there is room for both blocks for a moment. */
static void move_to_parameters(neap_lua *s, neap_storage *st) {
  neap_context *c = s->ctx;
  void *block = NULL;
  if (st->owner == NEAP_OWNER_PARAMETERS || !st->resource || !st->bytes) return;
  if (neap__reserve(st->resource, st->bytes, NEAP_OWNER_PARAMETERS, &block, NULL) != NEAP_OK) return;
  if (neap__copy(c, block, st->data, st->bytes, NEAP_COPY_WITHIN, NULL) != NEAP_OK) {
    neap__release(st->resource, block, st->bytes, NEAP_OWNER_PARAMETERS);
    return;
  }
  neap__release(st->resource, st->data, st->bytes, st->owner);
  st->data = block;
  st->owner = NEAP_OWNER_PARAMETERS;
}

static int parameter(lua_State *L) {
  neap_lua_tensor *t = neap__concrete_check(L, 1, "parameter");
  neap_desc d = neap__tensor_desc(&t->t);
  if (t->view || neap__desc_bytes(&d) != t->t.storage->bytes)
    neap__lua_fail(L, NEAP_INVALID, "parameter", "the tensor shares its storage with another: clone() it first");
  if (!neap__dtype_is_float(d.dtype))
    neap__lua_fail(L, NEAP_DTYPE, "parameter", "a parameter is floating point, not %s", neap__dtype_name(d.dtype));
  move_to_parameters(t->base.lua, t->t.storage);
  t->t.storage->parameter = true;
  lua_settop(L, 1);
  return 1;
}

static int is_parameter(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_test(L, 1);
  lua_pushboolean(L, t && t->t.storage && t->t.storage->parameter);
  return 1;
}

/* method(name, function): for what the standard library adds to tensors. Upvalue 1: the table of methods. */
static int add_method(lua_State *L) {
  luaL_checktype(L, 1, LUA_TSTRING);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  lua_rawset(L, lua_upvalueindex(1));
  return 0;
}

void neap__open_tensor(lua_State *L) {
  static const luaL_Reg methods[] = {{"numel", numel},     {"item", item},          {"totable", totable},
                                     {"tobytes", tobytes}, {"clone", clone},        {"detach", detach},
                                     {"copy_", copy_},     {"close", close_tensor}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__newindex", neap__tensor_set},
                                  {"__tostring", tensor_tostring},
                                  {"__lt", no_order},
                                  {"__le", no_order},
                                  {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"parameter", parameter}, {"is_parameter", is_parameter}, {"is_tensor", is_tensor}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  static const luaL_Reg none[] = {{NULL, NULL}};
  neap__class_new(L, &neap__tensor_class, none, meta);
  int core = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &neap__tensor_class);
  lua_newtable(L);
  lua_pushvalue(L, core);
  neap__open_ops(L, core + 2);
  lua_pop(L, 1);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, add_method, 1);
  lua_setfield(L, core, "method");
  lua_pushcclosure(L, index_tensor, 1);
  lua_setfield(L, core + 1, "__index");
  lua_settop(L, core);
}
