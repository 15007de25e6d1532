/* Checkpoints: entries from memory and through a callback, attributes, strict reading. */
#include "h5_files.h"
#include "io/checkpoint.h"

enum { COUNT = 700 };

/* Stands for a device: brings the bytes of a table, in pieces of at most `most`. */
typedef struct device {
  float data[COUNT];
  size_t most, pieces;
  neap_status status; /* what the second piece meets */
} device;

static neap_status fetch(void *user, size_t offset, void *dst, size_t bytes, neap_error *err) {
  device *d = user;
  if (bytes > d->most || offset + bytes > sizeof d->data) return neap__fail(err, NEAP_INTERNAL, "%zu bytes", bytes);
  if (d->pieces++ > 0 && d->status) return err ? neap__fail(err, d->status, "the device is gone") : d->status;
  memcpy(dst, (const char *)d->data + offset, bytes);
  return NEAP_OK;
}

static neap_status store(void *user, size_t offset, const void *data, size_t bytes, neap_error *err) {
  device *d = user;
  if (bytes > d->most || offset + bytes > sizeof d->data) return neap__fail(err, NEAP_INTERNAL, "%zu bytes", bytes);
  d->pieces++;
  memcpy((char *)d->data + offset, data, bytes);
  return NEAP_OK;
}

static const int64_t labels[3] = {7, -1, 3};
static const neap_desc table = {NEAP_F32, {2, {7, 100}}}, three = {NEAP_I64, {1, {3}}}, none = {NEAP_F32, {2, {0, 4}}};

static const neap_checkpoint_attr attrs[] = {
    {"state", {.name = "step", .kind = NEAP_H5_ATTR_INT, .v.i = 1234}},
    {"state", {.name = "scale", .kind = NEAP_H5_ATTR_REAL, .v.f = 65536}},
    {"state", {.name = "policy", .kind = NEAP_H5_ATTR_TEXT, .n = 2, .v.text = "{}"}},
    {"model/table", {.name = "group", .kind = NEAP_H5_ATTR_INT, .v.i = 1}},
    {"", {.name = "device", .kind = NEAP_H5_ATTR_TEXT, .n = 3, .v.text = "cpu"}},
};

static device make_device(size_t most) {
  device d = {.most = most};
  for (int i = 0; i < COUNT; i++) d.data[i] = (float)i * 0.5f;
  return d;
}

static neap_status write_to(h5_files *t, device *d, void *staging, size_t bytes) {
  const neap_checkpoint_entry entries[] = {
      {"model/table", table, NULL, fetch, d},
      {"optimizer/labels", three, labels, NULL, NULL},
      {"model/none", none, NULL, NULL, NULL},
  };
  return neap__checkpoint_write(&t->host.host, t->path, entries, 3, attrs, 5, staging, bytes, &t->err);
}

static neap_h5_file *opened_checkpoint(h5_files *t) {
  neap_h5_file *f = NULL;
  if (neap__checkpoint_open(&t->host.host, t->path, &f, &t->err)) fail_msg("%s", t->err.message);
  return f;
}

static void holds_all(h5_files *t) {
  const device expected = make_device(0);
  device read = {.most = 1000};
  int64_t out[3];
  char staging[1000];
  neap_h5_attr a;
  neap_h5_file *f = opened_checkpoint(t);
  assert_int_equal(neap__checkpoint_read(f, "model/table", &table, read.data, &t->err), NEAP_OK);
  assert_memory_equal(read.data, expected.data, sizeof read.data);
  memset(read.data, 0, sizeof read.data);
  assert_int_equal(neap__checkpoint_read_to(f, "model/table", &table, staging, sizeof staging, store, &read, &t->err),
                   NEAP_OK);
  assert_memory_equal(read.data, expected.data, sizeof read.data);
  assert_int_equal(read.pieces, 4); /* two rows of 400 bytes at a time */
  assert_int_equal(neap__checkpoint_read(f, "optimizer/labels", &three, out, &t->err), NEAP_OK);
  assert_memory_equal(out, labels, sizeof out);
  assert_int_equal(neap__checkpoint_read(f, "model/none", &none, out, &t->err), NEAP_OK);
  for (size_t i = 0; i < sizeof attrs / sizeof attrs[0]; i++)
    assert_int_equal(neap__checkpoint_attr(f, attrs[i].path, attrs[i].attr.name, attrs[i].attr.kind, &a, &t->err), 0);
  assert_string_equal(a.v.text, "cpu");
  assert_int_equal(neap__checkpoint_attr(f, "state", "step", NEAP_H5_ATTR_REAL, &a, &t->err), NEAP_OK);
  assert_true(a.kind == NEAP_H5_ATTR_REAL && a.v.f == 1234);
  neap__h5_close(f);
}

