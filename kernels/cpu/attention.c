/* Attention in blocks of queries and keys: (heads, L, E) with (heads, S, E) and (heads, S, F). The largest score and
 * the sum of exponentials of each query are carried from block to block of keys (Milakov and Gimelshein 2018); the
 * gradient takes the weights from their logarithm. Blocks are cut by L and S alone. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vmath.h"

enum { BLOCK_Q = 64, BLOCK_K = 128 };

typedef struct attention attention;
typedef struct scope scope;
typedef void (*unit_fn)(const attention *a, const scope *at, int64_t head, int64_t q0);

struct attention {
  neap_cpu_kernel head;
  unit_fn fn;
  int64_t heads, l, s, e, f;
  double scale;
  bool causal, masked, mask_bool;
  uint32_t mask_input;
  /* Of the mask, 0 where it is broadcast; `lead` dimensions in front of queries and keys. */
  int32_t lead;
  int64_t lead_size[NEAP_MAX_DIMS], mask_lead[NEAP_MAX_DIMS], mask_row, mask_col;
  int64_t blocks; /* units a head: blocks of queries, or 1 */
  int64_t units, per;
  size_t scores_bytes, thread_bytes; /* of a thread's part of the workspace */
};

/* What a unit works with. */
struct scope {
  const neap_launch *l;
  neap_dtype dtype;
  void *scores, *pack;
  int64_t mask; /* element of the mask for the head's first query and key */
};

/* Keys that queries before `query` see. */
static int64_t keys_seen(const attention *a, int64_t query) { return a->causal && query < a->s ? query : a->s; }

#define LINES "kernels/cpu/attention_rows.h"
#include "kernels/cpu/both_dtypes.h"

static int64_t mask_offset(const attention *a, int64_t head) {
  int64_t offset = 0;
  for (int32_t i = a->lead; i-- > 0; head /= a->lead_size[i]) offset += head % a->lead_size[i] * a->mask_lead[i];
  return offset;
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const attention *a = (const attention *)base;
  const int64_t first = (int64_t)task * a->per, end = first + a->per < a->units ? first + a->per : a->units;
  char *own = (char *)l->workspace + thread * a->thread_bytes;
  scope at = {.l = l, .dtype = a->head.out[0].desc.dtype, .scores = own, .pack = own + a->scores_bytes};
  (void)phase;
  for (int64_t u = first; u < end; u++) {
    const int64_t head = u / a->blocks;
    at.mask = a->masked ? mask_offset(a, head) : 0;
    a->fn(a, &at, head, u % a->blocks * BLOCK_Q);
  }
}

/* Strides of the mask over (lead..., L, S). */
static void describe_mask(attention *a, const neap_operand *mask) {
  const neap_shape *m = &mask->desc.shape;
  int64_t stride[NEAP_MAX_DIMS], *to[NEAP_MAX_DIMS + 2];
  const int32_t missing = a->lead + 2 - m->ndim;
  a->masked = true;
  a->mask_bool = mask->desc.dtype == NEAP_BOOL;
  neap__strides_dense(m, stride);
  for (int32_t i = 0; i < a->lead; i++) to[i] = &a->mask_lead[i];
  to[a->lead] = &a->mask_row;
  to[a->lead + 1] = &a->mask_col;
  for (int32_t i = 0; i < m->ndim; i++) *to[missing + i] = m->dim[i] == 1 ? 0 : stride[i];
}

/* q: which input is the queries; keys and values follow. */
static void describe(attention *a, const neap_sig *s, uint32_t q, uint32_t mask) {
  const neap_shape *shape = &s->in[q].desc.shape, *keys = &s->in[q + 1].desc.shape;
  a->lead = shape->ndim - 2;
  a->heads = 1;
  for (int32_t i = 0; i < a->lead; i++) a->heads *= a->lead_size[i] = shape->dim[i];
  a->l = shape->dim[a->lead];
  a->e = shape->dim[a->lead + 1];
  a->s = keys->dim[a->lead];
  a->f = s->in[q + 2].desc.shape.dim[a->lead + 1];
  a->causal = s->opt[0].v.i != 0;
  a->scale = s->opt[1].v.f;
  a->mask_input = mask;
  if (s->n_in > mask) describe_mask(a, &s->in[mask]);
}

