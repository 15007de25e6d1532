/* Random draws: Philox4x32-10 over (element / 4, sample, draw), keyed by seed and salt; four numbers a block. */
#include <math.h>

#include "base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

typedef struct kernel kernel;
/* n <= 4 elements from bits; in is NULL for draws that read nothing. */
typedef void (*draw_fn)(const kernel *k, const uint32_t *bits, const void *in, void *out, int64_t n);

struct kernel {
  neap_cpu_kernel head;
  draw_fn draw;
  size_t size;
  int64_t rows, per_row; /* samples and elements of each; one row when no dimension carries the batch */
  int64_t blocks;        /* of four elements, a row */
  int64_t per;           /* blocks a task */
  uint64_t salt;
  double keep, scale;
  bool sampled, reads;
};

#define DRAWS(T, NAME, LOG, SQRT, COS, SIN)                                                                   \
  static T uniform_##NAME(uint32_t u) { return (T)(u >> 8) * (T)0x1p-24; }                                    \
  static void rand_##NAME(const kernel *k, const uint32_t *bits, const void *in, void *out, int64_t n) {      \
    T *y = out;                                                                                               \
    (void)k, (void)in;                                                                                        \
    for (int64_t i = 0; i < n; i++) y[i] = uniform_##NAME(bits[i]);                                           \
  }                                                                                                           \
  static void randn_##NAME(const kernel *k, const uint32_t *bits, const void *in, void *out, int64_t n) {     \
    T *y = out, z[4];                                                                                         \
    (void)k, (void)in;                                                                                        \
    for (int p = 0; p < 2; p++) {                                                                             \
      T r = SQRT((T)-2 * LOG((T)1 - uniform_##NAME(bits[2 * p])));                                            \
      T a = (T)6.283185307179586 * uniform_##NAME(bits[2 * p + 1]);                                           \
      z[2 * p] = r * COS(a);                                                                                  \
      z[2 * p + 1] = r * SIN(a);                                                                              \
    }                                                                                                         \
    for (int64_t i = 0; i < n; i++) y[i] = z[i];                                                              \
  }                                                                                                           \
  static void bernoulli_##NAME(const kernel *k, const uint32_t *bits, const void *in, void *out, int64_t n) { \
    const T *x = in;                                                                                          \
    T *y = out;                                                                                               \
    (void)k;                                                                                                  \
    for (int64_t i = 0; i < n; i++) y[i] = (T)(bits[i] * 0x1p-32 < (double)x[i]);                             \
  }                                                                                                           \
  static void drop_##NAME(const kernel *k, const uint32_t *bits, const void *in, void *out, int64_t n) {      \
    const T *x = in;                                                                                          \
    T *y = out, scale = (T)k->scale;                                                                          \
    for (int64_t i = 0; i < n; i++) y[i] = bits[i] * 0x1p-32 < k->keep ? x[i] * scale : (T)0;                 \
  }
DRAWS(float, f32, neap_logf, sqrtf, cosf, sinf)
DRAWS(double, f64, log, sqrt, cos, sin)

/* Both ops see the same bits for the same key: the gradient of a draw repeats it. */
static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  uint64_t key = l->draw.seed * 0x9e3779b97f4a7c15u ^ k->salt ^ (l->draw.number >> 32) * 0xd1342543de82ef95u;
  const uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
  int64_t end = (task + 1) * k->per, all = k->rows * k->blocks;
  for (int64_t b = task * k->per; b < end && b < all; b++) {
    int64_t row = b / k->blocks, block = b % k->blocks, first = block * 4;
    uint64_t sample = k->sampled ? (uint64_t)(l->draw.sample + row) : 0;
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32) ^ (uint32_t)(sample >> 32) << 16,
                                 (uint32_t)sample, (uint32_t)l->draw.number};
    uint32_t bits[4];
    neap__philox(words, counter, bits);
    size_t at = (size_t)(row * k->per_row + first) * k->size;
    int64_t n = k->per_row - first < 4 ? k->per_row - first : 4;
    k->draw(k, bits, k->reads ? (const char *)l->in[0] + at : NULL, (char *)l->out[0] + at, n);
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, const draw_fn *by_dtype, bool reads, neap_cpu_kernel **out,
                           neap_error *err) {
  const neap_desc *d = &s->out[0].desc;
  if (d->dtype > NEAP_F64) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  const neap_batch *b = &s->out[0].batch;
  int64_t n = neap__shape_count(&d->shape);
  k->sampled = neap__batch_carries(b) && b->dim == 0;
  k->rows = k->sampled ? d->shape.dim[0] / b->per : 1;
  k->per_row = k->rows ? n / k->rows : 0;
  k->blocks = (k->per_row + 3) / 4;
  k->draw = by_dtype[d->dtype];
  k->size = neap__dtype_size(d->dtype);
  k->salt = s->salt;
  k->reads = reads;
  if (s->op->opts[0].type == NEAP_OPT_FLOAT) {
    k->keep = 1 - s->opt[0].v.f;
    k->scale = k->keep > 0 ? 1 / k->keep : 0;
  }
  const double seconds = 3e-8;
  k->head.tasks[0] = neap__cpu_split(k->rows * k->blocks, seconds, &k->per);
  k->head.base.seconds = (double)(k->rows * k->blocks) * seconds;
  return NEAP_OK;
}

#define KERNEL(name, draw, reads)                                                                               \
  static neap_status prepare_##name(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) { \
    static const draw_fn by_dtype[] = {draw##_f32, draw##_f64};                                                 \
    return prepare(cpu, s, by_dtype, reads, out, err);                                                          \
  }
KERNEL(rand_like, rand, false)
KERNEL(randn_like, randn, false)
KERNEL(bernoulli, bernoulli, true)
KERNEL(drop, drop, true)

NEAP_CPU_KERNEL(rand_like) = {.prepare = prepare_rand_like};
NEAP_CPU_KERNEL(randn_like) = {.prepare = prepare_randn_like};
NEAP_CPU_KERNEL(bernoulli) = {.prepare = prepare_bernoulli};
NEAP_CPU_KERNEL(drop) = {.prepare = prepare_drop};
