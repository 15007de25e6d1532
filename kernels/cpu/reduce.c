#include "kernels/cpu/reduce.h"

#include <string.h>

static bool has_dim(const neap_opt *dims, int32_t d) {
  for (int32_t i = 0; i < dims->n; i++)
    if (dims->v.list[i] == d) return true;
  return false;
}

static void append(neap_walk *w, int64_t size, int64_t stride, bool merge) {
  if (merge) {
    w->size[w->n - 1] *= size;
    w->stride[w->n - 1] = stride;
    return;
  }
  w->size[w->n] = size;
  w->stride[w->n++] = stride;
}

static void take_split(neap_reduce *r, int32_t at) {
  neap_walk *w = &r->reduced;
  r->split_size = w->size[at];
  r->split_stride = w->stride[at];
  w->n--;
  memmove(w->size + at, w->size + at + 1, (size_t)(w->n - at) * sizeof *w->size);
  memmove(w->stride + at, w->stride + at + 1, (size_t)(w->n - at) * sizeof *w->stride);
}

void NEAP_CPU_NAME(reduce_plan)(neap_reduce *r, const neap_shape *shape, const neap_opt *dims, int32_t batch_dim) {
  enum { NOTHING, KEPT, REDUCED, BATCH };
  int before = NOTHING; /* what the dimension before was */
  int64_t stride[NEAP_MAX_DIMS];
  int32_t batch = -1; /* its place in `reduced` */
  neap__strides_dense(shape, stride);
  *r = (neap_reduce){.split_size = 1, .n_out = 1, .n_reduced = 1};
  for (int32_t d = 0; d < shape->ndim; d++) {
    bool reduced = has_dim(dims, d);
    int64_t size = shape->dim[d];
    *(reduced ? &r->n_reduced : &r->n_out) *= size;
    if (size == 1 && d != batch_dim) continue;
    r->rows = reduced;
    if (d == batch_dim && reduced) batch = r->reduced.n;
    int now = d == batch_dim ? BATCH : reduced ? REDUCED : KEPT;
    append(reduced ? &r->reduced : &r->kept, size, stride[d], now != BATCH && before == now);
    before = now;
  }
  if (batch < 0) batch = 0;
  r->split_rows = r->rows && batch == r->reduced.n - 1;
  if (r->reduced.n > 0) take_split(r, batch);
}
