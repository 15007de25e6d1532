/* Convolution without a library: each sample's columns are laid out and multiplied. */
#include <string.h>

#include "kernels/cpu/conv2d.h"

#define T float
#define FN(name) name##_f32
#include "kernels/cpu/conv2d_cols.h"
#define T double
#define FN(name) name##_f64
#include "kernels/cpu/conv2d_cols.h"
#include "op/op.h"

#if defined(__AVX512F__)
#define RATE 8e10
#elif defined(__AVX2__)
#define RATE 4e10
#else
#define RATE 8e9
#endif

void NEAP_CPU_NAME(conv_describe)(neap_cpu_conv *g, const neap_sig *s, const neap_operand *x, const neap_operand *w,
                                  const neap_operand *y) {
  const int64_t *xd = x->desc.shape.dim, *wd = w->desc.shape.dim, *yd = y->desc.shape.dim;
  *g = (neap_cpu_conv){.dtype = x->desc.dtype,
                       .n = xd[0],
                       .c = xd[1],
                       .h = xd[2],
                       .w = xd[3],
                       .o = yd[1],
                       .oh = yd[2],
                       .ow = yd[3],
                       .groups = s->opt[NEAP_CONV_GROUPS].v.i,
                       .x_last = x->layout == NEAP_LAYOUT_LAST,
                       .y_last = y->layout == NEAP_LAYOUT_LAST,
                       .depth = wd[1] * wd[2] * wd[3]};
  for (int i = 0; i < 2; i++) {
    g->kernel[i] = wd[2 + i];
    g->stride[i] = s->opt[NEAP_CONV_STRIDE].v.list[i];
    g->padding[i] = s->opt[NEAP_CONV_PADDING].v.list[i];
    g->dilation[i] = s->opt[NEAP_CONV_DILATION].v.list[i];
  }
}

double NEAP_CPU_NAME(conv_seconds)(const neap_cpu_conv *g) {
  const double products = (double)g->o * (double)g->oh * (double)g->ow * (double)g->depth;
  const double elements = (double)g->c * (double)g->h * (double)g->w + (double)g->o * (double)g->oh * (double)g->ow;
  return (2 * products + 12 * elements) / (g->dtype == NEAP_F64 ? RATE / 2 : RATE);
}

/* --- products -------------------------------------------------------------------------------------------------- */

