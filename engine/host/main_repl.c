/* The interactive mode of the executable, as `lua -i`, with history kept in ~/.neap_history. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>

#include "host/main.h"

#if NEAP_READLINE
#include <readline/history.h>
#include <readline/readline.h>
#endif

#define MAX_LINE 4096
#define MAX_HISTORY 1000

/* _PROMPT and _PROMPT2 as in lua. Leaves the prompt's string on the stack, so that it lives while in use. */
static const char *push_prompt(lua_State *L, bool first) {
  if (lua_getglobal(L, first ? "_PROMPT" : "_PROMPT2") == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushstring(L, first ? "> " : ">> ");
  }
  const char *text = luaL_tolstring(L, -1, NULL);
  lua_remove(L, -2);
  return text;
}

static bool read_plain(lua_State *L, const char *prompt) {
  char line[MAX_LINE];
  fputs(prompt, stdout);
  fflush(stdout);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  while (fgets(line, sizeof line, stdin) != NULL) {
    size_t n = strlen(line);
    bool complete = n > 0 && line[n - 1] == '\n';
    luaL_addlstring(&b, line, complete ? n - 1 : n);
    if (complete) break;
  }
  luaL_pushresult(&b);
  return lua_rawlen(L, -1) > 0 || !feof(stdin);
}

#if NEAP_READLINE
static bool read_edited(lua_State *L, const char *prompt) {
  char *line = readline(prompt);
  lua_pushstring(L, line ? line : ""); /* a failed copy would lose one line's memory, as in lua */
  bool more = line != NULL;
  free(line);
  return more;
}
#endif

/* Pushes a line without its end; false, with nothing pushed, at the end of the input. */
static bool push_line(lua_State *L, bool first) {
  const char *prompt = push_prompt(L, first);
#if NEAP_READLINE
  bool more = isatty(STDIN_FILENO) ? read_edited(L, prompt) : read_plain(L, prompt);
#else
  bool more = read_plain(L, prompt);
#endif
  lua_remove(L, -2);
  if (!more) lua_pop(L, 1);
  return more;
}

static bool is_incomplete(lua_State *L, int status) {
  static const char mark[] = "<eof>";
  if (status != LUA_ERRSYNTAX) return false;
  size_t length;
  const char *message = lua_tolstring(L, -1, &length);
  return length >= sizeof mark - 1 && strcmp(message + length - (sizeof mark - 1), mark) == 0;
}

/* line -> line, chunk of "return line" or nothing when it is not an expression */
static bool load_expression(lua_State *L) {
  const char *text = lua_pushfstring(L, "return %s", lua_tostring(L, -1));
  bool loaded = luaL_loadbuffer(L, text, strlen(text), "=stdin") == LUA_OK;
  lua_remove(L, -2);
  if (!loaded) lua_pop(L, 1);
  return loaded;
}

/* line -> all lines of the statement, chunk or message */
static int load_statement(lua_State *L) {
  for (;;) {
    size_t length;
    const char *text = lua_tolstring(L, 1, &length);
    int status = luaL_loadbuffer(L, text, length, "=stdin");
    if (!is_incomplete(L, status) || !push_line(L, false)) return status;
    lua_remove(L, -2); /* the message that asked for more */
    lua_pushliteral(L, "\n");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
}

static void remember(const char *line) {
#if NEAP_READLINE
  if (line[0] != '\0') add_history(line);
#else
  (void)line;
#endif
}

/* "=x" is "return x", as in lua. */
static void take_equals(lua_State *L) {
  const char *line = lua_tostring(L, 1);
  if (line[0] != '=') return;
  lua_pushfstring(L, "return %s", line + 1);
  lua_replace(L, 1);
}

/* Leaves the chunk, or a message with the status returned; -1 at the end of the input. */
static int load_line(lua_State *L) {
  lua_settop(L, 0);
  if (!push_line(L, true)) return -1;
  take_equals(L);
  int status = load_expression(L) ? LUA_OK : load_statement(L);
  remember(lua_tostring(L, 1));
  lua_remove(L, 1);
  return status;
}

static void print_results(lua_State *L) {
  int n = lua_gettop(L);
  if (n == 0) return;
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  if (lua_pcall(L, n, 0, 0) != LUA_OK) {
    neap__main_complain(lua_pushfstring(L, "error calling 'print' (%s)", lua_tostring(L, -1)));
  }
}

#if NEAP_READLINE
static bool history_path(char *out, size_t size) {
  const char *home = getenv("HOME");
  if (home == NULL || home[0] == '\0' || !isatty(STDIN_FILENO)) return false;
  int n = snprintf(out, size, "%s/.neap_history", home);
  return n > 0 && (size_t)n < size;
}
#endif

static void load_history(void) {
#if NEAP_READLINE
  char path[MAX_LINE];
  rl_readline_name = NEAP_PROGRAM;
  using_history();
  stifle_history(MAX_HISTORY);
  if (history_path(path, sizeof path)) read_history(path);
#endif
}

static void save_history(void) {
#if NEAP_READLINE
  char path[MAX_LINE];
  if (history_path(path, sizeof path)) write_history(path);
#endif
}

/* What is typed here begins with `neap`, so it is there; a global of that name stays. */
static void set_global(lua_State *L) {
  if (lua_getglobal(L, "neap") == LUA_TNIL) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "neap");
    int status = neap__main_call(L, 1, 1);
    if (status == LUA_OK)
      lua_setglobal(L, "neap");
    else
      neap__main_report(L, status);
  }
  lua_settop(L, 0);
}

void neap__main_repl(lua_State *L) {
  load_history();
  set_global(L);
  for (int status; (status = load_line(L)) != -1;) {
    if (status == LUA_OK) status = neap__main_call(L, 0, LUA_MULTRET);
    if (status == LUA_OK) {
      print_results(L);
    } else {
      neap__main_report(L, status);
    }
  }
  save_history();
  lua_settop(L, 0);
  fputs("\n", stdout);
  fflush(stdout);
}
