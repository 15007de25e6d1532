/* Writing: what is written comes back, and a file is whole or absent. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "h5_files.h"
#include "io/crc32c.h"

/* libhdf5 1.10 loses an object header whose checksum is wrong (424 bytes each), which the test of flipped bytes
 * makes it do. What we would lose does not come from there. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void); /* NOLINT */
const char *__lsan_default_suppressions(void) { return "leak:libhdf5\n"; }            /* NOLINT */

static neap_h5_writer *begun(h5_files *t) {
  neap_h5_writer *w = NULL;
  if (neap__h5_writer_begin(&t->host.host, t->path, &w, &t->err) != NEAP_OK) fail_msg("%s", t->err.message);
  return w;
}

static void put(h5_files *t, neap_h5_writer *w, const char *path, const neap_desc *d, const void *data) {
  if (neap__h5_write(w, path, d, data, &t->err) != NEAP_OK) fail_msg("%s", t->err.message);
}

static void put_attr(h5_files *t, neap_h5_writer *w, const char *path, neap_h5_attr a) {
  if (neap__h5_write_attr(w, path, &a, &t->err) != NEAP_OK) fail_msg("%s", t->err.message);
}

static void committed(h5_files *t, neap_h5_writer *w) {
  if (neap__h5_writer_commit(w, &t->err) != NEAP_OK) fail_msg("%s", t->err.message);
}

static const neap_desc small = {NEAP_I32, {1, {3}}};
static const int32_t small_old[] = {1, 2, 3}, small_new[] = {4, 5, 6};

static void write_small(h5_files *t, const int32_t *data) {
  neap_h5_writer *w = begun(t);
  put(t, w, "x", &small, data);
  committed(t, w);
}

static void holds_small(h5_files *t, const int32_t *data) {
  int32_t out[3] = {0};
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(neap__h5_read(found(t, f, "x"), out, sizeof out, &t->err), NEAP_OK);
  assert_memory_equal(out, data, sizeof out);
  neap__h5_close(f);
}

static void checksums_agree_with_the_standard(void **state) {
  unsigned char data[300];
  (void)state;
  assert_int_equal(neap__crc32c(0, "123456789", 9), 0xe3069283u);
  memset(data, 0, 32);
  assert_int_equal(neap__crc32c(0, data, 32), 0x8a9136aau); /* RFC 3720, B.4 */
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 151 + 7);
  for (size_t n = 0; n <= sizeof data; n++) {
    const uint32_t whole = neap__crc32c_portable(0, data, n);
    assert_int_equal(neap__crc32c(0, data, n), whole);
    assert_int_equal(neap__crc32c(neap__crc32c(0, data, n / 3), data + n / 3, n - n / 3), whole);
  }
}

static void every_dtype_and_shape_comes_back(void **state) {
  h5_files *t = *state;
  static const neap_shape shapes[] = {{0, {0}}, {1, {24}}, {3, {2, 3, 4}}, {2, {0, 7}}, {8, {1, 2, 1, 3, 1, 2, 1, 2}}};
  unsigned char data[8 * 24], out[8 * 24];
  char path[32];
  neap_h5_writer *w = begun(t);
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i % 5 != 0); /* good for bool as well */
  for (int k = 0; k < NEAP_DTYPE_COUNT * 5; k++) {
    const neap_desc d = {(neap_dtype)(k / 5), shapes[k % 5]};
    snprintf(path, sizeof path, "all/%s/s%d", neap__dtype_name(d.dtype), k % 5);
    put(t, w, path, &d, data);
  }
  committed(t, w);
  neap_h5_file *f = opened(t, 0);
  for (int k = 0; k < NEAP_DTYPE_COUNT * 5; k++) {
    const neap_desc d = {(neap_dtype)(k / 5), shapes[k % 5]};
    const size_t bytes = neap__desc_bytes(&d);
    snprintf(path, sizeof path, "all/%s/s%d", neap__dtype_name(d.dtype), k % 5);
    const neap_h5_item *it = found(t, f, path);
    assert_int_equal(it->desc.dtype, d.dtype);
    assert_true(neap__shape_equal(&it->desc.shape, &d.shape));
    memset(out, 9, sizeof out);
    assert_int_equal(neap__h5_read(found(t, f, path), out, bytes, &t->err), NEAP_OK);
    if (bytes > 0) assert_memory_equal(out, data, bytes);
  }
  neap__h5_close(f);
}

