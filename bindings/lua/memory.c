/* Memory, device and clock. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "bindings/lua/lua_neap.h"

static void set_bytes(lua_State *L, const char *name, uint64_t bytes) {
  lua_pushinteger(L, bytes > INT64_MAX ? INT64_MAX : (lua_Integer)bytes);
  lua_setfield(L, -2, name);
}

/* Bytes of the process in memory; 0 where the system does not tell. */
static uint64_t resident_bytes(void) {
  unsigned long long total, resident = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (!f) return 0;
  if (fscanf(f, "%llu %llu", &total, &resident) != 2) resident = 0;
  fclose(f);
  long page = sysconf(_SC_PAGESIZE);
  return resident * (uint64_t)(page > 0 ? page : 4096);
}

/* What the engine and Lua know they hold, of the process's memory. */
static uint64_t counted_bytes(lua_State *L, const neap_lua *s) {
  neap_memory_stats stats;
  s->ctx->memory->vt->stats(s->ctx->memory, &stats);
  uint64_t lua = (uint64_t)lua_gc(L, LUA_GCCOUNT) * 1024;
  return (s->ctx->info.host_memory ? stats.reserved : 0) + s->ctx->host.in_use + lua;
}

void neap__memory_begin(lua_State *L, neap_lua *s) {
  s->resident = resident_bytes();
  s->counted = counted_bytes(L, s);
}

/* Measured, not counted: what the process grew by since the engine was opened beyond what is known of. */
static uint64_t third_party(lua_State *L, const neap_lua *s) {
  uint64_t resident = resident_bytes(), counted = counted_bytes(L, s);
  uint64_t grown = resident > s->resident ? resident - s->resident : 0;
  uint64_t known = counted > s->counted ? counted - s->counted : 0;
  return grown > known ? grown - known : 0;
}

static int memory(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_memory_stats stats;
  s->ctx->memory->vt->stats(s->ctx->memory, &stats);
  lua_createtable(L, 0, 9);
  set_bytes(L, "in_use", stats.in_use);
  set_bytes(L, "peak", stats.peak);
  if (stats.limit != UINT64_MAX) set_bytes(L, "budget", stats.limit);
  set_bytes(L, "reserved", stats.reserved);
  set_bytes(L, "reserved_peak", stats.reserved_peak);
  set_bytes(L, "third_party", third_party(L, s));
  set_bytes(L, "largest_free", stats.largest_free);
  set_bytes(L, "host", s->ctx->host.in_use);
  lua_createtable(L, 0, NEAP_OWNER_COUNT);
  for (int i = 0; i < NEAP_OWNER_COUNT; i++) set_bytes(L, neap__owner_name((neap_owner)i), stats.by_owner[i]);
  lua_setfield(L, -2, "by_owner");
  return 1;
}

/* memory_holders() -> list of {owner, bytes}, largest first, without those that hold nothing */
static int memory_holders(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_memory_stats stats;
  s->ctx->memory->vt->stats(s->ctx->memory, &stats);
  lua_newtable(L);
  for (lua_Integer n = 1;; n++) {
    int most = 0;
    for (int i = 1; i < NEAP_OWNER_COUNT; i++)
      if (stats.by_owner[i] > stats.by_owner[most]) most = i;
    if (stats.by_owner[most] == 0) return 1;
    lua_createtable(L, 0, 2);
    lua_pushstring(L, neap__owner_name((neap_owner)most));
    lua_setfield(L, -2, "owner");
    set_bytes(L, "bytes", stats.by_owner[most]);
    lua_rawseti(L, -2, n);
    stats.by_owner[most] = 0;
  }
}

static int reset_peak(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  s->ctx->memory->vt->reset_peak(s->ctx->memory);
  return 0;
}

/* release() gives back to the system what is idle: arenas that no run holds, and what the pool keeps for reuse. */
static int release(lua_State *L) {
  neap__context_release(neap__lua_get(L)->ctx);
  return 0;
}

/* 67108864, "64MiB", or nil for none. */
static uint64_t get_limit(lua_State *L, int index, const char *function) {
  uint64_t bytes = UINT64_MAX;
  neap_error err;
  if (lua_isnoneornil(L, index)) return bytes;
  if (lua_type(L, index) == LUA_TNUMBER)
    return (uint64_t)neap__arg_integer(L, index, function, "the limit in bytes", 0, INT64_MAX);
  const char *text = neap__arg_string(L, index, function, "the limit", NULL);
  neap_status st = neap__parse_bytes(text, &bytes, &err);
  if (st != NEAP_OK) neap__lua_fail(L, st, function, "%s", err.message);
  return bytes;
}

/* set_memory_limit(bytes | "64MiB" | nil[, "now" | "next"]): "now" drops an unfinished update and gives memory back
 * before it returns; "next" (the default) leaves that update its memory. Without one there is nothing to wait for. */
static int set_memory_limit(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  uint64_t limit = get_limit(L, 1, "set_memory_limit");
  const char *when = lua_isnoneornil(L, 2) ? "next" : neap__arg_string(L, 2, "set_memory_limit", "argument 2", NULL);
  bool now = strcmp(when, "now") == 0;
  if (!now && strcmp(when, "next") != 0)
    neap__lua_fail(L, NEAP_INVALID, "set_memory_limit", "argument 2 is '%.40s', expected 'now' or 'next'", when);
  if (now) neap__updates_drop(s);
  neap__context_limit(s->ctx, limit, now || !neap__updates_running(s));
  return 0;
}

static int parse_bytes(lua_State *L) {
  if (lua_isnoneornil(L, 1)) neap__lua_fail(L, NEAP_INVALID, "parse_bytes", "argument 1 is nil, expected a size");
  lua_pushinteger(L, (lua_Integer)get_limit(L, 1, "parse_bytes"));
  return 1;
}

static int format_bytes(lua_State *L) {
  char text[64];
  double bytes = neap__arg_number(L, 1, "format_bytes", "argument 1", 0, 0x1p63);
  lua_pushstring(L, neap__format_bytes((uint64_t)bytes, text, sizeof text));
  return 1;
}

static int device(lua_State *L) {
  lua_pushstring(L, neap__lua_get(L)->ctx->info.device);
  return 1;
}

static int clock_seconds(lua_State *L) {
  lua_pushnumber(L, neap__clock());
  return 1;
}

/* isatty(1): is standard output a terminal? 2: standard error. */
static int is_terminal(lua_State *L) {
  int64_t fd = neap__arg_integer(L, 1, "isatty", "the stream", 0, 2);
  lua_pushboolean(L, isatty((int)fd));
  return 1;
}

void neap__open_memory(lua_State *L) {
  static const luaL_Reg functions[] = {{"memory", memory},
                                       {"memory_holders", memory_holders},
                                       {"reset_peak", reset_peak},
                                       {"release", release},
                                       {"device", device},
                                       {"set_memory_limit", set_memory_limit},
                                       {"clock", clock_seconds},
                                       {"isatty", is_terminal},
                                       {"parse_bytes", parse_bytes},
                                       {"format_bytes", format_bytes},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  lua_pushliteral(L, NEAP_VERSION_TEXT);
  lua_setfield(L, -2, "version");
}
