#include "op/pool2d.h"

#include <string.h>

/* Fills in the stride, and the output's height and width. */
static neap_status windows(const neap_infer *x, const int64_t *size, const int64_t *dilation, int64_t *places) {
  neap_opt *o = x->opt;
  if (!o[POOL_STRIDE].set) o[POOL_STRIDE] = o[POOL_KERNEL];
  for (int i = 0; i < 2; i++) {
    const int64_t kernel = o[POOL_KERNEL].v.list[i], padding = o[POOL_PADDING].v.list[i];
    const int64_t apart = dilation ? dilation[i] : 1;
    if (padding > kernel / 2)
      return neap__fail(x->err, NEAP_RANGE, "`padding` is %lld, expected at most half of the kernel's %lld",
                        (long long)padding, (long long)kernel);
    places[i] =
        neap__window_places(size[i], (kernel - 1) * apart + 1, o[POOL_STRIDE].v.list[i], padding, o[POOL_CEIL].v.i);
    if (places[i] < 1)
      return neap__fail(x->err, NEAP_SHAPE,
                        "a window of %lld with dilation %lld does not fit into %lld along dimension %d",
                        (long long)kernel, (long long)apart, (long long)size[i], 3 + i);
  }
  return NEAP_OK;
}

neap_status neap__pool_infer(neap_infer *x, const int64_t *dilation) {
  const neap_shape *in = &x->in[0].shape;
  int64_t places[2] = {0, 0};
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "input")) ||
      (s = windows(x, in->dim + 2, dilation, places)))
    return s;
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {in->dim[0], in->dim[1], places[0], places[1]}}};
  return NEAP_OK;
}

neap_status neap__pool_infer_grad(neap_infer *x, const int64_t *dilation) {
  const neap_shape *d = &x->in[0].shape;
  const int64_t *size = x->opt[POOL_SIZE].v.list;
  int64_t places[2] = {0, 0};
  char text[96];
  neap_status s;
  if ((s = neap__need_float(x, 0)) || (s = neap__need_images(x, 0, "gradient")) ||
      (s = windows(x, size, dilation, places)))
    return s;
  if (d->dim[2] != places[0] || d->dim[3] != places[1])
    return neap__fail(x->err, NEAP_SHAPE, "gradient %s is not that of windows over %lld x %lld",
                      neap__shape_text(d, text, sizeof text), (long long)size[0], (long long)size[1]);
  x->out[0] = (neap_desc){x->in[0].dtype, {4, {d->dim[0], d->dim[1], size[0], size[1]}}};
  return NEAP_OK;
}

void neap__pool_grad_options(const neap_graph *g, const neap_node *n, neap_opt *opt) {
  const neap_shape in = neap__desc_at(g, n->in[0]).shape;
  memcpy(opt, n->opt, sizeof n->opt);
  opt[POOL_SIZE] = (neap_opt){.set = 1, .n = 2, .v.list = {in.dim[2], in.dim[3]}};
}

void neap__pool_back_options(const neap_node *n, neap_opt *opt) {
  memcpy(opt, n->opt, sizeof n->opt);
  opt[POOL_SIZE] = NEAP_UNSET;
}
