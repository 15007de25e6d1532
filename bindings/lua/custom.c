/* Ops of the script's own (scripts/neap/custom.lua): the node, and the nodes that its gradient is copied from; see
 * engine/op/custom.c. */
#include "bindings/lua/lua_neap.h"
#include "op/build.h"

enum { GRADS, FIRST, END, SLOPE };

static neap_graph *traced(lua_State *L, neap_lua *s, const char *function) {
  if (!s->trace) neap__lua_fail(L, NEAP_INVALID, function, "nothing is being traced");
  return s->trace->g;
}

/* custom_begin(y, inputs...) -> y as the op's value, and a stand-in for its gradient. Nodes from here to
 * custom_end compute gradients. */
static int custom_begin(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_graph *g = traced(L, s, "custom");
  const int n = lua_gettop(L);
  neap_id in[1 + NEAP_MAX_DIMS];
  if (n > 1 + NEAP_MAX_DIMS)
    neap__lua_fail(L, NEAP_INVALID, "custom", "got %d inputs, expected at most %d", n - 1, NEAP_MAX_DIMS);
  neap__trace_here(L, s);
  for (int i = 0; i < n; i++) in[i] = neap__trace_value(L, s, i + 1, NEAP_F32, "custom");
  const neap_id y = neap__build(g, &neap__op_custom, in, (uint32_t)n, NULL);
  const neap_id slope = y == NEAP_NONE ? y : neap__build1(g, &neap__op_stop, y);
  neap__trace_ok(L, s);
  neap__push_symbol(L, s, y);
  neap__push_symbol(L, s, slope);
  return 2;
}

/* The value at index as the gradient of input i (from 1), or -1 for none. */
static int64_t gradient_id(lua_State *L, neap_lua *s, int index, const neap_node *n, int i) {
  neap_graph *g = s->trace->g;
  char got[96], want[96];
  if (lua_isnil(L, index) || (lua_isboolean(L, index) && !lua_toboolean(L, index))) return -1;
  if (!neap__tensor_test(L, index))
    neap__lua_fail(L, NEAP_INVALID, "custom", "backward gave %s as the gradient of input %d, expected a tensor or nil",
                   neap__describe(L, index, got, sizeof got), i);
  const neap_id v = neap__trace_value(L, s, index, NEAP_F32, "custom");
  const neap_desc *a = neap__desc_of(g, v), *b = neap__desc_of(g, n->in[i]);
  if (a->dtype != b->dtype || !neap__shape_equal(&a->shape, &b->shape))
    neap__lua_fail(L, NEAP_SHAPE, "custom", "backward gave %s %s as the gradient of input %d, expected %s %s",
                   neap__dtype_name(a->dtype), neap__shape_text(&a->shape, got, sizeof got), i,
                   neap__dtype_name(b->dtype), neap__shape_text(&b->shape, want, sizeof want));
  return v;
}

/* What backward computes here is of the stand-in, and what gradients copy of it writes nothing. */
static void check_writes(lua_State *L, const neap_graph *g, const neap_node *n) {
  for (uint32_t i = 0; i < g->n_writes; i++) {
    const neap_value *v = &g->values[g->writes[i].value];
    if (v->kind == NEAP_VALUE_NODE && v->node > n->index)
      neap__lua_fail(L, NEAP_INVALID, "custom", "backward writes to a tensor (at %s): write in forward, or outside",
                     g->writes[i].where[0] ? g->writes[i].where : "an unknown line");
  }
}

/* custom_end(y, slope, gradients...): what begin gave, and the gradient of each input (nil: none). */
static int custom_end(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_graph *g = traced(L, s, "custom");
  const neap_id y = neap__trace_value(L, s, 1, NEAP_F32, "custom"),
                slope = neap__trace_value(L, s, 2, NEAP_F32, "custom");
  const neap_node *op = g->values[y].kind == NEAP_VALUE_NODE ? g->nodes[g->values[y].node] : NULL;
  if (!op || op->op != &neap__op_custom || slope != y + 1)
    neap__lua_fail(L, NEAP_INTERNAL, "custom", "end without a begin");
  if (lua_gettop(L) - 2 != op->n_in - 1)
    neap__lua_fail(L, NEAP_INVALID, "custom", "backward gave %d gradients for %d inputs", lua_gettop(L) - 2,
                   op->n_in - 1);
  neap_node *n = g->nodes[op->index];
  check_writes(L, g, n);
  neap_opt grads = {.set = 1, .n = (uint8_t)(n->n_in - 1)};
  for (int i = 1; i < n->n_in; i++) grads.v.list[i - 1] = gradient_id(L, s, 2 + i, n, i);
  n->opt[GRADS] = grads;
  n->opt[FIRST] = NEAP_INT(n->index + 2); /* after the op and the stand-in */
  n->opt[END] = NEAP_INT(g->n_nodes);
  n->opt[SLOPE] = NEAP_INT(slope);
  return 0;
}

void neap__open_custom(lua_State *L) {
  static const luaL_Reg functions[] = {{"custom_begin", custom_begin}, {"custom_end", custom_end}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
