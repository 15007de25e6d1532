/* The seam to oneDNN, versions 2 and 3: all of its calls happen behind these functions, one thread a call,
 * and nothing it throws or refuses passes them. Activations are channels-last, weights plain [O, I/g, kh, kw],
 * fp32. A convolution here is that of one slab: callers run slabs side by side. */
#ifndef NEAP_KERNELS_CPU_ONEDNN_H
#define NEAP_KERNELS_CPU_ONEDNN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" { /* base/status.h does not say so itself */
#endif

#include "base/status.h"

typedef struct neap_dnn neap_dnn;           /* the library's engine */
typedef struct neap_dnn_conv neap_dnn_conv; /* one primitive with what its threads need */

typedef enum neap_dnn_kind { NEAP_DNN_FORWARD, NEAP_DNN_GRAD_INPUT, NEAP_DNN_GRAD_WEIGHT } neap_dnn_kind;

/* n samples of x [n, c, h, w] and y [n, o, oh, ow]; bias: forward adds one, grad_weight makes one. */
typedef struct neap_dnn_shape {
  neap_dnn_kind kind;
  int64_t n, c, h, w, o, oh, ow, groups;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int bias;
} neap_dnn_shape;

#if NEAP_ONEDNN
/* NULL with NEAP_UNSUPPORTED when the library has no engine, NEAP_NOMEM when it found no memory. */
neap_status neap__dnn_open(neap_dnn **out, neap_error *err);
void neap__dnn_close(neap_dnn *d);   /* NULL is nothing */
const char *neap__dnn_version(void); /* "2.6.3" */

/* A primitive that `width` threads may run at once. like: one whose order of weights it shares, or NULL.
 * NEAP_UNSUPPORTED: the library has none for this shape. */
neap_status neap__dnn_conv_create(neap_dnn *d, const neap_dnn_shape *s, uint32_t width, const neap_dnn_conv *like,
                                  neap_dnn_conv **out, neap_error *err);
void neap__dnn_conv_destroy(neap_dnn_conv *c); /* NULL is nothing */

/* Bytes of scratchpad one thread needs, and of the weights in the primitive's own order; 0 in the latter
 * case when that is the plain one. Both are to be NEAP_ALIGN-aligned. */
size_t neap__dnn_conv_scratch(const neap_dnn_conv *c);
size_t neap__dnn_conv_weights(const neap_dnn_conv *c);

/* Plain weights into the primitive's order (forward, grad_input), or back (grad_weight). */
neap_status neap__dnn_conv_reorder(const neap_dnn_conv *c, uint32_t thread, const void *from, void *to);

/* forward: x, w, b -> y. grad_input: y, w -> x. grad_weight: x, y -> w, b. w is in the primitive's order. */
neap_status neap__dnn_conv_run(const neap_dnn_conv *c, uint32_t thread, void *x, void *w, void *b, void *y,
                               void *scratch);

/* The calling thread's OpenMP team size becomes 1 until _leave is given what _enter returned, so that no
 * team is ever formed. Kernels call these around a task. */
int neap__dnn_enter(void);
void neap__dnn_leave(int before);

#else /* built without it: there is no engine, and of a NULL engine nothing comes */

static inline neap_status neap__dnn_open(neap_dnn **out, neap_error *err) {
  *out = NULL;
  return neap__fail(err, NEAP_UNSUPPORTED, "built without oneDNN");
}
static inline void neap__dnn_close(neap_dnn *d) { (void)d; }
static inline const char *neap__dnn_version(void) { return ""; }
static inline neap_status neap__dnn_conv_create(neap_dnn *d, const neap_dnn_shape *s, uint32_t width,
                                                const neap_dnn_conv *like, neap_dnn_conv **out, neap_error *err) {
  (void)d, (void)s, (void)width, (void)like;
  *out = NULL;
  return neap__fail(err, NEAP_UNSUPPORTED, "built without oneDNN");
}
static inline void neap__dnn_conv_destroy(neap_dnn_conv *c) { (void)c; }
static inline size_t neap__dnn_conv_scratch(const neap_dnn_conv *c) { return (void)c, (size_t)0; }
static inline size_t neap__dnn_conv_weights(const neap_dnn_conv *c) { return (void)c, (size_t)0; }
static inline neap_status neap__dnn_conv_reorder(const neap_dnn_conv *c, uint32_t thread, const void *from, void *to) {
  (void)c, (void)thread, (void)from, (void)to;
  return NEAP_UNSUPPORTED;
}
static inline neap_status neap__dnn_conv_run(const neap_dnn_conv *c, uint32_t thread, void *x, void *w, void *b,
                                             void *y, void *scratch) {
  (void)c, (void)thread, (void)x, (void)w, (void)b, (void)y, (void)scratch;
  return NEAP_UNSUPPORTED;
}
static inline int neap__dnn_enter(void) { return 1; }
static inline void neap__dnn_leave(int before) { (void)before; }
#endif

#ifdef __cplusplus
}
#endif
#endif
