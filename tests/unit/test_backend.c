#include <malloc.h>
#include <stdio.h>

#include "kernel_case.h"
#include "memory/resource.h"
#include "op/op.h"

static neap_status open_named(const char *device, fail_host *h, neap_backend **out, neap_error *err) {
  neap_backend_config c = {.size = sizeof c, .host = &h->host};
  return neap__backend_open(device, &c, out, err);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static void devices_open_by_name(void **state) {
  static const struct {
    const char *name, *device;
  } good[] = {{"cpu", "cpu"}, {"cpu:0", "cpu"}, {"auto", "cpu"}, {"", "cpu"}, {NULL, "cpu"}, {"null", "null"}};
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    fail_host h;
    neap_backend *b = NULL;
    neap_error err = {0};
    neap_backend_info info;
    fail_host_init(&h);
    assert_int_equal(open_named(good[i].name, &h, &b, &err), NEAP_OK);
    b->vt->info(b, &info);
    assert_string_equal(info.device, good[i].device);
    assert_true(strstr(info.description, good[i].device) == info.description);
    neap__backend_close(b);
    assert_int_equal(h.blocks, 0);
  }
  neap__backend_close(NULL);
}

static void wrong_names_say_what_is_expected(void **state) {
  static const struct {
    const char *name;
    neap_status status;
    const char *message;
  } bad[] = {
      {"cuda", NEAP_DEVICE, "device 'cuda': the CUDA backend library was not found"},
      {"cuda:3", NEAP_DEVICE, "device 'cuda': the CUDA backend library was not found"},
      {"gpu", NEAP_NOT_FOUND, "device 'gpu' is unknown; expected auto, cpu, null or cuda"},
      {":1", NEAP_NOT_FOUND, "device ':1' is unknown; expected auto, cpu, null or cuda"},
      {"cpu:1", NEAP_DEVICE, "device 'cpu:1': there is only 'cpu:0'"},
      {"cpu:", NEAP_RANGE, "device 'cpu:': expected a number from 0 to 1023 after the colon"},
      {"cpu:-1", NEAP_RANGE, "device 'cpu:-1': expected a number from 0 to 1023 after the colon"},
      {"cpu:99999999999999999999", NEAP_RANGE,
       "device 'cpu:99999999999999999999': expected a number from 0 to 1023 after the colon"},
  };
  fail_host h;
  (void)state;
  fail_host_init(&h);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    neap_backend *b = (neap_backend *)&h;
    neap_error err = {0};
    assert_int_equal(open_named(bad[i].name, &h, &b, &err), bad[i].status);
    assert_string_equal(err.message, bad[i].message);
    assert_null(b);
  }
}

static void opening_survives_a_refusal(void **state) {
  static const char *const names[] = {"cpu", "null"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    fail_host h;
    neap_backend *b = NULL;
    neap_error err = {0};
    fail_host_init(&h);
    h.until = 1;
    assert_int_equal(open_named(names[i], &h, &b, &err), NEAP_NOMEM);
    assert_null(b);
    assert_int_equal(h.blocks, 0);
  }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static size_t resident_bytes(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  unsigned long size = 0, resident = 0;
  assert_non_null(f);
  assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
  fclose(f);
  return (size_t)resident * 4096;
}

static void memory_is_aligned_and_given_back(void **state) {
  static const size_t sizes[] = {1, 64, 65, 4096, 262143, 262144, 262145, (size_t)48 << 20};
  fail_host h;
  neap_backend *b = NULL;
  neap_error err = {0};
  (void)state;
  fail_host_init(&h);
  assert_int_equal(open_named("cpu", &h, &b, &err), NEAP_OK);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *p = NULL;
    const size_t before = resident_bytes();
    assert_int_equal(b->vt->reserve(b, sizes[i], &p, &err), NEAP_OK);
    assert_int_equal((uintptr_t)p % NEAP_ALIGN, 0);
    assert_int_equal(b->vt->fill(b, p, 0x5a, sizes[i], &err), NEAP_OK);
    assert_int_equal(((unsigned char *)p)[sizes[i] - 1], 0x5a);
    b->vt->release(b, p, sizes[i]);
    assert_true(resident_bytes() < before + ((size_t)8 << 20));
  }
  b->vt->release(b, NULL, 64);
  neap__backend_close(b);
}

static void a_huge_request_is_refused(void **state) {
  fail_host h;
  neap_backend *b = NULL;
  neap_error err = {0};
  void *p = &h;
  (void)state;
  fail_host_init(&h);
  assert_int_equal(open_named("cpu", &h, &b, &err), NEAP_OK);
  assert_int_equal(b->vt->reserve(b, (size_t)1 << 60, &p, &err), NEAP_OOM);
  assert_null(p);
  assert_int_equal(err.bytes, (uint64_t)1 << 60);
  assert_string_equal(err.message, "the system refused 1152921504606846976 bytes");
  neap__backend_close(b);
}

static void copies_may_overlap(void **state) {
  char text[] = "abcdefgh";
  fail_host h;
  neap_backend *b = NULL;
  neap_error err = {0};
  (void)state;
  fail_host_init(&h);
  assert_int_equal(open_named("cpu", &h, &b, &err), NEAP_OK);
  assert_int_equal(b->vt->copy(b, text + 2, text, 6, NEAP_COPY_WITHIN, &err), NEAP_OK);
  assert_string_equal(text, "ababcdef");
  assert_int_equal(b->vt->copy(b, NULL, NULL, 0, NEAP_COPY_IN, &err), NEAP_OK);
  neap__backend_close(b);
}

/* --- the null backend ----------------------------------------------------------------------------------- */

