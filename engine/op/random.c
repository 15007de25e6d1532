/* Random draws inside programs. Every number is a function of the seed, the update, the module and its call,
 * the sample, and the place in the sample (engine/backend/backend.h, neap_draw). */
#include "op/build.h"

static neap_status infer(neap_infer *x) {
  neap_status s = neap__need_float(x, 0);
  x->out[0] = x->in[0];
  return s;
}

/* The same draw again: what was dropped passes no gradient, and no mask is kept for it. */
static void grad_drop(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 1)) return;
  gin[0] = neap__build(g, n->op, &gout[0], 1, n->opt);
  if (gin[0] != NEAP_NONE) g->nodes[g->values[gin[0]].node]->salt = n->salt;
}

/* A sample's numbers are its own only where its entries lie side by side. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  (void)g;
  if (neap__batch_settled(n, in, out, &s)) return s;
  if (in[0].dim != 0) return NEAP_UNSUPPORTED;
  out[0] = in[0];
  return NEAP_OK;
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = 20.0 * (double)neap__shape_count(&s->out[0].desc.shape);
  *bytes = 2.0 * (double)neap__desc_bytes(&s->out[0].desc);
}

static const char *const like_samples[] = {"f32[3,5]", "f64[7]", "f32[]", "f32[0,4]", NULL};
static const char *const drop_samples[] = {"f32[3,5]; p=0.25", "f64[7]; p=0", "f32[]; p=1", "f32[0,4]", NULL};

#define LIKE(op_name, ...)                                                                                   \
  {                                                                                                          \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1, .nondiff = true, .random = true, .shape_only = 1, \
    .precision = NEAP_PREC_FOLLOW, .infer = infer, .batch = batch, .cost = cost, .samples = like_samples,    \
    .doc = __VA_ARGS__                                                                                       \
  }

const neap_op neap__op_rand_like = LIKE("rand_like", "Uniform draws from [0, 1) in the shape and dtype of x.",
                                        "local u = neap.rand_like(neap.zeros(1000))\n"
                                        "print(u:min():item() >= 0 and u:max():item() < 1)  --> true",
                                        NEAP_TOPIC_RANDOM, "x [...] -> [...]");
const neap_op neap__op_randn_like =
    LIKE("randn_like", "Standard normal draws in the shape and dtype of x (Box and Muller 1958).",
         "print(table.concat(neap.randn_like(neap.zeros(2, 3)).shape, \" \"))  --> 2 3", NEAP_TOPIC_RANDOM,
         "x [...] -> [...]");

const neap_op neap__op_bernoulli = {
    .name = "bernoulli",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .random = true,
    .inplace = 1,
    .precision = NEAP_PREC_KEEP,
    .infer = infer,
    .batch = batch,
    .cost = cost,
    .samples = like_samples,
    .doc = "1 with probability x, else 0, in the dtype of x.",
    .example = "print(neap.bernoulli(neap.tensor {0, 1}))  --> tensor fp32 [2] {0, 1}",
    .topic = NEAP_TOPIC_RANDOM,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_drop = {
    .name = "drop",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .random = true,
    .inplace = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "p", .type = NEAP_OPT_FLOAT, .def = 0.5, .has_default = true, .min = 0, .max = 1}},
    .infer = infer,
    .grad = grad_drop,
    .batch = batch,
    .cost = cost,
    .samples = drop_samples,
    .doc = "0 with probability p, else x / (1 - p).",
};
