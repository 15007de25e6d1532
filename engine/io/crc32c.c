#include "io/crc32c.h"

#include <string.h>

/* Remainders of the four-bit values, polynomial 0x1EDC6F41 with reflected bits. Sixteen words rather than
 * 256 or 2048: machines without the instruction are few, and this stays in one cache line. */
static const uint32_t nibble[16] = {
    0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u, 0x417b1dbcu, 0x5125dad3u, 0x61c69362u, 0x7198540du,
    0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u, 0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u,
};

uint32_t neap__crc32c_portable(uint32_t crc, const void *data, size_t bytes) {
  const unsigned char *p = data;
  crc = ~crc;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= p[i];
    crc = (crc >> 4) ^ nibble[crc & 15];
    crc = (crc >> 4) ^ nibble[crc & 15];
  }
  return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t c = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    c = __builtin_ia32_crc32di(c, word);
  }
  uint32_t rest = (uint32_t)c;
  for (; bytes > 0; bytes--, p++) rest = __builtin_ia32_crc32qi(rest, *p);
  return ~rest;
}

uint32_t neap__crc32c(uint32_t crc, const void *data, size_t bytes) {
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42(crc, data, bytes);
  return neap__crc32c_portable(crc, data, bytes);
}

#else

uint32_t neap__crc32c(uint32_t crc, const void *data, size_t bytes) { return neap__crc32c_portable(crc, data, bytes); }

#endif
