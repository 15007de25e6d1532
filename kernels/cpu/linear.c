#include "kernels/cpu/gemm.h"

#include <string.h>

typedef struct kernel {
  neap_cpu_kernel head;
  neap_cpu_gemm g; /* without its pointers */
  neap_cpu_blocks blocks;
  size_t pack; /* bytes a thread */
} kernel;

static int64_t rows_of(const neap_shape *s) {
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < s->ndim; i++) rows *= s->dim[i];
  return rows;
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, const neap_cpu_gemm *g, neap_cpu_run run, uint32_t least,
                           neap_cpu_kernel **out, neap_error *err) {
  kernel *k;
  neap_status status;
  *out = NULL;
  if (g->dtype != NEAP_F32 && g->dtype != NEAP_F64) return neap__cpu_unsupported(s, err);
  status = neap__cpu_kernel_new(cpu, s, sizeof *k, run, 0, out, err);
  if (status) return status;
  k = (kernel *)*out;
  k->g = *g;
  NEAP_CPU_NAME(gemm_blocks)(g->dtype, g->m, g->n, g->k, &k->blocks);
  k->head.tasks[0] = k->blocks.down * k->blocks.across;
  if (k->head.tasks[0] < least) k->head.tasks[0] = least;
  k->pack = NEAP_CPU_NAME(gemm_pack)(g->dtype, g->k, k->blocks.cols);
  k->head.base.workspace = k->pack * cpu->width;
  k->head.base.seconds = k->blocks.seconds;
  return NEAP_OK;
}

/* --- linear: y (rows, out) = x (rows, in) w' + bias ---------------------------------------------------------- */

static void run_linear(const neap_cpu_kernel *head, const neap_launch *l, uint32_t phase, uint32_t task,
                       uint32_t thread) {
  const kernel *k = (const kernel *)head;
  neap_cpu_gemm g = k->g;
  (void)phase;
  g.a = l->in[0];
  g.b = l->in[1];
  g.bias = head->n_in > 2 ? l->in[2] : NULL;
  g.c = l->out[0];
  NEAP_CPU_NAME(gemm_task)(&g, &k->blocks, task, (char *)l->workspace + thread * k->pack);
}

static neap_status prepare_linear(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  const neap_shape *w = &s->in[1].desc.shape;
  const neap_cpu_gemm g = {.dtype = s->out[0].desc.dtype,
                           .m = rows_of(&s->in[0].desc.shape),
                           .n = w->dim[0],
                           .k = w->dim[1],
                           .a_row = w->dim[1],
                           .a_col = 1,
                           .b_row = 1,
                           .b_col = w->dim[1],
                           .c_row = w->dim[0]};
  return prepare(cpu, s, &g, run_linear, 0, out, err);
}

NEAP_CPU_KERNEL(linear) = {.prepare = prepare_linear};

/* --- linear_grad_weight: dw (out, in) = d' (out, rows) x (rows, in), db (out) = sum of d's rows --------------- */

#define STRIP 64

/* db[0:count] (+)= sums of `count` columns of d, cut as the product is. */
#define DEFINE_SUMS(T, suffix)                                                                \
  static void sums_##suffix(const neap_cpu_gemm *g, const T *d, int64_t count, T *db) {       \
    for (int64_t k0 = 0, k1; k0 < g->k; k0 = k1) {                                            \
      T sum[STRIP] = {0};                                                                     \
      k1 = NEAP_CPU_NAME(gemm_cut_end)(k0, g->k, g->group);                                   \
      for (int64_t k = k0; k < k1; k++)                                                       \
        for (int64_t i = 0; i < count; i++) sum[i] += d[k * g->a_col + i];                    \
      for (int64_t i = 0; i < count; i++) db[i] = g->add || k0 > 0 ? db[i] + sum[i] : sum[i]; \
    }                                                                                         \
    if (g->k == 0 && !g->add) memset(db, 0, (size_t)count * sizeof *db);                      \
  }
DEFINE_SUMS(float, f32)
DEFINE_SUMS(double, f64)

static void bias_sums(const neap_cpu_gemm *g, int64_t i0, int64_t i1, void *db) {
  for (int64_t i = i0; i < i1; i += STRIP) {
    const int64_t count = i1 - i < STRIP ? i1 - i : STRIP;
    if (g->dtype == NEAP_F64)
      sums_f64(g, (const double *)g->a + i, count, (double *)db + i);
    else
      sums_f32(g, (const float *)g->a + i, count, (float *)db + i);
  }
}

/* The tasks of the first column of blocks also make the bias's part; without columns there are no blocks. */
static void run_grad(const neap_cpu_kernel *head, const neap_launch *l, uint32_t phase, uint32_t task,
                     uint32_t thread) {
  const kernel *k = (const kernel *)head;
  neap_cpu_gemm g = k->g;
  (void)phase;
  g.a = l->in[0];
  g.b = l->in[1];
  g.c = l->out[0];
  g.add = k->g.add && !(l->flags & NEAP_LAUNCH_FIRST);
  if (k->blocks.across == 0) {
    bias_sums(&g, 0, g.m, l->out[1]);
    return;
  }
  NEAP_CPU_NAME(gemm_task)(&g, &k->blocks, task, (char *)l->workspace + thread * k->pack);
  if (task % k->blocks.across == 0) {
    const int64_t i0 = (int64_t)(task / k->blocks.across) * k->blocks.rows, i1 = i0 + k->blocks.rows;
    bias_sums(&g, i0, i1 < g.m ? i1 : g.m, l->out[1]);
  }
}

static neap_status prepare_grad(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  const neap_shape *d = &s->in[0].desc.shape;
  const int64_t rows = rows_of(d), samples = d->ndim > 1 ? d->dim[0] : 1;
  neap_cpu_gemm g = {.dtype = s->out[0].desc.dtype,
                     .m = s->out[0].desc.shape.dim[0],
                     .n = s->out[0].desc.shape.dim[1],
                     .k = rows,
                     .a_row = 1,
                     .a_col = s->out[0].desc.shape.dim[0],
                     .b_row = s->out[0].desc.shape.dim[1],
                     .b_col = 1,
                     .c_row = s->out[0].desc.shape.dim[1]};
  /* A sum over samples: the rows of a slab are whole entries of the outermost dimension. */
  if (s->out[0].batch.kind == NEAP_B_SUM && s->in[0].batch.kind != NEAP_B_SUM) {
    g.add = true;
    g.group = s->slab * s->in[0].batch.per * (samples ? rows / samples : 1);
  }
  return prepare(cpu, s, &g, run_grad, g.m > 0, out, err); /* the bias has sums where the weight has no columns */
}

NEAP_CPU_KERNEL(linear_grad_weight) = {.prepare = prepare_grad};
