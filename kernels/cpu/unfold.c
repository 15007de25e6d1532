/* Windows of images as columns, and columns added up to images. */
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef struct kernel kernel;
struct kernel {
  neap_cpu_kernel head;
  void (*work)(const kernel *k, const neap_launch *l, int64_t unit);
  int64_t h, w, kh, kw, oh, ow;
  int64_t stride[2], padding[2], dilation[2];
  int64_t units, per; /* rows of the columns, or planes of the images */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* The places along one axis at which element j of a window lies in the image: [*first, *end). */
static void inside(const kernel *k, int axis, int64_t j, int64_t *first, int64_t *end) {
  const int64_t size = axis ? k->w : k->h, places = axis ? k->ow : k->oh, stride = k->stride[axis];
  const int64_t at = j * k->dilation[axis] - k->padding[axis]; /* at place 0 */
  *first = at >= 0 ? 0 : smaller((-at + stride - 1) / stride, places);
  *end = larger(*first, at >= size ? 0 : smaller((size - 1 - at) / stride + 1, places));
}

/* A unit is a row: one element of the windows in one channel. */
#define UNFOLD(name, type)                                                                      \
  static void name(const kernel *k, const neap_launch *l, int64_t unit) {                       \
    const int64_t i = unit / k->kw % k->kh, j = unit % k->kw;                                   \
    const type *x = (const type *)l->in[0] + unit / (k->kh * k->kw) * k->h * k->w;              \
    type *y = (type *)l->out[0] + unit * k->oh * k->ow;                                         \
    int64_t top, bottom, left, right;                                                           \
    inside(k, 0, i, &top, &bottom);                                                             \
    inside(k, 1, j, &left, &right);                                                             \
    memset(y, 0, (size_t)(k->oh * k->ow) * sizeof *y);                                          \
    for (int64_t r = top; r < bottom; r++) {                                                    \
      const type *from = x + (r * k->stride[0] - k->padding[0] + i * k->dilation[0]) * k->w;    \
      const int64_t shift = j * k->dilation[1] - k->padding[1];                                 \
      for (int64_t c = left; c < right; c++) y[r * k->ow + c] = from[c * k->stride[1] + shift]; \
    }                                                                                           \
  }
UNFOLD(unfold_f32, float)
UNFOLD(unfold_f64, double)

/* A unit is a plane; elements of the windows are added one after the other, so that the order is always the same. */
#define FOLD(name, type)                                                                           \
  static void name(const kernel *k, const neap_launch *l, int64_t unit) {                          \
    const type *x = (const type *)l->in[0] + unit * k->kh * k->kw * k->oh * k->ow;                 \
    type *y = (type *)l->out[0] + unit * k->h * k->w;                                              \
    memset(y, 0, (size_t)(k->h * k->w) * sizeof *y);                                               \
    for (int64_t i = 0; i < k->kh; i++)                                                            \
      for (int64_t j = 0; j < k->kw; j++, x += k->oh * k->ow) {                                    \
        int64_t top, bottom, left, right;                                                          \
        inside(k, 0, i, &top, &bottom);                                                            \
        inside(k, 1, j, &left, &right);                                                            \
        for (int64_t r = top; r < bottom; r++) {                                                   \
          type *to = y + (r * k->stride[0] - k->padding[0] + i * k->dilation[0]) * k->w;           \
          const int64_t shift = j * k->dilation[1] - k->padding[1];                                \
          for (int64_t c = left; c < right; c++) to[c * k->stride[1] + shift] += x[r * k->ow + c]; \
        }                                                                                          \
      }                                                                                            \
  }
FOLD(fold_f32, float)
FOLD(fold_f64, double)

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  const int64_t first = task * k->per, end = smaller(first + k->per, k->units);
  for (int64_t u = first; u < end; u++) k->work(k, l, u);
}

/* image: the operand with height and width. Options: kernel, dilation, padding, stride. */
static void measure(kernel *k, const neap_shape *image, const neap_opt *opt) {
  k->h = image->dim[2];
  k->w = image->dim[3];
  k->kh = opt[0].v.list[0];
  k->kw = opt[0].v.list[1];
  for (int i = 0; i < 2; i++) {
    k->dilation[i] = opt[1].v.list[i];
    k->padding[i] = opt[2].v.list[i];
    k->stride[i] = opt[3].v.list[i];
  }
  k->oh = (k->h + 2 * k->padding[0] - (k->kh - 1) * k->dilation[0] - 1) / k->stride[0] + 1;
  k->ow = (k->w + 2 * k->padding[1] - (k->kw - 1) * k->dilation[1] - 1) / k->stride[1] + 1;
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, bool folds, neap_cpu_kernel **out, neap_error *err) {
  const neap_operand *image = folds ? &s->out[0] : &s->in[0], *columns = folds ? &s->in[0] : &s->out[0];
  const bool wide = image->desc.dtype == NEAP_F64;
  if (image->desc.dtype > NEAP_F64) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  measure(k, &image->desc.shape, s->opt);
  k->work = folds ? (wide ? fold_f64 : fold_f32) : (wide ? unfold_f64 : unfold_f32);
  k->units = image->desc.shape.dim[0] * (folds ? image->desc.shape.dim[1] : columns->desc.shape.dim[1]);
  double unit = (double)(k->oh * k->ow) * 6e-10 * (folds ? (double)(k->kh * k->kw) : 1) + 1e-8;
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

static neap_status prepare_unfold(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, false, out, err);
}
static neap_status prepare_fold(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, true, out, err);
}

NEAP_CPU_KERNEL(unfold) = {.prepare = prepare_unfold};
NEAP_CPU_KERNEL(fold) = {.prepare = prepare_fold};
