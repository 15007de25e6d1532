#include "op/build.h"

static neap_status infer(neap_infer *x) {
  x->out[0] = (neap_desc){(neap_dtype)x->opt[0].v.i, x->in[0].shape};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__cast(g, gout[0], neap__desc_at(g, n->in[0]).dtype);
}

static const char *const samples[] = {"f32[2,3]; dtype=fp64", "f64[4]; dtype=fp32",   "i64[5]:below=9; dtype=fp32",
                                      "f32[3]; dtype=int64",  "f32[0,2]; dtype=bool", NULL};

const neap_op neap__op_to = {
    .name = "to",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .rule = NEAP_BATCH_ELEMENTWISE,
    .opts = {{.name = "dtype",
              .type = NEAP_OPT_DTYPE,
              .required = true,
              .doc = "fp32, fp64, int64, int32, uint8 or bool."}},
    .infer = infer,
    .grad = grad,
    .batch = neap__batch_elementwise,
    .samples = samples,
    .doc = "The values in another dtype: fractions are cut towards 0 and held to the range of an integer, where NaN "
           "gives 0; bool is x ~= 0. Gradients flow between floating-point dtypes.",
    .example = "print(neap.tensor {1.9, -1.9, 0}:to \"int32\")  --> tensor int32 [3] {1, -1, 0}\n"
               "print(neap.tensor {0.5, 0}:to \"bool\")  --> tensor bool [2] {true, false}",
    .topic = NEAP_TOPIC_VALUE,
    .args = "x [...] -> [...] dtype",
};
