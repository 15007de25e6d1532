#include "op/build.h"

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  (void)g, (void)n;
  if (need & 1) gin[0] = gout[0];
}

static const char *const samples[] = {"f32[2,3,4,5]", "f32[]", "f32[0,3]", "i64[7]", NULL};

const neap_op neap__op_copy = {
    .name = "copy",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .rule = NEAP_BATCH_ELEMENTWISE,
    .infer = neap__infer_same,
    .grad = grad,
    .batch = neap__batch_elementwise,
    .samples = samples,
    .doc = "The same values elsewhere, in the layout of the output.",
};
