/* What the stages of planning hand to each other. Private to engine/graph.
 *
 *   batch.c     how each value depends on the samples, and the pass in which it can be known
 *   schedule.c  which nodes run once and which once a micro-batch, in what order
 *   lower.c     steps over plan values: micro shapes, layouts and the copies between them, outputs
 *   live.c      live ranges, in-place, and offsets in the arena
 *   prepare.c   kernels and workspaces
 *   run.c       running
 *   canary.c    debug builds: gaps between blocks that nobody may write
 *
 * Passes: a sum over the samples is complete only when all micro-batches have told theirs. What needs such
 * a sum for each sample (a per-sample value times 1 / count) runs in a later pass over the micro-batches,
 * and what it needs of the pass before is computed again there, to the same bits. */
#ifndef NEAP_GRAPH_PLAN_H
#define NEAP_GRAPH_PLAN_H

#include "graph/program.h"
#include "ir/record.h"

#define NEAP_FOREVER UINT32_MAX
/* Debug builds leave a gap after every block, filled with a pattern while the block lives. */
#ifdef NEAP_DEBUG
#define NEAP_CANARY NEAP_ALIGN
#else
#define NEAP_CANARY 0u
#endif

typedef struct neap_value_info {
  neap_batch batch; /* kind MIX with dim -1: depends on the samples in a way no rule tells */
  uint32_t pass;    /* 0: before any sample; p: known during (SAMPLE) or after (SUM) pass p */
  bool needed;
} neap_value_info;

typedef enum neap_ref_kind {
  NEAP_REF_ARENA,
  NEAP_REF_INPUT,
  NEAP_REF_CAPTURE,
  NEAP_REF_OUTPUT /* external, by position among the EXTERNAL outputs */
} neap_ref_kind;

/* One value as steps see it. */
typedef struct neap_pvalue {
  neap_desc desc; /* of one micro-batch */
  neap_desc tail; /* of the last, smaller micro-batch */
  neap_layout layout;
  neap_batch batch;
  neap_ref_kind ref;
  uint32_t index;      /* input, capture or output position */
  size_t offset;       /* in bytes from the start of what ref means */
  size_t sample_bytes; /* INPUT and OUTPUT that carry the batch: bytes from one sample to the next */
  uint32_t root;       /* the value whose bytes these are (itself, unless alias or in place) */
  bool pinned;         /* its place was decided by the caller or must last: never written over */
  bool grad;           /* in the flat gradient block, at offset */
  bool constant;       /* number to write before the first step */
  double number;
  uint32_t first, last; /* steps; of roots, over all that share the bytes */
  uint32_t other;       /* its copy in the other layout, or NEAP_NONE */
} neap_pvalue;

typedef struct neap_step {
  const neap_op *op;
  const neap_opt *opt;
  const char *called, *path, *where;
  uint32_t node; /* in the graph, or NEAP_NONE for copies */
  uint32_t n_in, n_out;
  uint32_t *in, *out; /* plan values */
  neap_kernel *kernel, *tail;
  double *seconds;  /* of a task, measured, by phase; 0: not yet */
  size_t workspace; /* bytes */
  size_t ws_offset; /* in the arena */
  int64_t slab;
  uint64_t salt;
  bool sums;           /* an output is a sum over samples */
  double flops, bytes; /* of the whole micro-batch */
} neap_step;

/* Steps [begin, end) that run once, or once a micro-batch. */
typedef struct neap_segment_range {
  uint32_t begin, end;
  bool loop;
} neap_segment_range;

struct neap_program {
  neap_context *ctx;
  neap_graph *graph;
  neap_zone zone;
  const neap_tensor *captures; /* of the graph given last */
  const neap_id *results;      /* what a run leaves: the graph's outputs, then the values that it writes */
  uint32_t n_results;
  neap_output_spec *outputs;           /* of each result */
  uint32_t *output_values;             /* its plan value */
  uint32_t *output_external;           /* position among EXTERNAL outputs, or NEAP_NONE */
  int64_t batch, micro, n_micro, tail; /* tail: samples of the last micro-batch when it is smaller, else 0 */
  int64_t grain;
  int64_t grain_asked;
  neap_exact exact;
  int32_t *input_batch;
  neap_opt no_options[NEAP_MAX_OPTS];

  neap_value_info *info; /* by graph value */
  uint32_t n_passes;

  neap_pvalue *values;
  uint32_t n_values, cap_values;
  neap_step *steps;
  uint32_t n_steps, cap_steps;
  neap_segment_range *segments;
  uint32_t n_segments, cap_segments;

  neap_operand *scratch; /* for the widest step, twice */
  void **pointers;
  uint32_t widest;

  size_t arena_bytes, grad_bytes, grad_offset, const_offset, activation_bytes, workspace_bytes;
  double seconds;
  bool random;
};

neap_status neap__plan_batch(neap_program *p, neap_error *err);
neap_status neap__plan_schedule(neap_program *p, neap_error *err);
neap_status neap__plan_live(neap_program *p, neap_error *err);
neap_status neap__plan_prepare(neap_program *p, neap_error *err);
void neap__plan_unprepare(neap_program *p);

/* Adds to *err which op failed and where in the script, when nobody has. Returns st. */
neap_status neap__step_error(const neap_step *s, neap_status st, neap_error *err);
void neap__canary_put(const neap_run *r, const neap_step *s);
neap_status neap__canary_check(const neap_run *r, const neap_step *s, neap_error *err);

/* lower.c, called by schedule.c */
typedef struct neap_lowering {
  neap_program *p;
  uint32_t *map; /* plan value of each graph value, or NEAP_NONE */
  neap_error *err;
} neap_lowering;

neap_status neap__lower_begin(neap_lowering *l);
neap_status neap__lower_node(neap_lowering *l, const neap_node *n);
/* Per-sample values are computed again in the pass that begins now. */
void neap__lower_forget_samples(neap_lowering *l);
/* Outputs that carry samples (inside the last loop), or the others (at the end). */
neap_status neap__lower_outputs(neap_lowering *l, bool samples);
/* The signature of a step at the micro (or, tail true, last) size; operands live in p->scratch. */
void neap__step_sig(const neap_program *p, const neap_step *s, bool tail, neap_sig *out);
/* Whether both layouts are the same bytes. */
bool neap__layout_same(const neap_desc *d, neap_layout a, neap_layout b);
uint32_t neap__root(neap_program *p, uint32_t value);
neap_status neap__plan_nomem(neap_error *err);
/* d with its batch dimension cut to m samples. */
neap_desc neap__micro_desc(const neap_desc *d, const neap_batch *b, int64_t m);

#endif