static void items_keep_the_order_of_writing(void **state) {
  h5_files *t = *state;
  static const char *const names[] = {"zeta", "fc10", "fc2", "alpha"};
  neap_h5_writer *w = begun(t);
  neap_h5_item *const *items;
  char path[32];
  uint32_t n;
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "g/%s", names[i]);
    put(t, w, path, &small, small_old);
  }
  assert_int_equal(neap__h5_write_group(w, "b/empty", &t->err), NEAP_OK);
  assert_int_equal(neap__h5_write_group(w, "b", &t->err), NEAP_OK);
  committed(t, w);
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(neap__h5_children(neap__h5_root(f), &items, &n, &t->err), NEAP_OK);
  assert_true(n == 2 && strcmp(items[0]->name, "g") == 0 && strcmp(items[1]->name, "b") == 0);
  assert_int_equal(items[0]->kind, NEAP_H5_LINK);
  assert_int_equal(neap__h5_resolve(items[0], &t->err), NEAP_OK);
  assert_int_equal(items[0]->kind, NEAP_H5_GROUP);
  assert_int_equal(neap__h5_children(items[0], &items, &n, &t->err), NEAP_OK);
  assert_int_equal(n, 4);
  for (int i = 0; i < 4; i++) assert_string_equal(items[i]->name, names[i]);
  assert_string_equal(items[1]->path, "g/fc10");
  assert_int_equal(neap__h5_children(found(t, f, "b/empty"), &items, &n, &t->err), NEAP_OK);
  assert_int_equal(n, 0);
  neap__h5_close(f);
}

static void attributes_come_back(void **state) {
  h5_files *t = *state;
  enum { LONG = 200000 }; /* more than an object header holds */
  static const int64_t ints[] = {INT64_MIN, 0, INT64_MAX};
  static const double reals[] = {0.1, -1e-300};
  const neap_h5_attr all[] = {
      {.name = "text", .kind = NEAP_H5_ATTR_TEXT, .n = 4, .v.text = "a\xc3\xa4 "},
      {.name = "empty", .kind = NEAP_H5_ATTR_TEXT, .n = 0, .v.text = ""},
      {.name = "int", .kind = NEAP_H5_ATTR_INT, .v.i = INT64_MIN},
      {.name = "real", .kind = NEAP_H5_ATTR_REAL, .v.f = 0.1},
      {.name = "ints", .kind = NEAP_H5_ATTR_INTS, .n = 3, .v.ints = ints},
      {.name = "reals", .kind = NEAP_H5_ATTR_REALS, .n = 2, .v.reals = reals},
      {.name = "none", .kind = NEAP_H5_ATTR_INTS, .n = 0},
  };
  char *text = malloc(LONG + 1);
  assert_non_null(text);
  memset(text, 'x', LONG);
  text[LONG] = '\0';
  neap_h5_writer *w = begun(t);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) put_attr(t, w, "state/inner", all[i]);
  put_attr(t, w, "", (neap_h5_attr){.name = "long", .kind = NEAP_H5_ATTR_TEXT, .n = LONG, .v.text = text});
  committed(t, w);
  neap_h5_file *f = opened(t, 0);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    const neap_h5_attr *a, *b = &all[i];
    assert_int_equal(neap__h5_attr(found(t, f, "state/inner"), b->name, &a, &t->err), NEAP_OK);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->n, b->kind == NEAP_H5_ATTR_INT || b->kind == NEAP_H5_ATTR_REAL ? 1 : b->n);
    if (b->kind == NEAP_H5_ATTR_TEXT) assert_string_equal(a->v.text, b->v.text);
    if (b->kind == NEAP_H5_ATTR_INT) assert_true(a->v.i == b->v.i);
    if (b->kind == NEAP_H5_ATTR_REAL) assert_true(a->v.f == b->v.f);
    if (b->n && b->kind == NEAP_H5_ATTR_INTS) assert_memory_equal(a->v.ints, ints, sizeof ints);
    if (b->kind == NEAP_H5_ATTR_REALS) assert_memory_equal(a->v.reals, reals, sizeof reals);
  }
  const neap_h5_attr *a;
  assert_int_equal(neap__h5_attr(neap__h5_root(f), "long", &a, &t->err), NEAP_OK);
  assert_true(a->n == LONG && strcmp(a->v.text, text) == 0);
  neap__h5_close(f);
  free(text);
}

