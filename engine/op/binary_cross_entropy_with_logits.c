#include "op/formula.h"

/* (1 - t) x + (1 + (w - 1) t) softplus(-x); the loss of target 1 is softplus(-x). */
static neap_id weighted(neap_graph *g, neap_id x, neap_id t, neap_id w) {
  neap_id one = neap__const_like(g, x, 1);
  neap_id positive = neap__build2(g, &neap__op_logit_loss, x, one);
  return ADD(MUL(SUB(one, t), x), MUL(ADD(one, MUL(SUB(w, one), t)), positive));
}

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  neap_desc x = neap__desc_at(g, in[0]), t = neap__desc_at(g, in[1]);
  char a[96], b[96];
  for (uint32_t i = 0; i < n_in; i++) {
    neap_dtype type = neap__desc_at(g, in[i]).dtype;
    if (!neap__dtype_is_float(type))
      return neap__graph_fail(g, op, NEAP_DTYPE, "input %u is %s, expected a floating-point dtype", i + 1,
                              neap__dtype_name(type));
  }
  if (!neap__shape_equal(&x.shape, &t.shape))
    return neap__graph_fail(g, op, NEAP_SHAPE, "logits of shape %s and targets of shape %s, expected one shape",
                            neap__shape_text(&x.shape, a, sizeof a), neap__shape_text(&t.shape, b, sizeof b));
  neap_id loss = n_in > 2 ? weighted(g, in[0], in[1], in[2]) : neap__build2(g, &neap__op_logit_loss, in[0], in[1]);
  if (n_in > 3) loss = MUL(loss, in[3]);
  return neap__reduce_loss(g, loss, opt[0].v.i);
}

static const char *const samples[] = {"f32[2,3] f32[2,3]:positive",
                                      "f32[2,3] f32[2,3]:positive f32[3]:positive",
                                      "f32[4,3] f32[4,3]:positive f32[]:positive f32[4,1]",
                                      "f32[4] f32[4]:positive; reduction=none",
                                      "f32[0] f32[0]; reduction=sum",
                                      "f64[5] f64[5]:positive; reduction=sum",
                                      NULL};

const neap_op neap__op_binary_cross_entropy_with_logits = {
    .name = "binary_cross_entropy_with_logits",
    .min_in = 2,
    .max_in = 4,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = expand,
    .samples = samples,
    .doc = "Cross entropy of sigmoid(x) and targets in [0, 1], without overflow, reduced. pos_weight weighs the part "
           "of the targets that are 1, weight each loss; the number 1 stands for a pos_weight that is not there.",
    .example = "print(neap.binary_cross_entropy_with_logits(neap.tensor {1000, -7}, neap.tensor {1, 1}):round())  --> "
               "tensor fp32 [] 4",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...], pos_weight? [...], weight? [...] -> []",
};
