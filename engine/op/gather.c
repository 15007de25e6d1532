/* Single elements by indices along a dimension: gather, its gradient, scatter_add. */
#include "op/index.h"

neap_id neap__gather_at(neap_graph *g, neap_id x, neap_id index, int32_t dim) {
  return neap__build(g, &neap__op_gather, (neap_id[]){x, index}, 2, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim)});
}

/* index must lie within `around` in every dimension but dim. */
static neap_status check(neap_infer *x, const neap_desc *index, const neap_shape *around) {
  char a[96], b[96];
  neap_status s = neap__need_index(x, 1);
  if (s == NEAP_OK) s = neap__dim_option(&x->opt[0], around->ndim, x->err);
  bool fits = s == NEAP_OK && index->shape.ndim == around->ndim;
  for (int32_t d = 0; d < around->ndim && fits; d++) fits = d == x->opt[0].v.i || index->shape.dim[d] <= around->dim[d];
  if (fits || s != NEAP_OK) return s;
  return neap__fail(x->err, NEAP_SHAPE, "indices of shape %s, expected no more than %s but for dimension %lld",
                    neap__shape_text(&index->shape, a, sizeof a), neap__shape_text(around, b, sizeof b),
                    (long long)x->opt[0].v.i + 1);
}

static neap_status infer(neap_infer *x) {
  neap_status s = check(x, &x->in[1], &x->in[0].shape);
  x->out[0] = (neap_desc){x->in[0].dtype, x->in[1].shape};
  return s;
}

/* (elements, index, like) */
static neap_status infer_add(neap_infer *x) {
  char a[96], b[96];
  neap_status s = check(x, &x->in[1], &x->in[2].shape);
  if (s != NEAP_OK) return s;
  if (!neap__shape_equal(&x->in[0].shape, &x->in[1].shape))
    return neap__fail(x->err, NEAP_SHAPE, "elements of shape %s for indices of shape %s",
                      neap__shape_text(&x->in[0].shape, a, sizeof a), neap__shape_text(&x->in[1].shape, b, sizeof b));
  if (x->in[0].dtype == NEAP_BOOL || x->in[0].dtype == NEAP_U8)
    return neap__fail(x->err, NEAP_DTYPE, "there is no adding to places of %s", neap__dtype_name(x->in[0].dtype));
  x->out[0] = (neap_desc){x->in[0].dtype, x->in[2].shape};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__build(g, &neap__op_scatter_sum, (neap_id[]){gout[0], n->in[1], n->in[0]}, 3, n->opt);
}

static void grad_add(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__gather_at(g, gout[0], n->in[1], (int32_t)n->opt[0].v.i);
}

/* Beside dim, both have the samples at one place; along dim the indices alone have them. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  if (!neap__batch_carries(&in[1])) return NEAP_UNSUPPORTED;
  if (neap__batch_carries(&in[0]))
    return in[0].dim == n->opt[0].v.i ? NEAP_UNSUPPORTED : neap__batch_same(g, n, in, out);
  out[0] = in[1];
  return in[1].dim == n->opt[0].v.i ? NEAP_OK : NEAP_UNSUPPORTED;
}

static neap_status batch_add(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  if (!neap__batch_carries(&in[0]) || !neap__batch_carries(&in[1])) return NEAP_UNSUPPORTED;
  bool along = in[0].dim == n->opt[0].v.i;
  if (along == neap__batch_carries(&in[2])) return NEAP_UNSUPPORTED;
  s = neap__batch_same(g, n, in, out);
  if (along) out[0] = (neap_batch){.kind = NEAP_B_SUM};
  return s;
}

/* Each element is added by itself, in order, so that any number of samples may be a slab. */
static int64_t slab(const neap_sig *s) { return (void)s, 1; }

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = 0;
  *bytes = 2 * (double)neap__desc_bytes(&s->out[0].desc) + (double)neap__desc_bytes(&s->in[1].desc);
}

static void cost_add(const neap_sig *s, double *flops, double *bytes) {
  *flops = (double)neap__shape_count(&s->in[0].desc.shape);
  *bytes = 3 * (double)neap__desc_bytes(&s->in[0].desc) + (double)neap__desc_bytes(&s->in[1].desc) +
           (double)neap__desc_bytes(&s->out[0].desc);
}

static const char *const samples[] = {"f32[2,5] i64[2,3]:below=5; dim=2",
                                      "f32[4,3] i64[6,3]:below=4; dim=1",
                                      "f32[2,4,3] i64[2,2,2]:below=4; dim=2",
                                      "f32[2,5] i64[2,0]; dim=-1",
                                      "f64[2,5] i64[2,3]:below=5; dim=2",
                                      "i64[5] i64[3]:below=5; dim=1",
                                      NULL};
