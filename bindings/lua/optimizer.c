/* Optimizers: settings by group, moments, and a step outside updates. */
#include "train/optimizer.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

/* Updates point to the engine's optimizer; whichever goes last ends it. */
static void drop(neap_handle *h) {
  neap_lua_optimizer *o = (neap_lua_optimizer *)h;
  if (o->users) return;
  neap__optimizer_destroy(o->o);
  o->o = NULL;
}

const neap_class neap__optimizer_class = {"neap.optimizer", drop};

void neap__optimizer_unuse(neap_lua_optimizer *o) {
  o->users--;
  if (o->users || o->base.lua) return;
  neap__optimizer_destroy(o->o);
  o->o = NULL;
}

static neap_lua_optimizer *check(lua_State *L, const char *function) {
  return neap__handle_check(L, 1, &neap__optimizer_class, function);
}

/* --- settings ---------------------------------------------------------------------------------------- */

typedef struct setting {
  const char *name;
  size_t at; /* in neap_hyper */
  bool flag;
  double max; /* of a number; the least is 0 */
} setting;

#define NUMBER(name, field, max) \
  { name, offsetof(neap_hyper, field), false, max }
#define FLAG(name) \
  { #name, offsetof(neap_hyper, name), true, 0 }
static const double below_one = 1 - DBL_EPSILON / 2;
static const setting settings[] = {
    NUMBER("lr", lr, DBL_MAX),
    NUMBER("weight_decay", weight_decay, DBL_MAX),
    NUMBER("momentum", momentum, DBL_MAX),
    NUMBER("dampening", dampening, DBL_MAX),
    NUMBER("eps", eps, DBL_MAX),
    NUMBER("alpha", beta2, 1),
    NUMBER("rho", beta2, 1),
    NUMBER("lr_decay", lr_decay, DBL_MAX),
    NUMBER("initial_accumulator_value", initial, DBL_MAX),
    NUMBER("momentum_decay", momentum_decay, DBL_MAX),
    FLAG(nesterov),
    FLAG(maximize),
    FLAG(amsgrad),
    FLAG(centered),
    FLAG(decoupled),
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };
#define NAMES                                                                                           \
  "lr|weight_decay|momentum|dampening|eps|alpha|rho|lr_decay|initial_accumulator_value|momentum_decay|" \
  "nesterov|maximize|amsgrad|centered|decoupled|betas"

static void get_number(lua_State *L, int table, const char *name, double max, double *out) {
  if (lua_getfield(L, table, name) != LUA_TNIL) *out = neap__arg_number(L, lua_gettop(L), "optimizer", name, 0, max);
  lua_pop(L, 1);
}

static void get_flag(lua_State *L, int table, const char *name, bool *out) {
  char text[80];
  if (lua_getfield(L, table, name) != LUA_TNIL) {
    if (!lua_isboolean(L, -1))
      neap__lua_fail(L, NEAP_INVALID, "optimizer", "%s is %s, expected true or false", name,
                     neap__describe(L, -1, text, sizeof text));
    *out = lua_toboolean(L, -1);
  }
  lua_pop(L, 1);
}

static void get_betas(lua_State *L, int table, neap_hyper *h) {
  if (lua_getfield(L, table, "betas") != LUA_TNIL) {
    int list = lua_gettop(L);
    neap__arg_table(L, list, "optimizer", "betas");
    lua_rawgeti(L, list, 1);
    lua_rawgeti(L, list, 2);
    h->beta1 = neap__arg_number(L, list + 1, "optimizer", "the first of betas", 0, below_one);
    h->beta2 = neap__arg_number(L, list + 2, "optimizer", "the second of betas", 0, below_one);
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
}

/* Changes what the table at index names; `out` changes only when all of it is right. */
static void parse_hyper(lua_State *L, int table, neap_optimizer_kind kind, neap_hyper *out) {
  neap_hyper h = *out;
  neap__arg_options(L, table, "optimizer", NAMES);
  for (int i = 0; i < SETTINGS; i++) {
    void *at = (char *)&h + settings[i].at;
    if (settings[i].flag)
      get_flag(L, table, settings[i].name, at);
    else
      get_number(L, table, settings[i].name, settings[i].max, at);
  }
  get_betas(L, table, &h);
  if (kind == NEAP_SGD && h.nesterov && (h.momentum == 0 || h.dampening != 0))
    neap__lua_fail(L, NEAP_INVALID, "optimizer", "nesterov needs a momentum above 0 and no dampening");
  *out = h;
}

static uint32_t check_group(lua_State *L, const neap_lua_optimizer *o, int index) {
  return (uint32_t)neap__arg_integer(L, index, "optimizer", "the group", 1, o->o->n_groups) - 1;
}

static int set(lua_State *L) {
  neap_lua_optimizer *o = check(L, "set");
  neap_hyper *group = &o->o->groups[check_group(L, o, 2)], h = *group;
  neap__arg_table(L, 3, "set", "argument 3");
  parse_hyper(L, 3, o->o->kind, &h);
  const char *lacks = neap__optimizer_lacks(o->o, &h);
  if (lacks)
    neap__lua_fail(L, NEAP_INVALID, "optimizer",
                   "momentum is %.14g, amsgrad %s and centered %s, but the optimizer was made without %s", h.momentum,
                   h.amsgrad ? "true" : "false", h.centered ? "true" : "false", lacks);
  *group = h;
  return 0;
}

static int set_lr(lua_State *L) {
  neap_lua_optimizer *o = check(L, "lr");
  uint32_t group = check_group(L, o, 2);
  o->o->groups[group].lr = neap__arg_number(L, 3, "optimizer", "lr", 0, DBL_MAX);
  return 0;
}

static int get(lua_State *L) {
  neap_lua_optimizer *o = check(L, "get");
  const neap_hyper *h = &o->o->groups[check_group(L, o, 2)];
  lua_createtable(L, 0, SETTINGS + 1);
  for (int i = 0; i < SETTINGS; i++) {
    const void *at = (const char *)h + settings[i].at;
    if (settings[i].flag)
      lua_pushboolean(L, *(const bool *)at);
    else
      lua_pushnumber(L, *(const double *)at);
    lua_setfield(L, -2, settings[i].name);
  }
  lua_createtable(L, 2, 0);
  for (int i = 0; i < 2; i++) {
    lua_pushnumber(L, i ? h->beta2 : h->beta1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "betas");
  return 1;
}

/* NAdam's product of momenta of a group, which is state and not a setting. */
static int mu_product(lua_State *L) {
  neap_lua_optimizer *o = check(L, "mu_product");
  neap_hyper *group = &o->o->groups[check_group(L, o, 2)];
  if (!lua_isnoneornil(L, 3)) group->product = neap__arg_number(L, 3, "mu_product", "the product", 0, 1);
  lua_pushnumber(L, group->product);
  return 1;
}

/* --- making ------------------------------------------------------------------------------------------ */

/* Tensors of the list at 2 into `params`, and their groups (list at 3) into `group`. */
static void take_params(lua_State *L, uint32_t n, uint32_t n_groups, neap_tensor *params, uint32_t *group) {
  char text[80];
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    neap_lua_tensor *t = neap__tensor_test(L, -1);
    if (!t || t->trace)
      neap__lua_fail(L, NEAP_INVALID, "optimizer", "parameter %u is %s, expected a tensor", i + 1,
                     t ? "a value of a traced function" : neap__describe(L, -1, text, sizeof text));
    neap__tensor_usable(L, t, "optimizer");
    params[i] = t->t;
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    snprintf(text, sizeof text, "the group of parameter %u", i + 1);
    group[i] = (uint32_t)neap__arg_integer(L, lua_gettop(L), "optimizer", text, 1, n_groups) - 1;
    lua_pop(L, 2);
  }
}

static void take_groups(lua_State *L, neap_optimizer_kind kind, uint32_t n, neap_hyper *groups) {
  for (uint32_t i = 0; i < n; i++) {
    groups[i] = (neap_hyper){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    lua_rawgeti(L, 4, (lua_Integer)i + 1);
    neap__arg_table(L, lua_gettop(L), "optimizer", "a group's settings");
    parse_hyper(L, lua_gettop(L), kind, &groups[i]);
    lua_pop(L, 1);
  }
}

static neap_optimizer_kind parse_kind(lua_State *L) {
  const char *kind = neap__arg_string(L, 1, "optimizer", "the kind", NULL);
  for (int k = 0; k < NEAP_OPTIMIZER_KINDS; k++)
    if (strcmp(kind, neap__optimizer_name((neap_optimizer_kind)k)) == 0) return (neap_optimizer_kind)k;
  neap__lua_fail(
      L, NEAP_INVALID, "optimizer",
      "there is no kind '%.40s': sgd, adam, nadam, radam, adamax, adadelta, rmsprop, adagrad and lion are there", kind);
}

/* The list is kept as a copy in the user value: shapes of moments, and the tensors themselves, live with it. */
static void keep_params(lua_State *L, uint32_t n) {
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    lua_rawseti(L, -2, i);
  }
  lua_setiuservalue(L, -2, 1);
}

/* optimizer(kind, {tensors}, {group of each}, {settings of each group}) */
static int make_optimizer(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  lua_settop(L, 4);
  neap_optimizer_kind kind = parse_kind(L);
  neap__arg_table(L, 2, "optimizer", "the list of parameters");
  neap__arg_table(L, 3, "optimizer", "the list of groups");
  neap__arg_table(L, 4, "optimizer", "the list of settings");
  uint32_t n = (uint32_t)lua_rawlen(L, 2), n_groups = (uint32_t)lua_rawlen(L, 4);
  if (n == 0) neap__lua_fail(L, NEAP_INVALID, "optimizer", "the list of parameters is empty");
  neap_tensor *params = lua_newuserdatauv(L, n * sizeof *params, 0);
  uint32_t *group = lua_newuserdatauv(L, n * sizeof *group, 0);
  neap_hyper *groups = lua_newuserdatauv(L, (n_groups + 1u) * sizeof *groups, 0);
  take_groups(L, kind, n_groups, groups);
  neap_lua_optimizer *o = neap__handle_new(L, s, &neap__optimizer_class, sizeof *o, 1);
  keep_params(L, n);
  o->n = n;
  take_params(L, n, n_groups, params, group);
  neap__ok(L, NEAP_CALL(s, L, neap__optimizer_create(s->ctx, kind, params, group, n, groups, n_groups, &o->o, &err)),
           &err);
  return 1;
}

/* --- state ------------------------------------------------------------------------------------------- */

static int step_count(lua_State *L) {
  neap_lua_optimizer *o = check(L, "step_count");
  if (!lua_isnoneornil(L, 2)) {
    neap__updates_guard_step(L, o, "step_count");
    o->o->step = neap__arg_integer(L, 2, "step_count", "the count", 0, INT64_MAX);
  }
  lua_pushinteger(L, o->o->step);
  return 1;
}

/* Pushes parameter i (0-based) of the list at `list`; its segment. */
static const neap_segment *push_param(lua_State *L, const neap_lua_optimizer *o, int list, uint32_t i,
                                      neap_lua_tensor **out) {
  lua_rawgeti(L, list, (lua_Integer)i + 1);
  neap_lua_tensor *t = neap__tensor_test(L, -1);
  if (!t) neap__lua_fail(L, NEAP_CLOSED, "optimizer", "parameter %u is gone", i + 1);
  neap__tensor_usable(L, t, "optimizer");
  int64_t at = neap__optimizer_find(o->o, t->t.storage);
  if (at < 0) neap__lua_fail(L, NEAP_INTERNAL, "optimizer", "parameter %u has no segment", i + 1);
  *out = t;
  return &o->o->segments[at];
}

/* moments(k) -> list of views in the order of the parameters, and the name; empty when there are fewer. */
static int moments(lua_State *L) {
  neap_lua_optimizer *o = check(L, "moments");
  uint32_t k = (uint32_t)neap__arg_integer(L, 2, "moments", "the moment", 1, INT32_MAX) - 1;
  lua_settop(L, 2);
  lua_getiuservalue(L, 1, 1);
  lua_newtable(L);
  if (k >= o->o->n_moments) return 1;
  for (uint32_t i = 0; i < o->n; i++) {
    neap_lua_tensor *p;
    const neap_segment *seg = push_param(L, o, 3, i, &p);
    neap_tensor view = {.dtype = seg->dtype,
                        .shape = p->t.shape,
                        .offset = (int64_t)(seg->offset / neap__dtype_size(seg->dtype)),
                        .storage = o->o->moments[k]};
    neap__strides_dense(&view.shape, view.stride);
    neap__push_view(L, o->base.lua, &view);
    lua_rawseti(L, 4, (lua_Integer)i + 1);
    lua_pop(L, 1);
  }
  lua_pushstring(L, o->o->rule->moments[k]);
  return 2;
}

static int bytes(lua_State *L) {
  neap_lua_optimizer *o = check(L, "bytes");
  lua_pushinteger(L, (lua_Integer)o->o->n_moments * (lua_Integer)neap__align_up(o->o->flat_bytes));
  return 1;
}

/* --- a step outside updates -------------------------------------------------------------------------- */

static void copy_gradient(lua_State *L, neap_lua_optimizer *o, uint32_t i, char *block, uint8_t *present) {
  neap_lua_tensor *p;
  neap_error err;
  char a[96], b[96];
  lua_rawgeti(L, 2, (lua_Integer)i + 1);
  const neap_segment *seg = push_param(L, o, 4, i, &p);
  neap_lua_tensor *g = neap__tensor_test(L, -2);
  if (g) {
    neap__tensor_usable(L, g, "apply");
    if (g->trace || g->t.dtype != p->t.dtype || !neap__shape_equal(&g->t.shape, &p->t.shape))
      neap__lua_fail(L, NEAP_SHAPE, "apply", "gradient %u is %s %s, expected %s %s", i + 1,
                     neap__dtype_name(g->t.dtype), neap__shape_text(&g->t.shape, a, sizeof a),
                     neap__dtype_name(p->t.dtype), neap__shape_text(&p->t.shape, b, sizeof b));
    neap__ok(L,
             neap__copy(o->base.lua->ctx, block + seg->offset, neap__tensor_data(&g->t), neap__segment_bytes(seg),
                        NEAP_COPY_WITHIN, &err),
             &err);
    present[seg - o->o->segments] = 1;
  } else if (!lua_isboolean(L, -2) || lua_toboolean(L, -2)) {
    neap__lua_fail(L, NEAP_INVALID, "apply", "gradient %u is %s, expected a tensor or false", i + 1,
                   neap__describe(L, -2, a, sizeof a));
  }
  lua_pop(L, 2);
}

static neap_clip take_clip(lua_State *L) {
  neap_clip clip = {0};
  if (!lua_isnoneornil(L, 3)) clip.norm = neap__arg_number(L, 3, "apply", "clip_norm", DBL_MIN, HUGE_VAL);
  if (!lua_isnoneornil(L, 4)) clip.value = neap__arg_number(L, 4, "apply", "clip_value", DBL_MIN, HUGE_VAL);
  return clip;
}

/* Zeroed: what lies between segments goes into the norm. */
static void take_block(lua_State *L, neap_lua *s, const neap_lua_optimizer *o, neap_lua_tensor *block) {
  neap_desc d = {.dtype = NEAP_U8, .shape = {.ndim = 1, .dim = {(int64_t)o->o->flat_bytes}}};
  neap_error err;
  neap__ok(L, NEAP_CALL(s, L, neap__context_tensor(s->ctx, &d, NEAP_OWNER_GRADIENTS, &block->t, &err)), &err);
  if (d.shape.dim[0])
    neap__ok(L, s->ctx->backend->vt->fill(s->ctx->backend, block->t.storage->data, 0, o->o->flat_bytes, &err), &err);
}

/* apply({gradient of each parameter, false for none}[, clip_norm[, clip_value]]) -> norm before clipping, NaN without
 * clip_norm */
static int apply(lua_State *L) {
  neap_lua_optimizer *o = check(L, "apply");
  neap_lua *s = o->base.lua;
  neap_error err;
  double norm;
  neap__arg_table(L, 2, "apply", "the list of gradients");
  const neap_clip clip = take_clip(L);
  lua_settop(L, 3);
  if (s->trace) neap__lua_fail(L, NEAP_INVALID, "apply", "an optimizer cannot step inside a traced function");
  neap__updates_guard_step(L, o, "step");
  if (lua_rawlen(L, 2) != o->n)
    neap__lua_fail(L, NEAP_INVALID, "apply", "%zu gradients for %u parameters (false where there is none)",
                   (size_t)lua_rawlen(L, 2), o->n);
  lua_getiuservalue(L, 1, 1);
  neap__lua_ready(L, s);
  neap_lua_tensor *block = neap__push_tensor(L, s);
  uint8_t *present = lua_newuserdatauv(L, o->o->n_segments + 1u, 0);
  memset(present, 0, o->o->n_segments + 1u);
  take_block(L, s, o, block);
  for (uint32_t i = 0; i < o->n; i++) copy_gradient(L, o, i, neap__tensor_data(&block->t), present);
  neap_status st =
      NEAP_CALL(s, L, neap__optimizer_apply(o->o, neap__tensor_data(&block->t), present, clip, &norm, &err));
  neap__handle_drop(&block->base);
  neap__ok(L, st, &err);
  lua_pushnumber(L, norm);
  return 1;
}

static int optimizer_tostring(lua_State *L) {
  neap_lua_optimizer *o = neap__handle_test(L, 1, &neap__optimizer_class);
  if (!o) return 0;
  if (!o->base.lua)
    lua_pushliteral(L, "neap.optimizer (closed)");
  else
    lua_pushfstring(L, "neap.optimizer %s of %d parameters, %I steps", neap__optimizer_name(o->o->kind), (int)o->n,
                    (LUAI_UACINT)o->o->step);
  return 1;
}

void neap__open_optimizer(lua_State *L) {
  static const luaL_Reg methods[] = {{"set", set},
                                     {"lr", set_lr},
                                     {"get", get},
                                     {"mu_product", mu_product},
                                     {"bytes", bytes},
                                     {"moments", moments},
                                     {"step_count", step_count},
                                     {"apply", apply},
                                     {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__tostring", optimizer_tostring}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"optimizer", make_optimizer}, {NULL, NULL}};
  neap__class_new(L, &neap__optimizer_class, methods, meta);
  luaL_setfuncs(L, functions, 0);
}
