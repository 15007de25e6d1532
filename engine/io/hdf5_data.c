/* Reading datasets: whole, in rows, in pieces. */
#include <stdio.h>
#include <string.h>

#include "io/crc32c.h"
#include "io/hdf5_seam.h"

/* --- pieces ----------------------------------------------------------------------------------------- */

void neap__h5_pieces_init(neap_h5_pieces *p, const neap_desc *d, size_t most) {
  memset(p, 0, sizeof *p);
  p->desc = *d;
  p->step = 1;
  /* The outermost dimension whose entries fit; inner ones then come whole. */
  size_t inner = neap__dtype_size(d->dtype);
  for (int32_t i = d->shape.ndim - 1; i >= 0; i--) {
    p->split = i;
    p->step = most / inner > 0 ? most / inner : 1;
    inner *= (size_t)(d->shape.dim[i] > 0 ? d->shape.dim[i] : 1);
    if (inner > most) break;
  }
}

static void piece_counts(neap_h5_pieces *p) {
  p->bytes = neap__dtype_size(p->desc.dtype);
  for (int32_t i = 0; i < p->desc.shape.ndim; i++) {
    const hsize_t dim = (hsize_t)p->desc.shape.dim[i];
    const hsize_t left = dim - p->start[i];
    p->count[i] = i < p->split ? 1 : i > p->split ? dim : left < p->step ? left : p->step;
    p->bytes *= (size_t)p->count[i];
  }
}

bool neap__h5_pieces_next(neap_h5_pieces *p) {
  const neap_shape *s = &p->desc.shape;
  if (!p->begun) {
    p->begun = true;
    if (neap__shape_count(s) == 0) return false;
    piece_counts(p);
    return true;
  }
  p->offset += p->bytes;
  for (int32_t i = p->split; i >= 0 && s->ndim > 0; i--) {
    p->start[i] += p->count[i];
    if (p->start[i] < (hsize_t)s->dim[i]) {
      piece_counts(p);
      return true;
    }
    p->start[i] = 0;
  }
  return false;
}

neap_status neap__h5_move_part(const neap_h5_move *m, const hsize_t *start, const hsize_t *count, void *in,
                               const void *out, neap_error *err) {
  hid_t file = H5S_ALL, memory = H5S_ALL;
  herr_t r = 0;
  neap_status st = NEAP_OK;
  if (start && m->desc->shape.ndim > 0) {
    file = H5Dget_space(m->dataset);
    memory = H5Screate_simple(m->desc->shape.ndim, count, NULL);
    r = file < 0 || memory < 0 ? -1 : H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL);
  }
  if (r >= 0)
    r = in ? H5Dread(m->dataset, m->type, memory, file, m->transfer, in)
           : H5Dwrite(m->dataset, m->type, memory, file, m->transfer, out);
  if (r < 0) st = neap__h5_broken(m->disk, m->item, in ? "cannot read its data" : "cannot write its data", err);
  if (file > 0) H5Sclose(file);
  if (memory > 0) H5Sclose(memory);
  return st;
}

/* --- opening datasets ------------------------------------------------------------------------------- */

/* Bytes of one chunk and the number of chunks; false when it is not stored in chunks. */
static bool chunk_size(neap_h5_item *it, hid_t dataset, uint64_t *bytes, uint64_t *chunks) {
  hsize_t dim[NEAP_MAX_DIMS];
  hid_t list = H5Dget_create_plist(dataset);
  hid_t type = H5Dget_type(dataset);
  const int n = it->desc.shape.ndim;
  bool chunked = list >= 0 && type >= 0 && H5Pget_layout(list) == H5D_CHUNKED && H5Pget_chunk(list, n, dim) == n;
  *bytes = chunked ? H5Tget_size(type) : 0;
  *chunks = 1;
  for (int i = 0; chunked && i < n; i++) {
    *bytes *= dim[i]; /* libhdf5 keeps a chunk under 4 GiB */
    *chunks *= ((uint64_t)it->desc.shape.dim[i] + dim[i] - 1) / dim[i];
  }
  if (list >= 0) H5Pclose(list);
  if (type >= 0) H5Tclose(type);
  return chunked;
}

