/* Diagonals of matrices. In a matrix of C columns, row by row, a diagonal's entries lie C + 1 apart: in rows of that
 * length they are the first column. */
#include "op/build.h"

/* x with zeros before and after along its last dimension. */
static neap_id pad_last(neap_graph *g, neap_id x, int64_t before, int64_t after) {
  if (!before && !after) return x;
  return neap__build(g, &neap__op_pad_value, &x, 1,
                     (neap_opt[NEAP_MAX_OPTS]){neap__opt_list((const int64_t[]){before, after}, 2)});
}

/* The first n - 1 dimensions of x, and `tail`. */
static neap_id with_tail(neap_graph *g, neap_id x, int32_t keep, const int64_t *tail, int32_t n) {
  neap_shape s = neap__desc_at(g, x).shape;
  s.ndim = keep;
  for (int32_t i = 0; i < n; i++) s.dim[s.ndim++] = tail[i];
  return neap__reshape_to(g, x, &s);
}

static int64_t between(int64_t v, int64_t least, int64_t most) { return v < least ? least : v > most ? most : v; }

/* The diagonals of the last two dimensions, as one. */
static neap_id take(neap_graph *g, neap_id x, int64_t offset) {
  if (x == NEAP_NONE) return x;
  const neap_shape s = neap__desc_at(g, x).shape;
  const int32_t keep = s.ndim - 2;
  const int64_t rows = s.dim[keep], columns = s.dim[keep + 1], off = between(offset, -rows, columns);
  const int64_t start = off >= 0 ? off : -off * columns, below = off < 0 ? rows + off : rows;
  const int64_t right = off > 0 ? columns - off : columns, n = below < right ? below : right, step = columns + 1;
  if (n <= 0) return with_tail(g, neap__narrow_to(g, x, keep, 0, 0), keep, (const int64_t[]){0}, 1);
  const int64_t left = rows * columns - start, span = n * step < left ? n * step : left;
  x = with_tail(g, x, keep, (const int64_t[]){rows * columns}, 1);
  x = pad_last(g, neap__narrow_to(g, x, keep, start, span), 0, n * step - span);
  x = with_tail(g, x, keep, (const int64_t[]){n, step}, 2);
  return with_tail(g, neap__narrow_to(g, x, keep + 1, 0, 1), keep, (const int64_t[]){n}, 1);
}

/* The last dimension as the diagonals of matrices of `size` rows and columns in two new ones. */
static neap_id put(neap_graph *g, neap_id x, int64_t offset, int64_t size) {
  if (x == NEAP_NONE) return x;
  const neap_shape s = neap__desc_at(g, x).shape;
  const int32_t keep = s.ndim - 1;
  const int64_t n = s.dim[keep], start = offset >= 0 ? offset : -offset * size, all = size * size;
  x = pad_last(g, neap__insert_dim(g, x, s.ndim), 0, size);
  if (x == NEAP_NONE) return x;
  x = with_tail(g, x, keep, (const int64_t[]){n * (size + 1)}, 1);
  const int64_t span = n * (size + 1) < all - start ? n * (size + 1) : all - start;
  x = pad_last(g, neap__narrow_to(g, x, keep, 0, span), start, all - start - span);
  return x == NEAP_NONE ? x : with_tail(g, x, keep, (const int64_t[]){size, size}, 2);
}

/* Two different dimensions of ndim. */
static bool plane(neap_graph *g, const neap_op *op, const neap_opt *opt, int32_t ndim, int32_t *dims) {
  for (int i = 0; i < 2; i++)
    if (!neap__dim_at(g, op, opt[i].v.i, ndim, &dims[i])) return false;
  if (dims[0] != dims[1]) return true;
  neap__graph_fail(g, op, NEAP_INVALID, "`dim1` and `dim2` are both dimension %d", dims[0] + 1);
  return false;
}

