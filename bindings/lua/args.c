/* Arguments of functions, checked. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

static const char *describe_number(lua_State *L, int index, char *buf, size_t size) {
  if (lua_isinteger(L, index))
    snprintf(buf, size, "%lld", (long long)lua_tointeger(L, index));
  else
    snprintf(buf, size, isnan(lua_tonumber(L, index)) ? "NaN" : "%.14g", lua_tonumber(L, index));
  return buf;
}

const char *neap__describe(lua_State *L, int index, char *buf, size_t size) {
  switch (lua_type(L, index)) {
    case LUA_TNONE:
    case LUA_TNIL: return "nil";
    case LUA_TBOOLEAN: return lua_toboolean(L, index) ? "true" : "false";
    case LUA_TNUMBER: return describe_number(L, index, buf, size);
    case LUA_TSTRING: snprintf(buf, size, "'%.60s'", lua_tostring(L, index)); return buf;
    case LUA_TUSERDATA:
      if (neap__tensor_test(L, index)) return "a tensor";
      break;
    default: break;
  }
  snprintf(buf, size, "a %s", luaL_typename(L, index));
  return buf;
}

bool neap__to_integer(lua_State *L, int index, int64_t *out) {
  int ok = 0;
  *out = 0;
  if (lua_type(L, index) == LUA_TNUMBER) *out = lua_tointegerx(L, index, &ok);
  return ok != 0;
}

int64_t neap__arg_integer(lua_State *L, int index, const char *function, const char *what, int64_t min, int64_t max) {
  int64_t i;
  char text[80];
  if (!neap__to_integer(L, index, &i))
    neap__lua_fail(L, lua_type(L, index) == LUA_TNUMBER ? NEAP_RANGE : NEAP_INVALID, function,
                   "%s is %s, expected a whole number", what, neap__describe(L, index, text, sizeof text));
  if (i < min)
    neap__lua_fail(L, NEAP_RANGE, function, "%s is %lld, expected at least %lld", what, (long long)i, (long long)min);
  if (i > max)
    neap__lua_fail(L, NEAP_RANGE, function, "%s is %lld, expected at most %lld", what, (long long)i, (long long)max);
  return i;
}

double neap__arg_number(lua_State *L, int index, const char *function, const char *what, double min, double max) {
  char text[80];
  if (lua_type(L, index) != LUA_TNUMBER)
    neap__lua_fail(L, NEAP_INVALID, function, "%s is %s, expected a number", what,
                   neap__describe(L, index, text, sizeof text));
  double x = lua_tonumber(L, index);
  if (isnan(x)) neap__lua_fail(L, NEAP_RANGE, function, "%s is NaN, expected a number", what);
  if (!(x >= min && x <= max))
    neap__lua_fail(L, NEAP_RANGE, function, "%s is %.14g, expected a number from %.14g to %.14g", what, x, min, max);
  return x;
}

const char *neap__arg_string(lua_State *L, int index, const char *function, const char *what, size_t *size) {
  char text[80];
  if (lua_type(L, index) != LUA_TSTRING)
    neap__lua_fail(L, NEAP_INVALID, function, "%s is %s, expected a string", what,
                   neap__describe(L, index, text, sizeof text));
  size_t n;
  const char *s = lua_tolstring(L, index, &n);
  /* Who does not ask for the size reads up to the first zero. */
  if (!size && strlen(s) != n)
    neap__lua_fail(L, NEAP_INVALID, function, "%s is '%.40s' and goes on after a zero byte, which cannot be in it",
                   what, s);
  if (size) *size = n;
  return s;
}

void neap__arg_table(lua_State *L, int index, const char *function, const char *what) {
  char text[80];
  if (!lua_istable(L, index))
    neap__lua_fail(L, NEAP_INVALID, function, "%s is %s, expected a table", what,
                   neap__describe(L, index, text, sizeof text));
}

neap_dtype neap__arg_dtype(lua_State *L, int index, const char *function) {
  neap_dtype t;
  const char *name = neap__arg_string(L, index, function, "dtype", NULL);
  if (!neap__dtype_parse(name, &t))
    neap__lua_fail(L, NEAP_DTYPE, function,
                   "there is no dtype '%.40s': fp32, fp64, int64, int32, uint8, bool, fp16 and bf16 are there", name);
  return t;
}

