/* Recurrent layers: the part that goes step by step. What the input adds to each step's gates is one product over all
 * steps (linear) and comes in ready; so does the gradient of the weights go out as one product.
 *
 * gates: (N, T, k H), w: (k H, H), k = 4, 3, 1 gates in PyTorch's order; states: (N, H), zero where left out. */
#include "op/recurrent.h"

/* The inputs are of one dtype, the first (N, T, k H) and the second (kw H, H). */
static neap_status check_gates(const neap_infer *x, int64_t k, int64_t kw) {
  const neap_shape *g = &x->in[0].shape, *w = &x->in[1].shape;
  char gt[96], wt[96];
  neap_status s;
  for (uint32_t i = 0; i < x->n_in; i++) {
    if ((s = neap__need_float(x, i))) return s;
    if (x->in[i].dtype != x->in[0].dtype)
      return neap__fail(x->err, NEAP_DTYPE, "input %u is %s, expected %s like the first", i + 1,
                        neap__dtype_name(x->in[i].dtype), neap__dtype_name(x->in[0].dtype));
  }
  neap__shape_text(g, gt, sizeof gt);
  neap__shape_text(w, wt, sizeof wt);
  if (w->ndim != 2 || w->dim[0] != kw * w->dim[1])
    return neap__fail(x->err, NEAP_SHAPE, "weight %s, expected [%lld width, width]", wt, (long long)kw);
  if (g->ndim != 3 || g->dim[2] != k * w->dim[1])
    return neap__fail(x->err, NEAP_SHAPE, "gates %s, expected [batch, steps, %lld] for weight %s", gt,
                      (long long)k * (long long)w->dim[1], wt);
  return g->dim[1] > 0 ? NEAP_OK : neap__fail(x->err, NEAP_SHAPE, "gates %s have no steps, expected one or more", gt);
}

static neap_status expect(const neap_infer *x, uint32_t i, const char *what, const neap_desc *want) {
  char got[96], wanted[96];
  if (neap__shape_equal(&x->in[i].shape, &want->shape)) return NEAP_OK;
  return neap__fail(x->err, NEAP_SHAPE, "%s has shape %s, expected %s", what,
                    neap__shape_text(&x->in[i].shape, got, sizeof got),
                    neap__shape_text(&want->shape, wanted, sizeof wanted));
}

static neap_desc state_of(const neap_infer *x) {
  return (neap_desc){x->in[0].dtype, {2, {x->in[0].shape.dim[0], x->in[1].shape.dim[1]}}};
}

/* (N, T, k H) */
static neap_desc steps_of(const neap_infer *x, int64_t k) {
  return (neap_desc){x->in[0].dtype, {3, {x->in[0].shape.dim[0], x->in[0].shape.dim[1], k * x->in[1].shape.dim[1]}}};
}

/* Samples are along dimension 0 of every input but those of `weights` (a bit each), and of every output. */
static neap_status batch_rows(const neap_node *n, const neap_batch *in, neap_batch *out, uint32_t weights) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  neap_batch r = {.kind = NEAP_B_SAMPLE, .dim = 0, .per = 0};
  for (uint32_t i = 0; i < n->n_in; i++) {
    const bool constant = in[i].kind == NEAP_B_CONST, weight = weights >> i & 1;
    if (constant != weight) return NEAP_UNSUPPORTED;
    if (constant) continue;
    if (in[i].dim != 0 || (r.per && in[i].per != r.per)) return NEAP_UNSUPPORTED;
    r.per = in[i].per;
    if (in[i].kind == NEAP_B_MIX) r.kind = NEAP_B_MIX;
  }
  for (uint32_t o = 0; o < n->n_out; o++) out[o] = r;
  return NEAP_OK;
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return batch_rows(n, in, out, 2);
}

/* A product with w for each step of each sample, and about 20 operations for each gate. */
static void cost(const neap_sig *s, double *flops, double *bytes) {
  const neap_shape *g = &s->in[0].desc.shape, *w = &s->in[1].desc.shape;
  *flops = (double)g->dim[0] * (double)g->dim[1] * (double)w->dim[0] * (2 * (double)w->dim[1] + 20);
  *bytes = 0;
  for (uint32_t i = 0; i < s->n_in; i++) *bytes += (double)neap__desc_bytes(&s->in[i].desc);
  for (uint32_t o = 0; o < s->n_out; o++) *bytes += (double)neap__desc_bytes(&s->out[o].desc);
}

