/* What max and average pooling of (N, C, H, W) share: options, shape rules, the gradient's options. */
#ifndef NEAP_OP_POOL2D_H
#define NEAP_OP_POOL2D_H

#include "op/window.h"

/* The options of both; the fifth is an op's own, and the sixth, a gradient's, the input's height and width. */
enum { POOL_KERNEL, POOL_STRIDE, POOL_PADDING, POOL_CEIL, POOL_OWN, POOL_SIZE };

#define POOL_OPTIONS                                                                           \
  {"kernel_size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX},                \
      {"stride", NEAP_OPT_PAIR, .min = 1, .max = INT32_MAX},                                   \
      {"padding", NEAP_OPT_PAIR, .def = 0, .has_default = true, .min = 0, .max = INT32_MAX}, { \
    "ceil_mode", NEAP_OPT_BOOL, .has_default = true                                            \
  }
#define POOL_SIZE_OPTION \
  { "size", NEAP_OPT_PAIR, .required = true, .min = 1, .max = INT32_MAX }

/* Input 0 as (N, C, H, W) -> output 0, (N, C, OH, OW). Fills in the stride. dilation: a pair, or NULL: 1. */
neap_status neap__pool_infer(neap_infer *x, const int64_t *dilation);
/* Input 0, the gradient (N, C, OH, OW) -> output 0, (N, C) and the option `size`. */
neap_status neap__pool_infer_grad(neap_infer *x, const int64_t *dilation);
/* The node's options and its input's size. */
void neap__pool_grad_options(const neap_graph *g, const neap_node *n, neap_opt *opt);
/* A gradient's options without the size. */
void neap__pool_back_options(const neap_node *n, neap_opt *opt);

#endif
