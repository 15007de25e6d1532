/* Optimizer steps over flat segments: one pass, in place. Settings are read at each launch. */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"
#include "op/hyper.h"

enum { BLOCK = 1024 };

typedef void (*step_fn)(const neap_launch *l, int64_t begin, int64_t end);

typedef struct kernel {
  neap_cpu_kernel head;
  step_fn step;
  int64_t n, per;
} kernel;

#define T float
#define NAME(x) x##_f32
#define MADD NEAP_MADD
#define ROOT sqrtf
#include "kernels/cpu/optimizer_steps.h"
#undef T
#undef NAME
#undef MADD
#undef ROOT

#define T double
#define NAME(x) x##_f64
#define MADD(a, b, c) ((a) * (b) + (c))
#define ROOT sqrt
#include "kernels/cpu/optimizer_steps.h"

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t begin = task * k->per, end = begin + k->per < k->n ? begin + k->per : k->n;
  k->step(l, begin, end);
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, step_fn f32, step_fn f64, neap_cpu_kernel **out,
                           neap_error *err) {
  const neap_desc *d = &s->in[0].desc;
  if (d->dtype > NEAP_F64) return neap__cpu_unsupported(s, err);
  int64_t n = neap__shape_count(&d->shape), blocks;
  double element = 1e-10 * (double)neap__dtype_size(d->dtype) * (s->n_in - 1.0);
  uint32_t tasks = neap__cpu_split((n + BLOCK - 1) / BLOCK, BLOCK * element, &blocks);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, tasks, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  k->step = d->dtype == NEAP_F64 ? f64 : f32;
  k->n = n;
  k->per = blocks * BLOCK;
  k->head.base.seconds = (double)n * element;
  return NEAP_OK;
}

#define PREPARE(step)                                                                                           \
  static neap_status prepare_##step(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) { \
    return prepare(cpu, s, step##_f32, step##_f64, out, err);                                                   \
  }
PREPARE(sgd_plain)
PREPARE(sgd)
PREPARE(adam)
PREPARE(adam_most)
PREPARE(nadam)
PREPARE(radam)
PREPARE(adamax)
PREPARE(adadelta)
PREPARE(rmsprop_plain)
PREPARE(rmsprop_momentum)
PREPARE(rmsprop_centered)
PREPARE(rmsprop_both)
PREPARE(adagrad)
PREPARE(lion)

NEAP_CPU_KERNEL(sgd_plain_step) = {.prepare = prepare_sgd_plain};
NEAP_CPU_KERNEL(sgd_step) = {.prepare = prepare_sgd};
NEAP_CPU_KERNEL(adam_step) = {.prepare = prepare_adam};
NEAP_CPU_KERNEL(adam_most_step) = {.prepare = prepare_adam_most};
NEAP_CPU_KERNEL(nadam_step) = {.prepare = prepare_nadam};
NEAP_CPU_KERNEL(radam_step) = {.prepare = prepare_radam};
NEAP_CPU_KERNEL(adamax_step) = {.prepare = prepare_adamax};
NEAP_CPU_KERNEL(adadelta_step) = {.prepare = prepare_adadelta};
NEAP_CPU_KERNEL(rmsprop_plain_step) = {.prepare = prepare_rmsprop_plain};
NEAP_CPU_KERNEL(rmsprop_step) = {.prepare = prepare_rmsprop_momentum};
NEAP_CPU_KERNEL(rmsprop_centered_plain_step) = {.prepare = prepare_rmsprop_centered};
NEAP_CPU_KERNEL(rmsprop_centered_step) = {.prepare = prepare_rmsprop_both};
NEAP_CPU_KERNEL(adagrad_step) = {.prepare = prepare_adagrad};
NEAP_CPU_KERNEL(lion_step) = {.prepare = prepare_lion};
