/* The records of all elementwise ops, made from elementwise.def. */
#include "op/build.h"

/* How a row treats dtypes, by class. */
enum {
  KIND_FLOAT,
  KIND_POSITIVE = KIND_FLOAT,
  KIND_UNIT = KIND_FLOAT,
  KIND_ABOVE = KIND_FLOAT,
  KIND_INTERNAL = KIND_FLOAT,
  KIND_POWER = KIND_FLOAT,
  KIND_NUMERIC,
  KIND_DIVISION = KIND_NUMERIC,
  KIND_INTEGER,
  KIND_SHIFT,
  KIND_LOGICAL,
  KIND_WHERE
};

/* --- position and kind of each row --- */
enum {
  ROW_NONE = 0,
#define UNARY(name, class, f, gx, ...) ROW_##name,
#define BINARY(name, class, f, ga, gb, ...) ROW_##name,
#define COMPARE(name, f, ...) ROW_##name,
#define TERNARY(name, f, gb, gc, ...) ROW_##name,
#include "op/elementwise.def"
#undef UNARY
#undef BINARY
#undef COMPARE
#undef TERNARY
};

static const uint8_t kinds[] = {
    0,
#define UNARY(name, class, f, gx, ...) KIND_##class,
#define BINARY(name, class, f, ga, gb, ...) KIND_##class,
#define COMPARE(name, f, ...) KIND_LOGICAL,
#define TERNARY(name, f, gb, gc, ...) KIND_WHERE,
#include "op/elementwise.def"
#undef UNARY
#undef BINARY
#undef COMPARE
#undef TERNARY
};

static neap_status result_dtype(neap_infer *x, int kind, neap_dtype t) {
  if (kind == KIND_WHERE && x->in[0].dtype != NEAP_BOOL)
    return neap__fail(x->err, NEAP_DTYPE, "the condition is %s, expected bool", neap__dtype_name(x->in[0].dtype));
  if (kind == KIND_NUMERIC && t == NEAP_BOOL)
    return neap__fail(x->err, NEAP_DTYPE, "there is no arithmetic on bool: use t:to(...) first, or a logical op");
  if ((kind == KIND_INTEGER || kind == KIND_SHIFT) && neap__dtype_is_float(t))
    return neap__fail(x->err, NEAP_DTYPE, "there are no bits to work on in %s: expected integers or bool",
                      neap__dtype_name(t));
  if (kind == KIND_SHIFT && t == NEAP_BOOL)
    return neap__fail(x->err, NEAP_DTYPE, "there are no bits to move in bool: use t:to(...) first");
  if (kind == KIND_LOGICAL) t = NEAP_BOOL;
  if (kind == KIND_FLOAT && !neap__dtype_is_float(t)) t = NEAP_F32;
  x->out[0].dtype = t;
  return NEAP_OK;
}

static neap_status infer(neap_infer *x) {
  int kind = kinds[x->op->row];
  uint32_t first = kind == KIND_WHERE ? 1 : 0; /* the condition does not take part in promotion */
  neap_dtype t = x->in[first].dtype;
  neap_shape shape = x->in[0].shape;
  for (uint32_t i = 1; i < x->n_in; i++) {
    neap_status s = neap__broadcast(&shape, &x->in[i].shape, &shape, x->err);
    if (s != NEAP_OK) return s;
    if (i > first) t = neap__dtype_promote(t, x->in[i].dtype);
  }
  x->out[0].shape = shape;
  return result_dtype(x, kind, t);
}

/* --- gradients --- */
static neap_id back_to(neap_graph *g, const neap_node *n, uint32_t i, neap_id gradient) {
  if (gradient == NEAP_NONE) return NEAP_NONE;
  neap_desc to = neap__desc_at(g, n->in[i]);
  return neap__sum_to(g, gradient, &to);
}

#define M(a, b) neap__build2(g, &neap__op_mul, a, b)
#define A(a, b) neap__build2(g, &neap__op_add, a, b)
#define S(a, b) neap__build2(g, &neap__op_sub, a, b)
#define D(a, b) neap__build2(g, &neap__op_div, a, b)
#define N(a) neap__build1(g, &neap__op_neg, a)
#define K(number) neap__const_like(g, d, number)
#define O1(op, a) neap__build1(g, &neap__op_##op, a)
#define O2(op, a, b) neap__build2(g, &neap__op_##op, a, b)
#define O3(op, a, b, c) neap__build3(g, &neap__op_##op, a, b, c)
#define NONZERO(a) O3(where, O2(eq, a, K(0)), K(1), a)
#define ZERO NEAP_NONE

