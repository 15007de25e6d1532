/* Cutting to a range, filling where a mask says, and blending. */
#include <math.h>

#include "op/formula.h"

/* An integer value keeps its dtype while the numbers beside it are whole. */
static neap_id beside(neap_graph *g, neap_id x, bool whole) {
  neap_dtype t = neap__desc_at(g, x).dtype;
  return neap__cast(g, x, whole || neap__dtype_is_float(t) ? t : NEAP_F32);
}

static bool whole(const neap_opt *o) { return !o->set || (o->v.f == floor(o->v.f) && fabs(o->v.f) < 0x1p53); }

/* A bound is a value, with which x shares the gradient where the two are equal, or a number; or there is none. */
static neap_id at_least(neap_graph *g, neap_id x, neap_id value, const neap_opt *number) {
  if (value != NEAP_NONE) return neap__build2(g, &neap__op_maximum, x, value);
  return number->set ? neap__with_number(g, &neap__op_clamp_min, x, number->v.f) : x;
}

static neap_id at_most(neap_graph *g, neap_id x, neap_id value, const neap_opt *number) {
  if (value != NEAP_NONE) return neap__build2(g, &neap__op_minimum, x, value);
  return number->set ? neap__with_number(g, &neap__op_clamp_max, x, number->v.f) : x;
}

static neap_id clamp(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_id low = n_in > 1 ? in[1] : NEAP_NONE, high = n_in > 2 ? in[2] : NEAP_NONE;
  if (n_in == 1 && !opt[0].set && !opt[1].set)
    return neap__graph_fail(g, op, NEAP_INVALID, "one of `min` and `max` is needed");
  if ((low != NEAP_NONE && opt[0].set) || (high != NEAP_NONE && opt[1].set))
    return neap__graph_fail(g, op, NEAP_INVALID, "`%s` is given as an input and as an option",
                            low != NEAP_NONE && opt[0].set ? "min" : "max");
  neap_id x = at_least(g, beside(g, in[0], whole(&opt[0]) && whole(&opt[1])), low, &opt[0]);
  return at_most(g, x, high, &opt[1]);
}

static neap_id masked_fill(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_desc x = neap__desc_at(g, in[0]), mask = neap__desc_at(g, in[1]);
  neap_shape both;
  neap_error err;
  if (mask.dtype != NEAP_BOOL)
    return neap__graph_fail(g, op, NEAP_DTYPE, "the mask is %s, expected bool", neap__dtype_name(mask.dtype));
  if (!neap__dtype_is_float(x.dtype) && !whole(&opt[0]))
    return neap__graph_fail(g, op, NEAP_RANGE, "`value` is %g, which %s does not hold", opt[0].v.f,
                            neap__dtype_name(x.dtype));
  neap_status s = neap__broadcast(&x.shape, &mask.shape, &both, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  return WHERE(in[1], neap__const_like(g, in[0], opt[0].v.f), in[0]);
}

/* Of the two forms, the one that is exact at the nearer end: a + w (b - a) and b - (b - a) (1 - w). */
static neap_id lerp(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  if ((n_in == 3) == (opt[0].set != 0))
    return neap__graph_fail(g, op, NEAP_INVALID, "the weight is expected once: a third input or the option `weight`");
  neap_id a = in[0], b = in[1], difference = SUB(b, a);
  if (n_in == 2) {
    double w = opt[0].v.f;
    return fabs(w) < 0.5 ? ADD(a, neap__scale(g, difference, w)) : SUB(b, neap__scale(g, difference, 1 - w));
  }
  neap_id w = neap__as_float(g, in[2]), one = neap__const_like(g, w, 1); /* bytes would have no 1 - w */
  neap_id near_a = neap__build2(g, &neap__op_lt, neap__build1(g, &neap__op_abs, w), neap__const_like(g, w, 0.5));
  return WHERE(near_a, ADD(a, MUL(w, difference)), SUB(b, MUL(difference, SUB(one, w))));
}

static const char *const clamp_samples[] = {"f32[2,3]; min=-0.5; max=0.5",
                                            "f32[5]; min=0",
                                            "f64[5]; max=0.25",
                                            "f32[0,3]; min=0",
                                            "i64[6]:below=9; min=2; max=5",
                                            "f32[2,3] f32[3]; max=1",
                                            "f32[2,3] f32[2,1] f32[2,3]:positive",
                                            "f64[5] f64[]",
                                            NULL};
static const char *const fill_samples[] = {"f32[2,3] bool[2,3]; value=7",        "f32[2,3] bool[3]; value=-1",
                                           "f64[5] bool[5]; value=0.5",          "f32[0] bool[0]; value=1",
                                           "i64[6]:below=9 bool[6]; value=-100", NULL};
static const char *const lerp_samples[] = {"f32[2,3] f32[2,3]; weight=0.25", "f32[2,3] f32[3]; weight=0.75",
                                           "f32[2,3] f32[2,3] f32[2,3]",     "f64[5] f64[5]; weight=2",
                                           "f32[0] f32[0]; weight=0.5",      NULL};

const neap_op neap__op_clamp = {
    .name = "clamp",
    .min_in = 1,
    .max_in = 3,
    .n_out = 1,
    .opts = {{.name = "min", .type = NEAP_OPT_FLOAT, .doc = "Smallest value."},
             {.name = "max", .type = NEAP_OPT_FLOAT, .doc = "Largest value; it wins when it is below `min`."}},
    .expand = clamp,
    .samples = clamp_samples,
    .doc = "x, at least `min` and at most `max`, which are numbers, at and beyond which it has no gradient, or a "
           "second and a third input, with which equal values share it. One bound may be left out; `max` wins over "
           "`min`, and NaN stays.",
    .example = "print(neap.clamp(neap.tensor {-3, 0.5, 3}, {min = -1, max = 1}))  --> tensor fp32 [3] {-1, 0.5, 1}",
    .topic = NEAP_TOPIC_ARITHMETIC,
    .args = "x [...], low? [...], high? [...] -> [...]",
};

const neap_op neap__op_masked_fill = {
    .name = "masked_fill",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "value", .type = NEAP_OPT_FLOAT, .required = true, .doc = "What is filled in."}},
    .expand = masked_fill,
    .samples = fill_samples,
    .doc = "`value` where the mask is true, else x, which there has no gradient.",
    .example = "local x = neap.tensor {1, -2, 3}\n"
               "print(x:masked_fill(x:lt(0), 0))  --> tensor fp32 [3] {1, 0, 3}",
    .topic = NEAP_TOPIC_COMPARISON,
    .args = "x [...], mask [...] bool -> [...]",
};

const neap_op neap__op_lerp = {
    .name = "lerp",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {{.name = "weight", .type = NEAP_OPT_FLOAT, .doc = "The weight of b, where it is not an input."}},
    .expand = lerp,
    .samples = lerp_samples,
    .doc = "a + weight (b - a): from a at weight 0 to b at weight 1, exact at both ends; the weight is a third input "
           "or an option.",
    .example =
        "print(neap.lerp(neap.tensor {0, 10}, neap.tensor {4, 20}, {weight = 0.25}))  --> tensor fp32 [2] {1, 12.5}",
    .topic = NEAP_TOPIC_ARITHMETIC,
    .args = "a [...], b [...], weight? [...] -> [...]",
};
