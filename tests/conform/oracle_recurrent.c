/* Recurrent layers, step by step, as torch.nn.LSTM's, GRU's and RNN's documentation states them. */
#include <math.h>

#include "conform/oracle.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

typedef struct scan {
  int64_t rows, steps, width, gates;
  const kt_value *w, *state; /* state NULL: zero */
  kt_value *y;
} scan;

static scan scan_of(const kt_value *in, int64_t gates, const kt_value *state, kt_value *y) {
  const int64_t *n = in[0].desc.shape.dim;
  scan s = {n[0], n[1], in[1].desc.shape.dim[1], gates, &in[1], state, y};
  *y = cf_made(&(neap_shape){3, {s.rows, s.steps, s.width}});
  return s;
}

static double before(const scan *s, const kt_value *from, const kt_value *first, int64_t r, int64_t t, int64_t j) {
  if (t > 0) return kt_get(from, (r * s->steps + t - 1) * s->width + j);
  return first ? kt_get(first, r * s->width + j) : 0;
}

/* Row `gate` x width + j of w times the state that step t begins with. */
static double product(const scan *s, int64_t r, int64_t t, int64_t gate, int64_t j) {
  double sum = 0;
  for (int64_t i = 0; i < s->width && (t > 0 || s->state); i++)
    sum += kt_get(s->w, (gate * s->width + j) * s->width + i) * before(s, s->y, s->state, r, t, i);
  return sum;
}

static double given(const scan *s, const kt_value *x, int64_t r, int64_t t, int64_t gate, int64_t j) {
  return kt_get(x, ((r * s->steps + t) * s->gates + gate) * s->width + j);
}

static double gate(const scan *s, const kt_value *x, int64_t r, int64_t t, int64_t g, int64_t j) {
  return given(s, x, r, t, g, j) + product(s, r, t, g, j);
}

static void lstm(const cf_case *c, const kt_value *in, kt_value *out) {
  const kt_value *c0 = c->n_in > 3 ? &in[3] : NULL;
  const scan s = scan_of(in, 4, c->n_in > 3 ? &in[2] : NULL, &out[0]);
  kt_value cells = cf_made(&out[0].desc.shape);
  out[1] = cf_made(&(neap_shape){2, {s.rows, s.width}});
  for (int64_t r = 0; r < s.rows; r++)
    for (int64_t t = 0; t < s.steps; t++)
      for (int64_t j = 0; j < s.width; j++) {
        const double i = sigmoid(gate(&s, in, r, t, 0, j)), f = sigmoid(gate(&s, in, r, t, 1, j));
        const double g = tanh(gate(&s, in, r, t, 2, j)), o = sigmoid(gate(&s, in, r, t, 3, j));
        const double cell = (t || c0 ? f * before(&s, &cells, c0, r, t, j) : 0) + i * g;
        kt_set(&cells, (r * s.steps + t) * s.width + j, cell);
        kt_set(&out[0], (r * s.steps + t) * s.width + j, o * tanh(cell));
        kt_set(&out[1], r * s.width + j, cell);
      }
  kt_free(&cells);
}

static void gru(const cf_case *c, const kt_value *in, kt_value *out) {
  const bool bias = c->n_in > 2 && in[2].desc.shape.ndim == 1;
  const uint32_t at = bias ? 3 : 2;
  const scan s = scan_of(in, 3, c->n_in > at ? &in[at] : NULL, &out[0]);
  for (int64_t r = 0; r < s.rows; r++)
    for (int64_t t = 0; t < s.steps; t++)
      for (int64_t j = 0; j < s.width; j++) {
        double b[3] = {0, 0, 0};
        for (int64_t g = 0; g < 3 && bias; g++) b[g] = kt_get(&in[2], g * s.width + j);
        const double reset = sigmoid(gate(&s, in, r, t, 0, j) + b[0]), z = sigmoid(gate(&s, in, r, t, 1, j) + b[1]);
        const double n = tanh(given(&s, in, r, t, 2, j) + reset * (product(&s, r, t, 2, j) + b[2]));
        kt_set(&out[0], (r * s.steps + t) * s.width + j, (1 - z) * n + z * before(&s, &out[0], s.state, r, t, j));
      }
}

static void rnn(const cf_case *c, const kt_value *in, kt_value *out) {
  const scan s = scan_of(in, 1, c->n_in > 2 ? &in[2] : NULL, &out[0]);
  for (int64_t r = 0; r < s.rows; r++)
    for (int64_t t = 0; t < s.steps; t++)
      for (int64_t j = 0; j < s.width; j++) {
        const double v = gate(&s, in, r, t, 0, j);
        kt_set(&out[0], (r * s.steps + t) * s.width + j, cf_whole(c, "nonlinearity", 0, 0) ? (v < 0 ? 0 : v) : tanh(v));
      }
}

const cf_oracle_row cf_oracles_recurrent[] = {{"lstm_scan", lstm}, {"gru_scan", gru}, {"rnn_scan", rnn}, {NULL, NULL}};