static void null_takes_addresses_and_no_memory(void **state) {
  const size_t bytes = (size_t)500 << 30;
  fail_host h;
  neap_backend *b = NULL;
  neap_error err = {0};
  neap_kernel *k = NULL;
  void *p = NULL;
  (void)state;
  fail_host_init(&h);
  assert_int_equal(open_named("null", &h, &b, &err), NEAP_OK);
  const size_t before = resident_bytes();
  assert_int_equal(b->vt->reserve(b, bytes, &p, &err), NEAP_OK);
  assert_non_null(p);
  assert_true(resident_bytes() < before + ((size_t)1 << 20));
  neap_sig s = {.op = &neap__op_linear};
  assert_int_equal(b->vt->prepare(b, &s, &k, &err), NEAP_OK);
  assert_int_equal(k->workspace, 0);
  assert_int_equal(k->n_phases, 1);
  neap_launch l = {0};
  assert_int_equal(b->vt->launch(b, k, &l, 0, 0, k->tasks[0], &err), NEAP_OK);
  b->vt->kernel_free(b, k);
  b->vt->release(b, p, bytes);
  neap__backend_close(b);
  assert_int_equal(h.blocks, 0);
}

/* --- kernels -------------------------------------------------------------------------------------------- */

static void tasks_share_out_all_units(void **state) {
  static const double seconds[] = {0, 1e-12, 1e-9, 1e-6, 1e-4, 1};
  static const int64_t counts[] = {0, 1, 2, 7, 1000, 1000003, (int64_t)1 << 40};
  (void)state;
  for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++)
    for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
      int64_t per = 0;
      const int64_t n = counts[j], tasks = neap__cpu_split(n, seconds[i], &per);
      assert_true(per >= 1);
      assert_true(tasks * per >= n && (tasks - 1) * per < (n ? n : 1));
      if (n == 0) assert_int_equal(tasks, 0);
      /* A task is not cut finer than a wake-up costs, nor coarser than a time slice when units allow. */
      if (tasks > 1 && n < 1000003) assert_true((double)per * seconds[i] > 4e-6);
      if (n < 1000003 && seconds[i] < 1e-4) assert_true((double)per * seconds[i] < 4e-4);
    }
}

static void the_first_fault_stays(void **state) {
  neap_fault f = {0};
  (void)state;
  neap__cpu_fault(&f, NEAP_RANGE, 3, 17, 10);
  neap__cpu_fault(&f, NEAP_NOMEM, 4, 18, 11);
  assert_int_equal(f.code, NEAP_RANGE);
  assert_int_equal(f.row, 3);
  assert_int_equal(f.value, 17);
  assert_int_equal(f.limit, 10);
  neap__cpu_fault(NULL, NEAP_RANGE, 0, 0, 0);
}

static kernel_case product(int rows) {
  kernel_case c = {.op = &neap__op_linear, .n_in = 2};
  c.in[0].desc = case_desc(NEAP_F32, 2, rows, 30);
  c.in[1].desc = case_desc(NEAP_F32, 2, 20, 30);
  for (uint32_t i = 0; i < 2; i++) c.in_data[i] = case_numbers(&c.in[i].desc, i);
  case_infer(&c);
  return c;
}

static void tasks_out_of_range_are_refused(void **state) {
  case_device d;
  kernel_case c = product(4);
  neap_kernel *k = NULL;
  neap_error err = {0};
  neap_launch l = {0};
  (void)state;
  device_open(&d, 1, true);
  assert_int_equal(case_prepare(&d, &c, &k, &err), NEAP_OK);
  assert_int_equal(d.b->vt->launch(d.b, k, &l, k->n_phases, 0, 1, &err), NEAP_INTERNAL);
  assert_int_equal(d.b->vt->launch(d.b, k, &l, 0, 0, k->tasks[0] + 1, &err), NEAP_INTERNAL);
  assert_int_equal(d.b->vt->launch(d.b, k, &l, 0, UINT32_MAX, 2, &err), NEAP_INTERNAL);
  assert_string_equal(err.op, "");
  d.b->vt->kernel_free(d.b, k);
  d.b->vt->kernel_free(d.b, NULL);
  case_free(&c);
  device_close(&d);
}

/* What libraries take in a launch they give back before it returns. */
static void launches_keep_no_memory(void **state) {
  case_device d;
  kernel_case c = {.op = &neap__op_conv2d, .n_in = 2};
  (void)state;
  c.in[0].desc = case_desc(NEAP_F32, 4, 9, 3, 8, 8);
  c.in[1].desc = case_desc(NEAP_F32, 4, 5, 3, 3, 3);
  for (uint32_t i = 0; i < 2; i++) c.in_data[i] = case_numbers(&c.in[i].desc, i);
  case_infer(&c);
  device_open(&d, 1, true);
  neap_kernel *k = NULL;
  neap_error err = {0};
  assert_int_equal(case_prepare(&d, &c, &k, &err), NEAP_OK);
  for (int i = 0; i < 9; i++) case_launch(&d, &c, k, true); /* the allocator's own caches fill */
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 5; i++) case_launch(&d, &c, k, true);
  assert_int_equal(mallinfo2().uordblks, before);
  d.b->vt->kernel_free(d.b, k);
  case_free(&c);
  device_close(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_open_by_name),
      cmocka_unit_test(wrong_names_say_what_is_expected),
      cmocka_unit_test(opening_survives_a_refusal),
      cmocka_unit_test(memory_is_aligned_and_given_back),
      cmocka_unit_test(a_huge_request_is_refused),
      cmocka_unit_test(copies_may_overlap),
      cmocka_unit_test(null_takes_addresses_and_no_memory),
      cmocka_unit_test(tasks_share_out_all_units),
      cmocka_unit_test(the_first_fault_stays),
      cmocka_unit_test(tasks_out_of_range_are_refused),
      cmocka_unit_test(launches_keep_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
