/* What the conformance checks share: cases drawn from the op table, values for them, and how they are run.
 *
 * A case is one sample line of an op's record, or a variant of it. Every check takes any case of any op, so that
 * a new op is covered by being in the table. Checks complain and go on; a test fails when it has complained. */
#ifndef NEAP_TESTS_CONFORM_H
#define NEAP_TESTS_CONFORM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>

#include "graph/program.h"
#include "ir/record.h"
#include "support/kernels.h"

/* --- cases: sample.c --------------------------------------------------------------------------------- */
enum { CF_INPUTS = 40 };

typedef struct cf_input {
  neap_desc desc;
  bool positive, distinct;
  bool unit;     /* floats between -0.8 and 0.8 */
  double above;  /* floats above this number; 0: not given */
  int64_t below; /* integers in [0, below); 0: not given */
} cf_input;

typedef struct cf_case {
  const neap_op *op;
  const char *options; /* the sample's text after the inputs */
  uint32_t n_in;
  cf_input in[CF_INPUTS];
  neap_opt opt[NEAP_MAX_OPTS];
} cf_case;

/* Parses "f32[2,3] f32[3]; dim=-1" (the grammar is in ir/record.h); a line that is none ends the test. */
void cf_parse(cf_case *c, const neap_op *op, const char *text);
/* The case in fp64 throughout. */
cf_case cf_wide(const cf_case *c);
/* "softmax f32[2,5]; dim=-1", valid until the next call. */
const char *cf_title(const cf_case *c);
/* Prints the case and the message, and lets the test fail at its end. */
void cf_complain(const cf_case *c, const char *fmt, ...) NEAP_PRINTF(2, 3);
int cf_complaints(void); /* since the last call */
/* A remark for the report at the end: op names under a heading, each once. */
void cf_note(const char *heading, const neap_op *op);
void cf_print_notes(void);

/* --- values: values.c --------------------------------------------------------------------------------- */
kt_value cf_buffer(const neap_desc *d);
kt_value cf_copy(const kt_value *v);
/* Values for the i-th input, the same in every dtype: exact in fp32, away from whole numbers, and no two inputs
 * with an element in common, so that no kink lies near. */
kt_value cf_values(const cf_input *in, uint32_t i);
/* Random numbers in [-1, 1], of the given stream. */
kt_value cf_weights(const neap_desc *d, uint32_t stream);
/* Complains unless a and b have one shape and agree within rel * max(1, max |b|); NaN agrees with NaN. */
bool cf_close(const cf_case *c, const char *what, const kt_value *a, const kt_value *b, double rel);
bool cf_same_bits(const cf_case *c, const char *what, const kt_value *a, const kt_value *b);

/* --- running: run.c ------------------------------------------------------------------------------------ */
enum { CF_GRAPH_INPUTS = 128, CF_THREADS = 3 };

/* A graph, its inputs' values, its program and outputs. */
typedef struct cf_run {
  neap_context *c;
  neap_graph *g;
  neap_program *p;
  uint32_t n_in, n_out;
  neap_id in_id[CF_GRAPH_INPUTS];
  kt_value in[CF_GRAPH_INPUTS], out[CF_GRAPH_INPUTS];
  int32_t batch_dim[CF_GRAPH_INPUTS];
  int64_t batch, micro;
  neap_error err;
} cf_run;

neap_context *cf_engine(uint32_t threads); /* 1 to CF_THREADS; made on demand */
/* Refuses the n-th request for host memory from now on engine 1; 0: none. Returns the requests so far. */
uint64_t cf_refuse(uint64_t n);
uint64_t cf_in_use(void); /* host bytes of engine 1 */
void cf_close_engines(void);

void cf_open(cf_run *r, uint32_t threads);
void cf_end(cf_run *r);
neap_id cf_add(cf_run *r, kt_value v); /* a graph input that holds v, which the run owns from now on */
void cf_add_inputs(cf_run *r, const cf_case *c, neap_id *ids);
/* Applies the op; *n is how many outputs there are. False: refused, r->g->error tells. */
bool cf_apply(cf_run *r, const cf_case *c, const neap_id *ids, neap_id *out, uint32_t *n);
/* Plans with the graph's outputs, and makes room for them. */
neap_status cf_plan(cf_run *r);
neap_status cf_go(cf_run *r);
neap_status cf_go_in_slices(cf_run *r); /* the smallest pieces there are */
/* Opens a run of the op on its values; outputs are the op's. False (the run is closed): the op refuses the case. */
bool cf_forward(cf_run *r, const cf_case *c, uint32_t threads);
/* As above and complains when the case cannot be run. */
bool cf_must_run(cf_run *r, const cf_case *c);

/* --- gradients: gradient.c ----------------------------------------------------------------------------- */
typedef struct cf_level {
  uint32_t n_out, n_wrt;
  neap_id out[CF_GRAPH_INPUTS];     /* floating-point outputs at this level */
  uint32_t wrt[CF_GRAPH_INPUTS];    /* inputs of the run they depend on: all that float */
  neap_id grad[CF_GRAPH_INPUTS];    /* level 1 and up: gradient of each wrt of the level below, or NONE */
  kt_value weight[CF_GRAPH_INPUTS]; /* one for each output of the level below, not owned */
} cf_level;

typedef struct cf_order {
  int order;        /* how many times */
  uint32_t outputs; /* which of the op's */
} cf_order;

/* Opens a run whose outputs are those of the op differentiated `order` times, each time as the gradient of the
 * sum of all outputs times weights. False (the run is closed): refused, r->err tells. */
bool cf_differentiated(cf_run *r, cf_level *l, const cf_case *c, const cf_order *what);
void cf_check_gradient(const cf_case *c);
void cf_check_higher(const cf_case *c);

/* --- the other checks ---------------------------------------------------------------------------------- */
void cf_check_record(const cf_case *c);  /* record.c */
void cf_check_forward(const cf_case *c); /* forward.c */
void cf_check_shapes(const cf_case *c);
void cf_check_values(const cf_case *c);
void cf_check_unfused(const cf_case *c); /* unfused.c */
void cf_check_inplace(const cf_case *c); /* place.c */
void cf_check_layouts(const cf_case *c);
void cf_check_batch(const cf_case *c); /* batch.c */
void cf_check_threads(const cf_case *c);
void cf_check_refusals(const cf_case *c); /* refusal.c */
void cf_check_memory(const cf_case *c);

#endif
