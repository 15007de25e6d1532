/* Open files and the tree of their items, which grows as it is looked at. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/hdf5_seam.h"

/* Hard links may form circles; a real file is never as deep. */
#define MOST_DEPTH 64

enum { LINK_HARD, LINK_SOFT, LINK_REFUSED };

static neap_status no_memory(const neap_h5_file *f, neap_error *err) {
  return neap__h5_fail(err, NEAP_NOMEM, f->path, NULL, "no host memory for its contents");
}

/* --- opening ---------------------------------------------------------------------------------------- */

static neap_h5_item *item_new(neap_h5_file *f, neap_h5_item *parent, const char *name, int8_t link) {
  neap_h5_item *it = neap__zone_alloc(&f->zone, sizeof *it);
  if (!it) return NULL;
  it->file = f;
  it->parent = parent;
  it->link = link;
  it->dataset = -1;
  it->depth = parent ? parent->depth + 1 : 0;
  it->name = neap__zone_strdup(&f->zone, name);
  const size_t before = parent ? strlen(parent->path) : 0;
  const size_t bytes = before + strlen(name) + 2;
  char *path = neap__zone_alloc(&f->zone, bytes);
  if (!it->name || !path) return NULL;
  snprintf(path, bytes, "%s%s%s", before > 0 ? parent->path : "", before > 0 ? "/" : "", name);
  it->path = path;
  return it;
}

static neap_status open_fd(const char *path, int *fd, neap_error *err) {
  struct stat s;
  /* Opening what is no file may block or do something. It is looked at again once it is open. */
  if (stat(path, &s) == 0 && !S_ISREG(s.st_mode))
    return neap__h5_fail(err, NEAP_INVALID, path, NULL, "not a regular file");
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*fd < 0)
    return neap__h5_fail(err, errno == ENOENT || errno == ENOTDIR ? NEAP_NOT_FOUND : NEAP_IO, path, NULL,
                         "cannot open: %s", strerror(errno));
  if (fstat(*fd, &s) == 0 && S_ISREG(s.st_mode)) return NEAP_OK;
  close(*fd);
  *fd = -1;
  return neap__h5_fail(err, NEAP_INVALID, path, NULL, "not a regular file");
}

static void file_free(neap_h5_file *f) {
  neap_host *h = f->host;
  if (f->disk.fd >= 0) close(f->disk.fd);
  if (f->path) neap__free(h, f->path, strlen(f->path) + 1);
  neap__zone_free(&f->zone);
  neap__free(h, f, sizeof *f);
}

static neap_h5_file *file_new(neap_host *h, const char *path) {
  neap_h5_file *f = neap__calloc(h, 1, sizeof *f);
  if (!f) return NULL;
  f->host = h;
  f->disk.fd = -1;
  neap__zone_init(&f->zone, h);
  f->path = neap__alloc(h, strlen(path) + 1);
  if (f->path) {
    memcpy(f->path, path, strlen(path) + 1);
    f->root = item_new(f, NULL, "", LINK_HARD);
  }
  if (f->root) return f;
  file_free(f);
  return NULL;
}

neap_status neap__h5_open(neap_host *h, const char *path, uint64_t cache_bytes, neap_h5_file **out, neap_error *err) {
  neap_h5_file *f = file_new(h, path);
  neap_h5_guard g;
  if (!f) return neap__fail(err, NEAP_NOMEM, "%s: no host memory to open it", path);
  f->cache_left = cache_bytes;
  f->disk.path = f->path;
  f->root->kind = NEAP_H5_GROUP;
  neap_status st = open_fd(path, &f->disk.fd, err);
  if (!st) {
    neap__h5_enter(&g);
    st = neap__h5_disk_open(&f->disk, err);
    neap__h5_leave(&g);
  }
  if (st)
    file_free(f);
  else
    *out = f;
  return st;
}

void neap__h5_close(neap_h5_file *f) {
  neap_h5_guard g;
  if (!f) return;
  neap__h5_enter(&g);
  for (neap_h5_item *it = f->open; it; it = it->next_open) H5Dclose(it->dataset);
  neap__h5_disk_close(&f->disk, NULL); /* read only: a failure loses nothing */
  neap__h5_leave(&g);
  file_free(f);
}

neap_h5_item *neap__h5_root(neap_h5_file *f) { return f->root; }
const char *neap__h5_path(const neap_h5_file *f) { return f->path; }

/* --- groups ----------------------------------------------------------------------------------------- */

typedef struct listing {
  neap_h5_item *group;
  uint32_t n, most;
  bool no_memory;
} listing;

