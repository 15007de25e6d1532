/* Ops of the table as functions and methods: built into the active trace, or computed at once. */
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "op/op.h"

/* --- at once ----------------------------------------------------------------------------------------- */

static void make_dense(neap_tensor *t, const neap_desc *d, neap_storage *s, int64_t offset) {
  t->dtype = d->dtype;
  t->shape = d->shape;
  neap__strides_dense(&d->shape, t->stride);
  t->offset = offset;
  t->storage = s;
}

/* The concrete input whose bytes v is, when there are only aliases between; NULL otherwise. */
static const neap_lua_tensor *alias_of(const neap_graph *g, const neap_lua_call *c, neap_id v) {
  while (g->values[v].kind == NEAP_VALUE_NODE) {
    const neap_node *n = g->nodes[g->values[v].node];
    if (!n->op->alias || g->values[v].index != 0) return NULL;
    v = n->in[0];
  }
  if (g->values[v].kind != NEAP_VALUE_INPUT) return NULL;
  for (uint32_t i = 0, input = 0; i < c->n_in; i++)
    if (c->in[i].t && input++ == g->values[v].index) return c->in[i].t;
  return NULL;
}

static uint32_t results_of(const neap_op *op) {
  uint32_t n = op->results ? op->results : 1;
  return n > NEAP_MAX_OUT ? NEAP_MAX_OUT : n;
}

/* Builds the call; *n is how many results there are this time, and before how many there may be. */
static bool build_results(neap_graph *g, const neap_lua_call *c, const neap_id *in, neap_id *out, uint32_t *n) {
  const uint32_t most = *n;
  bool ok = neap__build_n(g, c->op, in, c->n_in, c->opt, out);
  for (*n = 0; ok && *n < most && out[*n] != NEAP_NONE;) ++*n;
  return ok;
}

static bool build(neap_graph *g, const neap_lua_call *c, neap_id *out, uint32_t *n) {
  neap_id few[NEAP_FEW_INPUTS] = {0}, *in = few;
  if (c->n_in > NEAP_FEW_INPUTS) in = neap__zone_alloc(&g->zone, c->n_in * sizeof *in);
  if (!in) {
    neap__graph_fail(g, c->op, NEAP_NOMEM, "the host allocator refused memory for %u inputs", c->n_in);
    return false;
  }
  for (uint32_t i = 0; i < c->n_in; i++) {
    const neap_lua_arg *a = &c->in[i];
    neap_desc d = {.dtype = NEAP_F32};
    if (a->t) d = neap__tensor_desc(&a->t->t);
    in[i] = a->t ? neap__graph_input(g, &d) : neap__graph_const(g, a->dtype, a->number);
  }
  return build_results(g, c, in, out, n);
}

static neap_status run(neap_lua *s, lua_State *L, neap_graph *g, const neap_lua_call *c, neap_lua_tensor *const *out,
                       uint32_t n, neap_error *err) {
  neap_program *program;
  void *data[NEAP_MAX_OUT] = {NULL};
  const void *few[NEAP_FEW_INPUTS], **in = few;
  if (c->n_in > NEAP_FEW_INPUTS) in = neap__zone_alloc(&g->zone, c->n_in * sizeof *in);
  if (!in) return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for %u inputs", c->n_in);
  neap_status st = NEAP_CALL(s, L, neap__program_cached(s->ctx, g, &program, err));
  if (st != NEAP_OK) return st;
  for (uint32_t i = 0, input = 0; i < c->n_in; i++)
    if (c->in[i].t) in[input++] = neap__tensor_data(&c->in[i].t->t);
  for (uint32_t i = 0; i < n; i++) data[i] = neap__tensor_data(&out[i]->t);
  return NEAP_CALL(s, L, neap__program_run(program, in, data, err));
}

static neap_status make_result(neap_lua *s, lua_State *L, neap_graph *g, neap_id v, neap_lua_tensor *out,
                               neap_error *err) {
  neap_status st = NEAP_CALL(s, L, neap__context_tensor(s->ctx, neap__desc_of(g, v), NEAP_OWNER_TENSORS, &out->t, err));
  if (st != NEAP_OK) return st;
  neap__graph_output(g, v);
  return g->error.status == NEAP_OK ? NEAP_OK : (*err = g->error, err->status);
}