static void everything_comes_back(void **state) {
  h5_files *t = *state;
  static const size_t sizes[] = {8, 100, 400, 1000, 4096};
  char staging[4096];
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    device d = make_device(sizes[k]);
    if (write_to(t, &d, staging, sizes[k])) fail_msg("%s", t->err.message);
    assert_true(d.pieces >= sizeof d.data / sizes[k]);
    holds_all(t);
  }
  device d = make_device(sizeof d.data);
  assert_int_equal(write_to(t, &d, NULL, 0), NEAP_OK);
  assert_int_equal(d.pieces, 1);
  holds_all(t);
  assert_int_equal(neap__checkpoint_verify(&t->host.host, t->path, &t->err), NEAP_OK);
}

static void a_failing_fetch_leaves_the_old_one(void **state) {
  h5_files *t = *state;
  char staging[400];
  device d = make_device(sizeof staging);
  assert_int_equal(write_to(t, &d, staging, sizeof staging), NEAP_OK);
  d = make_device(sizeof staging);
  d.status = NEAP_DEVICE;
  assert_int_equal(write_to(t, &d, staging, sizeof staging), NEAP_DEVICE);
  says(t, "the device is gone");
  assert_int_equal(d.pieces, 2);
  assert_int_equal(count_files(t, 0), 1);
  holds_all(t);
}

static void entries_are_checked(void **state) {
  h5_files *t = *state;
  const neap_checkpoint_entry twice[] = {{"a", three, labels, NULL, NULL}, {"a", three, labels, NULL, NULL}};
  const neap_checkpoint_entry empty = {"a", three, NULL, NULL, NULL};
  device d = make_device(8);
  const neap_checkpoint_entry tight = {"a", table, NULL, fetch, &d};
  neap_host *h = &t->host.host;
  assert_int_equal(neap__checkpoint_write(h, t->path, twice, 2, NULL, 0, NULL, 0, &t->err), NEAP_INVALID);
  says(t, "a.h5: a: it is there already");
  assert_int_equal(neap__checkpoint_write(h, t->path, &empty, 1, NULL, 0, NULL, 0, &t->err), NEAP_INVALID);
  says(t, "'a' has neither data nor fetch");
  assert_int_equal(neap__checkpoint_write(h, t->path, &tight, 1, NULL, 0, &d, 2, &t->err), NEAP_INVALID);
  says(t, "a staging buffer of 2 bytes");
  assert_int_equal(count_files(t, 0), 0);
}

static void reading_is_strict(void **state) {
  h5_files *t = *state;
  static const neap_desc turned = {NEAP_F32, {2, {100, 7}}}, doubles = {NEAP_F64, {2, {7, 100}}};
  static float out[COUNT];
  neap_h5_attr a;
  device d = make_device(NEAP_CHECKPOINT_STAGING);
  assert_int_equal(write_to(t, &d, NULL, 0), NEAP_OK);
  neap_h5_file *f = opened_checkpoint(t);
  assert_int_equal(neap__checkpoint_read(f, "model/table", &turned, out, &t->err), NEAP_SHAPE);
  says(t, "a.h5: model/table: expected shape [100, 7], found [7, 100]");
  assert_int_equal(neap__checkpoint_read(f, "model/table", &doubles, out, &t->err), NEAP_DTYPE);
  says(t, "expected fp64, found fp32");
  assert_int_equal(neap__checkpoint_read(f, "model/tables", &table, out, &t->err), NEAP_NOT_FOUND);
  says(t, "group 'model' has: table, none");
  assert_int_equal(neap__checkpoint_read(f, "model", &table, out, &t->err), NEAP_INVALID);
  assert_int_equal(neap__checkpoint_attr(f, "state", "step", NEAP_H5_ATTR_TEXT, &a, &t->err), NEAP_DTYPE);
  says(t, "attribute 'step': expected a text, found an integer");
  assert_int_equal(neap__checkpoint_attr(f, "state", "epoch", NEAP_H5_ATTR_INT, &a, &t->err), NEAP_NOT_FOUND);
  neap__h5_close(f);
}

