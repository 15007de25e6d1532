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

/* What every call that can fail returns. */
typedef enum neap_status {
#define XX(name, value, text) NEAP_##name = value,
  NEAP_STATUS_MAP(XX)
#undef XX
} neap_status;

/* "NEAP_OOM" and what it means, in static storage; any value is safe to ask for. Thread-safe. */
NEAP_API const char *neap_status_name(neap_status status);
NEAP_API const char *neap_status_text(neap_status status);

/* Elements of tensors. bool is a byte, 0 or 1. */
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

/* Levels of the log, the worst first. */
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
  const char *script_path;      /* where `require` looks for scripts, as package.path; NULL: Lua's default */
  char *error;                  /* why create failed is written here, in words; NULL: nowhere */
  size_t error_size;            /* bytes at error, the final 0 included */
} neap_config;

/* Writes the defaults into the first `size` bytes of *config. */
NEAP_API void neap_config_init_sized(neap_config *config, size_t size);
static inline void neap_config_init(neap_config *config) { neap_config_init_sized(config, sizeof *config); }

/* "0.1.0", in static storage. Thread-safe. */
NEAP_API const char *neap_version(void);

/* --- engines ----------------------------------------------------------------------------------------
 *
 * An engine is a device, its memory under a budget, and a Lua state in which scripts run. Engines share
 * nothing: two may work at the same time in two threads. One engine belongs to one thread at a time. A call
 * on an engine from inside a function that its script called is refused with NEAP_BUSY; neap_program_run and
 * neap_memory are allowed there.
 *
 * Structs begin with their size where the host was compiled. What neap fills in is cut to that size; fields
 * are only appended. neap_arg and neap_array, which come in arrays, keep their size for good.
 *
 * Scripts are text; binary chunks and C modules are refused. os.exit raises an error. With `modules`,
 * "base" and `require` of what is preloaded are there in any case; "package" adds `require` of files, "io"
 * adds loadfile and dofile beside its own. With a limit of instructions or seconds, finalizers (__gc) are
 * refused and debug holds traceback alone. Limits are looked at between Lua instructions: a C function, such as
 * a pattern match or an update, ends first. */

/* Owned by whoever created it, until neap_destroy. */
typedef struct neap_engine neap_engine;

/* On failure *out is NULL and config->error and the log tell why. config NULL: the defaults. */
NEAP_API neap_status neap_engine_create(const neap_config *config, neap_engine **out);
/* Drops an unfinished update, closes what scripts hold and gives all memory back. NULL is nothing. */
NEAP_API void neap_destroy(neap_engine *engine);

/* Why the last call on this engine failed. Strings are never NULL, "" when unknown. */
typedef struct neap_failure {
  size_t size;
  neap_status status;
  uint64_t bytes;      /* what was asked for, for NEAP_OOM; else 0 */
  const char *message; /* names the thing, its value and what was expected */
  const char *where;   /* "script.lua:12" */
  const char *op;      /* "conv2d" */
  const char *shapes;
} neap_failure;

/* Valid until the next call on the engine; never NULL. status is NEAP_OK when the last call succeeded. */
NEAP_API const neap_failure *neap_last_error(const neap_engine *engine);

struct lua_State;
/* An engine for a Lua 5.4 that the host has: `require "neap"` in L is its module from now on, and scripts
 * that L runs by itself use it too. The engine's own calls run in a thread of L's. Destroy the engine while
 * L is not running; before or after L is closed, both are right. Script limits, modules and script_path stay
 * the host's and must be left at their defaults. In libneap_lua only: libneap has another Lua inside. */
NEAP_API neap_status neap_lua_open(struct lua_State *L, const neap_config *config, neap_engine **out);

/* --- values between host and script ------------------------------------------------------------------ */

/* The most dimensions of an array. */
#define NEAP_ARRAY_DIMS 8

/* A dense array in host memory, outermost dimension first; ndim 0 is a scalar. */
typedef struct neap_array {
  void *data;   /* aligned to its elements */
  size_t bytes; /* at data */
  neap_dtype dtype;
  int32_t ndim;
  int64_t dim[NEAP_ARRAY_DIMS];
} neap_array;

