/* The rows of elementwise.def in double with the C library's functions. The formulas are the table's: what this
 * checks is the kernels' arithmetic, broadcasting and special values. Rows whose formula is written for speed or
 * range have a definition of their own below. */
#include <math.h>
#include <string.h>

#include "conform/oracle.h"

typedef double (*row_fn)(double x, double b, double c);

/* The point where erf is x, by halving: slow, and nothing like the kernel. */
static double erfinv_by_halving(double x) {
  double low = 0, high = 30;
  if (!(fabs(x) < 1)) return fabs(x) == 1 ? copysign(INFINITY, x) : NAN;
  for (int i = 0; i < 200; i++) {
    const double middle = low + (high - low) / 2;
    *(fabs(x) < 0.5 ? (erf(middle) < fabs(x) ? &low : &high) : (erfc(middle) > 1 - fabs(x) ? &low : &high)) = middle;
  }
  return copysign(low, x);
}

static double floored(double a, double b) {
  const double m = fmod(a, b);
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

static double floor_quotient(double a, double b) {
  if (b == 0 || isnan(a) || isnan(b) || isinf(a)) return b == 0 ? a / b : NAN;
  if (isinf(b)) return a != 0 && (a < 0) != (b < 0) ? -1 : 0;
  return rint((a - floored(a, b)) / b);
}

/* Bits of whole numbers, moved by fewer places than there are. */
static double of_bits(double a, double b, char what) {
  const int64_t x = (int64_t)a, y = (int64_t)b;
  if (what == '&' || what == '|') return (double)(what == '&' ? x & y : x | y);
  if (what == '^') return (double)(x ^ y);
  if (y < 0) return what == '>' && x < 0 ? -1 : 0;
  return what == '<' ? ldexp(a, (int)y) : floor(ldexp(a, -(int)y));
}

#define T double
#define TAN tan
#define ASIN asin
#define ACOS acos
#define ATAN atan
#define ATAN2 atan2
#define SINH sinh
#define COSH cosh
#define ASINH asinh
#define ACOSH acosh
#define ATANH atanh
#define LOG2 log2
#define LOG10 log10
#define EXP2 exp2
#define ERFC erfc
#define ERFINV erfinv_by_halving
#define HYPOT hypot
#define TRUNC trunc
#define FMOD fmod
#define FLOORMOD floored
#define FLOORDIV floor_quotient
#define AND(a, b) of_bits(a, b, '&')
#define OR(a, b) of_bits(a, b, '|')
#define XOR(a, b) of_bits(a, b, '^')
#define SHL(a, b) of_bits(a, b, '<')
#define SHR(a, b) of_bits(a, b, '>')
#define EXP exp
#define LOG log
#define SQRT sqrt
#define TANH tanh
#define ERF erf
#define SIN sin
#define COS cos
#define POW pow
#define FLOOR floor
#define CEIL ceil
#define RINT rint
#define EXPM1 expm1
#define LOG1P log1p
#define ISNAN(v) isnan(v)
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define NEG(a) (-(a))

#define DEFINE(name, type, formula)                            \
  static double row_##name(double first, double b, double c) { \
    const type a = (type)(first), x = a;                       \
    (void)x, (void)b, (void)c;                                 \
    return (double)(formula);                                  \
  }
#define UNARY(name, class, f, gx, ...) DEFINE(name, double, f)
#define BINARY(name, class, f, ga, gb, ...) DEFINE(name, double, f)
#define COMPARE(name, f, ...) DEFINE(name, double, f)
#define TERNARY(name, f, gb, gc, ...) DEFINE(name, int, f)
#include "op/elementwise.def"
#undef UNARY
#undef BINARY
#undef COMPARE
#undef TERNARY

static const row_fn rows[] = {
    NULL,
#define UNARY(name, class, f, gx, ...) row_##name,
#define BINARY(name, class, f, ga, gb, ...) row_##name,
#define COMPARE(name, f, ...) row_##name,
#define TERNARY(name, f, gb, gc, ...) row_##name,
#include "op/elementwise.def"
#undef UNARY
#undef BINARY
#undef COMPARE
#undef TERNARY
};

static double own_relu(double x) { return fmax(x, 0); }
static double own_sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double own_gelu(double x) { return 0.5 * x * erfc(-x / sqrt(2)); }
static double own_softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double own_logsigmoid(double x) { return -own_softplus(-x); }
static double own_hardsigmoid(double x) { return fmin(fmax(x + 3, 0), 6) / 6; }
static double own_silu(double x) { return x * own_sigmoid(x); }
static double own_square(double x) { return pow(x, 2); }

static const struct {
  const char *name;
  double (*fn)(double);
} own[] = {
    {"relu", own_relu},
    {"sigmoid", own_sigmoid},
    {"gelu", own_gelu},
    {"softplus_unit", own_softplus},
    {"silu", own_silu},
    {"square", own_square},
    {"logsigmoid", own_logsigmoid},
    {"hardsigmoid", own_hardsigmoid},
};

static bool by_own(const char *name, double x, double *y) {
  for (size_t i = 0; i < sizeof own / sizeof own[0] && isfinite(x); i++)
    if (strcmp(own[i].name, name) == 0) return *y = own[i].fn(x), true;
  return false;
}

/* Integers have no quotient by 0: what is made of it is 0. */
static bool by_nothing(const cf_case *c, const kt_value *in, const double *x) {
  static const char *const ops[] = {"fmod", "remainder", "floor_divide"};
  bool listed = false;
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) listed |= strcmp(ops[i], c->op->name) == 0;
  return listed && x[1] == 0 && !neap__dtype_is_float(neap__dtype_promote(in[0].desc.dtype, in[1].desc.dtype));
}

void cf_oracle_elementwise(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape shape = in[0].desc.shape;
  for (uint32_t i = 1; i < c->n_in; i++) {
    neap_error err;
    assert_int_equal(neap__broadcast(&shape, &in[i].desc.shape, &shape, &err), NEAP_OK);
  }
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    double x[3] = {0, 0, 0}, y;
    cf_locate(&shape, i, &p);
    for (uint32_t k = 0; k < c->n_in && k < 3; k++) x[k] = kt_get(&in[k], cf_spread(&in[k].desc.shape, &shape, &p));
    if (by_nothing(c, in, x))
      y = 0;
    else if (!by_own(c->op->name, x[0], &y))
      y = rows[c->op->row](x[0], x[1], x[2]);
    kt_set(&out[0], i, y);
  }
}
