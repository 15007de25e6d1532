/* Reading HDF5 files that others wrote, strict about all that a file can be. */
#include "h5_files.h"

/* --- types ------------------------------------------------------------------------------------------ */

static const hsize_t two[] = {2};

static void file_types_become_the_nearest_dtype(void **state) {
  h5_files *t = *state;
  static const int8_t i8[] = {-128, 127};
  static const int16_t i16[] = {-32768, 32767};
  static const uint16_t u16[] = {0, 65535};
  static const uint32_t u32[] = {0, 4294967295u};
  static const uint64_t u64[] = {0, INT64_MAX};
  static const double f64[] = {-1.5, 1e300};
  const struct {
    const char *name;
    hid_t type;
    const void *data;
    hid_t memory;
    neap_dtype expected;
    double first, last;
  } all[] = {
      {"i8", H5T_STD_I8LE, i8, H5T_NATIVE_INT8, NEAP_I32, -128, 127},
      {"i16", H5T_STD_I16BE, i16, H5T_NATIVE_INT16, NEAP_I32, -32768, 32767},
      {"u8", H5T_STD_U8LE, u16, H5T_NATIVE_UINT16, NEAP_U8, 0, 255}, /* clamped by the writer */
      {"u16", H5T_STD_U16LE, u16, H5T_NATIVE_UINT16, NEAP_I32, 0, 65535},
      {"i32", H5T_STD_I32BE, i16, H5T_NATIVE_INT16, NEAP_I32, -32768, 32767},
      {"u32", H5T_STD_U32LE, u32, H5T_NATIVE_UINT32, NEAP_I64, 0, 4294967295.0},
      {"i64", H5T_STD_I64LE, i16, H5T_NATIVE_INT16, NEAP_I64, -32768, 32767},
      {"u64", H5T_STD_U64LE, u64, H5T_NATIVE_UINT64, NEAP_I64, 0, 9223372036854775807.0},
      {"f32", H5T_IEEE_F32BE, i16, H5T_NATIVE_INT16, NEAP_F32, -32768, 32767},
      {"f64", H5T_IEEE_F64LE, f64, H5T_NATIVE_DOUBLE, NEAP_F64, -1.5, 1e300},
  };
  hid_t raw = raw_file(t);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    raw_put(raw, all[i].name, all[i].type, 1, two, H5P_DEFAULT, NULL);
    hid_t d = H5Dopen2(raw, all[i].name, H5P_DEFAULT);
    assert_true(H5Dwrite(d, all[i].memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, all[i].data) >= 0);
    H5Dclose(d);
  }
  H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    neap_h5_item *it = found(t, f, all[i].name);
    union {
      float f32[2];
      double f64[2];
      int64_t i64[2];
      int32_t i32[2];
      uint8_t u8[2];
    } v;
    assert_int_equal(it->kind, NEAP_H5_DATASET);
    assert_int_equal(it->desc.dtype, all[i].expected);
    assert_int_equal(it->desc.shape.ndim, 1);
    assert_int_equal(neap__h5_read(it, &v, neap__desc_bytes(&it->desc), &t->err), NEAP_OK);
    for (int k = 0; k < 2; k++) {
      const double got = it->desc.dtype == NEAP_F32   ? (double)v.f32[k]
                         : it->desc.dtype == NEAP_F64 ? v.f64[k]
                         : it->desc.dtype == NEAP_I64 ? (double)v.i64[k]
                         : it->desc.dtype == NEAP_I32 ? v.i32[k]
                                                      : v.u8[k];
      if (!(got == (k ? all[i].last : all[i].first))) fail_msg("%s[%d] is %g", all[i].name, k, got);
    }
  }
  neap__h5_close(f);
}

static void uint64_past_int64_is_an_error(void **state) {
  h5_files *t = *state;
  static const uint64_t u64[] = {7, (uint64_t)INT64_MAX + 3};
  int64_t out[2];
  hid_t raw = raw_file(t);
  raw_put(raw, "u", H5T_NATIVE_UINT64, 1, two, H5P_DEFAULT, u64);
  H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(neap__h5_read(found(t, f, "u"), out, sizeof out, &t->err), NEAP_RANGE);
  says(t, "u: the value 9223372036854775810 does not fit into int64");
  assert_int_equal(neap__h5_read_rows(found(t, f, "u"), 0, 1, out, 8, &t->err), NEAP_OK);
  assert_int_equal(out[0], 7);
  neap__h5_close(f);
}

