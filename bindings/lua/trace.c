/* Tracing: a Lua function is called once with symbols, and what it does becomes a graph. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "op/build.h"

/* Puts back what was traced before, however the call ends. Closed by Lua, so that an error passes with its
 * traceback whole. */
typedef struct guard {
  neap_handle base;
  neap_lua_graph *before;
} guard;

static void leave(neap_handle *h) { h->lua->trace = ((guard *)h)->before; }

static const neap_class guard_class = {"neap.trace", leave};

/* Pushes the guard; from here to its end `graph` is traced (NULL: nothing is). */
static void enter(lua_State *L, neap_lua *s, neap_lua_graph *graph) {
  neap_lua_graph *before = s->trace;
  guard *g = neap__handle_new(L, s, &guard_class, sizeof *g, 0);
  g->before = before;
  lua_toclose(L, -1);
  s->trace = graph;
}

void neap__trace_here(lua_State *L, neap_lua *s) {
  char where[200];
  neap__graph_where(s->trace->g, s->path, neap__lua_where(L, where, sizeof where));
}

void neap__trace_ok(lua_State *L, neap_lua *s) {
  neap_graph *g = s->trace->g;
  if (g->error.status == NEAP_OK) return;
  neap_error err = g->error;
  neap__error_clear(&g->error);
  neap__raise(L, &err);
}

neap_id neap__trace_value(lua_State *L, neap_lua *s, int index, neap_dtype dtype, const char *function) {
  neap_graph *g = s->trace->g;
  neap_lua_tensor *t = neap__tensor_test(L, index);
  char text[80];
  neap_id v;
  if (t) {
    neap__tensor_usable(L, t, function);
    v = t->trace ? t->id : neap__graph_read(g, &t->t);
  } else if (lua_type(L, index) == LUA_TNUMBER) {
    v = neap__graph_const(g, dtype, lua_tonumber(L, index));
  } else {
    neap__lua_fail(L, NEAP_INVALID, function, "got %s, expected a tensor or a number",
                   neap__describe(L, index, text, sizeof text));
  }
  neap__trace_ok(L, s);
  return v;
}

/* A symbol for the argument at index: of its shape and dtype, or a 0-d fp32 one for a number. */
static void push_input(lua_State *L, neap_lua *s, int index) {
  neap_desc d = neap__input_desc(L, index, "trace", index - 1);
  neap_id v = neap__graph_input(s->trace->g, &d);
  neap__trace_ok(L, s);
  neap__push_symbol(L, s, v);
}

static void take_outputs(lua_State *L, neap_lua *s, int first, int last) {
  char text[80];
  if (last < first) neap__lua_fail(L, NEAP_INVALID, "trace", "the traced function returned nothing, expected tensors");
  for (int i = first; i <= last; i++) {
    if (lua_type(L, i) != LUA_TNUMBER && !neap__tensor_test(L, i))
      neap__lua_fail(L, NEAP_INVALID, "trace", "result %d of the traced function is %s, expected a tensor or a number",
                     i - first + 1, neap__describe(L, i, text, sizeof text));
    neap__graph_output(s->trace->g, neap__trace_value(L, s, i, NEAP_F32, "trace"));
    neap__trace_ok(L, s);
  }
}

/* trace(fn, inputs...) -> graph, number of outputs */
static int trace(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  int top = lua_gettop(L);
  char text[80];
  if (s->trace) neap__lua_fail(L, NEAP_INVALID, "trace", "a function is being traced already: traces do not nest");
  if (lua_isnoneornil(L, 1) || neap__tensor_test(L, 1))
    neap__lua_fail(L, NEAP_INVALID, "trace", "argument 1 is %s, expected a function",
                   neap__describe(L, 1, text, sizeof text));
  neap__lua_ready(L, s);
  neap_lua_graph *graph = neap__handle_new(L, s, &neap__graph_class, sizeof *graph, 0);
  graph->g = neap__graph_create(&s->ctx->host);
  if (!graph->g) neap__lua_fail(L, NEAP_NOMEM, "trace", "the host allocator refused memory for a graph");
  graph->serial = ++s->traces;
  lua_pushliteral(L, "");
  neap__lua_set_path(L, s, -1);
  lua_pop(L, 1);
  enter(L, s, graph);
  int base = lua_gettop(L);
  luaL_checkstack(L, top + 8, "inputs of a traced function");
  lua_pushvalue(L, 1);
  for (int i = 2; i <= top; i++) push_input(L, s, i);
  lua_call(L, top - 1, LUA_MULTRET);
  take_outputs(L, s, base + 1, lua_gettop(L));
  lua_pushvalue(L, top + 1);
  lua_pushinteger(L, graph->g->n_outputs);
  return 2;
}

