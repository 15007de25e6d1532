/* Special functions that the C library lacks. */
#ifndef NEAP_KERNELS_CPU_SPECIAL_H
#define NEAP_KERNELS_CPU_SPECIAL_H

#include <math.h>

#include "kernels/cpu/vmath.h"

/* First guess: the single-precision fit of M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2010).
 * `one_minus` is 1 - x x. */
static inline double neap_erfinv_guess(double x, double one_minus) {
  static const double near[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  static const double far[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                               -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  const double w = -log(one_minus), t = w < 5 ? w - 2.5 : sqrt(w) - 3, *c = w < 5 ? near : far;
  double p = c[0];
  for (int i = 1; i < 9; i++) p = p * t + c[i];
  return p * x;
}

/* Steps of Newton's method, each of which doubles the digits: on erf, and where erf has used up its own, on the
 * logarithm of erfc, which is nearly a parabola and so converges from further off. */
static inline double neap_erfinv(double x) {
  const double a = fabs(x), rest = 1 - a; /* exact from 1/2 on */
  if (!(a < 1)) return a == 1 ? copysign(INFINITY, x) : NAN;
  double y = neap_erfinv_guess(a, rest * (1 + a));
  for (int i = 0; i < 3; i++) {
    const double slope = 1.1283791670955126 * exp(-y * y);
    y += a < 0.5 ? (a - erf(y)) / slope : log(erfc(y) / rest) * erfc(y) / slope;
  }
  return copysign(y, x);
}

static inline float neap_erfinvf(float x) { return (float)neap_erfinv((double)x); }

#endif
