/* Programs: graphs made ready to run. A program knows its memory to the byte before it runs, takes no
 * memory while it runs, and can stop after any task and go on later. */
#ifndef NEAP_GRAPH_PROGRAM_H
#define NEAP_GRAPH_PROGRAM_H

#include "graph/context.h"
#include "ir/ir.h"

typedef struct neap_program neap_program;

typedef enum neap_exact { NEAP_EXACT_BITS = 0, NEAP_EXACT_ROUNDING = 1, NEAP_EXACT_NO = 2 } neap_exact;

typedef enum neap_place {
  NEAP_PLACE_EXTERNAL = 0, /* the caller gives a pointer at each run */
  NEAP_PLACE_KEEP,         /* in the arena, valid until the arena is returned */
  NEAP_PLACE_GRAD          /* in the flat gradient block in the arena, at grad_offset */
} neap_place;

typedef struct neap_output_spec {
  neap_place place;
  size_t grad_offset; /* bytes from the start of the gradient block */
} neap_output_spec;

typedef struct neap_program_spec {
  neap_graph *graph;               /* retained; must not grow while the program lives */
  const int32_t *input_batch;      /* for each input: the dimension (0-based) that carries the batch, or -1.
                                      NULL: none does */
  int64_t batch;                   /* samples in all; 0 when no input carries a batch */
  int64_t micro;                   /* samples a micro-batch; 0: all */
  int64_t grain;                   /* samples a slab for every op; 0: each op's own */
  const neap_output_spec *outputs; /* one for each graph output; NULL: all EXTERNAL */
  size_t grad_bytes;               /* of the flat gradient block */
} neap_program_spec;

typedef struct neap_program_memory {
  uint64_t parameters;      /* captures that are parameters */
  uint64_t captures;        /* other captures */
  uint64_t gradients;       /* the flat block */
  uint64_t activations;     /* the rest of the arena, without workspaces */
  uint64_t workspace;       /* largest workspace of a kernel */
  uint64_t inputs, outputs; /* external */
  uint64_t arena;           /* bytes of the block a run needs: gradients + activations + workspace, packed */
} neap_program_memory;

/* NEAP_UNSUPPORTED when a node has no kernel on the backend, or when micro < batch and the samples depend
 * on each other in a way that no order of passes resolves. Takes no device memory but for constants. */
neap_status neap__program_create(neap_context *c, const neap_program_spec *spec, neap_program **out, neap_error *err);
void neap__program_destroy(neap_program *p);
void neap__program_memory(const neap_program *p, neap_program_memory *out);
neap_exact neap__program_exact(const neap_program *p); /* against the same graph in one micro-batch */
int64_t neap__program_grain(const neap_program *p);    /* micro-batches that are multiples keep the bits */
int64_t neap__program_micro(const neap_program *p);
double neap__program_seconds(const neap_program *p); /* predicted for a whole run on the engine's threads */
const neap_graph *neap__program_graph(const neap_program *p);
double neap__node_flops(const neap_graph *g, const neap_node *n); /* floating-point operations, of the whole batch */

/* One run in progress. Plain data owned by the caller; begin, step until done, end. */
typedef struct neap_run {
  neap_program *program;
  neap_arena *arena;
  char *base;
  const void *const *inputs; /* dense; must stay until the run ends */
  void *const *outputs;      /* one for each EXTERNAL output, in order */
  uint64_t seed, draw;       /* what its random numbers are keyed by */
  uint32_t segment, micro, step, phase, task;
  bool done;
  neap_fault fault;
} neap_run;

/* NEAP_CLOSED, naming who uses it, when one of the graph's captured tensors was closed. */
neap_status neap__captures_open(const neap_graph *g, const neap_tensor *captures, neap_error *err);

/* Takes the arena. Errors: NEAP_OOM, NEAP_BUSY, NEAP_CLOSED (a captured tensor was closed). */
neap_status neap__run_begin(neap_run *r, neap_program *p, neap_arena *a, const void *const *inputs,
                            void *const *outputs, neap_error *err);
/* Works for about `seconds` (INFINITY: to the end), never beginning what is predicted to overrun except
 * for one piece of progress. r->done tells whether it is finished. On an error the run is over (call end). */
neap_status neap__run_step(neap_run *r, double seconds, neap_error *err);
/* Writes what the graph writes to tensors, when the run is done: takes nothing, and before it none of them has changed,
 * so that a run which is dropped, or fails, leaves them as they were. Nobody has closed them since begin. */
neap_status neap__run_commit(neap_run *r, neap_error *err);
/* Where a KEEP or GRAD output lies now. */
void *neap__run_output(const neap_run *r, uint32_t output);
void *neap__run_gradients(const neap_run *r);
double neap__run_next_seconds(const neap_run *r); /* predicted for the smallest next piece */
/* A prediction after one more measurement: follows the slow side of what is seen quickly and the fast side slowly, so
 * that it errs towards stopping early. A single wild sample (the thread was taken off its core) counts as twice the
 * prediction before. */
double neap__learn_seconds(double before, double seen);
void neap__run_end(neap_run *r); /* returns the arena; also after errors; idempotent */

/* Runs p at once, in the infer arena, and commits. */
neap_status neap__program_run(neap_program *p, const void *const *inputs, void *const *outputs, neap_error *err);

/* Appends the gradient of `loss` (0-d float, or any shape with seed given: gradient of sum(loss * seed)) with
 * respect to wrt[i]; out[i] is NEAP_NONE where it is zero. Errors are in g->error. */
void neap__gradient(neap_graph *g, neap_id loss, neap_id seed, const neap_id *wrt, uint32_t n, neap_id *out);
/* The same, with what nodes before `first` computed taken for constants, also where they took it from wrt. */
void neap__gradient_since(neap_graph *g, uint32_t first, neap_id loss, neap_id seed, const neap_id *wrt, uint32_t n,
                          neap_id *out);

/* The cached program of the graph when there is an equal one (then *g's captures are bound to it: captures
 * of a cached program are read from the graph given last), else a new one. The
 * program belongs to the cache; valid until the next call. */
neap_status neap__program_cached(neap_context *c, neap_graph *g, neap_program **out, neap_error *err);

#endif
