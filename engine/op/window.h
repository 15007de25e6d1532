/* What convolution and pooling share: windows that slide over the last two dimensions of (N, C, H, W). */
#ifndef NEAP_OP_WINDOW_H
#define NEAP_OP_WINDOW_H

#include "op/build.h"

/* Places of a window of `extent` along `size` elements padded on both sides; below 1 when it does not fit.
 * ceil: a last window that hangs over the end counts, if it begins within the input or the padding before it
 * (PyTorch's rule). */
static inline int64_t neap__window_places(int64_t size, int64_t extent, int64_t stride, int64_t padding, bool ceil) {
  const int64_t room = size + 2 * padding - extent;
  int64_t places;
  if (room < 0 && !(ceil && room + stride - 1 >= 0)) return 0;
  places = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (places - 1) * stride >= size + padding) places--;
  return places;
}

/* Batch rule: samples are along dimension 0 of input 0 (and of input 1 where it has samples), and of every
 * output. All other inputs are constant. */
neap_status neap__batch_images(const neap_node *n, const neap_batch *in, neap_batch *out, uint32_t image_inputs);

/* NEAP_SHAPE unless input i is (N, C, H, W); there may be no samples and no channels, as in PyTorch. */
neap_status neap__need_images(const neap_infer *x, uint32_t i, const char *what);

/* An option of whole numbers, at least `least`, and `otherwise` when left out; kind: INT, or PAIR for height and
 * width. */
#define NEAP_WINDOW_OPTION(option, kind, least, otherwise, text)                                                    \
  {                                                                                                                 \
    .name = option, .type = NEAP_OPT_##kind, .def = otherwise, .has_default = true, .min = least, .max = INT32_MAX, \
    .doc = text                                                                                                     \
  }

#endif
