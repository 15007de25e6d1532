/* Files for the HDF5 tests: a folder that goes away, a host that counts, and ids that must not be left. */
#ifndef NEAP_TESTS_H5_FILES_H
#define NEAP_TESTS_H5_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define H5_USE_110_API
#include <hdf5.h>

#include "fail_host.h"
#include "io/hdf5.h"

typedef struct h5_files {
  fail_host host;
  neap_error err;
  char folder[32], path[64];
  hid_t marks[3]; /* ids count up: what lies between two marks was made in between */
} h5_files;

static inline void make_marks(hid_t *marks) {
  marks[0] = H5Screate(H5S_SCALAR);
  marks[1] = H5Pcreate(H5P_DATASET_XFER);
  marks[2] = H5Tcopy(H5T_NATIVE_INT);
}

static inline void close_marks(const hid_t *marks) {
  H5Sclose(marks[0]);
  H5Pclose(marks[1]);
  H5Tclose(marks[2]);
}

/* Every id that libhdf5 gave out since the last call is closed. */
static inline void no_ids_are_left(h5_files *t) {
  hid_t now[3];
  make_marks(now);
  for (int k = 0; k < 3; k++)
    for (hid_t id = t->marks[k] + 1; id < now[k]; id++) assert_int_equal(H5Iis_valid(id), 0);
  close_marks(t->marks);
  memcpy(t->marks, now, sizeof now);
  assert_int_equal(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL & ~(unsigned)H5F_OBJ_DATATYPE), 0);
}

static inline int h5_setup(void **state) {
  h5_files *t = calloc(1, sizeof *t);
  if (!t) return -1;
  fail_host_init(&t->host);
  snprintf(t->folder, sizeof t->folder, "/tmp/neap-h5-XXXXXX");
  if (!mkdtemp(t->folder)) return -1;
  snprintf(t->path, sizeof t->path, "%s/a.h5", t->folder);
  make_marks(t->marks);
  *state = t;
  return 0;
}

/* Files in the folder; with `remove_all` it is emptied. */
static inline int count_files(const h5_files *t, int remove_all) {
  DIR *d = opendir(t->folder);
  int n = 0;
  assert_non_null(d);
  for (const struct dirent *e; (e = readdir(d));) {
    char path[512];
    if (e->d_name[0] == '.') continue;
    n++;
    snprintf(path, sizeof path, "%s/%s", t->folder, e->d_name);
    if (remove_all) unlink(path);
  }
  closedir(d);
  return n;
}

static inline int h5_teardown(void **state) {
  h5_files *t = *state;
  no_ids_are_left(t);
  close_marks(t->marks);
  assert_true(t->host.blocks == 0 && t->host.host.in_use == 0 && t->host.wrong == 0);
  count_files(t, 1);
  rmdir(t->folder);
  free(t);
  return 0;
}

static inline void says(const h5_files *t, const char *part) {
  if (strstr(t->err.message, part)) return;
  fail_msg("'%s' does not say '%s'", t->err.message, part);
}

static inline neap_h5_file *opened(h5_files *t, uint64_t cache) {
  neap_h5_file *f = NULL;
  if (neap__h5_open(&t->host.host, t->path, cache, &f, &t->err) != NEAP_OK) fail_msg("%s", t->err.message);
  return f;
}

static inline neap_h5_item *found(h5_files *t, neap_h5_file *f, const char *path) {
  neap_h5_item *it = NULL;
  if (neap__h5_find(neap__h5_root(f), path, &it, &t->err) != NEAP_OK) fail_msg("%s", t->err.message);
  return it;
}

static inline neap_status find_status(h5_files *t, neap_h5_file *f, const char *path) {
  neap_h5_item *it;
  return neap__h5_find(neap__h5_root(f), path, &it, &t->err);
}

/* --- files by libhdf5 alone, as others write them --- */

static inline void raw_put(hid_t at, const char *name, hid_t type, int ndim, const hsize_t *dims, hid_t list,
                           const void *data) {
  hid_t space = ndim ? H5Screate_simple(ndim, dims, NULL) : H5Screate(H5S_SCALAR);
  hid_t d = H5Dcreate2(at, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  assert_true(d >= 0);
  if (data) assert_true(H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
  H5Dclose(d);
  H5Sclose(space);
}

static inline void raw_attr(hid_t at, const char *name, hid_t type, int ndim, const hsize_t *dims, const void *data) {
  hid_t space = ndim ? H5Screate_simple(ndim, dims, NULL) : H5Screate(H5S_SCALAR);
  hid_t a = H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(a >= 0);
  assert_true(H5Awrite(a, type, data) >= 0);
  H5Aclose(a);
  H5Sclose(space);
}

static inline hid_t raw_file(const h5_files *t) {
  hid_t f = H5Fcreate(t->path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(f >= 0);
  return f;
}

#endif
