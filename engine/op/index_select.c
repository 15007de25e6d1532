/* Whole entries of a dimension by a list of indices: index_select, embedding, and their gradient. */
#include "op/index.h"

neap_status neap__need_index(const neap_infer *x, uint32_t index) {
  neap_dtype t = x->in[index].dtype;
  if (t == NEAP_I64) return NEAP_OK;
  return neap__fail(x->err, NEAP_DTYPE, "the indices are %s, expected int64", neap__dtype_name(t));
}

/* (entries or table, index; dim, ...): the option resolved, the output as input 0. */
static neap_status check(neap_infer *x, int32_t most) {
  char text[96];
  if (x->in[0].shape.ndim == 0) return neap__fail(x->err, NEAP_SHAPE, "a scalar has no dimension to index");
  if (x->in[1].shape.ndim > most)
    return neap__fail(x->err, NEAP_SHAPE, "the indices have shape %s, expected 1 dimension",
                      neap__shape_text(&x->in[1].shape, text, sizeof text));
  x->out[0] = x->in[0];
  neap_status s = neap__need_index(x, 1);
  return s == NEAP_OK ? neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err) : s;
}

/* A single index in 0 dimensions is a list of one, as in torch. */
static neap_status infer(neap_infer *x) {
  neap_status s = check(x, 1);
  if (s == NEAP_OK) x->out[0].shape.dim[x->opt[0].v.i] = neap__shape_count(&x->in[1].shape);
  return s;
}

/* (index, table) */
static neap_status infer_embedding(neap_infer *x) {
  const neap_shape *table = &x->in[1].shape;
  neap_shape shape = x->in[0].shape;
  neap_opt *skip = &x->opt[0];
  char text[96];
  neap_status s = neap__need_index(x, 0);
  if (s != NEAP_OK) return s;
  if (table->ndim != 2)
    return neap__fail(x->err, NEAP_SHAPE, "the table has shape %s, expected [rows, width]",
                      neap__shape_text(table, text, sizeof text));
  if (shape.ndim == NEAP_MAX_DIMS)
    return neap__fail(x->err, NEAP_SHAPE, "indices of shape %s leave no room for the width",
                      neap__shape_text(&shape, text, sizeof text));
  if (skip->set && (skip->v.i < -table->dim[0] || skip->v.i >= table->dim[0]))
    return neap__fail(x->err, NEAP_RANGE, "`padding_idx` is %lld, but the table has %lld rows", (long long)skip->v.i,
                      (long long)table->dim[0]);
  if (skip->set && skip->v.i < 0) skip->v.i += table->dim[0];
  shape.dim[shape.ndim++] = table->dim[1];
  x->out[0] = (neap_desc){x->in[1].dtype, shape};
  return NEAP_OK;
}

/* (entries, index; dim, size, skip) */
static neap_status infer_add(neap_infer *x) {
  neap_status s = check(x, 1);
  if (s == NEAP_OK) s = neap__need_float(x, 0);
  if (s != NEAP_OK) return s;
  int64_t *dim = &x->out[0].shape.dim[x->opt[0].v.i], count = neap__shape_count(&x->in[1].shape);
  if (*dim != count)
    return neap__fail(x->err, NEAP_SHAPE, "%lld indices for %lld entries of dimension %lld", (long long)count,
                      (long long)*dim, (long long)x->opt[0].v.i + 1);
  *dim = x->opt[1].v.i;
  return NEAP_OK;
}

static neap_id add_entries(neap_graph *g, neap_id d, neap_id index, int64_t dim, int64_t size, const neap_opt *skip) {
  neap_opt o[NEAP_MAX_OPTS] = {NEAP_INT(dim), NEAP_INT(size), *skip};
  return neap__build(g, &neap__op_index_sum, (neap_id[]){d, index}, 2, o);
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 1)) return;
  int64_t dim = n->opt[0].v.i, size = neap__desc_at(g, n->in[0]).shape.dim[dim];
  gin[0] = add_entries(g, gout[0], n->in[1], dim, size, &NEAP_UNSET);
}

static void grad_embedding(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 2)) return;
  neap_desc index = neap__desc_at(g, n->in[0]), table = neap__desc_at(g, n->in[1]);
  neap_shape list = {.ndim = 1, .dim = {neap__shape_count(&index.shape)}};
  neap_shape rows = {.ndim = 2, .dim = {list.dim[0], table.shape.dim[1]}};
  neap_id d = neap__reshape_to(g, gout[0], &rows), at = neap__reshape_to(g, n->in[0], &list);
  gin[1] = add_entries(g, d, at, 0, table.shape.dim[0], &n->opt[0]);
}

