/* Optimizer steps, as torch.optim's documentation states them. The last input holds the settings. */
#include <math.h>

#include "conform/oracle.h"
#include "op/hyper.h"

typedef struct step {
  const kt_value *in;
  kt_value *out;
  const double *h;
  int64_t i;
} step;

static double held(double g, double limit) { return limit > 0 ? fmax(-limit, fmin(limit, g)) : g; }
static double before(const step *s, int k) { return kt_get(&s->in[k], s->i); }
static void after(const step *s, int k, double x) { kt_set(&s->out[k], s->i, x); }
static double kept(const step *s) { return s->h[NEAP_H_KEEP] * before(s, 0); }
static double taken(const step *s) { return held(before(s, 1) * s->h[NEAP_H_SCALE], s->h[NEAP_H_LIMIT]); }
static double decayed(const step *s) { return taken(s) + s->h[NEAP_H_L2] * before(s, 0); }

/* Moment k (inputs and outputs count from the parameter) moved towards x, and kept. */
static double moved(const step *s, int k, int beta, double x) {
  const double b = s->h[beta], y = b * before(s, k + 1) + (1 - b) * x;
  after(s, k, y);
  return y;
}

static void sgd_plain(const step *s) { after(s, 0, before(s, 0) - s->h[NEAP_H_LR] * decayed(s)); }

static void sgd(const step *s) {
  const double g = decayed(s), m = s->h[NEAP_H_BETA1] * before(s, 2) + s->h[NEAP_H_FRESH] * g;
  const double ahead = g + s->h[NEAP_H_BETA1] * m;
  after(s, 1, m);
  after(s, 0, before(s, 0) - s->h[NEAP_H_LR] * (s->h[NEAP_H_ALSO] != 0 ? ahead : m));
}

static void adam_by(const step *s, double m, double v) {
  const double by = sqrt(v) / sqrt(s->h[NEAP_H_BIAS2]) + s->h[NEAP_H_EPS];
  after(s, 0, kept(s) - s->h[NEAP_H_LR] / s->h[NEAP_H_BIAS1] * m / by);
}

static void adam(const step *s) {
  const double g = decayed(s), m = moved(s, 1, NEAP_H_BETA1, g);
  adam_by(s, m, moved(s, 2, NEAP_H_BETA2, g * g));
}

static void adam_most(const step *s) {
  const double g = decayed(s), m = moved(s, 1, NEAP_H_BETA1, g), v = moved(s, 2, NEAP_H_BETA2, g * g);
  const double most = s->h[NEAP_H_ALSO] != 0 ? fmax(v, before(s, 4)) : before(s, 4);
  after(s, 3, most);
  adam_by(s, m, s->h[NEAP_H_ALSO] != 0 ? most : v);
}

static void nadam(const step *s) {
  const double g = decayed(s), m = moved(s, 1, NEAP_H_BETA1, g), v = moved(s, 2, NEAP_H_BETA2, g * g);
  const double by = sqrt(v / s->h[NEAP_H_BIAS2]) + s->h[NEAP_H_EPS];
  after(s, 0, kept(s) - (s->h[NEAP_H_ALONG_G] * g + s->h[NEAP_H_ALONG_M] * m) / by);
}

static void radam(const step *s) {
  const double g = decayed(s), m = moved(s, 1, NEAP_H_BETA1, g), v = moved(s, 2, NEAP_H_BETA2, g * g);
  const double l = sqrt(s->h[NEAP_H_BIAS2]) / (sqrt(v) + s->h[NEAP_H_EPS]), r = s->h[NEAP_H_ALONG_M];
  after(s, 0, kept(s) - s->h[NEAP_H_LR] * m / s->h[NEAP_H_BIAS1] * (r > 0 ? r * l : 1));
}

static void adamax(const step *s) {
  const double g = decayed(s), m = moved(s, 1, NEAP_H_BETA1, g);
  const double u = fmax(s->h[NEAP_H_BETA2] * before(s, 3), fabs(g) + s->h[NEAP_H_EPS]);
  after(s, 2, u);
  after(s, 0, before(s, 0) - s->h[NEAP_H_LR] / s->h[NEAP_H_BIAS1] * m / u);
}

