/* What the HDF5 files of this folder share: how libhdf5 is entered, what stands between it and the disk,
 * and how its types meet ours. Nothing outside engine/io includes this. */
#ifndef NEAP_IO_HDF5_SEAM_H
#define NEAP_IO_HDF5_SEAM_H

#define H5_USE_110_API
#include <hdf5.h>
/* libhdf5's own check of header against library prints and aborts; neap__h5_disk_open makes it an error. */
#undef H5CHECK
#define H5CHECK

#include "io/hdf5.h"

/* --- entering --------------------------------------------------------------------------------------- */

/* The application's automatic error printing, kept while ours is off. */
typedef struct neap_h5_guard {
  unsigned v2;
  H5E_auto2_t fn2;
  H5E_auto1_t fn1;
  void *data;
} neap_h5_guard;

void neap__h5_enter(neap_h5_guard *g); /* takes the process's one HDF5 mutex; not recursive */
void neap__h5_leave(neap_h5_guard *g);

/* "FILE: ITEM: message"; item NULL or "" leaves it out. */
neap_status neap__h5_fail(neap_error *err, neap_status st, const char *file, const char *item, const char *fmt, ...)
    NEAP_PRINTF(5, 6);

/* --- the disk --------------------------------------------------------------------------------------- */

/* libhdf5 1.10 neither syncs nor survives a full disk: a failed write leaves it with objects that it
 * cannot let go. So it writes through a driver of ours, which takes every write, remembers the first
 * error, and lets libhdf5 come to its end in peace; the file is then thrown away. */
typedef struct neap_h5_disk {
  const char *path; /* for messages; the owner's */
  int fd;           /* the owner's; libhdf5 never closes it */
  int error;        /* errno of the first failed read or write */
  bool writing;
  haddr_t eof;
  struct neap_h5_vfd *open; /* what libhdf5 holds; NULL when it let go */
  hid_t driver, file;
} neap_h5_disk;

/* Opens (or, writing, begins) the HDF5 file on d->fd. Locked. */
neap_status neap__h5_disk_open(neap_h5_disk *d, neap_error *err);
/* Closes it, with every object still open in it. NEAP_IO for writes that failed. Locked; once. */
neap_status neap__h5_disk_close(neap_h5_disk *d, neap_error *err);
/* An HDF5 call on d failed: `what`, with the errno or the innermost message of libhdf5's stack. NEAP_IO when
 * the disk failed or d is written, NEAP_CORRUPT otherwise. To be called before any other HDF5 call. */
neap_status neap__h5_broken(neap_h5_disk *d, const char *item, const char *what, neap_error *err);

/* --- types ------------------------------------------------------------------------------------------ */

/* A new id of the type that our dtype has in files and in memory. Negative when libhdf5 failed. */
hid_t neap__h5_type(neap_dtype t);
/* The dtype a file's type is read as; false when there is none, with a description in `found`. */
bool neap__h5_dtype(hid_t type, neap_dtype *out, char *found, size_t size);
bool neap__h5_is_text(hid_t type);

/* --- pieces ----------------------------------------------------------------------------------------- */

/* Cuts a dense value into hyperslabs, consecutive in memory, of at most `most` bytes each. */
typedef struct neap_h5_pieces {
  neap_desc desc;
  int32_t split; /* dimensions before it are taken one at a time, those after it whole */
  hsize_t step;  /* entries of dimension `split` a piece */
  hsize_t start[NEAP_MAX_DIMS], count[NEAP_MAX_DIMS];
  size_t offset, bytes; /* of this piece in the dense value */
  bool begun;
} neap_h5_pieces;

void neap__h5_pieces_init(neap_h5_pieces *p, const neap_desc *d, size_t most); /* most >= one element */
bool neap__h5_pieces_next(neap_h5_pieces *p); /* false at the end; a value of no elements has no pieces */

/* A dataset open for transfers. */
typedef struct neap_h5_move {
  neap_h5_disk *disk;
  const char *item; /* for messages */
  const neap_desc *desc;
  hid_t dataset, type, transfer; /* type: in memory */
} neap_h5_move;

/* Between the dataset's hyperslab (start and count; NULL: all of it) and one of in (read) and out (written);
 * the other is NULL. */
neap_status neap__h5_move_part(const neap_h5_move *m, const hsize_t *start, const hsize_t *count, void *in,
                               const void *out, neap_error *err);

/* --- files ------------------------------------------------------------------------------------------ */

struct neap_h5_file {
  neap_host *host;
  neap_zone zone; /* items, names, attributes */
  neap_h5_disk disk;
  char *path;
  uint64_t cache_left;
  neap_h5_item *root;
  neap_h5_item *open; /* items that keep a dataset open */
};

/* Locked versions of what hdf5.h has. */
neap_status neap__h5_resolve_locked(neap_h5_item *item, neap_error *err);
neap_status neap__h5_attrs_locked(neap_h5_item *item, neap_error *err);
/* Follows a soft link; only for resolved items. */
static inline neap_h5_item *neap__h5_real(neap_h5_item *item) { return item->target ? item->target : item; }
/* The attribute's string or strings, or a dataset's, of `type`: fills text and n, in the file's zone. */
neap_status neap__h5_text_locked(neap_h5_item *item, hid_t object, bool is_attr, hid_t type, const char **text,
                                 size_t *n, neap_error *err);

#define NEAP_H5_CRC "neap_crc32c" /* attribute of a dataset: CRC-32C of its dense little-endian bytes */

#endif
