/* The graph of a traced function. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

static void drop(neap_handle *h) {
  neap_lua_graph *g = (neap_lua_graph *)h;
  neap__inputs_destroy(&g->inputs);
  neap__free(&h->lua->ctx->host, g->writes, g->cap_writes * sizeof *g->writes);
  neap__graph_drop(g->g);
  g->g = NULL;
  g->writes = NULL;
}

const neap_class neap__graph_class = {"neap.graph", drop};

neap_lua_graph *neap__graph_check(lua_State *L, int index, const char *function) {
  neap_lua_graph *g = neap__handle_check(L, index, &neap__graph_class, function);
  if (g->base.lua->trace == g) neap__lua_fail(L, NEAP_INVALID, function, "the graph is still being traced");
  return g;
}

void neap__graph_pure(lua_State *L, const neap_lua_graph *g, const char *function) {
  if (g->n_writes)
    neap__lua_fail(L, NEAP_INVALID, function,
                   "the function writes to a tensor (at %s), which only an update may do, when it commits",
                   g->first_write[0] ? g->first_write : "an unknown line");
}

/* --- gradients --------------------------------------------------------------------------------------- */

static const neap_desc *check_loss(lua_State *L, const neap_graph *g) {
  const neap_desc *d = neap__desc_of(g, g->outputs[0]);
  char shape[96];
  if (d->shape.ndim != 0)
    neap__lua_fail(L, NEAP_SHAPE, "differentiate",
                   "the first result has shape %s, expected a scalar: take its sum or mean",
                   neap__shape_text(&d->shape, shape, sizeof shape));
  if (!neap__dtype_is_float(d->dtype))
    neap__lua_fail(L, NEAP_DTYPE, "differentiate", "the first result is %s, expected floating point",
                   neap__dtype_name(d->dtype));
  return d;
}

/* The number of entries of field `name` of the table at 2, which it pushes (nil: none). */
static int64_t push_field(lua_State *L, const char *name) {
  lua_getfield(L, 2, name);
  if (lua_isnil(L, -1)) return 0;
  neap__arg_table(L, lua_gettop(L), "differentiate", name);
  return (int64_t)lua_rawlen(L, -1);
}

static neap_id input_id(lua_State *L, const neap_graph *g, int list, int64_t i) {
  lua_rawgeti(L, list, i);
  int64_t which = neap__arg_integer(L, lua_gettop(L), "differentiate", "an entry of `inputs`", 1, g->n_inputs);
  lua_pop(L, 1);
  neap_id v = g->inputs[which - 1];
  if (!neap__dtype_is_float(neap__desc_of(g, v)->dtype))
    neap__lua_fail(L, NEAP_DTYPE, "differentiate", "input %lld is %s: only floating point has gradients",
                   (long long)which, neap__dtype_name(neap__desc_of(g, v)->dtype));
  return v;
}

/* NEAP_NONE when the function did not use the tensor. *d is its description. */
static neap_id capture_id(lua_State *L, const neap_graph *g, int list, int64_t i, neap_desc *d) {
  lua_rawgeti(L, list, i);
  neap_lua_tensor *t = neap__tensor_test(L, -1);
  char text[80];
  if (!t || t->trace)
    neap__lua_fail(L, NEAP_INVALID, "differentiate", "entry %lld of `tensors` is %s, expected a tensor from outside",
                   (long long)i, t ? "traced" : neap__describe(L, -1, text, sizeof text));
  neap__tensor_usable(L, t, "differentiate");
  lua_pop(L, 1);
  *d = neap__tensor_desc(&t->t);
  if (!neap__dtype_is_float(d->dtype))
    neap__lua_fail(L, NEAP_DTYPE, "differentiate", "entry %lld of `tensors` is %s: only floating point has gradients",
                   (long long)i, neap__dtype_name(d->dtype));
  for (uint32_t c = 0; c < g->n_captures; c++)
    if (g->captures[c].storage == t->t.storage && g->captures[c].offset == t->t.offset &&
        neap__shape_equal(&g->captures[c].shape, &t->t.shape))
      return g->capture_ids[c];
  return NEAP_NONE;
}

