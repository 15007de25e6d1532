/* HDF5 files: a strict reader and a writer whose file is whole or absent.
 *
 * libhdf5 is process-wide and not thread-safe, so one mutex stands around every call made here; a host
 * that calls libhdf5 itself must not do so at the same time from another thread. Its automatic error
 * printing is silenced during calls and put back after them. Files and items belong to one thread at a
 * time; what is taken from the host's allocator is given back at close. */
#ifndef NEAP_IO_HDF5_H
#define NEAP_IO_HDF5_H

#include "base/host.h"
#include "tensor/shape.h"

typedef struct neap_h5_file neap_h5_file;
typedef struct neap_h5_item neap_h5_item;

typedef enum neap_h5_attr_kind {
  NEAP_H5_ATTR_OTHER = 0, /* of a type that is not read */
  NEAP_H5_ATTR_TEXT,
  NEAP_H5_ATTR_INT, /* booleans too */
  NEAP_H5_ATTR_REAL,
  NEAP_H5_ATTR_INTS,
  NEAP_H5_ATTR_REALS
} neap_h5_attr_kind;

typedef struct neap_h5_attr {
  const char *name;
  neap_h5_attr_kind kind;
  size_t n; /* bytes of text (a zero follows them); elements of INTS and REALS, in row-major order */
  union {
    const char *text; /* no zero inside */
    int64_t i;
    double f;
    const int64_t *ints;
    const double *reals;
  } v;
} neap_h5_attr;

typedef enum neap_h5_kind {
  NEAP_H5_LINK = 0, /* not looked at yet: neap__h5_resolve */
  NEAP_H5_GROUP,
  NEAP_H5_DATASET,
  NEAP_H5_STRING /* a dataset of one string */
} neap_h5_kind;

/* One named thing in an open file. Read-only for callers; lives until the file is closed. */
struct neap_h5_item {
  neap_h5_file *file;
  neap_h5_item *parent; /* NULL for the root */
  const char *name;
  const char *path; /* "train/images"; "" for the root */
  neap_h5_kind kind;
  neap_desc desc; /* of a DATASET: the dtype it is read as */

  /* The reader's own. */
  neap_h5_item *target;               /* what a soft link leads to */
  neap_h5_item **children, **by_name; /* in the file's order, and sorted */
  uint32_t n_children, n_attrs, depth;
  neap_h5_attr *attrs;
  neap_h5_item *next_open;
  int64_t dataset; /* id kept open for its chunk cache, or -1 */
  int8_t link;
  bool listed, attrs_read, resolving;
};

/* Opens for reading. cache_bytes bounds the decompressed chunks kept for row reads, over all datasets of
 * the file; they are libhdf5's own memory. NEAP_NOT_FOUND: no such file; NEAP_CORRUPT: truncated or not
 * HDF5; NEAP_IO, NEAP_NOMEM. */
neap_status neap__h5_open(neap_host *h, const char *path, uint64_t cache_bytes, neap_h5_file **out, neap_error *err);
void neap__h5_close(neap_h5_file *f); /* NULL is nothing */
neap_h5_item *neap__h5_root(neap_h5_file *f);
const char *neap__h5_path(const neap_h5_file *f);

/* The item at "a/b/c" below `from`, resolved. NEAP_NOT_FOUND says which part is missing and what is there. */
neap_status neap__h5_find(neap_h5_item *from, const char *path, neap_h5_item **out, neap_error *err);
/* Names in a group, in order of creation where the file knows it, else sorted. The items are not resolved. */
neap_status neap__h5_children(neap_h5_item *group, neap_h5_item *const **out, uint32_t *n, neap_error *err);
/* Fills kind and desc. Refuses external and user-defined links, virtual and external storage, filters other
 * than deflate, shuffle and fletcher32 (NEAP_UNSUPPORTED), types without a dtype of ours (NEAP_DTYPE), more
 * than NEAP_MAX_DIMS dimensions (NEAP_SHAPE) and sizes past 2^62 bytes (NEAP_RANGE). */
neap_status neap__h5_resolve(neap_h5_item *item, neap_error *err);
/* Calls fn for each dataset and string below (or at) `from`, depth first in order. Stops at the first
 * failure. */