static herr_t list_one(hid_t gid, const char *name, const H5L_info_t *info, void *user) {
  (void)gid;
  listing *l = user;
  neap_h5_item *group = l->group;
  if (l->n == l->most) return 1; /* the file changed meanwhile: what is new is not looked at */
  int8_t link = info->type == H5L_TYPE_HARD ? LINK_HARD : info->type == H5L_TYPE_SOFT ? LINK_SOFT : LINK_REFUSED;
  neap_h5_item *it = item_new(group->file, group, name, link);
  if (!it) return l->no_memory = true, -1;
  group->children[l->n++] = it;
  return 0;
}

static int by_name(const void *a, const void *b) {
  const neap_h5_item *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static bool keeps_order(hid_t gid) {
  unsigned order = 0;
  hid_t list = H5Gget_create_plist(gid);
  if (list < 0) return false;
  H5Pget_link_creation_order(list, &order);
  H5Pclose(list);
  return (order & H5P_CRT_ORDER_TRACKED) != 0;
}

static neap_status list_open(neap_h5_item *group, hid_t gid, neap_error *err) {
  neap_h5_file *f = group->file;
  H5G_info_t info;
  if (H5Gget_info(gid, &info) < 0) return neap__h5_broken(&f->disk, group->path, "cannot read the group", err);
  if (info.nlinks > UINT32_MAX / sizeof(void *))
    return neap__h5_fail(err, NEAP_RANGE, f->path, group->path, "a group of %llu items",
                         (unsigned long long)info.nlinks);
  listing l = {.group = group, .most = (uint32_t)info.nlinks};
  const size_t bytes = l.most * sizeof(neap_h5_item *);
  group->children = neap__zone_alloc(&f->zone, bytes);
  group->by_name = neap__zone_alloc(&f->zone, bytes);
  if (!group->children || !group->by_name) return no_memory(f, err);
  const H5_index_t index = keeps_order(gid) ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  hsize_t at = 0;
  if (l.most > 0 && H5Literate(gid, index, H5_ITER_INC, &at, list_one, &l) < 0)
    return l.no_memory ? no_memory(f, err) : neap__h5_broken(&f->disk, group->path, "cannot list the group", err);
  memcpy(group->by_name, group->children, l.n * sizeof(neap_h5_item *));
  qsort(group->by_name, l.n, sizeof(neap_h5_item *), by_name);
  group->n_children = l.n;
  group->listed = true;
  return NEAP_OK;
}

static const char *h5_path(const neap_h5_item *it) { return it->path[0] ? it->path : "/"; }

/* group is real and resolved. */
static neap_status list_group(neap_h5_item *group, neap_error *err) {
  neap_h5_file *f = group->file;
  if (group->listed) return NEAP_OK;
  if (group->kind != NEAP_H5_GROUP)
    return neap__h5_fail(err, NEAP_INVALID, f->path, group->path, "expected a group, found a dataset");
  if (group->depth >= MOST_DEPTH)
    return neap__h5_fail(err, NEAP_UNSUPPORTED, f->path, group->path, "groups are nested more than %d deep",
                         MOST_DEPTH);
  hid_t gid = H5Gopen2(f->disk.file, h5_path(group), H5P_DEFAULT);
  if (gid < 0) return neap__h5_broken(&f->disk, group->path, "cannot open the group", err);
  neap_status st = list_open(group, gid, err);
  H5Gclose(gid);
  return st;
}

/* --- finding ---------------------------------------------------------------------------------------- */

/* length SIZE_MAX when there is none. */
static neap_h5_item *child(const neap_h5_item *group, const char *name, size_t length) {
  uint32_t low = 0, high = group->n_children;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    neap_h5_item *it = group->by_name[mid];
    int order = strncmp(it->name, name, length);
    if (order == 0 && it->name[length] != '\0') order = 1;
    if (order == 0) return it;
    if (order < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return NULL;
}

static neap_status missing(const neap_h5_item *group, const char *path, neap_error *err) {
  char names[160] = "";
  size_t at = 0;
  for (uint32_t i = 0; i < group->n_children && at < sizeof names; i++) {
    int n = snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", group->children[i]->name);
    at += n > 0 ? (size_t)n : 0;
  }
  if (at >= sizeof names) memcpy(names + sizeof names - 4, "...", 4);
  return neap__h5_fail(err, NEAP_NOT_FOUND, group->file->path, NULL, "there is no item '%s'; group '%s' has: %s", path,
                       h5_path(group), names[0] ? names : "nothing");
}

/* Part by part through our own items, so that libhdf5 only ever sees paths of hard links and never leaves
 * the file by itself. */
static neap_status find_locked(neap_h5_item *from, const char *path, neap_h5_item **out, neap_error *err) {
  neap_h5_item *it = *out = from;
  neap_status st = neap__h5_resolve_locked(it, err);
  for (const char *p = path; !st && *p;) {
    const size_t length = strcspn(p, "/");
    if (length > 0 && !(length == 1 && *p == '.')) {
      neap_h5_item *group = neap__h5_real(it);
      if ((st = list_group(group, err))) break;
      it = child(group, p, length);
      if (!it) return missing(group, path, err);
      st = neap__h5_resolve_locked(it, err);
    }
    p += length + (p[length] == '/');
  }
  if (!st) *out = it;
  return st;
}

neap_status neap__h5_find(neap_h5_item *from, const char *path, neap_h5_item **out, neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  neap_status st = find_locked(path[0] == '/' ? from->file->root : from, path, out, err);
  neap__h5_leave(&g);
  return st;
}

neap_status neap__h5_children(neap_h5_item *group, neap_h5_item *const **out, uint32_t *n, neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  neap_status st = neap__h5_resolve_locked(group, err);
  neap_h5_item *real = neap__h5_real(group);
  if (!st) st = list_group(real, err);
  neap__h5_leave(&g);
  if (st) return st;
  *out = real->children;
  *n = real->n_children;
  return NEAP_OK;
}

/* --- resolving -------------------------------------------------------------------------------------- */

static neap_status follow(neap_h5_item *item, neap_error *err) {
  neap_h5_file *f = item->file;
  H5L_info_t info;
  /* The name is taken in its parent: the path of a soft link itself is hard up to there. */
  const char *at = item->path;
  if (H5Lget_info(f->disk.file, at, &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_SOFT || info.u.val_size > 65536)
    return neap__h5_broken(&f->disk, item->path, "cannot read the soft link", err);
  char *value = neap__zone_alloc(&f->zone, info.u.val_size + 1);
  if (!value) return no_memory(f, err);
  if (H5Lget_val(f->disk.file, at, value, info.u.val_size, H5P_DEFAULT) < 0)
    return neap__h5_broken(&f->disk, item->path, "cannot read the soft link", err);
  neap_h5_item *to = NULL;
  neap_error why = {.status = NEAP_OK};
  neap_status st = find_locked(value[0] == '/' ? f->root : item->parent, value, &to, &why);
  if (st) return neap__h5_fail(err, st, f->path, item->path, "a soft link to '%s': %s", value, why.message);
  item->target = neap__h5_real(to);
  item->kind = item->target->kind;
  item->desc = item->target->desc;
  return NEAP_OK;
}

static neap_status check_filters(neap_h5_item *item, hid_t list, neap_error *err) {
  neap_h5_file *f = item->file;
  const int n = H5Pget_nfilters(list);
  for (int i = 0; i < n; i++) {
    unsigned flags, config;
    size_t n_values = 0;
    char name[64] = "";
    H5Z_filter_t id = H5Pget_filter2(list, (unsigned)i, &flags, &n_values, NULL, sizeof name, name, &config);
    if (id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32)
      return neap__h5_fail(err, NEAP_UNSUPPORTED, f->path, item->path,
                           "stored with filter %d (%s); deflate, shuffle and fletcher32 are read", (int)id,
                           name[0] ? name : "no name");
  }
  return NEAP_OK;
}

/* Before anything that could make libhdf5 look at other files. */
static neap_status check_storage(neap_h5_item *item, hid_t dataset, neap_error *err) {
  neap_h5_file *f = item->file;
  hid_t list = H5Dget_create_plist(dataset);
  if (list < 0) return neap__h5_broken(&f->disk, item->path, "cannot read how it is stored", err);
  neap_status st = NEAP_OK;
  if (H5Pget_layout(list) == H5D_VIRTUAL)
    st = neap__h5_fail(err, NEAP_UNSUPPORTED, f->path, item->path, "a virtual dataset; its data lie in other files");
  else if (H5Pget_external_count(list) > 0)
    st = neap__h5_fail(err, NEAP_UNSUPPORTED, f->path, item->path, "its data lie in other files");
  else
    st = check_filters(item, list, err);
  H5Pclose(list);
  return st;
}

static neap_status read_shape(neap_h5_item *item, hid_t space, neap_error *err) {
  neap_h5_file *f = item->file;
  hsize_t dims[H5S_MAX_RANK];
  const int n = H5Sget_simple_extent_ndims(space);
  if (n < 0 || H5Sget_simple_extent_dims(space, dims, NULL) < 0)
    return neap__h5_broken(&f->disk, item->path, "cannot read its shape", err);
  if (H5Sget_simple_extent_type(space) == H5S_NULL)
    return neap__h5_fail(err, NEAP_UNSUPPORTED, f->path, item->path, "a dataset without a shape (null dataspace)");
  if (n > NEAP_MAX_DIMS)
    return neap__h5_fail(err, NEAP_SHAPE, f->path, item->path, "%d dimensions; at most %d are read", n, NEAP_MAX_DIMS);
  item->desc.shape.ndim = n;
  for (int i = 0; i < n; i++) {
    if (dims[i] > INT64_MAX)
      return neap__h5_fail(err, NEAP_RANGE, f->path, item->path, "dimension %d is %llu", i,
                           (unsigned long long)dims[i]);
    item->desc.shape.dim[i] = (int64_t)dims[i];
  }
  return NEAP_OK;
}

static neap_status describe(neap_h5_item *item, hid_t type, hid_t space, neap_error *err) {
  neap_h5_file *f = item->file;
  char found[64];
  neap_error why = {.status = NEAP_OK};
  neap_status st = read_shape(item, space, err);
  if (st) return st;
  const bool text = neap__h5_is_text(type);
  if (text && H5Sget_simple_extent_npoints(space) != 1)
    return neap__h5_fail(err, NEAP_DTYPE, f->path, item->path, "an array of strings; only single strings are read");
  if (!text && !neap__h5_dtype(type, &item->desc.dtype, found, sizeof found))
    return neap__h5_fail(err, NEAP_DTYPE, f->path, item->path,
                         "expected floats of 16, 32 or 64 bits, integers of 8 to 64, booleans or a string, found %s",
                         found);
  st = text ? NEAP_OK : neap__desc_check(&item->desc, &why);
  if (st) return neap__h5_fail(err, st, f->path, item->path, "%s", why.message);
  item->kind = text ? NEAP_H5_STRING : NEAP_H5_DATASET;
  return NEAP_OK;
}

static neap_status look_at_dataset(neap_h5_item *item, hid_t dataset, neap_error *err) {
  neap_status st = check_storage(item, dataset, err);
  if (st) return st;
  hid_t type = H5Dget_type(dataset);
  hid_t space = H5Dget_space(dataset);
  if (type < 0 || space < 0)
    st = neap__h5_broken(&item->file->disk, item->path, "cannot read its type and shape", err);
  else
    st = describe(item, type, space, err);
  if (type >= 0) H5Tclose(type);
  if (space >= 0) H5Sclose(space);
  return st;
}

static neap_status look_at(neap_h5_item *item, neap_error *err) {
  neap_h5_file *f = item->file;
  hid_t object = H5Oopen(f->disk.file, item->path, H5P_DEFAULT);
  if (object < 0) return neap__h5_broken(&f->disk, item->path, "cannot open the item", err);
  neap_status st = NEAP_OK;
  const H5I_type_t kind = H5Iget_type(object);
  if (kind == H5I_GROUP)
    item->kind = NEAP_H5_GROUP;
  else if (kind == H5I_DATASET)
    st = look_at_dataset(item, object, err);
  else
    st = neap__h5_fail(err, NEAP_UNSUPPORTED, f->path, item->path, "expected a group or dataset, found a named type");
  H5Oclose(object);
  return st;
}

neap_status neap__h5_resolve_locked(neap_h5_item *item, neap_error *err) {
  const char *file = item->file->path;
  if (item->kind != NEAP_H5_LINK) return NEAP_OK;
  if (item->link == LINK_REFUSED)
    return neap__h5_fail(err, NEAP_UNSUPPORTED, file, item->path,
                         "an external or user-defined link; only what lies in the file itself is read");
  if (item->link == LINK_HARD) return look_at(item, err);
  if (item->resolving) return neap__h5_fail(err, NEAP_CORRUPT, file, item->path, "its soft links form a circle");
  item->resolving = true;
  neap_status st = follow(item, err);
  item->resolving = false;
  return st;
}

neap_status neap__h5_resolve(neap_h5_item *item, neap_error *err) {
  neap_h5_guard g;
  neap__h5_enter(&g);
  neap_status st = neap__h5_resolve_locked(item, err);
  neap__h5_leave(&g);
  return st;
}

/* Recursion ends at MOST_DEPTH, where a group cannot be listed. */
neap_status neap__h5_walk(neap_h5_item *from, neap_h5_visit fn, void *user, neap_error *err) {
  neap_h5_item *const *items;
  uint32_t n = 0;
  neap_status st = neap__h5_resolve(from, err);
  if (st) return st;
  if (from->kind != NEAP_H5_GROUP) return fn(user, from, err);
  st = neap__h5_children(from, &items, &n, err);
  for (uint32_t i = 0; !st && i < n; i++) st = neap__h5_walk(items[i], fn, user, err);
  return st;
}
