/* Variance and standard deviation, in two passes: the mean first. */
#include "op/norm.h"

/* *mean (NULL: not asked for) has the shape of the result. */
static neap_id variance(neap_graph *g, const neap_op *op, neap_id x, const neap_opt *opt, neap_id *mean) {
  neap_desc d = neap__desc_at(g, x);
  neap_opt dims;
  if (!neap__is_floating(g, op, x) || !neap__dims_of(g, op, x, &opt[0], &dims)) return NEAP_NONE;
  double count = (double)neap__count_along(&d.shape, &dims);
  double left = count - (opt[3].set ? opt[3].v.f : (double)opt[1].v.i);
  neap_id kept = neap__scale(g, neap__reduce(g, &neap__op_sum, x, dims.v.list, dims.n, true), 1 / count);
  neap_id square = neap__build1(g, &neap__op_square, neap__build2(g, &neap__op_sub, x, kept));
  neap_id sum = neap__reduce(g, &neap__op_sum, square, dims.v.list, dims.n, opt[2].v.i != 0);
  neap_shape shape = neap__reduced_shape(&d.shape, &dims, opt[2].v.i != 0);
  if (mean && kept != NEAP_NONE) *mean = neap__reshape_to(g, kept, &shape);
  return neap__build2(g, &neap__op_div, sum, neap__const_like(g, sum, left > 0 ? left : 0));
}

static neap_id var(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return variance(g, op, in[0], opt, NULL);
}

static neap_id std(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_id v = variance(g, op, in[0], opt, NULL);
  return v == NEAP_NONE ? v : neap__safe_root(g, v, 2);
}

static void var_mean(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                     neap_id *out) {
  (void)n_in;
  out[0] = variance(g, op, in[0], opt, &out[1]);
}

static void std_mean(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                     neap_id *out) {
  var_mean(g, op, in, n_in, opt, out);
  if (out[0] != NEAP_NONE) out[0] = neap__safe_root(g, out[0], 2);
}

static const char *const samples[] = {"f32[2,3]",
                                      "f32[2,3,4]; dim=2",
                                      "f32[2,3,4]; dim=1,3; keepdim=true",
                                      "f32[4,5]; dim=-1; unbiased=false",
                                      "f64[3,7]; dim=1; correction=2",
                                      "f32[0,3]; dim=2",
                                      NULL};

#define SPREAD_OPTIONS                                                                                              \
  {                                                                                                                 \
    NEAP_DIMS,                                                                                                      \
        {.name = "unbiased",                                                                                        \
         .type = NEAP_OPT_BOOL,                                                                                     \
         .def = 1,                                                                                                  \
         .has_default = true,                                                                                       \
         .doc = "Whether the sum of squares is divided by the count less 1 (Bessel), rather than by the count."},   \
        NEAP_KEEPDIM, {                                                                                             \
      .name = "correction", .type = NEAP_OPT_FLOAT, .doc = "What the count is lessened by, in place of `unbiased`." \
    }                                                                                                               \
  }
#define SPREAD(op_name, builder, ...)                                                                 \
  {                                                                                                   \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1, .opts = SPREAD_OPTIONS, .expand = builder, \
    .samples = samples, .doc = __VA_ARGS__                                                            \
  }
#define SPREAD_MEAN(op_name, builder, ...)                                                       \
  {                                                                                              \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 2, .results = 2, .opts = SPREAD_OPTIONS, \
    .expand_all = builder, .samples = samples, .doc = __VA_ARGS__                                \
  }

const neap_op neap__op_var = SPREAD("var", var,
                                    "Variance over the dimensions `dim`: the sum of the squared differences from the "
                                    "mean over the count less 1 (`unbiased`) or less `correction`.",
                                    "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
                                    "print(x:var(2))  --> tensor fp32 [2] {1, 1}\n"
                                    "print(x:var {dim = 1, unbiased = false})  --> tensor fp32 [3] {2.25, 2.25, 2.25}",
                                    NEAP_TOPIC_REDUCTION, "x [...] -> [... without dim]");
const neap_op neap__op_std =
    SPREAD("std", std, "Standard deviation: the square root of var; no gradient where it is 0.",
           "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
           "print(x:std(2))  --> tensor fp32 [2] {1, 1}",
           NEAP_TOPIC_REDUCTION, "x [...] -> [... without dim]");
const neap_op neap__op_var_mean =
    SPREAD_MEAN("var_mean", var_mean, "var over the dimensions `dim`, and the mean.",
                "local var, mean = neap.var_mean(neap.tensor {{1, 2, 3}, {4, 5, 6}}, 2)\n"
                "print(var)  --> tensor fp32 [2] {1, 1}\n"
                "print(mean)  --> tensor fp32 [2] {2, 5}",
                NEAP_TOPIC_REDUCTION, "x [...] -> var [... without dim], mean [... without dim]");
const neap_op neap__op_std_mean =
    SPREAD_MEAN("std_mean", std_mean, "std over the dimensions `dim`, and the mean.",
                "local std, mean = neap.std_mean(neap.tensor {{1, 2, 3}, {4, 5, 6}}, 2)\n"
                "print(std)  --> tensor fp32 [2] {1, 1}\n"
                "print(mean)  --> tensor fp32 [2] {2, 5}",
                NEAP_TOPIC_REDUCTION, "x [...] -> std [... without dim], mean [... without dim]");