static size_t cols_bytes(const neap_cpu_conv *g) {
  const size_t bytes = (size_t)(g->depth * g->oh * g->ow) * neap__dtype_size(g->dtype);
  return (bytes + 63) & ~(size_t)63;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The three products have up to max(depth, o, places) columns and as deep a sum. */
#define STRIPE 256 /* columns packed at a time */

size_t NEAP_CPU_NAME(conv_space)(const neap_cpu_conv *g) {
  const int64_t deepest = most(g->depth, most(g->o, g->oh * g->ow));
  return cols_bytes(g) + NEAP_CPU_NAME(gemm_pack)(g->dtype, deepest, STRIPE);
}

static void multiply(const neap_cpu_gemm *p, void *pack) {
  for (int64_t j = 0; j < p->n; j += STRIPE)
    NEAP_CPU_NAME(gemm_block)(p, 0, p->m, j, p->n - j < STRIPE ? p->n : j + STRIPE, pack);
}

static const char *element(const neap_cpu_conv *g, const void *p, int64_t i) {
  return (const char *)p + i * (int64_t)neap__dtype_size(g->dtype);
}

/* Where a group's share of a sample's y lies, and the strides of its channels and places. */
static void *group_y(const neap_cpu_conv *g, const void *y, int64_t group, int64_t *channel, int64_t *place) {
  const int64_t outs = g->o / g->groups, places = g->oh * g->ow;
  *channel = g->y_last ? 1 : places;
  *place = g->y_last ? g->o : 1;
  return (void *)(uintptr_t)element(g, y, group * outs * *channel);
}

static void make_cols(const neap_cpu_conv *g, const void *x, int64_t group, void *cols) {
  if (g->dtype == NEAP_F64)
    to_cols_f64(g, group_image_f64(x, g, group), cols);
  else
    to_cols_f32(g, group_image_f32(x, g, group), cols);
}

/* y (outs, places) = w (outs, depth) cols (depth, places), or its transpose when channels are innermost. */
void NEAP_CPU_NAME(conv_forward)(const neap_cpu_conv *g, const void *x, const void *w, const void *bias, void *y,
                                 void *space) {
  const int64_t outs = g->o / g->groups, places = g->oh * g->ow;
  char *const pack = (char *)space + cols_bytes(g);
  for (int64_t group = 0; group < g->groups; group++) {
    int64_t channel, place;
    void *c = group_y(g, y, group, &channel, &place);
    const void *weights = element(g, w, group * outs * g->depth);
    const void *b = bias ? element(g, bias, group * outs) : NULL;
    neap_cpu_gemm p = {.dtype = g->dtype, .m = outs, .n = places, .k = g->depth, .c = c, .c_row = places};
    p.a = weights, p.a_row = g->depth, p.a_col = 1;
    p.b = space, p.b_row = places, p.b_col = 1;
    if (g->y_last) {
      p.m = places, p.n = outs, p.c_row = place, p.bias = b;
      p.a = space, p.a_row = 1, p.a_col = places;
      p.b = weights, p.b_row = 1, p.b_col = g->depth;
    }
    make_cols(g, x, group, space);
    multiply(&p, pack);
    if (!b || g->y_last) continue;
    if (g->dtype == NEAP_F64)
      add_bias_f64(c, b, outs, places);
    else
      add_bias_f32(c, b, outs, places);
  }
}

/* cols (depth, places) = w' (depth, outs) d (outs, places), then back to the image. */
void NEAP_CPU_NAME(conv_grad_input)(const neap_cpu_conv *g, const void *d, const void *w, void *dx, void *space) {
  const int64_t outs = g->o / g->groups, places = g->oh * g->ow;
  char *const pack = (char *)space + cols_bytes(g);
  memset(dx, 0, (size_t)(g->c * g->h * g->w) * neap__dtype_size(g->dtype));
  for (int64_t group = 0; group < g->groups; group++) {
    int64_t channel, place;
    neap_cpu_gemm p = {.dtype = g->dtype, .m = g->depth, .n = places, .k = outs, .c = space, .c_row = places};
    p.a = element(g, w, group * outs * g->depth), p.a_row = 1, p.a_col = g->depth;
    p.b = group_y(g, d, group, &channel, &place), p.b_row = channel, p.b_col = place;
    multiply(&p, pack);
    if (g->dtype == NEAP_F64)
      from_cols_f64(g, space, group_image_f64(dx, g, group));
    else
      from_cols_f32(g, space, group_image_f32(dx, g, group));
  }
}

/* dw (outs, depth) (+)= d (outs, places) cols' (places, depth) */
void NEAP_CPU_NAME(conv_grad_weight)(const neap_cpu_conv *g, const void *d, const void *x, void *dw, void *db, bool add,
                                     void *space) {
  const int64_t outs = g->o / g->groups, places = g->oh * g->ow;
  char *const pack = (char *)space + cols_bytes(g);
  for (int64_t group = 0; group < g->groups; group++) {
    int64_t channel, place;
    neap_cpu_gemm p = {.dtype = g->dtype, .m = outs, .n = g->depth, .k = places, .c_row = g->depth, .add = add};
    p.c = (void *)(uintptr_t)element(g, dw, group * outs * g->depth);
    p.a = group_y(g, d, group, &channel, &place), p.a_row = channel, p.a_col = place;
    p.b = space, p.b_row = 1, p.b_col = places;
    make_cols(g, x, group, space);
    multiply(&p, pack);
  }
  if (g->dtype == NEAP_F64)
    sum_places_f64(g, d, db, add);
  else
    sum_places_f32(g, d, db, add);
}

/* --- the library's side ------------------------------------------------------------------------------------------ */

bool NEAP_CPU_NAME(conv_by_library)(const neap_cpu *cpu, const neap_sig *s) {
  if (!cpu->dnn || s->in[0].desc.dtype != NEAP_F32) return false;
  /* oneDNN has no fast kernel for the gradient of a single channel (measured: 7 GFLOP/s, portable 30). */
  if (s->op == &neap__op_conv2d_grad_input && s->out[0].desc.shape.dim[1] == 1) return false;
  for (uint32_t i = 0; i < 2; i++)
    if (neap__shape_count(&s->in[i].desc.shape) == 0) return false;
  return neap__shape_count(&s->out[0].desc.shape) > 0;
}

/* One channel, or one pixel, is the same bytes in both layouts: no conversion is asked for. */
neap_layout NEAP_CPU_NAME(conv_layout)(const neap_operand *v) {
  const int64_t *dim = v->desc.shape.dim;
  return dim[1] == 1 || dim[2] * dim[3] == 1 ? v->layout : NEAP_LAYOUT_LAST;
}

neap_dnn_shape NEAP_CPU_NAME(conv_shape)(const neap_cpu_conv *g, neap_dnn_kind kind, int64_t n, bool bias) {
  neap_dnn_shape s = {.kind = kind,
                      .n = n,
                      .c = g->c,
                      .h = g->h,
                      .w = g->w,
                      .o = g->o,
                      .oh = g->oh,
                      .ow = g->ow,
                      .groups = g->groups,
                      .bias = bias};
  for (int i = 0; i < 2; i++) {
    s.kernel[i] = g->kernel[i];
    s.stride[i] = g->stride[i];
    s.padding[i] = g->padding[i];
    s.dilation[i] = g->dilation[i];
  }
  return s;
}
