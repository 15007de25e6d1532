/* Reading HDF5: whole files as nested tables, and datasets row by row. */
#include "io/hdf5.h"

#include <stdio.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

#define CACHE_BYTES (UINT64_C(64) << 20) /* of decompressed chunks a file keeps, unless said */
#define MAX_DEPTH 64                     /* of groups; links can lead in circles */
#define STAGING_BYTES (256u << 10)

typedef struct neap_lua_file {
  neap_handle base;
  neap_h5_file *f;
} neap_lua_file;

/* A dataset of an open file, which user value 1 keeps. */
typedef struct neap_lua_dataset {
  neap_handle base;
  neap_lua_file *file;
  neap_h5_item *item;
} neap_lua_dataset;

static void drop_file(neap_handle *h) {
  neap_lua_file *f = (neap_lua_file *)h;
  neap__h5_close(f->f);
  f->f = NULL;
}

static void drop_dataset(neap_handle *h) { ((neap_lua_dataset *)h)->item = NULL; }

static const neap_class file_class = {"neap.hdf5.file", drop_file};
static const neap_class dataset_class = {"neap.hdf5.dataset", drop_dataset};

/* What a file is like is no mistake of the script's: nil, err. Lack of memory and a failing device are raised. */
static int give_up(lua_State *L, const neap_error *err) {
  if (err->status == NEAP_NOMEM || err->status == NEAP_OOM || err->status == NEAP_DEVICE) neap__raise(L, err);
  lua_pushnil(L);
  neap__push_error(L, err);
  return 2;
}

/* --- opening ----------------------------------------------------------------------------------------- */

static uint64_t get_cache(lua_State *L) {
  uint64_t bytes = CACHE_BYTES;
  if (!neap__arg_options(L, 2, "hdf5.open", "cache")) return bytes;
  if (lua_getfield(L, 2, "cache") != LUA_TNIL)
    bytes = (uint64_t)neap__arg_integer(L, lua_gettop(L), "hdf5.open", "cache", 0, INT64_MAX);
  lua_pop(L, 1);
  return bytes;
}

static neap_status push_file(lua_State *L, neap_lua *s, const char *path, uint64_t cache, neap_error *err) {
  neap_lua_file *f = neap__handle_new(L, s, &file_class, sizeof *f, 0);
  return neap__h5_open(&s->ctx->host, path, cache, &f->f, err);
}

/* open(path[, {cache = bytes}]) -> file, or nil, err */
static int open_file(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  const char *path = neap__arg_string(L, 1, "hdf5.open", "the path", NULL);
  uint64_t cache = get_cache(L);
  return push_file(L, s, path, cache, &err) == NEAP_OK ? 1 : give_up(L, &err);
}

/* --- datasets as tensors ----------------------------------------------------------------------------- */

typedef struct sink {
  neap_context *ctx;
  char *to;
} sink;

static neap_status put(void *user, size_t offset, const void *data, size_t bytes, neap_error *err) {
  const sink *k = user;
  return neap__copy(k->ctx, k->to + offset, data, bytes, NEAP_COPY_IN, err);
}

/* Pushes a tensor whatever comes of it. */
static neap_status push_dataset(lua_State *L, neap_lua *s, neap_h5_item *item, neap_error *err) {
  neap_lua_tensor *t = neap__push_made(L, s, &item->desc, "hdf5");
  size_t bytes = neap__desc_bytes(&item->desc);
  if (s->ctx->info.host_memory) return neap__h5_read(item, neap__tensor_data(&t->t), bytes, err);
  void *staging = lua_newuserdatauv(L, STAGING_BYTES, 0);
  sink k = {s->ctx, neap__tensor_data(&t->t)};
  neap_status st = neap__h5_stream(item, staging, STAGING_BYTES, put, &k, err);
  lua_pop(L, 1);
  return st;
}

