#include "op/build.h"

static void cost(const neap_sig *s, double *flops, double *bytes) {
  (void)s;
  *flops = *bytes = 0;
}

static const char *const samples[] = {"f32[2,3]", "f64[4]", "i64[3]", "f32[0,2]", "f32[]", NULL};

const neap_op neap__op_stop = {
    .name = "stop",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .alias = true,
    .precision = NEAP_PREC_FOLLOW,
    .infer = neap__infer_same,
    .batch = neap__batch_same,
    .cost = cost,
    .samples = samples,
    .doc = "The same values, through which no gradient flows.",
    .example = "local _, grads = neap.value_and_grad(function(x) return (x * x:stop()):sum() end)(neap.tensor {3})\n"
               "print(grads[1])  --> tensor fp32 [1] {3}",
    .topic = NEAP_TOPIC_VALUE,
    .args = "x [...] -> [...]",
};