/* Which field of a neap_arg's union holds. */
typedef enum neap_arg_type {
  NEAP_ARG_NIL = 0,
  NEAP_ARG_BOOL = 1,
  NEAP_ARG_INTEGER = 2,
  NEAP_ARG_NUMBER = 3,
  NEAP_ARG_STRING = 4,
  NEAP_ARG_TENSOR = 5
} neap_arg_type;

/* A value on its way into a script or out of one: a Lua nil, boolean, integer, float or string, or a tensor. Strings
 * and arrays are not owned by it. */
typedef struct neap_arg {
  neap_arg_type type;
  union {
    int boolean;
    int64_t integer;
    double number;
    struct {
      const char *text;
      size_t length;
    } string;
    neap_array tensor;
  } as;
} neap_arg;

/* Arguments of each type; the tensor's array is borrowed for the call. */
static inline neap_arg neap_number(double number) {
  neap_arg a;
  a.type = NEAP_ARG_NUMBER;
  a.as.number = number;
  return a;
}
static inline neap_arg neap_integer(int64_t integer) {
  neap_arg a;
  a.type = NEAP_ARG_INTEGER;
  a.as.integer = integer;
  return a;
}
static inline neap_arg neap_bool(int boolean) {
  neap_arg a;
  a.type = NEAP_ARG_BOOL;
  a.as.boolean = boolean;
  return a;
}
/* text of `length` bytes; copied by the call it is given to. */
static inline neap_arg neap_string(const char *text, size_t length) {
  neap_arg a;
  a.type = NEAP_ARG_STRING;
  a.as.string.text = text;
  a.as.string.length = length;
  return a;
}
static inline neap_arg neap_tensor_arg(const neap_array *array) {
  neap_arg a;
  a.type = NEAP_ARG_TENSOR;
  a.as.tensor = *array;
  return a;
}
/* Memory of `bytes` for a tensor that comes back. */
static inline neap_arg neap_room(void *data, size_t bytes) {
  neap_arg a;
  a.type = NEAP_ARG_TENSOR;
  a.as.tensor.data = data;
  a.as.tensor.bytes = bytes;
  a.as.tensor.dtype = NEAP_F32;
  a.as.tensor.ndim = 0;
  return a;
}
/* What an integer, number or boolean says as a number; 0 for others. */
static inline double neap_arg_number(const neap_arg *a) {
  if (a->type == NEAP_ARG_NUMBER) return a->as.number;
  if (a->type == NEAP_ARG_INTEGER) return (double)a->as.integer;
  return a->type == NEAP_ARG_BOOL ? (double)a->as.boolean : 0.0;
}

/* --- scripts ----------------------------------------------------------------------------------------- */

/* Runs a script of `length` bytes; `name` stands in its error messages. */
NEAP_API neap_status neap_load(neap_engine *engine, const char *name, const char *text, size_t length);
/* NEAP_NOT_FOUND when there is no such file. */
NEAP_API neap_status neap_load_file(neap_engine *engine, const char *path);

/* Calls the script's global function `name` ("ai.act" is a field of a global table). Tensor arguments are
 * borrowed: on a device that shares the host's memory the script works on the host's bytes, and when the call
 * returns they are closed to it. Of the results the first n_results are wanted; those that are missing become
 * nil. A tensor is copied into the memory that its result gives (neap_room), NEAP_RANGE when it does not fit;
 * a result without room for a tensor may be anything else. Result strings last until the next call. */
NEAP_API neap_status neap_call(neap_engine *engine, const char *name, const neap_arg *args, size_t n_args,
                               neap_arg *results, size_t n_results);

/* The most arguments and results of a host's function. */
#define NEAP_MAX_ARGS 16

/* A function of the host's, which scripts call. results has room for NEAP_MAX_ARGS; *n_results is 0 at first.
 * Tensor arguments may be read until it returns. Strings and tensors in results must last until it is called
 * again, and are copied. To fail, return a status; for a message of its own *n_results is 1 and results[0] a string.
 * No C++ exception may leave it. */
typedef neap_status (*neap_function)(void *user, const neap_arg *args, size_t n_args, neap_arg *results,
                                     size_t *n_results);
/* Scripts find it as host.name. fn NULL takes the name away. */
NEAP_API neap_status neap_register(neap_engine *engine, const char *name, neap_function fn, void *user);

/* --- training within a frame -------------------------------------------------------------------------- */