/* untraced(fn, ...) -> what fn returns: runs it at once in the middle of a trace. */
static int untraced(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  int top = lua_gettop(L);
  char text[80];
  if (!lua_isfunction(L, 1))
    neap__lua_fail(L, NEAP_INVALID, "untraced", "argument 1 is %s, expected a function",
                   neap__describe(L, 1, text, sizeof text));
  enter(L, s, NULL);
  luaL_checkstack(L, top, "arguments of a function");
  for (int i = 1; i <= top; i++) lua_pushvalue(L, i);
  lua_call(L, top - 1, LUA_MULTRET);
  return lua_gettop(L) - top - 1;
}

static int tracing(lua_State *L) {
  lua_pushboolean(L, neap__lua_get(L)->trace != NULL);
  return 1;
}

/* in_coroutine() -> whether an error that nothing catches here ends a coroutine, which closes nothing then */
static int in_coroutine(lua_State *L) {
  lua_pushboolean(L, !lua_pushthread(L));
  return 1;
}

/* at(path) -> path before: the module that nodes traced from now on belong to */
static int at(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap__arg_string(L, 1, "at", "the path", NULL);
  lua_pushstring(L, s->path);
  neap__lua_set_path(L, s, 1);
  return 1;
}

/* --- writes ------------------------------------------------------------------------------------------ */

/* The value as the target holds it: of its dtype and shape, as copy_ does it outside. */
static neap_id fitted(lua_State *L, neap_graph *g, neap_id value, const neap_tensor *target) {
  const neap_shape from = neap__desc_of(g, value)->shape;
  neap_shape shape = target->shape;
  char a[96], b[96];
  value = neap__cast(g, value, target->dtype);
  if (neap__shape_equal(&from, &target->shape)) return value;
  if (neap__broadcast(&from, &target->shape, &shape, NULL) || !neap__shape_equal(&shape, &target->shape))
    neap__lua_fail(L, NEAP_SHAPE, "assign", "the value has shape %s, the target %s",
                   neap__shape_text(&from, a, sizeof a), neap__shape_text(&target->shape, b, sizeof b));
  neap_opt opt[NEAP_MAX_OPTS] = {{.set = 1, .n = (uint8_t)shape.ndim}};
  memcpy(opt[0].v.list, shape.dim, sizeof opt[0].v.list);
  return neap__build(g, &neap__op_expand, &value, 1, opt);
}

static void assign_traced(lua_State *L, neap_lua *s, const neap_lua_tensor *target) {
  neap_graph *g = s->trace->g;
  if (target->trace)
    neap__lua_fail(L, NEAP_INVALID, "assign",
                   "the target is a value of the traced function, expected a tensor from outside");
  neap__trace_here(L, s);
  neap_id value = fitted(L, g, neap__trace_value(L, s, 2, target->t.dtype, "assign"), &target->t);
  neap_id place = neap__graph_capture(g, &target->t);
  neap__graph_write(g, value, place);
  neap__trace_ok(L, s);
}

/* assign(target, value): at once, or in a trace when the run has ended and, of an update, commits. */
static int assign(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  lua_settop(L, 2);
  neap_lua_tensor *target = neap__tensor_check(L, 1, "assign");
  if (s->trace) {
    assign_traced(L, s, target);
    return 0;
  }
  lua_getfield(L, 1, "copy_");
  lua_insert(L, 1);
  lua_call(L, 2, 0);
  return 0;
}

void neap__open_trace(lua_State *L) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg functions[] = {{"traced", trace}, {"untraced", untraced}, {"tracing", tracing},
                                       {"at", at},        {"assign", assign},     {"in_coroutine", in_coroutine},
                                       {NULL, NULL}};
  neap__class_new(L, &guard_class, none, none);
  luaL_setfuncs(L, functions, 0);
}
