/* The update userdata: plans, reserves and runs transactions of one traced loss. */
#include "train/update.h"

#include <math.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

typedef struct neap_lua_update {
  neap_handle base;
  neap_update *u;
  const neap_graph *graph;       /* u's */
  neap_lua_optimizer *optimizer; /* user value 1 keeps it */
  neap_lua_inputs inputs;
  neap_desc *aux_desc;
  void **aux;
  neap_lua_tensor **held; /* the aux outputs' tensors from reserve() to the commit, n_held of them; the list in
                             user value 2 keeps them */
  uint32_t n_aux, n_held;
  bool planned, reserved;
} neap_lua_update;

enum { KEEP_OPTIMIZER = 1, KEEP_AUX };

static void drop(neap_handle *h) {
  neap_lua_update *u = (neap_lua_update *)h;
  neap_host *host = &h->lua->ctx->host;
  neap__update_destroy(u->u);
  neap__inputs_destroy(&u->inputs);
  neap__free(host, u->aux_desc, (u->n_aux + 1u) * sizeof *u->aux_desc);
  neap__free(host, u->aux, (u->n_aux + 1u) * sizeof *u->aux);
  neap__free(host, u->held, (u->n_aux + 1u) * sizeof(neap_lua_tensor *));
  if (u->optimizer) neap__optimizer_unuse(u->optimizer);
  u->u = NULL;
  u->aux = NULL;
  u->held = NULL;
  u->n_held = 0;
  u->aux_desc = NULL;
  u->optimizer = NULL;
}

const neap_class neap__update_class = {"neap.update", drop};

static neap_lua_update *check(lua_State *L, const char *function) {
  return neap__handle_check(L, 1, &neap__update_class, function);
}

/* Gives back at once what reserve() took for the aux outputs. */
static void release_aux(neap_lua_update *u) {
  for (uint32_t i = 0; i < u->n_held; i++) neap__handle_drop(&u->held[i]->base);
  u->n_held = 0;
}

static void abandon(neap_lua_update *u) {
  neap__update_drop(u->u);
  neap__inputs_release(&u->inputs);
  release_aux(u);
}

/* At most one is unfinished: it holds the training arena. */
static neap_lua_update *find_running(const neap_lua *s) {
  for (neap_handle *h = s->list.next; h != &s->list; h = h->next) {
    neap_lua_update *u = (neap_lua_update *)h;
    if (h->kind == &neap__update_class && u->u && neap__update_running(u->u)) return u;
  }
  return NULL;
}

bool neap__updates_running(const neap_lua *s) { return find_running(s) != NULL; }

double neap__updates_next(const neap_lua *s) {
  const neap_lua_update *u = find_running(s);
  return u ? neap__update_next_seconds(u->u) : 0;
}

void neap__updates_drop(neap_lua *s) {
  for (neap_handle *h = s->list.next; h != &s->list; h = h->next) {
    neap_lua_update *u = (neap_lua_update *)h;
    if (h->kind == &neap__update_class && u->u) abandon(u);
  }
}

/* What an unfinished update takes the storage for, or NULL. */
static const char *use_of(const neap_lua_update *u, const neap_storage *st) {
  const neap_optimizer *o = u->optimizer->o;
  for (uint32_t i = 0; i < u->inputs.n; i++)
    if (u->inputs.held[i] == st) return "an input";
  for (uint32_t i = 0; i < u->graph->n_captures; i++)
    if (u->graph->captures[i].storage == st) return st->parameter ? "a parameter" : "a tensor used";
  for (uint32_t i = 0; i < o->n_moments; i++)
    if (o->moments[i] == st) return "a moment of the optimizer";
  return NULL;
}

static const neap_lua_update *unfinished(const neap_lua *s) {
  return s->ctx->train.holder ? find_running(s) : NULL; /* who runs holds the arena: the list need not be walked */
}

void neap__updates_guard(lua_State *L, const neap_lua *s, const neap_tensor *t, const char *function) {
  const neap_lua_update *u = unfinished(s);
  const char *use = u ? use_of(u, t->storage) : NULL;
  char shape[96];
  if (use)
    neap__lua_fail(L, NEAP_BUSY, function,
                   "the tensor (%s %s) is %s of an unfinished update: finish it or drop() it first",
                   neap__dtype_name(t->dtype), neap__shape_text(&t->shape, shape, sizeof shape), use);
}

