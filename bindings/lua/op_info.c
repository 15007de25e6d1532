/* What the records say about the ops that scripts see, as tables: for help and the reference pages. */
#include <float.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"
#include "op/op.h"

static void set_string(lua_State *L, const char *key, const char *value) {
  if (!value) return;
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

static void set_integer(lua_State *L, const char *key, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

static void set_flag(lua_State *L, const char *key, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

/* --- options ----------------------------------------------------------------------------------------- */

static const char *type_name(neap_opt_type t) {
  switch (t) {
    case NEAP_OPT_BOOL: return "boolean";
    case NEAP_OPT_INT: return "integer";
    case NEAP_OPT_FLOAT: return "number";
    case NEAP_OPT_PAIR: return "pair";
    case NEAP_OPT_INTS: return "integers";
    case NEAP_OPT_DIM: return "dim";
    case NEAP_OPT_DIMS: return "dims";
    case NEAP_OPT_DTYPE: return "dtype";
    case NEAP_OPT_CHOICE: return "choice";
    case NEAP_OPT_END: break;
  }
  return "none";
}

/* Pushes entry i of "mean|sum|none"; false when there are not so many. */
static bool push_choice(lua_State *L, const char *choices, int64_t i) {
  const char *at = choices;
  for (; i > 0; i--) {
    at = strchr(at, '|');
    if (!at) return false;
    at++;
  }
  lua_pushlstring(L, at, strcspn(at, "|"));
  return true;
}

static void set_choices(lua_State *L, const char *choices) {
  if (!choices) return;
  lua_newtable(L);
  for (int64_t i = 0; push_choice(L, choices, i); i++) lua_rawseti(L, -2, i + 1);
  lua_setfield(L, -2, "choices");
}

/* A number as the option takes it; infinities stand for bounds that are none. */
static void set_number(lua_State *L, const char *key, neap_opt_type type, double x) {
  if (x <= -DBL_MAX || x >= DBL_MAX) return;
  if (type == NEAP_OPT_FLOAT)
    lua_pushnumber(L, x);
  else
    lua_pushinteger(L, (lua_Integer)x);
  lua_setfield(L, -2, key);
}

/* The default as a script would write it: dimensions from 1 on, dtypes and choices by name. */
static void push_default(lua_State *L, const neap_opt_spec *s) {
  const int64_t i = s->type == NEAP_OPT_FLOAT ? 0 : (int64_t)s->def;
  switch (s->type) {
    case NEAP_OPT_BOOL: lua_pushboolean(L, i != 0); break;
    case NEAP_OPT_FLOAT: lua_pushnumber(L, s->def); break;
    case NEAP_OPT_DIM: lua_pushinteger(L, i >= 0 ? i + 1 : i); break;
    case NEAP_OPT_DTYPE: lua_pushstring(L, neap__dtype_name((neap_dtype)i)); break;
    case NEAP_OPT_CHOICE:
      if (!push_choice(L, s->choices, i)) lua_pushnil(L);
      break;
    default: lua_pushinteger(L, i); break;
  }
}

static void push_option(lua_State *L, const neap_opt_spec *s) {
  lua_createtable(L, 0, 7);
  set_string(L, "name", s->name);
  set_string(L, "type", type_name(s->type));
  set_string(L, "doc", s->doc);
  set_flag(L, "required", s->required);
  set_choices(L, s->choices);
  if (s->has_default) {
    push_default(L, s);
    lua_setfield(L, -2, "default");
  }
  if (s->min == 0 && s->max == 0) return;
  set_number(L, "min", s->type, s->min);
  set_number(L, "max", s->type, s->max);
}

static void set_options(lua_State *L, const neap_op *op) {
  lua_newtable(L);
  for (int i = 0; i < NEAP_MAX_OPTS && op->opts[i].type != NEAP_OPT_END; i++) {
    push_option(L, &op->opts[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "options");
}

/* --- ops --------------------------------------------------------------------------------------------- */

static const char *topic_of(const neap_op *op) {
  static const char *const titles[] = {NULL,
#define XX(name, title) title,
                                       NEAP_TOPICS(XX)
#undef XX
  };
  if (op->topic == NEAP_TOPIC_NONE && op->row)
    return titles[op->nondiff ? NEAP_TOPIC_COMPARISON : NEAP_TOPIC_ARITHMETIC];
  return titles[op->topic];
}

/* Rows of elementwise.def may leave it out. */
static const char *args_of(const neap_op *op) {
  if (op->args || !op->row) return op->args;
  if (op->max_in == 1) return op->nondiff ? "x [...] -> [...] bool" : "x [...] -> [...]";
  return op->nondiff ? "a [...], b [...] -> [...] bool" : "a [...], b [...] -> [...]";
}

/* A composite may still have none: its parts decide. */
static const char *gradient_of(const neap_op *op) {
  if (op->nondiff) return "none";
  if (neap__is_composite(op)) return "parts";
  return op->grad ? "yes" : "no";
}

/* Where the rule needs the shapes to answer, "shape". */
static const char *batch_of(const neap_op *op) {
  if (neap__is_composite(op)) return "parts";
  if (op->rule == NEAP_BATCH_MIX) return "mix";
  return op->rule == NEAP_BATCH_ELEMENTWISE ? "samples" : "shape";
}

static const char *precision_of(const neap_op *op) {
  if (neap__is_composite(op)) return "parts";
  return op->precision == NEAP_PREC_CAST ? "cast" : op->precision == NEAP_PREC_KEEP ? "keep" : "follow";
}

static void set_samples(lua_State *L, const neap_op *op) {
  lua_newtable(L);
  for (int i = 0; op->samples && op->samples[i]; i++) {
    lua_pushstring(L, op->samples[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "samples");
}

static void push_record(lua_State *L, const neap_op *op) {
  lua_createtable(L, 0, 16);
  set_string(L, "name", op->name);
  set_string(L, "doc", op->doc);
  set_string(L, "example", op->example);
  set_string(L, "topic", topic_of(op));
  set_string(L, "args", args_of(op));
  set_integer(L, "min_inputs", op->min_in);
  if (op->max_in != 255) set_integer(L, "max_inputs", op->max_in);
  set_integer(L, "results", op->results ? op->results : 1);
  set_flag(L, "method", op->max_in > 0);
  set_flag(L, "random", op->random);
  set_flag(L, "composite", neap__is_composite(op));
  set_string(L, "gradient", gradient_of(op));
  set_string(L, "batch", batch_of(op));
  set_string(L, "precision", precision_of(op));
  set_options(L, op);
  set_samples(L, op);
}

/* op_info(name) -> what its record says; nil when scripts see no op of that name.
 *
 * {name, doc, example, topic, args: as in the record; min_inputs, max_inputs (nil: any number), results, method,
 * random, composite, gradient = "yes" | "no" | "none" (by nature) | "parts" (a composite's), batch = "samples" | "mix"
 * | "shape" | "parts", precision = "cast" | "keep" | "follow" | "parts",
 * options = {{name, type, doc, required, default, min, max, choices}...}, samples = {"f32[2,3]; dim=1"...}} */
static int op_info(lua_State *L) {
  const neap_op *op = neap__op_find(neap__arg_string(L, 1, "op_info", "the name", NULL));
  if (!op || op->internal)
    lua_pushnil(L);
  else
    push_record(L, op);
  return 1;
}

/* op_names() -> names of all ops that scripts see, sorted */
static int op_names(lua_State *L) {
  lua_Integer n = 0;
  lua_newtable(L);
  for (uint32_t i = 0; i < neap__op_count; i++) {
    if (neap__ops[i]->internal) continue;
    lua_pushstring(L, neap__ops[i]->name);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* op_topics() -> titles of all topics, in the order of the reference pages */
static int op_topics(lua_State *L) {
  static const char *const titles[] = {
#define XX(name, title) title,
      NEAP_TOPICS(XX)
#undef XX
  };
  lua_newtable(L);
  for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
    lua_pushstring(L, titles[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

void neap__open_op_info(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"op_info", op_info}, {"op_names", op_names}, {"op_topics", op_topics}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
