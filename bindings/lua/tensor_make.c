/* Tensors out of numbers, tables and bytes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "op/op.h"

/* --- nested tables ----------------------------------------------------------------------------------- */

/* A walk through a nested table, with the position for errors. */
typedef struct walk {
  lua_State *L;
  neap_lua *s;
  neap_shape shape;
  neap_dtype dtype;
  int64_t at[NEAP_MAX_DIMS]; /* 1-based */
  int64_t booleans, numbers;
  neap_stage stage;
} walk;

/* "[2][3]" */
static const char *position(const walk *w, int depth, char *buf, size_t size) {
  size_t used = 0;
  buf[0] = '\0';
  for (int i = 0; i < depth && used < size; i++) {
    int n = snprintf(buf + used, size - used, "[%lld]", (long long)w->at[i]);
    used += n > 0 ? (size_t)n : 0;
  }
  return buf;
}

/* The shape that the first elements suggest. */
static void measure(walk *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  luaL_checkstack(L, NEAP_MAX_DIMS + 2, "a nested table");
  while (lua_istable(L, -1)) {
    if (w->shape.ndim == NEAP_MAX_DIMS)
      neap__lua_fail(L, NEAP_SHAPE, "tensor", "tables are nested deeper than %d levels", NEAP_MAX_DIMS);
    w->shape.dim[w->shape.ndim++] = (int64_t)lua_rawlen(L, -1);
    if (lua_rawlen(L, -1) == 0) {
      if (lua_pushnil(L), lua_next(L, -2))
        neap__lua_fail(L, NEAP_INVALID, "tensor", "the table has named keys; options go in a second table");
      break;
    }
    lua_rawgeti(L, -1, 1);
  }
  lua_settop(L, top);
}

static void visit(walk *w, int depth, void (*leaf)(walk *w, int depth));

static void visit_table(walk *w, int depth, void (*leaf)(walk *w, int depth)) {
  lua_State *L = w->L;
  char where[160], text[80];
  if (!lua_istable(L, -1))
    neap__lua_fail(L, NEAP_SHAPE, "tensor", "ragged table: element %s is %s, expected a table of %lld",
                   position(w, depth, where, sizeof where), neap__describe(L, -1, text, sizeof text),
                   (long long)w->shape.dim[depth]);
  if ((int64_t)lua_rawlen(L, -1) != w->shape.dim[depth])
    neap__lua_fail(L, NEAP_SHAPE, "tensor", "ragged table: element %s has %lld entries where the first has %lld",
                   position(w, depth, where, sizeof where), (long long)lua_rawlen(L, -1),
                   (long long)w->shape.dim[depth]);
  for (int64_t i = 1; i <= w->shape.dim[depth]; i++) {
    w->at[depth] = i;
    lua_rawgeti(L, -1, i);
    visit(w, depth + 1, leaf);
    lua_pop(L, 1);
  }
}

static void visit(walk *w, int depth, void (*leaf)(walk *w, int depth)) {
  if (depth < w->shape.ndim)
    visit_table(w, depth, leaf);
  else
    leaf(w, depth);
}

static void count_leaf(walk *w, int depth) {
  lua_State *L = w->L;
  char where[160], text[80];
  if (lua_isboolean(L, -1))
    w->booleans++;
  else if (lua_type(L, -1) == LUA_TNUMBER)
    w->numbers++;
  else
    neap__lua_fail(L, lua_istable(L, -1) ? NEAP_SHAPE : NEAP_DTYPE, "tensor",
                   "element %s is %s, expected a number or a boolean%s", position(w, depth, where, sizeof where),
                   neap__describe(L, -1, text, sizeof text),
                   neap__tensor_test(L, -1) ? " (neap.stack joins tensors)" : "");
  if (w->booleans && w->numbers)
    neap__lua_fail(L, NEAP_DTYPE, "tensor", "element %s is %s: booleans and numbers are mixed",
                   position(w, depth, where, sizeof where), neap__describe(L, -1, text, sizeof text));
}

static void put_leaf(walk *w, int depth) {
  char element[8], where[160];
  neap_error err;
  neap_status st = neap__encode(w->L, -1, w->dtype, element, &err);
  if (st != NEAP_OK && depth > 0)
    neap__lua_fail(w->L, st, "tensor", "element %s: %s", position(w, depth, where, sizeof where), err.message);
  if (st != NEAP_OK) neap__lua_fail(w->L, st, "tensor", "%s", err.message);
  neap__ok(w->L, neap__stage_put(&w->stage, element, neap__dtype_size(w->dtype), &err), &err);
}