/* Skipped entries of the gradient had no weight in the sum; taking would give them one. */
static void grad_add(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 1)) return;
  neap_id d =
      neap__build(g, &neap__op_index_select, (neap_id[]){gout[0], n->in[1]}, 2, (neap_opt[NEAP_MAX_OPTS]){n->opt[0]});
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
  if (neap__batch_carries(&in[0]) && (neap__batch_carries(&in[1]) || in[0].dim == dim)) return NEAP_UNSUPPORTED;
  out[0] = in[0];
  if (neap__batch_carries(&in[1])) out[0] = (neap_batch){in[1].kind, dim, in[1].per};
  return NEAP_OK;
}

/* The dimensions of the indices come first in the result. */
static neap_status batch_embedding(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  out[0] = in[0];
  return neap__batch_carries(&in[1]) ? NEAP_UNSUPPORTED : NEAP_OK;
}

static neap_status batch_add(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  bool along = neap__batch_carries(&in[0]) && in[0].dim == n->opt[0].v.i;
  if (!neap__batch_carries(&in[0]) || along != neap__batch_carries(&in[1])) return NEAP_UNSUPPORTED;
  if (along && in[0].per != in[1].per) return NEAP_UNSUPPORTED;
  out[0] = in[0];
  if (along) out[0] = (neap_batch){.kind = NEAP_B_SUM};
  return NEAP_OK;
}

/* Each entry is added by itself, in order, so that any number of samples may be a slab. */
static int64_t slab(const neap_sig *s) { return (void)s, 1; }

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = 0;
  *bytes = 2 * (double)neap__desc_bytes(&s->out[0].desc);
}

static void cost_add(const neap_sig *s, double *flops, double *bytes) {
  *flops = (double)neap__shape_count(&s->in[0].desc.shape);
  *bytes = 3 * (double)neap__desc_bytes(&s->in[0].desc) + (double)neap__desc_bytes(&s->out[0].desc);
}

static const char *const select_samples[] = {"f32[5,3] i64[4]:below=5; dim=1",
                                             "f32[2,4,3] i64[6]:below=4; dim=2",
                                             "f32[2,5] i64[3]:below=5; dim=-1",
                                             "f32[5,3] i64[0]; dim=1",
                                             "f32[5,3] i64[]:below=5",
                                             "f64[5,3] i64[4]:below=5; dim=1",
                                             "i64[5]:below=9 i64[4]:below=5; dim=1",
                                             NULL};
static const char *const embedding_samples[] = {"i64[4]:below=5 f32[5,3]", "i64[2,3]:below=5 f32[5,4]",
                                                "i64[]:below=5 f32[5,3]",  "i64[0] f32[5,3]",
                                                "i64[8]:below=3 f64[3,2]", NULL};
static const char *const add_samples[] = {
    "f32[4,3] i64[4]:below=5; dim=1; size=5",         "f32[2,6,3] i64[6]:below=4; dim=2; size=4",
    "f32[2,3] i64[3]:below=2; dim=-1; size=2",        "f32[0,3] i64[0]; dim=1; size=5",
    "f64[4,3] i64[4]:below=5; dim=1; size=5; skip=2", NULL};

const neap_op neap__op_index_select = {
    .name = "index_select",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .def = 0, .has_default = true, .doc = "Dimension of the entries."}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = select_samples,
    .doc = "Entries of dimension `dim` by the 0-based indices in the second input. Entries taken twice add up their "
           "gradients.",
    .example =
        "local x = neap.tensor {{1, 2}, {3, 4}, {5, 6}}\n"
        "print(x:index_select(neap.tensor({2, 0}, {dtype = \"int64\"})))  --> tensor fp32 [2, 2] {{5, 6}, {1, 2}}",
    .topic = NEAP_TOPIC_INDEX,
    .args = "x [...], index [n] int64 -> [..., n, ...]",
};

const neap_op neap__op_embedding = {
    .name = "embedding",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "padding_idx", .type = NEAP_OPT_INT, .doc = "0-based row whose gradient stays 0."}},
    .infer = infer_embedding,
    .grad = grad_embedding,
    .batch = batch_embedding,
    .cost = cost,
    .samples = embedding_samples,
    .doc = "Rows of a table by 0-based indices. Row `padding_idx` gets no gradient.",
    .example = "local weight = neap.tensor {{0, 0}, {1, 2}, {3, 4}}\n"
               "print(neap.embedding(neap.tensor({2, 1}, {dtype = \"int64\"}), weight))  --> tensor fp32 [2, 2] {{3, "
               "4}, {1, 2}}",
    .topic = NEAP_TOPIC_INDEX,
    .args = "index [...] int64, weight [rows, width] -> [..., width]",
};

const neap_op neap__op_index_sum = {
    .name = "index_sum",
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
