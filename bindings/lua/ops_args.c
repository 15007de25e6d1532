/* Arguments of ops: inputs, then values of options in their order, then a table of options by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "op/op.h"

/* Where the parser stands: arguments are stack slots 1..top. */
typedef struct parser {
  lua_State *L;
  neap_lua_call *call;
  int at, top;
} parser;

#define FAIL(p, status, ...) neap__lua_fail((p)->L, status, (p)->call->name, __VA_ARGS__)

/* --- inputs ------------------------------------------------------------------------------------------ */

static void set_input(parser *p, int index, uint32_t i) {
  lua_State *L = p->L;
  neap_lua_arg *a = &p->call->in[i];
  memset(a, 0, sizeof *a);
  if (lua_type(L, index) == LUA_TNUMBER) {
    int64_t whole;
    a->number = lua_tonumber(L, index);
    a->integer = lua_isinteger(L, index);
    /* Constants are doubles underneath. */
    if (a->integer && neap__to_integer(L, index, &whole) && (whole > INT64_C(1) << 53 || whole < -(INT64_C(1) << 53)))
      FAIL(p, NEAP_RANGE, "input %u is %lld: numbers beside tensors are exact up to 2^53, make it a tensor", i + 1,
           (long long)whole);
    return;
  }
  a->t = neap__tensor_check(L, index, p->call->name);
}

static bool is_input(lua_State *L, int index) {
  return lua_type(L, index) == LUA_TNUMBER || neap__tensor_test(L, index) != NULL;
}

/* Room for n inputs: a block on Lua's stack when they are many. */
static void reserve_inputs(parser *p, uint32_t n) {
  p->call->in = p->call->few;
  p->call->n_in = n;
  if (n > NEAP_FEW_INPUTS) p->call->in = lua_newuserdatauv(p->L, n * sizeof(neap_lua_arg), 0);
}

/* cat({a, b}, ...): the elements go on the stack, where nothing takes them away. */
static void take_list(parser *p) {
  lua_State *L = p->L;
  int64_t n = (int64_t)lua_rawlen(L, p->at);
  char text[80];
  if (n < 1 || n > UINT16_MAX)
    FAIL(p, NEAP_INVALID, "the list has %lld tensors, expected 1 to %d", (long long)n, UINT16_MAX);
  luaL_checkstack(L, (int)n + 4, "inputs of an op");
  reserve_inputs(p, (uint32_t)n);
  for (int64_t i = 1; i <= n; i++) {
    lua_rawgeti(L, p->at, i);
    if (!is_input(L, -1))
      FAIL(p, NEAP_INVALID, "entry %lld of the list is %s, expected a tensor", (long long)i,
           neap__describe(L, -1, text, sizeof text));
    set_input(p, lua_gettop(L), (uint32_t)(i - 1));
  }
  p->at++;
}

/* How many of the leading arguments are inputs: numbers stand for tensors only where an input must be, so that
 * conv2d(x, w, 2) has a stride and no bias. A nil in the place of an optional input leaves it out. */
static uint32_t count_inputs(parser *p) {
  const neap_op *op = p->call->op;
  uint32_t most = op->max_in, n = 0;
  char text[80];
  for (int i = p->at; i <= p->top && n < most; i++, n++) {
    if (neap__tensor_test(p->L, i)) continue;
    if (n < op->min_in && lua_type(p->L, i) == LUA_TNUMBER && most != 255) continue;
    if (n < op->min_in)
      FAIL(p, NEAP_INVALID, "input %u is %s, expected a tensor%s", n + 1, neap__describe(p->L, i, text, sizeof text),
           most == 255 ? "" : " or a number");
    break;
  }
  if (n < op->min_in)
    FAIL(p, NEAP_INVALID, "takes %s%u input%s, got %u", op->min_in == most ? "" : "at least ", op->min_in,
         op->min_in == 1 ? "" : "s", n);
  return n;
}

static void take_inputs(parser *p) {
  const neap_op *op = p->call->op;
  if (op->max_in == 255 && p->at <= p->top && lua_istable(p->L, p->at)) {
    take_list(p);
    return;
  }
  uint32_t n = count_inputs(p);
  reserve_inputs(p, n);
  for (uint32_t i = 0; i < n; i++) set_input(p, p->at + (int)i, i);
  p->at += (int)n;
  for (uint32_t i = n; i < op->max_in && op->max_in != 255 && p->at <= p->top && lua_isnil(p->L, p->at); i++) {
    p->at++;
    if (p->at <= p->top && i + 1 < op->max_in && neap__tensor_test(p->L, p->at))
      FAIL(p, NEAP_INVALID, "input %u is nil but input %u is not", i + 1, i + 2);
  }
}

