/* Images of another size, and the gradient: y = R x C' with a sparse matrix for either dimension, whose transposes
 * serve the gradient. Weights are made when the kernel is prepared and lie behind it. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

/* A row's entries are [begin[r], begin[r + 1]) of `at` and `weight`. */
typedef struct sparse {
  int64_t rows, columns;
  int32_t *begin, *at;
  double *weight;
} sparse;

typedef struct resample resample;
typedef void (*plane_fn)(const resample *k, const neap_launch *l, int64_t plane, void *row);

struct resample {
  neap_cpu_kernel head;
  plane_fn fn;
  sparse vertical, across;
  int64_t planes, per;
  size_t row_bytes; /* of a thread's part of the workspace */
};

enum { MODE, SIZE, FROM, CORNERS, SCALE_H };
enum { AREA, NEAREST, BILINEAR };

/* One axis of the op: `to` places from `from`. scale: input places an output place, 0 when sizes tell. */
typedef struct axis {
  int64_t mode, from, to;
  bool corners;
  double scale;
} axis;

typedef struct taps {
  int64_t first, count;
  double weight[2]; /* of the first two; an area's are all the first */
} taps;

static double scale_of(const axis *a) {
  if (a->mode == BILINEAR && a->corners) return a->to > 1 ? (double)(a->from - 1) / (double)(a->to - 1) : 0;
  return a->scale > 0 ? a->scale : (double)a->from / (double)a->to;
}

/* torch's rules (aten/src/ATen/native/UpSample.h, AdaptiveAveragePooling.cpp). */
static taps taps_of(const axis *a, int64_t place) {
  const double scale = scale_of(a);
  if (a->mode == AREA) {
    const int64_t first = place * a->from / a->to, end = ((place + 1) * a->from + a->to - 1) / a->to;
    return (taps){first, end - first, {1 / (double)(end - first), 0}};
  }
  if (a->mode == NEAREST) {
    const int64_t first = (int64_t)floorf((float)place * (float)scale); /* torch counts in fp32 for all dtypes */
    return (taps){first < a->from - 1 ? first : a->from - 1, 1, {1, 0}};
  }
  double at = a->corners ? (double)place * scale : ((double)place + 0.5) * scale - 0.5;
  if (at < 0) at = 0;
  int64_t first = (int64_t)at;
  if (first > a->from - 1) first = a->from - 1;
  double rest = at - (double)first;
  if (rest > 1) rest = 1;
  if (first == a->from - 1) return (taps){first, 1, {1, 0}};
  return (taps){first, 2, {1 - rest, rest}};
}

static int64_t entries_of(const axis *a) {
  int64_t n = 0;
  for (int64_t i = 0; i < a->to; i++) n += taps_of(a, i).count;
  return n;
}

/* Rows are output places, or, transposed, input places: entries of a row in order of columns either way. */
static void fill(sparse *s, const axis *a, bool transposed) {
  s->rows = transposed ? a->from : a->to;
  s->columns = transposed ? a->to : a->from;
  memset(s->begin, 0, (size_t)(s->rows + 1) * sizeof *s->begin);
  for (int64_t i = 0; i < a->to; i++) {
    const taps t = taps_of(a, i);
    for (int64_t j = 0; j < t.count; j++) s->begin[(transposed ? t.first + j : i) + 1]++;
  }
  for (int64_t r = 0; r < s->rows; r++) s->begin[r + 1] += s->begin[r];
  for (int64_t i = 0; i < a->to; i++) {
    const taps t = taps_of(a, i);
    for (int64_t j = 0; j < t.count; j++) {
      const int32_t to = s->begin[transposed ? t.first + j : i]++;
      s->at[to] = (int32_t)(transposed ? i : t.first + j);
      s->weight[to] = t.weight[a->mode == AREA ? 0 : j];
    }
  }
  /* each begin is now where the next row's was */
  memmove(s->begin + 1, s->begin, (size_t)s->rows * sizeof *s->begin);
  s->begin[0] = 0;
}