static neap_id diagonal(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape s = neap__desc_at(g, in[0]).shape;
  int64_t order[NEAP_MAX_DIMS];
  int32_t dims[2] = {0, 0}, n = 0;
  char text[96];
  (void)n_in;
  if (s.ndim < 2)
    return neap__graph_fail(g, op, NEAP_SHAPE, "shape %s, expected at least 2 dimensions",
                            neap__shape_text(&s, text, sizeof text));
  if (!plane(g, op, opt + 1, s.ndim, dims)) return NEAP_NONE;
  for (int32_t d = 0; d < s.ndim; d++)
    if (d != dims[0] && d != dims[1]) order[n++] = d;
  order[n] = dims[0];
  order[n + 1] = dims[1];
  return take(g, neap__permute_by(g, in[0], order, s.ndim), opt[0].v.i);
}

static neap_id embed(neap_graph *g, const neap_op *op, neap_id x, int64_t offset) {
  enum { MOST = 1 << 24 };
  const neap_shape s = neap__desc_at(g, x).shape;
  const int64_t n = s.ndim > 0 ? s.dim[s.ndim - 1] : 0;
  if (s.ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar is no diagonal, expected at least 1 dimension");
  if (n > MOST || offset > MOST || offset < -MOST)
    return neap__graph_fail(g, op, NEAP_RANGE, "a diagonal of %lld entries at offset %lld is too large", (long long)n,
                            (long long)offset);
  return put(g, x, offset, n + (offset < 0 ? -offset : offset));
}

static neap_id diag_embed(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int32_t ndim = neap__desc_at(g, in[0]).shape.ndim + 1;
  int64_t order[NEAP_MAX_DIMS] = {0};
  int32_t dims[2] = {0, 0}, n = 0;
  (void)n_in;
  const neap_id x = embed(g, op, in[0], opt[0].v.i);
  if (x == NEAP_NONE || !plane(g, op, opt + 1, ndim, dims)) return NEAP_NONE;
  for (int32_t d = 0; d < ndim; d++) order[d] = d == dims[0] ? ndim - 2 : d == dims[1] ? ndim - 1 : n++;
  return neap__permute_by(g, x, order, ndim);
}

static neap_id diag(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape s = neap__desc_at(g, in[0]).shape;
  char text[96];
  (void)n_in;
  if (s.ndim == 1) return embed(g, op, in[0], opt[0].v.i);
  if (s.ndim == 2) return take(g, in[0], opt[0].v.i);
  return neap__graph_fail(g, op, NEAP_SHAPE, "shape %s, expected 1 or 2 dimensions (diagonal and diag_embed take more)",
                          neap__shape_text(&s, text, sizeof text));
}

static neap_id trace(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape s = neap__desc_at(g, in[0]).shape;
  char text[96];
  (void)n_in, (void)opt;
  if (s.ndim != 2)
    return neap__graph_fail(g, op, NEAP_SHAPE, "shape %s, expected a matrix", neap__shape_text(&s, text, sizeof text));
  return neap__build1(g, &neap__op_sum, take(g, in[0], 0));
}

static neap_id eye(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int64_t rows = opt[0].v.i, columns = opt[1].set ? opt[1].v.i : rows, k = rows < columns ? rows : columns;
  const neap_opt ones[NEAP_MAX_OPTS] = {neap__opt_list(&k, 1), NEAP_FLOAT(1), opt[2]};
  (void)op, (void)in, (void)n_in;
  neap_id x = put(g, neap__build(g, &neap__op_full, NULL, 0, ones), 0, k);
  if (x == NEAP_NONE || rows == columns) return x;
  const int64_t more[] = {0, columns - k, 0, rows - k};
  return neap__build(g, &neap__op_pad_value, &x, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(more, 4)});
}

static const char *const diagonal_samples[] = {"f32[3,4]",
                                               "f32[4,3]; offset=1",
                                               "f32[2,3,4]; offset=-1; dim1=2; dim2=3",
                                               "f32[3,2,3]; dim1=-1; dim2=1",
                                               "f32[3,3]; offset=5",
                                               "i64[3,3]; offset=-2",
                                               "f32[0,3]",
                                               "f64[3,5]; offset=2",
                                               NULL};
static const char *const embed_samples[] = {"f32[3]",
                                            "f32[2,3]; offset=1",
                                            "f32[2,3]; offset=-2; dim1=1; dim2=3",
                                            "i64[2,2]; dim1=2; dim2=1",
                                            "f32[0]; offset=1",
                                            "f64[1,1]",
                                            NULL};
