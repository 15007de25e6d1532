/* Losses of the difference of two values. */
#include "op/build.h"

static neap_id loss(neap_graph *g, const neap_id *in, const neap_op *of_difference, int64_t reduction) {
  neap_id difference = neap__build2(g, &neap__op_sub, in[0], in[1]);
  return neap__reduce_loss(g, neap__build1(g, of_difference, difference), reduction);
}

static neap_id mse(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  return loss(g, in, &neap__op_square, opt[0].v.i);
}

static neap_id l1(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  return loss(g, in, &neap__op_abs, opt[0].v.i);
}

static const char *const samples[] = {"f32[2,3] f32[2,3]",
                                      "f32[2,3] f32[3]; reduction=sum",
                                      "f32[4] f32[4]; reduction=none",
                                      "f32[0] f32[0]; reduction=sum",
                                      "f64[5] f64[5]",
                                      NULL};

const neap_op neap__op_mse_loss = {
    .name = "mse_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = mse,
    .samples = samples,
    .doc = "Square of the difference, reduced.",
};

const neap_op neap__op_l1_loss = {
    .name = "l1_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = l1,
    .samples = samples,
    .doc = "Absolute difference, reduced.",
};
