/* neap.on_tick and neap.on_prepare: what scripts do within a host's frame. */
#include "bindings/lua/lua_host.h"

#include <string.h>

static const char host_key;

/* User values of the host's userdata. */
enum { KEEP_TICKERS = 1, KEEP_PREPARERS, KEEP_OPTIONS, KEEP_COUNT = KEEP_OPTIONS };

static void drop(neap_handle *base) {
  neap_lua_host *h = (neap_lua_host *)base;
  neap__exports_drop(h);
}

static const neap_class host_class = {"neap.host", drop};

/* Pushes it. */
static neap_lua_host *push_host(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &host_key);
  neap_lua_host *h = neap__handle_test(L, -1, &host_class);
  if (h && h->base.lua) return h;
  lua_pop(L, 1);
  h = neap__handle_new(L, s, &host_class, sizeof *h, KEEP_COUNT);
  h->patience = 1;
  lua_newtable(L);
  lua_setiuservalue(L, -2, KEEP_TICKERS);
  lua_newtable(L);
  lua_setiuservalue(L, -2, KEEP_PREPARERS);
  lua_createtable(L, 0, 1);
  lua_setiuservalue(L, -2, KEEP_OPTIONS);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &host_key);
  return h;
}

neap_lua_host *neap__lua_host(lua_State *L) {
  neap_lua_host *h = push_host(L);
  lua_pop(L, 1); /* the registry keeps it */
  return h;
}

/* --- registering ------------------------------------------------------------------------------------- */

/* Whether the value at index has the method; pushes nothing. */
static bool has_method(lua_State *L, int index, const char *name) {
  if (!lua_istable(L, index) && !lua_isuserdata(L, index)) return false;
  bool found = lua_getfield(L, index, name) != LUA_TNIL;
  lua_pop(L, 1);
  return found;
}

/* Adds the value at 1 to a list, once. */
static void add(lua_State *L, int list) {
  push_host(L);
  lua_getiuservalue(L, -1, list);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  bool known = false;
  for (lua_Integer i = 1; i <= n && !known; i++) {
    lua_rawgeti(L, -1, i);
    known = lua_rawequal(L, 1, -1);
    lua_pop(L, 1);
  }
  if (known) return;
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, n + 1);
}

/* on_tick(function(budget_ms) -> state) or on_tick(object with step(self, {budget_ms =})). Returns it. */
static int on_tick(lua_State *L) {
  char text[80];
  lua_settop(L, 1);
  if (!lua_isfunction(L, 1) && !has_method(L, 1, "step"))
    neap__lua_fail(L, NEAP_INVALID, "on_tick", "argument 1 is %s, expected a function or an object with a step method",
                   neap__describe(L, 1, text, sizeof text));
  add(L, KEEP_TICKERS);
  if (has_method(L, 1, "prepare")) neap__lua_host(L)->due = true;
  lua_settop(L, 1);
  return 1;
}

static int on_prepare(lua_State *L) {
  char text[80];
  lua_settop(L, 1);
  if (!lua_isfunction(L, 1))
    neap__lua_fail(L, NEAP_INVALID, "on_prepare", "argument 1 is %s, expected a function",
                   neap__describe(L, 1, text, sizeof text));
  add(L, KEEP_PREPARERS);
  neap__lua_host(L)->due = true;
  lua_settop(L, 1);
  return 1;
}

/* Takes the value at 1 off a list. */
static bool forget(lua_State *L, int list) {
  push_host(L);
  lua_getiuservalue(L, -1, list);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1), kept = 0;
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    if (lua_rawequal(L, 1, -1))
      lua_pop(L, 1);
    else
      lua_rawseti(L, -2, ++kept);
  }
  for (lua_Integer i = kept + 1; i <= n; i++) {
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  lua_pop(L, 2);
  return kept < n;
}

/* off_tick(what was registered) -> whether it was. */
static int off_tick(lua_State *L) {
  lua_settop(L, 1);
  lua_pushboolean(L, forget(L, KEEP_TICKERS));
  return 1;
}

/* --- ticking ----------------------------------------------------------------------------------------- */

typedef struct frame {
  neap_lua *s;
  neap_lua_host *h;
  int list, options; /* stack indices */
  lua_Integer n;     /* registered */
  double end, slowest;
  int waiting, stopped, asked;
  bool prepare;
} frame;

/* A word that it returns, or has as field `state` of a table, says what the engine cannot see. */
static void note_answer(lua_State *L, frame *f) {
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "state");
    lua_replace(L, -2);
  }
  const char *word = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  if (strcmp(word, "waiting") == 0) f->waiting++;
  if (strcmp(word, "stopped") == 0) f->stopped++;
  if (strcmp(word, "prepare") == 0) f->prepare = true;
  lua_pop(L, 1);
}