/* --- option values ----------------------------------------------------------------------------------- */

static _Noreturn void bad_value(parser *p, const neap_opt_spec *o, neap_status status, int index,
                                const char *expected) {
  char text[80];
  FAIL(p, status, "option `%s` is %s, expected %s", o->name, neap__describe(p->L, index, text, sizeof text), expected);
}

static int64_t whole(parser *p, const neap_opt_spec *o, int index) {
  int64_t i;
  if (!neap__to_integer(p->L, index, &i))
    bad_value(p, o, lua_type(p->L, index) == LUA_TNUMBER ? NEAP_RANGE : NEAP_INVALID, index, "a whole number");
  return i;
}

/* Dimensions that the op may name: one more when it makes a new one. */
static int64_t dims_of(const parser *p) {
  const neap_lua_call *c = p->call;
  int64_t n = c->n_in && c->in[0].t ? c->in[0].t->t.shape.ndim : 0;
  if (c->op == &neap__op_stack || c->op == &neap__op_unsqueeze || c->op == &neap__op_diag_embed) return n + 1;
  return n > 0 ? n : 1;
}

/* 1-based or negative -> 0-based or negative. */
static int64_t position(parser *p, const neap_opt_spec *o, int64_t i, int64_t n) {
  if (i == 0)
    FAIL(p, NEAP_RANGE, "option `%s` is 0: positions start at 1 (values stored in tensors, as labels, start at 0)",
         o->name);
  if (n >= 0 && (i > n || i < -n))
    FAIL(p, NEAP_RANGE, "option `%s` is %lld, expected 1 to %lld or -1 to -%lld", o->name, (long long)i, (long long)n,
         (long long)n);
  return i > 0 ? i - 1 : i;
}

static bool is_dim(const neap_opt_spec *o) { return o->type == NEAP_OPT_DIM || o->type == NEAP_OPT_DIMS; }

static bool is_list(const neap_opt_spec *o) {
  return o->type == NEAP_OPT_INTS || o->type == NEAP_OPT_DIMS || o->type == NEAP_OPT_PAIR;
}

/* Integers that count entries of a dimension from its first on. */
static bool is_position(const parser *p, const neap_opt_spec *o) {
  const neap_op *op = p->call->op;
  return o->type == NEAP_OPT_INT && ((op == &neap__op_narrow && strcmp(o->name, "start") == 0) ||
                                     (op == &neap__op_select && strcmp(o->name, "index") == 0));
}

static void set_list(parser *p, const neap_opt_spec *o, neap_opt *out, const int64_t *list, int n) {
  if (o->type == NEAP_OPT_PAIR && n == 1) {
    out->v.list[0] = out->v.list[1] = list[0];
    n = 2;
  } else if (o->type == NEAP_OPT_PAIR && n != 2) {
    FAIL(p, NEAP_INVALID, "option `%s` has %d entries, expected one or two whole numbers", o->name, n);
  } else {
    for (int i = 0; i < n; i++) out->v.list[i] = is_dim(o) ? position(p, o, list[i], dims_of(p)) : list[i];
  }
  out->n = (uint8_t)n;
}

static int64_t choice(parser *p, const neap_opt_spec *o, int index) {
  if (lua_type(p->L, index) != LUA_TSTRING) bad_value(p, o, NEAP_INVALID, index, o->choices);
  const char *text = lua_tostring(p->L, index), *at = o->choices;
  size_t n = strlen(text);
  for (int64_t i = 0;; i++) {
    size_t word = strcspn(at, "|");
    if (word == n && strncmp(at, text, n) == 0) return i;
    if (at[word] == '\0') bad_value(p, o, NEAP_INVALID, index, o->choices);
    at += word + 1;
  }
}