static void bad_requests_fail_and_stay_failed(void **state) {
  h5_files *t = *state;
  static const char *const paths[] = {"", "/x", "x/", "a//b", ".", "a/./b"};
  static const neap_desc negative = {NEAP_F32, {1, {-1}}}, huge = {NEAP_F64, {2, {INT64_MAX, 2}}};
  static const neap_h5_attr zero = {.name = "a", .kind = NEAP_H5_ATTR_TEXT, .n = 3, .v.text = "a\0b"};
  static const neap_h5_attr nameless = {.name = "", .kind = NEAP_H5_ATTR_INT}, kindless = {.name = "k"};
  static const neap_h5_attr one = {.name = "one", .kind = NEAP_H5_ATTR_INT, .v.i = 1};
  write_small(t, small_old);
  for (int k = 0; k < 14; k++) {
    neap_h5_writer *w = begun(t);
    neap_status st = NEAP_OK, expected = NEAP_INVALID;
    put(t, w, "d/x", &small, small_new);
    put_attr(t, w, "d", one);
    switch (k) {
      case 6: st = neap__h5_write(w, "n", &negative, small_new, &t->err), expected = NEAP_SHAPE; break;
      case 7: st = neap__h5_write(w, "n", &huge, small_new, &t->err), expected = NEAP_RANGE; break;
      case 8: st = neap__h5_write(w, "d/x", &small, small_new, &t->err); break;
      case 9: st = neap__h5_write(w, "d/x/y", &small, small_new, &t->err); break;
      case 10: st = neap__h5_write_attr(w, "d", &zero, &t->err); break;
      case 11: st = neap__h5_write_attr(w, "d", &nameless, &t->err); break;
      case 12: st = neap__h5_write_attr(w, "d", &kindless, &t->err); break;
      case 13: st = neap__h5_write_attr(w, "d", &one, &t->err); break;
      default: st = neap__h5_write(w, paths[k], &small, small_new, &t->err);
    }
    if (st != expected) fail_msg("case %d gives %d: %s", k, (int)st, t->err.message);
    const neap_error first = t->err;
    assert_int_equal(neap__h5_write(w, "fine", &small, small_new, &t->err), expected);
    assert_string_equal(t->err.message, first.message);
    assert_int_equal(neap__h5_writer_commit(w, &t->err), expected);
    assert_string_equal(t->err.message, first.message);
    assert_int_equal(count_files(t, 0), 1);
    no_ids_are_left(t);
  }
  holds_small(t, small_old);
}