/* Asks the ticker at position k with `seconds` to use. */
static void ask(lua_State *L, frame *f, lua_Integer k, double seconds) {
  double began = neap__clock();
  lua_rawgeti(L, f->list, k);
  if (lua_isfunction(L, -1)) {
    lua_pushnumber(L, seconds * 1e3);
    lua_call(L, 1, 1);
  } else {
    lua_getfield(L, -1, "step");
    lua_insert(L, -2);
    lua_pushnumber(L, seconds * 1e3);
    lua_setfield(L, f->options, "budget_ms");
    lua_pushvalue(L, f->options);
    lua_call(L, 2, 1);
  }
  note_answer(L, f);
  double took = neap__clock() - began;
  if (took > f->slowest) f->slowest = took;
  f->asked++;
}

/* Whether the next slice of the unfinished update fits into `left`. When it does not, the prediction loses a tenth
 * for the next time: the one slow moment that it may come from does not stop training for good. */
static bool fits(frame *f, double left) {
  double next = neap__updates_next(f->s) * f->h->patience;
  if (next <= left) {
    f->h->patience = 1;
    return true;
  }
  f->h->patience *= 0.9;
  return false;
}

/* In turn, while there is time and someone makes progress. Only one update can be unfinished, so whoever has begun
 * one is asked until it is committed. */
static void run_frame(lua_State *L, frame *f) {
  lua_Integer idle = 0;
  /* What is asked may register others, or take itself off the list. */
  while (idle < (f->n = (lua_Integer)lua_rawlen(L, f->list))) {
    double left = f->end - neap__clock();
    bool running = neap__updates_running(f->s);
    if (f->asked && left < f->slowest) return;
    if (running && !fits(f, left)) return;
    uint64_t before = f->s->ctx->updates;
    lua_Integer k = f->h->turn++ % f->n; /* one that raises loses its turn */
    ask(L, f, k + 1, left > 0 ? left : 0);
    idle = f->s->ctx->updates > before ? 0 : idle + 1;
    if (!neap__updates_running(f->s)) continue;
    f->h->turn = k;
    return;
  }
}

static neap_tick_state state_of(const frame *f, uint32_t commits, bool running) {
  if (commits) return NEAP_TICK_COMMITTED;
  if (running) return NEAP_TICK_UPDATING;
  if (f->prepare) return NEAP_TICK_PREPARE;
  if (f->waiting) return NEAP_TICK_WAITING;
  return f->stopped && f->stopped == f->asked ? NEAP_TICK_STOPPED : NEAP_TICK_IDLE;
}

void neap__lua_tick(lua_State *L, double seconds, neap_lua_tick *out) {
  frame f = {.s = neap__lua_get(L), .end = neap__clock() + seconds};
  *out = (neap_lua_tick){.state = NEAP_TICK_IDLE};
  f.h = push_host(L);
  lua_getiuservalue(L, -1, KEEP_TICKERS);
  f.list = lua_gettop(L);
  lua_getiuservalue(L, -2, KEEP_OPTIONS);
  f.options = lua_gettop(L);
  f.n = (lua_Integer)lua_rawlen(L, f.list);
  if (f.n == 0) return;
  if (f.h->due) {
    f.h->due = false;
    out->state = NEAP_TICK_PREPARE;
    return;
  }
  uint64_t before = f.s->ctx->updates;
  run_frame(L, &f);
  bool running = neap__updates_running(f.s);
  out->commits = (uint32_t)(f.s->ctx->updates - before);
  out->state = state_of(&f, out->commits, running);
  out->next = running ? neap__updates_next(f.s) * f.h->patience : 0;
}

/* --- preparing --------------------------------------------------------------------------------------- */

void neap__lua_prepare(lua_State *L) {
  neap_lua_host *h = push_host(L);
  lua_getiuservalue(L, -1, KEEP_PREPARERS);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    lua_call(L, 0, 0);
  }
  lua_getiuservalue(L, -2, KEEP_TICKERS);
  n = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    if (has_method(L, lua_gettop(L), "prepare")) {
      lua_getfield(L, -1, "prepare");
      lua_insert(L, -2);
      lua_call(L, 1, 0);
    } else {
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 3);
  h->due = false;
}

void neap__lua_prepare_due(lua_State *L) {
  neap_lua_host *h = push_host(L);
  lua_getiuservalue(L, -1, KEEP_PREPARERS);
  h->due = lua_rawlen(L, -1) > 0;
  lua_getiuservalue(L, -2, KEEP_TICKERS);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= n && !h->due; i++) {
    lua_rawgeti(L, -1, i);
    h->due = has_method(L, lua_gettop(L), "prepare");
    lua_pop(L, 1);
  }
  lua_pop(L, 3);
}

void neap__open_host(lua_State *L) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"on_tick", on_tick}, {"off_tick", off_tick}, {"on_prepare", on_prepare}, {"export", neap__export}, {NULL, NULL}};
  neap__class_new(L, &host_class, none, none);
  luaL_setfuncs(L, functions, 0);
}