/* --- gradients --- */

static neap_id or_zero(neap_graph *g, neap_id v, neap_id like) {
  return v != NEAP_NONE ? v : neap__expand_as(g, neap__const_like(g, like, 0), like);
}

/* d: gradient of what the states add to the gates. out: of w, and of a bias. */
static void grad_weight(neap_graph *g, neap_id d, neap_id y, neap_id state, neap_id *out) {
  neap__build_n(g, &neap__op_linear_grad_weight, (const neap_id[]){d, neap__states_before(g, y, state)}, 2, NULL, out);
}

/* --- LSTM: gates i, f, g, o; c = f c + i g, h = o tanh(c) --- */

/* gates, w, or these, h, c -> y: (N, T, H), the last c, and for the gradient all c and the gates' values. */
static neap_status infer_lstm(neap_infer *x) {
  neap_status s = check_gates(x, 4, 4);
  if (s != NEAP_OK) return s;
  const neap_desc state = state_of(x);
  if (x->n_in == 3) return neap__fail(x->err, NEAP_INVALID, "got a hidden state without a cell state, expected both");
  if (x->n_in > 3 && ((s = expect(x, 2, "the hidden state", &state)) || (s = expect(x, 3, "the cell state", &state))))
    return s;
  x->out[0] = x->out[2] = steps_of(x, 1);
  x->out[1] = state;
  x->out[3] = steps_of(x, 4);
  return NEAP_OK;
}

/* What the gradient read of the layer has gradients only where that is differentiated, step by step. */
static void lstm_back(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id first, neap_id *d) {
  const neap_id in[] = {n->out[3], n->in[1], n->out[2], or_zero(g, gout[0], n->out[0]), or_zero(g, gout[1], n->out[1]),
                        first};
  if (gout[2] == NEAP_NONE && gout[3] == NEAP_NONE)
    neap__build_n(g, &neap__op_lstm_scan_grad, in, first == NEAP_NONE ? 5 : 6, NULL, d);
  else
    neap__lstm_back(g, &(neap_scan){in[0], in[1], in[2], first, in[3], in[4], gout[3], gout[2]}, d);
}

static void grad_lstm(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const bool states = n->n_in > 2;
  neap_id d[NEAP_MAX_OUT] = {NEAP_NONE, NEAP_NONE, NEAP_NONE}, w[NEAP_MAX_OUT];
  lstm_back(g, n, gout, states ? n->in[3] : NEAP_NONE, d);
  gin[0] = d[0];
  if (states) gin[2] = d[1], gin[3] = d[2];
  if (!(need & 2)) return;
  grad_weight(g, d[0], n->out[0], states ? n->in[2] : NEAP_NONE, w);
  gin[1] = w[0];
}

static const char *const lstm_samples[] = {
    "f32[2,3,8] f32[8,2]", "f32[5,4,12] f32[12,3] f32[5,3] f32[5,3]", "f32[1,1,4] f32[4,1]",
    "f32[0,2,8] f32[8,2]", "f64[3,2,8] f64[8,2] f64[3,2] f64[3,2]",   NULL};

const neap_op neap__op_lstm_scan = {
    .name = "lstm_scan",
    .min_in = 2,
    .max_in = 4,
    .n_out = 4,
    .results = 2,
    .precision = NEAP_PREC_CAST,
    .infer = infer_lstm,
    .grad = grad_lstm,
    .batch = batch,
    .cost = cost,
    .samples = lstm_samples,
    .doc = "The steps of an LSTM (Hochreiter and Schmidhuber 1997) over gates x w_ih' + b in the order i, f, g, o, "
           "with the weight w_hh and the first states h and c, zero when left out; gives all h, and the last c. "
           "nn.LSTM is made of it.",
    .example = "local y, c = neap.lstm_scan(neap.zeros(2, 5, 12), neap.zeros(12, 3))\n"
               "print(table.concat(y.shape, \" \"))  --> 2 5 3\n"
               "print(table.concat(c.shape, \" \"))  --> 2 3",
    .topic = NEAP_TOPIC_SEQUENCE,
    .args = "gates [N, T, 4 W], weight [4 W, W], h? [N, W], c? [N, W] -> y [N, T, W], c [N, W]",
};