static const char *const diag_samples[] = {"f32[3]", "f32[3,4]", "f32[2]; diagonal=-1", "f32[3,2]; diagonal=1",
                                           "i64[0]", NULL};
static const char *const trace_samples[] = {"f32[3,4]", "f32[1,1]", "i64[3,3]", "f32[0,3]", "f64[5,3]", NULL};
static const char *const eye_samples[] = {
    "; n=3", "; n=2; m=4; dtype=fp64", "; n=4; m=2; dtype=int64", "; n=0", "; n=3; m=0", NULL};

#define PLANE(first, second)                                                                                      \
  {.name = "offset",                                                                                              \
   .type = NEAP_OPT_INT,                                                                                          \
   .def = 0,                                                                                                      \
   .has_default = true,                                                                                           \
   .doc = "Diagonals above the main one; negative: below."},                                                      \
      {.name = "dim1", .type = NEAP_OPT_DIM, .def = first, .has_default = true, .doc = "The rows' dimension."}, { \
    .name = "dim2", .type = NEAP_OPT_DIM, .def = second, .has_default = true, .doc = "The columns' dimension."    \
  }

const neap_op neap__op_diagonal = {
    .name = "diagonal",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {PLANE(0, 1)},
    .expand = diagonal,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [...] -> [...]",
    .samples = diagonal_samples,
    .doc = "Diagonals of the matrices in dimensions `dim1` and `dim2`, as a new last dimension; `offset` 1 is the one "
           "above "
           "the main diagonal, -1 the one below.",
    .example = "print(neap.tensor {{1, 2, 3}, {4, 5, 6}}:diagonal(1))  --> tensor fp32 [2] {2, 6}",
};

const neap_op neap__op_diag_embed = {
    .name = "diag_embed",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {PLANE(-2, -1)},
    .expand = diag_embed,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [..., n] -> [...]",
    .samples = embed_samples,
    .doc =
        "Matrices in dimensions `dim1` and `dim2` of the result, zero but for the diagonal `offset`, which is the last "
        "dimension of the input.",
    .example = "print(neap.tensor {1, 2}:diag_embed())  --> tensor fp32 [2, 2] {{1, 0}, {0, 2}}",
};

const neap_op neap__op_diag = {
    .name = "diag",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "diagonal",
              .type = NEAP_OPT_INT,
              .def = 0,
              .has_default = true,
              .doc = "Diagonals above the main one; negative: below."}},
    .expand = diag,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [...] -> [...]",
    .samples = diag_samples,
    .doc =
        "Of a vector the matrix with it on a diagonal, of a matrix that diagonal: 0 is the main one, 1 the next above.",
    .example = "print(neap.tensor {1, 2}:diag())  --> tensor fp32 [2, 2] {{1, 0}, {0, 2}}",
};

const neap_op neap__op_trace = {
    .name = "trace",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .expand = trace,
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "input [m, n] -> []",
    .samples = trace_samples,
    .doc = "The sum of a matrix's main diagonal.",
    .example = "print(neap.tensor {{1, 2}, {3, 4}}:trace())  --> tensor fp32 [] 5",
};

const neap_op neap__op_eye = {
    .name = "eye",
    .min_in = 0,
    .max_in = 0,
    .n_out = 1,
    .nondiff = true,
    .opts = {{.name = "n", .type = NEAP_OPT_INT, .required = true, .min = 0, .max = 1 << 24, .doc = "Rows."},
             {.name = "m",
              .type = NEAP_OPT_INT,
              .min = 0,
              .max = 1 << 24,
              .doc = "Columns; as many as rows when left out."},
             {.name = "dtype", .type = NEAP_OPT_DTYPE, .def = NEAP_F32, .has_default = true, .doc = "Of the result."}},
    .expand = eye,
    .topic = NEAP_TOPIC_MAKE,
    .args = "-> [n, m]",
    .samples = eye_samples,
    .doc = "The matrix of `n` rows and `m` (as many when left out) columns with 1 on its diagonal.",
    .example = "print(neap.eye(2))  --> tensor fp32 [2, 2] {{1, 0}, {0, 1}}",
};
