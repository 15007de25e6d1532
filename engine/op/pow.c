/* Powers by a value or a number. */
#include <math.h>

#include "op/build.h"

/* Powers that are cheaper and exacter without pow; NEAP_NONE when this is none. */
static neap_id small_power(neap_graph *g, neap_id x, double p) {
  if (p == 0) return neap__build2(g, &neap__op_expand_as, neap__const_like(g, x, 1), x); /* of NaN, too */
  if (p == 1) return x;
  if (p == 2) return neap__build1(g, &neap__op_square, x);
  if (p == 3) return neap__build2(g, &neap__op_mul, neap__build1(g, &neap__op_square, x), x);
  if (p == 0.5) return neap__build1(g, &neap__op_sqrt, x);
  if (p == -0.5) return neap__build1(g, &neap__op_rsqrt, x);
  if (p == -1) return neap__build1(g, &neap__op_reciprocal, x);
  return NEAP_NONE;
}

/* Integers stay integers, by squaring. */
static neap_id whole_power(neap_graph *g, neap_id x, uint32_t p) {
  if (p == 0) return neap__build2(g, &neap__op_add, neap__scale(g, x, 0), neap__const_like(g, x, 1));
  neap_id y = NEAP_NONE;
  for (; p > 0; p /= 2) {
    if (p % 2) y = y == NEAP_NONE ? x : neap__build2(g, &neap__op_mul, y, x);
    if (p > 1) x = neap__build1(g, &neap__op_square, x);
  }
  return y;
}

/* The exponent is the second input or the option. */
static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  if ((n_in == 2) == (opt[0].set != 0))
    return neap__graph_fail(g, op, NEAP_INVALID, "the exponent is expected once: a second input or `exponent`");
  bool number = n_in == 1 || g->values[in[1]].kind == NEAP_VALUE_CONST;
  neap_dtype t = neap__desc_at(g, in[0]).dtype;
  if (number) {
    double p = n_in == 1 ? opt[0].v.f : g->values[in[1]].number;
    if (!neap__dtype_is_float(t) && p >= 0 && p < 1e9 && p == floor(p)) return whole_power(g, in[0], (uint32_t)p);
    neap_id y = small_power(g, in[0], p);
    if (y != NEAP_NONE || g->error.status != NEAP_OK) return y;
  }
  neap_id exponent = n_in == 2 ? in[1] : neap__graph_const(g, neap__dtype_is_float(t) ? t : NEAP_F32, opt[0].v.f);
  return neap__build2(g, &neap__op_power, in[0], exponent);
}

static const char *const samples[] = {"f32[2,3]:positive f32[2,3]",
                                      "f32[2,3]:positive f32[3]",
                                      "f32[2,3]:positive f32[]",
                                      "f32[0,3] f32[3]",
                                      "f64[5]:positive f64[5]",
                                      "f32[2,3]; exponent=3",
                                      "f64[5]:positive; exponent=-1.5",
                                      "i64[5]:below=9; exponent=5",
                                      NULL};

const neap_op neap__op_pow = {
    .name = "pow",
    .min_in = 1,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "exponent", .type = NEAP_OPT_FLOAT, .doc = "The power, where it is not an input."}},
    .expand = expand,
    .samples = samples,
    .doc = "The first input to the power of the second or of the option `exponent`; also the operator x ^ p. Integers "
           "to a whole number of at least 0 stay integers. No gradient flows to x where the exponent is 0, nor to the "
           "exponent where x is 0.",
    .example = "print(neap.tensor {1, 2, 3}:pow(2))  --> tensor fp32 [3] {1, 4, 9}\n"
               "print(neap.tensor {4, 9}:pow {exponent = 0.5})  --> tensor fp32 [2] {2, 3}",
    .topic = NEAP_TOPIC_ARITHMETIC,
    .args = "x [...], exponent? [...] -> [...]",
};
