#include "op/build.h"

static neap_status infer(neap_infer *x) {
  x->out[0] = (neap_desc){(neap_dtype)x->opt[2].v.i, neap__opt_shape(&x->opt[0])};
  return NEAP_OK;
}

static const char *const samples[] = {"; shape=2,3; value=1.5", "; shape=4; value=-2; dtype=int64",
                                      "; shape=0,2; value=1", NULL};

const neap_op neap__op_full = {
    .name = "full",
    .min_in = 0,
    .max_in = 0,
    .n_out = 1,
    .nondiff = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "shape", .type = NEAP_OPT_INTS, .required = true, .doc = "Sizes, as a list."},
             {.name = "value", .type = NEAP_OPT_FLOAT, .required = true, .doc = "The number."},
             {.name = "dtype",
              .type = NEAP_OPT_DTYPE,
              .def = NEAP_F32,
              .has_default = true,
              .doc = "dtype of the result."}},
    .infer = infer,
    .batch = neap__batch_none,
    .samples = samples,
    .doc = "A tensor of the given shape, the same number everywhere.",
    .example = "print(neap.full({2, 2}, 7))  --> tensor fp32 [2, 2] {{7, 7}, {7, 7}}\n"
               "print(neap.full({2}, 7, {dtype = \"int64\"}))  --> tensor int64 [2] {7, 7}",
    .topic = NEAP_TOPIC_MAKE,
    .args = "-> [shape]",
};
