/* Writing HDF5 from nested tables. The file is whole or absent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bindings/lua/lua_neap.h"
#include "io/hdf5.h"

#define MAX_DEPTH 64
#define STAGING_BYTES (256u << 10)

/* The writer while tables are walked, which may raise. */
typedef struct neap_lua_writer {
  neap_handle base;
  neap_h5_writer *w;
  void *staging; /* user value 1; NULL where the host reads device memory itself */
} neap_lua_writer;

static void drop(neap_handle *h) {
  neap_lua_writer *w = (neap_lua_writer *)h;
  neap__h5_writer_abort(w->w);
  w->w = NULL;
}

static const neap_class writer_class = {"neap.hdf5.writer", drop};

#define FAIL(L, status, ...) neap__lua_fail(L, status, "hdf5.write", __VA_ARGS__)

/* --- attributes -------------------------------------------------------------------------------------- */

/* Numbers of the list on top as `a` takes them; all integers, or all as floats. */
static void fill_list(lua_State *L, neap_h5_attr *a, const char *path) {
  int list = lua_gettop(L);
  size_t n = lua_rawlen(L, list);
  bool integers = true;
  char text[80];
  for (size_t i = 1; i <= n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, list, (lua_Integer)i);
    if (lua_type(L, -1) != LUA_TNUMBER)
      FAIL(L, NEAP_DTYPE, "%s: attribute '%.60s' has %s at position %zu, expected a number", path, a->name,
           neap__describe(L, -1, text, sizeof text), i);
    integers = integers && lua_isinteger(L, -1);
  }
  void *values = lua_newuserdatauv(L, (n + 1) * 8, 0);
  int64_t *ints = values;
  double *reals = values;
  for (size_t i = 0; i < n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, list, (lua_Integer)i + 1);
    if (integers)
      ints[i] = lua_tointeger(L, -1);
    else
      reals[i] = lua_tonumber(L, -1);
  }
  a->n = n;
  a->kind = integers ? NEAP_H5_ATTR_INTS : NEAP_H5_ATTR_REALS;
  if (integers)
    a->v.ints = ints;
  else
    a->v.reals = reals;
}

static void fill_attr(lua_State *L, neap_h5_attr *a, const char *path) {
  char text[80];
  switch (lua_type(L, -1)) {
    case LUA_TSTRING:
      a->kind = NEAP_H5_ATTR_TEXT;
      a->v.text = lua_tolstring(L, -1, &a->n);
      if (strlen(a->v.text) != a->n) FAIL(L, NEAP_INVALID, "%s: attribute '%.60s' has a zero byte", path, a->name);
      break;
    case LUA_TBOOLEAN:
      a->kind = NEAP_H5_ATTR_INT;
      a->v.i = lua_toboolean(L, -1);
      break;
    case LUA_TNUMBER:
      a->kind = lua_isinteger(L, -1) ? NEAP_H5_ATTR_INT : NEAP_H5_ATTR_REAL;
      if (lua_isinteger(L, -1))
        a->v.i = lua_tointeger(L, -1);
      else
        a->v.f = lua_tonumber(L, -1);
      break;
    case LUA_TTABLE: fill_list(L, a, path); break;
    default:
      FAIL(L, NEAP_DTYPE, "%s: attribute '%.60s' is %s, expected a string, a number, a boolean or a list of numbers",
           path, a->name, neap__describe(L, -1, text, sizeof text));
  }
}

/* --- keys in order ----------------------------------------------------------------------------------- */

typedef struct name {
  const char *text; /* anchored by the table, or on the stack */
  lua_Integer number;
  bool is_number;
} name;

/* Numbers first: files of the same table are the same. */
static int compare(const void *a, const void *b) {
  const name *x = a, *y = b;
  if (x->is_number != y->is_number) return x->is_number ? -1 : 1;
  if (x->is_number) return (x->number > y->number) - (x->number < y->number);
  return strcmp(x->text, y->text);
}

