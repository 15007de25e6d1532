/* Optimizer steps over flat segments: one pass, in place, in torch's order of operations. Hyperparameters
 * are read at each launch and rounded to fp32 where torch's scalars are. */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum { BLOCK = 1024 };

typedef struct kernel {
  neap_cpu_kernel head;
  void (*step)(const neap_launch *l, int64_t begin, int64_t end);
  int64_t n, per;
} kernel;

/* Places in `hyper`; see the ops. Adam has its own. */
enum { LR = 0, MOMENTUM = 1, WEIGHT_DECAY = 2, NESTEROV = 3, SGD_GRAD_SCALE = 4, MAXIMIZE = 5 };
enum { LION_BETA1 = 1, ALPHA = 3, LION_BETA2 = 3, ROOT_EPS = 6, LIMIT = 15 };
enum { BETA1 = 1, BETA2 = 2, EPS = 3, ADAM_WEIGHT_DECAY = 4, DECOUPLED = 5, BIAS1 = 6, BIAS2 = 7, GRAD_SCALE = 8 };

/* As torch.clamp: NaN stays. */
NEAP_INLINE float held(float g, float limit) { return g < -limit ? -limit : g > limit ? limit : g; }
static float scale_of(const double *h) { return (float)(h[MAXIMIZE] != 0 ? -h[SGD_GRAD_SCALE] : h[SGD_GRAD_SCALE]); }
static float limit_of(const double *h) { return h[LIMIT] > 0 ? (float)h[LIMIT] : INFINITY; }

static void sgd_plain(const neap_launch *l, int64_t begin, int64_t end) {
  const double *h = l->in[2];
  const float *p = l->in[0], *g = l->in[1];
  float *p_to = l->out[0];
  const float lr = (float)h[LR], decay = (float)h[WEIGHT_DECAY];
  const float scale = scale_of(h), limit = limit_of(h);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    float d = NEAP_MADD(decay, p[i], held(g[i] * scale, limit));
    p_to[i] = NEAP_MADD(-lr, d, p[i]);
  }
}

/* m = momentum m + d; the step is along d + momentum m (Nesterov) or m. */
static void sgd(const neap_launch *l, int64_t begin, int64_t end) {
  const double *h = l->in[3];
  const float *p = l->in[0], *g = l->in[1], *m = l->in[2];
  float *p_to = l->out[0], *m_to = l->out[1];
  const float lr = (float)h[LR], momentum = (float)h[MOMENTUM], decay = (float)h[WEIGHT_DECAY];
  const float scale = scale_of(h), limit = limit_of(h);
  const int nesterov = h[NESTEROV] != 0;
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    float d = NEAP_MADD(decay, p[i], held(g[i] * scale, limit));
    float b = NEAP_MADD(momentum, m[i], d);
    float ahead = NEAP_MADD(momentum, b, d);
    p_to[i] = NEAP_MADD(-lr, nesterov ? ahead : b, p[i]);
    m_to[i] = b;
  }
}

static void adam(const neap_launch *l, int64_t begin, int64_t end) {
  const double *h = l->in[4];
  const float *p = l->in[0], *g = l->in[1], *m = l->in[2], *v = l->in[3];
  float *p_to = l->out[0], *m_to = l->out[1], *v_to = l->out[2];
  const int decoupled = h[DECOUPLED] != 0;
  const float beta1_rest = (float)(1 - h[BETA1]), beta2 = (float)h[BETA2], beta2_rest = (float)(1 - h[BETA2]);
  const float l2 = decoupled ? 0.0f : (float)h[ADAM_WEIGHT_DECAY];
  const float keep = decoupled ? (float)(1 - h[LR] * h[ADAM_WEIGHT_DECAY]) : 1.0f;
  const float step = (float)(h[LR] / h[BIAS1]), root = (float)sqrt(h[BIAS2]);
  const float eps = (float)h[EPS], scale = (float)h[GRAD_SCALE], limit = limit_of(h);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    float d = NEAP_MADD(l2, p[i], held(g[i] * scale, limit));
    float m1 = NEAP_MADD(beta1_rest, d - m[i], m[i]); /* torch's lerp */
    float v1 = NEAP_MADD(beta2_rest, d * d, beta2 * v[i]);
    float denominator = sqrtf(v1) / root + eps;
    p_to[i] = keep * p[i] - step * (m1 / denominator);
    m_to[i] = m1;
    v_to[i] = v1;
  }
}

