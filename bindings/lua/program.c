/* Programs: graphs made ready to run at given shapes. */
#include "bindings/lua/lua_neap.h"

typedef struct neap_lua_program {
  neap_handle base;
  neap_program *p;
  neap_lua_inputs inputs;
  void **out;
  uint32_t n_out;
} neap_lua_program;

static void drop(neap_handle *h) {
  neap_lua_program *p = (neap_lua_program *)h;
  neap__program_destroy(p->p);
  neap__free(&h->lua->ctx->host, p->out, (p->n_out + 1u) * sizeof *p->out);
  neap__inputs_destroy(&p->inputs);
  p->p = NULL;
  p->out = NULL;
}

static const neap_class program_class = {"neap.program", drop};

static neap_lua_program *check(lua_State *L, const char *function) {
  return neap__handle_check(L, 1, &program_class, function);
}

/* --- running ----------------------------------------------------------------------------------------- */

/* Pushes new tensors for the outputs and notes where they are. */
static void push_outputs(lua_State *L, neap_lua *s, const neap_graph *g, void **out) {
  luaL_checkstack(L, (int)g->n_outputs + 4, "outputs of a program");
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    neap_desc d = *neap__desc_of(g, g->outputs[i]);
    neap_lua_tensor *t = neap__push_made(L, s, &d, "program");
    out[i] = neap__tensor_data(&t->t);
  }
}

static void check_untraced(lua_State *L, const neap_lua *s, const char *function) {
  if (s->trace)
    neap__lua_fail(L, NEAP_INVALID, function,
                   "a program cannot run inside a traced function: call the function itself");
  neap__lua_ready(L, s);
}

/* What a program writes to must not be in the hands of an unfinished update. */
static void check_writes(lua_State *L, const neap_lua *s, const neap_graph *g, const char *function) {
  for (uint32_t i = 0; i < g->n_writes; i++)
    neap__updates_guard(L, s, &g->captures[g->values[g->writes[i].target].index], function);
}

/* program(inputs...) -> outputs... Inputs are bound once to check them before anything is taken, and again at the
 * end, when no finalizer can come between. */
static int call(lua_State *L) {
  neap_lua_program *p = check(L, "program");
  neap_lua *s = p->base.lua;
  neap_error err;
  int top = lua_gettop(L);
  check_untraced(L, s, "program");
  check_writes(L, s, neap__program_graph(p->p), "program");
  neap__inputs_bind(L, &p->inputs, 2, "program");
  push_outputs(L, s, neap__program_graph(p->p), p->out);
  int outputs = lua_gettop(L) - top;
  lua_rotate(L, 2, outputs);
  for (int i = 0; i < outputs; i++) p->out[i] = neap__tensor_data(&neap__tensor_test(L, 2 + i)->t);
  neap__inputs_bind(L, &p->inputs, 2 + outputs, "program");
  neap__ok(L, NEAP_CALL(s, L, neap__program_run(p->p, p->inputs.data, p->out, &err)), &err);
  lua_settop(L, 1 + outputs);
  return outputs;
}

/* run(graph, inputs...) -> outputs..., through the cache of programs. */
static int run(lua_State *L) {
  neap_lua_graph *g = neap__graph_check(L, 1, "run");
  neap_lua *s = g->base.lua;
  neap_error err;
  neap_program *p;
  int top = lua_gettop(L);
  check_untraced(L, s, "run");
  check_writes(L, s, g->g, "run");
  if (!g->inputs.ctx) neap__ok(L, NEAP_CALL(s, L, neap__inputs_create(s->ctx, g->g, &g->inputs, &err)), &err);
  neap__inputs_bind(L, &g->inputs, 2, "run");
  void **out = lua_newuserdatauv(L, (g->g->n_outputs + 1u) * sizeof *out, 0);
  push_outputs(L, s, g->g, out);
  int outputs = lua_gettop(L) - top - 1;
  lua_rotate(L, 2, outputs + 1);
  neap__inputs_bind(L, &g->inputs, 3 + outputs, "run");
  g->sealed = true;
  neap__ok(L, NEAP_CALL(s, L, neap__program_cached(s->ctx, g->g, &p, &err)), &err);
  neap__ok(L, NEAP_CALL(s, L, neap__program_run(p, g->inputs.data, out, &err)), &err);
  lua_settop(L, 2 + outputs);
  return outputs;
}

/* --- making ------------------------------------------------------------------------------------------ */

