/* Variance and standard deviation, in two passes: the mean first. */
#include "op/norm.h"

static neap_id variance(neap_graph *g, const neap_op *op, const neap_id *in, const neap_opt *opt) {
  neap_desc d = neap__desc_at(g, in[0]);
  neap_opt dims = opt[0];
  neap_error err;
  double count = 1, less = opt[3].set ? opt[3].v.f : (double)opt[1].v.i;
  if (!neap__dtype_is_float(d.dtype))
    return neap__graph_fail(g, op, NEAP_DTYPE, "the input is %s, expected a floating-point dtype",
                            neap__dtype_name(d.dtype));
  neap_status s = neap__dims_resolve(&dims, d.shape.ndim, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  for (int32_t i = 0; i < dims.n; i++) count *= (double)d.shape.dim[dims.v.list[i]];
  neap_id mean = neap__scale(g, neap__reduce(g, &neap__op_sum, in[0], dims.v.list, dims.n, true), 1 / count);
  neap_id square = neap__build1(g, &neap__op_square, neap__build2(g, &neap__op_sub, in[0], mean));
  neap_id sum = neap__reduce(g, &neap__op_sum, square, dims.v.list, dims.n, opt[2].v.i != 0);
  double left = count - less;
  return neap__build2(g, &neap__op_div, sum, neap__const_like(g, sum, left > 0 ? left : 0));
}

static neap_id var(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return variance(g, op, in, opt);
}

static neap_id std(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_id v = variance(g, op, in, opt);
  return v == NEAP_NONE ? v : neap__safe_root(g, v, 2);
}

static const char *const samples[] = {"f32[2,3]",
                                      "f32[2,3,4]; dim=2",
                                      "f32[2,3,4]; dim=1,3; keepdim=true",
                                      "f32[4,5]; dim=-1; unbiased=false",
                                      "f64[3,7]; dim=1; correction=2",
                                      "f32[0,3]; dim=2",
                                      NULL};

#define SPREAD(op_name, builder, text)                                                   \
  {                                                                                      \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1,                               \
    .opts = {{.name = "dim", .type = NEAP_OPT_DIMS},                                     \
             {.name = "unbiased", .type = NEAP_OPT_BOOL, .def = 1, .has_default = true}, \
             {.name = "keepdim", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true},  \
             {.name = "correction", .type = NEAP_OPT_FLOAT}},                            \
    .expand = builder, .samples = samples, .doc = text                                   \
  }

const neap_op neap__op_var = SPREAD("var", var,
                                    "Variance over the dimensions `dim` (all when left out), over the count less 1 "
                                    "(`unbiased`) or less `correction`.");
const neap_op neap__op_std = SPREAD("std", std, "Square root of var; no gradient where it is 0.");