void neap__updates_guard_step(lua_State *L, const neap_lua_optimizer *o, const char *function) {
  const neap_lua_update *u = unfinished(o->base.lua);
  if (!u) return;
  bool busy = u->optimizer == o;
  for (uint32_t i = 0; i < o->o->n_segments && !busy; i++) busy = use_of(u, o->o->segments[i].param) != NULL;
  if (busy)
    neap__lua_fail(L, NEAP_BUSY, function,
                   "the optimizer's parameters belong to an unfinished update: finish it or drop() it first");
}

static int writable(lua_State *L) {
  const neap_lua_tensor *t = neap__concrete_check(L, 1, "writable");
  neap__updates_guard(L, t->base.lua, &t->t, neap__arg_string(L, 2, "writable", "who asks", NULL));
  return 0;
}

/* --- making ------------------------------------------------------------------------------------------ */

static neap_status create(neap_lua_update *u, neap_context *ctx, const neap_update_spec *spec, neap_error *err) {
  const neap_graph *g = spec->graph;
  neap_status s = neap__inputs_create(ctx, g, &u->inputs, err);
  if (s != NEAP_OK) return s;
  u->n_aux = g->n_outputs - 1;
  u->aux_desc = neap__calloc(&ctx->host, u->n_aux + 1u, sizeof *u->aux_desc);
  u->aux = neap__calloc(&ctx->host, u->n_aux + 1u, sizeof *u->aux);
  u->held = neap__calloc(&ctx->host, u->n_aux + 1u, sizeof(neap_lua_tensor *));
  if (!u->aux_desc || !u->aux || !u->held)
    return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for an update");
  for (uint32_t i = 0; i < u->n_aux; i++) u->aux_desc[i] = *neap__desc_of(g, g->outputs[i + 1]);
  u->graph = g;
  return neap__update_create(ctx, spec, &u->u, err);
}

static void check_loss(lua_State *L, const neap_graph *g) {
  const neap_desc *d = neap__desc_of(g, g->outputs[0]);
  char shape[96];
  if (d->shape.ndim != 0 || !neap__dtype_is_float(d->dtype))
    neap__lua_fail(L, d->shape.ndim ? NEAP_SHAPE : NEAP_DTYPE, "update",
                   "the loss is %s %s, expected a floating-point scalar: take its mean or sum",
                   neap__dtype_name(d->dtype), neap__shape_text(&d->shape, shape, sizeof shape));
}

static void take_options(lua_State *L, const neap_lua_graph *g, neap_update_spec *spec) {
  neap__arg_options(L, 3, "update", "batch_dims|grain|clip_norm|clip_value");
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) return;
  if (lua_getfield(L, 3, "grain") != LUA_TNIL) spec->grain = neap__arg_integer(L, 4, "update", "grain", 1, INT32_MAX);
  if (lua_getfield(L, 3, "clip_norm") != LUA_TNIL) {
    spec->clip_norm = neap__arg_number(L, 5, "update", "clip_norm", 0, HUGE_VAL);
    if (spec->clip_norm == 0) neap__lua_fail(L, NEAP_RANGE, "update", "clip_norm is 0, expected a norm above 0");
  }
  if (lua_getfield(L, 3, "clip_value") != LUA_TNIL) {
    spec->clip_value = neap__arg_number(L, 6, "update", "clip_value", 0, HUGE_VAL);
    if (spec->clip_value == 0) neap__lua_fail(L, NEAP_RANGE, "update", "clip_value is 0, expected a value above 0");
  }
  lua_getfield(L, 3, "batch_dims");
  int32_t *dims = lua_newuserdatauv(L, (g->g->n_inputs + 1u) * sizeof *dims, 0);
  spec->batch = neap__arg_batch(L, 7, "update", g->g, dims);
  for (uint32_t i = 0; i < g->g->n_inputs; i++)
    if (dims[i] >= 0) spec->input_batch = dims;
}

/* update(graph, optimizer[, {batch_dims =, grain =, clip_norm =, clip_value =}]) */
static int make_update(lua_State *L) {
  neap_lua_graph *g = neap__graph_check(L, 1, "update");
  neap_lua_optimizer *o = neap__handle_check(L, 2, &neap__optimizer_class, "update");
  neap_lua *s = g->base.lua;
  neap_update_spec spec = {.graph = g->g, .optimizer = o->o};
  neap_error err;
  if (g->sealed)
    neap__lua_fail(L, NEAP_INVALID, "update", "the graph is in use already: trace the function once for each update");
  check_loss(L, g->g);
  take_options(L, g, &spec);
  neap_lua_update *u = neap__handle_new(L, s, &neap__update_class, sizeof *u, 2);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, KEEP_OPTIMIZER);
  u->optimizer = o;
  o->users++;
  g->sealed = true;
  neap__ok(L, NEAP_CALL(s, L, create(u, s->ctx, &spec, &err)), &err);
  return 1;
}