/* A thread's scores, `rows` more elements, and packing space for the largest of the products. */
static void set_workspace(attention *a, neap_dtype t, int64_t blocks, int64_t rows) {
  const int64_t cols[] = {BLOCK_K, a->e, a->f}, depth = a->e > a->f ? a->e : a->f;
  size_t pack = 0;
  for (int i = 0; i < 3; i++) {
    const size_t bytes = NEAP_CPU_NAME(gemm_pack)(t, depth > BLOCK_K ? depth : BLOCK_K, cols[i]);
    if (bytes > pack) pack = bytes;
  }
  a->scores_bytes = ((size_t)(blocks * BLOCK_Q * BLOCK_K + rows) * neap__dtype_size(t) + 63) & ~(size_t)63;
  a->thread_bytes = a->scores_bytes + pack;
  a->head.base.workspace = a->thread_bytes * (a->head.cpu->width ? a->head.cpu->width : 1);
}

static neap_status create(neap_cpu *cpu, const neap_sig *s, uint32_t data, attention **a, neap_cpu_kernel **out,
                          neap_error *err) {
  const neap_dtype t = s->in[0].desc.dtype;
  bool fit = t <= NEAP_F64;
  for (uint32_t i = 0; i < s->n_in; i++)
    fit = fit && (s->in[i].desc.dtype == t || (i >= data && s->in[i].desc.dtype == NEAP_BOOL));
  if (!fit) return neap__cpu_unsupported(s, err);
  const neap_status status = neap__cpu_kernel_new(cpu, s, sizeof **a, run, 0, out, err);
  if (status == NEAP_OK) *a = (attention *)*out;
  return status;
}

/* products: that one pair of a query and a key takes, for each element of width. */
static void set_tasks(attention *a, double products, neap_dtype t) {
  const double pairs = (double)a->l * (double)a->s / (a->causal ? 2 : 1);
  const double head = pairs * ((double)(a->e + a->f) * products * (t == NEAP_F64 ? 2 : 1) * 4e-11 + 2e-9) + 1e-7;
  a->units = a->heads * a->blocks;
  a->head.tasks[0] = neap__cpu_split(a->units, head / (double)(a->blocks ? a->blocks : 1), &a->per);
  a->head.base.seconds = (double)a->heads * head;
}

static neap_status prepare_forward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const unit_fn by_dtype[] = {forward_f32, forward_f64};
  attention *a = NULL;
  const neap_status status = create(cpu, s, 3, &a, out, err);
  if (!a) return status;
  describe(a, s, 0, 3);
  a->fn = by_dtype[s->in[0].desc.dtype];
  a->blocks = (a->l + BLOCK_Q - 1) / BLOCK_Q;
  set_workspace(a, s->in[0].desc.dtype, 1, 0);
  set_tasks(a, 1, s->in[0].desc.dtype);
  return NEAP_OK;
}

/* A head's keys gather from all its queries, so a head is the unit. */
static neap_status prepare_backward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const unit_fn by_dtype[] = {backward_f32, backward_f64};
  attention *a = NULL;
  const neap_status status = create(cpu, s, 6, &a, out, err);
  if (!a) return status;
  describe(a, s, 1, 6);
  a->fn = by_dtype[s->in[0].desc.dtype];
  a->blocks = 1;
  set_workspace(a, s->in[0].desc.dtype, 2, a->l);
  set_tasks(a, 2.5, s->in[0].desc.dtype);
  return NEAP_OK;
}

NEAP_CPU_KERNEL(attention) = {.prepare = prepare_forward};
NEAP_CPU_KERNEL(attention_grad) = {.prepare = prepare_backward};