static neap_status create(neap_lua_program *p, neap_context *ctx, const neap_program_spec *spec, neap_error *err) {
  neap_status s = neap__inputs_create(ctx, spec->graph, &p->inputs, err);
  if (s != NEAP_OK) return s;
  p->n_out = spec->graph->n_outputs;
  p->out = neap__calloc(&ctx->host, p->n_out + 1u, sizeof *p->out);
  if (!p->out) return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for a program");
  return neap__program_create(ctx, spec, &p->p, err);
}

/* program(graph[, {batch_dims =}]) */
static int make_program(lua_State *L) {
  neap_lua_graph *g = neap__graph_check(L, 1, "program");
  neap_lua *s = g->base.lua;
  neap_error err;
  neap__arg_options(L, 2, "program", "batch_dims");
  lua_settop(L, 2);
  if (lua_istable(L, 2))
    lua_getfield(L, 2, "batch_dims");
  else
    lua_pushnil(L);
  int32_t *dims = lua_newuserdatauv(L, (g->g->n_inputs + 1u) * sizeof *dims, 0);
  neap_program_spec spec = {.graph = g->g, .batch = neap__arg_batch(L, 3, "program", g->g, dims)};
  if (spec.batch > 0) spec.input_batch = dims;
  neap_lua_program *p = neap__handle_new(L, s, &program_class, sizeof *p, 0);
  g->sealed = true;
  neap__ok(L, NEAP_CALL(s, L, create(p, s->ctx, &spec, &err)), &err);
  return 1;
}

/* --- telling ----------------------------------------------------------------------------------------- */

static int matches(lua_State *L) {
  neap_lua_program *p = check(L, "matches");
  lua_pushboolean(L, neap__inputs_match(L, &p->inputs, 2));
  return 1;
}

static void set_bytes(lua_State *L, const char *name, uint64_t bytes) {
  lua_pushinteger(L, (lua_Integer)bytes);
  lua_setfield(L, -2, name);
}

static int memory(lua_State *L) {
  neap_program_memory m;
  neap__program_memory(check(L, "memory")->p, &m);
  lua_createtable(L, 0, 6);
  set_bytes(L, "parameters", m.parameters);
  set_bytes(L, "gradients", m.gradients);
  set_bytes(L, "optimizer", 0);
  set_bytes(L, "activations", m.activations);
  set_bytes(L, "workspace", m.workspace);
  set_bytes(L, "peak", m.parameters + m.captures + m.inputs + m.outputs + m.arena);
  return 1;
}

static int seconds(lua_State *L) {
  lua_pushnumber(L, neap__program_seconds(check(L, "seconds")->p));
  return 1;
}

static void push_node(lua_State *L, const neap_graph *g, const neap_node *n) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n->n_out; i++) bytes += neap__desc_bytes(neap__desc_of(g, n->out[i]));
  lua_createtable(L, 0, 6);
  set_bytes(L, "id", n->index + 1u);
  set_bytes(L, "bytes", bytes);
  lua_pushstring(L, n->op->name);
  lua_setfield(L, -2, "op");
  lua_pushstring(L, n->path);
  lua_setfield(L, -2, "path");
  lua_pushstring(L, n->where);
  lua_setfield(L, -2, "where");
  lua_pushnumber(L, neap__node_flops(g, n));
  lua_setfield(L, -2, "cost");
}

/* nodes() -> list of {id, op, path, where, bytes of its outputs, cost in floating-point operations} */
static int nodes(lua_State *L) {
  const neap_graph *g = neap__program_graph(check(L, "nodes")->p);
  lua_createtable(L, (int)g->n_nodes, 0);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    push_node(L, g, g->nodes[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int program_tostring(lua_State *L) {
  neap_lua_program *p = neap__handle_test(L, 1, &program_class);
  if (!p) return 0;
  if (!p->base.lua)
    lua_pushliteral(L, "neap.program (closed)");
  else
    lua_pushfstring(L, "neap.program of %d inputs, %d outputs", (int)p->inputs.n, (int)p->n_out);
  return 1;
}

void neap__open_program(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"matches", matches}, {"memory", memory}, {"seconds", seconds}, {"nodes", nodes}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__call", call}, {"__tostring", program_tostring}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"program", make_program}, {"run", run}, {NULL, NULL}};
  neap__class_new(L, &program_class, methods, meta);
  luaL_setfuncs(L, functions, 0);
}
