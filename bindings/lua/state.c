/* The engine of a Lua state: where it is found, what keeps it alive, and how the collector learns of device
 * memory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bindings/lua/lua_neap.h"
#include "bindings/lua/open.h"
#include "bindings/lua/scripts.h"

static const char state_key, config_key, globals_key;

#define STEP_BYTES (UINT64_C(1) << 20)
#define LEAST_ALLOWANCE (UINT64_C(64) << 20)

/* User values of the engine's userdata. */
enum { KEEP_PATH = 1, KEEP_CORE, KEEP_MODULE, KEEP_COUNT = KEEP_MODULE };

/* --- handles ----------------------------------------------------------------------------------------- */

void neap__handle_drop(neap_handle *h) {
  if (!h->lua) return;
  h->prev->next = h->next;
  h->next->prev = h->prev;
  h->kind->drop(h);
  h->lua = NULL;
}

static int handle_gc(lua_State *L) {
  neap_handle *h = lua_touserdata(L, 1);
  if (h && lua_rawlen(L, 1) >= sizeof *h) neap__handle_drop(h);
  return 0;
}

void neap__class_new(lua_State *L, const neap_class *kind, const luaL_Reg *methods, const luaL_Reg *meta) {
  lua_newtable(L);
  lua_pushstring(L, kind->name);
  lua_setfield(L, -2, "__name");
  lua_pushcfunction(L, handle_gc);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__gc");
  lua_setfield(L, -2, "__close");
  lua_pushstring(L, kind->name); /* what getmetatable tells: finalizers are not for scripts to call */
  lua_setfield(L, -2, "__metatable");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  luaL_setfuncs(L, meta, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, kind);
}

void *neap__handle_new(lua_State *L, neap_lua *s, const neap_class *kind, size_t size, int user_values) {
  neap_handle *h = lua_newuserdatauv(L, size, user_values);
  memset(h, 0, size);
  h->kind = kind;
  lua_rawgetp(L, LUA_REGISTRYINDEX, kind);
  lua_setmetatable(L, -2);
  h->lua = s;
  h->next = s->list.next;
  h->prev = &s->list;
  h->next->prev = h->prev->next = h;
  return h;
}

void *neap__handle_test(lua_State *L, int index, const neap_class *kind) {
  void *p = lua_touserdata(L, index);
  if (!p || !lua_getmetatable(L, index)) return NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, kind);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? p : NULL;
}

void *neap__handle_check(lua_State *L, int index, const neap_class *kind, const char *function) {
  neap_handle *h = neap__handle_test(L, index, kind);
  char text[80];
  if (!h)
    neap__lua_fail(L, NEAP_INVALID, function, "argument %d is %s, expected a %s", index,
                   neap__describe(L, index, text, sizeof text), kind->name);
  if (!h->lua) neap__lua_fail(L, NEAP_CLOSED, function, "the %s was closed", kind->name);
  return h;
}

/* --- the collector ----------------------------------------------------------------------------------- */

/* Called from inside a reservation that would be refused. Finalizers run here; their errors stay in them. Twice,
 * since what a finalized object refers to is found dead by the next cycle only. */
static bool collect_garbage(void *user) {
  neap_lua *s = user;
  if (s->relieving) return false;
  s->relieving = true;
  lua_gc(s->current, LUA_GCCOLLECT);
  lua_gc(s->current, LUA_GCCOLLECT);
  s->relieving = false;
  return true;
}

void neap__lua_ready(lua_State *L, const neap_lua *s) {
  if (s->relieving)
    neap__lua_fail(L, NEAP_BUSY, NULL, "tensor operations cannot run in a finalizer while memory is being freed");
}

static uint64_t tensor_bytes(neap_context *c) {
  neap_memory_stats stats;
  c->memory->vt->stats(c->memory, &stats);
  return stats.by_owner[NEAP_OWNER_TENSORS];
}

/* Two rules. New bytes count as Lua's own for the collector's pace, which frees what died young. And as much again
 * as was alive after the last full collection brings the next, as Lua's own pause of 200% does: what grew old
 * is missed by the first rule in generational mode. */
