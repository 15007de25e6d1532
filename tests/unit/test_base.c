#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/host.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/status.h"
#include "fail_host.h"

/* --- status -------------------------------------------------------------------------------------------- */

static void every_status_has_a_name_and_a_text(void **state) {
  (void)state;
#define XX(name, value, text)                                        \
  assert_int_equal(NEAP_##name, value);                              \
  assert_string_equal(neap_status_name(NEAP_##name), "NEAP_" #name); \
  assert_string_equal(neap_status_text(NEAP_##name), text);
  NEAP_STATUS_MAP(XX)
#undef XX
  assert_string_equal(neap_status_name((neap_status)999), "NEAP_UNKNOWN");
  assert_non_null(neap_status_text((neap_status)-1));
}

static void fail_fills_the_error(void **state) {
  neap_error e;
  (void)state;
  memset(&e, 'x', sizeof e);
  assert_int_equal(neap__fail(&e, NEAP_RANGE, "lr is %d", -1), NEAP_RANGE);
  assert_int_equal(e.status, NEAP_RANGE);
  assert_string_equal(e.message, "lr is -1");
  assert_string_equal(e.op, "");
  assert_string_equal(e.shapes, "");
  assert_string_equal(e.where, "");
  assert_true(e.bytes == 0);
  neap__error_clear(&e);
  assert_int_equal(e.status, NEAP_OK);
  assert_string_equal(e.message, "");
}

static void fail_takes_no_error_and_its_own_message(void **state) {
  neap_error e;
  (void)state;
  assert_int_equal(neap__fail(NULL, NEAP_IO, "nobody reads %s", "this"), NEAP_IO);
  neap__error_clear(NULL);
  neap__fail(&e, NEAP_IO, "no such file");
  neap__fail(&e, NEAP_IO, "loading: %s", e.message);
  assert_string_equal(e.message, "loading: no such file");
}

static void a_long_message_is_cut(void **state) {
  char big[2000];
  neap_error e;
  (void)state;
  memset(big, 'a', sizeof big - 1);
  big[sizeof big - 1] = '\0';
  neap__fail(&e, NEAP_INVALID, "%s", big);
  assert_int_equal(strlen(e.message), sizeof e.message - 1);
}

/* --- host ---------------------------------------------------------------------------------------------- */

static void host_counts_and_gives_sizes_back(void **state) {
  fail_host f;
  char *p;
  (void)state;
  fail_host_init(&f);
  p = neap__alloc(&f.host, 100);
  assert_non_null(p);
  p = neap__realloc(&f.host, p, 100, 300);
  assert_non_null(p);
  assert_true(f.host.in_use == 300 && f.host.peak == 300 && f.host.count == 2);
  p = neap__realloc(&f.host, p, 300, 10);
  assert_true(f.host.in_use == 10 && f.host.peak == 300 && f.host.count == 2);
  neap__free(&f.host, p, 10);
  neap__free(&f.host, NULL, 77);
  assert_true(f.host.in_use == 0 && f.blocks == 0 && f.wrong == 0);
}

static void host_refusals_change_nothing(void **state) {
  fail_host f;
  char *p;
  (void)state;
  fail_host_init(&f);
  p = neap__calloc(&f.host, 5, 3);
  assert_non_null(p);
  for (int i = 0; i < 15; i++) assert_int_equal(p[i], 0);
  f.until = 1;
  f.every = 1;
  assert_null(neap__alloc(&f.host, 8));
  assert_null(neap__calloc(&f.host, 1, 8));
  assert_null(neap__realloc(&f.host, p, 15, 1000));
  assert_true(f.host.in_use == 15 && f.host.count == 1);
  f.until = 0;
  assert_null(neap__calloc(&f.host, SIZE_MAX / 2, 3));
  neap__free(&f.host, p, 15);
  assert_true(f.host.in_use == 0 && f.blocks == 0 && f.wrong == 0);
}

static void nothing_is_still_a_block(void **state) {
  fail_host f;
  void *p, *q;
  (void)state;
  fail_host_init(&f);
  p = neap__alloc(&f.host, 0);
  q = neap__realloc(&f.host, NULL, 0, 0);
  assert_non_null(p);
  assert_non_null(q);
  neap__free(&f.host, p, 0);
  neap__free(&f.host, q, 0);
  assert_true(f.host.in_use == 0 && f.blocks == 0 && f.wrong == 0);
}

static void the_default_host_is_the_c_library(void **state) {
  neap_host h;
  void *p;
  (void)state;
  neap__host_init(&h, NULL, NULL);
  p = neap__alloc(&h, 64);
  assert_non_null(p);
  p = neap__realloc(&h, p, 64, 4096);
  assert_non_null(p);
  neap__free(&h, p, 4096);
  assert_true(h.in_use == 0);
}

/* --- zone ---------------------------------------------------------------------------------------------- */

static void zone_blocks_are_aligned_clear_and_apart(void **state) {
  fail_host f;
  neap_zone z;
  unsigned char *p[600];
  (void)state;
  fail_host_init(&f);
  neap__zone_init(&z, &f.host);
  for (size_t i = 0; i < 600; i++) {
    const size_t bytes = i % 97 == 0 ? 100000 : i % 50;
    p[i] = neap__zone_alloc(&z, bytes);
    assert_non_null(p[i]);
    assert_true((uintptr_t)p[i] % 16 == 0);
    for (size_t k = 0; k < bytes; k++) assert_int_equal(p[i][k], 0);
    memset(p[i], (int)(i & 0xff), bytes);
  }
  for (size_t i = 0; i < 600; i++) {
    const size_t bytes = i % 97 == 0 ? 100000 : i % 50;
    for (size_t k = 0; k < bytes; k++) assert_int_equal(p[i][k], i & 0xff);
  }
  neap__zone_free(&z);
  assert_true(f.host.in_use == 0 && f.blocks == 0 && f.wrong == 0);
}

static void a_zone_refusal_leaves_it_usable(void **state) {
  fail_host f;
  neap_zone z;
  char *s;
  (void)state;
  fail_host_init(&f);
  neap__zone_init(&z, &f.host);
  f.until = 1;
  assert_null(neap__zone_strdup(&z, "refused"));
  assert_null(neap__zone_alloc(&z, SIZE_MAX));
  s = neap__zone_strdup(&z, "held");
  assert_string_equal(s, "held");
  f.until = 1;
  assert_null(neap__zone_alloc(&z, 1 << 20));
  s = neap__zone_copy(&z, "ab", 3);
  assert_string_equal(s, "ab");
  neap__zone_free(&z);
  neap__zone_free(&z);
  assert_true(f.host.in_use == 0 && f.blocks == 0);
}

/* --- bytes --------------------------------------------------------------------------------------------- */

static void bytes_are_read(void **state) {
  static const struct {
    const char *text;
    uint64_t bytes;
  } cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"64MiB", 64ull << 20},
      {"1.5 GB", 1500000000ull},
      {"1.5GiB", 3ull << 29},
      {" 2 KiB ", 2048},
      {"3K", 3072},
      {"3kB", 3000},
      {"1TiB", 1ull << 40},
      {"1 TB", 1000000000000ull},
      {"7m", 7ull << 20},
      {"7 B", 7},
      {"5.0", 5},
      {"0.25M", 1ull << 18},
      {"18446744073709551615", UINT64_MAX},
      {"0.1 GB", 100000000},
      {"0.123456789 TB", 123456700000ull},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint64_t out = 1;
    neap_error e;
    assert_int_equal(neap__parse_bytes(cases[i].text, &out, &e), NEAP_OK);
    assert_true(out == cases[i].bytes);
  }
}

static void bad_bytes_are_refused(void **state) {
  static const char *const bad[] = {
      "",
      " ",
      "-1",
      "+1",
      "nan",
      "inf",
      "MiB",
      "1.",
      ".5",
      "1.5",
      "1e9",
      "0x10",
      "64 MiB x",
      "64MiBB",
      "64XiB",
      "1 2",
      "18446744073709551616",
      "16777216TiB",
      "18446744073709551615K",
      "99999999999999999999",
      "1,5GB",
      "1..5K",
  };
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    uint64_t out = 42;
    neap_error e;
    assert_int_equal(neap__parse_bytes(bad[i], &out, &e), NEAP_RANGE);
    assert_int_equal(e.status, NEAP_RANGE);
    assert_true(out == 42);
    assert_true(e.message[0] != '\0');
  }
  assert_int_equal(neap__parse_bytes(NULL, NULL, NULL), NEAP_RANGE);
}

static void bytes_are_written(void **state) {
  static const struct {
    uint64_t bytes;
    const char *text;
  } cases[] = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1.0 KiB"},
      {67004006, "63.9 MiB"},
      {1048575, "1.0 MiB"},
      {3ull << 29, "1.5 GiB"},
      {UINT64_MAX, "16777216.0 TiB"},
  };
  char buf[32];
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_string_equal(neap__format_bytes(cases[i].bytes, buf, sizeof buf), cases[i].text);
  assert_string_equal(neap__format_bytes(1ull << 20, buf, 4), "1.0");
}

static void an_empty_variable_is_unset(void **state) {
  (void)state;
  unsetenv("NEAP_TEST_VARIABLE");
  assert_null(neap__env("NEAP_TEST_VARIABLE"));
  setenv("NEAP_TEST_VARIABLE", "", 1);
  assert_null(neap__env("NEAP_TEST_VARIABLE"));
  setenv("NEAP_TEST_VARIABLE", "x", 1);
  assert_string_equal(neap__env("NEAP_TEST_VARIABLE"), "x");
}

/* --- log ----------------------------------------------------------------------------------------------- */

static void keep_line(void *user, int level, const char *text) { snprintf(user, 2048, "%d %s", level, text); }

static void log_goes_to_the_callback_by_level(void **state) {
  char line[2048] = "";
  neap_log log = {keep_line, line, NEAP_LOG_WARN};
  const neap_log silent = {NULL, NULL, NEAP_LOG_DEBUG};
  (void)state;
  neap__log(&log, NEAP_LOG_INFO, "not this");
  assert_string_equal(line, "");
  neap__log(&log, NEAP_LOG_WARN, "two\nlines of %s", "text");
  assert_string_equal(line, "1 two lines of text");
  neap__log(&silent, NEAP_LOG_ERROR, "nowhere");
  neap__log(NULL, NEAP_LOG_ERROR, "nowhere");
}

static void the_clock_never_goes_back(void **state) {
  double last = neap__clock();
  (void)state;
  for (int i = 0; i < 1000; i++) {
    const double now = neap__clock();
    assert_true(now >= last);
    last = now;
  }
}

/* --- random numbers ------------------------------------------------------------------------------------ */

/* The known answers that Random123, the authors' own implementation, is tested with. */
static void philox_gives_the_published_answers(void **state) {
  static const struct {
    uint32_t counter[4], key[2], out[4];
  } cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint32_t out[4];
    neap__philox(cases[i].key, cases[i].counter, out);
    assert_memory_equal(out, cases[i].out, sizeof out);
  }
}

