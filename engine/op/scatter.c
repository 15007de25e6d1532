/* Writing to places that indices name. Which element a place keeps is worked out first, as a number; the values then
 * follow from gather and where, and so do the gradients: each goes to the element that was kept. */
#include <math.h>

#include "op/index.h"

#define CHECK_NONE(v) \
  if ((v) == NEAP_NONE) return NEAP_NONE

/* (like, index) -> for each place of `like` the position along dim of the last index that names it, or -1 */
static neap_status infer(neap_infer *x) {
  const neap_shape *like = &x->in[0].shape, *index = &x->in[1].shape;
  char a[96], b[96];
  neap_status s = neap__need_index(x, 1);
  if (s == NEAP_OK) s = neap__dim_option(&x->opt[0], like->ndim, x->err);
  if (s != NEAP_OK) return s;
  bool fits = index->ndim == like->ndim;
  for (int32_t d = 0; d < like->ndim && fits; d++) fits = d == x->opt[0].v.i || index->dim[d] <= like->dim[d];
  if (!fits)
    return neap__fail(x->err, NEAP_SHAPE, "indices of shape %s, expected no more than %s but for dimension %lld",
                      neap__shape_text(index, a, sizeof a), neap__shape_text(like, b, sizeof b),
                      (long long)x->opt[0].v.i + 1);
  x->out[0] = (neap_desc){NEAP_I64, *like};
  return NEAP_OK;
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  const neap_status s = neap__batch_same(g, n, in, out);
  const bool samples = s == NEAP_OK && neap__batch_carries(&out[0]);
  if (samples && in[1].kind == NEAP_B_CONST) return NEAP_UNSUPPORTED; /* it would have to be cut as well */
  return samples && out[0].dim == n->opt[0].v.i ? NEAP_UNSUPPORTED : s;
}

static const char *const last_samples[] = {"f32[2,5] i64[2,3]:below=5; dim=2", "f32[4,3] i64[6,3]:below=4; dim=1",
                                           "f32[2,4,3] i64[2,2,2]:below=4; dim=2", "i64[2,5] i64[2,0]; dim=-1", NULL};

const neap_op neap__op_scatter_last = {
    .name = "scatter_last",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .nondiff = true,
    .shape_only = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true}},
    .infer = infer,
    .batch = batch,
    .samples = last_samples,
    .doc = "For each place of the first input the position along `dim` of the last index that names it, or -1.",
};

/* source, cut to the indices' shape and, beside dim, spread out to x's with zeros, which nothing reads. */
static neap_id fit_source(neap_graph *g, neap_id source, const neap_shape *index, const neap_shape *x, int32_t dim) {
  const neap_shape from = neap__desc_at(g, source).shape;
  for (int32_t d = 0; d < x->ndim; d++) {
    if (index->dim[d] < from.dim[d]) source = neap__narrow_to(g, source, d, 0, index->dim[d]);
    if (d == dim || x->dim[d] == index->dim[d] || source == NEAP_NONE) continue;
    const neap_opt whole[NEAP_MAX_OPTS] = {NEAP_INT(d), NEAP_INT(0), NEAP_INT(x->dim[d])};
    source = neap__build(g, &neap__op_place, &source, 1, whole);
  }
  return source;
}

static bool source_fits(neap_graph *g, const neap_op *op, const neap_desc *x, const neap_desc *source,
                        const neap_shape *index) {
  char a[96], b[96];
  bool fits = source->shape.ndim == index->ndim;
  for (int32_t d = 0; d < index->ndim && fits; d++) fits = index->dim[d] <= source->shape.dim[d];
  if (x->dtype != source->dtype)
    neap__graph_fail(g, op, NEAP_DTYPE, "the source is %s, expected %s like the first input",
                     neap__dtype_name(source->dtype), neap__dtype_name(x->dtype));
  else if (!fits)
    neap__graph_fail(g, op, NEAP_SHAPE, "indices of shape %s go beyond the source, which has %s",
                     neap__shape_text(index, a, sizeof a), neap__shape_text(&source->shape, b, sizeof b));
  return fits && x->dtype == source->dtype;
}

