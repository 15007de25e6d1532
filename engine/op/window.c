#include "op/window.h"

neap_status neap__batch_images(const neap_node *n, const neap_batch *in, neap_batch *out, uint32_t image_inputs) {
  neap_batch_kind kind = NEAP_B_SAMPLE;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  for (uint32_t i = 0; i < n->n_in; i++) {
    if (i >= image_inputs) {
      if (in[i].kind != NEAP_B_CONST) return NEAP_UNSUPPORTED;
      continue;
    }
    if (in[i].kind == NEAP_B_CONST || in[i].dim != 0 || in[i].per != in[0].per) return NEAP_UNSUPPORTED;
    if (in[i].kind == NEAP_B_MIX) kind = NEAP_B_MIX;
  }
  for (uint32_t o = 0; o < n->n_out; o++) out[o] = (neap_batch){kind, 0, in[0].per};
  return NEAP_OK;
}

neap_status neap__need_images(const neap_infer *x, uint32_t i, const char *what) {
  const neap_shape *s = &x->in[i].shape;
  char text[96];
  neap__shape_text(s, text, sizeof text);
  if (s->ndim != 4)
    return neap__fail(x->err, NEAP_SHAPE, "%s %s, expected 4 dimensions (samples, channels, height, width)", what,
                      text);
  if (s->dim[2] < 1 || s->dim[3] < 1)
    return neap__fail(x->err, NEAP_SHAPE, "%s %s, expected a height and a width of at least 1", what, text);
  return NEAP_OK;
}
