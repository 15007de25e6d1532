/* A value plus a number times a product or a quotient. */
#include <math.h>

#include "op/build.h"

static neap_id add_of(neap_graph *g, const neap_op *op, neap_id x, neap_id part, double value) {
  if (!neap__dtype_is_float(neap__desc_at(g, part).dtype) && value != floor(value))
    return neap__graph_fail(g, op, NEAP_RANGE, "`value` is %g, expected a whole number beside integers", value);
  return neap__build2(g, &neap__op_add, x, value == 1 ? part : neap__scale(g, part, value));
}

static neap_id addcmul(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return add_of(g, op, in[0], neap__build2(g, &neap__op_mul, in[1], in[2]), opt[0].v.f);
}

/* The quotient is taken in the dtype of the result. */
static neap_id addcdiv(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_dtype t = neap__dtype_promote(neap__desc_at(g, in[0]).dtype, neap__desc_at(g, in[1]).dtype);
  if (!neap__dtype_is_float(t)) t = neap__dtype_promote(t, neap__desc_at(g, in[2]).dtype);
  neap_id over = neap__dtype_is_float(t) ? neap__cast(g, in[1], t) : in[1];
  return add_of(g, op, in[0], neap__build2(g, &neap__op_div, over, in[2]), opt[0].v.f);
}

static const char *const samples[] = {"f32[2,3] f32[2,3] f32[2,3]:positive",
                                      "f32[2,3] f32[3] f32[2,1]:positive; value=0.5", "f32[0,3] f32[3] f32[3]:positive",
                                      "f64[5] f64[5] f64[5]:positive; value=-2", NULL};

const neap_op neap__op_addcmul = {
    .name = "addcmul",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts =
        {{.name = "value", .type = NEAP_OPT_FLOAT, .def = 1, .has_default = true, .doc = "Factor of what is added."}},
    .expand = addcmul,
    .samples = samples,
    .doc = "The first input plus `value` times the product of the others.",
    .example = "print(neap.addcmul(neap.tensor {1, 1}, neap.tensor {2, 3}, neap.tensor {4, 5}, {value = 0.5}))  --> "
               "tensor fp32 [2] {5, 8.5}",
    .topic = NEAP_TOPIC_ARITHMETIC,
    .args = "x [...], a [...], b [...] -> [...]",
};

const neap_op neap__op_addcdiv = {
    .name = "addcdiv",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts =
        {{.name = "value", .type = NEAP_OPT_FLOAT, .def = 1, .has_default = true, .doc = "Factor of what is added."}},
    .expand = addcdiv,
    .samples = samples,
    .doc = "The first input plus `value` times the quotient of the others.",
    .example = "print(neap.addcdiv(neap.tensor {1, 1}, neap.tensor {2, 3}, neap.tensor {4, 6}, {value = 2}))  --> "
               "tensor fp32 [2] {2, 2}",
    .topic = NEAP_TOPIC_ARITHMETIC,
    .args = "x [...], a [...], b [...] -> [...]",
};
