/* Relatives of elu. */
#include <math.h>

#include "op/build.h"

/* The two constants are those for which mean 0 and variance 1 are a fixed point. */
static neap_id selu(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  static const double ALPHA = 1.6732632423543772848170429916717, SCALE = 1.0507009873554804934193349852946;
  return neap__scale(g, neap__with_number(g, &neap__op_elu_of, neap__as_float(g, in[0]), ALPHA), SCALE);
}

/* The power is taken of 0 where x is positive, so that nothing overflows there; at 0 itself the slope is 1. */
static neap_id celu(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  const double alpha = opt[0].v.f;
  if (alpha == 0) return neap__graph_fail(g, op, NEAP_RANGE, "`alpha` is 0, expected another number");
  neap_id x = neap__as_float(g, in[0]), positive = neap__with_number(g, &neap__op_gt, x, 0);
  neap_id low = neap__build3(g, &neap__op_where, positive, neap__const_like(g, x, 0), x);
  low = neap__build2(g, &neap__op_div, low, neap__const_like(g, x, alpha));
  return neap__build3(g, &neap__op_where, positive, x, neap__scale(g, neap__build1(g, &neap__op_expm1, low), alpha));
}

static const char *const samples[] = {"f32[2,3]", "f32[]", "f32[0,3]", "f64[5]", "i64[3]:below=4", NULL};
static const char *const celu_samples[] = {"f32[2,3]", "f32[5]; alpha=0.5", "f32[0,3]", "f64[5]; alpha=2", NULL};

const neap_op neap__op_selu = {
    .name = "selu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .expand = selu,
    .samples = samples,
    .doc = "elu with alpha 1.6732632423543772, times 1.0507009873554805 (Klambauer et al. 2017).",
    .example = "print(neap.selu(neap.tensor {-1, 0, 1}))  --> tensor fp32 [3] {-1.111331, 0, 1.050701}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_celu = {
    .name = "celu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "alpha",
              .type = NEAP_OPT_FLOAT,
              .def = 1,
              .has_default = true,
              .doc = "What it goes to far below 0, with a minus."}},
    .expand = celu,
    .samples = celu_samples,
    .doc = "x where it is positive, else `alpha` (exp(x / `alpha`) - 1) (Barron 2017).",
    .example = "print(neap.celu(neap.tensor {-1, 0, 1}))  --> tensor fp32 [3] {-0.6321205, 0, 1}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};