static hid_t raw_bool(void) {
  hid_t b = H5Tenum_create(H5T_NATIVE_INT8);
  H5Tenum_insert(b, "FALSE", &(int8_t){0});
  H5Tenum_insert(b, "TRUE", &(int8_t){1});
  return b;
}

static void booleans_are_h5pys(void **state) {
  h5_files *t = *state;
  static const int8_t good[] = {0, 1}, bad[] = {1, 7};
  uint8_t out[2];
  hid_t raw = raw_file(t), b = raw_bool();
  raw_put(raw, "good", b, 1, two, H5P_DEFAULT, good);
  raw_put(raw, "bad", b, 1, two, H5P_DEFAULT, bad);
  raw_attr(raw, "flags", b, 1, two, good);
  H5Tclose(b);
  H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  const neap_h5_attr *a;
  assert_int_equal(found(t, f, "good")->desc.dtype, NEAP_BOOL);
  assert_int_equal(neap__h5_read(found(t, f, "good"), out, 2, &t->err), NEAP_OK);
  assert_memory_equal(out, good, 2);
  assert_int_equal(neap__h5_read(found(t, f, "bad"), out, 2, &t->err), NEAP_CORRUPT);
  says(t, "a boolean is 7");
  assert_int_equal(neap__h5_attr(neap__h5_root(f), "flags", &a, &t->err), NEAP_OK);
  assert_true(a->kind == NEAP_H5_ATTR_INTS && a->n == 2 && a->v.ints[0] == 0 && a->v.ints[1] == 1);
  neap__h5_close(f);
}

