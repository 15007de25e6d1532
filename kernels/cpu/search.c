/* Places in ascending values, by halving. */
#include "kernels/cpu/cpu.h"

typedef struct kernel kernel;
struct kernel {
  neap_cpu_kernel head;
  void (*find)(const kernel *k, const neap_launch *l, int64_t first, int64_t end);
  bool right, single; /* single: one list for all */
  int64_t list, each; /* entries of a list, values that go with one */
  int64_t units, per;
};

/* A value that compares with nothing goes behind all, as in PyTorch. */
#define FIND(name, type)                                                                       \
  static void name(const kernel *k, const neap_launch *l, int64_t first, int64_t end) {        \
    const type *values = l->in[1];                                                             \
    int64_t *out = l->out[0];                                                                  \
    for (int64_t i = first; i < end; i++) {                                                    \
      const type *sorted = (const type *)l->in[0] + (k->single ? 0 : i / k->each * k->list);   \
      int64_t low = 0, high = k->list;                                                         \
      while (low < high) {                                                                     \
        const int64_t middle = low + (high - low) / 2;                                         \
        const bool here = k->right ? sorted[middle] > values[i] : sorted[middle] >= values[i]; \
        if (here)                                                                              \
          high = middle;                                                                       \
        else                                                                                   \
          low = middle + 1;                                                                    \
      }                                                                                        \
      out[i] = low;                                                                            \
    }                                                                                          \
  }
FIND(find_f32, float)
FIND(find_f64, double)
FIND(find_i64, int64_t)
FIND(find_i32, int32_t)
FIND(find_u8, uint8_t)

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  const int64_t first = task * k->per, end = first + k->per < k->units ? first + k->per : k->units;
  k->find(k, l, first, end);
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static void (*const by_dtype[])(const kernel *, const neap_launch *, int64_t,
                                  int64_t) = {find_f32, find_f64, find_i64, find_i32, find_u8, find_u8};
  const neap_desc *sorted = &s->in[0].desc, *values = &s->in[1].desc;
  if (sorted->dtype > NEAP_BOOL) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  k->find = by_dtype[sorted->dtype];
  k->right = s->opt[0].v.i;
  k->single = sorted->shape.ndim == 1;
  k->list = sorted->shape.dim[sorted->shape.ndim - 1];
  k->each = values->shape.ndim > 0 ? values->shape.dim[values->shape.ndim - 1] : 1;
  k->units = neap__shape_count(&values->shape);
  double unit = 4e-9;
  for (int64_t n = k->list; n > 0; n /= 2) unit += 2e-9;
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

NEAP_CPU_KERNEL(sorted_place) = {.prepare = prepare};
