/* Products by the names that say what the operands are; matmul takes all of them. */
#include "op/build.h"

/* Whether the operands have `left` and `right` dimensions. */
static bool need_dims(neap_graph *g, const neap_op *op, const neap_id *in, int32_t left, int32_t right) {
  const neap_shape a = neap__desc_at(g, in[0]).shape, b = neap__desc_at(g, in[1]).shape;
  char at[96], bt[96];
  if (a.ndim == left && b.ndim == right) return true;
  neap__graph_fail(g, op, NEAP_SHAPE, "operands %s and %s, expected %d and %d dimensions (matmul takes others)",
                   neap__shape_text(&a, at, sizeof at), neap__shape_text(&b, bt, sizeof bt), left, right);
  return false;
}

static neap_id product(neap_graph *g, const neap_op *op, const neap_id *in, int32_t left, int32_t right) {
  const neap_shape a = neap__desc_at(g, in[0]).shape, b = neap__desc_at(g, in[1]).shape;
  char at[96], bt[96];
  if (!need_dims(g, op, in, left, right)) return NEAP_NONE;
  if (left == 3 && a.dim[0] != b.dim[0])
    return neap__graph_fail(g, op, NEAP_SHAPE, "operands %s and %s, expected one number of matrices",
                            neap__shape_text(&a, at, sizeof at), neap__shape_text(&b, bt, sizeof bt));
  return neap__build2(g, &neap__op_matmul, in[0], in[1]);
}

#define PRODUCT(fn, left, right)                                                                               \
  static neap_id fn(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) { \
    (void)n_in, (void)opt;                                                                                     \
    return product(g, op, in, left, right);                                                                    \
  }
PRODUCT(mm, 2, 2)
PRODUCT(bmm, 3, 3)
PRODUCT(mv, 2, 1)
PRODUCT(dot, 1, 1)

/* beta x + alpha a b; with a beta of 0, x is not read, so that its NaN does not count. */
static neap_id add_product(neap_graph *g, const neap_op *op, const neap_id *in, const neap_opt *opt, int32_t left,
                           int32_t right) {
  const double beta = opt[0].v.f, alpha = opt[1].v.f;
  const neap_id ab = product(g, op, in + 1, left, right);
  if (ab == NEAP_NONE) return ab;
  const neap_desc x = neap__desc_at(g, in[0]), d = neap__desc_at(g, ab);
  neap_shape both;
  neap_error err;
  char xt[96], dt[96];
  if (x.dtype != d.dtype)
    return neap__graph_fail(g, op, NEAP_DTYPE, "input 1 is %s, expected %s like the product", neap__dtype_name(x.dtype),
                            neap__dtype_name(d.dtype));
  if (neap__broadcast(&x.shape, &d.shape, &both, &err) != NEAP_OK || !neap__shape_equal(&both, &d.shape))
    return neap__graph_fail(g, op, NEAP_SHAPE, "input 1 of shape %s does not expand to the product's %s",
                            neap__shape_text(&x.shape, xt, sizeof xt), neap__shape_text(&d.shape, dt, sizeof dt));
  const neap_id scaled = alpha == 1 ? ab : neap__scale(g, ab, alpha);
  if (beta == 0) return scaled;
  return neap__build2(g, &neap__op_add, beta == 1 ? in[0] : neap__scale(g, in[0], beta), scaled);
}

#define ADD_PRODUCT(fn, left, right)                                                                           \
  static neap_id fn(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) { \
    (void)n_in;                                                                                                \
    return add_product(g, op, in, opt, left, right);                                                           \
  }
ADD_PRODUCT(addmm, 2, 2)
ADD_PRODUCT(addmv, 2, 1)
ADD_PRODUCT(baddbmm, 3, 3)

static neap_id outer(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in, (void)opt;
  if (!need_dims(g, op, in, 1, 1)) return NEAP_NONE;
  return neap__build2(g, &neap__op_mul, neap__insert_dim(g, in[0], 1), in[1]);
}

/* Each dimension of a beside that of b, from the right. */
static neap_id kron(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape a = neap__desc_at(g, in[0]).shape, b = neap__desc_at(g, in[1]).shape;
  const int32_t n = a.ndim > b.ndim ? a.ndim : b.ndim;
  neap_shape as = {.ndim = 2 * n}, bs = {.ndim = 2 * n}, all = {.ndim = n};
  char at[96], bt[96];
  (void)n_in, (void)opt;
  if (2 * n > NEAP_MAX_DIMS)
    return neap__graph_fail(g, op, NEAP_SHAPE, "operands %s and %s, expected at most %d dimensions",
                            neap__shape_text(&a, at, sizeof at), neap__shape_text(&b, bt, sizeof bt),
                            NEAP_MAX_DIMS / 2);
  for (int32_t d = 0; d < n; d++) {
    const int32_t ad = d - (n - a.ndim), bd = d - (n - b.ndim);
    as.dim[2 * d] = ad < 0 ? 1 : a.dim[ad];
    as.dim[2 * d + 1] = bs.dim[2 * d] = 1;
    bs.dim[2 * d + 1] = bd < 0 ? 1 : b.dim[bd];
    all.dim[d] = as.dim[2 * d] * bs.dim[2 * d + 1];
  }
  const neap_id y = neap__build2(g, &neap__op_mul, neap__reshape_to(g, in[0], &as), neap__reshape_to(g, in[1], &bs));
  return y == NEAP_NONE ? y : neap__reshape_to(g, y, &all);
}