/* source: NEAP_NONE where `value` is written. */
static neap_id write_at(neap_graph *g, const neap_op *op, neap_id x, neap_id index, neap_id source, double value,
                        int64_t dim) {
  neap_opt o[NEAP_MAX_OPTS] = {NEAP_INT(dim)};
  const neap_id last = neap__build(g, &neap__op_scatter_last, (neap_id[]){x, index}, 2, o);
  CHECK_NONE(last);
  const neap_desc xd = neap__desc_at(g, x), at = neap__desc_at(g, index);
  int32_t d = 0;
  if (!neap__dim_at(g, op, dim, xd.shape.ndim, &d)) return NEAP_NONE;
  if (source == NEAP_NONE && !neap__dtype_is_float(xd.dtype) && value != floor(value))
    return neap__graph_fail(g, op, NEAP_RANGE, "`value` is %g, which %s does not hold", value,
                            neap__dtype_name(xd.dtype));
  if (source != NEAP_NONE) {
    const neap_desc sd = neap__desc_at(g, source);
    if (!source_fits(g, op, &xd, &sd, &at.shape)) return NEAP_NONE;
  }
  if (neap__shape_count(&at.shape) == 0) return x;
  const neap_id zero = neap__const_like(g, last, 0), written = neap__build2(g, &neap__op_ge, last, zero);
  neap_id values = neap__const_like(g, x, value);
  if (source != NEAP_NONE) {
    source = fit_source(g, source, &at.shape, &xd.shape, d);
    values = neap__gather_at(g, source, neap__build2(g, &neap__op_clamp_min, last, zero), d);
  }
  return neap__build3(g, &neap__op_where, written, values, x);
}

/* (x, index, source; dim) or (x, index; dim, value) */
static neap_id scatter(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  if ((n_in == 3) == (opt[1].set != 0))
    return neap__graph_fail(g, op, NEAP_INVALID,
                            "what is written is expected once: a third input or the option `value`");
  return write_at(g, op, in[0], in[1], n_in == 3 ? in[2] : NEAP_NONE, opt[1].v.f, opt[0].v.i);
}

/* A list of K indices along dim, spread over the shape of entries. */
static neap_id spread_index(neap_graph *g, const neap_op *op, neap_id index, neap_shape entries, int32_t dim) {
  const neap_desc list = neap__desc_at(g, index);
  neap_shape column = {.ndim = entries.ndim};
  char text[96];
  if (list.dtype != NEAP_I64)
    return neap__graph_fail(g, op, NEAP_DTYPE, "the indices are %s, expected int64", neap__dtype_name(list.dtype));
  if (list.shape.ndim > 1)
    return neap__graph_fail(g, op, NEAP_SHAPE, "the indices have shape %s, expected 1 dimension",
                            neap__shape_text(&list.shape, text, sizeof text));
  for (int32_t d = 0; d < entries.ndim; d++) column.dim[d] = 1;
  entries.dim[dim] = column.dim[dim] = neap__shape_count(&list.shape);
  index = neap__reshape_to(g, index, &column);
  return neap__build(g, &neap__op_expand, &index, 1,
                     (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(entries.dim, entries.ndim)});
}

/* x's dim, where source must be as x but for its K entries along it. */
static bool entries_fit(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, int64_t given,
                        int32_t *dim) {
  const neap_desc x = neap__desc_at(g, in[0]), list = neap__desc_at(g, in[1]);
  const neap_desc from = n_in > 2 ? neap__desc_at(g, in[2]) : x;
  neap_shape expected = x.shape;
  char a[96], b[96];
  if (x.shape.ndim == 0) {
    neap__graph_fail(g, op, NEAP_SHAPE, "a scalar has no dimension to index");
    return false;
  }
  if (!neap__dim_at(g, op, given, x.shape.ndim, dim)) return false;
  expected.dim[*dim] = neap__shape_count(&list.shape);
  if (n_in < 3 || (neap__shape_equal(&expected, &from.shape) && x.dtype == from.dtype)) return true;
  neap__graph_fail(g, op, x.dtype == from.dtype ? NEAP_SHAPE : NEAP_DTYPE, "the source is %s %s, expected %s %s",
                   neap__dtype_name(from.dtype), neap__shape_text(&from.shape, a, sizeof a), neap__dtype_name(x.dtype),
                   neap__shape_text(&expected, b, sizeof b));
  return false;
}

static neap_id index_copy(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  int32_t dim = 0;
  if (!entries_fit(g, op, in, n_in, opt[0].v.i, &dim)) return NEAP_NONE;
  const neap_id index = spread_index(g, op, in[1], neap__desc_at(g, in[0]).shape, dim);
  return index == NEAP_NONE ? index : write_at(g, op, in[0], index, in[2], 0, dim);
}

static neap_id index_fill(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  int32_t dim = 0;
  if (!entries_fit(g, op, in, n_in, opt[0].v.i, &dim)) return NEAP_NONE;
  const neap_id index = spread_index(g, op, in[1], neap__desc_at(g, in[0]).shape, dim);
  return index == NEAP_NONE ? index : write_at(g, op, in[0], index, NEAP_NONE, opt[1].v.f, dim);
}

