/* Steps of optimizers over elements begin to end, in torch's order of operations, for one dtype: define T, NAME(x),
 * MADD and ROOT, then include. Settings are rounded to T where torch's scalars are. */

/* The gradient as the step takes it. As torch.clamp: NaN stays. */
NEAP_INLINE T NAME(taken)(const T *g, int64_t i, T scale, T limit) {
  const T d = g[i] * scale;
  return d < -limit ? -limit : d > limit ? limit : d;
}

/* What each step begins with. */
#define OPEN(hyper_at)                                                                                      \
  const double *h = l->in[hyper_at];                                                                        \
  const T *p = l->in[0], *g = l->in[1];                                                                     \
  T *p_to = l->out[0];                                                                                      \
  const T lr = (T)h[NEAP_H_LR], scale = (T)h[NEAP_H_SCALE], l2 = (T)h[NEAP_H_L2], keep = (T)h[NEAP_H_KEEP]; \
  const T limit = h[NEAP_H_LIMIT] > 0 ? (T)h[NEAP_H_LIMIT] : (T)INFINITY, eps = (T)h[NEAP_H_EPS];           \
  (void)lr, (void)l2, (void)keep, (void)eps
#define GRADIENT MADD(l2, p[i], NAME(taken)(g, i, scale, limit))

/* Mean and mean square of gradients, as torch's lerp and addcmul have them. */
#define MOMENTS(m, v)                                                                   \
  const T beta1_rest = (T)(1 - h[NEAP_H_BETA1]), beta2_rest = (T)(1 - h[NEAP_H_BETA2]); \
  const T beta2 = (T)h[NEAP_H_BETA2];                                                   \
  const T *m = l->in[2], *v = l->in[3];                                                 \
  T *m##_to = l->out[1], *v##_to = l->out[2]
#define MEAN(m, d) MADD(beta1_rest, (d)-m[i], m[i])
#define SQUARES(v, d) MADD(beta2_rest, (d) * (d), beta2 * v[i])

static void NAME(sgd_plain)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(2);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) p_to[i] = MADD(-lr, GRADIENT, p[i]);
}

/* m = momentum m + fresh d; the step is along d + momentum m (Nesterov) or m. */
static void NAME(sgd)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(3);
  const T *m = l->in[2];
  T *m_to = l->out[1];
  const T momentum = (T)h[NEAP_H_BETA1], fresh = (T)h[NEAP_H_FRESH];
  const int nesterov = h[NEAP_H_ALSO] != 0;
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, b = MADD(momentum, m[i], fresh * d), ahead = MADD(momentum, b, d);
    p_to[i] = MADD(-lr, nesterov ? ahead : b, p[i]);
    m_to[i] = b;
  }
}

static void NAME(adam)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(4);
  MOMENTS(m, v);
  const T step = (T)(h[NEAP_H_LR] / h[NEAP_H_BIAS1]), root = (T)sqrt(h[NEAP_H_BIAS2]);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, m1 = MEAN(m, d), v1 = SQUARES(v, d);
    p_to[i] = keep * p[i] - step * (m1 / (ROOT(v1) / root + eps));
    m_to[i] = m1;
    v_to[i] = v1;
  }
}

/* Divides by the greatest mean square so far (Reddi et al. 2018), for groups that ask for it. */
static void NAME(adam_most)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(5);
  MOMENTS(m, v);
  const T *most = l->in[4];
  T *most_to = l->out[3];
  const T step = (T)(h[NEAP_H_LR] / h[NEAP_H_BIAS1]), root = (T)sqrt(h[NEAP_H_BIAS2]);
  const int amsgrad = h[NEAP_H_ALSO] != 0;
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, m1 = MEAN(m, d), v1 = SQUARES(v, d);
    const T most1 = v1 > most[i] || v1 != v1 ? v1 : most[i], by = amsgrad ? most1 : v1;
    p_to[i] = keep * p[i] - step * (m1 / (ROOT(by) / root + eps));
    m_to[i] = m1;
    v_to[i] = v1;
    most_to[i] = amsgrad ? most1 : most[i];
  }
}

/* Nesterov's momentum in Adam (Dozat 2016): partly along the gradient itself. */
static void NAME(nadam)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(4);
  MOMENTS(m, v);
  const T along_g = (T)h[NEAP_H_ALONG_G], along_m = (T)h[NEAP_H_ALONG_M], bias2 = (T)h[NEAP_H_BIAS2];
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, m1 = MEAN(m, d), v1 = SQUARES(v, d), by = ROOT(v1 / bias2) + eps;
    p_to[i] = keep * p[i] - along_g * (d / by) - along_m * (m1 / by);
    m_to[i] = m1;
    v_to[i] = v1;
  }
}

/* Along the mean alone until its division by the root has a variance to speak of (Liu et al. 2020). */
static void NAME(radam)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(4);
  MOMENTS(m, v);
  const T step = (T)(h[NEAP_H_LR] / h[NEAP_H_BIAS1]);
  const T rectified = (T)(h[NEAP_H_ALONG_M] * sqrt(h[NEAP_H_BIAS2]));
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, m1 = MEAN(m, d), v1 = SQUARES(v, d);
    const T by = rectified > 0 ? rectified / (ROOT(v1) + eps) : 1;
    p_to[i] = keep * p[i] - step * (m1 * by);
    m_to[i] = m1;
    v_to[i] = v1;
  }
}

