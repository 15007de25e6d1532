/* Reading attributes and strings. */
#include <string.h>

#include "io/hdf5_seam.h"

/* Attributes are for small things; what is larger belongs into datasets. */
#define MOST_NUMBERS 131072
#define MOST_TEXT ((size_t)1 << 26)

/* --- strings ---------------------------------------------------------------------------------------- */

static neap_status no_memory(const neap_h5_item *it, neap_error *err) {
  return neap__h5_fail(err, NEAP_NOMEM, it->file->path, it->path, "no host memory for it");
}

/* An attribute's or a dataset's one value. */
static herr_t read_value(hid_t object, bool is_attr, hid_t type, void *out) {
  return is_attr ? H5Aread(object, type, out) : H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
}

static neap_status keep_text(neap_h5_item *it, const char *p, size_t n, const char **text, size_t *length,
                             neap_error *err) {
  char *copy = n < MOST_TEXT ? neap__zone_alloc(&it->file->zone, n + 1) : NULL;
  if (!copy) return no_memory(it, err);
  memcpy(copy, p, n);
  *text = copy;
  *length = n;
  return NEAP_OK;
}

static neap_status variable_text(neap_h5_item *it, hid_t object, bool is_attr, hid_t type, const char **text, size_t *n,
                                 neap_error *err) {
  char *p = NULL; /* libhdf5's */
  if (read_value(object, is_attr, type, &p) < 0)
    return neap__h5_broken(&it->file->disk, it->path, "cannot read the string", err);
  neap_status st = keep_text(it, p ? p : "", p ? strlen(p) : 0, text, n, err);
  if (p) H5free_memory(p);
  return st;
}

static neap_status fixed_text(neap_h5_item *it, hid_t object, bool is_attr, hid_t type, const char **text, size_t *n,
                              neap_error *err) {
  const size_t size = H5Tget_size(type);
  if (size == 0 || size > MOST_TEXT)
    return neap__h5_fail(err, NEAP_RANGE, it->file->path, it->path, "a string of %zu bytes", size);
  char *p = neap__zone_alloc(&it->file->zone, size + 1);
  if (!p) return no_memory(it, err);
  if (read_value(object, is_attr, type, p) < 0)
    return neap__h5_broken(&it->file->disk, it->path, "cannot read the string", err);
  size_t length = strnlen(p, size);
  if (H5Tget_strpad(type) == H5T_STR_SPACEPAD)
    while (length > 0 && p[length - 1] == ' ') length--;
  p[length] = '\0';
  *text = p;
  *n = length;
  return NEAP_OK;
}

neap_status neap__h5_text_locked(neap_h5_item *item, hid_t object, bool is_attr, hid_t type, const char **text,
                                 size_t *n, neap_error *err) {
  return H5Tis_variable_str(type) > 0 ? variable_text(item, object, is_attr, type, text, n, err)
                                      : fixed_text(item, object, is_attr, type, text, n, err);
}

static neap_status read_text_locked(neap_h5_item *item, const char **text, size_t *n, neap_error *err) {
  neap_h5_file *f = item->file;
  neap_status st = neap__h5_resolve_locked(item, err);
  if (st) return st;
  neap_h5_item *it = neap__h5_real(item);
  if (it->kind != NEAP_H5_STRING)
    return neap__h5_fail(err, NEAP_INVALID, f->path, item->path, "expected a string, found a %s",
                         it->kind == NEAP_H5_GROUP ? "group" : "dataset of numbers");
  hid_t dataset = H5Dopen2(f->disk.file, it->path, H5P_DEFAULT);
  hid_t type = dataset >= 0 ? H5Dget_type(dataset) : -1;
  st = type < 0 ? neap__h5_broken(&f->disk, it->path, "cannot open the string", err)
                : neap__h5_text_locked(it, dataset, false, type, text, n, err);
  if (type >= 0) H5Tclose(type);
  if (dataset >= 0) H5Dclose(dataset);
  return st;
}

neap_status neap__h5_read_text(neap_h5_item *item, const char **text, size_t *n, neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  neap_status st = read_text_locked(item, text, n, err);
  neap__h5_leave(&g);
  return st;
}

/* --- numbers ---------------------------------------------------------------------------------------- */

static neap_status too_large(const neap_h5_item *it, const neap_h5_attr *a, uint64_t value, neap_error *err) {
  return neap__h5_fail(err, NEAP_RANGE, it->file->path, it->path,
                       "the value %llu of attribute '%s' does not fit into int64", (unsigned long long)value, a->name);
}

/* In place, from as many bytes as a reader of booleans filled to int64. */
static void widen(int64_t *p, size_t n) {
  const uint8_t *bytes = (const uint8_t *)p;
  while (n-- > 0) p[n] = bytes[n];
}

static neap_status read_ints(neap_h5_item *it, hid_t attr, hid_t type, neap_dtype t, neap_h5_attr *a, int64_t *p,
                             neap_error *err) {
  const bool wide = t == NEAP_I64 && H5Tget_sign(type) == H5T_SGN_NONE && H5Tget_size(type) == 8;
  hid_t memory = t == NEAP_BOOL ? neap__h5_type(NEAP_BOOL) : H5Tcopy(wide ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64);
  neap_status st = NEAP_OK;
  if (memory < 0 || H5Aread(attr, memory, p) < 0)
    st = neap__h5_broken(&it->file->disk, it->path, "cannot read an attribute", err);
  if (memory >= 0) H5Tclose(memory);
  if (!st && t == NEAP_BOOL) widen(p, a->n);
  for (size_t i = 0; !st && wide && i < a->n; i++)
    if (p[i] < 0) st = too_large(it, a, (uint64_t)p[i], err);
  return st;
}

