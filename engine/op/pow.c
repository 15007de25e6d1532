#include "op/build.h"

/* Powers that are cheaper and exacter as products; NEAP_NONE when this is none. */
static neap_id small_power(neap_graph *g, neap_id x, double p) {
  if (p == 1) return x;
  if (p == 2) return neap__build1(g, &neap__op_square, x);
  if (p == 3) return neap__build2(g, &neap__op_mul, neap__build1(g, &neap__op_square, x), x);
  if (p == 0.5) return neap__build1(g, &neap__op_sqrt, x);
  if (p == -0.5) return neap__build1(g, &neap__op_rsqrt, x);
  if (p == -1) return neap__build1(g, &neap__op_reciprocal, x);
  return NEAP_NONE;
}

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  const neap_value *exponent = &g->values[in[1]];
  if (exponent->kind == NEAP_VALUE_CONST) {
    neap_id y = small_power(g, in[0], exponent->number);
    if (y != NEAP_NONE || g->error.status != NEAP_OK) return y;
  }
  return neap__build2(g, &neap__op_power, in[0], in[1]);
}

static const char *const samples[] = {"f32[2,3]:positive f32[2,3]", "f32[2,3]:positive f32[3]",
                                      "f32[2,3]:positive f32[]",    "f32[0,3] f32[3]",
                                      "f64[5]:positive f64[5]",     NULL};

const neap_op neap__op_pow = {
    .name = "pow",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .expand = expand,
    .samples = samples,
    .doc = "The first input to the power of the second.",
};
