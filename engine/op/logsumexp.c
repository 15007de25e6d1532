#include "op/build.h"

/* The largest value is subtracted before exp and added after log; where it is infinite nothing is. It takes no
 * part in the gradient, since what is taken out comes back. */
static neap_id largest(neap_graph *g, neap_id x, const neap_opt *dims) {
  neap_id m = neap__reduce(g, &neap__op_amax, x, dims->v.list, dims->n, true);
  m = neap__build1(g, &neap__op_stop, m);
  return neap__build3(g, &neap__op_where, neap__build1(g, &neap__op_isfinite, m), m, neap__const_like(g, m, 0));
}

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_desc d = neap__desc_at(g, in[0]);
  neap_opt dims;
  if (!neap__is_floating(g, op, in[0]) || !neap__dims_of(g, op, in[0], &opt[0], &dims)) return NEAP_NONE;
  const bool empty = neap__count_along(&d.shape, &dims) == 0;
  neap_id x = in[0], m = empty ? NEAP_NONE : largest(g, x, &dims);
  if (!empty) x = neap__build2(g, &neap__op_sub, x, m);
  x = neap__reduce(g, &neap__op_sum, neap__build1(g, &neap__op_exp, x), dims.v.list, dims.n, true);
  x = neap__build1(g, &neap__op_log, x);
  if (!empty) x = neap__build2(g, &neap__op_add, x, m);
  neap_shape shape = neap__reduced_shape(&d.shape, &dims, opt[1].v.i != 0);
  return x == NEAP_NONE ? x : neap__reshape_to(g, x, &shape);
}

static const char *const samples[] = {"f32[2,3]",        "f32[2,3,4]; dim=2", "f32[2,3,4]; dim=1,3; keepdim=true",
                                      "f32[3,0]; dim=2", "f64[3,7]; dim=1",   NULL};

const neap_op neap__op_logsumexp = {
    .name = "logsumexp",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .expand = expand,
    .samples = samples,
    .doc = "Logarithm of the sum of exp(x) over the dimensions `dim`, without overflow.",
    .example = "print((\"%.3f\"):format(neap.logsumexp(neap.tensor {1000, 1000}):item()))  --> 1000.693",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim]",
};