/* shape of the tensor: that of the table, or the one asked for when it has as many elements. */
static neap_desc choose_desc(lua_State *L, walk *w) {
  neap_desc d = {w->dtype, w->shape};
  if (!lua_istable(L, 2)) return d;
  lua_getfield(L, 2, "shape");
  if (!lua_isnil(L, -1)) {
    neap_shape s = {0};
    char a[96], b[96];
    neap__arg_table(L, lua_gettop(L), "tensor", "the shape");
    s.ndim = neap__arg_list(L, lua_gettop(L), "tensor", "the shape", s.dim, NEAP_MAX_DIMS);
    d.shape = s;
    neap_error err;
    neap__ok(L, neap__desc_check(&d, &err), &err);
    if (neap__shape_count(&s) != neap__shape_count(&w->shape))
      neap__lua_fail(L, NEAP_SHAPE, "tensor", "shape %s does not hold the %lld elements of a table of shape %s",
                     neap__shape_text(&s, a, sizeof a), (long long)neap__shape_count(&w->shape),
                     neap__shape_text(&w->shape, b, sizeof b));
  }
  lua_pop(L, 1);
  return d;
}

/* tensor(value[, {dtype=, shape=}]). Numbers are fp32 unless a dtype is given, integers too: most tensors
 * are for neural networks. Tables of booleans are bool. */
static int make_tensor(lua_State *L) {
  neap_error err;
  walk w = {.L = L, .s = neap__lua_get(L), .dtype = NEAP_F32};
  neap__arg_options(L, 2, "tensor", "dtype|shape");
  if (neap__tensor_test(L, 1))
    neap__lua_fail(L, NEAP_INVALID, "tensor", "argument 1 is a tensor already: use t:clone() or t:to(dtype)");
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  measure(&w);
  neap_desc all = {NEAP_F64, w.shape};
  neap__ok(L, neap__desc_check(&all, &err), &err);
  visit(&w, 0, count_leaf);
  w.dtype = neap__option_dtype(L, 2, "tensor", w.booleans ? NEAP_BOOL : NEAP_F32);
  neap_desc d = choose_desc(L, &w);
  neap_lua_tensor *t = neap__push_made(L, w.s, &d, "tensor");
  lua_insert(L, -2);
  neap__stage_begin(&w.stage, w.s->ctx, neap__tensor_data(&t->t), 0);
  visit(&w, 0, put_leaf);
  neap__ok(L, neap__stage_flush(&w.stage, &err), &err);
  lua_settop(L, 3);
  return 1;
}

/* --- filling ----------------------------------------------------------------------------------------- */

static void fill(lua_State *L, neap_lua_tensor *t, const char *element) {
  neap_desc d = neap__tensor_desc(&t->t);
  size_t left = neap__desc_bytes(&d), size = neap__dtype_size(d.dtype);
  char *at = neap__tensor_data(&t->t), block[NEAP_STAGE_BYTES];
  neap_error err;
  for (size_t i = 0; i < sizeof block; i += size) memcpy(block + i, element, size);
  while (left) {
    size_t n = left < sizeof block ? left : sizeof block;
    neap__ok(L, neap__copy(t->base.lua->ctx, at, block, n, NEAP_COPY_IN, &err), &err);
    at += n;
    left -= n;
  }
}

/* In a trace the op `full`, so that nothing is captured; else a tensor. The value is at index. */
static int push_full(lua_State *L, neap_lua *s, const neap_desc *d, int index, const char *function) {
  char element[8];
  neap_error err;
  neap_status st = neap__encode(L, index, d->dtype, element, &err);
  if (st != NEAP_OK) neap__lua_fail(L, st, function, "%s", err.message);
  if (s->trace) {
    double value = lua_isboolean(L, index) ? lua_toboolean(L, index) : lua_tonumber(L, index);
    neap_opt opt[NEAP_MAX_OPTS] = {{.set = 1, .n = (uint8_t)d->shape.ndim}, NEAP_FLOAT(value), NEAP_INT(d->dtype)};
    memcpy(opt[0].v.list, d->shape.dim, sizeof opt[0].v.list);
    neap__apply(L, s, &neap__op_full, NULL, 0, opt);
    return 1;
  }
  fill(L, neap__push_made(L, s, d, function), element);
  return 1;
}