static void set_single(parser *p, const neap_opt_spec *o, neap_opt *out, int index) {
  lua_State *L = p->L;
  switch (o->type) {
    case NEAP_OPT_BOOL:
      if (!lua_isboolean(L, index)) bad_value(p, o, NEAP_INVALID, index, "true or false");
      out->v.i = lua_toboolean(L, index);
      break;
    case NEAP_OPT_FLOAT:
      if (lua_type(L, index) != LUA_TNUMBER) bad_value(p, o, NEAP_INVALID, index, "a number");
      out->v.f = lua_tonumber(L, index);
      break;
    case NEAP_OPT_DIM: out->v.i = position(p, o, whole(p, o, index), dims_of(p)); break;
    case NEAP_OPT_DTYPE: out->v.i = neap__arg_dtype(L, index, p->call->name); break;
    case NEAP_OPT_CHOICE: out->v.i = choice(p, o, index); break;
    default:
      out->v.i = whole(p, o, index);
      if (is_position(p, o)) out->v.i = position(p, o, out->v.i, -1);
      break;
  }
}

static void set_option(parser *p, uint32_t which, int index) {
  const neap_opt_spec *o = &p->call->op->opts[which];
  neap_opt *out = &p->call->opt[which];
  if (out->set) FAIL(p, NEAP_INVALID, "option `%s` is given twice", o->name);
  if (is_list(o)) {
    int64_t list[NEAP_MAX_DIMS];
    char what[64];
    int n = 1;
    snprintf(what, sizeof what, "option `%s`", o->name);
    if (lua_istable(p->L, index))
      n = neap__arg_list(p->L, index, p->call->name, what, list, NEAP_MAX_DIMS);
    else
      list[0] = whole(p, o, index);
    set_list(p, o, out, list, n);
  } else {
    set_single(p, o, out, index);
  }
  out->set = 1;
}

/* --- options by position and name -------------------------------------------------------------------- */

static uint32_t option_count(const neap_op *op) {
  uint32_t n = 0;
  while (n < NEAP_MAX_OPTS && op->opts[n].type != NEAP_OPT_END) n++;
  return n;
}

static bool is_open_list(const neap_opt_spec *o) { return o->type == NEAP_OPT_INTS || o->type == NEAP_OPT_DIMS; }

/* t:reshape(2, 3): numbers in a row are one list, but of an op with several lists each number begins another:
 * t:roll(1, 2) is a shift and its dimension. */
static bool begins_run(const parser *p, const neap_opt_spec *o) {
  const neap_op *op = p->call->op;
  uint32_t lists = 0;
  for (uint32_t i = 0; i < option_count(op); i++) lists += is_open_list(&op->opts[i]);
  return lists == 1 && is_open_list(o) && lua_type(p->L, p->at) == LUA_TNUMBER;
}

static void take_run(parser *p, uint32_t which) {
  const neap_opt_spec *o = &p->call->op->opts[which];
  int64_t list[NEAP_MAX_DIMS];
  int n = 0;
  for (; p->at <= p->top && lua_type(p->L, p->at) == LUA_TNUMBER; p->at++) {
    if (n == NEAP_MAX_DIMS) FAIL(p, NEAP_SHAPE, "option `%s` has more than %d entries", o->name, NEAP_MAX_DIMS);
    list[n++] = whole(p, o, p->at);
  }
  set_list(p, o, &p->call->opt[which], list, n);
  p->call->opt[which].set = 1;
}

/* A table is a list when it has entries by position; an empty one is where a list must be. */
static bool is_named_table(parser *p, uint32_t next) {
  lua_State *L = p->L;
  if (!lua_istable(L, p->at) || lua_rawlen(L, p->at) > 0) return false;
  lua_pushnil(L);
  if (lua_next(L, p->at)) {
    lua_pop(L, 2);
    return true;
  }
  const neap_opt_spec *o = &p->call->op->opts[next];
  return !(next < option_count(p->call->op) && is_list(o) && o->required && !p->call->opt[next].set);
}

static void unknown_option(parser *p) {
  char names[300], text[80];
  size_t used = 0;
  const neap_op *op = p->call->op;
  names[0] = '\0';
  for (uint32_t i = 0; i < option_count(op) && used < sizeof names; i++) {
    int n = snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", op->opts[i].name);
    used += n > 0 ? (size_t)n : 0;
  }
  neap__describe(p->L, -2, text, sizeof text);
  if (used == 0) FAIL(p, NEAP_INVALID, "has no options, got %s", text);
  FAIL(p, NEAP_INVALID, "has no option %s; its options are %s", text, names);
}

static void take_named(parser *p) {
  lua_State *L = p->L;
  const neap_op *op = p->call->op;
  for (lua_pushnil(L); lua_next(L, p->at); lua_pop(L, 1)) {
    uint32_t i = 0, n = option_count(op);
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    while (i < n && strcmp(op->opts[i].name, key) != 0) i++;
    if (i == n) unknown_option(p);
    set_option(p, i, lua_gettop(L));
  }
  p->at++;
}

