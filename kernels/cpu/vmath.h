/* Single-precision functions that the compiler vectorises: straight-line code, no table, no call. An
 * element's result is the same in a vector's lane and in a loop's tail. Reduction constants and polynomials
 * of exp and log are those of Cephes (S. Moshier, expf.c, logf.c); erf after N. Juffa's published minimax fit.
 * Double precision uses libm. */
#ifndef NEAP_KERNELS_CPU_VMATH_H
#define NEAP_KERNELS_CPU_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define NEAP_INLINE static inline __attribute__((always_inline, unused))

/* Files are compiled without contraction, so this is the only place where a fused operation appears. */
#if defined(__FMA__) || defined(__aarch64__)
#define NEAP_MADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define NEAP_MADD(a, b, c) ((a) * (b) + (c))
#endif

/* Iterations are independent although output and input may be the same memory. Clang warns where it does not
 * vectorise all the same, as around calls of libm. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define NEAP_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define NEAP_IVDEP _Pragma("GCC ivdep")
#endif

NEAP_INLINE uint32_t neap_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

NEAP_INLINE float neap_from_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* 2^n for n in [-126, 127] given as a two's complement word. */
NEAP_INLINE float neap_exp2i(uint32_t n) { return neap_from_bits((n + 127u) << 23); }

/* x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer, left in the low bits. */
NEAP_INLINE float neap_exp_reduce(float x, uint32_t *n) {
  const float magic = 12582912.0f;
  float t = NEAP_MADD(x, 1.44269504088896341f, magic);
  float whole = t - magic;
  *n = neap_bits(t) - neap_bits(magic);
  float r = NEAP_MADD(whole, -0.693359375f, x);
  return NEAP_MADD(whole, 2.12194440e-4f, r);
}

/* exp(r) - 1 - r on the reduced range. */
NEAP_INLINE float neap_exp_tail(float r) {
  float p = 1.9875691500e-4f;
  p = NEAP_MADD(p, r, 1.3981999507e-3f);
  p = NEAP_MADD(p, r, 8.3334519073e-3f);
  p = NEAP_MADD(p, r, 4.1665795894e-2f);
  p = NEAP_MADD(p, r, 1.6666665459e-1f);
  p = NEAP_MADD(p, r, 5.0000001201e-1f);
  return p * r * r;
}

/* The power of two is applied in two halves, so that results that overflow or are denormal round once. */
NEAP_INLINE void neap_exp_halves(uint32_t n, float *low, float *high) {
  uint32_t half = (uint32_t)((int32_t)n >> 1);
  *low = neap_exp2i(half);
  *high = neap_exp2i(n - half);
}

NEAP_INLINE float neap_expf(float x) {
  uint32_t n;
  float low, high;
  float c = x > 89.0f ? 89.0f : x;
  c = c < -104.0f ? -104.0f : c;
  float r = neap_exp_reduce(c, &n);
  neap_exp_halves(n, &low, &high);
  return (neap_exp_tail(r) + r + 1.0f) * low * high;
}

NEAP_INLINE float neap_expm1f(float x) {
  uint32_t n;
  float low, high;
  float c = x > 89.0f ? 89.0f : x;
  c = c < -40.0f ? -40.0f : c;
  float r = neap_exp_reduce(c, &n);
  neap_exp_halves(n, &low, &high);
  float q = neap_exp_tail(r) + r;
  float y = (q * low + (low - 1.0f / high)) * high;
  return fabsf(x) < 1e-7f ? x : y;
}

NEAP_INLINE float neap_logf(float x) {
  float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
  float bias = x < 1.17549435e-38f ? -23.0f : 0.0f;
  int32_t word = (int32_t)(neap_bits(scaled) - 0x3f3504f3u); /* exponent 0 is [sqrt(1/2), sqrt(2)) */
  int32_t exponent = word >> 23;
  float f = neap_from_bits(neap_bits(scaled) - ((uint32_t)exponent << 23)) - 1.0f;
  float e = (float)exponent + bias;
  float p = 7.0376836292e-2f;
  p = NEAP_MADD(p, f, -1.1514610310e-1f);
  p = NEAP_MADD(p, f, 1.1676998740e-1f);
  p = NEAP_MADD(p, f, -1.2420140846e-1f);
  p = NEAP_MADD(p, f, 1.4249322787e-1f);
  p = NEAP_MADD(p, f, -1.6668057665e-1f);
  p = NEAP_MADD(p, f, 2.0000714765e-1f);
  p = NEAP_MADD(p, f, -2.4999993993e-1f);
  p = NEAP_MADD(p, f, 3.3333331174e-1f);
  float z = f * f;
  float y = p * f * z;
  y = NEAP_MADD(e, -2.12194440e-4f, y);
  y = NEAP_MADD(z, -0.5f, y);
  y = NEAP_MADD(e, 0.693359375f, f + y);
  y = x > 3.4028234e38f ? x : y;
  y = x == 0.0f ? -INFINITY : y;
  return x < 0.0f ? NAN : (x != x ? x : y);
}

/* The rounding of 1 + x is made good by the slope of the logarithm (W. Kahan). */
NEAP_INLINE float neap_log1pf(float x) {
  float u = 1.0f + x;
  float lost = (x - (u - 1.0f)) / u;
  float y = neap_logf(u);
  float whole = u == 0.0f || u > 3.4028234e38f ? y : y + lost;
  return fabsf(x) < 1e-8f ? x : whole;
}

NEAP_INLINE float neap_tanhf(float x) {
  float a = fabsf(x);
  float c = a > 10.0f ? 10.0f : a;
  float e = neap_expm1f(2.0f * c);
  float y = e / (e + 2.0f);
  return copysignf(a < 1e-4f ? a : y, x);
}

NEAP_INLINE float neap_erff(float x) {
  float a = fabsf(x);
  float t = a > 4.0f ? 4.0f : a;
  float s = t * t;
  float r = NEAP_MADD(-1.72853470e-5f, t, 3.83197126e-4f);
  float u = NEAP_MADD(-3.88396438e-3f, t, 2.42546219e-2f);
  r = NEAP_MADD(r, s, u);
  r = NEAP_MADD(r, t, -1.06777877e-1f);
  r = NEAP_MADD(r, t, -6.34846687e-1f);
  r = NEAP_MADD(r, t, -1.28717512e-1f);
  r = NEAP_MADD(r, t, -t);
  float far = 1.0f - neap_expf(r);
  float p = -5.96761703e-4f;
  p = NEAP_MADD(p, s, 4.99119423e-3f);
  p = NEAP_MADD(p, s, -2.67681349e-2f);
  p = NEAP_MADD(p, s, 1.12819925e-1f);
  p = NEAP_MADD(p, s, -3.76125336e-1f);
  p = NEAP_MADD(p, s, 1.28379166e-1f);
  float near = NEAP_MADD(p, t, t);
  return copysignf(a > 0.927734375f ? far : near, x);
}

#endif