/* --- plans ------------------------------------------------------------------------------------------- */

static neap_update_plan get_plan(lua_State *L, const char *function) {
  neap_update_plan plan = {0};
  if (!lua_isnoneornil(L, 2)) plan.micro = neap__arg_integer(L, 2, function, "the micro-batch", 1, INT64_MAX);
  return plan;
}

static void set_integer(lua_State *L, const char *name, uint64_t x) {
  lua_pushinteger(L, (lua_Integer)x);
  lua_setfield(L, -2, name);
}

static void push_memory(lua_State *L, const neap_update_memory *m) {
  lua_createtable(L, 0, 8);
  set_integer(L, "parameters", m->parameters);
  set_integer(L, "gradients", m->gradients);
  set_integer(L, "optimizer", m->optimizer);
  set_integer(L, "activations", m->activations);
  set_integer(L, "workspace", m->workspace);
  set_integer(L, "outputs", m->outputs);
  set_integer(L, "arena", m->arena);
  set_integer(L, "peak", m->peak);
}

static int push_forecast(lua_State *L, const neap_update_forecast *f) {
  lua_createtable(L, 0, 5);
  push_memory(L, &f->memory);
  lua_setfield(L, -2, "memory");
  if (f->exact == NEAP_EXACT_NO)
    lua_pushboolean(L, 0);
  else
    lua_pushstring(L, f->exact == NEAP_EXACT_BITS ? "bits" : "rounding");
  lua_setfield(L, -2, "exact");
  lua_pushnumber(L, f->seconds);
  lua_setfield(L, -2, "seconds");
  set_integer(L, "micro", (uint64_t)f->micro);
  set_integer(L, "grain", (uint64_t)f->grain);
  return 1;
}

static int put_plan(lua_State *L) {
  neap_lua_update *u = check(L, "plan");
  neap_update_plan plan = get_plan(L, "plan");
  neap_error err;
  neap__ok(L, NEAP_CALL(u->base.lua, L, neap__update_plan(u->u, &plan, &err)), &err);
  u->planned = true;
  u->reserved = false;
  return 0;
}

static int predict(lua_State *L) {
  neap_lua_update *u = check(L, "predict");
  neap_update_plan plan = get_plan(L, "predict");
  neap_update_forecast f;
  neap_error err;
  neap__ok(L, NEAP_CALL(u->base.lua, L, neap__update_predict(u->u, &plan, &f, &err)), &err);
  return push_forecast(L, &f);
}

static void need_plan(lua_State *L, const neap_lua_update *u, const char *function) {
  if (!u->planned) neap__lua_fail(L, NEAP_INVALID, function, "the update has no plan yet: call plan() first");
}

static int forecast(lua_State *L) {
  neap_lua_update *u = check(L, "forecast");
  neap_update_forecast f;
  need_plan(L, u, "forecast");
  neap__update_forecast(u->u, &f);
  return push_forecast(L, &f);
}

/* The update at 1: tensors for the aux outputs of its next run, so that beginning one takes nothing. */
static neap_status hold_aux(lua_State *L, neap_lua_update *u, neap_error *err) {
  neap_lua *s = u->base.lua;
  if (u->n_held == u->n_aux) return NEAP_OK;
  luaL_checkstack(L, 4, "aux outputs");
  lua_createtable(L, (int)u->n_aux, 0);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, KEEP_AUX);
  neap_status st = NEAP_OK;
  for (uint32_t i = 0; i < u->n_aux && st == NEAP_OK; i++) {
    neap__lua_grew(L, s, neap__desc_bytes(&u->aux_desc[i]));
    neap_lua_tensor *t = neap__push_tensor(L, s);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
    st = NEAP_CALL(s, L, neap__context_tensor(s->ctx, &u->aux_desc[i], NEAP_OWNER_TENSORS, &t->t, err));
    if (st == NEAP_OK) u->held[u->n_held++] = t;
  }
  lua_pop(L, 1);
  return st;
}

static uint64_t needed(const neap_lua_update *u) {
  neap_update_forecast f;
  neap__update_forecast(u->u, &f);
  return f.memory.arena + f.memory.outputs;
}