void neap__lua_grew(lua_State *L, neap_lua *s, size_t bytes) {
  s->unreported += bytes;
  s->made += bytes;
  if (s->made > s->allowance) {
    lua_gc(L, LUA_GCCOLLECT);
    uint64_t alive = tensor_bytes(s->ctx);
    s->allowance = alive > LEAST_ALLOWANCE ? alive : LEAST_ALLOWANCE;
    s->made = s->unreported = 0;
  } else if (s->unreported >= STEP_BYTES) {
    uint64_t kilobytes = s->unreported / 1024;
    s->unreported = 0;
    lua_gc(L, LUA_GCSTEP, kilobytes > 1 << 20 ? 1 << 20 : (int)kilobytes);
  }
}

/* --- the engine's life ------------------------------------------------------------------------------- */

/* Whatever the order in which userdata are finalized, nothing outlives the context: all of it is dropped first, and
 * finalizers that come later find nothing left to do. */
static void close_engine(neap_lua *s) {
  if (!s->ctx) return;
  neap_context *ctx = s->ctx;
  neap__updates_drop(s);
  while (s->list.next != &s->list) neap__handle_drop(s->list.next);
  s->trace = NULL;
  if (ctx->pressure_user == s) {
    ctx->on_pressure = NULL;
    ctx->pressure_user = NULL;
  }
  s->ctx = NULL;
  if (s->owns) neap__context_destroy(ctx);
}

static int engine_gc(lua_State *L) {
  neap_lua *s = lua_touserdata(L, 1);
  if (s) close_engine(s);
  return 0;
}

static neap_lua *find_engine(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
  neap_lua *s = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

neap_lua *neap__lua_get(lua_State *L) {
  neap_lua *s = find_engine(L);
  if (!s || !s->ctx) neap__lua_fail(L, NEAP_CLOSED, NULL, "the engine of this Lua state was closed");
  return s;
}

void neap__lua_set_path(lua_State *L, neap_lua *s, int index) {
  index = lua_absindex(L, index);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
  lua_pushvalue(L, index);
  lua_setiuservalue(L, -2, KEEP_PATH);
  lua_pop(L, 1);
  s->path = lua_tostring(L, index);
}

void neap__lua_close(lua_State *L) {
  if (!lua_checkstack(L, 2)) return;
  neap_lua *s = find_engine(L);
  if (s) close_engine(s);
}

static lua_State *main_thread(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *main = lua_tothread(L, -1);
  lua_pop(L, 1);
  return main;
}

/* Raises memory errors only; until it returns the context is the caller's. */
static void make_engine(lua_State *L, neap_context *ctx, bool owns) {
  neap_lua *s = lua_newuserdatauv(L, sizeof *s, KEEP_COUNT);
  memset(s, 0, sizeof *s);
  s->list.next = s->list.prev = &s->list;
  s->path = "";
  s->allowance = LEAST_ALLOWANCE;
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, engine_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "neap.engine");
  lua_setfield(L, -2, "__name");
  lua_setmetatable(L, -2);
  s->main = s->current = main_thread(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
  s->ctx = ctx;
  s->owns = owns;
  ctx->on_pressure = collect_garbage;
  ctx->pressure_user = s;
  neap__memory_begin(L, s);
}

/* --- modules ----------------------------------------------------------------------------------------- */

static void push_core(lua_State *L) {
  lua_newtable(L);
  neap__open_error(L);
  neap__open_tensor(L);
  neap__open_make(L);
  neap__open_random(L);
  neap__open_trace(L);
  neap__open_custom(L);
  neap__open_op_info(L);
  neap__open_graph(L);
  neap__open_gradient(L);
  neap__open_snapshot(L);
  neap__open_program(L);
  neap__open_optimizer(L);
  neap__open_update(L);
  neap__open_memory(L);
  neap__open_host(L);
  neap__open_hdf5(L);
}

/* There is one core to an engine: scripts may be loaded anew, the classes of tensors that are there may not. */
static int open_core(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
  if (lua_getiuservalue(L, -1, KEEP_CORE) != LUA_TNIL) return 1;
  push_core(L);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, -4, KEEP_CORE);
  return 1;
}

