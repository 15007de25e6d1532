#include "io/checkpoint.h"

#define VERSION_NAME "neap_checkpoint"

static bool wants_staging(const neap_checkpoint_entry *entries, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!entries[i].data && entries[i].fetch) return true;
  return false;
}

static neap_status write_entry(neap_h5_writer *w, const neap_checkpoint_entry *e, void *staging, size_t bytes,
                               neap_error *err) {
  if (e->data || neap__shape_count(&e->desc.shape) == 0) return neap__h5_write(w, e->path, &e->desc, e->data, err);
  if (!e->fetch) return neap__fail(err, NEAP_INVALID, "checkpoint entry '%s' has neither data nor fetch", e->path);
  return neap__h5_write_from(w, e->path, &e->desc, e->fetch, e->user, staging, bytes, err);
}

/* Entries first: an attribute may be of one of them. */
static neap_status write_all(neap_h5_writer *w, const neap_checkpoint_entry *entries, size_t n,
                             const neap_checkpoint_attr *attrs, size_t n_attrs, void *staging, size_t bytes,
                             neap_error *err) {
  const neap_h5_attr version = {.name = VERSION_NAME, .kind = NEAP_H5_ATTR_INT, .v.i = NEAP_CHECKPOINT_VERSION};
  neap_status st = neap__h5_write_attr(w, "", &version, err);
  for (size_t i = 0; !st && i < n; i++) st = write_entry(w, &entries[i], staging, bytes, err);
  for (size_t i = 0; !st && i < n_attrs; i++) st = neap__h5_write_attr(w, attrs[i].path, &attrs[i].attr, err);
  return st;
}

neap_status neap__checkpoint_write(neap_host *h, const char *path, const neap_checkpoint_entry *entries, size_t n,
                                   const neap_checkpoint_attr *attrs, size_t n_attrs, void *staging,
                                   size_t staging_bytes, neap_error *err) {
  neap_h5_writer *w = NULL;
  void *own = NULL;
  neap_status st = NEAP_OK;
  if (!staging && wants_staging(entries, n)) {
    staging = own = neap__alloc(h, NEAP_CHECKPOINT_STAGING);
    staging_bytes = NEAP_CHECKPOINT_STAGING;
    if (!own) return neap__fail(err, NEAP_NOMEM, "%s: no host memory for a staging buffer", path);
  }
  st = neap__h5_writer_begin(h, path, &w, err);
  if (!st) {
    st = write_all(w, entries, n, attrs, n_attrs, staging, staging_bytes, err);
    if (st)
      neap__h5_writer_abort(w);
    else
      st = neap__h5_writer_commit(w, err);
  }
  neap__free(h, own, NEAP_CHECKPOINT_STAGING);
  return st;
}

static neap_status check_version(neap_h5_file *f, neap_error *err) {
  const neap_h5_attr *a = NULL;
  neap_status st = neap__h5_attr(neap__h5_root(f), VERSION_NAME, &a, err);
  if (st == NEAP_NOT_FOUND || (!st && a->kind != NEAP_H5_ATTR_INT))
    return neap__fail(err, NEAP_INVALID, "%s: an HDF5 file, but no checkpoint (no attribute '%s')", neap__h5_path(f),
                      VERSION_NAME);
  if (st) return st;
  if (a->v.i >= 1 && a->v.i <= NEAP_CHECKPOINT_VERSION) return NEAP_OK;
  return neap__fail(err, NEAP_UNSUPPORTED, "%s: a checkpoint of version %lld; up to version %d is read",
                    neap__h5_path(f), (long long)a->v.i, NEAP_CHECKPOINT_VERSION);
}

neap_status neap__checkpoint_open(neap_host *h, const char *path, neap_h5_file **out, neap_error *err) {
  neap_h5_file *f = NULL;
  neap_status st = neap__h5_open(h, path, 0, &f, err);
  if (st) return st;
  st = check_version(f, err);
  if (st)
    neap__h5_close(f);
  else
    *out = f;
  return st;
}