/* The outputs are made before the program is looked up: making them may free cached ones. *n: as of build_results. */
static neap_status compute(neap_lua *s, lua_State *L, neap_graph *g, const neap_lua_call *c, neap_lua_tensor **out,
                           uint32_t *n, neap_error *err) {
  neap_id v[NEAP_MAX_OUT];
  if (!build(g, c, v, n)) return *err = g->error, err->status;
  neap_desc d = *neap__desc_of(g, v[0]);
  const neap_lua_tensor *alias = *n == 1 ? alias_of(g, c, v[0]) : NULL;
  if (alias && alias->t.dtype == d.dtype) {
    make_dense(&out[0]->t, &d, neap__storage_retain(alias->t.storage), alias->t.offset);
    out[0]->view = true;
    return NEAP_OK;
  }
  for (uint32_t i = 0; i < *n; i++) {
    neap_status st = make_result(s, L, g, v[i], out[i], err);
    if (st != NEAP_OK) return st;
  }
  return run(s, L, g, c, out, *n, err);
}

/* narrow and select on the outermost dimension are views; where they cannot be, the op itself tells why. */
static bool push_slice(lua_State *L, neap_lua *s, const neap_lua_call *c) {
  neap_tensor view;
  if (c->n_in != 1 || !c->in[0].t || !c->opt[0].set || !c->opt[1].set) return false;
  const neap_tensor *t = &c->in[0].t->t;
  int64_t at = c->opt[1].v.i, dim = c->opt[0].v.i < 0 ? c->opt[0].v.i + t->shape.ndim : c->opt[0].v.i;
  if (dim != 0 || t->shape.ndim == 0) return false;
  if (at < 0) at += t->shape.dim[0];
  neap_status st = NEAP_INVALID;
  if (c->op == &neap__op_select) st = neap__tensor_select(t, 0, at, &view, NULL);
  if (c->op == &neap__op_narrow && c->opt[2].set) st = neap__tensor_narrow(t, 0, at, c->opt[2].v.i, &view, NULL);
  if (st != NEAP_OK || at < 0) return false;
  neap__push_view(L, s, &view);
  return true;
}

static size_t input_bytes(const neap_lua_call *c) {
  size_t most = 0;
  for (uint32_t i = 0; i < c->n_in; i++) {
    if (!c->in[i].t) continue;
    neap_desc d = neap__tensor_desc(&c->in[i].t->t);
    size_t n = neap__desc_bytes(&d);
    if (n > most) most = n;
  }
  return most;
}

static void check_open(lua_State *L, const neap_lua_call *c) {
  for (uint32_t i = 0; i < c->n_in; i++)
    if (c->in[i].t) neap__tensor_usable(L, c->in[i].t, c->name);
}

static uint32_t apply_now(lua_State *L, neap_lua *s, neap_lua_call *c) {
  neap_error err;
  neap__lua_ready(L, s);
  if ((c->op == &neap__op_narrow || c->op == &neap__op_select) && push_slice(L, s, c)) return 1;
  /* The result's size is not known yet; most are as large as the largest input. */
  neap__lua_grew(L, s, input_bytes(c));
  const uint32_t most = results_of(c->op);
  uint32_t n = most;
  neap_lua_tensor *out[NEAP_MAX_OUT] = {NULL};
  for (uint32_t i = 0; i < most; i++) out[i] = neap__push_tensor(L, s);
  check_open(L, c);
  neap_graph *g = neap__graph_create(&s->ctx->host);
  neap_status st = g ? compute(s, L, g, c, out, &n, &err)
                     : neap__fail(&err, NEAP_NOMEM, "the host allocator refused memory for a graph");
  neap__graph_drop(g);
  if (st == NEAP_OK) {
    lua_pop(L, (int)(most - n));
    return n;
  }
  if (!err.op[0]) snprintf(err.op, sizeof err.op, "%s", c->name);
  neap__raise(L, &err);
}

