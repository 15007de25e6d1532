/* Numbers in the place of what is none. */
#include <float.h>

#include "op/build.h"

static double largest(neap_dtype t) {
  switch (t) {
    case NEAP_F64: return DBL_MAX;
    case NEAP_F16: return 65504;
    case NEAP_BF16: return 0x1.fep127;
    default: return (double)FLT_MAX;
  }
}

static neap_id replace(neap_graph *g, const neap_op *test, neap_id x, neap_id y, double number) {
  return neap__build3(g, &neap__op_where, neap__build1(g, test, x), neap__const_like(g, x, number), y);
}

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  neap_id x = in[0];
  neap_dtype t = neap__desc_at(g, x).dtype;
  if (!neap__dtype_is_float(t)) return x;
  double most = largest(t);
  neap_id y = replace(g, &neap__op_isnan, x, x, opt[0].v.f);
  y = replace(g, &neap__op_isposinf, x, y, opt[1].set ? opt[1].v.f : most);
  return replace(g, &neap__op_isneginf, x, y, opt[2].set ? opt[2].v.f : -most);
}

static const char *const samples[] = {
    "f32[2,3]", "f32[5]; nan=7; posinf=1; neginf=-1", "f32[0,3]", "f64[5]", "i64[4]:below=5", NULL};

const neap_op neap__op_nan_to_num = {
    .name = "nan_to_num",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "nan", .type = NEAP_OPT_FLOAT, .def = 0, .has_default = true, .doc = "In the place of NaN."},
             {.name = "posinf", .type = NEAP_OPT_FLOAT, .doc = "In the place of infinity."},
             {.name = "neginf", .type = NEAP_OPT_FLOAT, .doc = "In the place of minus infinity."}},
    .expand = expand,
    .samples = samples,
    .doc = "x with NaN as `nan`, and infinities as `posinf` and `neginf` (left out: the largest number of the dtype, "
           "and minus it); no gradient there.",
    .example = "print(neap.nan_to_num(neap.tensor {1, 0 / 0, 1 / 0}, {posinf = 9}))  --> tensor fp32 [3] {1, 0, 9}",
    .topic = NEAP_TOPIC_ARITHMETIC,
    .args = "x [...] -> [...]",
};
