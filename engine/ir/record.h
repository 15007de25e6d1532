/* The op record: all the engine knows of an op, in one const struct. Everything else (Lua names, option
 * parsing, gradients, exactness of micro-batches, cost, conformance cases) is derived from it.
 *
 * To add an op: one file in engine/op with `const neap_op neap__op_NAME = {` (or a row in elementwise.def), and one
 * kernel file a backend, unless it expands into other ops. */
#ifndef NEAP_IR_RECORD_H
#define NEAP_IR_RECORD_H

#include "ir/ir.h"

typedef enum neap_opt_type {
  NEAP_OPT_END = 0,
  NEAP_OPT_BOOL,
  NEAP_OPT_INT,
  NEAP_OPT_FLOAT,
  NEAP_OPT_PAIR, /* one integer for both, or two: list[2], n = 2 */
  NEAP_OPT_INTS, /* a list of integers (a single one is a list of one) */
  NEAP_OPT_DIM,  /* 1-based or negative in Lua; here 0-based or negative */
  NEAP_OPT_DIMS, /* a list of those (a single one is a list of one) */
  NEAP_OPT_DTYPE,
  NEAP_OPT_CHOICE /* one of `choices`, separated by '|'; the value is its index */
} neap_opt_type;

typedef struct neap_opt_spec {
  const char *name;
  neap_opt_type type;
  double def; /* default, when has_default */
  bool has_default;
  bool required;
  double min, max;     /* inclusive; ignored when both are 0 */
  const char *choices; /* CHOICE */
  const char *doc;     /* what it means, for help and the reference pages: "Step of the window." */
} neap_opt_spec;

/* Where the reference pages have an op, in their order. Rows of elementwise.def that name none are arithmetic, or
 * comparisons when their result is bool. */
#define NEAP_TOPICS(XX)                                  \
  XX(ARITHMETIC, "Arithmetic and functions")             \
  XX(COMPARISON, "Comparison, logic and choice")         \
  XX(ACTIVATION, "Activations")                          \
  XX(REDUCTION, "Sums, means and extremes")              \
  XX(SHAPE, "Shape")                                     \
  XX(JOIN, "Joining, cutting and repeating")             \
  XX(INDEX, "Indexing")                                  \
  XX(SORT, "Order")                                      \
  XX(PRODUCT, "Matrices and products")                   \
  XX(CONVOLUTION, "Convolution, pooling and resampling") \
  XX(NORMALIZATION, "Normalization")                     \
  XX(SEQUENCE, "Attention and recurrence")               \
  XX(LOSS, "Losses")                                     \
  XX(RANDOM, "Randomness")                               \
  XX(MAKE, "Making tensors")                             \
  XX(VALUE, "Dtypes and gradients")

typedef enum neap_topic {
  NEAP_TOPIC_NONE = 0,
#define XX(name, title) NEAP_TOPIC_##name,
  NEAP_TOPICS(XX)
#undef XX
} neap_topic;

/* How an op treats the samples of a batch; from it the plan derives what micro-batches do to exactness. */
typedef enum neap_batch_rule {
  NEAP_BATCH_CUSTOM = 0,  /* asks op->batch */
  NEAP_BATCH_ELEMENTWISE, /* each output element depends on the input elements at its (broadcast) place */
  NEAP_BATCH_MIX          /* a sample's output depends on other samples (batch statistics) */
} neap_batch_rule;

typedef enum neap_batch_kind {
  NEAP_B_CONST = 0, /* the same for every batch */
  NEAP_B_SAMPLE,    /* dimension `dim` has batch * per entries, sample-major */
  NEAP_B_SUM,       /* a sum over the samples */
  NEAP_B_MIX        /* as SAMPLE (dim, per), but a sample's entries depend on the other samples */
} neap_batch_kind;

typedef struct neap_batch {
  neap_batch_kind kind;
  int32_t dim;
  int64_t per;
} neap_batch;

/* Whether dimension `dim` has entries for each sample. */
static inline bool neap__batch_carries(const neap_batch *b) {
  return b->kind == NEAP_B_SAMPLE || b->kind == NEAP_B_MIX;
}

typedef enum neap_precision_class { NEAP_PREC_CAST = 0, NEAP_PREC_KEEP, NEAP_PREC_FOLLOW } neap_precision_class;

/* What shape rules see. They check inputs, may normalise options, and fill out[0..n_out-1]. */
typedef struct neap_infer {
  const neap_op *op;
  uint32_t n_in, n_out;
  const neap_desc *in;
  neap_opt *opt;
  neap_desc *out;
  neap_error *err;
} neap_infer;

