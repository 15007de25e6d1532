/* The gradient of conv2d's weight and bias: a sum over samples.
 *
 * Slabs of samples give partial sums, a wave of slabs side by side; a second phase adds the wave's partial
 * sums, in order of slabs, to the output. Waves have as many slabs as the shape alone says, and the order of
 * additions is that of the samples, so neither threads nor waves nor micro-batches of whole slabs show in the
 * result. */
#include <string.h>

#include "kernels/cpu/conv2d.h"
#include "memory/resource.h"

typedef struct kernel {
  neap_cpu_kernel head;
  neap_cpu_conv g;
  int64_t slab, slabs; /* samples a slab (the last may have fewer), slabs in all */
  int64_t wave;        /* slabs a wave */
  bool sum;            /* goes on from what the outputs hold, unless the launch says FIRST */
  int64_t elements;    /* of dw */
  size_t partial;      /* bytes of one slab's dw and db in the workspace */
  size_t ordered;      /* bytes a thread for dw in the library's order; 0: plain */
  size_t space;        /* bytes a thread after that */
  neap_dnn_conv *whole, *tail;
  uint32_t phase_tasks[]; /* in pairs: the wave's slabs, pieces of its sum */
} kernel;

#define PIECE 16384 /* elements a task of the second phase adds */

/* --- one slab ------------------------------------------------------------------------------------------- */

static void slab_by_library(const kernel *k, const neap_launch *l, int64_t first, int64_t count, void *dw, void *db,
                            uint32_t thread, char *own) {
  neap_dnn_conv *c = count == k->slab ? k->whole : k->tail;
  const bool plain = neap__dnn_conv_weights(c) == 0;
  void *const x = neap__conv_sample(l->in[1], first, k->g.c * k->g.h * k->g.w, NEAP_F32);
  void *const d = neap__conv_sample(l->in[0], first, k->g.o * k->g.oh * k->g.ow, NEAP_F32);
  const int before = neap__dnn_enter();
  neap_status s = neap__dnn_conv_run(c, thread, x, plain ? dw : own, db, d, own + k->ordered);
  if (s == NEAP_OK && !plain) s = neap__dnn_conv_reorder(c, thread, own, dw);
  if (s) neap__cpu_fault(l->fault, s, first, count, 0);
  neap__dnn_leave(before);
}

static void slab_portable(const kernel *k, const neap_launch *l, int64_t first, int64_t count, void *dw, void *db,
                          char *own) {
  const neap_cpu_conv *g = &k->g;
  for (int64_t i = first; i < first + count; i++) {
    const void *d = neap__conv_sample(l->in[0], i, g->o * g->oh * g->ow, g->dtype);
    const void *x = neap__conv_sample(l->in[1], i, g->c * g->h * g->w, g->dtype);
    NEAP_CPU_NAME(conv_grad_weight)(g, d, x, dw, db, i > first, own);
  }
}

static void run_slab(const kernel *k, const neap_launch *l, int64_t wave, uint32_t task, uint32_t thread) {
  const int64_t first = (wave * k->wave + task) * k->slab;
  const int64_t count = k->g.n - first < k->slab ? k->g.n - first : k->slab;
  char *const dw = (char *)l->workspace + task * k->partial;
  char *const db = dw + neap__align_up((size_t)k->elements * neap__dtype_size(k->g.dtype));
  char *const own = (char *)l->workspace + (size_t)k->wave * k->partial + thread * (k->ordered + k->space);
  if (k->whole || k->tail)
    slab_by_library(k, l, first, count, dw, db, thread, own);
  else
    slab_portable(k, l, first, count, dw, db, own);
}

/* --- sums ----------------------------------------------------------------------------------------------- */

/* out[0:n] (+)= partial sums `step` bytes apart, in order. */
#define DEFINE_ADD(T, suffix)                                                                              \
  static void add_##suffix(T *out, const char *partial, size_t step, int64_t slabs, int64_t n, bool add) { \
    if (!add) memset(out, 0, (size_t)n * sizeof *out);                                                     \
    for (int64_t s = 0; s < slabs; s++) {                                                                  \
      const T *p = (const T *)(const void *)(partial + (size_t)s * step);                                  \
      for (int64_t i = 0; i < n; i++) out[i] += p[i];                                                      \
    }                                                                                                      \
  }
DEFINE_ADD(float, f32)
DEFINE_ADD(double, f64)

static void add(const kernel *k, void *out, const char *partial, int64_t from, int64_t n, int64_t slabs, bool onto) {
  const size_t size = neap__dtype_size(k->g.dtype);
  char *const to = (char *)out + (size_t)from * size;
  const char *const p = partial + (size_t)from * size;
  if (n <= 0) return;
  if (k->g.dtype == NEAP_F64)
    add_f64((double *)(void *)to, p, k->partial, slabs, n, onto);
  else
    add_f32((float *)(void *)to, p, k->partial, slabs, n, onto);
}

static void run_sum(const kernel *k, const neap_launch *l, int64_t wave, uint32_t task) {
  const int64_t left = k->slabs - wave * k->wave, slabs = left < k->wave ? left : k->wave;
  const int64_t from = (int64_t)task * PIECE, rest = k->elements - from;
  const bool onto = wave > 0 || (k->sum && !(l->flags & NEAP_LAUNCH_FIRST));
  const char *partial = l->workspace;
  add(k, l->out[0], partial, from, rest < PIECE ? rest : PIECE, slabs, onto);
  if (task == 0)
    add(k, l->out[1], partial + neap__align_up((size_t)k->elements * neap__dtype_size(k->g.dtype)), 0, k->g.o, slabs,
        onto);
}

