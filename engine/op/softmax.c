/* softmax and log_softmax along a dimension, and their gradients as ops of the output. */
#include "op/formula.h"

static neap_status infer(neap_infer *x) {
  neap_status s = neap__need_float(x, 0);
  if (s == NEAP_OK) s = neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err);
  x->out[0] = x->in[0];
  return s;
}

/* (gradient, output) of one kind. */
static neap_status infer_grad(neap_infer *x) {
  char at[96], bt[96];
  if (x->in[0].dtype != x->in[1].dtype || !neap__shape_equal(&x->in[0].shape, &x->in[1].shape))
    return neap__fail(x->err, NEAP_SHAPE, "gradient %s %s and output %s %s, expected the same of both",
                      neap__dtype_name(x->in[0].dtype), neap__shape_text(&x->in[0].shape, at, sizeof at),
                      neap__dtype_name(x->in[1].dtype), neap__shape_text(&x->in[1].shape, bt, sizeof bt));
  return infer(x);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_along(n, in, out, (int32_t)n->opt[0].v.i);
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  double n = (double)neap__shape_count(&s->in[0].desc.shape);
  *flops = 12 * n;
  *bytes = (double)neap__desc_bytes(&s->in[0].desc) * (s->n_in + 1.0);
}

static neap_id with_dim(neap_graph *g, const neap_op *op, const neap_node *n, neap_id a, neap_id b) {
  return neap__build(g, op, (neap_id[]){a, b}, 2, n->opt);
}

static neap_id sum_along(neap_graph *g, const neap_node *n, neap_id v) {
  bool scalar = neap__desc_at(g, v).shape.ndim == 0;
  return neap__reduce(g, &neap__op_sum, v, &n->opt[0].v.i, scalar ? 0 : 1, true);
}

static void grad_softmax(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = with_dim(g, &neap__op_softmax_grad, n, gout[0], n->out[0]);
}

static void grad_log_softmax(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = with_dim(g, &neap__op_log_softmax_grad, n, gout[0], n->out[0]);
}

/* z = y (d - sum(d y)): linear and symmetric in d; of y: v (d - sum(d y)) - d sum(v y). */
static void grad_softmax_grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_id d = n->in[0], y = n->in[1], v = gout[0];
  if (need & 1) gin[0] = with_dim(g, &neap__op_softmax_grad, n, v, y);
  if (need & 2) gin[1] = SUB(MUL(v, SUB(d, sum_along(g, n, MUL(d, y)))), MUL(d, sum_along(g, n, MUL(v, y))));
}

/* z = d - exp(y) sum(d): of d: v - sum(v exp(y)); of y: -v exp(y) sum(d). */
static void grad_log_softmax_grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_id v = gout[0], p = EXP(n->in[1]);
  if (need & 1) gin[0] = SUB(v, sum_along(g, n, MUL(v, p)));
  if (need & 2) gin[1] = NEG(MUL(MUL(v, p), sum_along(g, n, n->in[0])));
}

static const char *const samples[] = {"f32[2,5]; dim=-1",
                                      "f32[2,3,4]; dim=2",
                                      "f32[3,2]; dim=1",
                                      "f32[0,3]; dim=2",
                                      "f32[]; dim=1",
                                      "f64[2,5]; dim=2",
                                      NULL};
static const char *const grad_samples[] = {"f32[2,5] f32[2,5]; dim=-1", "f32[2,3,4] f32[2,3,4]; dim=2",
                                           "f32[0,3] f32[0,3]; dim=2", "f64[2,5] f64[2,5]; dim=2", NULL};

#define SOFTMAX(op_name, inputs, hidden, places, gradient, cases, ...)                                           \
  {                                                                                                              \
    .name = op_name, .min_in = inputs, .max_in = inputs, .n_out = 1, .internal = hidden, .inplace = places,      \
    .precision = NEAP_PREC_KEEP,                                                                                 \
    .opts = {{.name = "dim",                                                                                     \
              .type = NEAP_OPT_DIM,                                                                              \
              .required = true,                                                                                  \
              .doc = "Along which the exponentials of the results, or the results, add up to 1."}},              \
    .infer = inputs == 2 ? infer_grad : infer, .grad = gradient, .batch = batch, .cost = cost, .samples = cases, \
    .doc = __VA_ARGS__                                                                                           \
  }

const neap_op neap__op_softmax =
    SOFTMAX("softmax", 1, false, 1, grad_softmax, samples, "exp(x) over its sum along `dim`, without overflow.",
            "local scores = neap.log(neap.tensor {{1, 3}, {4, 4}})\n"
            "print((neap.softmax(scores, {dim = -1}) * 100):round())  --> tensor fp32 [2, 2] {{25, 75}, {50, 50}}",
            NEAP_TOPIC_ACTIVATION, "x [...] -> [...]");
const neap_op neap__op_log_softmax =
    SOFTMAX("log_softmax", 1, false, 1, grad_log_softmax, samples,
            "x minus the logarithm of the sum of exp(x) along `dim`, without overflow.",
            "print(neap.log_softmax(neap.tensor {0, 1000}, 1))  --> tensor fp32 [2] {-1000, 0}", NEAP_TOPIC_ACTIVATION,
            "x [...] -> [...]");
const neap_op neap__op_softmax_grad = SOFTMAX("softmax_grad", 2, true, 3, grad_softmax_grad, grad_samples,
                                              "Gradient a of softmax at output b: b (a - sum(a b)).");
const neap_op neap__op_log_softmax_grad = SOFTMAX("log_softmax_grad", 2, true, 3, grad_log_softmax_grad, grad_samples,
                                                  "Gradient a of log_softmax at output b: a - exp(b) sum(a).");
