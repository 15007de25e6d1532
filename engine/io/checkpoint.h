/* Checkpoints: a flat list of named values and attributes, in one HDF5 file that is whole or absent. */
#ifndef NEAP_IO_CHECKPOINT_H
#define NEAP_IO_CHECKPOINT_H

#include "io/hdf5.h"

/* Written to the root as attribute "neap_checkpoint"; files with a higher one are refused. */
#define NEAP_CHECKPOINT_VERSION 1

typedef struct neap_checkpoint_entry {
  const char *path; /* "model/fc1.weight" */
  neap_desc desc;
  const void *data;    /* dense host bytes; NULL: fetch brings them (for values of no bytes neither is used) */
  neap_h5_fetch fetch; /* from the device, in pieces */
  void *user;
} neap_checkpoint_entry;

typedef struct neap_checkpoint_attr {
  const char *path; /* "state": the group (made when it is not there) or entry that has it; "": the root */
  neap_h5_attr attr;
} neap_checkpoint_attr;

/* staging is for entries with fetch, at least 8 bytes, usually a buffer reserved long before; NULL: one of
 * NEAP_CHECKPOINT_STAGING bytes is taken from the host when an entry needs it. What was at `path` stays
 * unless all went well. NEAP_IO (disk full, ...), NEAP_NOMEM, NEAP_INVALID (two entries of one path, ...),
 * or what fetch returned. */
#define NEAP_CHECKPOINT_STAGING 262144
neap_status neap__checkpoint_write(neap_host *h, const char *path, const neap_checkpoint_entry *entries, size_t n,
                                   const neap_checkpoint_attr *attrs, size_t n_attrs, void *staging,
                                   size_t staging_bytes, neap_error *err);

/* As neap__h5_open; NEAP_INVALID when it is HDF5 but no checkpoint, NEAP_UNSUPPORTED when it is a newer one.
 * Closed by neap__h5_close, and everything in hdf5.h may be done with it. */
neap_status neap__checkpoint_open(neap_host *h, const char *path, neap_h5_file **out, neap_error *err);
/* The value at `path`, which must have exactly this dtype (NEAP_DTYPE) and shape (NEAP_SHAPE), into dense host
 * memory, with its checksum held against its bytes. */
neap_status neap__checkpoint_read(neap_h5_file *f, const char *path, const neap_desc *d, void *dst, neap_error *err);
/* The same to somewhere else, in pieces. */
neap_status neap__checkpoint_read_to(neap_h5_file *f, const char *path, const neap_desc *d, void *staging,
                                     size_t staging_bytes, neap_h5_sink sink, void *user, neap_error *err);
/* The attribute of an item, of this kind (NEAP_DTYPE). An INT is taken for a REAL too. */
neap_status neap__checkpoint_attr(neap_h5_file *f, const char *path, const char *name, neap_h5_attr_kind kind,
                                  neap_h5_attr *out, neap_error *err);
/* Reads the whole file and holds every checksum against its bytes. */
neap_status neap__checkpoint_verify(neap_host *h, const char *path, neap_error *err);

#endif
