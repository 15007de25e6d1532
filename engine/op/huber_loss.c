/* Losses that are square near 0 and straight beyond. */
#include "op/build.h"

/* With d = x - y and c = d cut to -delta and delta: c (d - c / 2), which is d^2 / 2 up to delta and straight beyond.
 * Made of |d| it would have no second derivative at 0. */
static neap_id huber(neap_graph *g, const neap_id *in, double delta) {
  neap_id d = neap__build2(g, &neap__op_sub, in[0], in[1]);
  neap_id c = neap__build2(g, &neap__op_clamp_min, d, neap__const_like(g, d, -delta));
  c = neap__build2(g, &neap__op_clamp_max, c, neap__const_like(g, c, delta));
  return neap__build2(g, &neap__op_mul, c, neap__build2(g, &neap__op_sub, d, neap__scale(g, c, 0.5)));
}

static neap_id huber_loss(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[2] = {NEAP_NONE, NEAP_NONE};
  double delta = opt[1].v.f;
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  if (!(delta > 0)) return neap__graph_fail(g, op, NEAP_RANGE, "`delta` is %g, expected more than 0", delta);
  return neap__reduce_loss(g, huber(g, in, delta), opt[0].v.i);
}

static neap_id smooth_l1_loss(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in,
                              const neap_opt *opt) {
  neap_id in[2] = {NEAP_NONE, NEAP_NONE};
  double beta = opt[1].v.f;
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  if (beta < 0) return neap__graph_fail(g, op, NEAP_RANGE, "`beta` is %g, expected at least 0", beta);
  if (beta == 0) return neap__build(g, &neap__op_l1_loss, in, n_in, (neap_opt[NEAP_MAX_OPTS]){opt[0]});
  return neap__reduce_loss(g, neap__scale(g, huber(g, in, beta), 1 / beta), opt[0].v.i);
}

static const char *const huber_samples[] = {"f32[2,3] f32[2,3]",
                                            "f32[2,3] f32[3]; reduction=sum; delta=0.3",
                                            "f32[4] f32[4]; reduction=none",
                                            "f32[0] f32[0]; reduction=sum",
                                            "f64[5] f64[5]; delta=2",
                                            NULL};
static const char *const smooth_samples[] = {"f32[2,3] f32[2,3]",
                                             "f32[2,3] f32[3]; reduction=sum; beta=0.3",
                                             "f32[4] f32[4]; reduction=none",
                                             "f32[0] f32[0]; reduction=sum",
                                             "f64[5] f64[5]; beta=0",
                                             NULL};

const neap_op neap__op_huber_loss = {
    .name = "huber_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION,
             {.name = "delta",
              .type = NEAP_OPT_FLOAT,
              .def = 1,
              .has_default = true,
              .doc = "Difference from which it is straight; above 0."}},
    .expand = huber_loss,
    .samples = huber_samples,
    .doc = "Half the square of the difference up to `delta`, delta (|x - target| - delta / 2) beyond (Huber 1964), "
           "reduced.",
    .example = "print(neap.huber_loss(neap.tensor {1, 5}, neap.tensor {0, 0}, {reduction = \"none\"}))  --> tensor "
               "fp32 [2] {0.5, 4.5}",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...] -> []",
};

const neap_op neap__op_smooth_l1_loss = {
    .name = "smooth_l1_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION,
             {.name = "beta",
              .type = NEAP_OPT_FLOAT,
              .def = 1,
              .has_default = true,
              .doc = "Difference from which it is straight; at least 0."}},
    .expand = smooth_l1_loss,
    .samples = smooth_samples,
    .doc = "huber_loss with `beta` for delta, over `beta`: slope 1 beyond it (Girshick 2015); 0 is l1_loss.",
    .example = "print(neap.smooth_l1_loss(neap.tensor {1, 5}, neap.tensor {0, 0}, {reduction = \"none\"}))  --> tensor "
               "fp32 [2] {0.5, 4.5}",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...] -> []",
};
