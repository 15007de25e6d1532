/* Losses that are plain formulas of each element, reduced, and the cosine of two vectors. */
#include "op/build.h"

#define ADD(a, b) neap__build2(g, &neap__op_add, a, b)
#define SUB(a, b) neap__build2(g, &neap__op_sub, a, b)
#define MUL(a, b) neap__build2(g, &neap__op_mul, a, b)
#define DIV(a, b) neap__build2(g, &neap__op_div, a, b)
#define MAX(a, number) neap__build2(g, &neap__op_clamp_min, a, neap__const_like(g, a, number))
#define LOG(a) neap__build1(g, &neap__op_log, a)
#define EXP(a) neap__build1(g, &neap__op_exp, a)
#define NEG(a) neap__build1(g, &neap__op_neg, a)
#define K(number) neap__const_like(g, in[0], number)

#define FLAG(option) \
  { .name = option, .type = NEAP_OPT_BOOL, .def = 0, .has_default = true }
#define EPS(value) \
  { .name = "eps", .type = NEAP_OPT_FLOAT, .def = value, .has_default = true, .min = 0, .max = 1 }

/* The inputs in the dtype that holds all of them; false where one is no floating point. */
static bool floats(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, neap_id *in) {
  neap_dtype all = neap__desc_at(g, given[0]).dtype;
  for (uint32_t i = 0; i < n_in; i++) {
    const neap_dtype t = neap__desc_at(g, given[i]).dtype;
    all = neap__dtype_promote(all, t);
    if (neap__dtype_is_float(t)) continue;
    neap__graph_fail(g, op, NEAP_DTYPE, "input %u is %s, expected a floating-point dtype", i + 1, neap__dtype_name(t));
    return false;
  }
  for (uint32_t i = 0; i < n_in; i++) in[i] = neap__cast(g, given[i], all);
  return true;
}

/* --- probabilities --- */

/* The logarithm of a probability, but -100 from exp(-100) down, as PyTorch has it, so that a certain mistake costs no
 * infinity. There is no gradient there, rather than one of 0 times infinity. */
static neap_id log_of(neap_graph *g, neap_id p) {
  const double least = 3.720075976020836e-44;
  const neap_id low = neap__build2(g, &neap__op_le, p, neap__const_like(g, p, least));
  return neap__build3(g, &neap__op_where, low, neap__const_like(g, p, -100), LOG(MAX(p, least)));
}

static neap_id binary_cross_entropy(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in,
                                    const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!floats(g, op, given, n_in, in)) return NEAP_NONE;
  const neap_id yes = MUL(in[1], log_of(g, in[0])), no = MUL(SUB(K(1), in[1]), log_of(g, SUB(K(1), in[0])));
  return neap__reduce_loss(g, NEG(ADD(yes, no)), opt[0].v.i);
}

/* A target of 0 adds 0: its logarithm is taken of the smallest normal number. */
static neap_id kl_div(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!floats(g, op, given, n_in, in)) return NEAP_NONE;
  const bool logs = opt[1].v.i != 0;
  const neap_id target = logs ? EXP(in[1]) : in[1], log_target = logs ? in[1] : LOG(MAX(in[1], 0x1p-126));
  return neap__reduce_loss(g, MUL(target, SUB(log_target, in[0])), opt[0].v.i);
}

static const char *const bce_samples[] = {
    "f32[2,3]:positive f32[2,3]:positive", "f32[4]:positive f32[4]; reduction=none",
    "f32[0]:positive f32[0]; reduction=sum", "f64[5]:positive f64[5]; reduction=sum", NULL};
static const char *const kl_samples[] = {"f32[2,3] f32[2,3]:positive", "f32[4] f32[4]; log_target=true; reduction=none",
                                         "f32[0] f32[0]:positive; reduction=sum",
                                         "f64[5] f64[5]:positive; reduction=sum", NULL};

const neap_op neap__op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = binary_cross_entropy,
    .samples = bce_samples,
    .doc = "Cross entropy of probabilities and targets in [0, 1], logarithms at least -100, reduced.",
};

const neap_op neap__op_kl_div = {
    .name = "kl_div",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION, FLAG("log_target")},
    .expand = kl_div,
    .samples = kl_samples,
    .doc = "target (log(target) - x) for log-probabilities x, reduced; with `log_target` the target is a logarithm too "
           "(Kullback and Leibler 1951).",
};

/* --- likelihoods --- */

