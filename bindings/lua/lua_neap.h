/* What the files of the binding share.
 *
 * Engine calls return a status; only when they have returned is a Lua error raised, so no error ever passes
 * an engine frame. Whatever is held across a Lua call that may raise lives in a userdata. */
#ifndef NEAP_BINDINGS_LUA_LUA_NEAP_H
#define NEAP_BINDINGS_LUA_LUA_NEAP_H

#include <lauxlib.h>
#include <lua.h>

#include "graph/context.h"
#include "graph/program.h"

typedef struct neap_lua neap_lua;
typedef struct neap_handle neap_handle;

/* --- state.c: the engine of a state, and userdata that hold parts of it ------------------------------ */

/* A kind of userdata. Its address is the key of its metatable in the registry, so that two copies of this
 * library in one state never take each other's objects. */
typedef struct neap_class {
  const char *name;             /* __name, "neap.tensor" */
  void (*drop)(neap_handle *h); /* gives back what the userdata holds; called once */
} neap_class;

/* The head of every such userdata. All are in a list, so that closing the engine finds them in any state of
 * collection. */
struct neap_handle {
  neap_handle *prev, *next;
  neap_lua *lua; /* NULL once dropped */
  const neap_class *kind;
};

struct neap_lua {
  neap_context *ctx; /* NULL once the engine is closed */
  bool owns;
  lua_State *main;
  lua_State *current;                   /* the thread that is in an engine call; main otherwise */
  neap_handle list;                     /* of all live handles */
  struct neap_lua_graph *trace;         /* the graph being traced, NULL: none */
  uint64_t traces;                      /* serial of the last trace */
  const char *path;                     /* module path given to traced nodes; anchored in the state's user value */
  bool relieving;                       /* the collector runs because memory is short */
  uint64_t unreported, made, allowance; /* bytes, see neap__lua_grew */
  uint64_t resident, counted;           /* of the process, and of the engine, when it was opened */
};

/* The engine of L; raises NEAP_CLOSED when it is gone. */
neap_lua *neap__lua_get(lua_State *L);
/* Registers a class: metatable with these methods (on __index) and metamethods, __gc and __close. */
void neap__class_new(lua_State *L, const neap_class *kind, const luaL_Reg *methods, const luaL_Reg *meta);
/* Pushes a new cleared userdata of `size` bytes that begins with a neap_handle. */
void *neap__handle_new(lua_State *L, neap_lua *s, const neap_class *kind, size_t size, int user_values);
/* NULL when the value is something else; dropped ones are found too. */
void *neap__handle_test(lua_State *L, int index, const neap_class *kind);
/* Raises when the value is something else, or dropped. */
void *neap__handle_check(lua_State *L, int index, const neap_class *kind, const char *function);
void neap__handle_drop(neap_handle *h); /* idempotent */
/* Tells the collector, which sees a small userdata, that `bytes` of device memory are about to be taken. */
void neap__lua_grew(lua_State *L, neap_lua *s, size_t bytes);
/* Tensor work may not begin while the collector runs inside a reservation: raises NEAP_BUSY. */
void neap__lua_ready(lua_State *L, const neap_lua *s);

/* Makes the string at index the module path of nodes traced from now on. */
void neap__lua_set_path(lua_State *L, neap_lua *s, int index);

/* Around engine calls that may reserve memory: a refusal collects garbage on the running thread. */
#define NEAP_CALL(s, L, call) ((s)->current = (L), neap__lua_left((s), (call)))
static inline neap_status neap__lua_left(neap_lua *s, neap_status status) {
  s->current = s->main;
  return status;
}

/* --- error.c ----------------------------------------------------------------------------------------- */

__attribute__((noreturn)) void neap__raise(lua_State *L, const neap_error *err);
__attribute__((noreturn)) void neap__lua_fail(lua_State *L, neap_status status, const char *op, const char *fmt, ...)
    NEAP_PRINTF(4, 5);