static int make_constant(lua_State *L, const char *function, lua_Integer value) {
  neap_lua *s = neap__lua_get(L);
  neap_desc d;
  int options = neap__arg_shape(L, 1, function, &d.shape);
  neap__arg_options(L, options, function, "dtype");
  d.dtype = neap__option_dtype(L, options, function, NEAP_F32);
  lua_pushinteger(L, value);
  return push_full(L, s, &d, lua_gettop(L), function);
}

static int zeros(lua_State *L) { return make_constant(L, "zeros", 0); }
static int ones(lua_State *L) { return make_constant(L, "ones", 1); }

static int make_like(lua_State *L, const char *function, lua_Integer value) {
  neap_lua_tensor *t = neap__tensor_check(L, 1, function);
  neap_desc d = neap__tensor_desc(&t->t);
  neap__arg_options(L, 2, function, "dtype");
  d.dtype = neap__option_dtype(L, 2, function, d.dtype);
  lua_pushinteger(L, value);
  return push_full(L, t->base.lua, &d, lua_gettop(L), function);
}

static int zeros_like(lua_State *L) { return make_like(L, "zeros_like", 0); }
static int ones_like(lua_State *L) { return make_like(L, "ones_like", 1); }

/* full(shape, value[, {dtype=}]): a boolean gives bool, a number fp32. */
static int full(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_desc d = {.dtype = NEAP_F32};
  neap__arg_table(L, 1, "full", "the shape");
  d.shape.ndim = neap__arg_list(L, 1, "full", "the shape", d.shape.dim, NEAP_MAX_DIMS);
  neap__arg_options(L, 3, "full", "dtype");
  d.dtype = neap__option_dtype(L, 3, "full", lua_isboolean(L, 2) ? NEAP_BOOL : NEAP_F32);
  return push_full(L, s, &d, 2, "full");
}

/* full_like(x, value[, {dtype=}]) */
static int full_like(lua_State *L) {
  neap_lua_tensor *t = neap__tensor_check(L, 1, "full_like");
  neap_desc d = neap__tensor_desc(&t->t);
  neap__arg_options(L, 3, "full_like", "dtype");
  d.dtype = neap__option_dtype(L, 3, "full_like", d.dtype);
  return push_full(L, t->base.lua, &d, 2, "full_like");
}

/* linspace(start, stop, steps[, {dtype=}]): steps numbers from start to stop, both included; logspace: base to these
 * powers. Counted from the nearer end, so that both ends are exact. */
static int spaced(lua_State *L, const char *function, bool powers) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  const double start = neap__arg_number(L, 1, function, "start", -1e300, 1e300);
  const double stop = neap__arg_number(L, 2, function, "stop", -1e300, 1e300);
  const double steps = neap__arg_number(L, 3, function, "steps", 0, 0x1p40);
  if (steps != floor(steps)) neap__lua_fail(L, NEAP_RANGE, function, "steps is %g, expected a whole number", steps);
  neap__arg_options(L, 4, function, powers ? "dtype|base" : "dtype");
  double base = 10;
  if (powers && lua_istable(L, 4) && lua_getfield(L, 4, "base") != LUA_TNIL)
    base = neap__arg_number(L, lua_gettop(L), function, "base", 0, 1e300);
  neap_desc d = {neap__option_dtype(L, 4, function, NEAP_F32), {.ndim = 1, .dim = {(int64_t)steps}}};
  neap_lua_tensor *t = neap__push_made(L, s, &d, function);
  neap_stage w;
  neap__stage_begin(&w, s->ctx, neap__tensor_data(&t->t), 0);
  const int64_t n = d.shape.dim[0];
  const double step = n > 1 ? (stop - start) / (double)(n - 1) : 0;
  for (int64_t i = 0; i < n; i++) {
    char element[8];
    const double x = i < n / 2 || n == 1 ? start + (double)i * step : stop - (double)(n - 1 - i) * step;
    neap_status st = neap__encode_double(powers ? pow(base, x) : x, d.dtype, element, &err);
    if (st != NEAP_OK) neap__lua_fail(L, st, function, "%s", err.message);
    neap__ok(L, neap__stage_put(&w, element, neap__dtype_size(d.dtype), &err), &err);
  }
  neap__ok(L, neap__stage_flush(&w, &err), &err);
  return 1;
}

static int linspace(lua_State *L) { return spaced(L, "linspace", false); }
static int logspace(lua_State *L) { return spaced(L, "logspace", true); }

/* arange(stop), arange(start, stop[, step]): start, start + step, ... before stop, as Lua's values are 0-based
 * data: arange(3) is 0, 1, 2. All integers give int64, else fp32. */
