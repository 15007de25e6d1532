/* Every row of elementwise.def as a loop in each dtype it computes in. fp32 has a loop for each pattern of
 * dense and single inputs, so that the compiler sees vectors; the others step through both alike. */
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/vmath.h"

/* --- what the formulas are written with --- */
NEAP_INLINE float add_f(float a, float b) { return a + b; }
NEAP_INLINE float sub_f(float a, float b) { return a - b; }
NEAP_INLINE float mul_f(float a, float b) { return a * b; }
NEAP_INLINE float neg_f(float a) { return -a; }
NEAP_INLINE double add_d(double a, double b) { return a + b; }
NEAP_INLINE double sub_d(double a, double b) { return a - b; }
NEAP_INLINE double mul_d(double a, double b) { return a * b; }
NEAP_INLINE double neg_d(double a) { return -a; }
/* Integers wrap around: unsigned arithmetic is defined to, and its low bits are the same. */
NEAP_INLINE int64_t add_l(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
NEAP_INLINE int64_t sub_l(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
NEAP_INLINE int64_t mul_l(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
NEAP_INLINE int64_t neg_l(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
NEAP_INLINE int32_t add_i(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
NEAP_INLINE int32_t sub_i(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
NEAP_INLINE int32_t mul_i(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }
NEAP_INLINE int32_t neg_i(int32_t a) { return (int32_t)(0 - (uint32_t)a); }
/* Integers: the one quotient that overflows wraps, and there is none by 0. */
NEAP_INLINE int64_t fmod_l(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
NEAP_INLINE int32_t fmod_i(int32_t a, int32_t b) { return b == 0 || b == -1 ? 0 : a % b; }
NEAP_INLINE float fmod_f(float a, float b) { return fmodf(a, b); }
NEAP_INLINE double fmod_d(double a, double b) { return fmod(a, b); }
/* The remainder rounded towards 0, brought to the sign of b. */
#define TO_SIGN_OF(b, m) ((m) != 0 && ((b) < 0) != ((m) < 0) ? (m) + (b) : (m))
NEAP_INLINE int64_t floormod_l(int64_t a, int64_t b) { return TO_SIGN_OF(b, fmod_l(a, b)); }
NEAP_INLINE int32_t floormod_i(int32_t a, int32_t b) { return TO_SIGN_OF(b, fmod_i(a, b)); }
NEAP_INLINE float floormod_f(float a, float b) {
  float m = fmodf(a, b);
  return TO_SIGN_OF(b, m);
}
NEAP_INLINE double floormod_d(double a, double b) {
  double m = fmod(a, b);
  return TO_SIGN_OF(b, m);
}
NEAP_INLINE int64_t floordiv_l(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return b ? neg_l(a) : 0;
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
NEAP_INLINE int32_t floordiv_i(int32_t a, int32_t b) {
  if (b == 0 || b == -1) return b ? neg_i(a) : 0;
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
/* The exact remainder is taken off first, so that what is left divides but for one rounding. */
#define FLOOR_QUOTIENT(T, fmod, rint, copysign) \
  T m = fmod(a, b), q = (a - m) / b;            \
  if (m != 0 && (b < 0) != (m < 0)) q -= 1;     \
  return b == 0 ? a / b : q == 0 ? copysign((T)0, a / b) : rint(q)
NEAP_INLINE double floordiv_d(double a, double b) { FLOOR_QUOTIENT(double, fmod, rint, copysign); }
NEAP_INLINE float floordiv_f(float a, float b) { FLOOR_QUOTIENT(float, fmodf, rintf, copysignf); }
NEAP_INLINE int64_t shl_l(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); }
NEAP_INLINE int32_t shl_i(int32_t a, int32_t b) { return b < 0 || b > 31 ? 0 : (int32_t)((uint32_t)a << b); }
NEAP_INLINE int64_t shr_l(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
NEAP_INLINE int32_t shr_i(int32_t a, int32_t b) { return a >> (b < 0 || b > 31 ? 31 : b); }
NEAP_INLINE int64_t same_l(int64_t a) { return a; }
NEAP_INLINE int32_t same_i(int32_t a) { return a; }
NEAP_INLINE int isnan_f(float a) { return a != a; }
NEAP_INLINE int isnan_d(double a) { return a != a; }
NEAP_INLINE int isnan_l(int64_t a) { return (void)a, 0; }
NEAP_INLINE int isnan_i(int32_t a) { return (void)a, 0; }

#define BY_TYPE(v, f) _Generic((v), float : f##_f, double : f##_d, int64_t : f##_l, default : f##_i)
#define ADD(a, b) BY_TYPE(a, add)(a, b)
#define SUB(a, b) BY_TYPE(a, sub)(a, b)
#define MUL(a, b) BY_TYPE(a, mul)(a, b)
#define NEG(a) BY_TYPE(a, neg)(a)
#define ISNAN(a) BY_TYPE(a, isnan)(a)

#define FMOD(a, b) BY_TYPE(a, fmod)(a, b)
#define FLOORMOD(a, b) BY_TYPE(a, floormod)(a, b)
#define FLOORDIV(a, b) BY_TYPE(a, floordiv)(a, b)
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
#define SHL(a, b) _Generic((a), int64_t : shl_l, default : shl_i)(a, b)
#define SHR(a, b) _Generic((a), int64_t : shr_l, default : shr_i)(a, b)

/* What leaves whole numbers as they are. */
#define WHOLE(v, fn) _Generic((v), float : fn##f, double : fn, int64_t : same_l, default : same_i)
#define FLOOR(x) WHOLE(x, floor)(x)
#define CEIL(x) WHOLE(x, ceil)(x)
#define RINT(x) WHOLE(x, rint)(x)
#define TRUNC(x) WHOLE(x, trunc)(x)

#define REAL(v, single, twice) _Generic((v), double : twice, default : single)
#define EXP(x) REAL(x, neap_expf, exp)(x)
#define EXPM1(x) REAL(x, neap_expm1f, expm1)(x)
#define LOG(x) REAL(x, neap_logf, log)(x)
#define LOG1P(x) REAL(x, neap_log1pf, log1p)(x)
#define TANH(x) REAL(x, neap_tanhf, tanh)(x)
#define ERF(x) REAL(x, neap_erff, erf)(x)
#define SQRT(x) REAL(x, sqrtf, sqrt)(x)
#define SIN(x) REAL(x, sinf, sin)(x)
#define COS(x) REAL(x, cosf, cos)(x)
#define POW(a, b) REAL(a, powf, pow)(a, b)
#define TAN(x) REAL(x, tanf, tan)(x)
#define ASIN(x) REAL(x, asinf, asin)(x)
#define ACOS(x) REAL(x, acosf, acos)(x)
#define ATAN(x) REAL(x, atanf, atan)(x)
#define ATAN2(a, b) REAL(a, atan2f, atan2)(a, b)
#define SINH(x) REAL(x, sinhf, sinh)(x)
#define COSH(x) REAL(x, coshf, cosh)(x)
#define ASINH(x) REAL(x, asinhf, asinh)(x)
#define ACOSH(x) REAL(x, acoshf, acosh)(x)
#define ATANH(x) REAL(x, atanhf, atanh)(x)
#define LOG2(x) REAL(x, log2f, log2)(x)
#define LOG10(x) REAL(x, log10f, log10)(x)
#define EXP2(x) REAL(x, exp2f, exp2)(x)
#define ERFC(x) REAL(x, erfcf, erfc)(x)
#define ERFINV(x) REAL(x, neap_erfinvf, neap_erfinv)(x)
#define HYPOT(a, b) REAL(a, hypotf, hypot)(a, b)

/* --- loops; S is how an element is stored, O how a result is --- */
#define LOOP(load, f)                          \
  NEAP_IVDEP for (int64_t i = 0; i < n; i++) { \
    load;                                      \
    y[i] = (result)(f);                        \
  }
#define HEAD(name, S, O)                                                               \
  static void name(int64_t n, const void *const *in, const int64_t *step, void *out) { \
    typedef S stored;                                                                  \
    typedef O result;                                                                  \
    result *y = out;

#define UNARY_LOOP(name, T_, S, O, f) \
  HEAD(name, S, O)                    \
  typedef T_ T;                       \
  const stored *px = in[0];           \
  (void)step;                         \
  LOOP(const T x = px[i], f)          \
  }

#define BINARY_DENSE(name, T_, S, O, f)           \
  HEAD(name, S, O)                                \
  typedef T_ T;                                   \
  const stored *pa = in[0], *pb = in[1];          \
  if (step[0] && step[1]) {                       \
    LOOP(const T a = pa[i]; const T b = pb[i], f) \
  } else if (step[0]) {                           \
    const T b = pb[0];                            \
    LOOP(const T a = pa[i], f)                    \
  } else if (step[1]) {                           \
    const T a = pa[0];                            \
    LOOP(const T b = pb[i], f)                    \
  } else {                                        \
    LOOP(const T a = pa[0]; const T b = pb[0], f) \
  }                                               \
  }

#define BINARY_STEP(name, T_, S, O, f)                    \
  HEAD(name, S, O)                                        \
  typedef T_ T;                                           \
  const stored *pa = in[0], *pb = in[1];                  \
  const int64_t sa = step[0], sb = step[1];               \
  LOOP(const T a = pa[i * sa]; const T b = pb[i * sb], f) \
  }

#define TERNARY_DENSE(name, T_, S, O, f)                                                  \
  HEAD(name, S, O)                                                                        \
  typedef T_ T;                                                                           \
  const uint8_t *pa = in[0];                                                              \
  const stored *pb = in[1], *pc = in[2];                                                  \
  const int64_t sa = step[0], sb = step[1], sc = step[2];                                 \
  if (sa && sb && sc) {                                                                   \
    LOOP(const uint8_t a = pa[i]; const T b = pb[i]; const T c = pc[i], f)                \
  } else if (sa && sb) {                                                                  \
    const T c = pc[0];                                                                    \
    LOOP(const uint8_t a = pa[i]; const T b = pb[i], f)                                   \
  } else if (sa && sc) {                                                                  \
    const T b = pb[0];                                                                    \
    LOOP(const uint8_t a = pa[i]; const T c = pc[i], f)                                   \
  } else {                                                                                \
    LOOP(const uint8_t a = pa[i * sa]; const T b = pb[i * sb]; const T c = pc[i * sc], f) \
  }                                                                                       \
  }

#define TERNARY_STEP(name, T_, S, O, f)                                                 \
  HEAD(name, S, O)                                                                      \
  typedef T_ T;                                                                         \
  const uint8_t *pa = in[0];                                                            \
  const stored *pb = in[1], *pc = in[2];                                                \
  const int64_t sa = step[0], sb = step[1], sc = step[2];                               \
  LOOP(const uint8_t a = pa[i * sa]; const T b = pb[i * sb]; const T c = pc[i * sc], f) \
  }

/* Bytes compute as int32, so that formulas may use negative numbers on the way. */
#define UNARY_FLOAT(name, f)                     \
  UNARY_LOOP(name##_f32, float, float, float, f) \
  UNARY_LOOP(name##_f64, double, double, double, f)
#define UNARY_NUMERIC(name, f)                         \
  UNARY_FLOAT(name, f)                                 \
  UNARY_LOOP(name##_i64, int64_t, int64_t, int64_t, f) \
  UNARY_LOOP(name##_i32, int32_t, int32_t, int32_t, f) \
  UNARY_LOOP(name##_u8, int32_t, uint8_t, uint8_t, f)
#define UNARY_LOGICAL(name, f)                         \
  UNARY_LOOP(name##_f32, float, float, uint8_t, f)     \
  UNARY_LOOP(name##_f64, double, double, uint8_t, f)   \
  UNARY_LOOP(name##_i64, int64_t, int64_t, uint8_t, f) \
  UNARY_LOOP(name##_i32, int32_t, int32_t, uint8_t, f) \
  UNARY_LOOP(name##_u8, int32_t, uint8_t, uint8_t, f)
#define UNARY_POSITIVE UNARY_FLOAT
#define UNARY_UNIT UNARY_FLOAT
#define UNARY_ABOVE UNARY_FLOAT
#define UNARY_INTERNAL UNARY_FLOAT

#define BINARY_FLOAT(name, f)                      \
  BINARY_DENSE(name##_f32, float, float, float, f) \
  BINARY_STEP(name##_f64, double, double, double, f)
#define BINARY_NUMERIC(name, f)                         \
  BINARY_FLOAT(name, f)                                 \
  BINARY_STEP(name##_i64, int64_t, int64_t, int64_t, f) \
  BINARY_STEP(name##_i32, int32_t, int32_t, int32_t, f) \
  BINARY_STEP(name##_u8, int32_t, uint8_t, uint8_t, f)
#define BINARY_DIVISION BINARY_NUMERIC
#define BINARY_INTEGER(name, f)                         \
  BINARY_STEP(name##_i64, int64_t, int64_t, int64_t, f) \
  BINARY_STEP(name##_i32, int32_t, int32_t, int32_t, f) \
  BINARY_STEP(name##_u8, int32_t, uint8_t, uint8_t, f)
#define BINARY_SHIFT BINARY_INTEGER
#define BINARY_INTERNAL BINARY_FLOAT
#define BINARY_POWER BINARY_FLOAT

#define UNARY(name, class, f, gx, ...) UNARY_##class(name, f)
#define BINARY(name, class, f, ga, gb, ...) BINARY_##class(name, f)
#define COMPARE(name, f, ...)                           \
  BINARY_DENSE(name##_f32, float, float, uint8_t, f)    \
  BINARY_STEP(name##_f64, double, double, uint8_t, f)   \
  BINARY_STEP(name##_i64, int64_t, int64_t, uint8_t, f) \
  BINARY_STEP(name##_i32, int32_t, int32_t, uint8_t, f) \
  BINARY_STEP(name##_u8, int32_t, uint8_t, uint8_t, f)
#define TERNARY(name, f, gb, gc, ...)                    \
  TERNARY_DENSE(name##_f32, float, float, float, f)      \
  TERNARY_STEP(name##_f64, double, double, double, f)    \
  TERNARY_STEP(name##_i64, int64_t, int64_t, int64_t, f) \
  TERNARY_STEP(name##_i32, int32_t, int32_t, int32_t, f) \
  TERNARY_STEP(name##_u8, int32_t, uint8_t, uint8_t, f)
#include "op/elementwise.def"
#undef UNARY
#undef BINARY
#undef COMPARE
#undef TERNARY

/* --- tables --- */
#define TWO(name) {name##_f32, name##_f64, NULL, NULL, NULL},
#define FIVE(name) {name##_f32, name##_f64, name##_i64, name##_i32, name##_u8},
#define THREE(name) {NULL, NULL, name##_i64, name##_i32, name##_u8},
#define TYPES_FLOAT TWO
#define TYPES_UNIT TWO
#define TYPES_ABOVE TWO
#define TYPES_DIVISION FIVE
#define TYPES_INTEGER THREE
#define TYPES_SHIFT THREE
#define TYPES_POSITIVE TWO
#define TYPES_INTERNAL TWO
#define TYPES_POWER TWO
#define TYPES_NUMERIC FIVE
#define TYPES_LOGICAL FIVE
#define UNARY(name, class, f, gx, ...) TYPES_##class(name)
#define BINARY(name, class, f, ga, gb, ...) TYPES_##class(name)
#define COMPARE(name, f, ...) FIVE(name)
#define TERNARY(name, f, gb, gc, ...) FIVE(name)
const neap_cpu_row NEAP_CPU_NAME(rows)[][NEAP_ROW_TYPES] = {
    {NULL, NULL, NULL, NULL, NULL},
#include "op/elementwise.def"
};
const uint32_t NEAP_CPU_NAME(row_count) = sizeof NEAP_CPU_NAME(rows) / sizeof NEAP_CPU_NAME(rows)[0];