static neap_id turned(neap_graph *g, neap_id v, int64_t dim, int64_t by) {
  return neap__build(g, &neap__op_roll, &v, 1,
                     (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(&by, 1), neap__opt_list(&dim, 1)});
}

static neap_id spread(neap_graph *g, neap_id v, const neap_shape *to) {
  return neap__build(g, &neap__op_expand, &v, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(to->dim, to->ndim)});
}

/* (a x b)[i] = a[i+1] b[i+2] - a[i+2] b[i+1], positions modulo 3. */
static neap_id cross(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape a = neap__desc_at(g, in[0]).shape, b = neap__desc_at(g, in[1]).shape;
  neap_shape all;
  neap_error err;
  int32_t dim = 0;
  char at[96], bt[96];
  (void)n_in;
  const neap_status s = neap__broadcast(&a, &b, &all, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  if (!neap__dim_at(g, op, opt[0].v.i, all.ndim, &dim)) return NEAP_NONE;
  const int32_t ad = dim - (all.ndim - a.ndim), bd = dim - (all.ndim - b.ndim);
  if (ad < 0 || bd < 0 || all.ndim == 0 || a.dim[ad] != 3 || b.dim[bd] != 3)
    return neap__graph_fail(g, op, NEAP_SHAPE, "inputs %s and %s, expected 3 entries along dimension %d",
                            neap__shape_text(&a, at, sizeof at), neap__shape_text(&b, bt, sizeof bt), dim + 1);
  const neap_id x = spread(g, in[0], &all), y = spread(g, in[1], &all);
  const neap_id plus = neap__build2(g, &neap__op_mul, turned(g, x, dim, -1), turned(g, y, dim, -2));
  const neap_id minus = neap__build2(g, &neap__op_mul, turned(g, x, dim, -2), turned(g, y, dim, -1));
  return neap__build2(g, &neap__op_sub, plus, minus);
}

static const char *const mm_samples[] = {"f32[2,3] f32[3,4]", "f32[2,0] f32[0,3]", "f64[2,2] f64[2,1]", NULL};
static const char *const bmm_samples[] = {"f32[5,2,3] f32[5,3,4]", "f32[0,2,3] f32[0,3,1]", "f64[2,2,2] f64[2,2,1]",
                                          NULL};
static const char *const mv_samples[] = {"f32[2,3] f32[3]", "f32[0,3] f32[3]", "f64[2,0] f64[0]", NULL};
static const char *const dot_samples[] = {"f32[7]:positive f32[7]:positive", "f32[0] f32[0]", "f64[3] f64[3]", NULL};
static const char *const addmm_samples[] = {"f32[2,4] f32[2,3] f32[3,4]", "f32[4] f32[2,3] f32[3,4]; beta=0.5; alpha=2",
                                            "f64[] f64[2,2] f64[2,1]; beta=0", "f32[1,3] f32[2,0] f32[0,3]", NULL};
static const char *const addmv_samples[] = {"f32[2] f32[2,3] f32[3]", "f64[] f64[2,3] f64[3]; beta=-1; alpha=0.5",
                                            NULL};
static const char *const baddbmm_samples[] = {"f32[5,2,4] f32[5,2,3] f32[5,3,4]",
                                              "f32[2,4] f32[5,2,3] f32[5,3,4]; beta=0.5; alpha=2",
                                              "f64[1] f64[2,2,2] f64[2,2,1]; beta=0", NULL};
static const char *const outer_samples[] = {"f32[3] f32[4]", "i64[2]:below=5 i64[3]:below=5", "f32[0] f32[2]",
                                            "f64[2] f64[2]", NULL};
static const char *const kron_samples[] = {"f32[2,3] f32[3,2]",
                                           "f32[4] f32[2,3]",
                                           "f32[2,1,2] f32[3]",
                                           "f32[] f32[2]",
                                           "f32[0,2] f32[2,2]",
                                           "f64[2,2] f64[2,2]",
                                           NULL};
static const char *const cross_samples[] = {"f32[4,3] f32[4,3]", "f32[3,5] f32[3,5]; dim=1", "f32[4,3] f32[3]",
                                            "f64[3] f64[3]",     "f32[0,3] f32[0,3]",        NULL};

#define NAMED(op_name, fn, cases, shapes, shown, text)                                                                \
  {                                                                                                                   \
    .name = op_name, .min_in = 2, .max_in = 2, .n_out = 1, .expand = fn, .topic = NEAP_TOPIC_PRODUCT, .args = shapes, \
    .example = shown, .samples = cases, .doc = text                                                                   \
  }
#define ADDED(op_name, fn, cases, shapes, shown, text)                                                               \
  {                                                                                                                  \
    .name = op_name, .min_in = 3, .max_in = 3, .n_out = 1,                                                           \
    .opts =                                                                                                          \
        {{.name = "beta", .type = NEAP_OPT_FLOAT, .def = 1, .has_default = true, .doc = "What x is multiplied by."}, \
         {.name = "alpha",                                                                                           \
          .type = NEAP_OPT_FLOAT,                                                                                    \
          .def = 1,                                                                                                  \
          .has_default = true,                                                                                       \
          .doc = "What the second part is multiplied by."}},                                                         \
    .expand = fn, .topic = NEAP_TOPIC_PRODUCT, .args = shapes, .example = shown, .samples = cases, .doc = text       \
  }

const neap_op neap__op_mm =
    NAMED("mm", mm, mm_samples, "input [m, k], mat2 [k, n] -> [m, n]",
          "print(neap.tensor {{1, 2}, {3, 4}}:mm(neap.tensor {{1}, {1}}))  --> tensor fp32 [2, 1] {{3}, {7}}",
          "Product of two matrices.");
const neap_op neap__op_bmm =
    NAMED("bmm", bmm, bmm_samples, "input [B, m, k], mat2 [B, k, n] -> [B, m, n]",
          "print(table.concat(neap.bmm(neap.ones(8, 2, 3), neap.ones(8, 3, 4)).shape, \" \"))  --> 8 2 4",
          "Products of two batches of matrices, pair by pair.");
const neap_op neap__op_mv =
    NAMED("mv", mv, mv_samples, "input [m, k], vec [k] -> [m]",
          "print(neap.tensor {{1, 2}, {3, 4}}:mv(neap.tensor {1, 10}))  --> tensor fp32 [2] {21, 43}",
          "Product of a matrix and a vector.");
const neap_op neap__op_dot = NAMED("dot", dot, dot_samples, "input [k], other [k] -> []",
                                   "print(neap.tensor {1, 2, 3}:dot(neap.tensor {1, 10, 100}))  --> tensor fp32 [] 321",
                                   "Sum of the products of two vectors' entries.");
const neap_op neap__op_outer =
    NAMED("outer", outer, outer_samples, "input [m], vec2 [n] -> [m, n]",
          "print(neap.tensor {1, 2}:outer(neap.tensor {1, 10}))  --> tensor fp32 [2, 2] {{1, 10}, {2, 20}}",
          "Products of each entry of one vector with each of another.");
const neap_op neap__op_kron =
    NAMED("kron", kron, kron_samples, "input [...], other [...] -> [...]",
          "print(neap.tensor {{1, 2}}:kron(neap.tensor {{1, 10}}))  --> tensor fp32 [1, 4] {{1, 10, 2, 20}}",
          "Kronecker product: each entry of the first times the whole second, in its place.");
const neap_op neap__op_addmm =
    ADDED("addmm", addmm, addmm_samples, "input [...], mat1 [m, k], mat2 [k, n] -> [m, n]",
          "local x, a, b = neap.tensor {1, 2}, neap.eye(2), neap.ones(2, 2)\n"
          "print(neap.addmm(x, a, b, {beta = 10}))  --> tensor fp32 [2, 2] {{11, 21}, {11, 21}}",
          "beta x + alpha a b for matrices a and b; with `beta` 0, x is not read.");
const neap_op neap__op_addmv = ADDED(
    "addmv", addmv, addmv_samples, "input [...], mat [m, k], vec [k] -> [m]",
    "print(neap.addmv(neap.tensor {1, 2}, neap.eye(2), neap.ones(2), {alpha = 10}))  --> tensor fp32 [2] {11, 12}",
    "beta x + alpha a b for a matrix a and a vector b; with `beta` 0, x is not read.");
const neap_op neap__op_baddbmm =
    ADDED("baddbmm", baddbmm, baddbmm_samples, "input [...], batch1 [B, m, k], batch2 [B, k, n] -> [B, m, n]",
          "print(neap.baddbmm(neap.ones(1, 1, 1), neap.ones(1, 1, 3), neap.ones(1, 3, 1)))  --> tensor fp32 [1, 1, 1] "
          "{{{4}}}",
          "beta x + alpha a b for batches of matrices; with `beta` 0, x is not read.");

const neap_op neap__op_cross = {
    .name = "cross",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .def = -1, .has_default = true, .doc = "Dimension of 3 entries."}},
    .expand = cross,
    .topic = NEAP_TOPIC_PRODUCT,
    .args = "input [...], other [...] -> [...]",
    .samples = cross_samples,
    .doc = "Cross product of vectors of 3 entries along `dim`; the inputs broadcast.",
    .example = "print(neap.tensor {1, 0, 0}:cross(neap.tensor {0, 1, 0}))  --> tensor fp32 [3] {0, 0, 1}",
};
