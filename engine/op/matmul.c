#include "op/build.h"

/* torch.matmul: a 1-d operand is a row on the left, a column on the right, and that dimension of the result
 * is dropped. */
static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_desc a = neap__desc_at(g, in[0]), b = neap__desc_at(g, in[1]);
  neap_id left = in[0], right = in[1], out;
  neap_shape shape;
  char at[96], bt[96];
  (void)n_in, (void)opt;
  neap__shape_text(&a.shape, at, sizeof at);
  neap__shape_text(&b.shape, bt, sizeof bt);
  if (a.shape.ndim == 0 || b.shape.ndim == 0)
    return neap__graph_fail(g, op, NEAP_SHAPE, "operands %s and %s, expected at least 1 dimension each", at, bt);
  const int64_t k = b.shape.dim[b.shape.ndim == 1 ? 0 : b.shape.ndim - 2];
  if (a.shape.dim[a.shape.ndim - 1] != k)
    return neap__graph_fail(g, op, NEAP_SHAPE, "%s has %lld columns but %s has %lld rows", at,
                            (long long)a.shape.dim[a.shape.ndim - 1], bt, (long long)k);
  if (a.shape.ndim == 1) left = neap__insert_dim(g, left, 0);
  if (b.shape.ndim == 1) right = neap__insert_dim(g, right, 1);
  out = neap__build2(g, &neap__op_gemm, left, right);
  if (out == NEAP_NONE || (a.shape.ndim > 1 && b.shape.ndim > 1)) return out;
  shape = neap__desc_at(g, out).shape;
  if (b.shape.ndim == 1) shape.ndim--;
  if (a.shape.ndim == 1) {
    if (b.shape.ndim > 1) shape.dim[shape.ndim - 2] = shape.dim[shape.ndim - 1];
    shape.ndim--;
  }
  return neap__reshape_to(g, out, &shape);
}

static const char *const samples[] = {"f32[3] f32[3]",         "f32[2,3] f32[3]",   "f32[3] f32[3,4]",
                                      "f32[2,3] f32[3,4]",     "f32[5,2,3] f32[3]", "f32[3] f32[5,3,4]",
                                      "f32[2,1,2,3] f32[3,4]", "f32[2,0] f32[0,3]", NULL};

const neap_op neap__op_matmul = {
    .name = "matmul",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .expand = expand,
    .samples = samples,
    .doc = "Matrix product over the last two dimensions. A 1-d operand is a vector, whose dimension is not in the "
           "result; dimensions in front broadcast.",
    .example = "local a = neap.tensor {{1, 2}, {3, 4}}\n"
               "print(a:matmul(neap.tensor {{1, 0}, {1, 1}}))  --> tensor fp32 [2, 2] {{3, 2}, {7, 4}}\n"
               "print(a:matmul(neap.tensor {1, 10}))  --> tensor fp32 [2] {21, 43}",
    .topic = NEAP_TOPIC_PRODUCT,
    .args = "a [..., m, k], b [..., k, n] -> [..., m, n]",
};