/* Upvalue 1: the script. Chunk names begin with "=neap.", which tells the user's lines from ours. */
static int load_script(lua_State *L) {
  const neap_script *script = lua_touserdata(L, lua_upvalueindex(1));
  const char *name = strcmp(script->name, "neap") == 0 ? "neap.init" : script->name;
  lua_pushfstring(L, "=%s", name);
  if (luaL_loadbufferx(L, script->text, script->size, lua_tostring(L, -1), "t") != LUA_OK) return lua_error(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &globals_key) == LUA_TTABLE)
    lua_setupvalue(L, -2, 1);
  else
    lua_pop(L, 1);
  lua_pushstring(L, script->name);
  lua_call(L, 1, 1);
  return 1;
}

static void preload_scripts(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open_core);
  lua_setfield(L, -2, "neap.core");
  for (const neap_script *s = neap__scripts; s->name; s++) {
    if (strcmp(s->name, "neap") == 0) continue; /* is what is being opened */
    lua_pushlightuserdata(L, (void *)(uintptr_t)s);
    lua_pushcclosure(L, load_script, 1);
    lua_setfield(L, -2, s->name);
  }
  lua_pop(L, 1);
}

static const neap_script *main_script(void) {
  const neap_script *s = neap__scripts;
  while (s->name && strcmp(s->name, "neap") != 0) s++;
  return s->name ? s : NULL;
}

/* Runs the standard library's main script and pushes what it returns. */
static void load_module(lua_State *L) {
  const neap_script *script = main_script();
  if (!script) neap__lua_fail(L, NEAP_INTERNAL, NULL, "the standard library is not part of this build");
  preload_scripts(L);
  lua_pushlightuserdata(L, (void *)(uintptr_t)script);
  lua_pushcclosure(L, load_script, 1);
  lua_call(L, 0, 1);
}

/* Pushes the module, loaded at the first call. */
static void push_module(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
  if (lua_getiuservalue(L, -1, KEEP_MODULE) == LUA_TNIL) {
    lua_pop(L, 1);
    load_module(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, -3, KEEP_MODULE);
  }
  lua_remove(L, -2);
}

typedef struct opening {
  neap_context *ctx;
  bool owns, owned; /* owned: the state's now */
} opening;

static int open_protected(lua_State *L) {
  opening *o = lua_touserdata(L, 1);
  luaL_checkversion(L);
  neap_lua *s = find_engine(L);
  if (s && s->ctx && s->ctx != o->ctx)
    neap__lua_fail(L, NEAP_INVALID, NULL, "this Lua state has another engine already");
  if (!s || !s->ctx) {
    make_engine(L, o->ctx, o->owns);
    s = find_engine(L);
  }
  o->owned = s->owns;
  push_module(L);
  return 1;
}

static neap_status status_of(int result) {
  if (result == LUA_OK) return NEAP_OK;
  return result == LUA_ERRMEM ? NEAP_NOMEM : NEAP_SCRIPT;
}

neap_status neap__lua_open(lua_State *L, neap_context *ctx, bool owns) {
  opening o = {ctx, owns, false};
  int result = LUA_ERRMEM;
  if (lua_checkstack(L, 4)) {
    lua_pushcfunction(L, open_protected);
    lua_pushlightuserdata(L, &o);
    result = lua_pcall(L, 1, 1, 0);
  }
  if (owns && !o.owned) neap__context_destroy(ctx);
  return status_of(result);
}

void neap__lua_set_globals(lua_State *L) { lua_rawsetp(L, LUA_REGISTRYINDEX, &globals_key); }

void neap__lua_configure(lua_State *L, const neap_config *config) {
  neap_config *kept = lua_newuserdatauv(L, sizeof *kept, 1);
  *kept = *config;
  if (config->device) {
    kept->device = lua_pushstring(L, config->device);
    lua_setiuservalue(L, -2, 1);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &config_key);
}

/* `require` comes here when it knows of no module: the library is loaded anew, over the engine that may be there. */
int luaopen_neap(lua_State *L) {
  luaL_checkversion(L);
  neap_lua *s = find_engine(L);
  if (!s || !s->ctx) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &config_key);
    neap_context *ctx = NULL;
    neap_error err;
    neap__ok(L, neap__context_create(lua_touserdata(L, -1), &ctx, &err), &err);
    if (neap__lua_open(L, ctx, true) != NEAP_OK) return lua_error(L);
    return 1;
  }
  load_module(L);
  return 1;
}
