/* Activations that pull values towards 0, or put another in their place. NaN stays NaN in all of them. */
#include <math.h>

#include "op/build.h"

#define NUMBER(op, a, number) neap__with_number(g, &neap__op_##op, a, number)
#define ZERO_LIKE(a) neap__const_like(g, a, 0)

/* x where it is above, else y; what is neither above nor below is x. */
static neap_id above(neap_graph *g, neap_id x, double number, neap_id y) {
  return neap__build3(g, &neap__op_where, NUMBER(le, x, number), y, x);
}

static neap_id within(neap_graph *g, neap_id x, double lambd) {
  return NUMBER(le, neap__build1(g, &neap__op_abs, x), lambd);
}

static neap_id hardshrink(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  neap_id x = neap__as_float(g, in[0]);
  return neap__build3(g, &neap__op_where, within(g, x, opt[0].v.f), ZERO_LIKE(x), x);
}

static neap_id softshrink(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  neap_id x = neap__as_float(g, in[0]);
  neap_id nearer = neap__build2(g, &neap__op_sub, x, neap__scale(g, neap__build1(g, &neap__op_sign, x), opt[0].v.f));
  return neap__build3(g, &neap__op_where, within(g, x, opt[0].v.f), ZERO_LIKE(x), nearer);
}

static neap_id tanhshrink(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  neap_id x = neap__as_float(g, in[0]);
  return neap__build2(g, &neap__op_sub, x, neap__build1(g, &neap__op_tanh, x));
}

static neap_id softsign(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  neap_id x = neap__as_float(g, in[0]);
  return neap__build2(g, &neap__op_div, x, NUMBER(add, neap__build1(g, &neap__op_abs, x), 1));
}

static neap_id threshold(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  neap_id x = neap__as_float(g, in[0]);
  return above(g, x, opt[0].v.f, neap__const_like(g, x, opt[1].v.f));
}

static const char *const samples[] = {"f32[2,3]", "f32[]", "f32[0,3]", "f64[5]", "i64[3]:below=4", NULL};
static const char *const shrink_samples[] = {"f32[2,3]", "f32[5]; lambd=0.25", "f32[0,3]", "f64[5]", NULL};
static const char *const threshold_samples[] = {"f32[2,3]; threshold=0.1; value=20", "f32[5]; threshold=-0.5; value=-1",
                                                "f32[0,3]; threshold=0; value=0", "f64[5]; threshold=0; value=7", NULL};

const neap_op neap__op_hardshrink = {
    .name = "hardshrink",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "lambd", .type = NEAP_OPT_FLOAT, .def = 0.5, .has_default = true, .doc = "How far from 0."}},
    .expand = hardshrink,
    .samples = shrink_samples,
    .doc = "x where it is further from 0 than `lambd`, else 0.",
    .example = "print(neap.hardshrink(neap.tensor {-1, 0.25, 2}))  --> tensor fp32 [3] {-1, 0, 2}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_softshrink = {
    .name = "softshrink",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "lambd",
              .type = NEAP_OPT_FLOAT,
              .def = 0.5,
              .has_default = true,
              .min = 0,
              .max = HUGE_VAL,
              .doc = "How far from 0."}},
    .expand = softshrink,
    .samples = shrink_samples,
    .doc = "x brought nearer to 0 by `lambd`, and 0 where it is no further.",
    .example = "print(neap.softshrink(neap.tensor {-1, 0.25, 2}))  --> tensor fp32 [3] {-0.5, 0, 1.5}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_tanhshrink = {
    .name = "tanhshrink",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .expand = tanhshrink,
    .samples = samples,
    .doc = "x - tanh(x).",
    .example = "print(neap.tanhshrink(neap.tensor {-1, 0, 1}))  --> tensor fp32 [3] {-0.2384058, 0, 0.2384058}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_softsign = {
    .name = "softsign",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .expand = softsign,
    .samples = samples,
    .doc = "x / (1 + |x|).",
    .example = "print(neap.softsign(neap.tensor {-1, 0, 3}))  --> tensor fp32 [3] {-0.5, 0, 0.75}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_threshold = {
    .name = "threshold",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "threshold", .type = NEAP_OPT_FLOAT, .required = true, .doc = "What x is to be above."},
             {.name = "value", .type = NEAP_OPT_FLOAT, .required = true, .doc = "What it is else."}},
    .expand = threshold,
    .samples = threshold_samples,
    .doc = "x where it is above `threshold`, else `value`.",
    .example =
        "print(neap.threshold(neap.tensor {-1, 0.5, 2}, {threshold = 1, value = 20}))  --> tensor fp32 [3] {20, 20, 2}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};
