/* The graph of a traced function. */
#include "bindings/lua/lua_neap.h"

static void drop(neap_handle *h) {
  neap_lua_graph *g = (neap_lua_graph *)h;
  neap__inputs_destroy(&g->inputs);
  neap__graph_drop(g->g);
  g->g = NULL;
}

const neap_class neap__graph_class = {"neap.graph", drop};

neap_lua_graph *neap__graph_check(lua_State *L, int index, const char *function) {
  neap_lua_graph *g = neap__handle_check(L, index, &neap__graph_class, function);
  if (g->base.lua->trace == g) neap__lua_fail(L, NEAP_INVALID, function, "the graph is still being traced");
  return g;
}

void neap__graph_pure(lua_State *L, const neap_lua_graph *lg, const char *who) {
  const neap_graph *g = lg->g;
  char shape[96];
  if (g->n_writes == 0) return;
  const neap_write *w = &g->writes[0];
  const neap_desc *d = neap__desc_of(g, w->target);
  neap__lua_fail(
      L, NEAP_INVALID, who,
      "the function writes to a tensor (%s %s, at %s), but what runs here must leave all tensors as they are",
      neap__dtype_name(d->dtype), neap__shape_text(&d->shape, shape, sizeof shape),
      w->where[0] ? w->where : "an unknown line");
}

/* graph:pure(who): raises when it writes to tensors. */
static int pure(lua_State *L) {
  neap__graph_pure(L, neap__graph_check(L, 1, "pure"), neap__arg_string(L, 2, "pure", "who asks", NULL));
  return 0;
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
  static const luaL_Reg methods[] = {
      {"differentiate", neap__graph_differentiate}, {"captures", captures}, {"pure", pure}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__tostring", graph_tostring}, {NULL, NULL}};
  neap__class_new(L, &neap__graph_class, methods, meta);
}
