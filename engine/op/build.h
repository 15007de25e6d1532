/* What op files share: short builder calls for gradients and composites, shape rules, batch rules.
 * Builders may be called with NEAP_NONE after a failure; they pass it on. */
#ifndef NEAP_OP_BUILD_H
#define NEAP_OP_BUILD_H

#include "op/op.h"

/* A copy of v's desc; an fp32 scalar when v is NEAP_NONE. */
neap_desc neap__desc_at(const neap_graph *g, neap_id v);

/* A list as a set of options whose first is INTS or DIMS. */
neap_opt neap__opt_list(const int64_t *list, int32_t n);
/* opt->list as a shape. */
neap_shape neap__opt_shape(const neap_opt *opt);

neap_id neap__const_like(neap_graph *g, neap_id v, double number); /* a constant in v's dtype */
neap_id neap__scale(neap_graph *g, neap_id v, double number);
neap_id neap__cast(neap_graph *g, neap_id v, neap_dtype dtype); /* v itself when it has the dtype */
neap_id neap__as_float(neap_graph *g, neap_id v);               /* integers and bool become fp32 */
neap_id neap__with_number(neap_graph *g, const neap_op *op, neap_id v,
                          double number); /* op(v, constant in v's dtype) */
neap_id neap__filled(neap_graph *g, neap_id like, const neap_shape *shape, double number); /* in the dtype of `like` */
neap_id neap__reshape_to(neap_graph *g, neap_id v, const neap_shape *shape);
neap_id neap__insert_dim(neap_graph *g, neap_id v, int32_t dim); /* a dimension of 1 before `dim` */
neap_id neap__narrow_to(neap_graph *g, neap_id v, int32_t dim, int64_t start, int64_t length);
/* dims: 0-based, n of them. op: sum, amax, ... with options {dim, keepdim}. */
neap_id neap__reduce(neap_graph *g, const neap_op *op, neap_id v, const int64_t *dims, int32_t n, bool keepdim);
neap_id neap__permute_by(neap_graph *g, neap_id v, const int64_t *dims, int32_t n);
/* v (broadcast to) the shape of `like`, of which only the shape is used. */
neap_id neap__expand_as(neap_graph *g, neap_id v, neap_id like);
/* The gradient v of a value that was broadcast, summed and cast back to desc `to`. */
neap_id neap__sum_to(neap_graph *g, neap_id v, const neap_desc *to);
/* Of composites: false, and the graph has failed in op's name, when x does not float, or the DIM(S) option `given` does
 * not fit it. dims: as neap__dims_resolve makes them. */
bool neap__is_floating(neap_graph *g, const neap_op *op, neap_id x);
bool neap__dims_of(neap_graph *g, const neap_op *op, neap_id x, const neap_opt *given, neap_opt *dims);
/* How many elements lie along dims. */
int64_t neap__count_along(const neap_shape *shape, const neap_opt *dims);
/* The options of what goes over dimensions. */
#define NEAP_DIMS \
  { .name = "dim", .type = NEAP_OPT_DIMS, .doc = "Dimensions to go over, one or several; all when left out." }
#define NEAP_KEEPDIM                                                         \
  {                                                                          \
    .name = "keepdim", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true, \
    .doc = "Whether what is gone over stays, as a dimension of size 1."      \
  }
/* The loss of each element, reduced: 0 mean, 1 sum, 2 none (NEAP_REDUCTION). */
neap_id neap__reduce_loss(neap_graph *g, neap_id v, int64_t reduction);
#define NEAP_REDUCTION                                                                                       \
  {                                                                                                          \
    .name = "reduction", .type = NEAP_OPT_CHOICE, .def = 0, .has_default = true, .choices = "mean|sum|none", \
    .doc = "What becomes of the elements' losses: their mean, their sum, or none: each stays."               \
  }

/* The inputs cast to the dtype that holds all of them, into `in`; false, with the graph failed, where one is no
 * floating point or was not made. */
bool neap__floats(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n, neap_id *in);
/* The dimension `given`, 0-based or negative, of `ndim`, into *dim; false with the graph failed when there is none. */
bool neap__dim_at(neap_graph *g, const neap_op *op, int64_t given, int32_t ndim, int32_t *dim);

/* Turns a DIMS option into 0-based, ascending dims without repeats; left out: all of them. */
neap_status neap__dims_resolve(neap_opt *opt, int32_t ndim, neap_error *err);
/* The same for a single DIM. */
neap_status neap__dim_option(neap_opt *opt, int32_t ndim, neap_error *err);
bool neap__opt_has_dim(const neap_opt *dims, int32_t dim);
/* `from` without the (resolved) dims, or with 1 there. */
neap_shape neap__reduced_shape(const neap_shape *from, const neap_opt *dims, bool keepdim);
/* v, which is `of` reduced over dims, with those dims as 1. */
neap_id neap__keep_dims(neap_graph *g, neap_id v, neap_id of, const neap_opt *dims);
/* Input i (0-based) in a floating-point dtype, or NEAP_DTYPE naming it. */
neap_status neap__need_float(const neap_infer *x, uint32_t i);

/* Common start of batch rules. True: the answer is out (all constant, or all sums), or *s says unsupported;
 * false: some input has samples. */
bool neap__batch_settled(const neap_node *n, const neap_batch *in, neap_batch *out, neap_status *s);
neap_status neap__batch_elementwise(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out);
/* For ops that compute along dim `along` of input 0 (0-based) and keep its shape: MIX when that is the batch's. */
neap_status neap__batch_along(const neap_node *n, const neap_batch *in, neap_batch *out, int32_t along);
/* For reductions with options {dim, keepdim}: the batch's dimension moves; unsupported when it is reduced. */
neap_status neap__batch_reduce(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out);
/* Every output constant, or a sum when the inputs are: no sample may come in. */
neap_status neap__batch_none(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out);
/* The longest side to which values are resampled: kernels keep a table of its entries, which is made while planning. */
#define NEAP_MOST_SIDE (1 << 22)

#endif
