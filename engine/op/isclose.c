/* Equality within tolerances. */
#include <math.h>

#include "op/build.h"

#define B1(op, a) neap__build1(g, &neap__op_##op, a)
#define B2(op, a, b) neap__build2(g, &neap__op_##op, a, b)

/* Integers are compared as what they are first, and then by their difference in fp64. */
static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  neap_dtype t = neap__dtype_promote(neap__desc_at(g, in[0]).dtype, neap__desc_at(g, in[1]).dtype);
  if (!neap__dtype_is_float(t)) t = NEAP_F64;
  neap_id a = neap__cast(g, in[0], t), b = neap__cast(g, in[1], t);
  neap_id gap = B1(abs, B2(sub, a, b));
  neap_id allowed = neap__with_number(g, &neap__op_add, neap__scale(g, B1(abs, b), opt[0].v.f), opt[1].v.f);
  neap_id near = B2(logical_and, B1(isfinite, gap), B2(le, gap, allowed));
  neap_id close = B2(logical_or, B2(eq, in[0], in[1]), near);
  return opt[2].v.i ? B2(logical_or, close, B2(logical_and, B1(isnan, in[0]), B1(isnan, in[1]))) : close;
}

static const char *const samples[] = {"f32[2,3] f32[2,3]",
                                      "f32[2,3] f32[3]; rtol=0.5; atol=0.25",
                                      "f32[0,3] f32[3]",
                                      "f64[5] f64[5]; equal_nan=true",
                                      "i64[9]:below=3 i64[9]:below=3; atol=1",
                                      "bool[4] bool[4]",
                                      NULL};

const neap_op neap__op_isclose = {
    .name = "isclose",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .nondiff = true,
    .opts = {{.name = "rtol",
              .type = NEAP_OPT_FLOAT,
              .def = 1e-5,
              .has_default = true,
              .max = HUGE_VAL,
              .doc = "Part of |b| that is allowed."},
             {.name = "atol",
              .type = NEAP_OPT_FLOAT,
              .def = 1e-8,
              .has_default = true,
              .max = HUGE_VAL,
              .doc = "What is allowed besides."},
             {.name = "equal_nan",
              .type = NEAP_OPT_BOOL,
              .def = 0,
              .has_default = true,
              .doc = "Whether NaN is close to NaN."}},
    .expand = expand,
    .samples = samples,
    .doc = "1 where |a - b| is at most `atol` + `rtol` |b|, or both are equal, or with `equal_nan` both NaN.",
    .example = "print(neap.isclose(neap.tensor {1, 100}, neap.tensor {1.001, 101}, {rtol = 0.005}))  --> tensor bool "
               "[2] {true, false}",
    .topic = NEAP_TOPIC_COMPARISON,
    .args = "a [...], b [...] -> [...] bool",
};
