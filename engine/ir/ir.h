/* Graph nodes and the builder that ops and gradients use.
 *
 * A graph is a list of nodes in an order in which each may run; values are named by small integers. It is
 * built in a zone and never edited except by appending. Building has a sticky error: after a failure every
 * builder call returns NEAP_NONE and changes nothing, so rules are written without checks and the caller
 * looks once, at graph->error. */
#ifndef NEAP_IR_IR_H
#define NEAP_IR_IR_H

#include "tensor/tensor.h"

#define NEAP_MAX_OPTS 8
#define NEAP_MAX_OUT 4
#define NEAP_NONE UINT32_MAX

typedef uint32_t neap_id;
typedef struct neap_op neap_op;

/* The value of one option. Which member is meant, the op's option table says. set is 0 when the caller
 * left it out and the op gives no default. */
typedef struct neap_opt {
  uint8_t set;
  uint8_t n; /* length of list */
  union {
    double f;
    int64_t i; /* INT, BOOL, DIM (0-based, or negative from the end), DTYPE, CHOICE (index) */
    int64_t list[NEAP_MAX_DIMS];
  } v;
} neap_opt;

typedef enum neap_value_kind {
  NEAP_VALUE_NODE,    /* an output of a node */
  NEAP_VALUE_INPUT,   /* given at each run, by position */
  NEAP_VALUE_CAPTURE, /* a tensor the function refers to; its storage is read at each run */
  NEAP_VALUE_CONST    /* a number, 0-d */
} neap_value_kind;

typedef struct neap_value {
  neap_value_kind kind;
  neap_desc desc;
  uint32_t node;  /* index of the node, for NODE */
  uint32_t index; /* which output, input or capture */
  double number;  /* for CONST */
} neap_value;

typedef struct neap_node {
  const neap_op *op;
  uint32_t index;
  uint16_t n_in, n_out;
  neap_id *in;
  neap_id out[NEAP_MAX_OUT];
  neap_opt opt[NEAP_MAX_OPTS];
  uint64_t salt;      /* of random ops: which draw of the module's forward this is; a gradient that repeats the
                        draw carries the same */
  const char *called; /* the op as its user named it: the composite's name where one was expanded */
  const char *path;   /* module path, "" at top level; lives as long as the graph */
  const char *where;  /* "script.lua:12", or "" */
} neap_node;

/* A tensor from outside that holds another value once a run has ended. */
typedef struct neap_write {
  neap_id value, target; /* target: a capture of the value's dtype and shape */
  const char *where;     /* as of a node */
} neap_write;

typedef struct neap_graph {
  uint32_t refs; /* programs keep their graph */
  neap_zone zone;
  neap_error error; /* status NEAP_OK until the first failure */
  neap_value *values;
  uint32_t n_values, cap_values;
  neap_node **nodes;
  uint32_t n_nodes, cap_nodes;
  neap_id *inputs;
  uint32_t n_inputs, cap_inputs;
  neap_tensor *captures; /* storages retained by the graph */
  neap_id *capture_ids;
  uint32_t n_captures, cap_captures;
  neap_id *outputs;
  uint32_t n_outputs, cap_outputs;
  neap_write *writes; /* in order; a target is there once */
  uint32_t n_writes, cap_writes;
  const char *path, *where; /* given to nodes built from now on */
  const char *called;       /* the composite that is being expanded or differentiated, NULL: none */
} neap_graph;

neap_graph *neap__graph_create(neap_host *h); /* one reference; NULL when refused */
neap_graph *neap__graph_retain(neap_graph *g);
void neap__graph_drop(neap_graph *g); /* NULL is nothing; the last reference frees */

neap_id neap__graph_input(neap_graph *g, const neap_desc *d);
neap_id neap__graph_capture(neap_graph *g, const neap_tensor *t); /* the same view again gives the same id */
neap_id neap__graph_const(neap_graph *g, neap_dtype dtype, double number);
void neap__graph_output(neap_graph *g, neap_id v);
/* The captured tensor gets the value when a run has done all else (neap__run_commit); nodes that use the capture see
 * what it held before. Of several writes to one the last counts. */
void neap__graph_write(neap_graph *g, neap_id value, neap_id target);
/* What a script that reads the tensor now means: the value written last, else its capture. NEAP_UNSUPPORTED when some
 * of its bytes were written through another view. */
neap_id neap__graph_read(neap_graph *g, const neap_tensor *t);
void neap__graph_where(neap_graph *g, const char *path, const char *where); /* copied */

/* One application of an op: composites expand, primitives append a node. Missing options (opts NULL: all)
 * take their defaults. Returns output 0. */
neap_id neap__build(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opts);
/* As above for an op of several outputs; out has room for op->n_out. */
bool neap__build_n(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opts,
                   neap_id *out);
neap_id neap__build1(neap_graph *g, const neap_op *op, neap_id a);
neap_id neap__build2(neap_graph *g, const neap_op *op, neap_id a, neap_id b);
neap_id neap__build3(neap_graph *g, const neap_op *op, neap_id a, neap_id b, neap_id c);

static inline const neap_desc *neap__desc_of(const neap_graph *g, neap_id v) { return &g->values[v].desc; }
/* Marks the graph failed, with the op's name. Returns NEAP_NONE. */
neap_id neap__graph_fail(neap_graph *g, const neap_op *op, neap_status s, const char *fmt, ...) NEAP_PRINTF(4, 5);

#endif
