/* Writing files that are whole or absent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "io/hdf5_seam.h"

#define MOST_PATH 1000
#define CHECK_BYTES 65536 /* read-back goes through this much, taken at the start: the end must not fail for it */

struct neap_h5_writer {
  neap_host *host;
  neap_h5_disk disk;
  bool nameless; /* the temporary file, until it is whole: its path is then one of /proc */
  char *path, *temporary;
  size_t path_bytes, temporary_bytes;
  void *check;
  hid_t group_list, dataset_list;
  uint64_t datasets, digest; /* of what was written, to be found again */
  neap_error failed;         /* the first failure; later calls repeat it */
};

/* --- beginning -------------------------------------------------------------------------------------- */

static void writer_free(neap_h5_writer *w) {
  neap_host *h = w->host;
  if (w->disk.fd >= 0) close(w->disk.fd);
  neap__free(h, w->check, CHECK_BYTES);
  neap__free(h, w->temporary, w->temporary_bytes);
  neap__free(h, w->path, w->path_bytes);
  neap__free(h, w, sizeof *w);
}

static neap_h5_writer *writer_new(neap_host *h, const char *path) {
  neap_h5_writer *w = neap__calloc(h, 1, sizeof *w);
  if (!w) return NULL;
  w->host = h;
  w->disk = (neap_h5_disk){.fd = -1, .writing = true, .driver = -1, .file = -1};
  w->group_list = w->dataset_list = -1;
  w->path_bytes = strlen(path) + 1;
  w->temporary_bytes = w->path_bytes + 48; /* ".tmp-<pid>-<n>" */
  w->path = neap__alloc(h, w->path_bytes);
  w->temporary = neap__alloc(h, w->temporary_bytes);
  w->check = neap__alloc(h, CHECK_BYTES);
  if (!w->path || !w->temporary || !w->check) {
    writer_free(w);
    return NULL;
  }
  memcpy(w->path, path, w->path_bytes);
  w->disk.path = w->path;
  return w;
}

/* The folder of the path, opened; negative with errno when it cannot be. */
static int open_folder(const neap_h5_writer *w, int flags, mode_t mode) {
  char *slash = strrchr(w->path, '/');
  if (!slash || slash == w->path) return open(slash ? "/" : ".", flags | O_CLOEXEC, mode);
  *slash = '\0';
  const int fd = open(w->path, flags | O_CLOEXEC, mode);
  *slash = '/';
  return fd;
}

/* A file without a name, which ends with a process that is killed. Not every file system has them, and it is read and
 * named through /proc. */
static bool create_nameless(neap_h5_writer *w) {
  w->disk.fd = open_folder(w, O_TMPFILE | O_RDWR, 0666);
  if (w->disk.fd < 0) return false;
  snprintf(w->temporary, w->temporary_bytes, "/proc/self/fd/%d", w->disk.fd);
  struct stat by_fd, by_name;
  w->nameless = fstat(w->disk.fd, &by_fd) == 0 && stat(w->temporary, &by_name) == 0 && by_fd.st_ino == by_name.st_ino;
  if (w->nameless) return true;
  close(w->disk.fd);
  w->disk.fd = -1;
  return false;
}

/* A name that nobody has: creating it is what tells, so several writers in a process need no counter in common. A file
 * without a name is there already and gets it. */