static void check_name(lua_State *L, const char *path, const char *text, size_t n) {
  if (n == 0 || strlen(text) != n || strchr(text, '/') || strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
    FAIL(L, NEAP_INVALID, "%s: '%.60s' cannot be the name of an item", path[0] ? path : "/", text);
}

/* Pushes a block with the sorted keys of the table on top; their number. */
static size_t push_names(lua_State *L, const char *path, name **out) {
  int table = lua_gettop(L);
  size_t n = 0, at = 0;
  char text[80];
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) n++;
  name *names = lua_newuserdatauv(L, (n + 1) * sizeof *names, 0);
  memset(names, 0, (n + 1) * sizeof *names);
  for (lua_pushnil(L); lua_next(L, table) && at < n; lua_pop(L, 1)) {
    name *k = &names[at++];
    int64_t number;
    size_t size;
    if (lua_type(L, -2) == LUA_TSTRING) {
      k->text = lua_tolstring(L, -2, &size);
      check_name(L, path, k->text, size);
    } else if (neap__to_integer(L, -2, &number)) {
      k->number = number;
      k->is_number = true;
    } else {
      FAIL(L, NEAP_INVALID, "%s: a key is %s, expected a name or a whole number", path[0] ? path : "/",
           neap__describe(L, -2, text, sizeof text));
    }
  }
  qsort(names, at, sizeof *names, compare);
  *out = names;
  return at;
}

/* --- items ------------------------------------------------------------------------------------------- */

typedef struct source {
  neap_context *ctx;
  const char *from;
} source;

static neap_status fetch(void *user, size_t offset, void *dst, size_t bytes, neap_error *err) {
  const source *s = user;
  return neap__copy(s->ctx, dst, s->from + offset, bytes, NEAP_COPY_OUT, err);
}

static void write_tensor(lua_State *L, neap_lua_writer *w, const char *path) {
  neap_lua_tensor *t = neap__concrete_check(L, lua_gettop(L), "hdf5.write");
  neap_context *ctx = w->base.lua->ctx;
  neap_desc d = neap__tensor_desc(&t->t);
  neap_error err;
  neap_status st;
  if (!w->staging) {
    st = neap__h5_write(w->w, path, &d, neap__tensor_data(&t->t), &err);
  } else {
    source s = {ctx, neap__tensor_data(&t->t)};
    st = neap__h5_write_from(w->w, path, &d, fetch, &s, w->staging, STAGING_BYTES, &err);
  }
  neap__ok(L, st, &err);
}

static void write_attrs(lua_State *L, neap_lua_writer *w, const char *path) {
  int table = lua_gettop(L);
  name *names;
  neap_error err;
  char text[80];
  const char *shown = path[0] ? path : "/";
  if (!lua_istable(L, table))
    FAIL(L, NEAP_INVALID, "%s: `attributes` is %s, expected a table", shown,
         neap__describe(L, table, text, sizeof text));
  size_t n = push_names(L, path, &names);
  for (size_t i = 0; i < n; i++) {
    neap_h5_attr a = {.name = names[i].text};
    if (names[i].is_number)
      FAIL(L, NEAP_INVALID, "%s: attributes have names, not the number %lld", shown, (long long)names[i].number);
    int top = lua_gettop(L);
    lua_getfield(L, table, names[i].text);
    fill_attr(L, &a, shown);
    neap__ok(L, neap__h5_write_attr(w->w, path, &a, &err), &err);
    lua_settop(L, top);
  }
  lua_settop(L, table);
}

static void write_group(lua_State *L, neap_lua_writer *w, const char *path, int depth);

/* The value is on top. */
static void write_item(lua_State *L, neap_lua_writer *w, const char *path, int depth) {
  char text[80];
  neap_error err;
  if (neap__tensor_test(L, -1)) {
    write_tensor(L, w, path);
  } else if (lua_istable(L, -1)) {
    neap__ok(L, neap__h5_write_group(w->w, path, &err), &err);
    write_group(L, w, path, depth);
  } else {
    FAIL(L, NEAP_DTYPE, "%s is %s, expected a tensor or a table; plain values go under `attributes`", path,
         neap__describe(L, -1, text, sizeof text));
  }
}