static int arange(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  int top = lua_gettop(L), options = top > 0 && lua_istable(L, top) ? top : 0, n = options ? top - 1 : top;
  if (n < 1 || n > 3)
    neap__lua_fail(L, NEAP_INVALID, "arange", "takes (stop) or (start, stop[, step]), got %d numbers", n);
  double v[3] = {0, 0, 1};
  bool integers = true;
  static const char *const names[] = {"start", "stop", "step"};
  for (int i = 0; i < n; i++) {
    int to = n == 1 ? 1 : i;
    v[to] = neap__arg_number(L, i + 1, "arange", names[to], -0x1p53, 0x1p53);
    integers = integers && lua_isinteger(L, i + 1);
  }
  if (v[2] == 0) neap__lua_fail(L, NEAP_RANGE, "arange", "step is 0");
  neap__arg_options(L, options, "arange", "dtype");
  double count = ceil((v[1] - v[0]) / v[2]);
  if (count > 0x1p53) neap__lua_fail(L, NEAP_RANGE, "arange", "%.14g elements are too many", count);
  neap_desc d = {neap__option_dtype(L, options, "arange", integers ? NEAP_I64 : NEAP_F32),
                 {.ndim = 1, .dim = {count > 0 ? (int64_t)count : 0}}};
  neap_lua_tensor *t = neap__push_made(L, s, &d, "arange");
  neap_stage w;
  neap__stage_begin(&w, s->ctx, neap__tensor_data(&t->t), 0);
  for (int64_t i = 0; i < d.shape.dim[0]; i++) {
    char element[8];
    neap_status st = neap__encode_double(v[0] + (double)i * v[2], d.dtype, element, &err);
    if (st != NEAP_OK) neap__lua_fail(L, st, "arange", "%s", err.message);
    neap__ok(L, neap__stage_put(&w, element, neap__dtype_size(d.dtype), &err), &err);
  }
  neap__ok(L, neap__stage_flush(&w, &err), &err);
  return 1;
}

/* --- bytes ------------------------------------------------------------------------------------------- */

static void check_bytes(lua_State *L, const char *bytes, size_t size, const neap_desc *d) {
  char shape[96];
  if (size != neap__desc_bytes(d))
    neap__lua_fail(L, NEAP_SHAPE, "from_bytes", "%zu bytes given, %s %s takes %zu", size, neap__dtype_name(d->dtype),
                   neap__shape_text(&d->shape, shape, sizeof shape), neap__desc_bytes(d));
  for (size_t i = 0; d->dtype == NEAP_BOOL && i < size; i++)
    if ((unsigned char)bytes[i] > 1)
      neap__lua_fail(L, NEAP_RANGE, "from_bytes", "byte %zu is %u, a bool is 0 or 1", i + 1, (unsigned char)bytes[i]);
}

/* from_bytes(string, {dtype=, shape=}): the memory of a dense tensor in the machine's byte order. */
static int from_bytes(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  size_t size;
  neap_error err;
  const char *bytes = neap__arg_string(L, 1, "from_bytes", "argument 1", &size);
  neap__arg_options(L, 2, "from_bytes", "dtype|shape");
  neap_desc d = {.dtype = neap__option_dtype(L, 2, "from_bytes", NEAP_F32)};
  lua_settop(L, 2);
  d.shape = (neap_shape){.ndim = 1, .dim = {(int64_t)(size / neap__dtype_size(d.dtype))}};
  if (lua_istable(L, 2) && lua_getfield(L, 2, "shape") != LUA_TNIL) {
    neap__arg_table(L, 3, "from_bytes", "the shape");
    d.shape.ndim = neap__arg_list(L, 3, "from_bytes", "the shape", d.shape.dim, NEAP_MAX_DIMS);
  }
  neap__ok(L, neap__desc_check(&d, &err), &err);
  check_bytes(L, bytes, size, &d);
  neap_lua_tensor *t = neap__push_made(L, s, &d, "from_bytes");
  neap__ok(L, neap__copy(s->ctx, neap__tensor_data(&t->t), bytes, size, NEAP_COPY_IN, &err), &err);
  return 1;
}

void neap__open_make(lua_State *L) {
  static const luaL_Reg functions[] = {{"tensor", make_tensor}, {"zeros", zeros},           {"ones", ones},
                                       {"full", full},          {"zeros_like", zeros_like}, {"ones_like", ones_like},
                                       {"arange", arange},      {"full_like", full_like},   {"linspace", linspace},
                                       {"logspace", logspace},  {"from_bytes", from_bytes}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
