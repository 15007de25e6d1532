/* Gradients: of a traced function, appended to its graph when it has ended, and of a function that is called in
 * the middle of a trace. */
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "op/build.h"

static void check_loss(lua_State *L, const neap_graph *g, neap_id loss) {
  const neap_desc *d = neap__desc_of(g, loss);
  char shape[96];
  if (d->shape.ndim != 0)
    neap__lua_fail(L, NEAP_SHAPE, "differentiate",
                   "the first result has shape %s, expected a scalar: take its sum or mean",
                   neap__shape_text(&d->shape, shape, sizeof shape));
  if (!neap__dtype_is_float(d->dtype))
    neap__lua_fail(L, NEAP_DTYPE, "differentiate", "the first result is %s, expected floating point",
                   neap__dtype_name(d->dtype));
}

typedef struct wanted {
  neap_id in, out;
  neap_desc desc;
} wanted;

/* A tensor from outside; in is NEAP_NONE when the function did not use it. */
static wanted want_tensor(lua_State *L, const neap_graph *g, const neap_lua_tensor *t, int64_t i) {
  neap__tensor_usable(L, t, "differentiate");
  wanted w = {NEAP_NONE, NEAP_NONE, neap__tensor_desc(&t->t)};
  if (!neap__dtype_is_float(w.desc.dtype))
    neap__lua_fail(L, NEAP_DTYPE, "differentiate", "entry %lld of `tensors` is %s: only floating point has gradients",
                   (long long)i, neap__dtype_name(w.desc.dtype));
  for (uint32_t c = 0; c < g->n_captures && w.in == NEAP_NONE; c++)
    if (g->captures[c].storage == t->t.storage && g->captures[c].offset == t->t.offset &&
        neap__shape_equal(&g->captures[c].shape, &t->t.shape))
      w.in = g->capture_ids[c];
  return w;
}

static neap_id zeros(neap_graph *g, const neap_desc *d) {
  neap_opt opt[NEAP_MAX_OPTS] = {{.set = 1, .n = (uint8_t)d->shape.ndim}, NEAP_FLOAT(0), NEAP_INT(d->dtype)};
  memcpy(opt[0].v.list, d->shape.dim, sizeof opt[0].v.list);
  const neap_id none = NEAP_NONE; /* the builder looks at a first input even when there is none */
  return neap__build(g, &neap__op_full, &none, 0, opt);
}

/* Fills in out. Only what the function used is differentiated; the others are zeros. Errors are in g->error. */
static void gradients(neap_graph *g, uint32_t first, neap_id loss, wanted *w, uint32_t n) {
  neap_id *in = neap__zone_alloc(&g->zone, (n + 1) * sizeof *in),
          *out = neap__zone_alloc(&g->zone, (n + 1) * sizeof *out);
  uint32_t used = 0;
  if (!in || !out) {
    neap__graph_fail(g, NULL, NEAP_NOMEM, "the host allocator refused memory for %u gradients", n);
    return;
  }
  for (uint32_t i = 0; i < n; i++)
    if (w[i].in != NEAP_NONE) in[used++] = w[i].in;
  if (used) neap__gradient_since(g, first, loss, NEAP_NONE, in, used, out);
  used = 0;
  for (uint32_t i = 0; i < n; i++) {
    w[i].out = w[i].in == NEAP_NONE || g->error.status != NEAP_OK ? NEAP_NONE : out[used++];
    if (w[i].out == NEAP_NONE) w[i].out = zeros(g, &w[i].desc);
  }
}

/* --- of a graph that is done ------------------------------------------------------------------------- */

/* The number of entries of field `name` of the table at 2, which it pushes (nil: none). */
static int64_t push_field(lua_State *L, const char *name) {
  lua_getfield(L, 2, name);
  if (lua_isnil(L, -1)) return 0;
  neap__arg_table(L, lua_gettop(L), "differentiate", name);
  return (int64_t)lua_rawlen(L, -1);
}

static wanted want_input(lua_State *L, const neap_graph *g, int list, int64_t i) {
  lua_rawgeti(L, list, i);
  int64_t which = neap__arg_integer(L, lua_gettop(L), "differentiate", "an entry of `inputs`", 1, g->n_inputs);
  lua_pop(L, 1);
  wanted w = {g->inputs[which - 1], NEAP_NONE, *neap__desc_of(g, g->inputs[which - 1])};
  if (!neap__dtype_is_float(w.desc.dtype))
    neap__lua_fail(L, NEAP_DTYPE, "differentiate", "input %lld is %s: only floating point has gradients",
                   (long long)which, neap__dtype_name(w.desc.dtype));
  return w;
}

static wanted want_entry(lua_State *L, const neap_graph *g, int list, int64_t i) {
  lua_rawgeti(L, list, i);
  const neap_lua_tensor *t = neap__tensor_test(L, -1);
  char text[80];
  if (!t || t->trace)
    neap__lua_fail(L, NEAP_INVALID, "differentiate", "entry %lld of `tensors` is %s, expected a tensor from outside",
                   (long long)i, t ? "traced" : neap__describe(L, -1, text, sizeof text));
  wanted w = want_tensor(L, g, t, i);
  lua_pop(L, 1);
  return w;
}