#define GRAD(name) \
  static void grad_##name(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need)
#define SET(i, gradient) \
  if (need & (1u << i)) gin[i] = back_to(g, n, i, gradient)

#define UNARY(name, class, f, gx, ...)                      \
  GRAD(name) {                                              \
    const neap_id x = n->in[0], y = n->out[0], d = gout[0]; \
    (void)x, (void)y, (void)d;                              \
    SET(0, gx);                                             \
  }
#define BINARY(name, class, f, ga, gb, ...)                               \
  GRAD(name) {                                                            \
    const neap_id a = n->in[0], b = n->in[1], y = n->out[0], d = gout[0]; \
    (void)a, (void)b, (void)y, (void)d;                                   \
    SET(0, ga);                                                           \
    SET(1, gb);                                                           \
  }
#define COMPARE(name, f, ...)
#define TERNARY(name, f, gb, gc, ...)                                                   \
  GRAD(name) {                                                                          \
    const neap_id a = n->in[0], b = n->in[1], c = n->in[2], y = n->out[0], d = gout[0]; \
    (void)a, (void)b, (void)c, (void)y, (void)d;                                        \
    SET(1, gb);                                                                         \
    SET(2, gc);                                                                         \
  }
#include "op/elementwise.def"
#undef UNARY
#undef BINARY
#undef COMPARE
#undef TERNARY
#undef D

/* --- records --- */
static const char *const unary_float[] = {"f32[2,3]", "f32[]", "f32[0,3]", "f64[5]", "i64[3]:below=4", NULL};
static const char *const unary_positive[] = {"f32[2,3]:positive", "f32[]:positive", "f32[0,3]", "f64[5]:positive",
                                             NULL};
static const char *const unary_unit[] = {"f32[2,3]:unit", "f32[]:unit", "f32[0,3]", "f64[5]:unit", NULL};
static const char *const unary_above[] = {"f32[2,3]:above=1", "f32[]:above=1", "f32[0,3]", "f64[5]:above=1", NULL};
static const char *const unary_numeric[] = {"f32[2,3]",       "f32[]",         "f32[0,3]", "f64[5]",
                                            "i64[3]:below=4", "u8[3]:below=4", NULL};
static const char *const unary_logical[] = {"f32[2,3]", "f32[]", "f32[0,3]", "bool[5]", "i64[3]:below=2", NULL};
static const char *const binary_float[] = {"f32[2,3] f32[2,3]:positive", "f32[2,3] f32[3]:positive",
                                           "f32[2,1] f32[2,3]:positive", "f32[2,3,4] f32[3,1]:positive",
                                           "f32[] f32[4]:positive",      "f32[0,3] f32[3]",
                                           "f64[5] f64[5]:positive",     NULL};
static const char *const binary_positive[] = {"f32[2,3]:positive f32[2,3]", "f32[2,3]:positive f32[3]",
                                              "f32[0,3] f32[3]", "f64[5]:positive f64[5]", NULL};
static const char *const binary_numeric[] = {"f32[2,3] f32[2,3]",
                                             "f32[2,3] f32[3]",
                                             "f32[2,1] f32[2,3]",
                                             "f32[2,3,4] f32[3,1]",
                                             "f32[] f32[4]",
                                             "f32[0,3] f32[3]",
                                             "f64[5] f64[5]",
                                             "i64[3]:below=4 i64[3]:below=4",
                                             NULL};
static const char *const binary_division[] = {"f32[2,3] f32[2,3]:positive",   "f32[2,3] f32[3]:positive",
                                              "f32[2,3,4] f32[3,1]:positive", "f32[0,3] f32[3]:positive",
                                              "f64[5] f64[5]:positive",       "i64[9] i64[9]:positive",
                                              "u8[7] u8[7]:positive",         NULL};
