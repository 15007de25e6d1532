/* Broadcasting to a given shape, and to the shape of another value. */
#include "op/build.h"

static neap_status infer(neap_infer *x) {
  const neap_shape *from = &x->in[0].shape;
  neap_shape to = neap__opt_shape(&x->opt[0]);
  int32_t lead = to.ndim - from->ndim;
  char a[96], b[96];
  bool fits = lead >= 0;
  for (int32_t i = 0; i < to.ndim && fits; i++) {
    const int64_t *old = i < lead ? NULL : &from->dim[i - lead];
    if (old && to.dim[i] == -1) to.dim[i] = *old;
    fits = to.dim[i] >= 0 && (!old || *old == 1 || *old == to.dim[i]);
  }
  if (!fits)
    return neap__fail(x->err, NEAP_SHAPE, "shape %s does not expand to %s", neap__shape_text(from, a, sizeof a),
                      neap__shape_text(&to, b, sizeof b));
  x->opt[0] = neap__opt_list(to.dim, to.ndim);
  x->out[0] = (neap_desc){x->in[0].dtype, to};
  return NEAP_OK;
}

static neap_status infer_as(neap_infer *x) {
  x->opt[0] = neap__opt_list(x->in[1].shape.dim, x->in[1].shape.ndim);
  return infer(x);
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_desc d = neap__desc_at(g, n->in[0]);
  if (need & 1) gin[0] = neap__sum_to(g, gout[0], &d);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  const neap_shape *from = &g->values[n->in[0]].desc.shape, *to = &g->values[n->out[0]].desc.shape;
  int32_t dim = in[0].dim + to->ndim - from->ndim;
  if (from->dim[in[0].dim] != to->dim[dim]) return NEAP_UNSUPPORTED; /* one sample spread over many places */
  out[0] = (neap_batch){in[0].kind, dim, in[0].per};
  return NEAP_OK;
}

/* The result has samples where the shape has them; a sum may be spread over them, as it is only read then. */
static neap_status batch_as(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  if (in[1].kind == NEAP_B_SUM && in[0].kind == NEAP_B_CONST) {
    out[0] = in[0];
    return NEAP_OK;
  }
  return neap__batch_elementwise(g, n, in, out);
}

static const char *const samples[] = {"f32[3]; shape=2,3",         "f32[2,1]; shape=2,4", "f32[]; shape=3,2",
                                      "f32[2,1,3]; shape=-1,4,-1", "f32[1,3]; shape=0,3", NULL};
static const char *const as_samples[] = {"f32[3] f32[2,3]", "f32[2,1] f32[2,4]", "f32[] f32[0,2]", NULL};

const neap_op neap__op_expand = {
    .name = "expand",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "shape",
              .type = NEAP_OPT_INTS,
              .required = true,
              .doc = "Sizes of the result, as a list or one by one."}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .samples = samples,
    .doc = "Repeats dimensions of size 1, and new ones in front, to the shape given; -1 keeps a size. The gradient "
           "sums over the repeats.",
    .example = "print(neap.tensor {{1}, {2}}:expand(2, 3))  --> tensor fp32 [2, 3] {{1, 1, 1}, {2, 2, 2}}",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...] -> [shape]",
};

static neap_id broadcast_to(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op;
  return neap__build(g, &neap__op_expand, in, n_in, opt);
}

const neap_op neap__op_broadcast_to = {
    .name = "broadcast_to",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "shape", .type = NEAP_OPT_INTS, .required = true, .doc = "Of the result; -1 keeps a size."}},
    .expand = broadcast_to,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [...] -> [...]",
    .samples = samples,
    .doc = "Repeats dimensions of size 1, and new ones in front, to the shape given: expand by another name.",
    .example = "print(neap.tensor {1, 2}:broadcast_to(2, 2))  --> tensor fp32 [2, 2] {{1, 2}, {1, 2}}",
};

const neap_op neap__op_expand_as = {
    .name = "expand_as",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .shape_only = 2,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "shape", .type = NEAP_OPT_INTS, .doc = "Taken from the second input: leave it out."}},
    .infer = infer_as,
    .grad = grad,
    .batch = batch_as,
    .samples = as_samples,
    .doc = "The first input repeated to the shape of the second, as expand does.",
    .example = "print(neap.tensor {1, 2}:expand_as(neap.zeros(2, 2)))  --> tensor fp32 [2, 2] {{1, 2}, {1, 2}}",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...], like [...] -> [... of like]",
};