/* --- in a trace -------------------------------------------------------------------------------------- */

static uint32_t apply_traced(lua_State *L, neap_lua *s, neap_lua_call *c) {
  neap_graph *g = s->trace->g;
  neap_id few[NEAP_FEW_INPUTS] = {0}, *in = few, out[NEAP_MAX_OUT];
  uint32_t n = results_of(c->op);
  neap__trace_here(L, s);
  if (c->n_in > NEAP_FEW_INPUTS) in = lua_newuserdatauv(L, c->n_in * sizeof *in, 0);
  for (uint32_t i = 0; i < c->n_in; i++) {
    const neap_lua_arg *a = &c->in[i];
    if (!a->t)
      in[i] = neap__graph_const(g, a->dtype, a->number);
    else
      in[i] = a->t->trace ? a->t->id : neap__graph_read(g, &a->t->t);
  }
  build_results(g, c, in, out, &n);
  neap__trace_ok(L, s);
  for (uint32_t i = 0; i < n; i++) neap__push_symbol(L, s, out[i]);
  return n;
}

uint32_t neap__call_apply(lua_State *L, neap_lua *s, neap_lua_call *c) {
  return s->trace ? apply_traced(L, s, c) : apply_now(L, s, c);
}

void neap__apply(lua_State *L, neap_lua *s, const neap_op *op, const int *in, uint32_t n, const neap_opt *opt) {
  neap_lua_call c = {.op = op, .name = op->name, .n_in = n};
  c.in = c.few;
  for (uint32_t i = 0; i < n; i++) c.few[i].t = neap__tensor_test(L, in[i]);
  memcpy(c.opt, opt, sizeof c.opt);
  neap__call_apply(L, s, &c);
}

/* --- functions --------------------------------------------------------------------------------------- */

/* Upvalue 1: the op. */
static int call_op(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_lua_call c;
  c.op = lua_touserdata(L, lua_upvalueindex(1));
  c.name = c.op->name;
  neap__call_parse(L, &c);
  return (int)neap__call_apply(L, s, &c);
}

static void push_op(lua_State *L, const neap_op *op) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)op);
  lua_pushcclosure(L, call_op, 1);
}

/* -t is called with t twice. */
static int call_unary(lua_State *L) {
  lua_settop(L, 1);
  return call_op(L);
}

static void push_unary(lua_State *L, int meta, const char *event, const neap_op *op) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)op);
  lua_pushcclosure(L, call_unary, 1);
  lua_setfield(L, meta, event);
}

static void set_operators(lua_State *L, int meta) {
  static const struct {
    const char *event;
    const neap_op *op;
  } binary[] = {{"__add", &neap__op_add},
                {"__sub", &neap__op_sub},
                {"__mul", &neap__op_mul},
                {"__div", &neap__op_div},
                {"__pow", &neap__op_pow},
                {"__mod", &neap__op_remainder},
                {"__idiv", &neap__op_floor_divide},
                {"__band", &neap__op_bitwise_and},
                {"__bor", &neap__op_bitwise_or},
                {"__bxor", &neap__op_bitwise_xor},
                {"__shl", &neap__op_bitwise_left_shift},
                {"__shr", &neap__op_bitwise_right_shift}};
  for (size_t i = 0; i < sizeof binary / sizeof binary[0]; i++) {
    push_op(L, binary[i].op);
    lua_setfield(L, meta, binary[i].event);
  }
  push_unary(L, meta, "__unm", &neap__op_neg);
  push_unary(L, meta, "__bnot", &neap__op_bitwise_not);
}

/* Stack: the core table on top; the metatable of tensors lies under the table of methods. */
void neap__open_ops(lua_State *L, int methods) {
  int core = lua_gettop(L);
  for (uint32_t i = 0; i < neap__op_count; i++) {
    const neap_op *op = neap__ops[i];
    if (op->internal) continue;
    push_op(L, op);
    if (op->max_in > 0) {
      lua_pushvalue(L, -1);
      lua_setfield(L, methods, op->name);
    }
    lua_setfield(L, core, op->name);
  }
  set_operators(L, methods - 1);
}