static neap_id index_add(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_desc x = neap__desc_at(g, in[0]);
  int32_t dim = 0;
  neap_id sum;
  if (!entries_fit(g, op, in, n_in, opt[0].v.i, &dim)) return NEAP_NONE;
  if (neap__dtype_is_float(x.dtype)) {
    const neap_opt o[NEAP_MAX_OPTS] = {NEAP_INT(dim), NEAP_INT(x.shape.dim[dim])};
    sum = neap__build(g, &neap__op_index_sum, (neap_id[]){in[2], in[1]}, 2, o);
  } else {
    const neap_id index = spread_index(g, op, in[1], x.shape, dim);
    CHECK_NONE(index);
    sum = neap__build(g, &neap__op_scatter_sum, (neap_id[]){in[2], index, in[0]}, 3,
                      (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim)});
    if (opt[1].v.f != floor(opt[1].v.f))
      return neap__graph_fail(g, op, NEAP_RANGE, "`alpha` is %g, which %s does not hold", opt[1].v.f,
                              neap__dtype_name(x.dtype));
  }
  if (opt[1].v.f != 1) sum = neap__scale(g, sum, opt[1].v.f);
  return neap__build2(g, &neap__op_add, in[0], sum);
}

static neap_id flat(neap_graph *g, neap_id v) {
  const neap_desc d = neap__desc_at(g, v);
  return neap__reshape_to(g, v, &(neap_shape){1, {neap__shape_count(&d.shape)}});
}

static neap_id spread_beside(neap_graph *g, neap_id v, const neap_shape *to, int32_t dim) {
  neap_shape s = *to, from = neap__desc_at(g, v).shape;
  s.dim[dim] = from.dim[dim];
  if (neap__shape_equal(&s, &from)) return v;
  return neap__build(g, &neap__op_expand, &v, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(s.dim, s.ndim)});
}