/* gates' values, w, all c, gradients of y and of the last c, or these and the first c -> of gates, h and c */
static neap_status infer_lstm_grad(neap_infer *x) {
  neap_status s = check_gates(x, 4, 4);
  if (s != NEAP_OK) return s;
  const neap_desc state = state_of(x), y = steps_of(x, 1);
  if ((s = expect(x, 2, "the cell states", &y)) || (s = expect(x, 3, "the gradient of y", &y)) ||
      (s = expect(x, 4, "the gradient of c", &state)))
    return s;
  if (x->n_in > 5 && (s = expect(x, 5, "the first cell state", &state))) return s;
  x->out[0] = x->in[0];
  x->out[1] = x->out[2] = state;
  return NEAP_OK;
}

static void unfused_lstm_grad(neap_graph *g, const neap_node *n, neap_id *out) {
  const neap_id first = n->n_in > 5 ? n->in[5] : NEAP_NONE;
  neap__lstm_back(g, &(neap_scan){n->in[0], n->in[1], n->in[2], first, n->in[3], n->in[4], NEAP_NONE, NEAP_NONE}, out);
}

static const char *const lstm_grad_samples[] = {"f32[2,3,8] f32[8,2] f32[2,3,2] f32[2,3,2] f32[2,2]",
                                                "f32[5,4,12] f32[12,3] f32[5,4,3] f32[5,4,3] f32[5,3] f32[5,3]",
                                                "f32[0,2,8] f32[8,2] f32[0,2,2] f32[0,2,2] f32[0,2]", NULL};

const neap_op neap__op_lstm_scan_grad = {
    .name = "lstm_scan_grad",
    .min_in = 5,
    .max_in = 6,
    .n_out = 3,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .infer = infer_lstm_grad,
    .unfused = unfused_lstm_grad,
    .batch = batch,
    .cost = cost,
    .samples = lstm_grad_samples,
    .doc = "Gradients of lstm_scan's gates and first states from what it kept and the gradients of y and the last c.",
};

/* --- GRU: gates r, z, n; n = tanh(gate + r (w h + b)), h = (1 - z) n + z h --- */

/* gates, w, then what there is of a bias (3 H) and a state -> y, and for the gradient r, z, n and w h + b of n. */
static neap_status infer_gru(neap_infer *x) {
  neap_status s = check_gates(x, 3, 3);
  if (s != NEAP_OK) return s;
  const neap_desc state = state_of(x), bias = {x->in[0].dtype, {1, {x->in[1].shape.dim[0]}}};
  uint32_t at = 2;
  if (at < x->n_in && x->in[at].shape.ndim == 1 && (s = expect(x, at++, "the bias", &bias))) return s;
  if (at < x->n_in && (s = expect(x, at++, "the state", &state))) return s;
  if (at < x->n_in) return neap__fail(x->err, NEAP_INVALID, "got two states, expected a bias and a state");
  x->out[0] = steps_of(x, 1);
  x->out[1] = steps_of(x, 4);
  return NEAP_OK;
}

static neap_status batch_gru(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  const bool bias = n->n_in > 2 && g->values[n->in[2]].desc.shape.ndim == 1;
  return batch_rows(n, in, out, bias ? 6 : 2);
}

static void gru_back(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id first, neap_id *d) {
  const neap_id in[] = {n->out[1], n->in[1], n->out[0], or_zero(g, gout[0], n->out[0]), first};
  if (gout[1] == NEAP_NONE)
    neap__build_n(g, &neap__op_gru_scan_grad, in, first == NEAP_NONE ? 4 : 5, NULL, d);
  else
    neap__gru_back(g, &(neap_scan){in[0], in[1], in[2], first, in[3], NEAP_NONE, gout[1], NEAP_NONE}, d);
}