/* Whether files may lie in the folder without a name. */
static bool has_nameless(const h5_files *t) {
  const int fd = open(t->folder, O_TMPFILE | O_RDWR, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static void abort_leaves_the_old_file(void **state) {
  h5_files *t = *state;
  write_small(t, small_old);
  neap_h5_writer *w = begun(t), *other = begun(t);
  put(t, w, "x", &small, small_new);
  put(t, other, "x", &small, small_new);
  /* Two writers at once, each with a file of its own: without a name until it is whole, if the file system can. */
  const int with_names = has_nameless(t) ? 0 : 1;
  assert_int_equal(count_files(t, 0), 1 + 2 * with_names);
  holds_small(t, small_old);
  neap__h5_writer_abort(w);
  neap__h5_writer_abort(NULL);
  assert_int_equal(count_files(t, 0), 1 + with_names);
  holds_small(t, small_old);
  neap__h5_writer_abort(other);
  assert_int_equal(count_files(t, 0), 1);
}

static void a_killed_writer_leaves_the_old_file_alone(void **state) {
  h5_files *t = *state;
  if (!has_nameless(t)) skip();
  write_small(t, small_old);
  const pid_t child = fork();
  if (child == 0) {
    put(t, begun(t), "x", &small, small_new);
    _exit(7);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  assert_int_equal(count_files(t, 0), 1);
  holds_small(t, small_old);
}

static void commit_replaces_and_keeps_the_mode(void **state) {
  h5_files *t = *state;
  struct stat s;
  write_small(t, small_old);
  assert_int_equal(chmod(t->path, 0600), 0);
  /* A reader that is open goes on with what it opened. */
  neap_h5_file *f = opened(t, 0);
  write_small(t, small_new);
  int32_t out[3];
  assert_int_equal(neap__h5_read(found(t, f, "x"), out, sizeof out, &t->err), NEAP_OK);
  assert_memory_equal(out, small_old, sizeof out);
  neap__h5_close(f);
  holds_small(t, small_new);
  assert_int_equal(count_files(t, 0), 1);
  assert_int_equal(stat(t->path, &s), 0);
  assert_int_equal(s.st_mode & 0777, 0600);
}

static void impossible_targets_are_refused(void **state) {
  h5_files *t = *state;
  neap_h5_writer *w;
  char path[80];
  assert_int_equal(neap__h5_writer_begin(&t->host.host, t->folder, &w, &t->err), NEAP_INVALID);
  says(t, "not a regular file");
  assert_int_equal(neap__h5_writer_begin(&t->host.host, "/dev/full", &w, &t->err), NEAP_INVALID);
  snprintf(path, sizeof path, "%s/no/a.h5", t->folder);
  assert_int_equal(neap__h5_writer_begin(&t->host.host, path, &w, &t->err), NEAP_NOT_FOUND);
  assert_int_equal(count_files(t, 0), 0);
}

/* --- what can go wrong on the way ------------------------------------------------------------------- */

static const neap_desc large = {NEAP_F32, {2, {300, 100}}};

static neap_status write_many(h5_files *t) {
  static float data[300 * 100];
  neap_h5_writer *w;
  char path[32];
  neap_status st = neap__h5_writer_begin(&t->host.host, t->path, &w, &t->err);
  if (st) return st;
  for (int i = 0; !st && i < 3; i++) {
    snprintf(path, sizeof path, "model/w%d", i);
    st = neap__h5_write(w, path, &large, data, &t->err);
  }
  for (int i = 0; !st && i < 200; i++) {
    snprintf(path, sizeof path, "model/bias/b%d", i);
    st = neap__h5_write(w, path, &small, small_new, &t->err);
  }
  if (!st) return neap__h5_writer_commit(w, &t->err);
  neap__h5_writer_abort(w);
  return st;
}

/* A limit of the process stands for a full disk: writes past it fail. */
static void a_full_disk_leaves_the_old_file(void **state) {
  h5_files *t = *state;
  struct rlimit whole, cut;
  struct stat s;
  write_small(t, small_old);
  void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
  assert_int_equal(write_many(t), NEAP_OK);
  assert_int_equal(stat(t->path, &s), 0);
  write_small(t, small_old);
  cut = whole;
  for (int k = 0; k < 40; k++) {
    cut.rlim_cur = k < 39 ? (rlim_t)s.st_size * (rlim_t)k / 39 : (rlim_t)s.st_size - 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &cut), 0);
    const neap_status st = write_many(t);
    setrlimit(RLIMIT_FSIZE, &whole);
    assert_int_equal(st, NEAP_IO);
    says(t, strerror(EFBIG));
    assert_int_equal(count_files(t, 0), 1);
    no_ids_are_left(t);
    holds_small(t, small_old);
  }
  signal(SIGXFSZ, before);
  assert_int_equal(write_many(t), NEAP_OK);
}

/* Stands for a device: brings the bytes of a table, in pieces of at most `most`. */
typedef struct device {
  float data[700];
  size_t most, pieces;
  neap_status status; /* what the second piece meets */
} device;

static const neap_desc table = {NEAP_F32, {2, {7, 100}}};

static device make_device(size_t most) {
  device d = {.most = most};
  for (int i = 0; i < 700; i++) d.data[i] = (float)i * 0.5f;
  return d;
}

static neap_status fetch(void *user, size_t offset, void *dst, size_t bytes, neap_error *err) {
  device *d = user;
  if (bytes > d->most || offset + bytes > sizeof d->data) return neap__fail(err, NEAP_INTERNAL, "%zu bytes", bytes);
  if (d->pieces++ > 0 && d->status) return err ? neap__fail(err, d->status, "the device is gone") : d->status;
  memcpy(dst, (const char *)d->data + offset, bytes);
  return NEAP_OK;
}

static neap_status write_table(h5_files *t, device *d, void *staging, size_t bytes) {
  neap_h5_writer *w = begun(t);
  const neap_status st = neap__h5_write_from(w, "model/table", &table, fetch, d, staging, bytes, &t->err);
  if (!st) return neap__h5_writer_commit(w, &t->err);
  neap__h5_writer_abort(w);
  return st;
}

static void holds_table(h5_files *t) {
  static float out[700];
  const device expected = make_device(0);
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(neap__h5_read(found(t, f, "model/table"), out, sizeof out, &t->err), NEAP_OK);
  assert_memory_equal(out, expected.data, sizeof out);
  neap__h5_close(f);
}

static void values_come_in_pieces(void **state) {
  h5_files *t = *state;
  static const size_t sizes[] = {8, 100, 400, 1000, 4096};
  char staging[4096];
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    device d = make_device(sizes[k]);
    if (write_table(t, &d, staging, sizes[k])) fail_msg("%s", t->err.message);
    assert_true(d.pieces >= sizeof d.data / sizes[k]);
    holds_table(t);
  }
  device tight = make_device(8);
  assert_int_equal(write_table(t, &tight, staging, 2), NEAP_INVALID);
  says(t, "a staging buffer of 2 bytes");
  holds_table(t);
}