static void run(const neap_cpu_kernel *head, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)head;
  if (phase % 2 == 0)
    run_slab(k, l, phase / 2, task, thread);
  else
    run_sum(k, l, phase / 2, task);
}

/* --- preparing ------------------------------------------------------------------------------------------ */

static void destroy(neap_cpu_kernel *head) {
  kernel *k = (kernel *)head;
  neap__dnn_conv_destroy(k->whole);
  neap__dnn_conv_destroy(k->tail);
  k->whole = k->tail = NULL;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static neap_status use_library(kernel *k, neap_error *err) {
  neap_cpu *cpu = k->head.cpu;
  const int64_t rest = k->g.n % k->slab;
  neap_dnn_shape s = NEAP_CPU_NAME(conv_shape)(&k->g, NEAP_DNN_GRAD_WEIGHT, k->slab, true);
  neap_status status =
      k->g.n >= k->slab ? neap__dnn_conv_create(cpu->dnn, &s, cpu->width, NULL, &k->whole, err) : NEAP_OK;
  s.n = rest;
  if (status == NEAP_OK && rest) status = neap__dnn_conv_create(cpu->dnn, &s, cpu->width, NULL, &k->tail, err);
  if (status) {
    destroy(&k->head);
    return status;
  }
  for (int i = 0; i < 2; i++) {
    const neap_dnn_conv *c = i ? k->tail : k->whole;
    if (!c) continue;
    k->ordered = larger(k->ordered, neap__align_up(neap__dnn_conv_weights(c)));
    k->space = larger(k->space, neap__align_up(neap__dnn_conv_scratch(c)));
  }
  return NEAP_OK;
}

/* Slabs side by side: as many as their partial sums take little memory. */
static int64_t wave_of(const neap_sig *s) {
  const size_t bytes = neap__desc_bytes(&s->out[0].desc);
  return bytes <= (256u << 10) ? 8 : bytes <= (2u << 20) ? 4 : 2;
}

static void fill_phases(kernel *k) {
  int64_t pieces = (k->elements + PIECE - 1) / PIECE;
  if (pieces == 0 && k->g.o > 0) pieces = 1;
  k->head.base.tasks = k->phase_tasks;
  for (uint32_t p = 0; p < k->head.base.n_phases; p += 2) {
    const int64_t left = k->slabs - (int64_t)(p / 2) * k->wave;
    k->phase_tasks[p] = (uint32_t)(left < k->wave ? left : k->wave);
    k->phase_tasks[p + 1] = (uint32_t)pieces;
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  const int64_t n = s->in[0].desc.shape.dim[0], wave = wave_of(s);
  const bool sum = s->out[0].batch.kind == NEAP_B_SUM && s->in[0].batch.kind != NEAP_B_SUM;
  const int64_t slab = sum ? s->slab * s->in[0].batch.per : 8, slabs = (n + slab - 1) / slab;
  const int64_t waves = slabs > 0 ? (slabs + wave - 1) / wave : 1; /* no samples: a sum of nothing */
  kernel *k;
  neap_status status;
  *out = NULL;
  if (s->in[0].desc.dtype != NEAP_F32 && s->in[0].desc.dtype != NEAP_F64) return neap__cpu_unsupported(s, err);
  status = neap__cpu_kernel_new(cpu, s, sizeof *k + 2 * (size_t)waves * sizeof k->phase_tasks[0], run, 0, out, err);
  if (status) return status;
  k = (kernel *)*out;
  NEAP_CPU_NAME(conv_describe)(&k->g, s, &s->in[1], &s->out[0], &s->in[0]);
  k->slab = slab;
  k->slabs = slabs;
  k->wave = slabs > 0 && slabs < wave ? slabs : wave;
  k->sum = sum;
  k->elements = neap__shape_count(&s->out[0].desc.shape);
  k->partial = neap__align_up((size_t)k->elements * neap__dtype_size(k->g.dtype)) +
               neap__align_up((size_t)k->g.o * neap__dtype_size(k->g.dtype));
  k->head.base.n_phases = 2 * (uint32_t)waves;
  k->head.base.seconds = (NEAP_CPU_NAME(conv_seconds)(&k->g) * (double)n) + 5e-6 * (double)slabs;
  fill_phases(k);
  status = NEAP_UNSUPPORTED;
  if (NEAP_CPU_NAME(conv_by_library)(cpu, s) && neap__conv_is_last(&s->in[0]) && neap__conv_is_last(&s->in[1]))
    status = use_library(k, err);
  if (status == NEAP_OK) {
    k->head.destroy = destroy;
  } else if (status == NEAP_UNSUPPORTED) {
    neap__error_clear(err);
    k->head.base.seconds *= NEAP_CONV_COLUMNS;
    k->space = NEAP_CPU_NAME(conv_space)(&k->g);
  } else {
    neap__free(cpu->host, k, k->head.bytes);
    *out = NULL;
    return status;
  }
  k->head.base.workspace = (size_t)k->wave * k->partial + cpu->width * (k->ordered + k->space);
  return NEAP_OK;
}

static void layouts(neap_cpu *cpu, const neap_sig *s, neap_layout *in, neap_layout *out) {
  (void)out;
  if (!NEAP_CPU_NAME(conv_by_library)(cpu, s)) return;
  in[0] = NEAP_CPU_NAME(conv_layout)(&s->in[0]);
  in[1] = NEAP_CPU_NAME(conv_layout)(&s->in[1]);
}

NEAP_CPU_KERNEL(conv2d_grad_weight) = {.prepare = prepare, .layouts = layouts};