static void types_without_a_dtype_are_refused(void **state) {
  h5_files *t = *state;
  static const hsize_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  hid_t raw = raw_file(t);
  hid_t pair = H5Tcreate(H5T_COMPOUND, 8), odd = H5Tcopy(H5T_NATIVE_INT32), colour = H5Tenum_create(H5T_NATIVE_INT32);
  hid_t text = H5Tcopy(H5T_C_S1), null = H5Screate(H5S_NULL);
  H5Tinsert(pair, "a", 0, H5T_NATIVE_INT32);
  H5Tset_precision(odd, 24);
  H5Tenum_insert(colour, "RED", &(int){0});
  H5Tset_size(text, 4);
  raw_put(raw, "compound", pair, 1, two, H5P_DEFAULT, NULL);
  raw_put(raw, "odd", odd, 1, two, H5P_DEFAULT, NULL);
  raw_put(raw, "enum", colour, 1, two, H5P_DEFAULT, NULL);
  raw_put(raw, "texts", text, 1, two, H5P_DEFAULT, NULL);
  raw_put(raw, "deep", H5T_NATIVE_FLOAT, 9, nine, H5P_DEFAULT, NULL);
  H5Dclose(H5Dcreate2(raw, "null", H5T_NATIVE_FLOAT, null, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Tcommit2(raw, "type", pair, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Tclose(pair), H5Tclose(odd), H5Tclose(colour), H5Tclose(text), H5Sclose(null), H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(find_status(t, f, "compound"), NEAP_DTYPE);
  says(t, "a.h5: compound: expected floats of 16, 32 or 64 bits");
  says(t, "found compound of 8 bytes");
  assert_int_equal(find_status(t, f, "odd"), NEAP_DTYPE);
  assert_int_equal(find_status(t, f, "enum"), NEAP_DTYPE);
  assert_int_equal(find_status(t, f, "texts"), NEAP_DTYPE);
  assert_int_equal(find_status(t, f, "deep"), NEAP_SHAPE);
  assert_int_equal(find_status(t, f, "null"), NEAP_UNSUPPORTED);
  assert_int_equal(find_status(t, f, "type"), NEAP_UNSUPPORTED);
  neap__h5_close(f);
}

static void absurd_sizes_are_refused(void **state) {
  h5_files *t = *state;
  static const hsize_t huge[3] = {(hsize_t)1 << 31, (hsize_t)1 << 31, 4}, chunk[3] = {1, 1, 4};
  hid_t raw = raw_file(t), list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 3, chunk);
  raw_put(raw, "huge", H5T_NATIVE_FLOAT, 3, huge, list, NULL);
  H5Pclose(list);
  H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(find_status(t, f, "huge"), NEAP_RANGE);
  says(t, "huge: shape [2147483648, 2147483648, 4]");
  neap__h5_close(f);
}

/* --- what leaves the file --------------------------------------------------------------------------- */

static void links_stay_inside(void **state) {
  h5_files *t = *state;
  float out = 0;
  static const float pi = 3.25f;
  hid_t raw = raw_file(t), g = H5Gcreate2(raw, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  raw_put(g, "x", H5T_NATIVE_FLOAT, 0, NULL, H5P_DEFAULT, &pi);
  H5Lcreate_soft("/g/./x", raw, "absolute", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("x", g, "relative", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("g", raw, "folder", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/nowhere/x", raw, "dangling", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/ring2", raw, "ring1", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/ring1", raw, "ring2", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external(t->path, "/g/x", raw, "outside", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/outside", raw, "sneaky", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(raw, "/", g, "up", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(g);
  H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  static const char *const good[] = {"g/x", "absolute", "g/relative", "folder/x", "/g/x", "g/up/folder/up/g/relative"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    out = 0;
    assert_int_equal(neap__h5_read(found(t, f, good[i]), &out, 4, &t->err), NEAP_OK);
    assert_true(out == pi);
  }
  assert_int_equal(find_status(t, f, "dangling"), NEAP_NOT_FOUND);
  says(t, "dangling: a soft link to '/nowhere/x'");
  assert_int_equal(find_status(t, f, "ring1"), NEAP_CORRUPT);
  says(t, "circle");
  assert_int_equal(find_status(t, f, "outside"), NEAP_UNSUPPORTED);
  says(t, "outside: an external or user-defined link");
  assert_int_equal(find_status(t, f, "sneaky"), NEAP_UNSUPPORTED);
  assert_int_equal(find_status(t, f, "outside/x"), NEAP_UNSUPPORTED);
  neap__h5_close(f);
}

static neap_status count_visit(void *user, neap_h5_item *item, neap_error *err) {
  (void)item;
  (void)err;
  ++*(int *)user;
  return NEAP_OK;
}

static void circles_of_groups_come_to_an_end(void **state) {
  h5_files *t = *state;
  int n = 0;
  hid_t raw = raw_file(t), g = H5Gcreate2(raw, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(raw, "g", g, "self", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(g);
  H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(neap__h5_walk(neap__h5_root(f), count_visit, &n, &t->err), NEAP_UNSUPPORTED);
  says(t, "nested");
  neap__h5_close(f);
}

static void foreign_storage_and_filters_are_refused(void **state) {
  h5_files *t = *state;
  static const hsize_t chunk[] = {2};
  hid_t raw = raw_file(t), list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, two, NULL);
  H5Pset_virtual(list, space, "other.h5", "x", space);
  raw_put(raw, "virtual", H5T_NATIVE_INT32, 1, two, list, NULL);
  H5Pclose(list);
  list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(list, "/etc/hostname", 0, 8);
  raw_put(raw, "external", H5T_NATIVE_INT32, 1, two, list, NULL);
  H5Pclose(list);
  list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 1, chunk);
  H5Pset_scaleoffset(list, H5Z_SO_INT, 0);
  raw_put(raw, "scaled", H5T_NATIVE_INT32, 1, two, list, NULL);
  H5Pclose(list);
  H5Sclose(space);
  H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(find_status(t, f, "virtual"), NEAP_UNSUPPORTED);
  says(t, "virtual: a virtual dataset");
  assert_int_equal(find_status(t, f, "external"), NEAP_UNSUPPORTED);
  says(t, "external: its data lie in other files");
  assert_int_equal(find_status(t, f, "scaled"), NEAP_UNSUPPORTED);
  says(t, "filter 6");
  neap__h5_close(f);
}

/* --- rows ------------------------------------------------------------------------------------------- */

enum { ROWS = 103, WIDTH = 6 };

/* x[i][j] = 100 i + j, compressed in chunks of 10 rows. */
static void write_rows(h5_files *t) {
  static const hsize_t dims[] = {ROWS, 2, 3}, chunk[] = {10, 2, 2};
  int32_t x[ROWS][WIDTH];
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < WIDTH; j++) x[i][j] = 100 * i + j;
  hid_t raw = raw_file(t), list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 3, chunk);
  H5Pset_shuffle(list);
  H5Pset_deflate(list, 4);
  H5Pset_fletcher32(list);
  raw_put(raw, "x", H5T_NATIVE_INT32, 3, dims, list, x);
  raw_put(raw, "flat", H5T_NATIVE_INT32, 3, dims, H5P_DEFAULT, x);
  raw_put(raw, "scalar", H5T_NATIVE_INT32, 0, NULL, H5P_DEFAULT, x);
  H5Pclose(list);
  H5Fclose(raw);
}

static void rows_come_in_any_order(void **state) {
  h5_files *t = *state;
  static const char *const names[] = {"x", "flat"};
  static const uint64_t caches[] = {0, 500, 1 << 20}; /* none, less than the chunks, more */
  write_rows(t);
  for (int k = 0; k < 6; k++) {
    int32_t out[ROWS][WIDTH];
    int64_t rows[ROWS];
    neap_h5_file *f = opened(t, caches[k / 2]);
    neap_h5_item *it = found(t, f, names[k % 2]);
    for (int i = 0; i < ROWS; i++) rows[i] = i % 5 == 4 ? rows[i - 1] + 1 : (i * 37) % (ROWS - 1);
    for (int again = 0; again < 2; again++) {
      memset(out, 0, sizeof out);
      assert_int_equal(neap__h5_read_index(it, rows, ROWS, out, sizeof out, &t->err), NEAP_OK);
      for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++) assert_int_equal(out[i][j], 100 * rows[i] + j);
    }
    assert_int_equal(neap__h5_read_rows(it, 55, 40, out, 40 * WIDTH * 4, &t->err), NEAP_OK);
    for (int i = 0; i < 40; i++) assert_int_equal(out[i][WIDTH - 1], 100 * (55 + i) + WIDTH - 1);
    assert_int_equal(neap__h5_read_rows(it, ROWS, 0, out, 0, &t->err), NEAP_OK);
    assert_int_equal(neap__h5_read_index(it, rows, 0, out, 0, &t->err), NEAP_OK);
    neap__h5_close(f);
  }
}

static void rows_outside_are_refused(void **state) {
  h5_files *t = *state;
  int32_t out[2 * WIDTH];
  write_rows(t);
  neap_h5_file *f = opened(t, 0);
  neap_h5_item *x = found(t, f, "x");
  assert_int_equal(neap__h5_read_rows(x, 102, 2, out, sizeof out, &t->err), NEAP_RANGE);
  says(t, "x: 2 rows from row 102 on: there are 103");
  assert_int_equal(neap__h5_read_rows(x, -1, 2, out, sizeof out, &t->err), NEAP_RANGE);
  assert_int_equal(neap__h5_read_rows(x, 0, -2, out, sizeof out, &t->err), NEAP_SHAPE);
  assert_int_equal(neap__h5_read_rows(x, 0, INT64_MAX, out, sizeof out, &t->err), NEAP_RANGE);
  assert_int_equal(neap__h5_read_index(x, (const int64_t[]){0, 103}, 2, out, sizeof out, &t->err), NEAP_RANGE);
  says(t, "row 103: there are 103");
  assert_int_equal(neap__h5_read_index(x, (const int64_t[]){0, -1}, 2, out, sizeof out, &t->err), NEAP_RANGE);
  assert_int_equal(neap__h5_read_rows(x, 0, 2, out, sizeof out - 1, &t->err), NEAP_SHAPE);
  says(t, "[2, 2, 3] of int32 takes 48 bytes, there are 47");
  assert_int_equal(neap__h5_read_rows(found(t, f, "scalar"), 0, 1, out, 4, &t->err), NEAP_SHAPE);
  assert_int_equal(neap__h5_read(neap__h5_root(f), out, 4, &t->err), NEAP_INVALID);
  says(t, "found a group");
  neap__h5_close(f);
}

typedef struct gathered {
  int32_t x[ROWS * WIDTH];
  size_t at, most;
} gathered;

static neap_status gather(void *user, size_t offset, const void *data, size_t bytes, neap_error *err) {
  gathered *g = user;
  if (offset != g->at || bytes > g->most)
    return neap__fail(err, NEAP_INTERNAL, "piece at %zu, %zu bytes", offset, bytes);
  memcpy((char *)g->x + offset, data, bytes);
  g->at += bytes;
  return NEAP_OK;
}

static void streams_keep_within_their_staging(void **state) {
  h5_files *t = *state;
  static const size_t sizes[] = {4, 5, 8, 12, 20, 24, 47, 100, 1000, 4096};
  char staging[4096];
  write_rows(t);
  neap_h5_file *f = opened(t, 0);
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    gathered g = {.most = sizes[k]};
    if (neap__h5_stream(found(t, f, "x"), staging, sizes[k], gather, &g, &t->err)) fail_msg("%s", t->err.message);
    assert_int_equal(g.at, sizeof g.x);
    for (int i = 0; i < ROWS * WIDTH; i++) assert_int_equal(g.x[i], 100 * (i / WIDTH) + i % WIDTH);
    g = (gathered){.most = 64};
    assert_int_equal(neap__h5_stream(found(t, f, "scalar"), staging, sizes[k], gather, &g, &t->err), NEAP_OK);
    assert_int_equal(g.at, 4);
  }
  gathered g = {.at = 1};
  assert_int_equal(neap__h5_stream(found(t, f, "x"), staging, 3, gather, &g, &t->err), NEAP_INVALID);
  assert_int_equal(neap__h5_stream(found(t, f, "x"), staging, 64, gather, &g, &t->err), NEAP_INTERNAL);
  neap__h5_close(f);
}

/* --- attributes and strings ------------------------------------------------------------------------- */

static void attributes_come_by_kind(void **state) {
  h5_files *t = *state;
  static const char *const var = "h\xc3\xa4llo";
  static const uint64_t large = UINT64_MAX;
  static const float reals[] = {1.5f, -2};
  hid_t raw = raw_file(t), text = H5Tcopy(H5T_C_S1), fixed = H5Tcopy(H5T_FORTRAN_S1);
  hid_t g = H5Gcreate2(raw, "bad", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Tset_size(text, H5T_VARIABLE);
  H5Tset_size(fixed, 6);
  raw_attr(raw, "var", text, 0, NULL, &var);
  raw_attr(raw, "fixed", fixed, 0, NULL, "abc   ");
  raw_attr(raw, "int", H5T_STD_U8LE, 0, NULL, "\xff");
  raw_attr(raw, "real", H5T_NATIVE_DOUBLE, 0, NULL, &(double){0.1});
  raw_attr(raw, "reals", H5T_NATIVE_FLOAT, 1, two, reals);
  raw_attr(raw, "texts", text, 1, two, (const char *const[]){"a", "b"});
  raw_attr(g, "large", H5T_NATIVE_UINT64, 0, NULL, &large);
  raw_put(raw, "s", text, 0, NULL, H5P_DEFAULT, &var);
  raw_put(raw, "empty", text, 0, NULL, H5P_DEFAULT, &(const char *){NULL});
  H5Tclose(text), H5Tclose(fixed), H5Gclose(g), H5Fclose(raw);
  neap_h5_file *f = opened(t, 0);
  neap_h5_item *root = neap__h5_root(f);
  const neap_h5_attr *a;
  const char *s;
  size_t n;
  uint32_t count;
  assert_int_equal(neap__h5_attr(root, "var", &a, &t->err), NEAP_OK);
  assert_true(a->kind == NEAP_H5_ATTR_TEXT && a->n == 6 && strcmp(a->v.text, var) == 0);
  assert_int_equal(neap__h5_attr(root, "fixed", &a, &t->err), NEAP_OK);
  assert_true(a->kind == NEAP_H5_ATTR_TEXT && a->n == 3 && strcmp(a->v.text, "abc") == 0);
  assert_int_equal(neap__h5_attr(root, "int", &a, &t->err), NEAP_OK);
  assert_true(a->kind == NEAP_H5_ATTR_INT && a->v.i == 255);
  assert_int_equal(neap__h5_attr(root, "real", &a, &t->err), NEAP_OK);
  assert_true(a->kind == NEAP_H5_ATTR_REAL && a->v.f == 0.1);
  assert_int_equal(neap__h5_attr(root, "reals", &a, &t->err), NEAP_OK);
  assert_true(a->kind == NEAP_H5_ATTR_REALS && a->n == 2 && a->v.reals[1] == -2);
  assert_int_equal(neap__h5_attr(root, "texts", &a, &t->err), NEAP_OK);
  assert_int_equal(a->kind, NEAP_H5_ATTR_OTHER);
  assert_int_equal(neap__h5_attrs(root, &a, &count, &t->err), NEAP_OK);
  assert_int_equal(count, 6);
  assert_int_equal(neap__h5_attr(found(t, f, "s"), "none", &a, &t->err), NEAP_NOT_FOUND);
  says(t, "a.h5: s: there is no attribute 'none'");
  assert_int_equal(neap__h5_attr(found(t, f, "bad"), "large", &a, &t->err), NEAP_RANGE);
  says(t, "18446744073709551615 of attribute 'large'");
  assert_int_equal(neap__h5_read_text(found(t, f, "s"), &s, &n, &t->err), NEAP_OK);
  assert_true(n == 6 && strcmp(s, var) == 0);
  assert_int_equal(neap__h5_read_text(found(t, f, "empty"), &s, &n, &t->err), NEAP_OK);
  assert_true(n == 0 && s[0] == '\0');
  assert_int_equal(neap__h5_read_text(root, &s, &n, &t->err), NEAP_INVALID);
  neap__h5_close(f);
}

/* --- files ------------------------------------------------------------------------------------------ */

static void missing_things_are_named(void **state) {
  h5_files *t = *state;
  neap_h5_file *f;
  assert_int_equal(neap__h5_open(&t->host.host, t->path, 0, &f, &t->err), NEAP_NOT_FOUND);
  says(t, t->path);
  assert_int_equal(neap__h5_open(&t->host.host, t->folder, 0, &f, &t->err), NEAP_INVALID);
  write_rows(t);
  f = opened(t, 0);
  assert_int_equal(find_status(t, f, "y"), NEAP_NOT_FOUND);
  says(t, "there is no item 'y'; group '/' has: flat, scalar, x");
  assert_int_equal(find_status(t, f, "x/y"), NEAP_INVALID);
  says(t, "x: expected a group, found a dataset");
  neap__h5_close(f);
  neap__h5_close(NULL);
}

static void cut_files_are_corrupt(void **state) {
  h5_files *t = *state;
  struct stat s;
  neap_h5_file *f;
  write_rows(t);
  assert_int_equal(stat(t->path, &s), 0);
  for (off_t size = s.st_size - 1; size >= 0; size = size > 0 ? size * 3 / 4 : -1) {
    assert_int_equal(truncate(t->path, size), 0);
    assert_int_equal(neap__h5_open(&t->host.host, t->path, 0, &f, &t->err), NEAP_CORRUPT);
    says(t, "not an HDF5 file, or a damaged one");
    no_ids_are_left(t);
  }
}

static void damaged_chunks_are_corrupt(void **state) {
  h5_files *t = *state;
  int32_t out[ROWS * WIDTH];
  haddr_t at = 0;
  hsize_t bytes = 0;
  unsigned mask;
  hsize_t where[3];
  write_rows(t);
  hid_t raw = H5Fopen(t->path, H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(raw, "x", H5P_DEFAULT);
  hid_t space = H5Dget_space(d);
  assert_true(H5Dget_chunk_info(d, space, 3, where, &mask, &at, &bytes) >= 0);
  H5Sclose(space), H5Dclose(d), H5Fclose(raw);
  FILE *file = fopen(t->path, "r+b");
  assert_non_null(file);
  fseek(file, (long)(at + bytes / 2), SEEK_SET);
  fputc('?', file);
  fputc('!', file);
  fclose(file);
  neap_h5_file *f = opened(t, 0);
  assert_int_equal(neap__h5_read(found(t, f, "x"), out, sizeof out, &t->err), NEAP_CORRUPT);
  says(t, "a.h5: x: cannot read its data: ");
  assert_int_equal(neap__h5_read(found(t, f, "flat"), out, sizeof out, &t->err), NEAP_OK);
  neap__h5_close(f);
}

static herr_t own_handler(hid_t stack, void *user) {
  (void)stack;
  ++*(int *)user;
  return 0;
}

static herr_t old_handler(void *user) { return ++*(int *)user, 0; }

static void the_applications_error_handler_is_kept(void **state) {
  h5_files *t = *state;
  int calls = 0;
  H5E_auto2_t before, now;
  H5E_auto1_t old;
  void *before_user, *user;
  neap_h5_file *f;
  H5Eget_auto2(H5E_DEFAULT, &before, &before_user);
  write_rows(t);
  assert_int_equal(truncate(t->path, 700), 0);
  H5Eset_auto2(H5E_DEFAULT, own_handler, &calls);
  assert_int_equal(neap__h5_open(&t->host.host, t->path, 0, &f, &t->err), NEAP_CORRUPT);
  H5Eget_auto2(H5E_DEFAULT, &now, &user);
  assert_true(now == own_handler && user == &calls && calls == 0);
  H5Eset_auto1(old_handler, &calls);
  assert_int_equal(neap__h5_open(&t->host.host, t->path, 0, &f, &t->err), NEAP_CORRUPT);
  H5Eget_auto1(&old, &user);
  assert_true(old == old_handler && user == &calls && calls == 0);
  H5Eset_auto2(H5E_DEFAULT, before, before_user);
}

static neap_status read_everything(h5_files *t, neap_h5_file **f) {
  int32_t out[ROWS * WIDTH];
  neap_h5_item *x;
  const neap_h5_attr *a;
  uint32_t n;
  neap_status st = neap__h5_open(&t->host.host, t->path, 1 << 20, f, &t->err);
  if (!st) st = neap__h5_find(neap__h5_root(*f), "x", &x, &t->err);
  if (!st) st = neap__h5_read(x, out, sizeof out, &t->err);
  if (!st) st = neap__h5_read_rows(x, 0, 1, out, WIDTH * 4, &t->err);
  if (!st) st = neap__h5_attrs(neap__h5_root(*f), &a, &n, &t->err);
  return st;
}

static void refused_host_memory_is_survived(void **state) {
  h5_files *t = *state;
  write_rows(t);
  hid_t raw = H5Fopen(t->path, H5F_ACC_RDWR, H5P_DEFAULT);
  for (int i = 0; i < 40; i++) {
    char name[32];
    snprintf(name, sizeof name, "attribute%d", i);
    raw_attr(raw, name, H5T_NATIVE_INT32, 0, NULL, &i);
    snprintf(name, sizeof name, "group%d", i);
    H5Gclose(H5Gcreate2(raw, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  H5Fclose(raw);
  neap_status st = NEAP_NOMEM;
  uint64_t n = 0;
  for (n = 1; st == NEAP_NOMEM; n++) {
    neap_h5_file *f = NULL;
    t->host.until = n;
    st = read_everything(t, &f);
    t->host.until = 0;
    if (st == NEAP_NOMEM) says(t, "no host memory");
    neap__h5_close(f);
    assert_true(t->host.blocks == 0);
    no_ids_are_left(t);
  }
  assert_int_equal(st, NEAP_OK);
  assert_true(n > 5); /* it did fail a few times before it went through */
}

static void the_digits_are_there(void **state) {
  h5_files *t = *state;
  neap_h5_file *f;
  uint8_t labels[2004];
  unsigned seen = 0;
  if (neap__h5_open(&t->host.host, "data/mnist10k.h5", 0, &f, &t->err)) fail_msg("%s", t->err.message);
  neap_h5_item *x = found(t, f, "train/images"), *y = found(t, f, "test/labels");
  assert_true(x->desc.dtype == NEAP_U8 && x->desc.shape.ndim == 3 && x->desc.shape.dim[0] == 7996);
  assert_int_equal(neap__h5_read(y, labels, sizeof labels, &t->err), NEAP_OK);
  for (size_t i = 0; i < sizeof labels; i++) seen |= 1u << labels[i];
  assert_int_equal(seen, 1023);
  neap__h5_close(f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, h5_setup, h5_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(file_types_become_the_nearest_dtype),
      TEST(uint64_past_int64_is_an_error),
      TEST(booleans_are_h5pys),
      TEST(types_without_a_dtype_are_refused),
      TEST(absurd_sizes_are_refused),
      TEST(links_stay_inside),
      TEST(circles_of_groups_come_to_an_end),
      TEST(foreign_storage_and_filters_are_refused),
      TEST(rows_come_in_any_order),
      TEST(rows_outside_are_refused),
      TEST(streams_keep_within_their_staging),
      TEST(attributes_come_by_kind),
      TEST(missing_things_are_named),
      TEST(cut_files_are_corrupt),
      TEST(damaged_chunks_are_corrupt),
      TEST(the_applications_error_handler_is_kept),
      TEST(refused_host_memory_is_survived),
      TEST(the_digits_are_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