static neap_id take_along(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape x = neap__desc_at(g, in[0]).shape, index = neap__desc_at(g, in[1]).shape;
  neap_shape a = x, b = index, all;
  neap_error err;
  int32_t dim = 0;
  char at[96], bt[96];
  (void)n_in;
  if (!opt[0].set) return neap__gather_at(g, flat(g, in[0]), flat(g, in[1]), 0);
  if (x.ndim != index.ndim || x.ndim == 0)
    return neap__graph_fail(g, op, NEAP_SHAPE, "indices of shape %s for %s, expected as many dimensions",
                            neap__shape_text(&index, bt, sizeof bt), neap__shape_text(&x, at, sizeof at));
  if (!neap__dim_at(g, op, opt[0].v.i, x.ndim, &dim)) return NEAP_NONE;
  a.dim[dim] = b.dim[dim] = 1;
  const neap_status s = neap__broadcast(&a, &b, &all, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  const neap_id from = spread_beside(g, in[0], &all, dim), places = spread_beside(g, in[1], &all, dim);
  return neap__gather_at(g, from, places, dim);
}

static const char *const scatter_samples[] = {"f32[2,5] i64[2,3]:below=5 f32[2,3]; dim=2",
                                              "f32[4,3] i64[6,3]:below=4 f32[7,3]; dim=1",
                                              "f32[3,5] i64[2,3]:below=5; dim=2; value=0.5",
                                              "f32[3,4,3] i64[2,2,2]:below=4 f32[2,3,2]; dim=2",
                                              "f32[2,5] i64[2,0] f32[2,0]; dim=-1",
                                              "f64[2,5] i64[2,9]:below=5 f64[2,9]; dim=2",
                                              "i64[5]:below=9 i64[3]:below=5 i64[3]:below=9; dim=1",
                                              "bool[5] i64[3]:below=5; dim=1; value=1",
                                              NULL};
static const char *const copy_samples[] = {
    "f32[5,3] i64[2]:below=5 f32[2,3]; dim=1", "f32[2,4] i64[3]:below=4 f32[2,3]; dim=2",
    "i64[4] i64[2]:below=4 i64[2]; dim=1",     "f32[2,4] i64[0] f32[2,0]; dim=2",
    "f64[4,2] i64[7]:below=4 f64[7,2]; dim=1", NULL};
static const char *const fill_samples[] = {
    "f32[5,3] i64[2]:below=5; dim=1; value=2", "f32[2,4] i64[3]:below=4; dim=-1; value=-1.5",
    "i64[4] i64[2]:below=4; dim=1; value=7", "f64[3,2] i64[0]; dim=1; value=1", NULL};
static const char *const add_samples[] = {
    "f32[5,3] i64[4]:below=5 f32[4,3]; dim=1",      "f32[2,4] i64[6]:below=4 f32[2,6]; dim=2; alpha=-0.5",
    "i64[4] i64[6]:below=4 i64[6]; dim=1; alpha=3", "f32[2,4] i64[0] f32[2,0]; dim=2",
    "f64[4,2] i64[7]:below=4 f64[7,2]; dim=1",      NULL};
static const char *const along_samples[] = {"f32[2,5] i64[2,3]:below=5; dim=2",
                                            "f32[4,3] i64[6,1]:below=4; dim=1",
                                            "f32[1,3] i64[4,2]:below=3; dim=-1",
                                            "f32[2,3] i64[4]:below=6",
                                            "f32[2,5] i64[2,0]; dim=2",
                                            "f64[2,4,3] i64[2,2,3]:below=4; dim=2",
                                            NULL};

#define DIM \
  { .name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension that is indexed." }

const neap_op neap__op_scatter = {
    .name = "scatter",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {DIM, {.name = "value", .type = NEAP_OPT_FLOAT, .doc = "What is written."}},
    .expand = scatter,
    .topic = NEAP_TOPIC_INDEX,
    .args = "input [...], index [...] int64, source? [...] -> [...]",
    .samples = scatter_samples,
    .doc =
        "The first input with elements of the third, or `value`, written each to the (0-based) index along `dim` that "
        "the second gives; of several at one place the last stays, and it alone gets the gradient.",
    .example = "local at = neap.tensor({2, 0}, {dtype = \"int64\"})\n"
               "print(neap.zeros(4):scatter(at, neap.tensor {5, 7}, 1))  --> tensor fp32 [4] {7, 0, 5, 0}",
};

const neap_op neap__op_index_copy = {
    .name = "index_copy",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts = {DIM},
    .expand = index_copy,
    .topic = NEAP_TOPIC_INDEX,
    .args = "input [...], index [K] int64, source [...] -> [...]",
    .samples = copy_samples,
    .doc = "The first input with entries of the third along `dim` written each to its (0-based) index in the second.",
    .example = "local at = neap.tensor({2, 0}, {dtype = \"int64\"})\n"
               "print(neap.zeros(4):index_copy(at, neap.tensor {5, 7}, 1))  --> tensor fp32 [4] {7, 0, 5, 0}",
};

const neap_op neap__op_index_fill = {
    .name = "index_fill",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {DIM, {.name = "value", .type = NEAP_OPT_FLOAT, .required = true, .doc = "What is written."}},
    .expand = index_fill,
    .topic = NEAP_TOPIC_INDEX,
    .args = "input [...], index [K] int64 -> [...]",
    .samples = fill_samples,
    .doc = "The first input with `value` in the entries along `dim` that the (0-based) indices name.",
    .example = "local at = neap.tensor({2, 0}, {dtype = \"int64\"})\n"
               "print(neap.zeros(4):index_fill(at, 1, 9))  --> tensor fp32 [4] {9, 0, 9, 0}",
};

const neap_op neap__op_index_add = {
    .name = "index_add",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts = {DIM,
             {.name = "alpha",
              .type = NEAP_OPT_FLOAT,
              .def = 1,
              .has_default = true,
              .doc = "What the source is multiplied by."}},
    .expand = index_add,
    .topic = NEAP_TOPIC_INDEX,
    .args = "input [...], index [K] int64, source [...] -> [...]",
    .samples = add_samples,
    .doc =
        "The first input with `alpha` times the entries of the third along `dim` added, each at its (0-based) index.",
    .example = "local at = neap.tensor({2, 2}, {dtype = \"int64\"})\n"
               "print(neap.ones(4):index_add(at, neap.tensor {5, 7}, 1))  --> tensor fp32 [4] {1, 1, 13, 1}",
};

const neap_op neap__op_take_along_dim = {
    .name = "take_along_dim",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .doc = "Dimension that is indexed; the flat input when left out."}},
    .expand = take_along,
    .topic = NEAP_TOPIC_INDEX,
    .args = "input [...], indices [...] int64 -> [...]",
    .samples = along_samples,
    .doc = "Elements at the (0-based) indices along `dim`, or in the flat input without it; shapes broadcast beside "
           "`dim`.",
    .example = "local x = neap.tensor {{3, 1, 2}, {4, 6, 5}}\n"
               "print(x:take_along_dim(x:argmax(2, true), 2))  --> tensor fp32 [2, 1] {{3}, {6}}",
};
