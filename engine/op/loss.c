/* Losses that are plain formulas of each element, reduced. */
#include "op/formula.h"

#define K(number) neap__const_like(g, in[0], number)

#define FLAG(option, text) \
  { .name = option, .type = NEAP_OPT_BOOL, .def = 0, .has_default = true, .doc = text }
#define EPS(value, text) \
  { .name = "eps", .type = NEAP_OPT_FLOAT, .def = value, .has_default = true, .min = 0, .max = 1, .doc = text }

/* --- probabilities --- */

/* The logarithm of a probability, but -100 from exp(-100) down, as PyTorch has it, so that a certain mistake costs no
 * infinity. There is no gradient there, rather than one of 0 times infinity. */
static neap_id log_of(neap_graph *g, neap_id p) {
  const double least = 3.720075976020836e-44;
  const neap_id low = neap__build2(g, &neap__op_le, p, neap__const_like(g, p, least));
  return WHERE(low, neap__const_like(g, p, -100), LOG(AT_LEAST(p, least)));
}

static neap_id binary_cross_entropy(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in,
                                    const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  const neap_id yes = MUL(in[1], log_of(g, in[0])), no = MUL(SUB(K(1), in[1]), log_of(g, SUB(K(1), in[0])));
  const neap_id loss = NEG(ADD(yes, no));
  return neap__reduce_loss(g, n_in > 2 ? MUL(loss, in[2]) : loss, opt[0].v.i);
}

enum { BATCHMEAN = 3 }; /* of kl_div's reductions: the sum over the number of samples */

/* A target of 0 adds 0: its logarithm is taken of the smallest normal number. */
static neap_id kl_div(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  const bool logs = opt[1].v.i != 0;
  const neap_id target = logs ? EXP(in[1]) : in[1], log_target = logs ? in[1] : LOG(AT_LEAST(in[1], 0x1p-126));
  const neap_id loss = MUL(target, SUB(log_target, in[0]));
  if (opt[0].v.i != BATCHMEAN) return neap__reduce_loss(g, loss, opt[0].v.i);
  const neap_shape shape = neap__desc_at(g, loss).shape;
  if (shape.ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar is no batch: `reduction` batchmean");
  return neap__scale(g, neap__build1(g, &neap__op_sum, loss), 1.0 / (double)shape.dim[0]);
}

static const char *const bce_samples[] = {
    "f32[2,3]:positive f32[2,3]:positive",   "f32[4]:positive f32[4]; reduction=none",
    "f32[0]:positive f32[0]; reduction=sum", "f64[5]:positive f64[5]; reduction=sum",
    "f32[4,3]:positive f32[4,3] f32[3]",     NULL};
static const char *const kl_samples[] = {"f32[2,3] f32[2,3]:positive",
                                         "f32[4] f32[4]; log_target=true; reduction=none",
                                         "f32[0] f32[0]:positive; reduction=sum",
                                         "f64[5] f64[5]:positive; reduction=sum",
                                         "f32[4,3] f32[4,3]:positive; reduction=batchmean",
                                         NULL};

const neap_op neap__op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = binary_cross_entropy,
    .samples = bce_samples,
    .doc = "Cross entropy of probabilities x and targets in [0, 1], -(target log x + (1 - target) log(1 - x)), each "
           "logarithm at least -100, reduced; a weight multiplies each loss.",
    .example = "print(neap.binary_cross_entropy(neap.tensor {1, 0}, neap.tensor {1, 1}))  --> tensor fp32 [] 50",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...], weight? [...] -> []",
};

const neap_op neap__op_kl_div = {
    .name = "kl_div",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "reduction",
              .type = NEAP_OPT_CHOICE,
              .def = 0,
              .has_default = true,
              .choices = "mean|sum|none|batchmean",
              .doc = "What becomes of the elements' losses: their mean, their sum, or none: each stays; batchmean is "
                     "the sum over the number of samples, the divergence itself."},
             FLAG("log_target", "Whether the target is a logarithm too.")},
    .expand = kl_div,
    .samples = kl_samples,
    .doc = "target (log(target) - x) for log-probabilities x, reduced (Kullback and Leibler 1951); 0 where the target "
           "is 0.",
    .example = "local p = neap.tensor {0.25, 0.75}\n"
               "print(neap.kl_div(p:log(), p, {reduction = \"batchmean\"}))  --> tensor fp32 [] 0",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...] -> []",
};

/* --- likelihoods --- */