static void take_options(parser *p) {
  uint32_t next = 0, n = option_count(p->call->op);
  char text[80];
  while (p->at <= p->top && !is_named_table(p, next)) {
    if (next == n)
      FAIL(p, NEAP_INVALID, "argument %d is %s, which is one too many", p->at,
           neap__describe(p->L, p->at, text, sizeof text));
    const neap_opt_spec *o = &p->call->op->opts[next];
    if (lua_isnil(p->L, p->at)) {
      p->at++;
    } else if (begins_run(p, o)) {
      take_run(p, next);
    } else {
      set_option(p, next, p->at++);
    }
    next++;
  }
  if (p->at <= p->top) take_named(p);
  if (p->at <= p->top)
    FAIL(p, NEAP_INVALID, "argument %d is %s; the table of options comes last", p->at,
         neap__describe(p->L, p->at, text, sizeof text));
}

/* narrow and select count from 1 here and from 0 underneath: a range that does not fit is told in the script's way. */
static void check_slice(parser *p) {
  const neap_lua_call *c = p->call;
  bool select = c->op == &neap__op_select;
  if ((!select && c->op != &neap__op_narrow) || !c->opt[0].set || !c->opt[1].set) return;
  if (!c->in[0].t || c->in[0].t->t.shape.ndim == 0) FAIL(p, NEAP_SHAPE, "a scalar has no dimensions");
  const neap_shape *s = &c->in[0].t->t.shape;
  int64_t dim = c->opt[0].v.i < 0 ? c->opt[0].v.i + s->ndim : c->opt[0].v.i, at = c->opt[1].v.i;
  int64_t n = s->dim[dim], start = at < 0 ? at + n : at, length = select ? 1 : c->opt[2].v.i;
  if (start >= 0 && length >= 0 && start <= n && length <= n - start) return;
  if (select)
    FAIL(p, NEAP_RANGE, "position %lld is outside dimension %lld, which has %lld entries",
         (long long)(at < 0 ? at : at + 1), (long long)dim + 1, (long long)n);
  FAIL(p, NEAP_RANGE, "%lld entries from position %lld on are outside dimension %lld, which has %lld",
       (long long)length, (long long)(at < 0 ? at : at + 1), (long long)dim + 1, (long long)n);
}

void neap__call_parse(lua_State *L, neap_lua_call *c) {
  /* cppcheck-suppress ctuuninitvar ; filling it is what this is for */
  parser p = {L, c, 1, lua_gettop(L)};
  luaL_checkstack(L, 8, c->name);
  memset(c->opt, 0, sizeof c->opt);
  take_inputs(&p);
  take_options(&p);
  check_slice(&p);
  neap__call_promote(L, c);
}

/* A number takes the dtype of the tensors beside it; with a fraction in its type (2.0 is one) it makes integers
 * fp32, and integers beside bool are int64. The condition of `where` says nothing about the values. */
void neap__call_promote(lua_State *L, neap_lua_call *c) {
  uint32_t first = c->op == &neap__op_where ? 1 : 0, numbers = 0, tensors = 0;
  neap_dtype t = NEAP_BOOL;
  for (uint32_t i = 0; i < c->n_in; i++) {
    if (!c->in[i].t)
      numbers++;
    else if (i >= first && tensors++ == 0)
      t = c->in[i].t->t.dtype;
    else if (i >= first)
      t = neap__dtype_promote(t, c->in[i].t->t.dtype);
  }
  if (numbers && numbers == c->n_in)
    neap__lua_fail(L, NEAP_INVALID, c->name, "needs at least one tensor among its inputs");
  for (uint32_t i = 0; i < c->n_in && numbers; i++) {
    neap_lua_arg *a = &c->in[i];
    char element[8];
    neap_error err;
    if (a->t) continue;
    a->dtype = tensors == 0 || (!a->integer && !neap__dtype_is_float(t)) ? NEAP_F32 : t == NEAP_BOOL ? NEAP_I64 : t;
    if (!neap__dtype_is_float(a->dtype) && neap__encode_double(a->number, a->dtype, element, &err) != NEAP_OK)
      neap__lua_fail(L, NEAP_RANGE, c->name, "input %u: %s, the dtype of the tensor beside it", i + 1, err.message);
  }
}