void neap__push_error(lua_State *L, const neap_error *err);
static inline void neap__ok(lua_State *L, neap_status status, const neap_error *err) {
  if (status != NEAP_OK) neap__raise(L, err);
}
/* "script.lua:12": the innermost line that is not the standard library's; "" when there is none. */
const char *neap__lua_where(lua_State *L, char *buf, size_t size);

/* --- args.c: arguments, with errors that name function, argument, value and what was expected --------- */

const char *neap__describe(lua_State *L, int index, char *buf, size_t size); /* "3.5", "nil", "a table" */
/* A number without a fraction; 3.0 is one. */
bool neap__to_integer(lua_State *L, int index, int64_t *out);
int64_t neap__arg_integer(lua_State *L, int index, const char *function, const char *what, int64_t min, int64_t max);
double neap__arg_number(lua_State *L, int index, const char *function, const char *what, double min, double max);
const char *neap__arg_string(lua_State *L, int index, const char *function, const char *what, size_t *size);
neap_dtype neap__arg_dtype(lua_State *L, int index, const char *function);
void neap__arg_table(lua_State *L, int index, const char *function, const char *what);
/* Integers of the list at index; raises when there are more than max, or keys that are no positions. */
int neap__arg_list(lua_State *L, int index, const char *function, const char *what, int64_t *out, int max);
/* Dimensions from `first` on, in a list or one by one, and then at most one options table, whose index is
 * returned (0: none). */
int neap__arg_shape(lua_State *L, int first, const char *function, neap_shape *out);
/* The options table at index may be nil or none (false); raises on keys not in `names` ("dtype|shape"). */
bool neap__arg_options(lua_State *L, int index, const char *function, const char *names);
neap_dtype neap__option_dtype(lua_State *L, int index, const char *function, neap_dtype otherwise);

/* --- value.c: elements between Lua and memory --------------------------------------------------------- */

#define NEAP_STAGE_BYTES 4096

/* Device memory is written and read in order through this much host memory. */
typedef struct neap_stage {
  neap_context *ctx;
  char *device;      /* the next byte */
  size_t used, left; /* of buf; left counts bytes not yet read */
  char buf[NEAP_STAGE_BYTES];
} neap_stage;

void neap__stage_begin(neap_stage *w, neap_context *ctx, void *device, size_t bytes);
neap_status neap__stage_put(neap_stage *w, const void *element, size_t size, neap_error *err);
neap_status neap__stage_flush(neap_stage *w, neap_error *err);
neap_status neap__stage_take(neap_stage *r, void *element, size_t size, neap_error *err);

/* A Lua number or boolean as an element; NEAP_DTYPE or NEAP_RANGE when it cannot be one. 8 bytes of room. */
neap_status neap__encode(lua_State *L, int index, neap_dtype t, void *out, neap_error *err);
neap_status neap__encode_double(double x, neap_dtype t, void *out, neap_error *err);
void neap__push_element(lua_State *L, neap_dtype t, const void *element);
neap_status neap__copy(neap_context *ctx, void *dst, const void *src, size_t bytes, neap_copy_kind kind,
                       neap_error *err);

/* --- tensor.c ---------------------------------------------------------------------------------------- */

/* Concrete tensors are dense and hold one reference to their storage. Symbolic ones stand for a value of a
 * trace: they have dtype and shape alone. */
typedef struct neap_lua_tensor {
  neap_handle base;
  neap_tensor t;
  uint64_t trace; /* serial of the trace it belongs to; 0: concrete */
  neap_id id;
  bool view; /* shares another tensor's storage: closing it frees nothing */
} neap_lua_tensor;

extern const neap_class neap__tensor_class;

