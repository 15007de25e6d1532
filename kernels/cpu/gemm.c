#include "kernels/cpu/gemm.h"

typedef struct kernel {
  neap_cpu_kernel head;
  neap_cpu_gemm g;         /* without its pointers */
  neap_cpu_blocks blocks;  /* of one matrix */
  int64_t matrices, units; /* units: blocks of all matrices */
  int64_t per;             /* units a task */
  size_t pack;             /* bytes a thread */
  int32_t ndim;            /* dimensions in front, with the operands' strides in elements (0: broadcast) */
  int64_t dim[NEAP_MAX_DIMS], a_stride[NEAP_MAX_DIMS], b_stride[NEAP_MAX_DIMS];
} kernel;

/* Where matrix `index` of an operand begins, in elements. */
static int64_t offset(const kernel *k, const int64_t *stride, int64_t index) {
  int64_t at = 0;
  for (int32_t i = k->ndim - 1; i >= 0; i--) {
    at += index % k->dim[i] * stride[i];
    index /= k->dim[i];
  }
  return at;
}

static void run(const neap_cpu_kernel *head, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)head;
  const int64_t blocks = (int64_t)k->blocks.down * k->blocks.across;
  const int64_t first = (int64_t)task * k->per, last = first + k->per < k->units ? first + k->per : k->units;
  const int64_t size = (int64_t)neap__dtype_size(k->g.dtype);
  neap_cpu_gemm g = k->g;
  (void)phase;
  g.add = k->g.add && !(l->flags & NEAP_LAUNCH_FIRST);
  for (int64_t u = first; u < last; u++) {
    const int64_t matrix = u / blocks;
    g.a = (const char *)l->in[0] + offset(k, k->a_stride, matrix) * size;
    g.b = (const char *)l->in[1] + offset(k, k->b_stride, matrix) * size;
    g.c = (char *)l->out[0] + matrix * g.m * g.n * size;
    NEAP_CPU_NAME(gemm_task)(&g, &k->blocks, (uint32_t)(u % blocks), (char *)l->workspace + thread * k->pack);
  }
}

/* Strides of an operand over out's dimensions in front. */
static void front_strides(const neap_shape *s, const neap_shape *out, int64_t *stride) {
  const int32_t lead = out->ndim - s->ndim;
  int64_t dense[NEAP_MAX_DIMS];
  neap__strides_dense(s, dense);
  for (int32_t i = 0; i + 2 < out->ndim; i++) stride[i] = i < lead || s->dim[i - lead] == 1 ? 0 : dense[i - lead];
}

/* One matrix on the right for all on the left: their rows are those of one product. */
static bool merges(const kernel *k, bool ta) {
  int64_t next = k->g.m * k->g.k;
  if (ta) return false;
  for (int32_t i = k->ndim - 1; i >= 0; i--) {
    if (k->b_stride[i] != 0 || (k->dim[i] != 1 && k->a_stride[i] != next)) return false;
    next *= k->dim[i];
  }
  return true;
}

static void describe(kernel *k, const neap_sig *s) {
  const neap_shape *a = &s->in[0].desc.shape, *b = &s->in[1].desc.shape, *out = &s->out[0].desc.shape;
  const bool ta = s->opt[0].v.i, tb = s->opt[1].v.i;
  neap_cpu_gemm *g = &k->g;
  g->dtype = s->out[0].desc.dtype;
  g->m = out->dim[out->ndim - 2];
  g->n = out->dim[out->ndim - 1];
  g->k = a->dim[a->ndim - (ta ? 2 : 1)];
  g->a_row = ta ? 1 : g->k;
  g->a_col = ta ? g->m : 1;
  g->b_row = tb ? 1 : g->n;
  g->b_col = tb ? g->k : 1;
  g->c_row = g->n;
  k->ndim = out->ndim - 2;
  k->matrices = 1;
  for (int32_t i = 0; i < k->ndim; i++) k->matrices *= k->dim[i] = out->dim[i];
  front_strides(a, out, k->a_stride);
  front_strides(b, out, k->b_stride);
  if (k->ndim && merges(k, ta)) {
    g->m *= k->matrices;
    k->matrices = 1;
    k->ndim = 0;
  }
  /* A sum over samples: k is the batch, cut at slabs. */
  if (s->out[0].batch.kind == NEAP_B_SUM && s->in[0].batch.kind != NEAP_B_SUM) {
    g->add = true;
    g->group = s->slab * s->in[0].batch.per;
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  const neap_dtype dtype = s->out[0].desc.dtype;
  kernel *k;
  neap_status status;
  *out = NULL;
  if (dtype != NEAP_F32 && dtype != NEAP_F64) return neap__cpu_unsupported(s, err);
  status = neap__cpu_kernel_new(cpu, s, sizeof *k, run, 0, out, err);
  if (status) return status;
  k = (kernel *)*out;
  describe(k, s);
  NEAP_CPU_NAME(gemm_blocks)(dtype, k->g.m, k->g.n, k->g.k, &k->blocks);
  const int64_t blocks = (int64_t)k->blocks.down * k->blocks.across;
  k->units = blocks * k->matrices;
  k->head.tasks[0] = neap__cpu_split(k->units, k->blocks.seconds / (double)(blocks ? blocks : 1), &k->per);
  k->pack = NEAP_CPU_NAME(gemm_pack)(dtype, k->g.k, k->blocks.cols);
  k->head.base.workspace = k->pack * cpu->width;
  k->head.base.seconds = k->blocks.seconds * (double)k->matrices;
  return NEAP_OK;
}

NEAP_CPU_KERNEL(gemm) = {.prepare = prepare};
