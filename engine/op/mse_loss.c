/* Losses of the difference of two values. */
#include "op/formula.h"

/* A mean of weighted losses is over the sum of the weights: a pair of sums, each added up over micro-batches. */
static neap_id loss(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_op *of_difference,
                    int64_t reduction) {
  neap_id each = neap__build1(g, of_difference, SUB(in[0], in[1]));
  if (n_in < 3) return neap__reduce_loss(g, each, reduction);
  const neap_shape x = neap__desc_at(g, each).shape, w = neap__desc_at(g, in[2]).shape;
  char xt[96], wt[96];
  if (each != NEAP_NONE && !neap__shape_equal(&x, &w))
    return neap__graph_fail(g, op, NEAP_SHAPE, "a weight of shape %s for losses of %s, expected one for each",
                            neap__shape_text(&w, wt, sizeof wt), neap__shape_text(&x, xt, sizeof xt));
  each = MUL(each, in[2]);
  if (reduction != 0) return neap__reduce_loss(g, each, reduction);
  return DIV(neap__build1(g, &neap__op_sum, each), neap__build1(g, &neap__op_sum, in[2]));
}

static neap_id mse(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  return loss(g, op, in, n_in, &neap__op_square, opt[0].v.i);
}

static neap_id l1(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  return loss(g, op, in, n_in, &neap__op_abs, opt[0].v.i);
}

static const char *const samples[] = {"f32[2,3] f32[2,3]",
                                      "f32[2,3] f32[3]; reduction=sum",
                                      "f32[4] f32[4]; reduction=none",
                                      "f32[0] f32[0]; reduction=sum",
                                      "f64[5] f64[5]",
                                      "f32[4,3] f32[4,3] f32[4,3]:positive",
                                      "f32[4] f32[4] f32[4]:positive; reduction=none",
                                      NULL};

const neap_op neap__op_mse_loss = {
    .name = "mse_loss",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = mse,
    .samples = samples,
    .doc = "Square of the difference, (x - target)^2, reduced. A weight multiplies each loss, and a mean is then over "
           "the sum of the weights.",
    .example = "local x, target = neap.tensor {1, 2}, neap.tensor {1, 4}\n"
               "print(neap.mse_loss(x, target))  --> tensor fp32 [] 2\n"
               "print(neap.mse_loss(x, target, {reduction = \"none\"}))  --> tensor fp32 [2] {0, 4}",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...], weight? [...] -> []",
};

const neap_op neap__op_l1_loss = {
    .name = "l1_loss",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = l1,
    .samples = samples,
    .doc = "Absolute difference, |x - target|, reduced; no gradient where they are equal. A weight multiplies each "
           "loss, and a mean is then over the sum of the weights.",
    .example = "print(neap.l1_loss(neap.tensor {1, 2}, neap.tensor {1, 4}))  --> tensor fp32 [] 1",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...], weight? [...] -> []",
};