/* Rows in any order come back to every chunk again and again: the cache holds all of them when the bound
 * allows, in a table where no two chunks meet. Returns the dataset with that cache, or as it was. */
static hid_t reopen_with_cache(neap_h5_item *it, hid_t dataset) {
  neap_h5_file *f = it->file;
  uint64_t bytes, chunks;
  if (!chunk_size(it, dataset, &bytes, &chunks)) return dataset;
  const uint64_t fit = bytes > 0 ? f->cache_left / bytes : 0;
  const uint64_t held = (fit < chunks ? fit : chunks) * bytes;
  const uint64_t slots = chunks < (1u << 20) ? chunks + 1 : 1u << 20;
  hid_t list = H5Pcreate(H5P_DATASET_ACCESS), again = -1;
  if (list >= 0 && H5Pset_chunk_cache(list, (size_t)slots, (size_t)held, 0.75) >= 0) {
    H5Dclose(dataset); /* the cache belongs to the open dataset, which must not be open twice */
    again = H5Dopen2(f->disk.file, it->path, list);
    if (again >= 0) f->cache_left -= held;
  }
  if (list >= 0) H5Pclose(list);
  return again;
}

typedef struct reading {
  neap_h5_move m;
  neap_h5_item *item;
  bool overflow; /* a value did not fit */
  uint64_t value;
} reading;

static H5T_conv_ret_t refuse_overflow(H5T_conv_except_t what, hid_t src, hid_t dst, void *from, void *to, void *user) {
  (void)src;
  (void)dst;
  (void)to;
  reading *r = user;
  if (what != H5T_CONV_EXCEPT_RANGE_HI) return H5T_CONV_UNHANDLED;
  r->overflow = true;
  memcpy(&r->value, from, sizeof r->value); /* only 64-bit sources can be too large for int64 */
  return H5T_CONV_ABORT;
}

static void end_reading(reading *r) {
  if (r->m.type >= 0) H5Tclose(r->m.type);
  if (r->m.transfer > 0) H5Pclose(r->m.transfer);
  if (r->m.dataset >= 0 && r->m.dataset != r->item->dataset) H5Dclose(r->m.dataset);
}

static bool set_types(reading *r) {
  const neap_dtype t = r->item->desc.dtype;
  r->m.type = neap__h5_type(t);
  if (t != NEAP_I64 || r->m.type < 0) return r->m.type >= 0;
  r->m.transfer = H5Pcreate(H5P_DATASET_XFER);
  return r->m.transfer >= 0 && H5Pset_type_conv_cb(r->m.transfer, refuse_overflow, r) >= 0;
}

/* keep: the dataset stays open, with a chunk cache, until the file is closed. */
static neap_status begin_reading(reading *r, neap_h5_item *it, bool keep, neap_error *err) {
  neap_h5_file *f = it->file;
  memset(r, 0, sizeof *r);
  r->item = it;
  r->m = (neap_h5_move){&f->disk, it->path, &it->desc, it->dataset, -1, H5P_DEFAULT};
  if (r->m.dataset < 0) r->m.dataset = H5Dopen2(f->disk.file, it->path, H5P_DEFAULT);
  if (keep && r->m.dataset >= 0 && it->dataset < 0) {
    r->m.dataset = reopen_with_cache(it, r->m.dataset);
    it->dataset = r->m.dataset;
    if (it->dataset >= 0) {
      it->next_open = f->open;
      f->open = it;
    }
  }
  if (r->m.dataset >= 0 && set_types(r)) return NEAP_OK;
  neap_status st = neap__h5_broken(&f->disk, it->path, "cannot open the dataset", err);
  end_reading(r);
  return st;
}

static neap_status read_part(reading *r, const hsize_t *start, const hsize_t *count, void *dst, size_t bytes,
                             neap_error *err) {
  const neap_h5_item *it = r->item;
  neap_status st = neap__h5_move_part(&r->m, start, count, dst, NULL, err);
  if (r->overflow)
    return neap__h5_fail(err, NEAP_RANGE, it->file->path, it->path, "the value %llu does not fit into int64",
                         (unsigned long long)r->value);
  if (st || it->desc.dtype != NEAP_BOOL) return st;
  const unsigned char *p = dst;
  for (size_t i = 0; i < bytes; i++)
    if (p[i] > 1) return neap__h5_fail(err, NEAP_CORRUPT, it->file->path, it->path, "a boolean is %d", (int)p[i]);
  return NEAP_OK;
}