static bool take_name(neap_h5_writer *w) {
  char unnamed[32];
  snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", w->disk.fd);
  for (int n = 0; n < 10000; n++) {
    snprintf(w->temporary, w->temporary_bytes, "%s.tmp-%ld-%d", w->path, (long)getpid(), n);
    if (w->nameless) {
      if (linkat(AT_FDCWD, unnamed, AT_FDCWD, w->temporary, AT_SYMLINK_FOLLOW) == 0) return true;
    } else {
      w->disk.fd = open(w->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (w->disk.fd >= 0) return true;
    }
    if (errno != EEXIST) break;
  }
  return false;
}

static neap_status create_temporary(neap_h5_writer *w, neap_error *err) {
  struct stat s;
  const bool there = stat(w->path, &s) == 0;
  if (there && !S_ISREG(s.st_mode))
    return neap__h5_fail(err, NEAP_INVALID, w->path, NULL, "it is there and not a regular file");
  if (!create_nameless(w) && !take_name(w))
    return neap__h5_fail(err, errno == ENOENT || errno == ENOTDIR ? NEAP_NOT_FOUND : NEAP_IO, w->path, NULL,
                         "cannot create a file beside it: %s", strerror(errno));
  /* Best effort: a private file stays private. */
  if (there && fchmod(w->disk.fd, s.st_mode & 0777) != 0) errno = 0;
  return NEAP_OK;
}

static bool make_lists(neap_h5_writer *w) {
  w->group_list = H5Pcreate(H5P_GROUP_CREATE);
  w->dataset_list = H5Pcreate(H5P_DATASET_CREATE);
  return w->group_list >= 0 && w->dataset_list >= 0 &&
         H5Pset_link_creation_order(w->group_list, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) >= 0 &&
         H5Pset_fill_time(w->dataset_list, H5D_FILL_TIME_NEVER) >= 0;
}

static void close_lists(neap_h5_writer *w) {
  if (w->group_list >= 0) H5Pclose(w->group_list);
  if (w->dataset_list >= 0) H5Pclose(w->dataset_list);
  w->group_list = w->dataset_list = -1;
}

static neap_status close_file(neap_h5_writer *w, neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  close_lists(w);
  neap_status st = neap__h5_disk_close(&w->disk, err);
  neap__h5_leave(&g);
  return st;
}

void neap__h5_writer_abort(neap_h5_writer *w) {
  if (!w) return;
  close_file(w, NULL);
  if (w->disk.fd >= 0 && !w->nameless) unlink(w->temporary);
  writer_free(w);
}

neap_status neap__h5_writer_begin(neap_host *h, const char *path, neap_h5_writer **out, neap_error *err) {
  neap_h5_guard g;
  neap_h5_writer *w = writer_new(h, path);
  if (!w) return neap__fail(err, NEAP_NOMEM, "%s: no host memory to write it", path);
  neap_status st = create_temporary(w, err);
  if (!st) {
    neap__h5_enter(&g);
    st = neap__h5_disk_open(&w->disk, err);
    if (!st && !make_lists(w)) st = neap__h5_broken(&w->disk, NULL, "cannot begin an HDF5 file", err);
    neap__h5_leave(&g);
  }
  if (st)
    neap__h5_writer_abort(w);
  else
    *out = w;
  return st;
}

/* --- groups ----------------------------------------------------------------------------------------- */

static neap_status check_path(const neap_h5_writer *w, const char *path, neap_error *err) {
  const size_t n = strlen(path);
  bool good = n > 0 && n <= MOST_PATH;
  for (const char *p = path; good && *p;) {
    const size_t length = strcspn(p, "/");
    good = length > 0 && !(length == 1 && *p == '.') && p[length + (p[length] == '/')] != '/';
    if (p[length] == '/' && p[length + 1] == '\0') good = false;
    p += length + (p[length] == '/');
  }
  if (good) return NEAP_OK;
  return neap__h5_fail(err, NEAP_INVALID, w->path, NULL,
                       "'%.80s' is no path of an item: expected names separated by '/', at most %d bytes", path,
                       MOST_PATH);
}

static neap_status make_group(neap_h5_writer *w, const char *path, neap_error *err) {
  const htri_t there = H5Lexists(w->disk.file, path, H5P_DEFAULT);
  hid_t id = -1;
  if (there == 0) id = H5Gcreate2(w->disk.file, path, H5P_DEFAULT, w->group_list, H5P_DEFAULT);
  if (there > 0) id = H5Oopen(w->disk.file, path, H5P_DEFAULT);
  if (id < 0) return neap__h5_broken(&w->disk, path, "cannot make the group", err);
  const bool group = H5Iget_type(id) == H5I_GROUP;
  H5Oclose(id);
  return group ? NEAP_OK : neap__h5_fail(err, NEAP_INVALID, w->path, path, "expected a group, it is a dataset");
}

/* The groups on the way to path, and with `last` path itself. */
static neap_status make_groups(neap_h5_writer *w, const char *path, bool last, neap_error *err) {
  char part[MOST_PATH + 1];
  neap_status st = check_path(w, path, err);
  for (const char *p = path; !st && (p = strchr(p, '/')); p++) {
    memcpy(part, path, (size_t)(p - path));
    part[p - path] = '\0';
    st = make_group(w, part, err);
  }
  return st || !last ? st : make_group(w, path, err);
}

/* Ends every call that writes: an error of the disk counts at once, the first failure stays. */
static neap_status settle(neap_h5_writer *w, neap_status st, const char *path, neap_error *err) {
  if (!st && w->disk.error)
    st = neap__h5_fail(&w->failed, NEAP_IO, w->path, path, "cannot write: %s", strerror(w->disk.error));
  if (st && w->failed.status == NEAP_OK) /* a fetch that gave no reason */
    neap__h5_fail(&w->failed, st, w->path, path, "its data could not be fetched");
  if (st && err) *err = w->failed;
  return st;
}

neap_status neap__h5_write_group(neap_h5_writer *w, const char *path, neap_error *err) {
  neap_h5_guard g;
  if (w->failed.status) return settle(w, w->failed.status, path, err);
  neap__h5_enter(&g);
  neap_status st = make_groups(w, path, true, &w->failed);
  neap__h5_leave(&g);
  return settle(w, st, path, err);
}

/* --- attributes ------------------------------------------------------------------------------------- */

static neap_status put_attr(neap_h5_writer *w, hid_t object, const char *path, const char *name, hid_t type,
                            hid_t space, const void *data, neap_error *err) {
  if (type < 0 || space < 0) return neap__h5_broken(&w->disk, path, "cannot write an attribute", err);
  if (H5Aexists(object, name) > 0)
    return neap__h5_fail(err, NEAP_INVALID, w->path, path, "attribute '%s' is there already", name);
  hid_t attr = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  neap_status st = NEAP_OK;
  if (attr < 0 || H5Awrite(attr, type, data) < 0)
    st = neap__h5_broken(&w->disk, path, "cannot write an attribute", err);
  if (attr >= 0) H5Aclose(attr);
  return st;
}

/* Fixed length rather than variable: such strings lie in the object's header, which has a checksum. */
static hid_t text_type(size_t n) {
  hid_t t = H5Tcopy(H5T_C_S1);
  if (t < 0) return t;
  if (H5Tset_size(t, n + 1) >= 0 && H5Tset_cset(t, H5T_CSET_UTF8) >= 0) return t;
  H5Tclose(t);
  return -1;
}

static neap_status check_attr(const neap_h5_writer *w, const char *path, const neap_h5_attr *a, neap_error *err) {
  if (!a->name || a->name[0] == '\0' || strlen(a->name) > 255)
    return neap__h5_fail(err, NEAP_INVALID, w->path, path, "an attribute's name has 1 to 255 bytes");
  if (a->kind <= NEAP_H5_ATTR_OTHER || a->kind > NEAP_H5_ATTR_REALS)
    return neap__h5_fail(err, NEAP_INVALID, w->path, path, "attribute '%s' has no type that is written", a->name);
  if (a->kind == NEAP_H5_ATTR_TEXT && memchr(a->v.text, '\0', a->n))
    return neap__h5_fail(err, NEAP_INVALID, w->path, path, "the text of attribute '%s' has a zero byte inside",
                         a->name);
  return NEAP_OK;
}

static neap_status write_attr_to(neap_h5_writer *w, hid_t object, const char *path, const neap_h5_attr *a,
                                 neap_error *err) {
  const bool list = a->kind == NEAP_H5_ATTR_INTS || a->kind == NEAP_H5_ATTR_REALS;
  const bool real = a->kind == NEAP_H5_ATTR_REAL || a->kind == NEAP_H5_ATTR_REALS;
  const hsize_t n = a->n;
  const void *data = &a->v;
  if (a->kind == NEAP_H5_ATTR_TEXT) data = a->v.text;
  if (list && n > 0) data = real ? (const void *)a->v.reals : (const void *)a->v.ints;
  hid_t type = a->kind == NEAP_H5_ATTR_TEXT ? text_type(a->n) : H5Tcopy(real ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64);
  hid_t space = list ? H5Screate_simple(1, &n, NULL) : H5Screate(H5S_SCALAR);
  neap_status st = put_attr(w, object, path, a->name, type, space, data, err);
  if (type >= 0) H5Tclose(type);
  if (space >= 0) H5Sclose(space);
  return st;
}

static neap_status write_attr_locked(neap_h5_writer *w, const char *path, const neap_h5_attr *a, neap_error *err) {
  neap_status st = check_attr(w, path, a, err);
  if (!st && path[0]) st = make_groups(w, path, false, err);
  if (!st && path[0] && H5Lexists(w->disk.file, path, H5P_DEFAULT) == 0) st = make_group(w, path, err);
  if (st) return st;
  hid_t object = H5Oopen(w->disk.file, path[0] ? path : "/", H5P_DEFAULT);
  if (object < 0) return neap__h5_broken(&w->disk, path, "cannot open the item", err);
  st = write_attr_to(w, object, path, a, err);
  H5Oclose(object);
  return st;
}

neap_status neap__h5_write_attr(neap_h5_writer *w, const char *path, const neap_h5_attr *attr, neap_error *err) {
  neap_h5_guard g;
  if (w->failed.status) return settle(w, w->failed.status, path, err);
  neap__h5_enter(&g);
  neap_status st = write_attr_locked(w, path, attr, &w->failed);
  neap__h5_leave(&g);
  return settle(w, st, path, err);
}

/* --- datasets --------------------------------------------------------------------------------------- */

/* Where the bytes come from: data, or fetch through staging. */
typedef struct source {
  const void *data;
  neap_h5_fetch fetch;
  void *user, *staging;
  size_t staging_bytes;
} source;

static neap_status check_new(neap_h5_writer *w, const char *path, const neap_desc *d, neap_error *err) {
  neap_error why = {.status = NEAP_OK};
  neap_status st = neap__desc_check(d, &why);
  if (st) return neap__h5_fail(err, st, w->path, path, "%s", why.message);
  st = make_groups(w, path, false, err);
  if (!st && H5Lexists(w->disk.file, path, H5P_DEFAULT) > 0)
    st = neap__h5_fail(err, NEAP_INVALID, w->path, path, "it is there already");
  return st;
}

static neap_status create_dataset(neap_h5_writer *w, neap_h5_move *m, neap_error *err) {
  const neap_shape *s = &m->desc->shape;
  hsize_t dims[NEAP_MAX_DIMS];
  for (int32_t i = 0; i < s->ndim; i++) dims[i] = (hsize_t)s->dim[i];
  hid_t space = s->ndim > 0 ? H5Screate_simple(s->ndim, dims, NULL) : H5Screate(H5S_SCALAR);
  m->type = neap__h5_type(m->desc->dtype);
  if (space >= 0 && m->type >= 0)
    m->dataset = H5Dcreate2(w->disk.file, m->item, m->type, space, H5P_DEFAULT, w->dataset_list, H5P_DEFAULT);
  neap_status st = m->dataset < 0 ? neap__h5_broken(&w->disk, m->item, "cannot make the dataset", err) : NEAP_OK;
  if (space >= 0) H5Sclose(space);
  return st;
}

static neap_status put_crc(neap_h5_writer *w, const neap_h5_move *m, uint32_t crc, neap_error *err) {
  hid_t space = H5Screate(H5S_SCALAR);
  neap_status st = put_attr(w, m->dataset, m->item, NEAP_H5_CRC, H5T_NATIVE_UINT32, space, &crc, err);
  if (space >= 0) H5Sclose(space);
  w->datasets++;
  w->digest += neap__crc32c(crc, m->item, strlen(m->item));
  return st;
}

/* The fetch may block on a device; nobody else's HDF5 has to wait for that. */
static neap_status put_pieces(neap_h5_writer *w, const neap_h5_move *m, const source *s, uint32_t *crc,
                              neap_h5_guard *g, neap_error *err) {
  neap_h5_pieces p;
  neap_status st = NEAP_OK;
  neap__h5_pieces_init(&p, m->desc, s->staging_bytes);
  while (!st && !w->disk.error && neap__h5_pieces_next(&p)) {
    neap__h5_leave(g);
    st = s->fetch(s->user, p.offset, s->staging, p.bytes, err);
    neap__h5_enter(g);
    if (st) break;
    *crc = neap__crc32c(*crc, s->staging, p.bytes);
    st = neap__h5_move_part(m, p.start, p.count, NULL, s->staging, err);
  }
  return st;
}

static neap_status put_all(const neap_h5_move *m, const source *s, uint32_t *crc, neap_error *err) {
  const size_t bytes = neap__desc_bytes(m->desc);
  if (bytes == 0) return NEAP_OK;
  *crc = neap__crc32c(0, s->data, bytes);
  return neap__h5_move_part(m, NULL, NULL, NULL, s->data, err);
}

static neap_status write_locked(neap_h5_writer *w, const char *path, const neap_desc *d, const source *s,
                                neap_h5_guard *g, neap_error *err) {
  neap_h5_move m = {&w->disk, path, d, -1, -1, H5P_DEFAULT};
  uint32_t crc = 0;
  neap_status st = check_new(w, path, d, err);
  if (!st && s->fetch && s->staging_bytes < neap__dtype_size(d->dtype))
    st = neap__h5_fail(err, NEAP_INVALID, w->path, path, "a staging buffer of %zu bytes", s->staging_bytes);
  if (!st) st = create_dataset(w, &m, err);
  if (!st) st = s->fetch ? put_pieces(w, &m, s, &crc, g, err) : put_all(&m, s, &crc, err);
  if (!st) st = put_crc(w, &m, crc, err);
  if (m.dataset >= 0) H5Dclose(m.dataset);
  if (m.type >= 0) H5Tclose(m.type);
  return st;
}

static neap_status write_dataset(neap_h5_writer *w, const char *path, const neap_desc *d, const source *s,
                                 neap_error *err) {
  neap_h5_guard g;
  if (w->failed.status) return settle(w, w->failed.status, path, err);
  neap__h5_enter(&g);
  neap_status st = write_locked(w, path, d, s, &g, &w->failed);
  neap__h5_leave(&g);
  return settle(w, st, path, err);
}

neap_status neap__h5_write(neap_h5_writer *w, const char *path, const neap_desc *d, const void *data, neap_error *err) {
  return write_dataset(w, path, d, &(source){.data = data}, err);
}

neap_status neap__h5_write_from(neap_h5_writer *w, const char *path, const neap_desc *d, neap_h5_fetch fetch,
                                void *user, void *staging, size_t staging_bytes, neap_error *err) {
  const source s = {.fetch = fetch, .user = user, .staging = staging, .staging_bytes = staging_bytes};
  return write_dataset(w, path, d, &s, err);
}

/* --- committing ------------------------------------------------------------------------------------- */

typedef struct check {
  neap_h5_writer *w;
  uint64_t datasets, digest;
} check;

static neap_status check_one(void *user, neap_h5_item *item, neap_error *err) {
  check *c = user;
  const neap_h5_attr *crc = NULL;
  neap_status st = neap__h5_attr(item, NEAP_H5_CRC, &crc, err);
  if (!st) st = neap__h5_stream(item, c->w->check, CHECK_BYTES, NULL, NULL, err);
  if (st) return st;
  c->datasets++;
  c->digest += neap__crc32c((uint32_t)crc->v.i, item->path, strlen(item->path));
  return NEAP_OK;
}

static neap_status read_back(neap_h5_writer *w, neap_error *err) {
  neap_h5_file *f = NULL;
  check c = {.w = w};
  neap_status st = neap__h5_open(w->host, w->temporary, 0, &f, err);
  if (st) return st;
  st = neap__h5_walk(neap__h5_root(f), check_one, &c, err);
  neap__h5_close(f);
  if (!st && (c.datasets != w->datasets || c.digest != w->digest))
    st = neap__h5_fail(err, NEAP_IO, w->path, NULL, "what was written does not read back as it was");
  return st;
}

static neap_status sync_directory(const neap_h5_writer *w, neap_error *err) {
  const int fd = open_folder(w, O_RDONLY | O_DIRECTORY, 0);
  const int bad = fd < 0 || fsync(fd) != 0 ? errno : 0;
  if (fd >= 0) close(fd);
  /* Some file systems have nothing to sync for a directory and say so. */
  if (!bad || bad == EINVAL) return NEAP_OK;
  return neap__h5_fail(err, NEAP_IO, w->path, NULL, "written, but its directory could not be synced: %s",
                       strerror(bad));
}

static neap_status publish(neap_h5_writer *w, neap_error *err) {
  neap_status st = close_file(w, err);
  if (!st && fsync(w->disk.fd) != 0)
    st = neap__h5_fail(err, NEAP_IO, w->path, NULL, "cannot sync what was written: %s", strerror(errno));
  if (!st) st = read_back(w, err);
  if (!st && w->nameless) {
    if (take_name(w))
      w->nameless = false;
    else
      st = neap__h5_fail(err, NEAP_IO, w->path, NULL, "cannot name the new file: %s", strerror(errno));
  }
  if (!st && rename(w->temporary, w->path) != 0)
    st = neap__h5_fail(err, NEAP_IO, w->path, NULL, "cannot put the new file in its place: %s", strerror(errno));
  if (st && !w->nameless) unlink(w->temporary);
  return st ? st : sync_directory(w, err);
}

neap_status neap__h5_writer_commit(neap_h5_writer *w, neap_error *err) {
  neap_status st = w->failed.status;
  if (st) {
    if (err) *err = w->failed;
    neap__h5_writer_abort(w);
    return st;
  }
  st = publish(w, err);
  writer_free(w);
  return st;
}
