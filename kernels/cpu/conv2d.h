/* What the convolution kernels share. A task computes some samples, either by oneDNN (channels-last) or by a
 * matrix product for each sample over its columns (either layout). */
#ifndef NEAP_KERNELS_CPU_CONV2D_H
#define NEAP_KERNELS_CPU_CONV2D_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/onednn.h"

/* x: (n, c, h, w), weights: (o, c / groups, kernel), y: (n, o, oh, ow) */
typedef struct neap_cpu_conv {
  neap_dtype dtype;
  int64_t n, c, h, w, o, oh, ow, groups;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool x_last, y_last; /* channels innermost */
  int64_t depth;       /* c / groups * kernel: products an output element */
} neap_cpu_conv;

/* From conv2d's own operands: x and w are shapes, y the output's. */
void NEAP_CPU_NAME(conv_describe)(neap_cpu_conv *g, const neap_sig *s, const neap_operand *x, const neap_operand *w,
                                  const neap_operand *y);

/* Bytes a thread needs for the portable path. */
size_t NEAP_CPU_NAME(conv_space)(const neap_cpu_conv *g);
/* One sample; x, y are that sample's. space: NEAP_ALIGN-aligned. bias may be NULL. */
void NEAP_CPU_NAME(conv_forward)(const neap_cpu_conv *g, const void *x, const void *w, const void *bias, void *y,
                                 void *space);
void NEAP_CPU_NAME(conv_grad_input)(const neap_cpu_conv *g, const void *d, const void *w, void *dx, void *space);
/* Adds the sample's part to dw and db, or sets them. */
void NEAP_CPU_NAME(conv_grad_weight)(const neap_cpu_conv *g, const void *d, const void *x, void *dw, void *db, bool add,
                                     void *space);

/* The layouts that oneDNN wants, when it would serve: channels-last for images. */
bool NEAP_CPU_NAME(conv_by_library)(const neap_cpu *cpu, const neap_sig *s);
neap_layout NEAP_CPU_NAME(conv_layout)(const neap_operand *v);
/* As the library's description of `n` samples. */
neap_dnn_shape NEAP_CPU_NAME(conv_shape)(const neap_cpu_conv *g, neap_dnn_kind kind, int64_t n, bool bias);

/* Bytes lie as channels-last ones do. */
static inline bool neap__conv_is_last(const neap_operand *v) {
  const int64_t *dim = v->desc.shape.dim;
  return v->layout == NEAP_LAYOUT_LAST || dim[1] == 1 || dim[2] * dim[3] == 1;
}

static inline char *neap__conv_sample(const void *p, int64_t sample, int64_t elements, neap_dtype dtype) {
  return (char *)(uintptr_t)p + sample * elements * (int64_t)neap__dtype_size(dtype);
}

/* Predicted seconds of one sample on one thread, by the library; columns take so many times as long. */
#define NEAP_CONV_COLUMNS 2.5
double NEAP_CPU_NAME(conv_seconds)(const neap_cpu_conv *g);

/* Options' positions, as in the op. */
enum { NEAP_CONV_STRIDE, NEAP_CONV_PADDING, NEAP_CONV_DILATION, NEAP_CONV_GROUPS };

#endif