/* Stirling's approximation of log(t!) for targets above 1, as PyTorch has it: t log(t) - t + log(2 pi t) / 2. */
static neap_id stirling(neap_graph *g, neap_id t) {
  const neap_id high = neap__build2(g, &neap__op_gt, t, neap__const_like(g, t, 1)), safe = AT_LEAST(t, 1),
                log_t = LOG(safe);
  const neap_id half = neap__scale(g, ADD(log_t, neap__const_like(g, t, 1.8378770664093453)), 0.5); /* log(2 pi) */
  return WHERE(high, ADD(SUB(MUL(safe, log_t), safe), half), neap__const_like(g, t, 0));
}

static neap_id poisson(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  const bool logs = opt[1].v.i != 0;
  const neap_id rate = logs ? EXP(in[0]) : in[0], log_rate = logs ? in[0] : LOG(ADD(in[0], K(opt[2].v.f)));
  neap_id loss = SUB(rate, MUL(in[1], log_rate));
  if (opt[3].v.i) loss = ADD(loss, stirling(g, in[1]));
  return neap__reduce_loss(g, loss, opt[0].v.i);
}

/* Whether v has x's dimensions but for the last: a variance for each row. */
static bool is_row(const neap_shape *x, neap_shape v) {
  if (v.ndim + 1 != x->ndim || v.ndim == 0) return false;
  v.dim[v.ndim] = x->dim[v.ndim];
  v.ndim++;
  return neap__shape_equal(x, &v);
}

static neap_id gaussian(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  const neap_shape x = neap__desc_at(g, in[0]).shape;
  if (is_row(&x, neap__desc_at(g, in[2]).shape)) in[2] = neap__insert_dim(g, in[2], x.ndim - 1);
  const neap_id var = AT_LEAST(in[2], opt[2].v.f), off = neap__build1(g, &neap__op_square, SUB(in[0], in[1]));
  neap_id loss = neap__scale(g, ADD(LOG(var), DIV(off, var)), 0.5);
  if (opt[1].v.i) loss = ADD(loss, K(0.9189385332046727)); /* log(2 pi) / 2 */
  return neap__reduce_loss(g, loss, opt[0].v.i);
}

static const char *const poisson_samples[] = {"f32[2,3] f32[2,3]:positive",
                                              "f32[4]:positive f32[4]:positive; log_input=false; reduction=none",
                                              "f32[0] f32[0]; reduction=sum",
                                              "f64[5] f64[5]; reduction=sum",
                                              "f32[4,3] f32[4,3]:positive; full=true",
                                              NULL};
static const char *const gaussian_samples[] = {"f32[2,3] f32[2,3] f32[2,3]:positive",
                                               "f32[4] f32[4] f32[4]:positive; full=true; reduction=none",
                                               "f32[0] f32[0] f32[0]:positive; reduction=sum",
                                               "f64[5,2] f64[5,2] f64[5,1]:positive; reduction=sum",
                                               "f32[5,2] f32[5,2] f32[5]:positive",
                                               NULL};

const neap_op neap__op_poisson_nll_loss = {
    .name = "poisson_nll_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION,
             {.name = "log_input",
              .type = NEAP_OPT_BOOL,
              .def = 1,
              .has_default = true,
              .doc = "Whether x is the rate's logarithm; if not, x - target log(x + eps)."},
             EPS(1e-8, "Added to the rate before its logarithm."),
             FLAG("full", "Whether Stirling's approximation of the target's constant, log(target!), is added.")},
    .expand = poisson,
    .samples = poisson_samples,
    .doc = "A Poisson variable's negative log-likelihood without the constant of the target, exp(x) - target x for the "
           "logarithm x of its rate, reduced.",
    .example = "print(neap.poisson_nll_loss(neap.tensor {0, 0}, neap.tensor {1, 2}))  --> tensor fp32 [] 1",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...] -> []",
};

const neap_op neap__op_gaussian_nll_loss = {
    .name = "gaussian_nll_loss",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION, FLAG("full", "Whether its constant, log(2 pi) / 2, is added."),
             EPS(1e-6, "Smallest variance.")},
    .expand = gaussian,
    .samples = gaussian_samples,
    .doc = "Negative log-likelihood of a target by mean x and variance var, (log(var) + (x - target)^2 / var) / 2, "
           "reduced (Nix and Weigend 1994); var has an entry for each element or for each row.",
    .example = "print(neap.gaussian_nll_loss(neap.tensor {1, 2}, neap.tensor {1, 4}, neap.tensor {1, 1}))  --> tensor "
               "fp32 [] 1",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...], var [...] -> []",
};
