#include "op/build.h"

/* Option 0 becomes the full shape: a -1 is worked out. */
static neap_status infer(neap_infer *x) {
  neap_shape shape = neap__opt_shape(&x->opt[0]);
  int64_t total = neap__shape_count(&x->in[0].shape), known = 1;
  int32_t free_dim = -1;
  char from[96], to[96];
  neap__shape_text(&x->in[0].shape, from, sizeof from);
  neap__shape_text(&shape, to, sizeof to);
  for (int32_t i = 0; i < shape.ndim; i++) {
    if (shape.dim[i] == -1 && free_dim < 0) {
      free_dim = i;
      continue;
    }
    if (shape.dim[i] < 0)
      return neap__fail(x->err, NEAP_SHAPE, "shape %s: sizes are at least 0, and one may be -1", to);
    if (__builtin_mul_overflow(known, shape.dim[i], &known))
      return neap__fail(x->err, NEAP_RANGE, "shape %s is too large", to);
  }
  if (free_dim >= 0 && known > 0 && total % known == 0) {
    shape.dim[free_dim] = total / known;
    known = total;
  }
  if (known != total || (free_dim >= 0 && shape.dim[free_dim] < 0))
    return neap__fail(x->err, NEAP_SHAPE, "%s of %lld elements does not fit into shape %s", from, (long long)total, to);
  x->opt[0] = neap__opt_list(shape.dim, shape.ndim);
  x->out[0] = (neap_desc){x->in[0].dtype, shape};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_desc d = neap__desc_at(g, n->in[0]);
  if (need & 1) gin[0] = neap__reshape_to(g, gout[0], &d.shape);
}

/* Samples stay together when the batch dimension is the outermost of those it is merged with or split into:
 * then an output dimension begins at the same element and is a whole number of entries a sample. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  const neap_shape *from = &g->values[n->in[0]].desc.shape, *to = &g->values[n->out[0]].desc.shape;
  int64_t before = 1, ahead = 1, samples = in[0].per > 0 ? from->dim[in[0].dim] / in[0].per : 0;
  for (int32_t i = 0; i < in[0].dim; i++) before *= from->dim[i];
  for (int32_t i = 0; i < to->ndim && samples > 0; i++) {
    if (ahead == before && to->dim[i] > 0 && to->dim[i] % samples == 0) {
      out[0] = (neap_batch){in[0].kind, i, to->dim[i] / samples};
      return NEAP_OK;
    }
    ahead *= to->dim[i];
  }
  return NEAP_UNSUPPORTED;
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  (void)s;
  *flops = *bytes = 0;
}

static const char *const samples[] = {"f32[2,6]; shape=3,4", "f32[2,6]; shape=-1", "f32[4]; shape=2,1,2",
                                      "f32[0,3]; shape=3,0", "i64[]; shape=1",     NULL};

const neap_op neap__op_reshape = {
    .name = "reshape",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .alias = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "shape", .type = NEAP_OPT_INTS, .required = true, .doc = "Sizes, as a list or one by one."}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "The same elements in row-major order under another shape; one size may be -1, which is then found from the "
           "count. Outside a trace the result shares the memory of x.",
    .example = "local x = neap.arange(0, 6)\n"
               "print(x:reshape(2, 3))  --> tensor int64 [2, 3] {{0, 1, 2}, {3, 4, 5}}\n"
               "print(x:reshape {3, -1})  --> tensor int64 [3, 2] {{0, 1}, {2, 3}, {4, 5}}",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...] -> [shape]",
};