static neap_id poisson(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!floats(g, op, given, n_in, in)) return NEAP_NONE;
  const bool logs = opt[1].v.i != 0;
  const neap_id rate = logs ? EXP(in[0]) : in[0], log_rate = logs ? in[0] : LOG(ADD(in[0], K(opt[2].v.f)));
  return neap__reduce_loss(g, SUB(rate, MUL(in[1], log_rate)), opt[0].v.i);
}

static neap_id gaussian(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!floats(g, op, given, n_in, in)) return NEAP_NONE;
  const neap_id var = MAX(in[2], opt[2].v.f), off = neap__build1(g, &neap__op_square, SUB(in[0], in[1]));
  neap_id loss = neap__scale(g, ADD(LOG(var), DIV(off, var)), 0.5);
  if (opt[1].v.i) loss = ADD(loss, K(0.9189385332046727)); /* log(2 pi) / 2 */
  return neap__reduce_loss(g, loss, opt[0].v.i);
}

static const char *const poisson_samples[] = {"f32[2,3] f32[2,3]:positive",
                                              "f32[4]:positive f32[4]:positive; log_input=false; reduction=none",
                                              "f32[0] f32[0]; reduction=sum", "f64[5] f64[5]; reduction=sum", NULL};
static const char *const gaussian_samples[] = {
    "f32[2,3] f32[2,3] f32[2,3]:positive", "f32[4] f32[4] f32[4]:positive; full=true; reduction=none",
    "f32[0] f32[0] f32[0]:positive; reduction=sum", "f64[5,2] f64[5,2] f64[5,1]:positive; reduction=sum", NULL};

const neap_op neap__op_poisson_nll_loss = {
    .name = "poisson_nll_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION, {.name = "log_input", .type = NEAP_OPT_BOOL, .def = 1, .has_default = true}, EPS(1e-8)},
    .expand = poisson,
    .samples = poisson_samples,
    .doc =
        "exp(x) - target x, reduced: a Poisson variable's negative log-likelihood by the logarithm x of its rate, or "
        "with `log_input` false by its rate; without the constant of the target.",
};

const neap_op neap__op_gaussian_nll_loss = {
    .name = "gaussian_nll_loss",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION, FLAG("full"), EPS(1e-6)},
    .expand = gaussian,
    .samples = gaussian_samples,
    .doc = "Negative log-likelihood of a target by mean and variance (at least `eps`), reduced; with its constant when "
           "`full` (Nix and Weigend 1994).",
};

/* --- the cosine --- */

static neap_id length_of(neap_graph *g, neap_id v, const int64_t *dim, double eps) {
  const neap_id squares = neap__reduce(g, &neap__op_sum, neap__build1(g, &neap__op_square, v), dim, 1, false);
  return neap__build1(g, &neap__op_sqrt, MAX(squares, eps * eps));
}

static neap_id cosine(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  const neap_shape a = neap__desc_at(g, given[0]).shape, b = neap__desc_at(g, given[1]).shape;
  neap_opt dim = opt[0];
  char at[96], bt[96];
  neap_error err;
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!floats(g, op, given, n_in, in)) return NEAP_NONE;
  if (!neap__shape_equal(&a, &b) || a.ndim == 0)
    return neap__graph_fail(g, op, NEAP_SHAPE, "inputs %s and %s, expected two of one shape",
                            neap__shape_text(&a, at, sizeof at), neap__shape_text(&b, bt, sizeof bt));
  const neap_status s = neap__dim_option(&dim, a.ndim, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  const neap_id dot = neap__reduce(g, &neap__op_sum, MUL(in[0], in[1]), &dim.v.i, 1, false);
  return DIV(dot, MUL(length_of(g, in[0], &dim.v.i, opt[1].v.f), length_of(g, in[1], &dim.v.i, opt[1].v.f)));
}

static const char *const cosine_samples[] = {"f32[2,3] f32[2,3]",     "f32[2,3,4] f32[2,3,4]; dim=1",
                                             "f32[5] f32[5]; dim=-1", "f32[0,3] f32[0,3]",
                                             "f64[3,4] f64[3,4]",     NULL};

const neap_op neap__op_cosine_similarity = {
    .name = "cosine_similarity",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .def = 1, .has_default = true}, EPS(1e-8)},
    .expand = cosine,
    .samples = cosine_samples,
    .doc = "The cosine of the angle between vectors along `dim`, lengths at least `eps`.",
};
