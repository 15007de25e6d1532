/* Norms, and standard deviations, which are norms of differences. */
#include "op/norm.h"

#include <math.h>

#define CONST(v, number) neap__const_like(g, v, number)

/* Both sides of `where` are computed, so the root is taken of 1 where its slope would be infinite. */
neap_id neap__safe_root(neap_graph *g, neap_id s, double p) {
  neap_id zero = neap__build2(g, &neap__op_eq, s, CONST(s, 0));
  neap_id base = neap__build3(g, &neap__op_where, zero, CONST(s, 1), s);
  neap_id root =
      p == 2 ? neap__build1(g, &neap__op_sqrt, base) : neap__build2(g, &neap__op_power, base, CONST(s, 1 / p));
  return neap__build3(g, &neap__op_where, zero, CONST(s, 0), root);
}

static neap_id reduce(neap_graph *g, const neap_op *op, neap_id v, const neap_span *over) {
  return neap__reduce(g, op, v, over->dims->v.list, over->dims->n, over->keep);
}

/* Entries of 0 have no slope when p is below 1, as in torch. */
static neap_id power_norm(neap_graph *g, neap_id size, double p, const neap_span *over) {
  neap_id zero = neap__build2(g, &neap__op_eq, size, CONST(size, 0));
  neap_id base = p < 1 && p > 0 ? neap__build3(g, &neap__op_where, zero, CONST(size, 1), size) : size;
  neap_id power = neap__build2(g, &neap__op_power, base, CONST(size, p));
  if (base != size) power = neap__build3(g, &neap__op_where, zero, CONST(size, 0), power);
  neap_id sum = reduce(g, &neap__op_sum, power, over);
  return p > 0 ? neap__safe_root(g, sum, p) : neap__build2(g, &neap__op_power, sum, CONST(sum, 1 / p));
}

neap_id neap__norm_of(neap_graph *g, neap_id x, double p, const neap_span *over) {
  if (p == 2) return neap__safe_root(g, reduce(g, &neap__op_sum, neap__build1(g, &neap__op_square, x), over), 2);
  if (p == 0) {
    neap_id other = neap__build2(g, &neap__op_ne, x, CONST(x, 0));
    return reduce(g, &neap__op_sum, neap__cast(g, other, neap__desc_at(g, x).dtype), over);
  }
  neap_id size = neap__build1(g, &neap__op_abs, x);
  if (p == 1) return reduce(g, &neap__op_sum, size, over);
  if (isinf(p)) return reduce(g, p > 0 ? &neap__op_amax : &neap__op_amin, size, over);
  return power_norm(g, size, p, over);
}

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_opt dims;
  if (!neap__is_floating(g, op, in[0]) || !neap__dims_of(g, op, in[0], &opt[1], &dims)) return NEAP_NONE;
  return neap__norm_of(g, in[0], opt[0].v.f, &(neap_span){&dims, opt[2].v.i != 0});
}

static const char *const samples[] = {"f32[2,3]",
                                      "f32[2,3,4]; dim=2",
                                      "f32[2,3,4]; p=1; dim=1,3; keepdim=true",
                                      "f32[2,3]:distinct; p=inf; dim=-1",
                                      "f32[2,3]:positive; p=3",
                                      "f32[2,3]:positive; p=-2; dim=1",
                                      "f32[0,3]; dim=1",
                                      "f64[7]; p=0.5",
                                      NULL};

const neap_op neap__op_norm = {
    .name = "norm",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "p",
              .type = NEAP_OPT_FLOAT,
              .def = 2,
              .has_default = true,
              .doc = "The exponent, also 0, negative or infinite."},
             NEAP_DIMS,
             NEAP_KEEPDIM},
    .expand = expand,
    .samples = samples,
    .doc = "The `p`-norm over the dimensions `dim`, (sum |x|^p)^(1/p): p = 0 counts what is not 0, math.huge takes the "
           "largest |x|, minus it the smallest. No gradient where the norm is 0.",
    .example = "local x = neap.tensor {{3, 4}, {6, -8}}\n"
               "print(x:norm {dim = 2})  --> tensor fp32 [2] {5, 10}\n"
               "print(x:norm(1, 2))  --> tensor fp32 [2] {7, 14}\n"
               "print(x:norm(math.huge))  --> tensor fp32 [] 8",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim]",
};
