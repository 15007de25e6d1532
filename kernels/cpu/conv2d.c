/* conv2d and the gradient of its input: samples are independent, tasks are runs of them. */
#include "kernels/cpu/conv2d.h"
#include "memory/resource.h"

typedef struct kernel {
  neap_cpu_kernel head;
  neap_cpu_conv g;
  int64_t per;                 /* samples a task; the last may have fewer */
  neap_dnn_conv *whole, *tail; /* NULL: portable, or no tail */
  size_t weights;              /* bytes of the library's copy of the weights, at the workspace's beginning */
  size_t space;                /* bytes a thread, after them */
} kernel;

/* The range of samples a task computes. */
static int64_t samples_of(const kernel *k, uint32_t task, int64_t *first) {
  *first = (int64_t)task * k->per;
  return k->g.n - *first < k->per ? k->g.n - *first : k->per;
}

/* --- by the library ---------------------------------------------------------------------------------------------- */

static void run_library(const kernel *k, const neap_launch *l, uint32_t task, uint32_t thread, const void *x,
                        const void *y, const void *bias) {
  int64_t first;
  const int64_t count = samples_of(k, task, &first);
  void *const scratch = (char *)l->workspace + k->weights + thread * k->space;
  void *const w = (void *)(uintptr_t)(k->weights ? l->workspace : l->in[1]);
  void *const xs = neap__conv_sample(x, first, k->g.c * k->g.h * k->g.w, NEAP_F32);
  void *const ys = neap__conv_sample(y, first, k->g.o * k->g.oh * k->g.ow, NEAP_F32);
  const neap_status s =
      neap__dnn_conv_run(count == k->per ? k->whole : k->tail, thread, xs, w, (void *)(uintptr_t)bias, ys, scratch);
  if (s) neap__cpu_fault(l->fault, s, first, count, 0);
}

/* The first of two phases when the library keeps weights in an order of its own. */
static void order_weights(const kernel *k, const neap_launch *l, uint32_t thread) {
  const neap_status s = neap__dnn_conv_reorder(k->whole, thread, l->in[1], l->workspace);
  if (s) neap__cpu_fault(l->fault, s, 0, 0, 0);
}

static void run_forward_library(const neap_cpu_kernel *head, const neap_launch *l, uint32_t phase, uint32_t task,
                                uint32_t thread) {
  const kernel *k = (const kernel *)head;
  const int before = neap__dnn_enter();
  if (phase + 1 < head->base.n_phases)
    order_weights(k, l, thread);
  else
    run_library(k, l, task, thread, l->in[0], l->out[0], head->n_in > 2 ? l->in[2] : NULL);
  neap__dnn_leave(before);
}

static void run_input_library(const neap_cpu_kernel *head, const neap_launch *l, uint32_t phase, uint32_t task,
                              uint32_t thread) {
  const kernel *k = (const kernel *)head;
  const int before = neap__dnn_enter();
  if (phase + 1 < head->base.n_phases)
    order_weights(k, l, thread);
  else
    run_library(k, l, task, thread, l->out[0], l->in[0], NULL);
  neap__dnn_leave(before);
}

/* --- portable ------------------------------------------------------------------------------------------- */

static void run_forward(const neap_cpu_kernel *head, const neap_launch *l, uint32_t phase, uint32_t task,
                        uint32_t thread) {
  const kernel *k = (const kernel *)head;
  const neap_cpu_conv *g = &k->g;
  int64_t first;
  const int64_t count = samples_of(k, task, &first);
  (void)phase;
  const void *bias = head->n_in > 2 ? l->in[2] : NULL;
  void *const space = (char *)l->workspace + thread * k->space;
  for (int64_t i = first; i < first + count; i++) {
    const void *x = neap__conv_sample(l->in[0], i, g->c * g->h * g->w, g->dtype);
    void *y = neap__conv_sample(l->out[0], i, g->o * g->oh * g->ow, g->dtype);
    NEAP_CPU_NAME(conv_forward)(g, x, l->in[1], bias, y, space);
  }
}

static void run_input(const neap_cpu_kernel *head, const neap_launch *l, uint32_t phase, uint32_t task,
                      uint32_t thread) {
  const kernel *k = (const kernel *)head;
  const neap_cpu_conv *g = &k->g;
  int64_t first;
  const int64_t count = samples_of(k, task, &first);
  (void)phase;
  void *const space = (char *)l->workspace + thread * k->space;
  for (int64_t i = first; i < first + count; i++) {
    const void *d = neap__conv_sample(l->in[0], i, g->o * g->oh * g->ow, g->dtype);
    void *dx = neap__conv_sample(l->out[0], i, g->c * g->h * g->w, g->dtype);
    NEAP_CPU_NAME(conv_grad_input)(g, d, l->in[1], dx, space);
  }
}