static void grad_gru(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const bool bias = n->n_in > 2 && neap__desc_at(g, n->in[2]).shape.ndim == 1;
  const uint32_t at = bias ? 3 : 2;
  const neap_id first = n->n_in > at ? n->in[at] : NEAP_NONE;
  neap_id d[NEAP_MAX_OUT] = {NEAP_NONE, NEAP_NONE, NEAP_NONE}, w[NEAP_MAX_OUT];
  gru_back(g, n, gout, first, d);
  gin[0] = d[0];
  if (first != NEAP_NONE) gin[at] = d[2];
  if (!(need & (bias ? 6u : 2u))) return;
  grad_weight(g, d[1], n->out[0], first, w);
  gin[1] = w[0];
  if (bias) gin[2] = w[1];
}

static const char *const gru_samples[] = {"f32[2,3,6] f32[6,2]",
                                          "f32[5,4,9] f32[9,3] f32[9] f32[5,3]",
                                          "f32[5,2,9] f32[9,3] f32[5,3]",
                                          "f32[1,1,3] f32[3,1] f32[3]",
                                          "f32[0,2,6] f32[6,2]",
                                          "f64[3,2,6] f64[6,2] f64[6] f64[3,2]",
                                          NULL};

const neap_op neap__op_gru_scan = {
    .name = "gru_scan",
    .min_in = 2,
    .max_in = 4,
    .n_out = 2,
    .precision = NEAP_PREC_CAST,
    .infer = infer_gru,
    .grad = grad_gru,
    .batch = batch_gru,
    .cost = cost,
    .samples = gru_samples,
    .doc = "The steps of a GRU (Cho et al. 2014, as PyTorch has it) over gates x w_ih' + b in the order r, z, n, with "
           "the weight w_hh, its bias and the first state, zero when left out; gives all states. nn.GRU is made of it.",
    .example = "print(table.concat(neap.gru_scan(neap.zeros(2, 5, 9), neap.zeros(9, 3)).shape, \" \"))  --> 2 5 3",
    .topic = NEAP_TOPIC_SEQUENCE,
    .args = "gates [N, T, 3 W], weight [3 W, W], bias? [3 W], h? [N, W] -> y [N, T, W]",
};

/* kept values, w, y, its gradient, or these and the first state -> gradients of gates, of w h + b, of the state */
static neap_status infer_gru_grad(neap_infer *x) {
  neap_status s = check_gates(x, 4, 3);
  if (s != NEAP_OK) return s;
  const neap_desc state = state_of(x), y = steps_of(x, 1);
  if ((s = expect(x, 2, "y", &y)) || (s = expect(x, 3, "the gradient of y", &y))) return s;
  if (x->n_in > 4 && (s = expect(x, 4, "the first state", &state))) return s;
  x->out[0] = x->out[1] = steps_of(x, 3);
  x->out[2] = state;
  return NEAP_OK;
}

static void unfused_gru_grad(neap_graph *g, const neap_node *n, neap_id *out) {
  const neap_id first = n->n_in > 4 ? n->in[4] : NEAP_NONE;
  neap__gru_back(g, &(neap_scan){n->in[0], n->in[1], n->in[2], first, n->in[3], NEAP_NONE, NEAP_NONE, NEAP_NONE}, out);
}

static const char *const gru_grad_samples[] = {"f32[2,3,8] f32[6,2] f32[2,3,2] f32[2,3,2]",
                                               "f32[5,4,12] f32[9,3] f32[5,4,3] f32[5,4,3] f32[5,3]",
                                               "f32[0,2,8] f32[6,2] f32[0,2,2] f32[0,2,2]", NULL};

const neap_op neap__op_gru_scan_grad = {
    .name = "gru_scan_grad",
    .min_in = 4,
    .max_in = 5,
    .n_out = 3,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .infer = infer_gru_grad,
    .unfused = unfused_gru_grad,
    .batch = batch,
    .cost = cost,
    .samples = gru_grad_samples,
    .doc = "Gradients of gru_scan's gates, of w h + b and of the first state from what it kept, y and its gradient.",
};