/* Where a kernel finds a value. PLAIN is row-major; LAST keeps the logical (N, C, spatial...) order and
 * stores channels innermost. */
typedef enum neap_layout { NEAP_LAYOUT_PLAIN = 0, NEAP_LAYOUT_LAST = 1 } neap_layout;

typedef struct neap_operand {
  neap_desc desc;
  neap_layout layout;
  neap_batch batch;
} neap_operand;

/* One node as a backend sees it: the key under which kernels are prepared. Shapes are those of one
 * micro-batch. slab: samples a slab, for outputs of kind SUM (>= 1): partial sums of each slab, taken in
 * order of samples, are added one after the other to what the output holds. */
typedef struct neap_sig {
  const neap_op *op;
  const neap_opt *opt;
  uint32_t n_in, n_out;
  const neap_operand *in;
  const neap_operand *out;
  int64_t slab;
  uint64_t salt; /* of random ops: with neap_draw the key of every number */
} neap_sig;

struct neap_op {
  const char *name;
  uint8_t min_in, max_in; /* max_in 255: any number */
  uint8_t n_out;          /* all outputs of the node */
  uint8_t results;        /* how many of them, from the first, are the op's values in Lua; 0 is as 1 */
  bool internal;          /* not visible in Lua */
  bool nondiff;           /* its outputs have no gradient by nature (comparisons, argmax) */
  bool random;            /* draws numbers: keyed by node->salt and the run's neap_draw */
  uint16_t row;           /* 1 + position in elementwise.def; 0: not from there */
  bool alias;             /* output 0 is input 0's bytes in row-major order; needs no kernel */
  uint8_t inplace;        /* bit i: output 0 may be written over input i when dtype, shape and layout agree */
  uint8_t shape_only;     /* bit i: of input i only the shape is used, its bytes are never read */
  neap_precision_class precision;
  neap_batch_rule rule;
  neap_opt_spec opts[NEAP_MAX_OPTS + 1];

  /* A composite is built of other ops and is never a node. */
  neap_id (*expand)(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt);
  /* The same for several results: sets out[0..n_out-1], NEAP_NONE at first. What stays so at the end is no result this
   * time. None is an input itself. */
  void (*expand_all)(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                     neap_id *out);

  neap_status (*infer)(neap_infer *x);
  /* gout[o]: gradient of output o or NEAP_NONE; sets gin[i] for inputs where need bit i is set (others are
   * ignored; bit 31 speaks for input 31 and all after it). Leaves NEAP_NONE where the gradient is zero. NULL with
   * nondiff false: "not differentiable". */
  void (*grad)(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need);
  /* In place of grad: the same outputs built of ops that have gradients (NEAP_NONE: none flows through it). They are
   * built only where the node is differentiated, so that a gradient is one kernel and has gradients all the same. */
  void (*unfused)(neap_graph *g, const neap_node *n, neap_id *out);
  /* Fills out[0..n_out-1] from in[]; NEAP_UNSUPPORTED when this op cannot say (treated as MIX). */
  neap_status (*batch)(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out);
  /* Samples a slab for outputs of kind SUM, from shapes alone: a power of two. NULL: 8. */
  int64_t (*slab)(const neap_sig *s);
  /* Floating-point operations and bytes moved. NULL: one operation an output element, inputs + outputs. */
  void (*cost)(const neap_sig *s, double *flops, double *bytes);

  /* Conformance cases: "f32[2,3] f32[3]; dim=-1; keepdim=true"; dims as in Lua, NULL ends. Input words:
   * dtype, shape in brackets, then optionally :positive, :distinct, :unit (floats between -0.8 and 0.8), :above=N
   * (floats), :below=N (integers in [0, N), with :positive from 1 on). */
  const char *const *samples;
  /* Sentences for help and the reference pages: what it computes with its source, where it has no gradient. */
  const char *doc;
  /* Lua lines that show it to one who has `neap`; "--> text" ends a line that prints this text. */
  const char *example;
  neap_topic topic;
  /* Inputs and results, "weight [out, in], bias? [out] -> [..., out]": a name, ? when it may be left out or ... when
   * it is a list, its shape ([...]: any), its dtype where that is not a floating-point one. */
  const char *args;
};

static inline bool neap__is_composite(const neap_op *op) { return op->expand || op->expand_all; }
static inline bool neap__shape_only(const neap_op *op, uint32_t i) { return i < 8 && (op->shape_only >> i & 1); }

/* Fills opt[] with defaults; `given` may be NULL. Refuses missing required ones and values out of range. */
neap_status neap__opts_complete(const neap_op *op, const neap_opt *given, neap_opt *opt, neap_error *err);

#endif
