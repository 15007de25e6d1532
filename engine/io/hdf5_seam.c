#include "io/hdf5_seam.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* libhdf5's state is the process's, so its lock has to be too. */
static pthread_mutex_t h5_lock = PTHREAD_MUTEX_INITIALIZER;

void neap__h5_enter(neap_h5_guard *g) {
  memset(g, 0, sizeof *g);
  pthread_mutex_lock(&h5_lock);
  /* An application built for HDF5 1.6 may have set a handler of the first kind, which the second kind of
   * call refuses to read. */
  H5Eauto_is_v2(H5E_DEFAULT, &g->v2);
  if (g->v2)
    H5Eget_auto2(H5E_DEFAULT, &g->fn2, &g->data);
  else
    H5Eget_auto1(&g->fn1, &g->data);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void neap__h5_leave(neap_h5_guard *g) {
  H5Eclear2(H5E_DEFAULT);
  if (g->v2)
    H5Eset_auto2(H5E_DEFAULT, g->fn2, g->data);
  else
    H5Eset_auto1(g->fn1, g->data);
  pthread_mutex_unlock(&h5_lock);
}

void neap__h5_quiet(void) {
  pthread_mutex_lock(&h5_lock);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  pthread_mutex_unlock(&h5_lock);
}

neap_status neap__h5_fail(neap_error *err, neap_status st, const char *file, const char *item, const char *fmt, ...) {
  char text[sizeof err->message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  bool named = item && item[0];
  return neap__fail(err, st, "%s: %s%s%s", file, named ? item : "", named ? ": " : "", text);
}

/* Upward from the innermost: the first description says what happened, later ones who was waiting for it. */
static herr_t innermost(unsigned n, const H5E_error2_t *e, void *user) {
  (void)n;
  char *text = user;
  if (text[0] == '\0' && e->desc && e->desc[0]) snprintf(text, 200, "%s", e->desc);
  return 0;
}

neap_status neap__h5_broken(neap_h5_disk *d, const char *item, const char *what, neap_error *err) {
  char text[200] = "";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, text);
  if (d->error) snprintf(text, sizeof text, "%s", strerror(d->error));
  neap_status st = d->error || d->writing ? NEAP_IO : NEAP_CORRUPT;
  return neap__h5_fail(err, st, d->path, item, "%s%s%s", what, text[0] ? ": " : "", text);
}

/* --- the driver ------------------------------------------------------------------------------------- */

/* libhdf5 keeps this until it closes the file; disk is NULL once the owner is gone. */
typedef struct neap_h5_vfd {
  H5FD_t pub;
  neap_h5_disk *disk;
  haddr_t eoa;
} vfd;

/* The driver's property: fapl_size bytes that libhdf5 copies. */
typedef struct vfd_info {
  neap_h5_disk *disk;
} vfd_info;

static H5FD_t *vfd_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr) {
  (void)name;
  (void)flags;
  (void)maxaddr;
  const vfd_info *info = H5Pget_driver_info(fapl);
  /* libhdf5's memory, not the host's: it may outlive us when libhdf5 fails to close. */
  vfd *f = info && !info->disk->open ? calloc(1, sizeof *f) : NULL;
  if (!f) return NULL;
  f->disk = info->disk;
  f->disk->open = f;
  return &f->pub;
}

static herr_t vfd_close(H5FD_t *file) {
  vfd *f = (vfd *)file;
  if (f->disk) f->disk->open = NULL;
  free(f);
  return 0;
}

static herr_t vfd_query(const H5FD_t *file, unsigned long *flags) {
  (void)file;
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

static haddr_t vfd_get_eoa(const H5FD_t *file, H5FD_mem_t type) {
  (void)type;
  return ((const vfd *)file)->eoa;
}

static herr_t vfd_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t addr) {
  (void)type;
  ((vfd *)file)->eoa = addr;
  return 0;
}

static haddr_t vfd_get_eof(const H5FD_t *file, H5FD_mem_t type) {
  (void)type;
  const vfd *f = (const vfd *)file;
  return f->disk ? f->disk->eof : f->eoa;
}

static herr_t vfd_read(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t addr, size_t size, void *buffer) {
  (void)type;
  (void)transfer;
  neap_h5_disk *d = ((vfd *)file)->disk;
  char *p = buffer;
  if (!d) return -1;
  while (size > 0) {
    ssize_t n = pread(d->fd, p, size, (off_t)addr);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (!d->error) d->error = errno;
      return -1;
    }
    if (n == 0) break;
    p += n;
    addr += (haddr_t)n;
    size -= (size_t)n;
  }
  /* A file being written ends where it has not been written yet, which reads as zeros. */
  if (size > 0 && !d->writing) return -1;
  memset(p, 0, size);
  return 0;
}

static herr_t vfd_write(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t addr, size_t size, const void *buffer) {
  (void)type;
  (void)transfer;
  neap_h5_disk *d = ((vfd *)file)->disk;
  const char *p = buffer;
  if (!d) return 0;
  if (!d->writing) return -1;
  if (addr + size > d->eof) d->eof = addr + size;
  while (size > 0 && !d->error) {
    ssize_t n = pwrite(d->fd, p, size, (off_t)addr);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      d->error = n < 0 ? errno : ENOSPC;
      break;
    }
    p += n;
    addr += (haddr_t)n;
    size -= (size_t)n;
  }
  return 0;
}