int neap__graph_differentiate(lua_State *L) {
  neap_lua_graph *lg = neap__graph_check(L, 1, "differentiate");
  neap_graph *g = lg->g;
  neap__arg_table(L, 2, "differentiate", "argument 2");
  neap__arg_options(L, 2, "differentiate", "inputs|tensors");
  lua_settop(L, 2);
  if (lg->sealed) neap__lua_fail(L, NEAP_INVALID, "differentiate", "the graph is in use by a program already");
  check_loss(L, g, g->outputs[0]);
  int64_t inputs = push_field(L, "inputs"), tensors = push_field(L, "tensors");
  wanted *w = lua_newuserdatauv(L, (size_t)(inputs + tensors + 1) * sizeof *w, 0);
  for (int64_t i = 0; i < inputs; i++) w[i] = want_input(L, g, 3, i + 1);
  for (int64_t i = 0; i < tensors; i++) w[inputs + i] = want_entry(L, g, 4, i + 1);
  gradients(g, 0, g->outputs[0], w, (uint32_t)(inputs + tensors));
  for (int64_t i = 0; i < inputs + tensors; i++) neap__graph_output(g, w[i].out);
  if (g->error.status != NEAP_OK) neap__raise(L, &g->error);
  lua_settop(L, 1);
  return 1;
}

/* --- in the middle of a trace ------------------------------------------------------------------------ */

static neap_graph *traced(lua_State *L, const neap_lua *s, const char *function) {
  if (!s->trace) neap__lua_fail(L, NEAP_INVALID, function, "nothing is being traced");
  return s->trace->g;
}

/* The input at index as the inner function sees it: a value of its own, so that what the script computed of the
 * same tensor before, or refers to it besides, is no part of the derivative. */
static neap_id variable(lua_State *L, neap_lua *s, int index) {
  neap_graph *g = s->trace->g;
  char text[80];
  if (lua_type(L, index) != LUA_TNUMBER && !neap__tensor_test(L, index))
    neap__lua_fail(L, NEAP_INVALID, "value_and_grad", "input %d is %s, expected a tensor or a number", index,
                   neap__describe(L, index, text, sizeof text));
  neap_id v = neap__trace_value(L, s, index, NEAP_F32, "value_and_grad");
  if (neap__dtype_is_float(neap__desc_of(g, v)->dtype)) v = neap__build1(g, &neap__op_variable, v);
  neap__trace_ok(L, s);
  return v;
}

/* variables(inputs...) -> mark, values...: what a function inside the trace is called with, and where it begins */
static int variables(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_graph *g = traced(L, s, "variables");
  const int n = lua_gettop(L);
  luaL_checkstack(L, n + 4, "inputs of a function");
  neap__trace_here(L, s);
  lua_pushnil(L); /* for the mark, which comes after the variables */
  for (int i = 1; i <= n; i++) neap__push_symbol(L, s, variable(L, s, i));
  lua_pushinteger(L, g->n_nodes);
  lua_replace(L, n + 1);
  return n + 1;
}

/* The value at index as a result of the inner function. */
static neap_id result(lua_State *L, neap_lua *s, int index, int i) {
  char text[80];
  if (lua_type(L, index) != LUA_TNUMBER && !neap__tensor_test(L, index))
    neap__lua_fail(L, NEAP_INVALID, "value_and_grad", "result %d of the function is %s, expected a tensor or a number",
                   i, neap__describe(L, index, text, sizeof text));
  return neap__trace_value(L, s, index, NEAP_F32, "value_and_grad");
}

/* Entry i of the list at index 2: one of the variables, or a tensor from outside. */
static wanted want_either(lua_State *L, neap_lua *s, int64_t i) {
  neap_graph *g = s->trace->g;
  lua_rawgeti(L, 2, i);
  const neap_lua_tensor *t = neap__tensor_check(L, lua_gettop(L), "differentiate");
  wanted w;
  if (t->trace) {
    neap__tensor_usable(L, t, "differentiate");
    w = (wanted){t->id, NEAP_NONE, *neap__desc_of(g, t->id)};
  } else {
    w = want_tensor(L, g, t, i);
  }
  lua_pop(L, 1);
  return w;
}

/* derivatives(mark, wanted, value, others...) -> list of gradients of the value, value, others... */
static int derivatives(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_graph *g = traced(L, s, "derivatives");
  const int n = lua_gettop(L);
  const uint32_t first = (uint32_t)neap__arg_integer(L, 1, "derivatives", "the mark", 0, g->n_nodes);
  neap__arg_table(L, 2, "derivatives", "the list of what is wanted");
  if (n < 3) neap__lua_fail(L, NEAP_INVALID, "value_and_grad", "the function returned nothing, expected tensors");
  neap__trace_here(L, s);
  luaL_checkstack(L, n + 6, "results of a function");
  for (int i = 3; i <= n; i++) {
    neap__push_symbol(L, s, result(L, s, i, i - 2));
    lua_replace(L, i);
  }
  const neap_id loss = neap__tensor_test(L, 3)->id;
  check_loss(L, g, loss);
  const int64_t many = (int64_t)lua_rawlen(L, 2);
  wanted *w = lua_newuserdatauv(L, (size_t)(many + 1) * sizeof *w, 0);
  for (int64_t i = 0; i < many; i++) w[i] = want_either(L, s, i + 1);
  gradients(g, first, loss, w, (uint32_t)many);
  neap__trace_ok(L, s);
  lua_createtable(L, (int)many, 0);
  for (int64_t i = 0; i < many; i++) {
    neap__push_symbol(L, s, w[i].out);
    lua_rawseti(L, -2, i + 1);
  }
  lua_replace(L, 2);
  lua_settop(L, n);
  return n - 1;
}

void neap__open_gradient(lua_State *L) {
  static const luaL_Reg functions[] = {{"variables", variables}, {"derivatives", derivatives}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