static void adadelta(const step *s) {
  const double g = decayed(s), v = moved(s, 1, NEAP_H_BETA2, g * g), eps = s->h[NEAP_H_EPS];
  const double delta = sqrt(before(s, 3) + eps) / sqrt(v + eps) * g;
  moved(s, 2, NEAP_H_BETA2, delta * delta);
  after(s, 0, before(s, 0) - s->h[NEAP_H_LR] * delta);
}

/* momentum, mean: their moments, 0 where there is none. */
static void rmsprop_of(const step *s, int momentum, int mean) {
  const bool centered = mean && s->h[NEAP_H_ALSO] != 0;
  const double g = decayed(s), v = moved(s, 1, NEAP_H_BETA2, g * g);
  double by = v;
  if (mean) after(s, mean, before(s, mean + 1));
  if (centered) by -= pow(moved(s, mean, NEAP_H_BETA2, g), 2);
  if (centered && by < 0) by = 0;
  double along = g / (sqrt(by) + s->h[NEAP_H_EPS]);
  if (momentum) along += s->h[NEAP_H_BETA1] * before(s, momentum + 1);
  if (momentum) after(s, momentum, along);
  after(s, 0, before(s, 0) - s->h[NEAP_H_LR] * along);
}

static void rmsprop_plain(const step *s) { rmsprop_of(s, 0, 0); }
static void rmsprop(const step *s) { rmsprop_of(s, 2, 0); }
static void rmsprop_centered_plain(const step *s) { rmsprop_of(s, 0, 2); }
static void rmsprop_centered(const step *s) { rmsprop_of(s, 2, 3); }

static void adagrad(const step *s) {
  const double g = decayed(s), v = before(s, 2) + g * g;
  after(s, 1, v);
  after(s, 0, before(s, 0) - s->h[NEAP_H_LR] * g / (sqrt(v) + s->h[NEAP_H_EPS]));
}

static void lion(const step *s) {
  const double g = taken(s), b = s->h[NEAP_H_BETA1], along = b * before(s, 2) + (1 - b) * g;
  after(s, 0, kept(s) - s->h[NEAP_H_LR] * ((along > 0) - (along < 0)));
  moved(s, 1, NEAP_H_BETA2, g);
}

static void all(const cf_case *c, const kt_value *in, kt_value *out, void (*one)(const step *)) {
  double h[NEAP_HYPER];
  for (int k = 0; k < NEAP_HYPER; k++) h[k] = kt_get(&in[c->n_in - 1], k);
  for (uint32_t o = 0; o < c->op->n_out; o++) out[o] = cf_made(&in[0].desc.shape);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) one(&(step){in, out, h, i});
}

#define ORACLE(name) \
  static void all_##name(const cf_case *c, const kt_value *in, kt_value *out) { all(c, in, out, name); }
ORACLE(sgd_plain)
ORACLE(sgd)
ORACLE(adam)
ORACLE(adam_most)
ORACLE(nadam)
ORACLE(radam)
ORACLE(adamax)
ORACLE(adadelta)
ORACLE(rmsprop_plain)
ORACLE(rmsprop)
ORACLE(rmsprop_centered_plain)
ORACLE(rmsprop_centered)
ORACLE(adagrad)
ORACLE(lion)

#define ROW(name) \
  { #name "_step", all_##name }
const cf_oracle_row cf_oracles_optimizer[] = {ROW(sgd_plain),
                                              ROW(sgd),
                                              ROW(adam),
                                              ROW(adam_most),
                                              ROW(nadam),
                                              ROW(radam),
                                              ROW(adamax),
                                              ROW(adadelta),
                                              ROW(rmsprop_plain),
                                              ROW(rmsprop),
                                              ROW(rmsprop_centered_plain),
                                              ROW(rmsprop_centered),
                                              ROW(adagrad),
                                              ROW(lion),
                                              {NULL, NULL}};
