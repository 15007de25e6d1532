/* What the hosts share: checks that end the program, and shorter calls. C and C++. */
#ifndef EMBED_H
#define EMBED_H

#include <neap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...)                                         \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                   \
      fprintf(stderr, "\n");                                          \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

#define OK(engine, call)                                                                                      \
  do {                                                                                                        \
    neap_status ok_status = (call);                                                                           \
    CHECK(ok_status == NEAP_OK, "%s: %s (%s)", neap_status_name(ok_status), neap_last_error(engine)->message, \
          neap_last_error(engine)->where);                                                                    \
  } while (0)

#define FAILS(engine, expected, call)                                                                            \
  do {                                                                                                           \
    neap_status failed = (call);                                                                                 \
    CHECK(failed == (expected), "%s: %s", neap_status_name(failed), neap_last_error(engine)->message);           \
    CHECK(neap_last_error(engine)->status == failed && neap_last_error(engine)->message[0], "%s", "no message"); \
  } while (0)

/* The last failure's message holds the text. */
#define SAYS(engine, text) \
  CHECK(strstr(neap_last_error(engine)->message, text), "wanted '%s' in: %s", text, neap_last_error(engine)->message)

static inline neap_engine *open_engine(neap_config *config) {
  char why[600] = "";
  neap_engine *engine = NULL;
  config->error = why;
  config->error_size = sizeof why;
  neap_status status = neap_engine_create(config, &engine);
  CHECK(status == NEAP_OK && engine, "%s: %s", neap_status_name(status), why);
  return engine;
}

static inline neap_engine *open_plain(void) {
  neap_config config;
  neap_config_init(&config);
  config.threads = 1;
  config.seed = 7;
  return open_engine(&config);
}

static inline neap_status run(neap_engine *engine, const char *text) {
  return neap_load(engine, "test", text, strlen(text));
}

/* The number that a global function of the script's returns. */
static inline double ask(neap_engine *engine, const char *name) {
  neap_arg result = neap_number(0);
  OK(engine, neap_call(engine, name, NULL, 0, &result, 1));
  CHECK(result.type == NEAP_ARG_NUMBER || result.type == NEAP_ARG_INTEGER, "%s gave type %d", name, (int)result.type);
  return neap_arg_number(&result);
}

typedef struct bytes {
  char *data;
  size_t size;
} bytes;

/* A copy of the string that a global function of the script's returns. */
static inline bytes ask_bytes(neap_engine *engine, const char *name) {
  neap_arg result = neap_number(0);
  bytes out = {NULL, 0};
  OK(engine, neap_call(engine, name, NULL, 0, &result, 1));
  CHECK(result.type == NEAP_ARG_STRING && result.as.string.length > 0, "%s gave type %d", name, (int)result.type);
  out.size = result.as.string.length;
  out.data = (char *)malloc(out.size);
  CHECK(out.data, "no memory for %zu bytes", out.size);
  memcpy(out.data, result.as.string.text, out.size);
  return out;
}

static inline int same(bytes a, bytes b) { return a.size == b.size && memcmp(a.data, b.data, a.size) == 0; }

static inline neap_memory_info memory_of(neap_engine *engine) {
  neap_memory_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  OK(engine, neap_memory(engine, &info));
  return info;
}

static inline neap_tick_result tick(neap_engine *engine, uint64_t microseconds) {
  neap_tick_result result;
  memset(&result, 0, sizeof result);
  result.size = sizeof result;
  OK(engine, neap_tick(engine, microseconds, &result));
  return result;
}

#endif
