/* neap: an embeddable training engine. The only public header. */
#ifndef NEAP_H
#define NEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NEAP_API __attribute__((visibility("default")))
#else
#define NEAP_API
#endif

/* One table makes the status enum, its names and its texts. Values are stable. */
#define NEAP_STATUS_MAP(XX)                                 \
  XX(OK, 0, "ok")                                           \
  XX(NOMEM, 1, "the host allocator refused memory")         \
  XX(OOM, 2, "the memory budget does not hold the request") \
  XX(INVALID, 3, "an argument is invalid")                  \
  XX(SHAPE, 4, "shapes do not fit")                         \
  XX(DTYPE, 5, "a dtype does not fit")                      \
  XX(RANGE, 6, "a value is out of range")                   \
  XX(IO, 7, "reading or writing failed")                    \
  XX(NOT_FOUND, 8, "there is no such thing")                \
  XX(CORRUPT, 9, "a file is damaged")                       \
  XX(UNSUPPORTED, 10, "this is not supported here")         \
  XX(DEVICE, 11, "the device failed")                       \
  XX(SCRIPT, 12, "a script raised an error")                \
  XX(STOPPED, 13, "training was stopped by a policy")       \
  XX(CANCELLED, 14, "the update was dropped")               \
  XX(LIMIT, 15, "a script limit was reached")               \
  XX(CLOSED, 16, "the thing was closed")                    \
  XX(BUSY, 17, "an update is unfinished")                   \
  XX(INTERNAL, 18, "an internal invariant failed")

typedef enum neap_status {
#define XX(name, value, text) NEAP_##name = value,
  NEAP_STATUS_MAP(XX)
#undef XX
} neap_status;

/* "NEAP_OOM" and what it means, in static storage; any value is safe to ask for. Thread-safe. */
NEAP_API const char *neap_status_name(neap_status status);
NEAP_API const char *neap_status_text(neap_status status);

typedef enum neap_dtype {
  NEAP_F32 = 0,
  NEAP_F64 = 1,
  NEAP_I64 = 2,
  NEAP_I32 = 3,
  NEAP_U8 = 4,
  NEAP_BOOL = 5,
  NEAP_F16 = 6, /* storage only so far */
  NEAP_BF16 = 7
} neap_dtype;

enum { NEAP_LOG_ERROR = 0, NEAP_LOG_WARN = 1, NEAP_LOG_INFO = 2, NEAP_LOG_DEBUG = 3 };

/* Host memory, as lua_Alloc: p NULL allocates, new_size 0 frees (and returns NULL), otherwise grows or
 * shrinks; returns NULL when it cannot. Called on the engine's thread only. */
typedef void *(*neap_alloc_fn)(void *user, void *p, size_t old_size, size_t new_size);
/* text has no newline. Called on the engine's thread. */
typedef void (*neap_log_fn)(void *user, int level, const char *text);
/* The host's scheduler: runs task(ctx, i, worker) for every i in [0, count) and returns when all are done;
 * worker is in [0, width) and no two calls that run at once share one. */
typedef void (*neap_parallel_for_fn)(void *user, uint32_t count, void (*task)(void *ctx, uint32_t i, uint32_t worker),
                                     void *ctx);

/* How an engine is set up. Fill with neap_config_init, then change fields. Strings are read during create
 * only; callbacks must live as long as the engine. */
typedef struct neap_config {
  size_t size;           /* sizeof(neap_config) where the host was compiled: set by init */
  const char *device;    /* "cpu", "cuda:0", "auto", "null"; NULL: $NEAP_DEVICE, else "auto" */
  uint64_t memory_limit; /* bytes of device memory; 0: $NEAP_MEMORY, else none */
  uint32_t threads;      /* 0: $NEAP_THREADS, else the cores this process may use */
  uint64_t seed;
  neap_alloc_fn alloc; /* NULL: the C library */
  void *alloc_user;
  neap_log_fn log; /* NULL: silent */
  void *log_user;
  int log_level;                     /* NEAP_LOG_WARN by default */
  neap_parallel_for_fn parallel_for; /* with it neap starts no threads; `threads` is then its width */
  void *parallel_user;
  uint64_t script_instructions; /* per call into a script; 0: no limit */
  size_t script_bytes;          /* of Lua memory; 0: no limit */
  double script_seconds;        /* per call into a script; 0: no limit */
  const char *const *modules;   /* the standard Lua libraries a script may use, NULL-terminated; NULL: all */
} neap_config;

#ifdef __cplusplus
}
#endif
#endif