static herr_t vfd_truncate(H5FD_t *file, hid_t transfer, hbool_t closing) {
  (void)transfer;
  (void)closing;
  vfd *f = (vfd *)file;
  neap_h5_disk *d = f->disk;
  if (!d || !d->writing || f->eoa == d->eof) return 0;
  if (!d->error && ftruncate(d->fd, (off_t)f->eoa) != 0) d->error = errno;
  d->eof = f->eoa;
  return 0;
}

static const H5FD_class_t driver_class = {
    .name = "neap",
    .maxaddr = ((haddr_t)1 << 62) - 1,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(vfd_info),
    .open = vfd_open,
    .close = vfd_close,
    .query = vfd_query,
    .get_eoa = vfd_get_eoa,
    .set_eoa = vfd_set_eoa,
    .get_eof = vfd_get_eof,
    .read = vfd_read,
    .write = vfd_write,
    .truncate = vfd_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* How a file is opened: our driver, headers with checksums (object headers of version 2, HDF5 1.8). */
static hid_t access_list(neap_h5_disk *d) {
  vfd_info info = {d};
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  if (fapl < 0) return fapl;
  herr_t bad = H5Pset_driver(fapl, d->driver, &info);
  bad |= H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
  bad |= H5Pset_libver_bounds(fapl, d->writing ? H5F_LIBVER_V18 : H5F_LIBVER_EARLIEST,
                              d->writing ? H5F_LIBVER_V18 : H5F_LIBVER_LATEST);
  if (d->writing) {
    /* Nothing that was written may have to be read again, since a failed write left nothing to read:
     * metadata stay in memory until the file is closed, and there is no sieve to fill. */
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    bad |= H5Pget_mdc_config(fapl, &cache);
    cache.evictions_enabled = 0;
    cache.incr_mode = H5C_incr__off;
    cache.flash_incr_mode = H5C_flash_incr__off;
    cache.decr_mode = H5C_decr__off;
    bad |= H5Pset_mdc_config(fapl, &cache);
    bad |= H5Pset_sieve_buf_size(fapl, 0);
  }
  if (bad >= 0) return fapl;
  H5Pclose(fapl);
  return -1;
}

/* Order of creation is kept, so that what was saved in order is listed in order. */
static hid_t create_file(const neap_h5_disk *d, hid_t fapl) {
  hid_t fcpl = H5Pcreate(H5P_FILE_CREATE), file = -1;
  if (fcpl < 0) return -1;
  if (H5Pset_link_creation_order(fcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) >= 0)
    file = H5Fcreate(d->path, H5F_ACC_TRUNC, fcpl, fapl);
  if (file >= 0) H5Pclose(fcpl); /* a later call would clear the message of the failed one */
  return file;
}

static neap_status check_version(const neap_h5_disk *d, neap_error *err) {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0 || major != H5_VERS_MAJOR || minor != H5_VERS_MINOR)
    return neap__h5_fail(err, NEAP_UNSUPPORTED, d->path, NULL, "libhdf5 is %u.%u here and %d.%d was built against",
                         major, minor, H5_VERS_MAJOR, H5_VERS_MINOR);
  return NEAP_OK;
}

neap_status neap__h5_disk_open(neap_h5_disk *d, neap_error *err) {
  struct stat s;
  d->file = d->driver = -1;
  d->open = NULL;
  d->error = 0;
  neap_status st = check_version(d, err);
  if (st) return st;
  if (fstat(d->fd, &s) != 0) return neap__h5_fail(err, NEAP_IO, d->path, NULL, "%s", strerror(errno));
  d->eof = (haddr_t)s.st_size;
  d->driver = H5FDregister(&driver_class);
  if (d->driver < 0) return neap__h5_broken(d, NULL, "libhdf5 took no driver", err);
  hid_t fapl = access_list(d);
  if (fapl >= 0) d->file = d->writing ? create_file(d, fapl) : H5Fopen(d->path, H5F_ACC_RDONLY, fapl);
  if (d->file < 0)
    st = neap__h5_broken(d, NULL, d->writing ? "cannot begin an HDF5 file" : "not an HDF5 file, or a damaged one", err);
  if (fapl >= 0) H5Pclose(fapl);
  if (st) {
    H5FDunregister(d->driver);
    d->driver = -1;
  }
  return st;
}

neap_status neap__h5_disk_close(neap_h5_disk *d, neap_error *err) {
  neap_status st = NEAP_OK;
  if (d->file >= 0 && H5Fclose(d->file) < 0) st = neap__h5_broken(d, NULL, "cannot close the HDF5 file", err);
  if (d->driver >= 0) H5FDunregister(d->driver);
  d->file = d->driver = -1;
  if (d->open) d->open->disk = NULL; /* libhdf5 could not let go: it keeps an empty shell */
  d->open = NULL;
  if (!st && d->writing && d->error)
    st = neap__h5_fail(err, NEAP_IO, d->path, NULL, "cannot write: %s", strerror(d->error));
  return st;
}