static void a_failing_fetch_leaves_the_old_file(void **state) {
  h5_files *t = *state;
  char staging[400];
  device d = make_device(sizeof staging);
  assert_int_equal(write_table(t, &d, staging, sizeof staging), NEAP_OK);
  d = make_device(sizeof staging);
  d.status = NEAP_DEVICE;
  assert_int_equal(write_table(t, &d, staging, sizeof staging), NEAP_DEVICE);
  says(t, "the device is gone");
  assert_int_equal(d.pieces, 2);
  assert_int_equal(count_files(t, 0), 1);
  holds_table(t);
}

static void refused_host_memory_is_survived(void **state) {
  h5_files *t = *state;
  neap_status st = NEAP_NOMEM;
  uint64_t n = 0;
  write_small(t, small_old);
  for (n = 1; st == NEAP_NOMEM; n++) {
    t->host.until = n;
    st = write_many(t);
    t->host.until = 0;
    assert_true(t->host.blocks == 0);
    assert_int_equal(count_files(t, 0), 1);
    no_ids_are_left(t);
    if (st == NEAP_NOMEM) holds_small(t, small_old);
  }
  assert_int_equal(st, NEAP_OK);
  assert_true(n > 8); /* the read-back takes memory too */
}

/* Every single byte of a file is changed in turn: either that is noticed, or it did not matter. */
static void no_flipped_byte_gives_wrong_data(void **state) {
  h5_files *t = *state;
  static const int32_t x[] = {1, -2, 300, 4};
  static const neap_desc d = {NEAP_I32, {1, {4}}};
  neap_h5_writer *w = begun(t);
  unsigned char *bytes;
  struct stat s;
  int noticed = 0;
  neap__h5_quiet();
  put(t, w, "model/w", &d, x);
  put_attr(t, w, "model", (neap_h5_attr){.name = "step", .kind = NEAP_H5_ATTR_INT, .v.i = 12345});
  committed(t, w);
  assert_int_equal(stat(t->path, &s), 0);
  bytes = calloc(1, (size_t)s.st_size);
  FILE *file = fopen(t->path, "r+b");
  assert_true(bytes && file && fread(bytes, 1, (size_t)s.st_size, file) == (size_t)s.st_size);
  setvbuf(file, NULL, _IONBF, 0);
  for (long i = 0; i < s.st_size; i++) {
    neap_h5_file *f = NULL;
    neap_h5_item *it, *model;
    const neap_h5_attr *a = NULL;
    int32_t out[4] = {0};
    fseek(file, i, SEEK_SET);
    fputc(bytes[i] ^ 0x20, file);
    neap_status st = neap__h5_open(&t->host.host, t->path, 0, &f, &t->err);
    if (!st) st = neap__h5_find(neap__h5_root(f), "model", &model, &t->err);
    if (!st) st = neap__h5_attr(model, "step", &a, &t->err);
    if (!st) st = neap__h5_find(model, "w", &it, &t->err);
    if (!st) st = neap__h5_read(it, out, sizeof out, &t->err);
    if (st == NEAP_OK && (memcmp(out, x, sizeof x) != 0 || a->v.i != 12345)) fail_msg("byte %ld", i);
    noticed += st != NEAP_OK;
    neap__h5_close(f);
    fseek(file, i, SEEK_SET);
    fputc(bytes[i], file);
  }
  fclose(file);
  free(bytes);
  assert_true(noticed > 100);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, h5_setup, h5_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checksums_agree_with_the_standard),
      TEST(every_dtype_and_shape_comes_back),
      TEST(items_keep_the_order_of_writing),
      TEST(attributes_come_back),
      TEST(bad_requests_fail_and_stay_failed),
      TEST(abort_leaves_the_old_file),
      TEST(a_killed_writer_leaves_the_old_file_alone),
      TEST(commit_replaces_and_keeps_the_mode),
      TEST(impossible_targets_are_refused),
      TEST(a_full_disk_leaves_the_old_file),
      TEST(values_come_in_pieces),
      TEST(a_failing_fetch_leaves_the_old_file),
      TEST(refused_host_memory_is_survived),
      TEST(no_flipped_byte_gives_wrong_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
