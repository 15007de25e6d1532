#include "op/build.h"

static neap_status infer(neap_infer *x) {
  neap_status s = neap__need_float(x, 0);
  x->out[0] = x->in[0];
  return s;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  (void)g;
  (void)n;
  if (need & 1) gin[0] = gout[0];
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  (void)s;
  *flops = *bytes = 0;
}

static const char *const samples[] = {"f32[2,3]", "f64[4]", "f32[0,2]", "f32[]", NULL};

const neap_op neap__op_variable = {
    .name = "variable",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .alias = true,
    .precision = NEAP_PREC_FOLLOW,
    .infer = infer,
    .grad = grad,
    .batch = neap__batch_same,
    .cost = cost,
    .samples = samples,
    .doc = "The same values under a name of their own, by which a derivative inside a traced function is taken.",
};
