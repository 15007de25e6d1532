/* Whole entries of a dimension by a list of indices: index_select, embedding, and their gradient. */
#include "op/index.h"

neap_id neap__as_index(neap_graph *g, const neap_op *op, neap_id v) {
  neap_dtype t = neap__desc_at(g, v).dtype;
  if (t == NEAP_I64 || t == NEAP_I32 || t == NEAP_U8) return neap__cast(g, v, NEAP_I64);
  return neap__graph_fail(g, op, NEAP_DTYPE, "the indices are %s, expected int64", neap__dtype_name(t));
}

neap_id neap__take(neap_graph *g, neap_id x, neap_id index, int32_t dim, const neap_opt *skip) {
  neap_opt o[NEAP_MAX_OPTS] = {NEAP_INT(dim), skip ? *skip : NEAP_UNSET};
  return neap__build(g, &neap__op_take, (neap_id[]){x, index}, 2, o);
}

static neap_status check(neap_infer *x) {
  char text[96];
  if (x->in[0].shape.ndim == 0) return neap__fail(x->err, NEAP_SHAPE, "a scalar has no dimension to index");
  if (x->in[1].dtype != NEAP_I64 || x->in[1].shape.ndim != 1)
    return neap__fail(x->err, x->in[1].dtype == NEAP_I64 ? NEAP_SHAPE : NEAP_DTYPE,
                      "the indices are %s %s, expected int64 in 1 dimension", neap__dtype_name(x->in[1].dtype),
                      neap__shape_text(&x->in[1].shape, text, sizeof text));
  x->out[0] = x->in[0];
  return neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err);
}

static neap_status infer(neap_infer *x) {
  neap_status s = check(x);
  if (s == NEAP_OK) x->out[0].shape.dim[x->opt[0].v.i] = x->in[1].shape.dim[0];
  return s;
}

/* (entries, index; dim, size, skip) */
static neap_status infer_add(neap_infer *x) {
  neap_status s = check(x);
  if (s == NEAP_OK) s = neap__need_float(x, 0);
  if (s != NEAP_OK) return s;
  int64_t *dim = &x->out[0].shape.dim[x->opt[0].v.i];
  if (*dim != x->in[1].shape.dim[0])
    return neap__fail(x->err, NEAP_SHAPE, "%lld indices for %lld entries of dimension %lld",
                      (long long)x->in[1].shape.dim[0], (long long)*dim, (long long)x->opt[0].v.i + 1);
  *dim = x->opt[1].v.i;
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 1)) return;
  int64_t size = neap__desc_at(g, n->in[0]).shape.dim[n->opt[0].v.i];
  neap_opt o[NEAP_MAX_OPTS] = {n->opt[0], NEAP_INT(size), n->opt[1]};
  gin[0] = neap__build(g, &neap__op_index_add, (neap_id[]){gout[0], n->in[1]}, 2, o);
}

/* Skipped entries of the gradient had no weight in the sum; taking would give them one. */
static void grad_add(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 1)) return;
  neap_id d = neap__take(g, gout[0], n->in[1], (int32_t)n->opt[0].v.i, &n->opt[2]);
  if (n->opt[2].set) {
    neap_desc to = neap__desc_at(g, d);
    neap_shape column = {.ndim = to.shape.ndim};
    for (int32_t i = 0; i < to.shape.ndim; i++) column.dim[i] = i == n->opt[0].v.i ? to.shape.dim[i] : 1;
    neap_id counts = neap__build2(g, &neap__op_ne, n->in[1], neap__const_like(g, n->in[1], (double)n->opt[2].v.i));
    counts = neap__reshape_to(g, counts, &column);
    d = neap__build3(g, &neap__op_where, counts, d, neap__const_like(g, d, 0));
  }
  gin[0] = d;
}

/* Samples are either in the indices, along dim, or elsewhere in the entries. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  int32_t dim = (int32_t)n->opt[0].v.i;
  if (neap__has_samples(&in[0]) && (neap__has_samples(&in[1]) || in[0].dim == dim)) return NEAP_UNSUPPORTED;
  out[0] = in[0];
  if (neap__has_samples(&in[1])) out[0] = (neap_batch){in[1].kind, dim, in[1].per};
  return NEAP_OK;
}

static neap_status batch_add(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  bool along = neap__has_samples(&in[0]) && in[0].dim == n->opt[0].v.i;
  if (!neap__has_samples(&in[0]) || along != neap__has_samples(&in[1])) return NEAP_UNSUPPORTED;
  if (along && in[0].per != in[1].per) return NEAP_UNSUPPORTED;
  out[0] = along ? (neap_batch){.kind = NEAP_B_SUM} : in[0];
  return NEAP_OK;
}

/* Each entry is added by itself, in order, so that any number of samples may be a slab. */
static int64_t slab(const neap_sig *s) { return (void)s, 1; }

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = 0;
  *bytes = 2 * (double)neap__desc_bytes(&s->out[0].desc) + (double)neap__desc_bytes(&s->in[1].desc);
}

static void cost_add(const neap_sig *s, double *flops, double *bytes) {
  *flops = (double)neap__shape_count(&s->in[0].desc.shape);
  *bytes = 3 * (double)neap__desc_bytes(&s->in[0].desc) + (double)neap__desc_bytes(&s->out[0].desc);
}

