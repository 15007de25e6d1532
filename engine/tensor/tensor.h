/* Tensors: a typed, strided view of counted storage. */
#ifndef NEAP_TENSOR_TENSOR_H
#define NEAP_TENSOR_TENSOR_H

#include "memory/resource.h"
#include "tensor/shape.h"

/* Bytes in one block of a resource, shared by the tensors that look at it. Not thread-safe.
 * A storage can be moved: `data` is read at each use, so that parameters can be gathered into one flat
 * buffer after they were made. */
typedef struct neap_storage {
  uint32_t refs;
  neap_owner owner;
  void *data; /* device memory; NULL when bytes is 0 or after close */
  size_t bytes;
  neap_resource *resource;     /* releases data; NULL: borrowed (from the host, or part of `parent`) */
  struct neap_storage *parent; /* keeps the block alive that data lies in; NULL: none */
  neap_host *host;
  bool closed;     /* freed by hand; any later use is an error */
  bool parameter;  /* trainable: a gradient may be asked for it */
  uint64_t serial; /* unique in its engine's life; identifies the storage in traces */
} neap_storage;

typedef struct neap_tensor {
  neap_dtype dtype;
  neap_shape shape;
  int64_t stride[NEAP_MAX_DIMS]; /* in elements */
  int64_t offset;                /* in elements, from storage->data */
  neap_storage *storage;
} neap_tensor;

/* A new storage of `bytes` (0 is fine) with one reference. */
neap_status neap__storage_create(neap_host *h, neap_resource *r, size_t bytes, neap_owner owner, neap_storage **out,
                                 neap_error *err);
/* Over memory that somebody else keeps alive. */
neap_status neap__storage_borrow(neap_host *h, void *data, size_t bytes, neap_storage **out, neap_error *err);
neap_storage *neap__storage_retain(neap_storage *s);
void neap__storage_drop(neap_storage *s);  /* NULL is nothing */
void neap__storage_close(neap_storage *s); /* gives the bytes back now; the storage stays valid, marked closed */
/* s's bytes now live at data inside parent (retained); what s owned before is released. Contents are the
 * caller's to copy first. */
void neap__storage_rebind(neap_storage *s, neap_storage *parent, void *data);

/* A dense new tensor, contents undefined. The caller owns one reference to its storage. */
neap_status neap__tensor_create(neap_host *h, neap_resource *r, const neap_desc *d, neap_owner owner, neap_tensor *out,
                                neap_error *err);
bool neap__tensor_dense(const neap_tensor *t); /* row-major without gaps */
static inline char *neap__tensor_data(const neap_tensor *t) {
  char *base = (char *)t->storage->data;
  return base ? base + (size_t)t->offset * neap__dtype_size(t->dtype) : NULL;
}
static inline neap_desc neap__tensor_desc(const neap_tensor *t) {
  neap_desc d = {t->dtype, t->shape};
  return d;
}

/* Views share storage and take no reference: retain it for as long as the view lives. dim is 0-based or
 * negative; i and start are 0-based. Errors are NEAP_RANGE and NEAP_SHAPE. */
neap_status neap__tensor_narrow(const neap_tensor *t, int64_t dim, int64_t start, int64_t length, neap_tensor *out,
                                neap_error *err);
neap_status neap__tensor_select(const neap_tensor *t, int64_t dim, int64_t i, neap_tensor *out, neap_error *err);

#endif