/* Keys of a list are 1 to n. */
static void check_positions(lua_State *L, int index, const char *function, const char *what, int64_t n) {
  char text[80];
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    int64_t k;
    if (!neap__to_integer(L, -2, &k) || k < 1 || k > n)
      neap__lua_fail(L, NEAP_INVALID, function,
                     "%s has the key %s, expected a list; options go in a table of their own", what,
                     neap__describe(L, -2, text, sizeof text));
  }
}

int neap__arg_list(lua_State *L, int index, const char *function, const char *what, int64_t *out, int max) {
  int64_t n = (int64_t)lua_rawlen(L, index);
  char text[80];
  if (n > max)
    neap__lua_fail(L, NEAP_SHAPE, function, "%s has %lld entries, at most %d are possible", what, (long long)n, max);
  check_positions(L, index, function, what, n);
  for (int i = 0; i < (int)n; i++) {
    lua_rawgeti(L, index, i + 1);
    if (!neap__to_integer(L, -1, &out[i]))
      neap__lua_fail(L, lua_type(L, -1) == LUA_TNUMBER ? NEAP_RANGE : NEAP_INVALID, function,
                     "%s has %s at position %d, expected a whole number", what,
                     neap__describe(L, -1, text, sizeof text), i + 1);
    lua_pop(L, 1);
  }
  return (int)n;
}

static void check_dims(lua_State *L, const char *function, const neap_shape *s) {
  for (int i = 0; i < s->ndim; i++)
    if (s->dim[i] < 0)
      neap__lua_fail(L, NEAP_SHAPE, function, "dimension %d of the shape is %lld, expected at least 0", i + 1,
                     (long long)s->dim[i]);
}

int neap__arg_shape(lua_State *L, int first, const char *function, neap_shape *out) {
  int top = lua_gettop(L), at = first;
  char text[80];
  memset(out, 0, sizeof *out);
  if (lua_istable(L, at)) {
    out->ndim = neap__arg_list(L, at++, function, "the shape", out->dim, NEAP_MAX_DIMS);
  } else {
    for (; at <= top && !lua_istable(L, at); at++) {
      if (out->ndim == NEAP_MAX_DIMS) neap__lua_fail(L, NEAP_SHAPE, function, "more than %d dimensions", NEAP_MAX_DIMS);
      snprintf(text, sizeof text, "dimension %d", out->ndim + 1);
      out->dim[out->ndim++] = neap__arg_integer(L, at, function, text, INT64_MIN, INT64_MAX);
    }
  }
  check_dims(L, function, out);
  if (at < top || (at == top && !lua_istable(L, at) && !lua_isnil(L, at)))
    neap__lua_fail(L, NEAP_INVALID, function, "takes a shape and a table of options, got %s as well",
                   neap__describe(L, top, text, sizeof text));
  return at == top && lua_istable(L, at) ? at : 0;
}

/* Is key one of the names in "a|b|c"? */
static bool is_name(const char *names, const char *key) {
  size_t n = strlen(key);
  for (const char *at = names; at; at = strchr(at, '|')) {
    if (*at == '|') at++;
    if (strncmp(at, key, n) == 0 && (at[n] == '|' || at[n] == '\0')) return n > 0;
  }
  return false;
}

bool neap__arg_options(lua_State *L, int index, const char *function, const char *names) {
  char text[80];
  if (index == 0 || lua_isnoneornil(L, index)) return false;
  neap__arg_table(L, index, function, "the last argument");
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
    if (lua_type(L, -2) != LUA_TSTRING || !is_name(names, lua_tostring(L, -2)))
      neap__lua_fail(L, NEAP_INVALID, function, "has no option %s; its options are %s",
                     neap__describe(L, -2, text, sizeof text), names);
  return true;
}

neap_dtype neap__option_dtype(lua_State *L, int index, const char *function, neap_dtype otherwise) {
  if (index == 0 || !lua_istable(L, index)) return otherwise;
  lua_getfield(L, index, "dtype");
  neap_dtype t = lua_isnil(L, -1) ? otherwise : neap__arg_dtype(L, -1, function);
  lua_pop(L, 1);
  return t;
}