/* --- what callers see ------------------------------------------------------------------------------- */

static neap_status dataset_of(neap_h5_item *item, neap_h5_item **out, neap_error *err) {
  neap_status st = neap__h5_resolve_locked(item, err);
  *out = neap__h5_real(item);
  if (st || item->kind == NEAP_H5_DATASET) return st;
  return neap__h5_fail(err, NEAP_INVALID, item->file->path, item->path, "expected a dataset of numbers, found a %s",
                       item->kind == NEAP_H5_GROUP ? "group" : "string");
}

static neap_status check_bytes(const neap_h5_item *it, const neap_desc *d, size_t bytes, neap_error *err) {
  char text[200];
  if (neap__desc_bytes(d) == bytes) return NEAP_OK;
  return neap__h5_fail(err, NEAP_SHAPE, it->file->path, it->path, "%s of %s takes %zu bytes, there are %zu for it",
                       neap__shape_text(&d->shape, text, sizeof text), neap__dtype_name(d->dtype), neap__desc_bytes(d),
                       bytes);
}

static neap_status check_crc(neap_h5_item *it, uint32_t crc, neap_error *err) {
  neap_status st = neap__h5_attrs_locked(it, err);
  if (st) return st;
  for (uint32_t i = 0; i < it->n_attrs; i++) {
    const neap_h5_attr *a = &it->attrs[i];
    if (strcmp(a->name, NEAP_H5_CRC) != 0 || (a->kind == NEAP_H5_ATTR_INT && a->v.i == (int64_t)crc)) continue;
    return neap__h5_fail(err, NEAP_CORRUPT, it->file->path, it->path,
                         "its data do not have the checksum that was stored with them");
  }
  return NEAP_OK;
}

static neap_status read_locked(neap_h5_item *item, void *dst, size_t bytes, neap_error *err) {
  neap_h5_item *it = NULL;
  reading r;
  neap_status st = dataset_of(item, &it, err);
  if (!st) st = check_bytes(it, &it->desc, bytes, err);
  if (st || bytes == 0) return st;
  if ((st = begin_reading(&r, it, false, err))) return st;
  st = read_part(&r, NULL, NULL, dst, bytes, err);
  end_reading(&r);
  return st ? st : check_crc(it, neap__crc32c(0, dst, bytes), err);
}

neap_status neap__h5_read(neap_h5_item *item, void *dst, size_t bytes, neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  neap_status st = read_locked(item, dst, bytes, err);
  neap__h5_leave(&g);
  return st;
}

/* The dataset and what `count` of its rows are. */
static neap_status rows_of(neap_h5_item *item, int64_t count, neap_h5_item **out, neap_desc *d, neap_error *err) {
  neap_error why = {.status = NEAP_OK};
  neap_status st = dataset_of(item, out, err);
  if (st) return st;
  const neap_h5_item *it = *out;
  *d = it->desc;
  if (d->shape.ndim == 0) return neap__h5_fail(err, NEAP_SHAPE, it->file->path, it->path, "a scalar has no rows");
  d->shape.dim[0] = count;
  st = neap__desc_check(d, &why);
  return st ? neap__h5_fail(err, st, it->file->path, it->path, "%lld rows: %s", (long long)count, why.message)
            : NEAP_OK;
}

static neap_status read_run(reading *r, int64_t first, int64_t count, char *dst, size_t bytes, neap_error *err) {
  const neap_shape *s = &r->item->desc.shape;
  hsize_t start[NEAP_MAX_DIMS] = {(hsize_t)first}, n[NEAP_MAX_DIMS];
  for (int32_t i = 0; i < s->ndim; i++) n[i] = (hsize_t)s->dim[i];
  n[0] = (hsize_t)count;
  return read_part(r, start, n, dst, bytes, err);
}