/* Aux tensors come first: room for them may cost the idle arena, but not the other way round. What is refused
 * is the whole. */
static neap_status take(lua_State *L, neap_lua_update *u, neap_error *err) {
  neap_status st = hold_aux(L, u, err);
  if (st == NEAP_OK) st = NEAP_CALL(u->base.lua, L, neap__update_reserve(u->u, err));
  if (st == NEAP_OK) return st;
  release_aux(u);
  if (st == NEAP_OOM) err->bytes = needed(u);
  return st;
}

/* reserve() -> true, or nil and an error object when memory does not hold the plan. */
static int reserve(lua_State *L) {
  neap_lua_update *u = check(L, "reserve");
  neap_error err;
  need_plan(L, u, "reserve");
  neap__lua_ready(L, u->base.lua);
  neap_status s = neap__update_running(u->u) ? NEAP_OK : take(L, u, &err);
  if (s == NEAP_OOM) {
    lua_pushnil(L);
    neap__push_error(L, &err);
    return 2;
  }
  neap__ok(L, s, &err);
  u->reserved = true;
  lua_pushboolean(L, 1);
  return 1;
}

/* Bytes that reserve() holds for aux outputs beside the arena. */
static int held(lua_State *L) {
  const neap_lua_update *u = check(L, "held");
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < u->n_held; i++) bytes += neap__align_up(neap__desc_bytes(&u->aux_desc[i]));
  lua_pushinteger(L, (lua_Integer)bytes);
  return 1;
}

static int matches(lua_State *L) {
  neap_lua_update *u = check(L, "matches");
  lua_pushboolean(L, neap__inputs_match(L, &u->inputs, 2));
  return 1;
}

/* --- running ----------------------------------------------------------------------------------------- */

static void ready(lua_State *L, const neap_lua_update *u, const char *function) {
  if (u->base.lua->trace) neap__lua_fail(L, NEAP_INVALID, function, "an update cannot run inside a traced function");
  neap__lua_ready(L, u->base.lua);
  need_plan(L, u, function);
  if (!u->reserved) neap__lua_fail(L, NEAP_INVALID, function, "memory is not reserved: call reserve() first");
  if (neap__update_running(u->u))
    neap__lua_fail(L, NEAP_BUSY, function, "the update before is unfinished: step it to its end or drop it");
}

/* Inputs are checked before anything is taken, and bound again where making the aux tensors, which reserve()
 * did not, may have run finalizers. */
static void bind(lua_State *L, neap_lua_update *u, const char *function) {
  neap_error err;
  luaL_checkstack(L, (int)u->n_aux + 4, "aux outputs");
  neap__inputs_bind(L, &u->inputs, 2, function);
  if (u->n_held == u->n_aux) return;
  neap_status st = hold_aux(L, u, &err);
  if (st != NEAP_OK) release_aux(u);
  neap__ok(L, st, &err);
  neap__inputs_bind(L, &u->inputs, 2, function);
}

static neap_status start(lua_State *L, neap_lua_update *u, neap_error *err) {
  for (uint32_t i = 0; i < u->n_aux; i++) u->aux[i] = neap__tensor_data(&u->held[i]->t);
  return NEAP_CALL(u->base.lua, L, neap__update_begin(u->u, u->inputs.data, u->aux, err));
}

/* Pushes the loss and the aux tensors, which are the caller's from now on. There is room on the stack. */
static int push_results(lua_State *L, neap_lua_update *u) {
  lua_pushnumber(L, neap__update_loss(u->u));
  if (u->n_aux == 0) return 1;
  lua_getiuservalue(L, 1, KEEP_AUX);
  int list = lua_gettop(L);
  for (uint32_t i = 0; i < u->n_aux; i++) lua_rawgeti(L, list, (lua_Integer)i + 1);
  lua_remove(L, list);
  lua_pushnil(L);
  lua_setiuservalue(L, 1, KEEP_AUX);
  u->n_held = 0;
  return 1 + (int)u->n_aux;
}

