/* Optimizer steps, as torch.optim's documentation states them. The last input holds the hyperparameters. */
#include <math.h>

#include "conform/oracle.h"

static void make_outputs(const kt_value *in, kt_value *out, int n) {
  for (int o = 0; o < n; o++) out[o] = cf_made(&in[0].desc.shape);
}

/* hyper {lr, momentum, weight_decay, nesterov, grad_scale, maximize} */
static double held(double g, double limit) { return limit > 0 ? fmax(-limit, fmin(limit, g)) : g; }

static double scaled(const kt_value *g, int64_t i, const kt_value *h) {
  return held(kt_get(g, i) * kt_get(h, 4) * (kt_get(h, 5) != 0 ? -1 : 1), kt_get(h, 15));
}

/* The gradient with weight decay in it. */
static double decayed(const kt_value *in, int64_t i, const kt_value *h) {
  return scaled(&in[1], i, h) + kt_get(h, 2) * kt_get(&in[0], i);
}

static void sgd_plain(const cf_case *c, const kt_value *in, kt_value *out) {
  const kt_value *h = &in[2];
  (void)c;
  make_outputs(in, out, 1);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    const double p = kt_get(&in[0], i), g = decayed(in, i, h);
    kt_set(&out[0], i, p - kt_get(h, 0) * g);
  }
}

static void sgd(const cf_case *c, const kt_value *in, kt_value *out) {
  const kt_value *h = &in[3];
  (void)c;
  make_outputs(in, out, 2);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    const double p = kt_get(&in[0], i), g = decayed(in, i, h);
    const double m = kt_get(h, 1) * kt_get(&in[2], i) + g;
    kt_set(&out[1], i, m);
    kt_set(&out[0], i, p - kt_get(h, 0) * (kt_get(h, 3) != 0 ? g + kt_get(h, 1) * m : m));
  }
}

/* hyper {lr, beta1, beta2, eps, weight_decay, decoupled, 1 - beta1^t, 1 - beta2^t, grad_scale} */
static void adam(const cf_case *c, const kt_value *in, kt_value *out) {
  double h[9];
  (void)c;
  for (int k = 0; k < 9; k++) h[k] = kt_get(&in[4], k);
  make_outputs(in, out, 3);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    double p = kt_get(&in[0], i), g = held(kt_get(&in[1], i) * h[8], kt_get(&in[4], 15));
    if (h[5] != 0)
      p -= h[0] * h[4] * p;
    else
      g += h[4] * p;
    const double m = h[1] * kt_get(&in[2], i) + (1 - h[1]) * g, v = h[2] * kt_get(&in[3], i) + (1 - h[2]) * g * g;
    kt_set(&out[1], i, m);
    kt_set(&out[2], i, v);
    kt_set(&out[0], i, p - h[0] / h[6] * m / (sqrt(v) / sqrt(h[7]) + h[3]));
  }
}

/* hyper {lr, momentum, weight_decay, alpha, grad_scale, maximize, eps} */
static void rmsprop(const cf_case *c, const kt_value *in, kt_value *out) {
  const bool momentum = c->n_in > 4;
  const kt_value *h = &in[c->n_in - 1];
  make_outputs(in, out, momentum ? 3 : 2);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    const double g = decayed(in, i, h), v = kt_get(h, 3) * kt_get(&in[2], i) + (1 - kt_get(h, 3)) * g * g;
    double along = g / (sqrt(v) + kt_get(h, 6));
    if (momentum) along += kt_get(h, 1) * kt_get(&in[3], i);
    if (momentum) kt_set(&out[2], i, along);
    kt_set(&out[1], i, v);
    kt_set(&out[0], i, kt_get(&in[0], i) - kt_get(h, 0) * along);
  }
}

static void adagrad(const cf_case *c, const kt_value *in, kt_value *out) {
  const kt_value *h = &in[3];
  (void)c;
  make_outputs(in, out, 2);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    const double g = decayed(in, i, h), v = kt_get(&in[2], i) + g * g;
    kt_set(&out[1], i, v);
    kt_set(&out[0], i, kt_get(&in[0], i) - kt_get(h, 0) * g / (sqrt(v) + kt_get(h, 6)));
  }
}

/* hyper {lr, beta1, weight_decay, beta2, grad_scale, maximize} */
static void lion(const cf_case *c, const kt_value *in, kt_value *out) {
  const kt_value *h = &in[3];
  (void)c;
  make_outputs(in, out, 2);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    const double g = scaled(&in[1], i, h), m = kt_get(&in[2], i), lr = kt_get(h, 0);
    const double along = kt_get(h, 1) * m + (1 - kt_get(h, 1)) * g;
    const double kept = kt_get(&in[0], i) * (1 - lr * kt_get(h, 2));
    kt_set(&out[0], i, kept - lr * ((along > 0) - (along < 0)));
    kt_set(&out[1], i, kt_get(h, 3) * m + (1 - kt_get(h, 3)) * g);
  }
}

const cf_oracle_row cf_oracles_optimizer[] = {
    {"sgd_plain_step", sgd_plain}, {"sgd_step", sgd},         {"adam_step", adam}, {"rmsprop_plain_step", rmsprop},
    {"rmsprop_step", rmsprop},     {"adagrad_step", adagrad}, {"lion_step", lion}, {NULL, NULL}};