/* --- RNN: h = tanh(gate + w h), or relu --- */

#define NONLINEARITY                                                                                        \
  {                                                                                                         \
    .name = "nonlinearity", .type = NEAP_OPT_CHOICE, .def = 0, .has_default = true, .choices = "tanh|relu", \
    .doc = "Function of each step."                                                                         \
  }

static neap_status infer_rnn(neap_infer *x) {
  neap_status s = check_gates(x, 1, 1);
  if (s != NEAP_OK) return s;
  const neap_desc state = state_of(x);
  if (x->n_in > 2 && (s = expect(x, 2, "the state", &state))) return s;
  x->out[0] = x->in[0];
  return NEAP_OK;
}

static void grad_rnn(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_id in[] = {n->out[0], n->in[1], gout[0]};
  neap_id d[NEAP_MAX_OUT], w[NEAP_MAX_OUT];
  neap__build_n(g, &neap__op_rnn_scan_grad, in, 3, n->opt, d);
  gin[0] = d[0];
  if (n->n_in > 2) gin[2] = d[1];
  if (!(need & 2)) return;
  grad_weight(g, d[0], n->out[0], n->n_in > 2 ? n->in[2] : NEAP_NONE, w);
  gin[1] = w[0];
}

static const char *const rnn_samples[] = {
    "f32[2,3,2] f32[2,2]",          "f32[5,4,3] f32[3,3] f32[5,3]; nonlinearity=relu",
    "f32[1,1,1] f32[1,1]",          "f32[0,2,2] f32[2,2]",
    "f64[3,2,2] f64[2,2] f64[3,2]", NULL};

const neap_op neap__op_rnn_scan = {
    .name = "rnn_scan",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .opts = {NONLINEARITY},
    .infer = infer_rnn,
    .grad = grad_rnn,
    .batch = batch,
    .cost = cost,
    .samples = rnn_samples,
    .doc = "The steps of an Elman network, h = tanh(gate + w_hh h) or relu of it, over gates x w_ih' + b with the "
           "weight w_hh and the first state, zero when left out; gives all states. nn.RNN is made of it.",
    .example = "print(neap.rnn_scan(neap.ones(1, 3, 1), neap.ones(1, 1), {nonlinearity = \"relu\"}))  --> tensor fp32 "
               "[1, 3, 1] {{{1}, {2}, {3}}}",
    .topic = NEAP_TOPIC_SEQUENCE,
    .args = "gates [N, T, W], weight [W, W], h? [N, W] -> y [N, T, W]",
};

/* y, w, y's gradient -> gradients of gates and of the first state */
static neap_status infer_rnn_grad(neap_infer *x) {
  neap_status s = check_gates(x, 1, 1);
  const neap_desc y = x->in[0];
  if (s != NEAP_OK || (s = expect(x, 2, "the gradient of y", &y))) return s;
  x->out[0] = x->in[0];
  x->out[1] = state_of(x);
  return NEAP_OK;
}

static void unfused_rnn_grad(neap_graph *g, const neap_node *n, neap_id *out) {
  const neap_scan s = {NEAP_NONE, n->in[1], n->in[0], NEAP_NONE, n->in[2], NEAP_NONE, NEAP_NONE, NEAP_NONE};
  neap__rnn_back(g, &s, n->opt[0].v.i != 0, out);
}

static const char *const rnn_grad_samples[] = {"f32[2,3,2] f32[2,2] f32[2,3,2]",
                                               "f32[5,4,3] f32[3,3] f32[5,4,3]; nonlinearity=relu",
                                               "f32[0,2,2] f32[2,2] f32[0,2,2]", NULL};

const neap_op neap__op_rnn_scan_grad = {
    .name = "rnn_scan_grad",
    .min_in = 3,
    .max_in = 3,
    .n_out = 2,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .opts = {NONLINEARITY},
    .infer = infer_rnn_grad,
    .unfused = unfused_rnn_grad,
    .batch = batch,
    .cost = cost,
    .samples = rnn_grad_samples,
    .doc = "Gradients of rnn_scan's gates and first state from its output and that one's gradient.",
};