/* squares = alpha squares + (1 - alpha) d^2; the step is along d / root, summed up in m where there is momentum. */
static void rmsprop(const neap_launch *l, int64_t begin, int64_t end, const double *h, const float *m, float *m_to) {
  const float *p = l->in[0], *g = l->in[1], *v = l->in[2];
  float *p_to = l->out[0], *v_to = l->out[1];
  const float lr = (float)h[LR], decay = (float)h[WEIGHT_DECAY], momentum = (float)h[MOMENTUM],
              eps = (float)h[ROOT_EPS];
  const float alpha = (float)h[ALPHA], rest = (float)(1 - h[ALPHA]), scale = scale_of(h), limit = limit_of(h);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    float d = NEAP_MADD(decay, p[i], held(g[i] * scale, limit));
    float squares = NEAP_MADD(rest, d * d, alpha * v[i]);
    float along = d / (sqrtf(squares) + eps);
    if (m) along = NEAP_MADD(momentum, m[i], along);
    p_to[i] = NEAP_MADD(-lr, along, p[i]);
    v_to[i] = squares;
    if (m) m_to[i] = along;
  }
}

static void rmsprop_plain_step(const neap_launch *l, int64_t begin, int64_t end) {
  rmsprop(l, begin, end, l->in[3], NULL, NULL);
}

static void rmsprop_step(const neap_launch *l, int64_t begin, int64_t end) {
  rmsprop(l, begin, end, l->in[4], l->in[3], l->out[2]);
}

static void adagrad_step(const neap_launch *l, int64_t begin, int64_t end) {
  const double *h = l->in[3];
  const float *p = l->in[0], *g = l->in[1], *v = l->in[2];
  float *p_to = l->out[0], *v_to = l->out[1];
  const float lr = (float)h[LR], decay = (float)h[WEIGHT_DECAY], eps = (float)h[ROOT_EPS];
  const float scale = scale_of(h), limit = limit_of(h);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    float d = NEAP_MADD(decay, p[i], held(g[i] * scale, limit));
    float sum = NEAP_MADD(d, d, v[i]);
    p_to[i] = NEAP_MADD(-lr, d / (sqrtf(sum) + eps), p[i]);
    v_to[i] = sum;
  }
}

/* The step is along the sign of beta1 m + (1 - beta1) g, weight decay decoupled; m = beta2 m + (1 - beta2) g. */
static void lion_step(const neap_launch *l, int64_t begin, int64_t end) {
  const double *h = l->in[3];
  const float *p = l->in[0], *g = l->in[1], *m = l->in[2];
  float *p_to = l->out[0], *m_to = l->out[1];
  const float lr = (float)h[LR], keep = (float)(1 - h[LR] * h[WEIGHT_DECAY]), scale = scale_of(h), limit = limit_of(h);
  const float b1_rest = (float)(1 - h[LION_BETA1]), b2_rest = (float)(1 - h[LION_BETA2]);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    float d = held(g[i] * scale, limit);
    float along = NEAP_MADD(b1_rest, d - m[i], m[i]);
    float sign = along > 0 ? 1.0f : along < 0 ? -1.0f : along; /* NaN stays */
    p_to[i] = NEAP_MADD(-lr, sign, keep * p[i]);
    m_to[i] = NEAP_MADD(b2_rest, d - m[i], m[i]);
  }
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t begin = task * k->per, end = begin + k->per < k->n ? begin + k->per : k->n;
  k->step(l, begin, end);
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, void (*step)(const neap_launch *, int64_t, int64_t),
                           neap_cpu_kernel **out, neap_error *err) {
  int64_t n = neap__shape_count(&s->in[0].desc.shape), blocks;
  double element = 4e-10 * (s->n_in - 1.0);
  uint32_t tasks = neap__cpu_split((n + BLOCK - 1) / BLOCK, BLOCK * element, &blocks);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, tasks, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  k->step = step;
  k->n = n;
  k->per = blocks * BLOCK;
  k->head.base.seconds = (double)n * element;
  return NEAP_OK;
}

#define KERNEL(op, step)                                                                                      \
  static neap_status prepare_##op(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) { \
    return prepare(cpu, s, step, out, err);                                                                   \
  }
KERNEL(sgd_plain, sgd_plain)
KERNEL(sgd, sgd)
KERNEL(adam, adam)
KERNEL(rmsprop_plain, rmsprop_plain_step)
KERNEL(rmsprop, rmsprop_step)
KERNEL(adagrad, adagrad_step)
KERNEL(lion, lion_step)

NEAP_CPU_KERNEL(sgd_plain_step) = {.prepare = prepare_sgd_plain};
NEAP_CPU_KERNEL(sgd_step) = {.prepare = prepare_sgd};
NEAP_CPU_KERNEL(adam_step) = {.prepare = prepare_adam};
NEAP_CPU_KERNEL(rmsprop_plain_step) = {.prepare = prepare_rmsprop_plain};
NEAP_CPU_KERNEL(rmsprop_step) = {.prepare = prepare_rmsprop};
NEAP_CPU_KERNEL(adagrad_step) = {.prepare = prepare_adagrad};
NEAP_CPU_KERNEL(lion_step) = {.prepare = prepare_lion};
