#include "tensor/tensor.h"

static neap_status storage_new(neap_host *h, neap_storage **out, neap_error *err) {
  neap_storage *s = neap__calloc(h, 1, sizeof *s);
  if (!s) return neap__fail(err, NEAP_NOMEM, "no host memory for a tensor's storage (%zu bytes)", sizeof *s);
  s->refs = 1;
  s->host = h;
  s->owner = NEAP_OWNER_TENSORS;
  s->serial = h->count; /* every allocation moves it on, so no two storages of a host share one */
  *out = s;
  return NEAP_OK;
}

neap_status neap__storage_create(neap_host *h, neap_resource *r, size_t bytes, neap_owner owner, neap_storage **out,
                                 neap_error *err) {
  neap_storage *s = NULL;
  neap_status st = storage_new(h, &s, err);
  if (st) return st;
  s->owner = owner;
  s->bytes = bytes;
  if (bytes > 0) {
    st = neap__reserve(r, bytes, owner, &s->data, err);
    if (st) {
      neap__free(h, s, sizeof *s);
      return st;
    }
    s->resource = r;
  }
  *out = s;
  return NEAP_OK;
}

neap_status neap__storage_borrow(neap_host *h, void *data, size_t bytes, neap_storage **out, neap_error *err) {
  neap_storage *s = NULL;
  neap_status st = storage_new(h, &s, err);
  if (st) return st;
  s->data = bytes > 0 ? data : NULL;
  s->bytes = bytes;
  *out = s;
  return NEAP_OK;
}

neap_storage *neap__storage_retain(neap_storage *s) {
  s->refs++;
  return s;
}

/* Leaves s without a block: whatever it owned, or the parent it lay in, is let go. */
static void give_back(neap_storage *s) {
  neap_storage *parent = s->parent;
  if (s->resource && s->data) neap__release(s->resource, s->data, s->bytes, s->owner);
  s->resource = NULL;
  s->parent = NULL;
  s->data = NULL;
  neap__storage_drop(parent);
}

void neap__storage_drop(neap_storage *s) {
  if (!s || --s->refs > 0) return;
  give_back(s);
  neap__free(s->host, s, sizeof *s);
}

/* Storages that lie inside s (rebind) keep only its struct: flat buffers are never closed by hand. */
void neap__storage_close(neap_storage *s) {
  give_back(s);
  s->closed = true;
}

void neap__storage_rebind(neap_storage *s, neap_storage *parent, void *data) {
  neap__storage_retain(parent); /* first: s may already lie in it and hold its last reference */
  give_back(s);
  s->parent = parent;
  s->data = data;
}

neap_status neap__tensor_create(neap_host *h, neap_resource *r, const neap_desc *d, neap_owner owner, neap_tensor *out,
                                neap_error *err) {
  neap_tensor t = {.dtype = d->dtype, .shape = d->shape};
  neap_status st = neap__desc_check(d, err);
  if (st) return st;
  neap__strides_dense(&d->shape, t.stride);
  st = neap__storage_create(h, r, neap__desc_bytes(d), owner, &t.storage, err);
  if (st) return st;
  *out = t;
  return NEAP_OK;
}

bool neap__tensor_dense(const neap_tensor *t) {
  int64_t step = 1;
  if (neap__shape_count(&t->shape) == 0) return true;
  for (int32_t i = t->shape.ndim - 1; i >= 0; i--) {
    /* The stride of a dimension of 1 is never used. */
    if (t->shape.dim[i] != 1 && t->stride[i] != step) return false;
    step *= t->shape.dim[i];
  }
  return true;
}

static neap_status view_dim(const neap_tensor *t, const char *what, int64_t dim, int32_t *out, neap_error *err) {
  if (t->shape.ndim == 0) return neap__fail(err, NEAP_SHAPE, "%s needs a dimension and the tensor is a scalar", what);
  return neap__dim_resolve(dim, t->shape.ndim, out, err);
}

neap_status neap__tensor_narrow(const neap_tensor *t, int64_t dim, int64_t start, int64_t length, neap_tensor *out,
                                neap_error *err) {
  int32_t d;
  char text[200];
  neap_status st = view_dim(t, "narrow", dim, &d, err);
  if (st) return st;
  int64_t n = t->shape.dim[d];
  if (start < 0 || length < 0 || start > n || length > n - start)
    return neap__fail(err, NEAP_RANGE, "narrow: start %lld and length %lld do not lie in dimension %d of shape %s",
                      (long long)start, (long long)length, (int)d, neap__shape_text(&t->shape, text, sizeof text));
  neap_tensor v = *t;
  v.shape.dim[d] = length;
  v.offset += start * t->stride[d];
  *out = v;
  return NEAP_OK;
}

neap_status neap__tensor_select(const neap_tensor *t, int64_t dim, int64_t i, neap_tensor *out, neap_error *err) {
  int32_t d;
  char text[200];
  neap_status st = view_dim(t, "select", dim, &d, err);
  if (st) return st;
  if (i < 0 || i >= t->shape.dim[d])
    return neap__fail(err, NEAP_RANGE, "select: index %lld does not lie in dimension %d of shape %s", (long long)i,
                      (int)d, neap__shape_text(&t->shape, text, sizeof text));
  neap_tensor v = *t;
  v.offset += i * t->stride[d];
  v.shape.ndim--;
  for (int32_t k = d; k < v.shape.ndim; k++) {
    v.shape.dim[k] = t->shape.dim[k + 1];
    v.stride[k] = t->stride[k + 1];
  }
  v.shape.dim[v.shape.ndim] = v.stride[v.shape.ndim] = 0;
  *out = v;
  return NEAP_OK;
}