static const char *const binary_integer[] = {"i64[9]:below=9 i64[9]:below=4",
                                             "i64[2,3] i64[3]:below=4",
                                             "i32[7] i32[7]:below=4",
                                             "u8[2,1]:below=200 u8[3]:below=8",
                                             "bool[8] bool[8]",
                                             "i64[0,3] i64[3]",
                                             NULL};
static const char *const binary_shift[] = {"i64[9]:below=9 i64[9]:below=4",
                                           "i64[2,3] i64[3]:below=4",
                                           "i32[7] i32[7]:below=4",
                                           "u8[2,1]:below=200 u8[3]:below=8",
                                           "i64[5] i64[5]",
                                           "i64[0,3] i64[3]",
                                           NULL};
static const char *const compare[] = {"f32[2,3] f32[3]", "f32[0,3] f32[3]", "i64[8]:below=2 i64[8]:below=2",
                                      "bool[6] bool[6]", "f64[5] f64[]",    NULL};
static const char *const ternary[] = {"bool[2,3] f32[2,3] f32[2,3]", "bool[3] f32[2,3] f32[]",
                                      "bool[2,1] f32[3] f32[2,3]",   "bool[0] f32[0] f32[0]",
                                      "bool[4] f64[4] f64[4]",       NULL};

#define UNARY_SAMPLES_FLOAT unary_float
#define UNARY_SAMPLES_POSITIVE unary_positive
#define UNARY_SAMPLES_NUMERIC unary_numeric
#define UNARY_SAMPLES_LOGICAL unary_logical
#define UNARY_SAMPLES_INTERNAL unary_float
#define UNARY_SAMPLES_UNIT unary_unit
#define UNARY_SAMPLES_ABOVE unary_above
#define BINARY_SAMPLES_DIVISION binary_division
#define BINARY_SAMPLES_INTEGER binary_integer
#define BINARY_SAMPLES_SHIFT binary_shift
#define BINARY_SAMPLES_FLOAT binary_float
#define BINARY_SAMPLES_NUMERIC binary_numeric
#define BINARY_SAMPLES_INTERNAL binary_float
#define BINARY_SAMPLES_POWER binary_positive
#define HIDDEN_FLOAT false
#define HIDDEN_POSITIVE false
#define HIDDEN_UNIT false
#define HIDDEN_ABOVE false
#define HIDDEN_NUMERIC false
#define HIDDEN_DIVISION false
#define HIDDEN_INTEGER false
#define HIDDEN_SHIFT false
#define HIDDEN_LOGICAL false
#define HIDDEN_INTERNAL true
#define HIDDEN_POWER true

#define RECORD(op_name, inputs, hidden, discrete, places, gradient, cases, ...) \
  const neap_op neap__op_##op_name = {.name = #op_name,                         \
                                      .min_in = inputs,                         \
                                      .max_in = inputs,                         \
                                      .n_out = 1,                               \
                                      .internal = hidden,                       \
                                      .nondiff = discrete,                      \
                                      .row = ROW_##op_name,                     \
                                      .inplace = places,                        \
                                      .precision = NEAP_PREC_FOLLOW,            \
                                      .rule = NEAP_BATCH_ELEMENTWISE,           \
                                      .infer = infer,                           \
                                      .grad = gradient,                         \
                                      .batch = neap__batch_elementwise,         \
                                      .samples = cases,                         \
                                      .doc = __VA_ARGS__};
#define UNARY(name, class, f, gx, ...) \
  RECORD(name, 1, HIDDEN_##class, KIND_##class == KIND_LOGICAL, 1, grad_##name, UNARY_SAMPLES_##class, __VA_ARGS__)
#define BINARY(name, class, f, ga, gb, ...)                                                                   \
  RECORD(name, 2, HIDDEN_##class, KIND_##class == KIND_INTEGER || KIND_##class == KIND_SHIFT, 3, grad_##name, \
         BINARY_SAMPLES_##class, __VA_ARGS__)
#define COMPARE(name, f, ...) RECORD(name, 2, false, true, 3, NULL, compare, __VA_ARGS__)
#define TERNARY(name, f, gb, gc, ...) RECORD(name, 3, false, false, 6, grad_##name, ternary, __VA_ARGS__)
#include "op/elementwise.def"