static void other_files_are_no_checkpoints(void **state) {
  h5_files *t = *state;
  neap_h5_file *f;
  static const int version = NEAP_CHECKPOINT_VERSION + 1;
  hid_t raw = raw_file(t);
  H5Fclose(raw);
  assert_int_equal(neap__checkpoint_open(&t->host.host, t->path, &f, &t->err), NEAP_INVALID);
  says(t, "no checkpoint");
  raw = raw_file(t);
  raw_attr(raw, "neap_checkpoint", H5T_NATIVE_INT, 0, NULL, &version);
  H5Fclose(raw);
  assert_int_equal(neap__checkpoint_open(&t->host.host, t->path, &f, &t->err), NEAP_UNSUPPORTED);
  says(t, "version 2; up to version 1");
  unlink(t->path);
  assert_int_equal(neap__checkpoint_verify(&t->host.host, t->path, &t->err), NEAP_NOT_FOUND);
}

static void changed_data_is_noticed(void **state) {
  h5_files *t = *state;
  static float out[COUNT];
  char staging[100];
  device d = make_device(NEAP_CHECKPOINT_STAGING), sink = {.most = sizeof staging};
  assert_int_equal(write_to(t, &d, NULL, 0), NEAP_OK);
  hid_t raw = H5Fopen(t->path, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(raw, "model/table", H5P_DEFAULT);
  const haddr_t at = H5Dget_offset(set);
  H5Dclose(set);
  H5Fclose(raw);
  FILE *file = fopen(t->path, "r+b");
  assert_non_null(file);
  fseek(file, (long)at + 2000, SEEK_SET);
  fputc('!', file);
  fclose(file);
  neap_h5_file *f = opened_checkpoint(t);
  assert_int_equal(neap__checkpoint_read(f, "model/table", &table, out, &t->err), NEAP_CORRUPT);
  says(t, "model/table: its data do not have the checksum");
  assert_int_equal(neap__checkpoint_read_to(f, "model/table", &table, staging, sizeof staging, store, &sink, &t->err),
                   NEAP_CORRUPT);
  assert_int_equal(neap__checkpoint_read(f, "optimizer/labels", &three, out, &t->err), NEAP_OK);
  neap__h5_close(f);
  assert_int_equal(neap__checkpoint_verify(&t->host.host, t->path, &t->err), NEAP_CORRUPT);
}

static void refused_host_memory_is_survived(void **state) {
  h5_files *t = *state;
  neap_status st = NEAP_NOMEM;
  uint64_t n = 0;
  for (n = 1; st == NEAP_NOMEM; n++) {
    device d = make_device(NEAP_CHECKPOINT_STAGING);
    t->host.until = n;
    st = write_to(t, &d, NULL, 0);
    if (!st) st = neap__checkpoint_verify(&t->host.host, t->path, &t->err);
    t->host.until = 0;
    assert_true(t->host.blocks == 0);
    no_ids_are_left(t);
  }
  assert_int_equal(st, NEAP_OK);
  assert_true(n > 10);
  holds_all(t);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, h5_setup, h5_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(everything_comes_back),
      TEST(a_failing_fetch_leaves_the_old_one),
      TEST(entries_are_checked),
      TEST(reading_is_strict),
      TEST(other_files_are_no_checkpoints),
      TEST(changed_data_is_noticed),
      TEST(refused_host_memory_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