static void a_stream_is_its_position(void **state) {
  neap_rng r = {1234567890123ull, 99, 0};
  uint32_t drawn[64];
  (void)state;
  for (int i = 0; i < 64; i++) drawn[i] = neap__rng_u32(&r);
  for (uint64_t i = 64; i-- > 0;) {
    neap_rng again = {1234567890123ull, 99, i};
    assert_int_equal(neap__rng_u32(&again), drawn[i]);
  }
  {
    neap_rng zero = {0, 0, 0}, other = {1234567890123ull, 100, 0};
    assert_int_equal(neap__rng_u32(&zero), 0x6627e8d5);
    assert_int_equal(neap__rng_u32(&zero), 0xe169c58d);
    assert_int_not_equal(neap__rng_u32(&other), drawn[0]);
  }
}

static void below_is_in_bounds_and_even(void **state) {
  static const uint64_t bounds[] = {1, 2, 3, 10, 1000003, 1ull << 32, (1ull << 63) + 1, UINT64_MAX};
  neap_rng r = {7, 0, 0};
  uint32_t hits[6] = {0};
  (void)state;
  for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
    for (int k = 0; k < 2000; k++) assert_true(neap__rng_below(&r, bounds[i]) < bounds[i]);
  for (int k = 0; k < 60000; k++) hits[neap__rng_below(&r, 6)]++;
  for (int i = 0; i < 6; i++) assert_in_range(hits[i], 9600, 10400); /* over 4 standard deviations */
}