static neap_status read_numbers(neap_h5_item *it, hid_t attr, hid_t type, neap_dtype t, bool scalar, neap_h5_attr *a,
                                neap_error *err) {
  const bool real = neap__dtype_is_float(t);
  void *p = neap__zone_alloc(&it->file->zone, (a->n > 0 ? a->n : 1) * 8);
  neap_status st = NEAP_OK;
  if (!p) return no_memory(it, err);
  if (a->n > 0 && !real) st = read_ints(it, attr, type, t, a, p, err);
  if (a->n > 0 && real && H5Aread(attr, H5T_NATIVE_DOUBLE, p) < 0)
    st = neap__h5_broken(&it->file->disk, it->path, "cannot read an attribute", err);
  if (st) return st;
  a->kind = real ? (scalar ? NEAP_H5_ATTR_REAL : NEAP_H5_ATTR_REALS) : scalar ? NEAP_H5_ATTR_INT : NEAP_H5_ATTR_INTS;
  if (!scalar && real) a->v.reals = p;
  if (!scalar && !real) a->v.ints = p;
  if (scalar && real) a->v.f = *(const double *)p;
  if (scalar && !real) a->v.i = *(const int64_t *)p;
  return NEAP_OK;
}

/* What has another type keeps the kind OTHER: a dimension scale is no reason not to read a dataset. */
static neap_status read_typed(neap_h5_item *it, hid_t attr, hid_t type, hid_t space, neap_h5_attr *a, neap_error *err) {
  neap_dtype t;
  char found[64];
  const H5S_class_t extent = H5Sget_simple_extent_type(space);
  const hssize_t n = extent == H5S_NULL ? -1 : H5Sget_simple_extent_npoints(space);
  if (n < 0) return NEAP_OK;
  if (neap__h5_is_text(type)) {
    if (n != 1) return NEAP_OK;
    neap_status st = neap__h5_text_locked(it, attr, true, type, &a->v.text, &a->n, err);
    if (!st) a->kind = NEAP_H5_ATTR_TEXT;
    return st;
  }
  if (n > MOST_NUMBERS || !neap__h5_dtype(type, &t, found, sizeof found)) return NEAP_OK;
  a->n = (size_t)n;
  return read_numbers(it, attr, type, t, extent == H5S_SCALAR, a, err);
}

static neap_status read_one(neap_h5_item *it, hid_t attr, neap_h5_attr *a, neap_error *err) {
  char name[256];
  const ssize_t length = H5Aget_name(attr, sizeof name, name);
  hid_t type = H5Aget_type(attr);
  hid_t space = H5Aget_space(attr);
  neap_status st;
  if (length < 0 || type < 0 || space < 0)
    st = neap__h5_broken(&it->file->disk, it->path, "cannot read an attribute", err);
  else if (!(a->name = neap__zone_strdup(&it->file->zone, name)))
    st = no_memory(it, err);
  else
    st = read_typed(it, attr, type, space, a, err);
  if (type >= 0) H5Tclose(type);
  if (space >= 0) H5Sclose(space);
  return st;
}

static neap_status read_all(neap_h5_item *it, hid_t object, neap_error *err) {
  neap_h5_file *f = it->file;
  H5O_info_t info;
  if (H5Oget_info(object, &info) < 0) return neap__h5_broken(&f->disk, it->path, "cannot read its attributes", err);
  neap_h5_attr *attrs =
      info.num_attrs < UINT32_MAX ? neap__zone_alloc(&f->zone, (size_t)info.num_attrs * sizeof *attrs) : NULL;
  if (!attrs) return no_memory(it, err);
  neap_status st = NEAP_OK;
  for (hsize_t i = 0; !st && i < info.num_attrs; i++) {
    hid_t attr = H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT);
    if (attr < 0) return neap__h5_broken(&f->disk, it->path, "cannot open an attribute", err);
    st = read_one(it, attr, &attrs[i], err);
    H5Aclose(attr);
  }
  if (st) return st;
  it->attrs = attrs;
  it->n_attrs = (uint32_t)info.num_attrs;
  it->attrs_read = true;
  return NEAP_OK;
}

/* item is real. */
neap_status neap__h5_attrs_locked(neap_h5_item *item, neap_error *err) {
  neap_h5_file *f = item->file;
  if (item->attrs_read) return NEAP_OK;
  hid_t object = H5Oopen(f->disk.file, item->path[0] ? item->path : "/", H5P_DEFAULT);
  if (object < 0) return neap__h5_broken(&f->disk, item->path, "cannot open the item", err);
  neap_status st = read_all(item, object, err);
  H5Oclose(object);
  return st;
}

neap_status neap__h5_attrs(neap_h5_item *item, const neap_h5_attr **out, uint32_t *n, neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  neap_status st = neap__h5_resolve_locked(item, err);
  neap_h5_item *it = neap__h5_real(item);
  if (!st) st = neap__h5_attrs_locked(it, err);
  neap__h5_leave(&g);
  if (st) return st;
  *out = it->attrs;
  *n = it->n_attrs;
  return NEAP_OK;
}

neap_status neap__h5_attr(neap_h5_item *item, const char *name, const neap_h5_attr **out, neap_error *err) {
  const neap_h5_attr *attrs = NULL;
  uint32_t n = 0;
  neap_status st = neap__h5_attrs(item, &attrs, &n, err);
  if (st) return st;
  for (uint32_t i = 0; i < n; i++) {
    if (strcmp(attrs[i].name, name) != 0) continue;
    *out = &attrs[i];
    return NEAP_OK;
  }
  return neap__h5_fail(err, NEAP_NOT_FOUND, item->file->path, item->path, "there is no attribute '%s'", name);
}
