/* Script limits hold against scripts that try to slip past them, and an engine works on after one was reached. */
#include <time.h>

#include "embed.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Endless, in ways that outlive a caught error. */
static const char *const endless[] = {
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function f() while true do pcall(f) end end f()",
    "while true do coroutine.wrap(function() while true do end end)() end",
    "local function f() while true do coroutine.resume(coroutine.create(f)) end end f()",
    "local c = coroutine.create(function() while true do coroutine.yield() end end) while true do coroutine.resume(c) "
    "end",
    "local t <close> = setmetatable({}, {__close = function() while true do end end}) error 'x'",
    "setmetatable(_G, {__index = function() while true do end end}) x = y",
    "xpcall(error, function() while true do end end)",
    "xpcall(function() while true do end end, function() while true do end end)",
    "error(setmetatable({}, {__tostring = function() while true do end end}))",
    "local t = setmetatable({}, {__close = function() while true do end end}) "
    "coroutine.wrap(function() local c <close> = t while true do end end)()",
    "local t = setmetatable({}, {__close = function() while true do end end}) "
    "late = coroutine.create(function() local c <close> = t while true do end end) coroutine.resume(late)",
    "string.gsub(('x'):rep(1000), 'x', function() while true do end end)",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "load(function() while true do end end)",
};

static void check_endless(neap_engine *engine) {
  for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
    double began = now();
    neap_status status = run(engine, endless[i]);
    CHECK(status == NEAP_LIMIT, "%s: %s: %s", endless[i], neap_status_name(status), neap_last_error(engine)->message);
    CHECK(now() - began < 5, "%s took %g s", endless[i], now() - began);
    OK(engine, run(engine, "setmetatable(_G, nil) sum = 0 for i = 1, 100 do sum = sum + i end assert(sum == 5050)"));
  }
}

static void check_guards(neap_engine *engine) {
  FAILS(engine, NEAP_LIMIT, run(engine, "setmetatable({}, {__gc = function() end})"));
  OK(engine, run(engine, "assert(not debug.sethook and not debug.getupvalue and debug.traceback)"));
  OK(engine, run(engine, "local t = setmetatable({}, {__index = {a = 1}}) assert(t.a == 1)"));
  FAILS(engine, NEAP_LIMIT, run(engine, "coroutine.close(late)"));
  OK(engine,
     run(engine,
         "local ok, m = pcall(coroutine.wrap(function() error 'in it' end)) assert(not ok and m:find 'in it')"));
  OK(engine, run(engine, "local closed local t = setmetatable({}, {__close = function() closed = true end}) "
                         "pcall(coroutine.wrap(function() local c <close> = t error 'x' end)) assert(closed)"));
  OK(engine,
     run(engine, "local ok, m = xpcall(error, function(m) return m .. '!' end, 'oh') assert(not ok and m == 'oh!')"));
  OK(engine, run(engine, "local c = coroutine.wrap(function() return xpcall(coroutine.yield, print, 7) end) "
                         "assert(c() == 7 and c(8) == true)"));
  OK(engine, run(engine, "local c = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b end) "
                         "assert(c(1) == 2 and c(5) == 5)"));
}

static void check_instructions(void) {
  neap_config config;
  neap_config_init(&config);
  config.threads = 1;
  config.script_instructions = 2000000;
  neap_engine *engine = open_engine(&config);
  check_endless(engine);
  check_guards(engine);
  /* The limit is of a call, not of the engine's life. */
  OK(engine, run(engine, "function spin() for i = 1, 300000 do end end"));
  for (int i = 0; i < 10; i++) OK(engine, neap_call(engine, "spin", NULL, 0, NULL, 0));
  OK(engine, run(engine, "require('neap').on_tick(function() while true do end end)"));
  FAILS(engine, NEAP_LIMIT, neap_tick(engine, 1000, NULL));
  SAYS(engine, "instructions");
  neap_destroy(engine);
}

static void check_seconds(void) {
  neap_config config;
  neap_config_init(&config);
  config.threads = 1;
  config.script_seconds = 0.2;
  neap_engine *engine = open_engine(&config);
  double began = now();
  FAILS(engine, NEAP_LIMIT, run(engine, endless[1]));
  SAYS(engine, "seconds");
  CHECK(now() - began >= 0.2 && now() - began < 2, "stopped after %g s", now() - began);
  OK(engine, run(engine, "x = 1"));
  neap_destroy(engine);
}

static void check_bytes(void) {
  neap_config config;
  neap_config_init(&config);
  config.threads = 1;
  config.script_bytes = 4 << 20;
  neap_engine *engine = open_engine(&config);
  FAILS(engine, NEAP_LIMIT, run(engine, "local t = {} for i = 1, 1e9 do t[i] = {i} end"));
  SAYS(engine, "4194304 bytes");
  FAILS(engine, NEAP_LIMIT, run(engine, "s = ('x'):rep(1 << 30)"));
  CHECK(memory_of(engine).lua <= config.script_bytes, "Lua has %llu bytes", (unsigned long long)memory_of(engine).lua);
  OK(engine, run(engine, "t = {} for i = 1, 1000 do t[i] = {i} end"));
  neap_destroy(engine);
  char why[300];
  config.script_bytes = 20000;
  config.error = why;
  config.error_size = sizeof why;
  CHECK(neap_engine_create(&config, &engine) == NEAP_LIMIT, "an engine in 20,000 bytes of Lua: %s", why);
}

static void check_modules(void) {
  static const char *const modules[] = {"math", "string", "table", NULL};
  neap_config config;
  neap_config_init(&config);
  config.threads = 1;
  config.modules = modules;
  neap_engine *engine = open_engine(&config);
  OK(engine, run(engine, "assert(not io and not os and not debug and not package and not coroutine)"));
  OK(engine, run(engine, "assert(not dofile and not loadfile and math and string and table and require)"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "require 'io'"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "require 'train'"));
  OK(engine, run(engine, "local neap = require 'neap' local nn = neap.nn assert(require 'neap.nn' == nn) "
                         "local m = nn.Linear(2, 3) assert(m(neap.ones(4, 2)).shape[2] == 3)"));
  neap_destroy(engine);
}

static void check_text_only(void) {
  neap_config config;
  neap_config_init(&config);
  config.threads = 1;
  config.script_path = SCRIPTS "/?.lua";
  neap_engine *engine = open_engine(&config);
  FAILS(engine, NEAP_SCRIPT, run(engine, "assert(load(string.dump(function() end)))"));
  SAYS(engine, "binary");
  FAILS(engine, NEAP_SCRIPT, run(engine, "assert(load(string.dump(function() end), 'name', 'b'))"));
  OK(engine,
     run(engine, "local f = load('return a', 'name', 't', {a = 5}) assert(f() == 5) assert(not load('x = = 1'))"));
  FAILS(engine, NEAP_SCRIPT, neap_load(engine, "binary", "\x1bLua", 4));
  OK(engine, run(engine, "assert(not package.loadlib and #package.searchers == 2)"));
  OK(engine, run(engine, "require 'train' assert(train)"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "require 'nobody'"));
  SAYS(engine, "nobody.lua");
  neap_destroy(engine);
}

int main(void) {
  check_instructions();
  check_seconds();
  check_bytes();
  check_modules();
  check_text_only();
  return 0;
}