static neap_status find_exact(neap_h5_file *f, const char *path, const neap_desc *d, neap_h5_item **out,
                              neap_error *err) {
  char want[96], found[96];
  neap_status st = neap__h5_find(neap__h5_root(f), path, out, err);
  if (st) return st;
  const neap_h5_item *it = *out;
  if (it->kind != NEAP_H5_DATASET)
    return neap__fail(err, NEAP_INVALID, "%s: %s: expected a dataset of numbers", neap__h5_path(f), path);
  if (it->desc.dtype != d->dtype)
    return neap__fail(err, NEAP_DTYPE, "%s: %s: expected %s, found %s", neap__h5_path(f), path,
                      neap__dtype_name(d->dtype), neap__dtype_name(it->desc.dtype));
  if (!neap__shape_equal(&it->desc.shape, &d->shape))
    return neap__fail(err, NEAP_SHAPE, "%s: %s: expected shape %s, found %s", neap__h5_path(f), path,
                      neap__shape_text(&d->shape, want, sizeof want),
                      neap__shape_text(&it->desc.shape, found, sizeof found));
  return NEAP_OK;
}

neap_status neap__checkpoint_read(neap_h5_file *f, const char *path, const neap_desc *d, void *dst, neap_error *err) {
  neap_h5_item *it = NULL;
  neap_status st = find_exact(f, path, d, &it, err);
  return st ? st : neap__h5_read(it, dst, neap__desc_bytes(d), err);
}

neap_status neap__checkpoint_read_to(neap_h5_file *f, const char *path, const neap_desc *d, void *staging,
                                     size_t staging_bytes, neap_h5_sink sink, void *user, neap_error *err) {
  neap_h5_item *it = NULL;
  neap_status st = find_exact(f, path, d, &it, err);
  return st ? st : neap__h5_stream(it, staging, staging_bytes, sink, user, err);
}

static const char *kind_name(neap_h5_attr_kind k) {
  static const char *const names[] = {"another type", "a text", "an integer", "a number", "integers", "numbers"};
  return names[k];
}

neap_status neap__checkpoint_attr(neap_h5_file *f, const char *path, const char *name, neap_h5_attr_kind kind,
                                  neap_h5_attr *out, neap_error *err) {
  neap_h5_item *it = NULL;
  const neap_h5_attr *a = NULL;
  neap_status st = neap__h5_find(neap__h5_root(f), path, &it, err);
  if (!st) st = neap__h5_attr(it, name, &a, err);
  if (st) return st;
  *out = *a;
  if (a->kind == kind) return NEAP_OK;
  if (a->kind == NEAP_H5_ATTR_INT && kind == NEAP_H5_ATTR_REAL) {
    out->kind = kind;
    out->v.f = (double)a->v.i;
    return NEAP_OK;
  }
  return neap__fail(err, NEAP_DTYPE, "%s: %s: attribute '%s': expected %s, found %s", neap__h5_path(f),
                    path[0] ? path : "/", name, kind_name(kind), kind_name(a->kind));
}

/* user: the buffer. Strings have no checksum of their own. */
static neap_status verify_one(void *user, neap_h5_item *item, neap_error *err) {
  if (item->kind != NEAP_H5_DATASET) return NEAP_OK;
  return neap__h5_stream(item, user, NEAP_CHECKPOINT_STAGING, NULL, NULL, err);
}

neap_status neap__checkpoint_verify(neap_host *h, const char *path, neap_error *err) {
  neap_h5_file *f = NULL;
  neap_status st = neap__checkpoint_open(h, path, &f, err);
  if (st) return st;
  void *buffer = neap__alloc(h, NEAP_CHECKPOINT_STAGING);
  st = buffer ? neap__h5_walk(neap__h5_root(f), verify_one, buffer, err)
              : neap__fail(err, NEAP_NOMEM, "%s: no host memory to verify it", path);
  neap__free(h, buffer, NEAP_CHECKPOINT_STAGING);
  neap__h5_close(f);
  return st;
}
