/* The steps of recurrent layers and their gradients; see engine/op/recurrent.c. A task takes a few samples through a
 * stretch of steps, since nothing but the weight is shared between samples; a phase is one such stretch. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vmath.h"

enum {
  MOST_ROWS = 12, /* of a task: as many as a product uses the weight for without a copy of it */
  LEAST_ROWS = 4, /* fewer read the weight too often */
  COLUMNS = 64    /* gates of a task that turns the weight */
};

typedef struct kernel kernel;

typedef struct place {
  int64_t row, rows;
  void *pack, *scratch; /* the thread's */
} place;

typedef void (*step_fn)(const kernel *k, const neap_launch *l, const place *p, int64_t step);

struct kernel {
  neap_cpu_kernel head;
  step_fn step;
  neap_dtype dtype;
  int64_t samples, steps, width;
  int64_t gates;        /* widths that w makes */
  uint32_t first, bias; /* inputs: the first state (of a gradient what it needs of it) and the bias; 0: none */
  bool backward, relu;
  int64_t rows, stretch;        /* samples a task, steps a phase */
  size_t turned, pack, scratch; /* bytes: of w', and of each thread's */
};

#define T float
#define NAME(x) x##_f32
#define EXP_T neap_expf
#define TANH_T neap_tanhf
#include "kernels/cpu/recurrent_cells.h"
#undef T
#undef NAME
#undef EXP_T
#undef TANH_T

#define T double
#define NAME(x) x##_f64
#define EXP_T exp
#define TANH_T tanh
#include "kernels/cpu/recurrent_cells.h"
#undef T

/* w' in the workspace: columns [j, end) of it are rows of w. */
#define DEFINE_TURN(T, suffix)                                                            \
  static void turn_##suffix(const kernel *k, const T *w, T *to, int64_t j, int64_t end) { \
    const int64_t n = k->gates * k->width;                                                \
    for (int64_t i = 0; i < k->width; i++)                                                \
      for (int64_t c = j; c < end; c++) to[i * n + c] = w[c * k->width + i];              \
  }
DEFINE_TURN(float, f32)
DEFINE_TURN(double, f64)

static void turn(const kernel *k, const neap_launch *l, uint32_t task) {
  const int64_t n = k->gates * k->width, j = (int64_t)task * COLUMNS, end = j + COLUMNS < n ? j + COLUMNS : n;
  if (k->dtype == NEAP_F64)
    turn_f64(k, l->in[1], l->workspace, j, end);
  else
    turn_f32(k, l->in[1], l->workspace, j, end);
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  if (!k->backward && phase-- == 0) {
    turn(k, l, task);
    return;
  }
  char *own = (char *)l->workspace + k->turned + thread * (k->pack + k->scratch);
  place p = {.row = (int64_t)task * k->rows, .pack = own, .scratch = own + k->pack};
  p.rows = k->samples - p.row < k->rows ? k->samples - p.row : k->rows;
  const int64_t from = (int64_t)phase * k->stretch, to = from + k->stretch < k->steps ? from + k->stretch : k->steps;
  for (int64_t t = from; t < to; t++) k->step(k, l, &p, k->backward ? k->steps - 1 - t : t);
}

static size_t aligned(size_t bytes) { return (bytes + NEAP_ALIGN - 1) / NEAP_ALIGN * NEAP_ALIGN; }

/* Pieces of about a quarter of a millisecond, so that a run can stop between them. */
static void share_out(kernel *k) {
  const double rate = k->dtype == NEAP_F64 ? 1.2e10 : 3e10, gates = (double)(k->gates * k->width);
  const int64_t eighth = (k->samples + 7) / 8, most = NEAP_CPU_MAX_PHASES - 1;
  k->rows = eighth < LEAST_ROWS ? LEAST_ROWS : eighth > MOST_ROWS ? MOST_ROWS : eighth;
  const double row = gates * (2 * (double)k->width / rate + 3e-9) + 1e-8, step = row * (double)k->rows;
  k->stretch = step < 2.5e-4 ? (int64_t)(2.5e-4 / step) : 1;
  if (k->stretch < (k->steps + most - 1) / most) k->stretch = (k->steps + most - 1) / most;
  if (k->stretch > k->steps) k->stretch = k->steps;
  uint32_t phase = 0;
  if (!k->backward) k->head.tasks[phase++] = (uint32_t)((k->gates * k->width + COLUMNS - 1) / COLUMNS);
  const int64_t tasks = k->width ? (k->samples + k->rows - 1) / k->rows : 0; /* nothing has no address either */
  for (int64_t t = 0; t < k->steps; t += k->stretch) k->head.tasks[phase++] = (uint32_t)tasks;
  k->head.base.n_phases = phase;
  k->head.base.seconds = row * (double)k->samples * (double)k->steps;
}

typedef struct cell {
  step_fn step[2]; /* fp32, fp64 */
  int64_t gates;
  bool backward;
} cell;

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, const cell *c, uint32_t first, uint32_t bias,
                           neap_cpu_kernel **out, neap_error *err) {
  const neap_dtype dtype = s->in[0].desc.dtype;
  if (dtype > NEAP_F64) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  const size_t size = neap__dtype_size(dtype);
  k->step = c->step[dtype];
  k->dtype = dtype;
  k->samples = s->in[0].desc.shape.dim[0];
  k->steps = s->in[0].desc.shape.dim[1];
  k->width = s->in[1].desc.shape.dim[1];
  k->gates = c->gates;
  k->backward = c->backward;
  k->first = first < s->n_in ? first : 0;
  k->bias = bias;
  k->relu = s->op->opts[0].type == NEAP_OPT_CHOICE && s->opt[0].v.i == 1;
  share_out(k);
  const int64_t n = k->gates * k->width, widest = n > k->width ? n : k->width;
  if (!k->backward) k->turned = aligned((size_t)(n * k->width) * size);
  k->pack = aligned(c->backward ? NEAP_CPU_NAME(gemm_pack)(dtype, n, k->width)
                                : NEAP_CPU_NAME(gemm_pack)(dtype, k->width, n));
  k->scratch = aligned((size_t)(k->rows * widest) * size);
  k->head.base.workspace = k->turned + (k->pack + k->scratch) * cpu->width;
  return NEAP_OK;
}

#define KERNEL(name, count, back, first_input, bias_input)                                                      \
  static neap_status prepare_##name(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) { \
    static const cell c = {{name##_f32, name##_f64}, count, back};                                              \
    return prepare(cpu, s, &c, first_input, bias_input, out, err);                                              \
  }
#define GRU_BIAS (s->n_in > 2 && s->in[2].desc.shape.ndim == 1 ? 2 : 0)
KERNEL(lstm, 4, false, 2, 0)
KERNEL(lstm_grad, 4, true, 5, 0)
KERNEL(gru, 3, false, GRU_BIAS ? 3 : 2, GRU_BIAS)
KERNEL(gru_grad, 3, true, 4, 0)
KERNEL(rnn, 1, false, 2, 0)
KERNEL(rnn_grad, 1, true, 3, 0)

NEAP_CPU_KERNEL(lstm_scan) = {.prepare = prepare_lstm};
NEAP_CPU_KERNEL(lstm_scan_grad) = {.prepare = prepare_lstm_grad};
NEAP_CPU_KERNEL(gru_scan) = {.prepare = prepare_gru};
NEAP_CPU_KERNEL(gru_scan_grad) = {.prepare = prepare_gru_grad};
NEAP_CPU_KERNEL(rnn_scan) = {.prepare = prepare_rnn};
NEAP_CPU_KERNEL(rnn_scan_grad) = {.prepare = prepare_rnn_grad};