neap_lua_tensor *neap__tensor_test(lua_State *L, int index); /* NULL when it is none */
neap_lua_tensor *neap__tensor_check(lua_State *L, int index, const char *function);
/* Raises for symbolic tensors too, with the script's line. */
neap_lua_tensor *neap__concrete_check(lua_State *L, int index, const char *function);
/* Raises NEAP_CLOSED for closed ones and those whose trace has ended. */
void neap__tensor_usable(lua_State *L, const neap_lua_tensor *t, const char *function);
neap_lua_tensor *neap__push_tensor(lua_State *L, neap_lua *s); /* to be filled in; may stay empty */
/* A new tensor with undefined contents; `function` is named when memory refuses it (NULL: nobody is). */
neap_lua_tensor *neap__push_made(lua_State *L, neap_lua *s, const neap_desc *d, const char *function);
static inline neap_lua_tensor *neap__push_new(lua_State *L, neap_lua *s, const neap_desc *d) {
  return neap__push_made(L, s, d, NULL);
}
neap_lua_tensor *neap__push_view(lua_State *L, neap_lua *s, const neap_tensor *t); /* dense; retains */
neap_lua_tensor *neap__push_symbol(lua_State *L, neap_lua *s, neap_id id);
/* Pushes number or tensor at index as a dense tensor of this dtype and shape (broadcast), concretely. */
neap_lua_tensor *neap__push_as(lua_State *L, neap_lua *s, int index, const neap_desc *d, const char *function);

/* --- tensor_index.c ---------------------------------------------------------------------------------- */

int neap__tensor_get(lua_State *L); /* t[key], key a number or table */
int neap__tensor_set(lua_State *L); /* t[key] = value */
/* The dense elements of a view into `out` (dense, as large). */
neap_status neap__gather(neap_context *ctx, const neap_tensor *view, const neap_tensor *out, neap_error *err);

/* --- ops.c, ops_args.c ------------------------------------------------------------------------------- */

typedef struct neap_lua_arg {
  neap_lua_tensor *t; /* NULL: a number */
  double number;
  bool integer;
  neap_dtype dtype; /* of the constant that stands for the number */
} neap_lua_arg;

#define NEAP_FEW_INPUTS 16

typedef struct neap_lua_call {
  const neap_op *op;
  const char *name; /* that the script knows it by */
  uint32_t n_in;
  neap_lua_arg *in; /* few, or a block on Lua's stack */
  neap_lua_arg few[NEAP_FEW_INPUTS];
  neap_opt opt[NEAP_MAX_OPTS];
} neap_lua_call;

/* Parses the arguments from index 1 on; what it points to stays on the stack. */
void neap__call_parse(lua_State *L, neap_lua_call *c);
/* Dtypes of the numbers, from the tensors beside them. */
void neap__call_promote(lua_State *L, neap_lua_call *c);
/* Pushes the op's results: of a node of the trace, or computed at once. Returns how many. */
uint32_t neap__call_apply(lua_State *L, neap_lua *s, neap_lua_call *c);
/* The same for ops that the binding itself uses. `in` are stack indices of tensors. */
void neap__apply(lua_State *L, neap_lua *s, const neap_op *op, const int *in, uint32_t n, const neap_opt *opt);

/* --- trace.c, graph.c, gradient.c --------------------------------------------------------------------- */

/* Inputs of a graph as scripts give them: tensors, and numbers for 0-d inputs. */
typedef struct neap_lua_inputs {
  neap_context *ctx;
  uint32_t n;
  neap_desc *desc;
  const void **data;
  neap_storage **held; /* while a run lasts */
  int64_t *offset;     /* bytes into held */
  char *scalars;       /* device memory, NEAP_ALIGN for each input that is 0-d */
  size_t scalar_bytes;
} neap_lua_inputs;

typedef struct neap_lua_graph {
  neap_handle base;
  neap_graph *g;
  uint64_t serial;
  bool sealed;            /* a program or an update is made of it: it must not grow */
  neap_lua_inputs inputs; /* for core.run */
} neap_lua_graph;

extern const neap_class neap__graph_class;
neap_lua_graph *neap__graph_check(lua_State *L, int index, const char *function);
/* Raises when the graph writes to tensors, in the name of who must not change any. */
void neap__graph_pure(lua_State *L, const neap_lua_graph *g, const char *who);
/* graph:differentiate{inputs = {1, 2}, tensors = {t1, t2}} -> graph: gradients of its first output, appended */
int neap__graph_differentiate(lua_State *L);
/* The value of tensor or number at index in the active trace; numbers in `dtype`. */
neap_id neap__trace_value(lua_State *L, neap_lua *s, int index, neap_dtype dtype, const char *function);
/* Sets the script's line on nodes built from now on. */
void neap__trace_here(lua_State *L, neap_lua *s);
/* Raises the graph's error and clears it: a trace that catches it may go on. */
void neap__trace_ok(lua_State *L, neap_lua *s);

