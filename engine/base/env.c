#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Fractions are read to this many digits: 10^7 of the largest unit still fits 64 bits. */
#define FRACTION_DIGITS 7

typedef struct unit {
  const char *name;
  uint64_t bytes;
} unit;

static const unit units[] = {
    {"", 1},
    {"B", 1},
    {"K", 1ull << 10},
    {"KiB", 1ull << 10},
    {"kB", 1000ull},
    {"M", 1ull << 20},
    {"MiB", 1ull << 20},
    {"MB", 1000000ull},
    {"G", 1ull << 30},
    {"GiB", 1ull << 30},
    {"GB", 1000000000ull},
    {"T", 1ull << 40},
    {"TiB", 1ull << 40},
    {"TB", 1000000000000ull},
};

const char *neap__env(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *skip_spaces(const char *s) {
  while (*s == ' ' || *s == '\t') s++;
  return s;
}

/* Digits are read by hand: strtod would follow the host's locale. NULL when there is none or too many. */
static const char *read_whole(const char *s, uint64_t *out) {
  uint64_t value = 0;
  if (!is_digit(*s)) return NULL;
  for (; is_digit(*s); s++) {
    const uint64_t digit = (uint64_t)(*s - '0');
    if (value > (UINT64_MAX - digit) / 10) return NULL;
    value = value * 10 + digit;
  }
  *out = value;
  return s;
}

static const char *read_fraction(const char *s, uint64_t *numerator, uint64_t *denominator) {
  *numerator = 0;
  *denominator = 1;
  if (*s != '.') return s;
  if (!is_digit(*++s)) return NULL;
  for (int i = 0; is_digit(*s); s++, i++) {
    if (i >= FRACTION_DIGITS) continue;
    *numerator = *numerator * 10 + (uint64_t)(*s - '0');
    *denominator *= 10;
  }
  return s;
}

/* 0 when there is no such unit. */
static uint64_t read_unit(const char *s) {
  char name[4] = "";
  size_t n = 0;
  while (n < 3 && *s && *s != ' ' && *s != '\t') name[n++] = *s++;
  if (*skip_spaces(s)) return 0;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (strcasecmp(name, units[i].name) == 0) return units[i].bytes;
  return 0;
}

static neap_status bad(const char *text, neap_error *err, const char *why) {
  return neap__fail(err, NEAP_RANGE, "%.60s is not a number of bytes such as 64MiB: %s", text ? text : "nothing", why);
}

neap_status neap__parse_bytes(const char *text, uint64_t *out, neap_error *err) {
  uint64_t whole, numerator, denominator, scale, part;
  const char *s;
  if (!text) return bad(text, err, "it is missing");
  if (!(s = read_whole(skip_spaces(text), &whole))) return bad(text, err, "it begins with no number in range");
  if (!(s = read_fraction(s, &numerator, &denominator))) return bad(text, err, "digits are missing after the point");
  if (!(scale = read_unit(skip_spaces(s)))) return bad(text, err, "the unit is unknown");
  if (scale == 1 && numerator) return bad(text, err, "a byte has no parts");
  part = numerator * scale / denominator;
  if (whole > (UINT64_MAX - part) / scale) return bad(text, err, "it is too large");
  *out = whole * scale + part;
  return NEAP_OK;
}

const char *neap__format_bytes(uint64_t bytes, char *buf, size_t size) {
  static const char *const names[] = {"KiB", "MiB", "GiB", "TiB"};
  uint64_t scale = 1024, whole, tenths;
  size_t i = 0;
  if (size == 0) return buf;
  if (bytes < 1024) {
    snprintf(buf, size, "%u B", (unsigned)bytes);
    return buf;
  }
  for (;; i++, scale *= 1024) {
    whole = bytes / scale;
    tenths = (bytes % scale * 10 + scale / 2) / scale;
    if (tenths == 10) whole++, tenths = 0;
    if (whole < 1024 || i == 3) break; /* rounding may reach 1024 of a unit: that is 1.0 of the next */
  }
  snprintf(buf, size, "%llu.%u %s", (unsigned long long)whole, (unsigned)tenths, names[i]);
  return buf;
}