/* --- preparing ------------------------------------------------------------------------------------------ */

static void destroy(neap_cpu_kernel *head) {
  kernel *k = (kernel *)head;
  neap__dnn_conv_destroy(k->whole);
  neap__dnn_conv_destroy(k->tail);
  k->whole = k->tail = NULL;
}

/* Samples a task: enough for a call of the library to pay, few enough for a task to be short. */
static int64_t samples_a_task(const neap_cpu_conv *g) {
  const double seconds = NEAP_CPU_NAME(conv_seconds)(g);
  int64_t per = 1;
  while (per < 64 && (double)per * seconds < 3e-5) per *= 2;
  while (per < 8 && (double)(2 * per) * seconds < 3e-4) per *= 2;
  return per < g->n || g->n == 0 ? per : g->n;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* NEAP_UNSUPPORTED leaves the kernel to the portable path. */
static neap_status use_library(kernel *k, neap_dnn_kind kind, neap_error *err) {
  neap_cpu *cpu = k->head.cpu;
  const int64_t rest = k->g.n % k->per;
  const bool bias = k->head.n_in > 2;
  neap_dnn_shape s = NEAP_CPU_NAME(conv_shape)(&k->g, kind, k->per, bias);
  neap_status status = neap__dnn_conv_create(cpu->dnn, &s, cpu->width, NULL, &k->whole, err);
  s.n = rest;
  if (status == NEAP_OK && rest) status = neap__dnn_conv_create(cpu->dnn, &s, cpu->width, k->whole, &k->tail, err);
  if (status) {
    destroy(&k->head);
    return status;
  }
  k->weights = neap__align_up(neap__dnn_conv_weights(k->whole));
  k->space = neap__align_up(larger(neap__dnn_conv_scratch(k->whole), k->tail ? neap__dnn_conv_scratch(k->tail) : 0));
  return NEAP_OK;
}

/* x and y: the operands in conv2d's own roles. */
static neap_status prepare(neap_cpu *cpu, const neap_sig *s, const neap_operand *x, const neap_operand *y,
                           neap_cpu_kernel **out, neap_error *err) {
  const bool forward = x == &s->in[0];
  kernel *k;
  neap_status status;
  *out = NULL;
  if (x->desc.dtype != NEAP_F32 && x->desc.dtype != NEAP_F64) return neap__cpu_unsupported(s, err);
  status = neap__cpu_kernel_new(cpu, s, sizeof *k, forward ? run_forward : run_input, 0, out, err);
  if (status) return status;
  k = (kernel *)*out;
  NEAP_CPU_NAME(conv_describe)(&k->g, s, x, &s->in[1], y);
  k->per = samples_a_task(&k->g);
  k->head.tasks[0] = (uint32_t)((k->g.n + k->per - 1) / k->per);
  k->head.base.seconds = NEAP_CPU_NAME(conv_seconds)(&k->g) * (double)k->g.n + 2e-6 * (double)k->head.tasks[0];
  status = NEAP_UNSUPPORTED;
  if (NEAP_CPU_NAME(conv_by_library)(cpu, s) && neap__conv_is_last(x) && neap__conv_is_last(y))
    status = use_library(k, forward ? NEAP_DNN_FORWARD : NEAP_DNN_GRAD_INPUT, err);
  if (status == NEAP_OK) {
    k->head.destroy = destroy;
    k->head.run = forward ? run_forward_library : run_input_library;
    if (k->weights) {
      k->head.base.n_phases = 2;
      k->head.tasks[1] = k->head.tasks[0];
      k->head.tasks[0] = 1;
    }
  } else if (status == NEAP_UNSUPPORTED) {
    neap__error_clear(err);
    k->head.base.seconds *= NEAP_CONV_COLUMNS;
    k->space = NEAP_CPU_NAME(conv_space)(&k->g);
  } else {
    neap__free(cpu->host, k, k->head.bytes);
    *out = NULL;
    return status;
  }
  k->head.base.workspace = k->head.tasks[0] ? k->weights + k->space * cpu->width : 0;
  return NEAP_OK;
}

static neap_status prepare_forward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, &s->in[0], &s->out[0], out, err);
}

static neap_status prepare_input(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, &s->out[0], &s->in[0], out, err);
}

static void layouts(neap_cpu *cpu, const neap_sig *s, neap_layout *in, neap_layout *out) {
  if (!NEAP_CPU_NAME(conv_by_library)(cpu, s)) return;
  in[0] = NEAP_CPU_NAME(conv_layout)(&s->in[0]);
  out[0] = NEAP_CPU_NAME(conv_layout)(&s->out[0]);
}

NEAP_CPU_KERNEL(conv2d) = {.prepare = prepare_forward, .layouts = layouts};
NEAP_CPU_KERNEL(conv2d_grad_input) = {.prepare = prepare_input, .layouts = layouts};