/* With n = 3 * 2^62, plain `x % n` would put half of all draws into the lowest third. */
static void below_has_no_bias_where_modulo_has(void **state) {
  const uint64_t n = 3ull << 62;
  neap_rng r = {11, 0, 0};
  uint32_t low = 0;
  (void)state;
  for (int k = 0; k < 30000; k++) low += neap__rng_below(&r, n) < n / 3;
  assert_in_range(low, 9600, 10400);
}

static void draws_have_their_moments(void **state) {
  neap_rng r = {3, 5, 0};
  double sum = 0, square = 0;
  const int n = 100000;
  (void)state;
  for (int i = 0; i < n; i++) {
    const double u = neap__rng_uniform(&r);
    assert_true(u >= 0.0 && u < 1.0);
    sum += u;
    square += u * u;
  }
  assert_true(fabs(sum / n - 1.0 / 2) < 0.005);
  assert_true(fabs(square / n - 1.0 / 3) < 0.005);
  assert_true(r.position == (uint64_t)n * 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_status_has_a_name_and_a_text),
      cmocka_unit_test(fail_fills_the_error),
      cmocka_unit_test(fail_takes_no_error_and_its_own_message),
      cmocka_unit_test(a_long_message_is_cut),
      cmocka_unit_test(host_counts_and_gives_sizes_back),
      cmocka_unit_test(host_refusals_change_nothing),
      cmocka_unit_test(nothing_is_still_a_block),
      cmocka_unit_test(the_default_host_is_the_c_library),
      cmocka_unit_test(zone_blocks_are_aligned_clear_and_apart),
      cmocka_unit_test(a_zone_refusal_leaves_it_usable),
      cmocka_unit_test(bytes_are_read),
      cmocka_unit_test(bad_bytes_are_refused),
      cmocka_unit_test(bytes_are_written),
      cmocka_unit_test(an_empty_variable_is_unset),
      cmocka_unit_test(log_goes_to_the_callback_by_level),
      cmocka_unit_test(the_clock_never_goes_back),
      cmocka_unit_test(philox_gives_the_published_answers),
      cmocka_unit_test(a_stream_is_its_position),
      cmocka_unit_test(below_is_in_bounds_and_even),
      cmocka_unit_test(below_has_no_bias_where_modulo_has),
      cmocka_unit_test(draws_have_their_moments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