static neap_id zeros(neap_graph *g, const neap_desc *d) {
  neap_opt opt[NEAP_MAX_OPTS] = {{.set = 1, .n = (uint8_t)d->shape.ndim}, NEAP_FLOAT(0), NEAP_INT(d->dtype)};
  memcpy(opt[0].v.list, d->shape.dim, sizeof opt[0].v.list);
  const neap_id none = NEAP_NONE; /* the builder looks at a first input even when there is none */
  return neap__build(g, &neap__op_full, &none, 0, opt);
}

typedef struct wanted {
  neap_id in, out;
  neap_desc desc;
} wanted;

/* Only what the function used is differentiated; the others are zeros. Errors are in g->error. */
static void append_gradients(neap_graph *g, wanted *w, uint32_t n) {
  neap_id *in = neap__zone_alloc(&g->zone, (n + 1) * sizeof *in),
          *out = neap__zone_alloc(&g->zone, (n + 1) * sizeof *out);
  uint32_t used = 0;
  if (!in || !out) {
    neap__graph_fail(g, NULL, NEAP_NOMEM, "the host allocator refused memory for %u gradients", n);
    return;
  }
  for (uint32_t i = 0; i < n; i++)
    if (w[i].in != NEAP_NONE) in[used++] = w[i].in;
  if (used) neap__gradient(g, g->outputs[0], NEAP_NONE, in, used, out);
  used = 0;
  for (uint32_t i = 0; i < n; i++) {
    w[i].out = w[i].in == NEAP_NONE || g->error.status != NEAP_OK ? NEAP_NONE : out[used++];
    if (w[i].out == NEAP_NONE) w[i].out = zeros(g, &w[i].desc);
    neap__graph_output(g, w[i].out);
  }
}

/* graph:differentiate{inputs = {1, 2}, tensors = {t1, t2}} */
static int differentiate(lua_State *L) {
  neap_lua_graph *lg = neap__graph_check(L, 1, "differentiate");
  neap_graph *g = lg->g;
  neap__arg_table(L, 2, "differentiate", "argument 2");
  neap__arg_options(L, 2, "differentiate", "inputs|tensors");
  lua_settop(L, 2);
  if (lg->sealed) neap__lua_fail(L, NEAP_INVALID, "differentiate", "the graph is in use by a program already");
  check_loss(L, g);
  int64_t inputs = push_field(L, "inputs"), tensors = push_field(L, "tensors");
  wanted *w = lua_newuserdatauv(L, (size_t)(inputs + tensors + 1) * sizeof *w, 0);
  for (int64_t i = 0; i < inputs; i++) {
    w[i].in = input_id(L, g, 3, i + 1);
    w[i].desc = *neap__desc_of(g, w[i].in);
  }
  for (int64_t i = 0; i < tensors; i++) w[inputs + i].in = capture_id(L, g, 4, i + 1, &w[inputs + i].desc);
  append_gradients(g, w, (uint32_t)(inputs + tensors));
  if (g->error.status != NEAP_OK) neap__raise(L, &g->error);
  lua_settop(L, 1);
  return 1;
}

static int captures(lua_State *L) {
  neap_lua_graph *lg = neap__graph_check(L, 1, "captures");
  lua_createtable(L, (int)lg->g->n_captures, 0);
  for (uint32_t i = 0; i < lg->g->n_captures; i++) {
    neap__push_view(L, lg->base.lua, &lg->g->captures[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int graph_tostring(lua_State *L) {
  neap_lua_graph *lg = neap__handle_test(L, 1, &neap__graph_class);
  if (!lg) return 0;
  if (!lg->base.lua)
    lua_pushliteral(L, "neap.graph (closed)");
  else
    lua_pushfstring(L, "neap.graph of %d nodes, %d inputs, %d outputs", (int)lg->g->n_nodes, (int)lg->g->n_inputs,
                    (int)lg->g->n_outputs);
  return 1;
}

void neap__open_graph(lua_State *L) {
  static const luaL_Reg methods[] = {{"differentiate", differentiate}, {"captures", captures}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__tostring", graph_tostring}, {NULL, NULL}};
  neap__class_new(L, &neap__graph_class, methods, meta);
}