static neap_status read_rows_locked(neap_h5_item *item, int64_t start, int64_t count, void *dst, size_t bytes,
                                    neap_error *err) {
  neap_h5_item *it = NULL;
  neap_desc d;
  reading r;
  neap_status st = rows_of(item, count, &it, &d, err);
  if (st) return st;
  const int64_t n = it->desc.shape.dim[0];
  if (start < 0 || start > n || count > n - start)
    return neap__h5_fail(err, NEAP_RANGE, it->file->path, it->path, "%lld rows from row %lld on: there are %lld",
                         (long long)count, (long long)start, (long long)n);
  st = check_bytes(it, &d, bytes, err);
  if (st || bytes == 0) return st;
  if ((st = begin_reading(&r, it, true, err))) return st;
  st = read_run(&r, start, count, dst, bytes, err);
  end_reading(&r);
  return st;
}

neap_status neap__h5_read_rows(neap_h5_item *item, int64_t start, int64_t count, void *dst, size_t bytes,
                               neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  neap_status st = read_rows_locked(item, start, count, dst, bytes, err);
  neap__h5_leave(&g);
  return st;
}

static neap_status read_runs(reading *r, const int64_t *rows, size_t n, char *dst, size_t row_bytes, neap_error *err) {
  neap_status st = NEAP_OK;
  for (size_t i = 0, run; !st && i < n; i += run) {
    for (run = 1; i + run < n && rows[i + run] == rows[i] + (int64_t)run;) run++;
    st = read_run(r, rows[i], (int64_t)run, dst + i * row_bytes, run * row_bytes, err);
  }
  return st;
}

static neap_status read_index_locked(neap_h5_item *item, const int64_t *rows, size_t n, void *dst, size_t bytes,
                                     neap_error *err) {
  neap_h5_item *it = NULL;
  neap_desc d;
  reading r;
  neap_status st = rows_of(item, n > INT64_MAX ? INT64_MAX : (int64_t)n, &it, &d, err);
  if (!st) st = check_bytes(it, &d, bytes, err);
  if (st) return st;
  for (size_t i = 0; i < n; i++)
    if (rows[i] < 0 || rows[i] >= it->desc.shape.dim[0])
      return neap__h5_fail(err, NEAP_RANGE, it->file->path, it->path, "row %lld: there are %lld, from 0 on",
                           (long long)rows[i], (long long)it->desc.shape.dim[0]);
  if (n == 0 || bytes == 0) return NEAP_OK;
  if ((st = begin_reading(&r, it, true, err))) return st;
  st = read_runs(&r, rows, n, dst, bytes / n, err);
  end_reading(&r);
  return st;
}

neap_status neap__h5_read_index(neap_h5_item *item, const int64_t *rows, size_t n, void *dst, size_t bytes,
                                neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  neap_status st = read_index_locked(item, rows, n, dst, bytes, err);
  neap__h5_leave(&g);
  return st;
}

static neap_status begin_stream(reading *r, neap_h5_item *item, size_t staging_bytes, neap_error *err) {
  neap_h5_item *it = NULL;
  neap_status st = dataset_of(item, &it, err);
  if (!st && staging_bytes < neap__dtype_size(it->desc.dtype))
    st = neap__h5_fail(err, NEAP_INVALID, it->file->path, it->path, "a staging buffer of %zu bytes", staging_bytes);
  return st ? st : begin_reading(r, it, false, err);
}

neap_status neap__h5_stream(neap_h5_item *item, void *staging, size_t staging_bytes, neap_h5_sink sink, void *user,
                            neap_error *err) {
  neap_h5_guard g;
  neap_h5_pieces p;
  reading r;
  uint32_t crc = 0;
  neap__h5_enter(&g);
  neap_status st = begin_stream(&r, item, staging_bytes, err);
  if (!st) {
    neap__h5_pieces_init(&p, &r.item->desc, staging_bytes);
    while (!st && neap__h5_pieces_next(&p)) {
      st = read_part(&r, p.start, p.count, staging, p.bytes, err);
      if (st) break;
      crc = neap__crc32c(crc, staging, p.bytes);
      if (!sink) continue;
      /* The sink may block on a device; nobody else's HDF5 has to wait for that. */
      neap__h5_leave(&g);
      st = sink(user, p.offset, staging, p.bytes, err);
      neap__h5_enter(&g);
    }
    end_reading(&r);
    if (!st) st = check_crc(r.item, crc, err);
  }
  neap__h5_leave(&g);
  return st;
}
