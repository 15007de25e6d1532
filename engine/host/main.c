/* The neap executable: `lua` with the engine in it. Options of its own come before the script's name, as
 * Lua's do. Exit codes: 0, 1 when a script failed (or the error's `exit_code`), 2 when the command line is
 * wrong. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "base/env.h"
#include "bindings/lua/open.h"
#include "host/main.h"
#include "io/hdf5.h"
#include "neap.h"

enum { EXIT_SCRIPT = 1, EXIT_USAGE = 2 };

#define MAX_THREADS 1024

/* What the engine is opened with; NULL and 0 are left to the environment and the defaults. */
typedef struct options {
  const char *device;
  uint64_t memory;
  uint32_t threads;
  uint64_t seed;
} options;

typedef struct command {
  int argc;
  char **argv;
  int script; /* index of the script's name; argc when there is none */
  bool interactive, version, execute, no_environment;
  options engine;
  int exit_code;
} command;

/* --- messages ---------------------------------------------------------------------------------------- */

void neap__main_complain(const char *message) {
  fprintf(stderr, NEAP_PROGRAM ": %s\n", message);
  fflush(stderr);
}

void neap__main_version(void) {
  printf(NEAP_PROGRAM " " NEAP_VERSION_TEXT "  %s\n", LUA_COPYRIGHT);
  fflush(stdout);
}

static void print_usage(FILE *to) {
  fputs("usage: " NEAP_PROGRAM " [options] [script [args]]\n"
        "Options of the engine:\n"
        "  --device D      cpu, cuda, cuda:1, ... or auto (default: NEAP_DEVICE, else auto)\n"
        "  --memory SIZE   budget of device memory, e.g. 64MiB (default: NEAP_MEMORY, else none)\n"
        "  --threads N     threads that compute (default: NEAP_THREADS, else the cores there are)\n"
        "  --seed N        seed of all random numbers\n"
        "Options of Lua:\n"
        "  -e stat         execute string 'stat'\n"
        "  -i              enter interactive mode after executing 'script'\n"
        "  -l mod          require library 'mod' into global 'mod'\n"
        "  -l g=mod        require library 'mod' into global 'g'\n"
        "  -v              show version information\n"
        "  -E              ignore environment variables of Lua\n"
        "  -W              turn warnings on\n"
        "  --              stop handling options\n"
        "  -               stop handling options and execute stdin\n",
        to);
  fflush(to);
}

/* --- calls ------------------------------------------------------------------------------------------- */

/* A signal handler can reach nothing else; set only while a script runs. */
static lua_State *interruptible;

static void stop_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted!");
}

/* Sets a hook only, since little else may be done inside a handler; a second Ctrl-C ends the process. */
static void on_interrupt(int signal_number) {
  signal(signal_number, SIG_DFL);
  lua_sethook(interruptible, stop_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

/* The exit code an error object asks for; the traceback handler sees the object, who prints it only its text. */
static int asked_exit_code;

static int get_exit_code(lua_State *L) {
  lua_getfield(L, 1, "exit_code");
  return 1;
}

static void note_exit_code(lua_State *L) {
  asked_exit_code = EXIT_SCRIPT;
  if (!lua_istable(L, 1) && !lua_isuserdata(L, 1)) return;
  lua_pushcfunction(L, get_exit_code);
  lua_pushvalue(L, 1);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) {
    int is_integer;
    lua_Integer code = lua_tointegerx(L, -1, &is_integer);
    if (is_integer && code > 0 && code < 256) asked_exit_code = (int)code;
  }
  lua_pop(L, 1);
}

static int add_traceback(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  note_exit_code(L);
  if (message == NULL) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
    message = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  }
  luaL_traceback(L, L, message, 1);
  return 1;
}

int neap__main_call(lua_State *L, int n, int results) {
  int base = lua_gettop(L) - n;
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, base);
  interruptible = L;
  struct sigaction action = {.sa_handler = on_interrupt}, before;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before);
  int status = lua_pcall(L, n, results, base);
  sigaction(SIGINT, &before, NULL);
  lua_remove(L, base);
  return status;
}