/* v: the greatest gradient, which fades (Kingma and Ba 2014, section 7.1). */
static void NAME(adamax)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(4);
  MOMENTS(m, v);
  const T step = (T)(h[NEAP_H_LR] / h[NEAP_H_BIAS1]);
  (void)beta2_rest;
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, m1 = MEAN(m, d), size = (d < 0 ? -d : d) + eps, faded = beta2 * v[i];
    const T v1 = faded > size || faded != faded ? faded : size;
    p_to[i] = MADD(-step, m1 / v1, p[i]);
    m_to[i] = m1;
    v_to[i] = v1;
  }
}

/* The unit of a step is that of the parameters: u, mean squares of earlier steps, over v (Zeiler 2012). */
static void NAME(adadelta)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(4);
  const T *v = l->in[2], *u = l->in[3];
  T *v_to = l->out[1], *u_to = l->out[2];
  const T beta2 = (T)h[NEAP_H_BETA2], beta2_rest = (T)(1 - h[NEAP_H_BETA2]);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, v1 = SQUARES(v, d), delta = ROOT(u[i] + eps) / ROOT(v1 + eps) * d;
    p_to[i] = MADD(-lr, delta, p[i]);
    v_to[i] = v1;
    u_to[i] = SQUARES(u, delta);
  }
}

/* v = alpha v + (1 - alpha) d^2; the step is along d / root, summed up in m where there is momentum. Centered, the
 * root is of the variance, v less the square of the mean a; rounding may take that below 0, where it is held. */
NEAP_INLINE void NAME(rmsprop)(const neap_launch *l, int64_t begin, int64_t end, int has_momentum, int has_mean) {
  OPEN(3 + has_momentum + has_mean);
  const T *v = l->in[2], *m = has_momentum ? l->in[3] : NULL, *a = has_mean ? l->in[3 + has_momentum] : NULL;
  T *v_to = l->out[1], *m_to = has_momentum ? l->out[2] : NULL, *a_to = has_mean ? l->out[2 + has_momentum] : NULL;
  const T momentum = (T)h[NEAP_H_BETA1], beta2 = (T)h[NEAP_H_BETA2], beta2_rest = (T)(1 - h[NEAP_H_BETA2]);
  const int centered = h[NEAP_H_ALSO] != 0;
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, v1 = SQUARES(v, d);
    T by = v1;
    if (has_mean) {
      const T a1 = MADD(beta2_rest, d - a[i], a[i]), variance = MADD(-a1, a1, v1);
      by = !centered ? v1 : variance < 0 ? 0 : variance;
      a_to[i] = centered ? a1 : a[i];
    }
    T along = d / (ROOT(by) + eps);
    if (has_momentum) along = MADD(momentum, m[i], along);
    p_to[i] = MADD(-lr, along, p[i]);
    v_to[i] = v1;
    if (has_momentum) m_to[i] = along;
  }
}

static void NAME(rmsprop_plain)(const neap_launch *l, int64_t begin, int64_t end) {
  NAME(rmsprop)(l, begin, end, 0, 0);
}
static void NAME(rmsprop_momentum)(const neap_launch *l, int64_t begin, int64_t end) {
  NAME(rmsprop)(l, begin, end, 1, 0);
}
static void NAME(rmsprop_centered)(const neap_launch *l, int64_t begin, int64_t end) {
  NAME(rmsprop)(l, begin, end, 0, 1);
}
static void NAME(rmsprop_both)(const neap_launch *l, int64_t begin, int64_t end) { NAME(rmsprop)(l, begin, end, 1, 1); }

static void NAME(adagrad)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(3);
  const T *v = l->in[2];
  T *v_to = l->out[1];
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = GRADIENT, sum = MADD(d, d, v[i]);
    p_to[i] = MADD(-lr, d / (ROOT(sum) + eps), p[i]);
    v_to[i] = sum;
  }
}

/* The step is along the sign of beta1 m + (1 - beta1) g; m = beta2 m + (1 - beta2) g. */
static void NAME(lion)(const neap_launch *l, int64_t begin, int64_t end) {
  OPEN(3);
  const T *m = l->in[2];
  T *m_to = l->out[1];
  const T beta1_rest = (T)(1 - h[NEAP_H_BETA1]), beta2_rest = (T)(1 - h[NEAP_H_BETA2]);
  NEAP_IVDEP for (int64_t i = begin; i < end; i++) {
    const T d = NAME(taken)(g, i, scale, limit), along = MEAN(m, d);
    const T sign = along > 0 ? (T)1 : along < 0 ? (T)-1 : along; /* NaN stays */
    p_to[i] = MADD(-lr, sign, keep * p[i]);
    m_to[i] = MADD(beta2_rest, d - m[i], m[i]);
  }
}

#undef OPEN
#undef GRADIENT
#undef MOMENTS
#undef MEAN
#undef SQUARES