static const char *const add_samples[] = {
    "f32[2,3] i64[2,3]:below=5 f32[2,5]; dim=2",       "f32[6,3] i64[6,3]:below=4 f32[4,3]; dim=1",
    "f32[2,2,2] i64[2,2,2]:below=4 f32[2,4,3]; dim=2", "f32[2,0] i64[2,0] f32[2,5]; dim=-1",
    "f64[2,3] i64[2,3]:below=5 f64[2,5]; dim=2",       NULL};

const neap_op neap__op_gather = {
    .name = "gather",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension that the indices count along."}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "Elements of the first input, each at the 0-based index along `dim` that the second gives in its place: "
           "y[i][j] = x[i][index[i][j]] along dimension 2. Elements taken twice add up their gradients.",
    .example = "local x = neap.tensor {{10, 11, 12}, {20, 21, 22}}\n"
               "print(x:gather(neap.tensor({{2, 0}, {1, 1}}, {dtype = \"int64\"}), {dim = 2}))  --> tensor fp32 [2, 2] "
               "{{12, 10}, {21, 21}}",
    .topic = NEAP_TOPIC_INDEX,
    .args = "x [...], index [...] int64 -> [... of index]",
};

const neap_op neap__op_scatter_sum = {
    .name = "scatter_sum",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .internal = true,
    .shape_only = 4,
    .precision = NEAP_PREC_KEEP,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true}},
    .infer = infer_add,
    .grad = grad_add,
    .batch = batch_add,
    .slab = slab,
    .cost = cost_add,
    .samples = add_samples,
    .doc = "Elements added in order to zeros of the third input's shape, each at its index along `dim`.",
};

/* (x, index, source); of a source larger than the indices its beginning counts, as in torch. */
static neap_id scatter_add(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  char a[96], b[96];
  neap_id index = in[1], source = in[2];
  neap_desc x = neap__desc_at(g, in[0]), places = neap__desc_at(g, index), from = neap__desc_at(g, source);
  if (x.dtype != from.dtype)
    return neap__graph_fail(g, op, NEAP_DTYPE, "the source is %s, expected %s like the first input",
                            neap__dtype_name(from.dtype), neap__dtype_name(x.dtype));
  bool fits = from.shape.ndim == places.shape.ndim;
  for (int32_t d = 0; d < from.shape.ndim && fits; d++) {
    fits = places.shape.dim[d] <= from.shape.dim[d];
    if (fits && places.shape.dim[d] < from.shape.dim[d]) source = neap__narrow_to(g, source, d, 0, places.shape.dim[d]);
  }
  if (!fits)
    return neap__graph_fail(g, op, NEAP_SHAPE, "indices of shape %s go beyond the source, which has %s",
                            neap__shape_text(&places.shape, a, sizeof a), neap__shape_text(&from.shape, b, sizeof b));
  neap_id sum =
      neap__build(g, &neap__op_scatter_sum, (neap_id[]){source, index, in[0]}, 3, (neap_opt[NEAP_MAX_OPTS]){opt[0]});
  return neap__build2(g, &neap__op_add, in[0], sum);
}

static const char *const scatter_samples[] = {"f32[2,5] i64[2,3]:below=5 f32[2,3]; dim=2",
                                              "f32[4,3] i64[6,3]:below=4 f32[7,3]; dim=1",
                                              "f32[2,5] i64[2,0] f32[2,0]; dim=-1",
                                              "f64[2,5] i64[2,3]:below=5 f64[2,3]; dim=2",
                                              "i64[5]:below=9 i64[3]:below=5 i64[3]:below=9; dim=1",
                                              NULL};

const neap_op neap__op_scatter_add = {
    .name = "scatter_add",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension that the indices count along."}},
    .expand = scatter_add,
    .samples = scatter_samples,
    .doc = "The first input with the elements of the third added, each at its 0-based index along `dim`: "
           "y[i][index[i][j]] += source[i][j] along dimension 2. They are added in order, so the bits do not depend on "
           "threads.",
    .example =
        "local index = neap.tensor({0, 2, 2}, {dtype = \"int64\"})\n"
        "print(neap.zeros(3):scatter_add(index, neap.tensor {1, 2, 3}, {dim = 1}))  --> tensor fp32 [3] {1, 0, 5}",
    .topic = NEAP_TOPIC_INDEX,
    .args = "x [...], index [...] int64, source [... of index] -> [...]",
};