int neap__main_report(lua_State *L, int status) {
  if (status != LUA_OK) {
    const char *message = lua_tostring(L, -1);
    neap__main_complain(message ? message : "(error message is not a string)");
    lua_pop(L, 1);
  }
  return status;
}

/* Runs the chunk that was loaded with `status`; a syntax error exits as any script error. */
static int run_chunk(lua_State *L, int status) {
  asked_exit_code = EXIT_SCRIPT;
  if (status == LUA_OK) status = neap__main_call(L, 0, 0);
  return neap__main_report(L, status);
}

static int run_file(lua_State *L, const char *name) { return run_chunk(L, luaL_loadfile(L, name)); }

static int run_string(lua_State *L, const char *text, const char *name) {
  return run_chunk(L, luaL_loadbuffer(L, text, strlen(text), name));
}

/* --- the command line -------------------------------------------------------------------------------- */

static bool refuse(const char *format, const char *a, const char *b) {
  fprintf(stderr, NEAP_PROGRAM ": ");
  fprintf(stderr, format, a, b);
  fprintf(stderr, "\n");
  return false;
}

/* Decimal digits alone, at most `max`. */
static bool parse_unsigned(const char *text, uint64_t max, uint64_t *out) {
  if (*text == '\0' || strspn(text, "0123456789") != strlen(text)) return false;
  errno = 0;
  uintmax_t value = strtoumax(text, NULL, 10);
  if (errno != 0 || value > max) return false;
  *out = (uint64_t)value;
  return true;
}

static bool is_device(const char *text) {
  size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz");
  if (name == 0) return false;
  if (text[name] == '\0') return true;
  uint64_t index;
  return text[name] == ':' && parse_unsigned(text + name + 1, INT_MAX, &index);
}

static bool set_device(options *o, const char *text) {
  if (!is_device(text)) return refuse("--device is cpu, cuda, cuda:N or auto, not '%s'%s", text, "");
  o->device = text;
  return true;
}

static bool set_memory(options *o, const char *text) {
  neap_error err;
  if (neap__parse_bytes(text, &o->memory, &err) != NEAP_OK) return refuse("--memory: %s%s", err.message, "");
  if (o->memory == 0) return refuse("--memory is above 0, not '%s'%s", text, "");
  return true;
}

static bool set_threads(options *o, const char *text) {
  uint64_t n;
  if (!parse_unsigned(text, MAX_THREADS, &n) || n == 0)
    return refuse("--threads is a whole number from 1 to 1024, not '%s'%s", text, "");
  o->threads = (uint32_t)n;
  return true;
}

static bool set_seed(options *o, const char *text) {
  if (!parse_unsigned(text, UINT64_MAX, &o->seed))
    return refuse("--seed is a whole number from 0 to 2^64-1, not '%s'%s", text, "");
  return true;
}

static const struct long_option {
  const char *name;
  bool (*set)(options *o, const char *text);
} long_options[] = {
    {"--device", set_device}, {"--memory", set_memory}, {"--threads", set_threads}, {"--seed", set_seed}};

/* Takes argv[*i], and argv[*i + 1] when the value stands alone. */
static bool take_long(command *c, int *i) {
  const char *text = c->argv[*i];
  for (size_t k = 0; k < sizeof long_options / sizeof long_options[0]; k++) {
    const struct long_option *o = &long_options[k];
    size_t length = strlen(o->name);
    if (strncmp(text, o->name, length) != 0) continue;
    if (text[length] == '=') return o->set(&c->engine, text + length + 1);
    if (text[length] != '\0') continue;
    if (*i + 1 >= c->argc) return refuse("'%s' needs a value%s", o->name, "");
    return o->set(&c->engine, c->argv[++*i]);
  }
  return refuse("unrecognized option '%s'%s", text, "");
}