/* u(inputs...) -> loss, aux...: a whole transaction. After reserve() it takes no memory of Lua or the engine. */
static int call(lua_State *L) {
  neap_lua_update *u = check(L, "update");
  neap_error err;
  bool committed = false;
  ready(L, u, "update");
  bind(L, u, "update");
  neap_status st = start(L, u, &err);
  if (st == NEAP_OK) st = NEAP_CALL(u->base.lua, L, neap__update_step(u->u, INFINITY, &committed, &err));
  if (st != NEAP_OK) abandon(u);
  if (st == NEAP_OOM) u->reserved = false;
  neap__ok(L, st, &err);
  if (!committed) neap__lua_fail(L, NEAP_INTERNAL, "update", "the update stopped before its end");
  return push_results(L, u);
}

static int begin(lua_State *L) {
  neap_lua_update *u = check(L, "begin");
  neap_error err;
  ready(L, u, "begin");
  bind(L, u, "begin");
  neap__inputs_hold(L, &u->inputs, 2);
  neap_status st = start(L, u, &err);
  if (st != NEAP_OK) abandon(u);
  if (st == NEAP_OOM) u->reserved = false;
  neap__ok(L, st, &err);
  return 0;
}

/* What the engine looks at when a run begins may have been closed since. */
static neap_status check_open(neap_lua_update *u, neap_error *err) {
  neap_status s = neap__captures_open(u->graph, u->graph->captures, err);
  return s == NEAP_OK ? neap__inputs_refresh(&u->inputs, err) : s;
}

/* step(seconds) -> committed, loss, aux...: works for about that long (all the way when left out). */
static int step(lua_State *L) {
  neap_lua_update *u = check(L, "step");
  neap_lua *s = u->base.lua;
  neap_error err;
  bool committed = false;
  double seconds =
      lua_isnoneornil(L, 2) ? INFINITY : neap__arg_number(L, 2, "step", "the time in seconds", 0, INFINITY);
  luaL_checkstack(L, (int)u->n_aux + 4, "aux outputs");
  if (s->trace) neap__lua_fail(L, NEAP_INVALID, "step", "an update cannot run inside a traced function");
  if (!neap__update_running(u->u)) neap__lua_fail(L, NEAP_INVALID, "step", "no update was begun");
  neap_status st = check_open(u, &err);
  if (st == NEAP_OK) st = NEAP_CALL(s, L, neap__update_step(u->u, seconds, &committed, &err));
  if (st != NEAP_OK) abandon(u);
  neap__ok(L, st, &err);
  if (committed) {
    neap__inputs_release(&u->inputs);
    lua_pushboolean(L, 1);
    return 1 + push_results(L, u);
  }
  lua_pushboolean(L, 0);
  return 1;
}

static int drop_run(lua_State *L) {
  neap_lua_update *u = check(L, "drop");
  abandon(u);
  return 0;
}

static int running(lua_State *L) {
  lua_pushboolean(L, neap__update_running(check(L, "running")->u));
  return 1;
}

/* commits() -> how many there were: what tells, after an error at any line of a script, whether a run was committed. */
static int commits(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)neap__update_commits(check(L, "commits")->u));
  return 1;
}

static int loss(lua_State *L) {
  lua_pushnumber(L, neap__update_loss(check(L, "loss")->u));
  return 1;
}

static int grad_norm(lua_State *L) {
  lua_pushnumber(L, neap__update_grad_norm(check(L, "grad_norm")->u));
  return 1;
}

static int next_seconds(lua_State *L) {
  lua_pushnumber(L, neap__update_next_seconds(check(L, "next_seconds")->u));
  return 1;
}

static int update_tostring(lua_State *L) {
  neap_lua_update *u = neap__handle_test(L, 1, &neap__update_class);
  if (!u) return 0;
  if (!u->base.lua)
    lua_pushliteral(L, "neap.update (closed)");
  else
    lua_pushfstring(L, "neap.update of %d inputs, %d aux outputs", (int)u->inputs.n, (int)u->n_aux);
  return 1;
}

void neap__open_update(lua_State *L) {
  static const luaL_Reg methods[] = {{"plan", put_plan},
                                     {"predict", predict},
                                     {"forecast", forecast},
                                     {"reserve", reserve},
                                     {"held", held},
                                     {"begin", begin},
                                     {"matches", matches},
                                     {"step", step},
                                     {"drop", drop_run},
                                     {"running", running},
                                     {"loss", loss},
                                     {"commits", commits},
                                     {"grad_norm", grad_norm},
                                     {"next_seconds", next_seconds},
                                     {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__call", call}, {"__tostring", update_tostring}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"update", make_update}, {"writable", writable}, {NULL, NULL}};
  neap__class_new(L, &neap__update_class, methods, meta);
  luaL_setfuncs(L, functions, 0);
}