#define DEFINE_PLANE(name, T)                                                                             \
  static void name(const resample *k, const neap_launch *l, int64_t plane, void *row) {                   \
    const sparse *v = &k->vertical, *h = &k->across;                                                      \
    const T *x = (const T *)l->in[0] + plane * v->columns * h->columns;                                   \
    T *y = (T *)l->out[0] + plane * v->rows * h->rows, *sum = row;                                        \
    for (int64_t r = 0; r < v->rows; r++, y += h->rows) {                                                 \
      memset(sum, 0, (size_t)h->columns * sizeof *sum);                                                   \
      for (int32_t i = v->begin[r]; i < v->begin[r + 1]; i++) {                                           \
        const T *from = x + v->at[i] * h->columns, weight = (T)v->weight[i];                              \
        NEAP_IVDEP for (int64_t c = 0; c < h->columns; c++) sum[c] += from[c] * weight;                   \
      }                                                                                                   \
      for (int64_t c = 0; c < h->rows; c++) {                                                             \
        T total = 0;                                                                                      \
        for (int32_t i = h->begin[c]; i < h->begin[c + 1]; i++) total += sum[h->at[i]] * (T)h->weight[i]; \
        y[c] = total;                                                                                     \
      }                                                                                                   \
    }                                                                                                     \
  }
DEFINE_PLANE(plane_f32, float)
DEFINE_PLANE(plane_f64, double)

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const resample *k = (const resample *)base;
  const int64_t first = (int64_t)task * k->per, end = first + k->per < k->planes ? first + k->per : k->planes;
  (void)phase;
  for (int64_t p = first; p < end; p++) k->fn(k, l, p, (char *)l->workspace + thread * k->row_bytes);
}

static axis axis_of(const neap_opt *opt, int i) {
  return (axis){opt[MODE].v.i, opt[FROM].v.list[i], opt[SIZE].v.list[i], opt[CORNERS].v.i != 0,
                opt[SCALE_H + i].set ? opt[SCALE_H + i].v.f : 0};
}

/* Where a matrix of n entries lies in the block, whose free part begins at *end. */
static void place(sparse *s, char *block, size_t *end, int64_t n, int64_t rows) {
  s->weight = (double *)(void *)(block + *end);
  s->at = (int32_t *)(void *)(s->weight + n);
  s->begin = s->at + n;
  *end += ((size_t)n * (sizeof(double) + sizeof(int32_t)) + (size_t)(rows + 1) * sizeof(int32_t) + 7) & ~(size_t)7;
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, bool transposed, neap_cpu_kernel **out, neap_error *err) {
  const neap_dtype t = s->in[0].desc.dtype;
  const axis a[2] = {axis_of(s->opt, 0), axis_of(s->opt, 1)};
  size_t bytes = (sizeof(resample) + 7) & ~(size_t)7, end = bytes;
  int64_t n[2];
  if (t > NEAP_F64) return neap__cpu_unsupported(s, err);
  for (int i = 0; i < 2; i++) {
    n[i] = entries_of(&a[i]);
    if (n[i] > INT32_MAX) return neap__cpu_unsupported(s, err);
    bytes += (size_t)n[i] * 12 + (size_t)((transposed ? a[i].from : a[i].to) + 4) * sizeof(int32_t);
  }
  const neap_status status = neap__cpu_kernel_new(cpu, s, bytes, run, 0, out, err);
  if (status != NEAP_OK) return status;
  resample *k = (resample *)*out;
  place(&k->vertical, (char *)k, &end, n[0], transposed ? a[0].from : a[0].to);
  place(&k->across, (char *)k, &end, n[1], transposed ? a[1].from : a[1].to);
  fill(&k->vertical, &a[0], transposed);
  fill(&k->across, &a[1], transposed);
  k->fn = t == NEAP_F64 ? plane_f64 : plane_f32;
  k->planes = s->in[0].desc.shape.dim[0] * s->in[0].desc.shape.dim[1];
  k->row_bytes = ((size_t)k->across.columns * neap__dtype_size(t) + 63) & ~(size_t)63;
  k->head.base.workspace = k->row_bytes * (cpu->width ? cpu->width : 1);
  const double plane = (double)(n[0] * k->across.columns) * 3e-10 + (double)(n[1] * k->vertical.rows) * 1e-9 + 1e-8;
  k->head.tasks[0] = neap__cpu_split(k->planes, plane, &k->per);
  k->head.base.seconds = (double)k->planes * plane;
  return NEAP_OK;
}

static neap_status prepare_forward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, false, out, err);
}

static neap_status prepare_backward(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, true, out, err);
}

NEAP_CPU_KERNEL(resample2d) = {.prepare = prepare_forward};
NEAP_CPU_KERNEL(resample2d_grad) = {.prepare = prepare_backward};