/* The table is on top. */
static void write_group(lua_State *L, neap_lua_writer *w, const char *path, int depth) {
  int table = lua_gettop(L);
  name *names;
  luaL_checkstack(L, 12, "groups of a file");
  if (depth > MAX_DEPTH)
    FAIL(L, NEAP_INVALID, "%s: tables are nested deeper than %d levels, or in a circle", path, MAX_DEPTH);
  size_t n = push_names(L, path, &names);
  for (size_t i = 0; i < n; i++) {
    int top = lua_gettop(L);
    if (names[i].is_number) {
      lua_pushfstring(L, "%s%s%I", path, path[0] ? "/" : "", (LUAI_UACINT)names[i].number);
      lua_rawgeti(L, table, names[i].number);
    } else {
      lua_pushfstring(L, "%s%s%s", path, path[0] ? "/" : "", names[i].text);
      lua_pushstring(L, names[i].text);
      lua_rawget(L, table);
    }
    if (!names[i].is_number && strcmp(names[i].text, "attributes") == 0)
      write_attrs(L, w, path);
    else
      write_item(L, w, lua_tostring(L, top + 1), depth + 1);
    lua_settop(L, top);
  }
  lua_settop(L, table);
}

/* --- the file ---------------------------------------------------------------------------------------- */

/* Stack: writer, table. Raises; the writer is the caller's to end. */
static int write_all(lua_State *L) {
  write_group(L, lua_touserdata(L, 1), "", 0);
  return 0;
}

static bool is_expected(lua_State *L) {
  bool expected = false;
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "code");
    expected = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "IO") == 0;
    lua_pop(L, 1);
  }
  return expected;
}

/* write(path, nested table) -> true, or nil, err when the disk refuses. What was at the path stays until the new
 * file is whole. */
static int write_file(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  lua_settop(L, 2);
  const char *path = neap__arg_string(L, 1, "hdf5.write", "the path", NULL);
  neap__arg_table(L, 2, "hdf5.write", "argument 2");
  neap_lua_writer *w = neap__handle_new(L, s, &writer_class, sizeof *w, 1);
  if (!s->ctx->info.host_memory) {
    w->staging = lua_newuserdatauv(L, STAGING_BYTES, 0);
    lua_setiuservalue(L, -2, 1);
  }
  neap_status st = neap__h5_writer_begin(&s->ctx->host, path, &w->w, &err);
  if (st == NEAP_OK) {
    lua_pushcfunction(L, write_all);
    lua_pushvalue(L, 3);
    lua_pushvalue(L, 2);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
      neap__handle_drop(&w->base); /* removes the unfinished file at once */
      if (!is_expected(L)) return lua_error(L);
      lua_pushnil(L);
      lua_insert(L, -2);
      return 2;
    }
    neap_h5_writer *writer = w->w;
    w->w = NULL; /* commit frees it either way */
    st = neap__h5_writer_commit(writer, &err);
  }
  neap__handle_drop(&w->base);
  if (st == NEAP_OK) return lua_pushboolean(L, 1), 1;
  if (st == NEAP_NOMEM) neap__raise(L, &err);
  lua_pushnil(L);
  neap__push_error(L, &err);
  return 2;
}

/* keep(path, older): what is at the path is at `older`, too, and a new file may take its place: at no time is there
 * none. Where a file cannot have two names, it moves. */
static int keep(lua_State *L) {
  const char *path = neap__arg_string(L, 1, "hdf5.keep", "the path", NULL);
  const char *older = neap__arg_string(L, 2, "hdf5.keep", "the older file's path", NULL);
  unlink(older);
  lua_pushboolean(L, link(path, older) == 0 || rename(path, older) == 0);
  return 1;
}

void neap__open_hdf5_write(lua_State *L) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  neap__class_new(L, &writer_class, none, none);
  lua_pushcfunction(L, write_file);
  lua_setfield(L, -2, "write");
  lua_pushcfunction(L, keep);
  lua_setfield(L, -2, "keep");
}
