/* Sum of squares: fixed chunks in fp64, added in order. */
#include "kernels/cpu/cpu.h"

enum { CHUNK = 8192, LANES = 16 };

typedef struct kernel {
  neap_cpu_kernel head;
  int64_t n, chunks, per;
  bool twice; /* of fp64 */
} kernel;

#define CHUNK_OF(name, from)                                                          \
  static double name(const void *px, int64_t n) {                                     \
    const from *x = px;                                                               \
    double lane[LANES] = {0}, rest = 0;                                               \
    int64_t i = 0;                                                                    \
    for (; i + LANES <= n; i += LANES)                                                \
      for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)x[i + j]; \
    for (; i < n; i++) rest += (double)x[i] * (double)x[i];                           \
    for (int half = LANES / 2; half > 0; half /= 2)                                   \
      for (int j = 0; j < half; j++) lane[j] += lane[j + half];                       \
    return lane[0] + rest;                                                            \
  }
CHUNK_OF(chunk_f32, float)
CHUNK_OF(chunk_f64, double)

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  double *part = l->workspace, sum = 0;
  (void)thread;
  if (phase == 1) {
    for (int64_t c = 0; c < k->chunks; c++) sum += part[c];
    *(double *)l->out[0] = sum;
    return;
  }
  int64_t first = task * k->per, end = first + k->per < k->chunks ? first + k->per : k->chunks;
  for (int64_t c = first; c < end; c++) {
    int64_t at = c * CHUNK, n = k->n - at < CHUNK ? k->n - at : CHUNK;
    part[c] = k->twice ? chunk_f64((const double *)l->in[0] + at, n) : chunk_f32((const float *)l->in[0] + at, n);
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  neap_dtype t = s->in[0].desc.dtype;
  if (t > NEAP_F64) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  k->n = neap__shape_count(&s->in[0].desc.shape);
  k->chunks = (k->n + CHUNK - 1) / CHUNK;
  k->twice = t == NEAP_F64;
  k->head.base.n_phases = 2;
  k->head.tasks[0] = neap__cpu_split(k->chunks, CHUNK * 2e-10, &k->per);
  k->head.tasks[1] = 1;
  k->head.base.workspace = (size_t)k->chunks * sizeof(double);
  k->head.base.seconds = (double)k->n * 2e-10;
  return NEAP_OK;
}

NEAP_CPU_KERNEL(sumsq) = {.prepare = prepare};
