/* Joining values along a dimension. */
#include "op/build.h"

/* Inputs of one node; more are joined in groups. */
enum { MOST = 32 };

static neap_status infer(neap_infer *x) {
  neap_desc out = x->in[0];
  if (out.shape.ndim == 0) return neap__fail(x->err, NEAP_SHAPE, "scalars do not join: stack them");
  neap_status s = neap__dim_option(&x->opt[0], out.shape.ndim, x->err);
  if (s != NEAP_OK) return s;
  int32_t dim = (int32_t)x->opt[0].v.i;
  for (uint32_t i = 1; i < x->n_in; i++) {
    neap_shape a = out.shape, b = x->in[i].shape;
    char text[96], expected[96];
    neap__shape_text(&b, text, sizeof text);
    neap__shape_text(&out.shape, expected, sizeof expected);
    if (a.ndim == b.ndim) a.dim[dim] = b.dim[dim];
    if (!neap__shape_equal(&a, &b))
      return neap__fail(x->err, NEAP_SHAPE, "input %u has shape %s, expected %s but for dimension %d", i + 1, text,
                        expected, dim + 1);
    if (x->in[i].dtype != out.dtype)
      return neap__fail(x->err, NEAP_DTYPE, "input %u is %s, expected %s like the first", i + 1,
                        neap__dtype_name(x->in[i].dtype), neap__dtype_name(out.dtype));
    if (__builtin_add_overflow(out.shape.dim[dim], b.dim[dim], &out.shape.dim[dim]))
      return neap__fail(x->err, NEAP_RANGE, "the joined dimension %d is too large", dim + 1);
  }
  x->out[0] = out;
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  int32_t dim = (int32_t)n->opt[0].v.i;
  int64_t at = 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    int64_t length = neap__desc_at(g, n->in[i]).shape.dim[dim];
    if (need & (1u << (i < 31 ? i : 31))) gin[i] = neap__narrow_to(g, gout[0], dim, at, length);
    at += length;
  }
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s = neap__batch_same(g, n, in, out);
  if (s != NEAP_OK || out[0].kind == NEAP_B_CONST || out[0].kind == NEAP_B_SUM) return s;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (in[i].kind == NEAP_B_CONST) return NEAP_UNSUPPORTED; /* would have to be cut as well */
  return out[0].dim == n->opt[0].v.i ? NEAP_UNSUPPORTED : NEAP_OK;
}

static const char *const samples[] = {"f32[2,3] f32[4,3]; dim=1", "f32[2,3] f32[2,1] f32[2,2]; dim=-1",
                                      "f32[0,3] f32[2,3]; dim=1", "i64[2,1,2]", NULL};

const neap_op neap__op_concat = {
    .name = "concat",
    .min_in = 1,
    .max_in = MOST,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .def = 0, .has_default = true}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .samples = samples,
    .doc = "At most 32 values joined along `dim`.",
};

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  if (n_in <= MOST) return neap__build(g, &neap__op_concat, in, n_in, opt);
  uint32_t groups = (n_in + MOST - 1) / MOST;
  neap_id *joined = neap__zone_alloc(&g->zone, groups * sizeof *joined);
  if (!joined) return neap__graph_fail(g, op, NEAP_NOMEM, "the host allocator refused memory");
  for (uint32_t i = 0; i < groups; i++) {
    uint32_t left = n_in - i * MOST;
    joined[i] = neap__build(g, &neap__op_concat, in + i * MOST, left < MOST ? left : MOST, opt);
    if (joined[i] == NEAP_NONE) return NEAP_NONE;
  }
  return expand(g, op, joined, groups, opt);
}

const neap_op neap__op_cat = {
    .name = "cat",
    .min_in = 1,
    .max_in = 255,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .def = 0, .has_default = true, .doc = "Dimension to join along."}},
    .expand = expand,
    .samples = samples,
    .doc = "Tensors joined along `dim`, where their sizes add up; the other sizes agree. Takes a list, or tensors one "
           "by one.",
    .example = "local a, b = neap.tensor {{1, 2}}, neap.tensor {{3, 4}}\n"
               "print(neap.cat({a, b}))  --> tensor fp32 [2, 2] {{1, 2}, {3, 4}}\n"
               "print(neap.cat({a, b}, {dim = 2}))  --> tensor fp32 [1, 4] {{1, 2, 3, 4}}",
    .topic = NEAP_TOPIC_JOIN,
    .args = "tensors... [...] -> [...]",
};

static neap_id stack(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  int32_t dim = 0;
  neap_shape first = neap__desc_at(g, in[0]).shape;
  if (!neap__dim_at(g, op, opt[0].v.i, first.ndim + 1, &dim)) return NEAP_NONE;
  neap_id *rows = neap__zone_alloc(&g->zone, n_in * sizeof *rows);
  if (!rows) return neap__graph_fail(g, op, NEAP_NOMEM, "the host allocator refused memory");
  for (uint32_t i = 0; i < n_in; i++) {
    neap_shape shape = neap__desc_at(g, in[i]).shape;
    char a[96], b[96];
    if (!neap__shape_equal(&shape, &first))
      return neap__graph_fail(g, op, NEAP_SHAPE, "input %u has shape %s, expected %s like the first", i + 1,
                              neap__shape_text(&shape, a, sizeof a), neap__shape_text(&first, b, sizeof b));
    rows[i] = neap__insert_dim(g, in[i], dim);
    if (rows[i] == NEAP_NONE) return NEAP_NONE;
  }
  return neap__build(g, &neap__op_cat, rows, n_in, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim)});
}

static const char *const stack_samples[] = {"f32[2,3] f32[2,3]", "f32[2] f32[2] f32[2]; dim=-1", "f32[] f32[]",
                                            "f32[0] f32[0]; dim=2", NULL};

const neap_op neap__op_stack = {
    .name = "stack",
    .min_in = 1,
    .max_in = 255,
    .n_out = 1,
    .opts = {{.name = "dim",
              .type = NEAP_OPT_DIM,
              .def = 0,
              .has_default = true,
              .doc = "Place of the new dimension in the result."}},
    .expand = stack,
    .samples = stack_samples,
    .doc = "Tensors of one shape joined along a new dimension `dim`. Takes a list, or tensors one by one.",
    .example = "local a, b = neap.tensor {1, 2}, neap.tensor {3, 4}\n"
               "print(neap.stack({a, b}))  --> tensor fp32 [2, 2] {{1, 2}, {3, 4}}\n"
               "print(neap.stack({a, b}, {dim = 2}))  --> tensor fp32 [2, 2] {{1, 3}, {2, 4}}",
    .topic = NEAP_TOPIC_JOIN,
    .args = "tensors... [...] -> [..., count, ...]",
};
