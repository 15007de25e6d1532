/* Optimizer steps, as torch.optim's documentation states them. The last input holds the hyperparameters. */
#include <math.h>

#include "conform/oracle.h"

static void make_outputs(const kt_value *in, kt_value *out, int n) {
  for (int o = 0; o < n; o++) out[o] = cf_made(&in[0].desc.shape);
}

/* hyper {lr, momentum, weight_decay, nesterov, grad_scale, maximize} */
static double scaled(const kt_value *g, int64_t i, double scale, double maximize) {
  return kt_get(g, i) * scale * (maximize != 0 ? -1 : 1);
}

static void sgd_plain(const cf_case *c, const kt_value *in, kt_value *out) {
  const kt_value *h = &in[2];
  (void)c;
  make_outputs(in, out, 1);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    const double p = kt_get(&in[0], i), g = scaled(&in[1], i, kt_get(h, 4), kt_get(h, 5)) + kt_get(h, 2) * p;
    kt_set(&out[0], i, p - kt_get(h, 0) * g);
  }
}

static void sgd(const cf_case *c, const kt_value *in, kt_value *out) {
  const kt_value *h = &in[3];
  (void)c;
  make_outputs(in, out, 2);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    const double p = kt_get(&in[0], i), g = scaled(&in[1], i, kt_get(h, 4), kt_get(h, 5)) + kt_get(h, 2) * p;
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
    double p = kt_get(&in[0], i), g = kt_get(&in[1], i) * h[8];
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

const cf_oracle_row cf_oracles_optimizer[] = {
    {"sgd_plain_step", sgd_plain}, {"sgd_step", sgd}, {"adam_step", adam}, {NULL, NULL}};