/* Takes an option of one letter at argv[*i]. */
static bool take_short(command *c, int *i) {
  const char *text = c->argv[*i];
  bool alone = text[2] == '\0';
  switch (text[1]) {
    case 'E': c->no_environment = true; break;
    case 'W': break;
    case 'i': c->interactive = c->version = true; break;
    case 'v': c->version = true; break;
    case 'e': c->execute = true; /* fall through */
    case 'l':
      if (!alone) return true;
      if (*i + 1 >= c->argc || c->argv[*i + 1][0] == '-') return refuse("'%s' needs argument%s", text, "");
      ++*i;
      return true;
    default: alone = false;
  }
  return alone || refuse("unrecognized option '%s'%s", text, "");
}

static bool parse_command(command *c) {
  int i = 1;
  for (; i < c->argc; i++) {
    const char *text = c->argv[i];
    if (text[0] != '-' || text[1] == '\0') break;
    if (strcmp(text, "--") == 0) {
      i++;
      break;
    }
    if (!(text[1] == '-' ? take_long(c, &i) : take_short(c, &i))) return false;
  }
  c->script = i;
  return true;
}

/* --- what the script finds --------------------------------------------------------------------------- */

static void print_log(void *user, int level, const char *text) {
  (void)user;
  (void)level;
  neap__main_complain(text);
}

static int log_level(void) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  const char *text = neap__env("NEAP_LOG");
  for (int i = 0; text && i < 4; i++)
    if (strcmp(text, names[i]) == 0) return i;
  return NEAP_LOG_WARN;
}

/* `require "neap"` in L opens the engine of this process with the options of the command line. */
static void open_engine(lua_State *L, const options *o) {
  neap_config config;
  neap_config_init(&config);
  config.device = o->device;
  config.memory_limit = o->memory;
  config.threads = o->threads;
  config.seed = o->seed;
  config.log = print_log;
  config.log_level = log_level();
  neap__lua_configure(L, &config);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_neap);
  lua_setfield(L, -2, "neap");
  lua_pop(L, 1);
}

/* The prefix is where the executable lies, without a last "bin": the build folder is laid out as one too. */
static void find_prefix(char *out, size_t size) {
  ssize_t n = readlink("/proc/self/exe", out, size - 1);
  if (n <= 0 || (size_t)n >= size - 1) {
    snprintf(out, size, "%s", NEAP_PREFIX);
    return;
  }
  out[n] = '\0';
  char *slash = strrchr(out, '/');
  if (slash) *slash = '\0';
  slash = strrchr(out, '/');
  if (slash && strcmp(slash, "/bin") == 0) *slash = '\0';
}

static void append_path(lua_State *L, const char *field, const char *format, const char *prefix) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, field);
  lua_pushliteral(L, ";");
  lua_pushfstring(L, format, prefix, prefix);
  lua_concat(L, 3);
  lua_setfield(L, -2, field);
  lua_pop(L, 1);
}

/* Last in the search, so that a user's own models/mlp.lua comes before the one that neap brings. */
static void add_paths(lua_State *L) {
  char prefix[PATH_MAX];
  find_prefix(prefix, sizeof prefix);
  append_path(L, "path", "%s/" NEAP_SCRIPT_DIR "/?.lua;%s/" NEAP_SCRIPT_DIR "/?/init.lua", prefix);
  append_path(L, "cpath", "%s/" NEAP_MODULE_DIR "/?.so", prefix);
}