static void push_list(lua_State *L, const neap_h5_attr *a) {
  lua_createtable(L, (int)a->n, 0);
  for (size_t i = 0; i < a->n; i++) {
    if (a->kind == NEAP_H5_ATTR_INTS)
      lua_pushinteger(L, a->v.ints[i]);
    else
      lua_pushnumber(L, a->v.reals[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static bool push_attr(lua_State *L, const neap_h5_attr *a) {
  switch (a->kind) {
    case NEAP_H5_ATTR_TEXT: lua_pushlstring(L, a->v.text, a->n); return true;
    case NEAP_H5_ATTR_INT: lua_pushinteger(L, a->v.i); return true;
    case NEAP_H5_ATTR_REAL: lua_pushnumber(L, a->v.f); return true;
    case NEAP_H5_ATTR_INTS:
    case NEAP_H5_ATTR_REALS: push_list(L, a); return true;
    default: return false; /* of a type that has no counterpart */
  }
}

/* Pushes a table of the item's attributes, or nil when it has none. */
static neap_status push_attrs(lua_State *L, neap_h5_item *item, neap_error *err) {
  const neap_h5_attr *attrs;
  uint32_t n;
  neap_status st = neap__h5_attrs(item, &attrs, &n, err);
  if (st != NEAP_OK || n == 0) return lua_pushnil(L), st;
  lua_createtable(L, 0, (int)n);
  for (uint32_t i = 0; i < n; i++)
    if (push_attr(L, &attrs[i])) lua_setfield(L, -2, attrs[i].name);
  return NEAP_OK;
}

static neap_status push_item(lua_State *L, neap_lua *s, neap_h5_item *item, int depth, neap_error *err);

/* Puts the group's attributes into its table, on top. */
static neap_status set_attrs(lua_State *L, neap_h5_item *group, neap_error *err) {
  neap_status st = push_attrs(L, group, err);
  bool some = lua_istable(L, -1), taken = lua_getfield(L, -2, "attributes") != LUA_TNIL;
  lua_pop(L, 1);
  if (st == NEAP_OK && some && taken)
    st = neap__fail(err, NEAP_UNSUPPORTED, "'%s' has attributes and an item of the name `attributes`", group->path);
  if (st == NEAP_OK && some)
    lua_setfield(L, -2, "attributes");
  else
    lua_pop(L, 1);
  return st;
}

/* Pushes a table whatever comes of it, as everything here. */
static neap_status push_group(lua_State *L, neap_lua *s, neap_h5_item *group, int depth, neap_error *err) {
  neap_h5_item *const *children;
  uint32_t n;
  luaL_checkstack(L, 8, "groups of a file");
  lua_newtable(L);
  if (depth > MAX_DEPTH)
    return neap__fail(err, NEAP_CORRUPT, "%s: groups are nested deeper than %d", group->path, MAX_DEPTH);
  neap_status st = neap__h5_children(group, &children, &n, err);
  for (uint32_t i = 0; i < n && st == NEAP_OK; i++) {
    st = push_item(L, s, children[i], depth + 1, err);
    lua_setfield(L, -2, children[i]->name);
  }
  if (st == NEAP_OK) st = set_attrs(L, group, err);
  return st;
}

static neap_status push_text(lua_State *L, neap_h5_item *item, neap_error *err) {
  const char *text = "";
  size_t n = 0;
  neap_status st = neap__h5_read_text(item, &text, &n, err);
  lua_pushlstring(L, text, st == NEAP_OK ? n : 0);
  return st;
}

static neap_status push_item(lua_State *L, neap_lua *s, neap_h5_item *item, int depth, neap_error *err) {
  neap_status st = neap__h5_resolve(item, err);
  if (st != NEAP_OK) return lua_pushnil(L), st;
  switch (item->kind) {
    case NEAP_H5_GROUP: return push_group(L, s, item, depth, err);
    case NEAP_H5_DATASET: return push_dataset(L, s, item, err);
    case NEAP_H5_STRING: return push_text(L, item, err);
    default: return lua_pushnil(L), neap__fail(err, NEAP_INTERNAL, "'%s' is an unresolved link", item->path);
  }
}

/* read(path) -> nested table of tensors, strings, and tables of attributes under `attributes`; or nil, err */
static int read_file(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  const char *path = neap__arg_string(L, 1, "hdf5.read", "the path", NULL);
  if (push_file(L, s, path, CACHE_BYTES, &err) != NEAP_OK) return give_up(L, &err);
  neap_lua_file *f = lua_touserdata(L, -1);
  neap_status st = push_group(L, s, neap__h5_root(f->f), 0, &err);
  neap__handle_drop(&f->base);
  return st == NEAP_OK ? 1 : give_up(L, &err);
}

/* --- parts of a file --------------------------------------------------------------------------------- */

static neap_lua_file *check_file(lua_State *L, const char *function) {
  return neap__handle_check(L, 1, &file_class, function);
}

/* file:dataset(path) -> dataset, or nil, err */
static int get_dataset(lua_State *L) {
  neap_lua_file *f = check_file(L, "hdf5.dataset");
  neap_error err;
  neap_h5_item *item;
  const char *path = neap__arg_string(L, 2, "hdf5.dataset", "the path", NULL);
  if (neap__h5_find(neap__h5_root(f->f), path, &item, &err) != NEAP_OK) return give_up(L, &err);
  if (item->kind != NEAP_H5_DATASET) {
    neap__fail(&err, NEAP_NOT_FOUND, "%s: '%.100s' is a %s, expected a dataset", neap__h5_path(f->f), path,
               item->kind == NEAP_H5_GROUP ? "group" : "string");
    return give_up(L, &err);
  }
  neap_lua_dataset *d = neap__handle_new(L, f->base.lua, &dataset_class, sizeof *d, 1);
  d->file = f;
  d->item = item;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static void add_paths(lua_State *L, neap_h5_item *group, int depth) {
  neap_h5_item *const *children;
  uint32_t n;
  neap_error err;
  luaL_checkstack(L, 4, "items of a file");
  neap__ok(L, neap__h5_children(group, &children, &n, &err), &err);
  for (uint32_t i = 0; i < n; i++) {
    neap__ok(L, neap__h5_resolve(children[i], &err), &err);
    if (children[i]->kind == NEAP_H5_GROUP && depth < MAX_DEPTH) {
      add_paths(L, children[i], depth + 1);
    } else {
      lua_pushstring(L, children[i]->path);
      lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
  }
}

/* file:items() -> paths of datasets and strings, in the file's order */
static int items(lua_State *L) {
  neap_lua_file *f = check_file(L, "hdf5.items");
  lua_newtable(L);
  add_paths(L, neap__h5_root(f->f), 0);
  return 1;
}

/* file:attributes([path]) -> table, or nil, err */
static int attributes(lua_State *L) {
  neap_lua_file *f = check_file(L, "hdf5.attributes");
  neap_error err;
  neap_h5_item *item = neap__h5_root(f->f);
  neap_status st = NEAP_OK;
  if (!lua_isnoneornil(L, 2)) {
    const char *path = neap__arg_string(L, 2, "hdf5.attributes", "the path", NULL);
    if (*path) st = neap__h5_find(item, path, &item, &err);
  }
  if (st == NEAP_OK) st = push_attrs(L, item, &err);
  if (st != NEAP_OK) return give_up(L, &err);
  if (lua_isnil(L, -1)) lua_newtable(L);
  return 1;
}

static int close_file(lua_State *L) {
  neap_lua_file *f = neap__handle_test(L, 1, &file_class);
  if (f) neap__handle_drop(&f->base);
  return 0;
}

/* --- rows of a dataset ------------------------------------------------------------------------------- */

static neap_lua_dataset *check_open(lua_State *L, const char *function) {
  neap_lua_dataset *d = neap__handle_check(L, 1, &dataset_class, function);
  if (!d->file->base.lua) neap__lua_fail(L, NEAP_CLOSED, function, "the file of the dataset was closed");
  return d;
}

/* dataset:read() -> tensor: all of it, with its checksum held against the file's, which rows are not */
static int read_dataset(lua_State *L) {
  neap_lua_dataset *d = check_open(L, "hdf5.read");
  neap_error err;
  neap__ok(L, push_dataset(L, d->base.lua, d->item, &err), &err);
  return 1;
}

static neap_lua_dataset *check_dataset(lua_State *L, const char *function) {
  neap_lua_dataset *d = check_open(L, function);
  if (d->item->desc.shape.ndim == 0)
    neap__lua_fail(L, NEAP_SHAPE, function, "'%s' is a scalar, it has no rows", d->item->path);
  return d;
}

/* Rows of a dataset on their way into a tensor: listed ones, or from `start` on. 0-based. */
typedef struct rows {
  neap_h5_item *item;
  const int64_t *list;
  int64_t start;
} rows;

static neap_status read_some(const rows *r, int64_t from, int64_t n, void *dst, size_t row_bytes, neap_error *err) {
  size_t bytes = (size_t)n * row_bytes;
  return r->list ? neap__h5_read_index(r->item, r->list + from, (size_t)n, dst, bytes, err)
                 : neap__h5_read_rows(r->item, r->start + from, n, dst, bytes, err);
}

/* Device memory that the host cannot reach is filled through a buffer of some rows. */
static void read_rows(lua_State *L, neap_lua *s, const rows *r, int64_t n, neap_lua_tensor *t, size_t row_bytes) {
  char *to = neap__tensor_data(&t->t);
  neap_error err;
  if (n == 0 || row_bytes == 0) return;
  if (s->ctx->info.host_memory) {
    neap__ok(L, read_some(r, 0, n, to, row_bytes, &err), &err);
    return;
  }
  int64_t some = row_bytes < STAGING_BYTES ? (int64_t)(STAGING_BYTES / row_bytes) : 1;
  char *staging = lua_newuserdatauv(L, (size_t)some * row_bytes, 0);
  for (int64_t at = 0; at < n; at += some) {
    int64_t now = n - at < some ? n - at : some;
    neap__ok(L, read_some(r, at, now, staging, row_bytes, &err), &err);
    neap__ok(L, neap__copy(s->ctx, to + (size_t)at * row_bytes, staging, (size_t)now * row_bytes, NEAP_COPY_IN, &err),
             &err);
  }
  lua_pop(L, 1);
}

static int push_rows(lua_State *L, neap_lua_dataset *d, const rows *r, int64_t n) {
  neap_desc desc = d->item->desc;
  desc.shape.dim[0] = 1;
  size_t row_bytes = neap__desc_bytes(&desc);
  desc.shape.dim[0] = n;
  neap_lua_tensor *t = neap__push_made(L, d->base.lua, &desc, "hdf5");
  read_rows(L, d->base.lua, r, n, t, row_bytes);
  return 1;
}

/* dataset:rows(start, count) -> tensor; start is 1-based */
static int get_rows(lua_State *L) {
  neap_lua_dataset *d = check_dataset(L, "hdf5.rows");
  int64_t size = d->item->desc.shape.dim[0];
  int64_t start = neap__arg_integer(L, 2, "hdf5.rows", "the first row", 1, size + 1);
  int64_t count = neap__arg_integer(L, 3, "hdf5.rows", "the number of rows", 0, size - start + 1);
  rows r = {d->item, NULL, start - 1};
  return push_rows(L, d, &r, count);
}

/* dataset:gather({3, 1, 2}) -> tensor of those rows in that order; 1-based */
static int gather(lua_State *L) {
  neap_lua_dataset *d = check_dataset(L, "hdf5.gather");
  int64_t size = d->item->desc.shape.dim[0];
  char what[64];
  neap__arg_table(L, 2, "hdf5.gather", "the list of rows");
  int64_t n = (int64_t)lua_rawlen(L, 2);
  int64_t *list = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *list, 0);
  for (int64_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    snprintf(what, sizeof what, "row %lld of the list", (long long)i + 1);
    list[i] = neap__arg_integer(L, lua_gettop(L), "hdf5.gather", what, 1, size) - 1;
    lua_pop(L, 1);
  }
  rows r = {d->item, list, 0};
  return push_rows(L, d, &r, n);
}

static void push_shape(lua_State *L, const neap_shape *s) {
  lua_createtable(L, s->ndim, 0);
  for (int i = 0; i < s->ndim; i++) {
    lua_pushinteger(L, s->dim[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Upvalue 1: the methods. */
static int index_dataset(lua_State *L) {
  const char *key = neap__arg_string(L, 2, "hdf5.dataset", "the key", NULL);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  neap_lua_dataset *d = neap__handle_check(L, 1, &dataset_class, "hdf5.dataset");
  if (!d->file->base.lua) neap__lua_fail(L, NEAP_CLOSED, "hdf5.dataset", "the file of the dataset was closed");
  if (strcmp(key, "shape") == 0)
    push_shape(L, &d->item->desc.shape);
  else if (strcmp(key, "dtype") == 0)
    lua_pushstring(L, neap__dtype_name(d->item->desc.dtype));
  else if (strcmp(key, "path") == 0)
    lua_pushstring(L, d->item->path);
  return 1;
}

static void open_dataset(lua_State *L) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg methods[] = {{"rows", get_rows}, {"gather", gather}, {"read", read_dataset}, {NULL, NULL}};
  neap__class_new(L, &dataset_class, none, none);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &dataset_class);
  luaL_newlib(L, methods);
  lua_pushcclosure(L, index_dataset, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

void neap__open_hdf5(lua_State *L) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"dataset", get_dataset}, {"items", items}, {"attributes", attributes}, {"close", close_file}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"read", read_file}, {"open", open_file}, {NULL, NULL}};
  neap__class_new(L, &file_class, methods, none);
  open_dataset(L);
  luaL_newlib(L, functions);
  neap__open_hdf5_write(L);
  lua_setfield(L, -2, "hdf5");
}