typedef neap_status (*neap_h5_visit)(void *user, neap_h5_item *item, neap_error *err);
neap_status neap__h5_walk(neap_h5_item *from, neap_h5_visit fn, void *user, neap_error *err);

/* int8, int16 and uint16 are read as int32, uint32 and uint64 as int64 (NEAP_RANGE for values it cannot
 * hold), h5py's booleans as bool. bytes must be what desc takes (NEAP_SHAPE otherwise).
 * The whole dataset; its checksum is held against the file's, when it has one (NEAP_CORRUPT). */
neap_status neap__h5_read(neap_h5_item *item, void *dst, size_t bytes, neap_error *err);
/* Rows (entries of dimension 0) [start, start + count), or those listed, 0-based, in the order listed.
 * Neighbours in the list are read together. NEAP_RANGE for rows outside. */
neap_status neap__h5_read_rows(neap_h5_item *item, int64_t start, int64_t count, void *dst, size_t bytes,
                               neap_error *err);
neap_status neap__h5_read_index(neap_h5_item *item, const int64_t *rows, size_t n, void *dst, size_t bytes,
                                neap_error *err);
/* In pieces through `staging` (at least one element), checksum held as in neap__h5_read. sink may be NULL:
 * only the checksum is looked at. Offsets are bytes into the dense value. */
typedef neap_status (*neap_h5_sink)(void *user, size_t offset, const void *data, size_t bytes, neap_error *err);
neap_status neap__h5_stream(neap_h5_item *item, void *staging, size_t staging_bytes, neap_h5_sink sink, void *user,
                            neap_error *err);
/* A STRING; *text lives until the file is closed. */
neap_status neap__h5_read_text(neap_h5_item *item, const char **text, size_t *n, neap_error *err);

neap_status neap__h5_attrs(neap_h5_item *item, const neap_h5_attr **out, uint32_t *n, neap_error *err);
/* NEAP_NOT_FOUND naming item and attribute when it is not there. */
neap_status neap__h5_attr(neap_h5_item *item, const char *name, const neap_h5_attr **out, neap_error *err);

/* For programs that own their process: libhdf5 prints nothing of its own any more. Without it, libhdf5 1.10
 * may complain on stderr when the process ends after a file with damaged headers was met: it loses those
 * headers' memory. */
void neap__h5_quiet(void);

/* --- writing ---------------------------------------------------------------------------------------- */

typedef struct neap_h5_writer neap_h5_writer;

/* Brings bytes [offset, offset + bytes) of a dense value to dst. Must not call anything here. */
typedef neap_status (*neap_h5_fetch)(void *user, size_t offset, void *dst, size_t bytes, neap_error *err);

/* Begins a new file beside `path`; what is at `path` stays as it is until commit. Where the file system can, the new
 * file has no name before that, so that a process that is killed leaves none behind; else "<path>.tmp-<pid>-<n>".
 * NEAP_INVALID when `path` is there and is not a regular file. After the first failure of a call below, the
 * others and commit fail with the same error. */
neap_status neap__h5_writer_begin(neap_host *h, const char *path, neap_h5_writer **out, neap_error *err);
/* Paths are "a/b/c"; groups on the way are made. A group that is there already is no error. */
neap_status neap__h5_write_group(neap_h5_writer *w, const char *path, neap_error *err);
/* Contiguous, with its checksum. Refuses a path that is there already (NEAP_INVALID). */
neap_status neap__h5_write(neap_h5_writer *w, const char *path, const neap_desc *d, const void *data, neap_error *err);
/* The same from somewhere else, through `staging` (at least one element). */
neap_status neap__h5_write_from(neap_h5_writer *w, const char *path, const neap_desc *d, neap_h5_fetch fetch,
                                void *user, void *staging, size_t staging_bytes, neap_error *err);
/* On a group or dataset ("" is the root); where there is neither, a group is made. */
neap_status neap__h5_write_attr(neap_h5_writer *w, const char *path, const neap_h5_attr *attr, neap_error *err);
/* Flushes, syncs, reads back and verifies, then renames over the target and syncs the directory. On failure
 * the temporary is gone and the target as it was (unless only the last sync failed, which err says). Frees w
 * either way. */
neap_status neap__h5_writer_commit(neap_h5_writer *w, neap_error *err);
void neap__h5_writer_abort(neap_h5_writer *w); /* removes the temporary and frees w; NULL is nothing */

#endif
