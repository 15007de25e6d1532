/* The inverse of sigmoid. */
#include "op/build.h"

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  neap_id x = neap__as_float(g, in[0]);
  if (opt[0].set) {
    x = neap__with_number(g, &neap__op_clamp_min, x, opt[0].v.f);
    x = neap__with_number(g, &neap__op_clamp_max, x, 1 - opt[0].v.f);
  }
  neap_id rest = neap__build2(g, &neap__op_sub, neap__const_like(g, x, 1), x);
  return neap__build1(g, &neap__op_log, neap__build2(g, &neap__op_div, x, rest));
}

static const char *const samples[] = {"f32[2,3]:unit; eps=0.1", "f32[5]; eps=0.01", "f32[0,3]",
                                      "f64[5]:unit; eps=0.01",  "f64[7]:unit",      NULL};

const neap_op neap__op_logit = {
    .name = "logit",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts =
        {{.name = "eps", .type = NEAP_OPT_FLOAT, .min = 0, .max = 0.5, .doc = "To what x is cut, and to 1 less it."}},
    .expand = expand,
    .samples = samples,
    .doc = "log(x / (1 - x)); with `eps` of x cut to `eps` and 1 - `eps`, else NaN beyond 0 and 1.",
    .example = "print(neap.logit(neap.tensor {0.5, 0.75}))  --> tensor fp32 [2] {0, 1.098612}\n"
               "print(neap.logit(neap.tensor {0, 1}, {eps = 0.25}))  --> tensor fp32 [2] {-1.098612, 1.098612}",
    .topic = NEAP_TOPIC_ARITHMETIC,
    .args = "x [...] -> [...]",
};