static void set_arg_table(lua_State *L, const command *c) {
  int script = c->script == c->argc ? 0 : c->script;
  lua_createtable(L, c->argc - script, script + 1);
  for (int i = 0; i < c->argc; i++) {
    lua_pushstring(L, c->argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

/* --- running ----------------------------------------------------------------------------------------- */

static int run_lua_init(lua_State *L) {
  const char *name = "=LUA_INIT" LUA_VERSUFFIX;
  const char *text = getenv(name + 1);
  if (text == NULL) {
    name = "=LUA_INIT";
    text = getenv(name + 1);
  }
  if (text == NULL) return LUA_OK;
  return text[0] == '@' ? run_file(L, text + 1) : run_string(L, text, name);
}

/* "mod" or "g=mod" */
static int require_library(lua_State *L, const char *spec) {
  const char *equals = strchr(spec, '=');
  const char *module = equals ? equals + 1 : spec;
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  int status = neap__main_call(L, 1, 1);
  if (status == LUA_OK) {
    lua_pushlstring(L, spec, equals ? (size_t)(equals - spec) : strlen(spec));
    lua_insert(L, -2);
    lua_pushglobaltable(L);
    lua_insert(L, -3);
    lua_settable(L, -3);
    lua_pop(L, 1);
  }
  return neap__main_report(L, status);
}

/* Is argv[i] one of ours with its value in the next argument? */
static bool takes_next(const char *text) {
  for (size_t k = 0; k < sizeof long_options / sizeof long_options[0]; k++) {
    if (strcmp(text, long_options[k].name) == 0) return true;
  }
  return false;
}

/* -e, -l and -W act in the order they stand in. */
static int run_options(lua_State *L, const command *c) {
  for (int i = 1; i < c->script; i++) {
    const char *text = c->argv[i];
    if (takes_next(text)) i++;
    if (text[1] == 'W') lua_warning(L, "@on", 0);
    if (text[1] != 'e' && text[1] != 'l') continue;
    const char *value = text[2] ? text + 2 : c->argv[++i];
    int status = text[1] == 'e' ? run_string(L, value, "=(command line)") : require_library(L, value);
    if (status != LUA_OK) return status;
  }
  return LUA_OK;
}

static int run_script(lua_State *L, const command *c) {
  const char *name = c->argv[c->script];
  bool after_stop = strcmp(c->argv[c->script - 1], "--") == 0;
  if (strcmp(name, "-") == 0 && !after_stop) name = NULL; /* stdin */
  asked_exit_code = EXIT_SCRIPT;
  int status = luaL_loadfile(L, name);
  if (status == LUA_OK) {
    int n = c->argc - c->script - 1;
    luaL_checkstack(L, n + 3, "too many arguments to script");
    for (int i = 1; i <= n; i++) lua_pushstring(L, c->argv[c->script + i]);
    status = neap__main_call(L, n, LUA_MULTRET);
  }
  return neap__main_report(L, status);
}

/* Everything that may raise an error; result 1 is true when all went well. */
static int run_command(lua_State *L) {
  command *c = lua_touserdata(L, 1);
  luaL_checkversion(L);
  if (c->no_environment) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  add_paths(L);
  set_arg_table(L, c);
  open_engine(L, &c->engine);
  lua_gc(L, LUA_GCGEN, 0, 0);
  if (c->version) neap__main_version();
  if (!c->no_environment && run_lua_init(L) != LUA_OK) return 0;
  if (run_options(L, c) != LUA_OK) return 0;
  if (c->script < c->argc && run_script(L, c) != LUA_OK) return 0;
  if (c->interactive) {
    neap__main_repl(L);
  } else if (c->script == c->argc && !c->execute && !c->version) {
    if (isatty(STDIN_FILENO)) {
      neap__main_version();
      neap__main_repl(L);
    } else if (run_file(L, NULL) != LUA_OK) {
      return 0;
    }
  }
  lua_pushboolean(L, 1);
  return 1;
}

int main(int argc, char **argv) {
  command c = {.argc = argc, .argv = argv};
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    print_usage(stdout);
    return EXIT_SUCCESS;
  }
  if (!parse_command(&c)) {
    print_usage(stderr);
    return EXIT_USAGE;
  }
  neap__h5_quiet();
  signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of the write, which is cleaned up after */
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    neap__main_complain("cannot create state: not enough memory");
    return EXIT_SCRIPT;
  }
  asked_exit_code = EXIT_SCRIPT;
  lua_pushcfunction(L, add_traceback);
  lua_pushcfunction(L, run_command);
  lua_pushlightuserdata(L, &c);
  int status = neap__main_report(L, lua_pcall(L, 1, 1, 1));
  bool done = status == LUA_OK && lua_toboolean(L, -1);
  lua_close(L);
  return done ? EXIT_SUCCESS : asked_exit_code;
}
