#include "base/rng.h"

static void philox_round(const uint32_t key[2], uint32_t c[4]) {
  const uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
  const uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
  const uint32_t c1 = c[1], c3 = c[3];
  c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ key[0];
  c[1] = (uint32_t)p1;
  c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ key[1];
  c[3] = (uint32_t)p0;
}

void neap__philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]) {
  uint32_t k[2] = {key[0], key[1]};
  uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
  for (int round = 0; round < 10; round++) {
    philox_round(k, c);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  for (int i = 0; i < 4; i++) out[i] = c[i];
}

uint32_t neap__rng_u32(neap_rng *r) {
  const uint64_t block = r->position / 4;
  const uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)r->stream,
                               (uint32_t)(r->stream >> 32)};
  uint32_t out[4];
  neap__philox(key, counter, out);
  return out[r->position++ % 4];
}

static uint64_t draw_u64(neap_rng *r) {
  const uint64_t low = neap__rng_u32(r);
  return low | (uint64_t)neap__rng_u32(r) << 32;
}

uint64_t neap__rng_below(neap_rng *r, uint64_t n) {
  /* 2^64 mod n values at the bottom are refused: what is left is a whole number of copies of [0, n). */
  const uint64_t refuse = (UINT64_MAX - n + 1) % n;
  uint64_t x = draw_u64(r);
  while (x < refuse) x = draw_u64(r);
  return x % n;
}

double neap__rng_uniform(neap_rng *r) { return (double)(draw_u64(r) >> 11) * 0x1p-53; }