static const char *const take_samples[] = {"f32[5,3] i64[4]:below=5; dim=1",
                                           "f32[2,4,3] i64[6]:below=4; dim=2",
                                           "f32[2,5] i64[3]:below=5; dim=-1",
                                           "f32[5,3] i64[0]; dim=1",
                                           "f64[5,3] i64[4]:below=5; dim=1",
                                           "i64[5] i64[4]:below=5; dim=1",
                                           NULL};
static const char *const add_samples[] = {
    "f32[4,3] i64[4]:below=5; dim=1; size=5",         "f32[2,6,3] i64[6]:below=4; dim=2; size=4",
    "f32[2,3] i64[3]:below=2; dim=-1; size=2",        "f32[0,3] i64[0]; dim=1; size=5",
    "f64[4,3] i64[4]:below=5; dim=1; size=5; skip=2", NULL};

const neap_op neap__op_take = {
    .name = "take",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true}, {.name = "skip", .type = NEAP_OPT_INT}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = take_samples,
    .doc = "Entries of dimension `dim` by a list of indices; the index `skip` passes no gradient.",
};

const neap_op neap__op_index_add = {
    .name = "index_add",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true},
             {.name = "size", .type = NEAP_OPT_INT, .required = true, .min = 0, .max = 1e15},
             {.name = "skip", .type = NEAP_OPT_INT}},
    .infer = infer_add,
    .grad = grad_add,
    .batch = batch_add,
    .slab = slab,
    .cost = cost_add,
    .samples = add_samples,
    .doc = "Entries added in order to zeros, each at its index; those with index `skip` are left out.",
};

/* --- for users --- */

static neap_id select_expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_shape x = neap__desc_at(g, in[0]).shape, index = neap__desc_at(g, in[1]).shape, one = {.ndim = 1, .dim = {1}};
  int32_t dim = 0;
  neap_error err;
  char text[96];
  if (x.ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar has no dimension to index");
  if (index.ndim > 1)
    return neap__graph_fail(g, op, NEAP_SHAPE, "the indices have shape %s, expected 1 dimension",
                            neap__shape_text(&index, text, sizeof text));
  neap_status s = neap__dim_resolve(opt[0].v.i, x.ndim, &dim, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  neap_id list = neap__as_index(g, op, in[1]);
  if (index.ndim == 0) list = neap__reshape_to(g, list, &one);
  return list == NEAP_NONE ? list : neap__take(g, in[0], list, dim, NULL);
}

/* padding_idx negative counts from the end of the table, as in torch. */
static neap_id embedding(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_desc index = neap__desc_at(g, in[0]);
  neap_shape table = neap__desc_at(g, in[1]).shape, flat = {.ndim = 1, .dim = {neap__shape_count(&index.shape)}};
  neap_opt skip = opt[0];
  char text[96];
  if (table.ndim != 2)
    return neap__graph_fail(g, op, NEAP_SHAPE, "the table has shape %s, expected [rows, width]",
                            neap__shape_text(&table, text, sizeof text));
  if (index.shape.ndim == NEAP_MAX_DIMS)
    return neap__graph_fail(g, op, NEAP_SHAPE, "indices %s leave no room for the width",
                            neap__shape_text(&index.shape, text, sizeof text));
  if (skip.set && (skip.v.i < -table.dim[0] || skip.v.i >= table.dim[0]))
    return neap__graph_fail(g, op, NEAP_RANGE, "`padding_idx` is %lld, but the table has %lld rows",
                            (long long)skip.v.i, (long long)table.dim[0]);
  if (skip.set && skip.v.i < 0) skip.v.i += table.dim[0];
  neap_id list = neap__as_index(g, op, in[0]);
  if (list == NEAP_NONE) return NEAP_NONE;
  neap_id rows = neap__take(g, in[1], neap__reshape_to(g, list, &flat), 0, &skip);
  index.shape.dim[index.shape.ndim++] = table.dim[1];
  return neap__reshape_to(g, rows, &index.shape);
}

static const char *const select_samples[] = {"f32[5,3] i64[4]:below=5; dim=1",  "f32[2,4,3] i64[6]:below=4; dim=2",
                                             "f32[2,5] i64[3]:below=5; dim=-1", "f32[5,3] i64[0]; dim=1",
                                             "f64[5,3] i64[4]:below=5; dim=1",  NULL};
static const char *const embedding_samples[] = {"i64[4]:below=5 f32[5,3]",
                                                "i64[2,3]:below=5 f32[5,4]",
                                                "i64[]:below=5 f32[5,3]",
                                                "i64[0] f32[5,3]",
                                                "i64[8]:below=3 f64[3,2]; padding_idx=1",
                                                NULL};

const neap_op neap__op_index_select = {
    .name = "index_select",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .def = 0, .has_default = true}},
    .expand = select_expand,
    .samples = select_samples,
    .doc = "Entries of dimension `dim` of the first input by the (0-based) indices in the second.",
};

const neap_op neap__op_embedding = {
    .name = "embedding",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "padding_idx", .type = NEAP_OPT_INT}},
    .expand = embedding,
    .samples = embedding_samples,
    .doc = "Rows of the table (second input) by the (0-based) indices; row `padding_idx` gets no gradient.",
};
