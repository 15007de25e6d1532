/* What max and average pooling of (N, C, H, W) share: options, shape rules, the gradient's options. */
#ifndef NEAP_OP_POOL2D_H
#define NEAP_OP_POOL2D_H

#include "op/window.h"

/* The options of both; the fifth is an op's own, and the sixth, a gradient's, the input's height and width. */
enum { POOL_KERNEL, POOL_STRIDE, POOL_PADDING, POOL_CEIL, POOL_OWN, POOL_SIZE };

#define POOL_KERNEL_OPTION                                                                      \
  {                                                                                             \
    .name = "kernel_size", .type = NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX, \
    .doc = "Height and width of the window."                                                    \
  }
#define POOL_STRIDE_OPTION                                               \
  {                                                                      \
    .name = "stride", .type = NEAP_OPT_PAIR, .min = 1, .max = INT32_MAX, \
    .doc = "Step of the window; `kernel_size` when left out."            \
  }
#define POOL_CEIL_OPTION                                             \
  {                                                                  \
    .name = "ceil_mode", .type = NEAP_OPT_BOOL, .has_default = true, \
    .doc = "Whether a window that begins inside may end outside."    \
  }
/* padded: what is added on both sides, in words. */
#define POOL_OPTIONS(padded)                                                                           \
  POOL_KERNEL_OPTION, POOL_STRIDE_OPTION,                                                              \
      NEAP_WINDOW_OPTION("padding", PAIR, 0, 0, padded " on both sides; at most half of the window."), \
      POOL_CEIL_OPTION
#define POOL_SIZE_OPTION \
  { .name = "size", .type = NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX }

/* Input 0 as (N, C, H, W) -> output 0, (N, C, OH, OW). Fills in the stride. dilation: a pair, or NULL: 1. */
neap_status neap__pool_infer(neap_infer *x, const int64_t *dilation);
/* Input 0, the gradient (N, C, OH, OW) -> output 0, (N, C) and the option `size`. */
neap_status neap__pool_infer_grad(neap_infer *x, const int64_t *dilation);
/* The node's options and its input's size. */
void neap__pool_grad_options(const neap_graph *g, const neap_node *n, neap_opt *opt);
/* A gradient's options without the size. */
void neap__pool_back_options(const neap_node *n, neap_opt *opt);

#endif