/* --- inputs.c ---------------------------------------------------------------------------------------- */

neap_status neap__inputs_create(neap_context *ctx, const neap_graph *g, neap_lua_inputs *out, neap_error *err);
void neap__inputs_destroy(neap_lua_inputs *in); /* idempotent */
/* Checks arguments first..top against the inputs and notes their pointers. Takes no memory. */
void neap__inputs_bind(lua_State *L, neap_lua_inputs *in, int first, const char *function);
/* What the input at index is (a number, a tensor, or a shape {1, 4, dtype = "fp32"} that stands for one); raises
 * for anything else. i: its position, 1-based, for errors. */
neap_desc neap__input_desc(lua_State *L, int index, const char *function, int i);
bool neap__inputs_match(lua_State *L, const neap_lua_inputs *in, int first);
/* After bind: keeps the storages until release. */
void neap__inputs_hold(lua_State *L, neap_lua_inputs *in, int first);
/* Pointers again, since storages may have moved; NEAP_CLOSED when one is gone. */
neap_status neap__inputs_refresh(neap_lua_inputs *in, neap_error *err);
void neap__inputs_release(neap_lua_inputs *in);
/* batch_dims = {1, 1, false}: dim of each input, 0-based or -1, and the samples they agree on (0: none). */
int64_t neap__arg_batch(lua_State *L, int index, const char *function, const neap_graph *g, int32_t *dims);

/* --- optimizer.c ------------------------------------------------------------------------------------- */

typedef struct neap_lua_optimizer {
  neap_handle base;
  struct neap_optimizer *o;
  uint32_t users; /* updates that point to it */
  uint32_t n;     /* parameters, in the order given; the tensors are in the user value */
} neap_lua_optimizer;

extern const neap_class neap__optimizer_class;
void neap__optimizer_unuse(neap_lua_optimizer *o); /* for updates: the last one ends a dropped optimizer */

/* --- update.c ---------------------------------------------------------------------------------------- */

extern const neap_class neap__update_class;
bool neap__updates_running(const neap_lua *s);
void neap__updates_drop(neap_lua *s);
/* Raises NEAP_BUSY when an unfinished update reads the tensor's storage, or would write to it: a change in the
 * middle would leave a result that is of neither state. */
void neap__updates_guard(lua_State *L, const neap_lua *s, const neap_tensor *t, const char *function);
/* The same for all that the optimizer steps. */
void neap__updates_guard_step(lua_State *L, const neap_lua_optimizer *o, const char *function);
double neap__updates_next(const neap_lua *s); /* predicted seconds of the unfinished update's next piece; 0: none is */

/* --- memory.c ---------------------------------------------------------------------------------------- */

void neap__memory_begin(lua_State *L, neap_lua *s); /* notes what the process holds when the engine opens */

/* --- each adds its functions to the table on top ------------------------------------------------------- */

void neap__open_error(lua_State *L);
void neap__open_tensor(lua_State *L);
void neap__open_make(lua_State *L);
void neap__open_random(lua_State *L);
void neap__open_ops(lua_State *L, int methods); /* index of the table of tensor methods */
void neap__open_trace(lua_State *L);
void neap__open_custom(lua_State *L);
void neap__open_op_info(lua_State *L);
void neap__open_graph(lua_State *L);
void neap__open_gradient(lua_State *L);
void neap__open_snapshot(lua_State *L);
void neap__open_program(lua_State *L);
void neap__open_optimizer(lua_State *L);
void neap__open_update(lua_State *L);
void neap__open_memory(lua_State *L);
void neap__open_host(lua_State *L);
void neap__open_hdf5(lua_State *L);
void neap__open_hdf5_write(lua_State *L); /* adds to the hdf5 table */

#endif