/* What came of a tick. */
typedef enum neap_tick_state {
  NEAP_TICK_IDLE = 0,      /* nothing is registered, or none of it had work */
  NEAP_TICK_WAITING = 1,   /* for data */
  NEAP_TICK_UPDATING = 2,  /* an update is unfinished */
  NEAP_TICK_COMMITTED = 3, /* at least one update was committed in this tick */
  NEAP_TICK_PREPARE = 4,   /* tracing and planning are due, which take longer than a slice, and nothing was done:
                              neap_prepare does it, else the next tick does, however long it takes */
  NEAP_TICK_STOPPED = 5    /* all that is registered has ended */
} neap_tick_state;

/* Filled in by neap_tick. */
typedef struct neap_tick_result {
  size_t size; /* set by the caller */
  neap_tick_state state;
  uint32_t commits; /* updates committed in this tick */
  uint64_t used_us;
  uint64_t next_us; /* predicted for the shortest next slice; 0: unknown, or nothing is unfinished */
} neap_tick_result;

/* Advances what scripts registered with neap.on_tick(fn or object), in turn, for about `microseconds`. A
 * slice that is predicted to overrun is not begun: state is then NEAP_TICK_UPDATING, and next_us tells what it
 * needs. (A prediction loses a tenth at each tick in which it keeps its slice waiting, so that one slow moment
 * does not stop training for good.) result may be NULL. */
NEAP_API neap_status neap_tick(neap_engine *engine, uint64_t microseconds, neap_tick_result *result);

/* Traces and plans, for a loading screen: calls what scripts registered with neap.on_prepare, and the
 * `prepare` method of objects given to neap.on_tick. */
NEAP_API neap_status neap_prepare(neap_engine *engine);

/* --- memory ------------------------------------------------------------------------------------------- */

/* When a new limit takes effect. */
typedef enum neap_when { NEAP_NOW = 0, NEAP_NEXT = 1 } neap_when;

/* bytes 0: no limit. NEAP_NOW: an unfinished update is dropped, which leaves everything as it was before it
 * began, and memory is given back before this returns; NEAP_OOM when parameters and what else must stay are
 * more than the limit, which holds all the same. NEAP_NEXT: an unfinished update keeps what it has; nothing
 * is taken beyond the limit from now on, so the next update is planned within it. */
NEAP_API neap_status neap_set_memory_limit(neap_engine *engine, uint64_t bytes, neap_when when);

/* Bytes of device memory, and of host memory taken through the config's allocator. */
typedef struct neap_memory_info {
  size_t size;       /* set by the caller */
  uint64_t limit;    /* 0: none */
  uint64_t in_use;   /* by tensors and programs */
  uint64_t peak;     /* of in_use */
  uint64_t reserved; /* in_use and what is kept for reuse: this is held against the limit */
  uint64_t reserved_peak;
  uint64_t parameters, gradients, optimizer, activations, workspace, tensors, staging, checkpoint; /* of in_use */
  uint64_t host;                                                                                   /* of the engine */
  uint64_t lua; /* of its Lua state; 0 when the state is the host's */
} neap_memory_info;

/* How memory stands. Also from inside a function that a script called. */
NEAP_API neap_status neap_memory(neap_engine *engine, neap_memory_info *info);

/* --- programs without Lua ------------------------------------------------------------------------------ */

/* What a script gave with neap.export("act", fn, {{1, 4}}). Belongs to its engine and lives as long; an export
 * of the same name takes its place for the next run. */
typedef struct neap_exported neap_exported;

/* The program of that name, and how many inputs and outputs it has. NEAP_NOT_FOUND when no script exported it. */
NEAP_API neap_status neap_program_find(neap_engine *engine, const char *name, neap_exported **out);
NEAP_API size_t neap_program_inputs(const neap_exported *program);
NEAP_API size_t neap_program_outputs(const neap_exported *program);
/* dtype, shape and bytes of the i-th, from 0; data is NULL. NULL when there is none. */
NEAP_API const neap_array *neap_program_input(const neap_exported *program, size_t i);
NEAP_API const neap_array *neap_program_output(const neap_exported *program, size_t i);
/* Runs it at once, also between the slices of an unfinished update: it sees the parameters of the last commit.
 * Takes no memory and touches no Lua. Pointers are to dense host memory, aligned to its elements. */
NEAP_API neap_status neap_program_run(neap_exported *program, const void *const *inputs, void *const *outputs);

#ifdef __cplusplus
}
#endif
#endif
