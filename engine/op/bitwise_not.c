/* All bits turned round: minus 1 minus x in two's complement, the largest less x without a sign. */
#include "op/build.h"

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in, (void)opt;
  neap_dtype t = neap__desc_at(g, in[0]).dtype;
  if (t == NEAP_BOOL) return neap__build1(g, &neap__op_logical_not, in[0]);
  if (neap__dtype_is_float(t))
    return neap__graph_fail(g, op, NEAP_DTYPE, "there are no bits to work on in %s: expected integers or bool",
                            neap__dtype_name(t));
  return neap__build2(g, &neap__op_sub, neap__const_like(g, in[0], t == NEAP_U8 ? 255 : -1), in[0]);
}

static const char *const samples[] = {"i64[5]", "i32[2,3]", "u8[4]", "bool[4]", "i64[0,3]", NULL};

const neap_op neap__op_bitwise_not = {
    .name = "bitwise_not",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .expand = expand,
    .samples = samples,
    .doc = "Each bit turned round; of bool, not.",
    .example = "print(neap.bitwise_not(neap.tensor({0, 5}, {dtype = \"int64\"})))  --> tensor int64 [2] {-1, -6}",
    .topic = NEAP_TOPIC_ARITHMETIC,
    .args = "x [...] integers or bool -> [...] as x",
};
