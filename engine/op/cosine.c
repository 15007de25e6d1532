/* The cosine of two vectors, and losses of how near vectors are. */
#include "op/formula.h"

static neap_id spread(neap_graph *g, neap_id v, const neap_shape *shape) {
  const neap_shape from = neap__desc_at(g, v).shape;
  if (neap__shape_equal(&from, shape)) return v;
  return neap__build(g, &neap__op_expand, &v, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(shape->dim, shape->ndim)});
}

/* All inputs in one dtype and broadcast to one shape of at least one dimension. */
static bool vectors(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n, neap_id *in) {
  neap_shape all = neap__desc_at(g, given[0]).shape;
  neap_error err;
  neap_status s = NEAP_OK;
  if (!neap__floats(g, op, given, n, in)) return false;
  for (uint32_t i = 1; i < n && s == NEAP_OK; i++) {
    const neap_shape before = all, other = neap__desc_at(g, in[i]).shape;
    s = neap__broadcast(&before, &other, &all, &err);
  }
  if (s == NEAP_OK && all.ndim == 0) s = neap__fail(&err, NEAP_SHAPE, "the inputs are scalars, expected vectors");
  if (s != NEAP_OK) neap__graph_fail(g, op, s, "%s", err.message);
  for (uint32_t i = 0; i < n && s == NEAP_OK; i++) in[i] = spread(g, in[i], &all);
  return s == NEAP_OK;
}

static neap_id dot(neap_graph *g, neap_id a, neap_id b, int64_t dim) {
  return neap__reduce(g, &neap__op_sum, MUL(a, b), &dim, 1, false);
}

static neap_id length_of(neap_graph *g, neap_id v, int64_t dim, double eps) {
  return neap__build1(g, &neap__op_sqrt, AT_LEAST(dot(g, v, v, dim), eps * eps));
}

static neap_id cosine(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[2] = {NEAP_NONE, NEAP_NONE};
  int32_t dim = 0;
  if (!vectors(g, op, given, n_in, in)) return NEAP_NONE;
  if (!neap__dim_at(g, op, opt[0].v.i, neap__desc_at(g, in[0]).shape.ndim, &dim)) return NEAP_NONE;
  return DIV(dot(g, in[0], in[1], dim),
             MUL(length_of(g, in[0], dim, opt[1].v.f), length_of(g, in[1], dim, opt[1].v.f)));
}

/* PyTorch's: 1e-12 beside each square. */
static neap_id embedding_cosine(neap_graph *g, neap_id a, neap_id b, int64_t dim) {
  const neap_id eps = neap__const_like(g, a, 1e-12);
  const neap_id squares = MUL(ADD(dot(g, a, a, dim), eps), ADD(dot(g, b, b, dim), eps));
  return DIV(dot(g, a, b, dim), neap__build1(g, &neap__op_sqrt, squares));
}

static neap_id choose(neap_graph *g, neap_id target, double value, neap_id loss) {
  const neap_id is = neap__build2(g, &neap__op_eq, target, neap__const_like(g, target, value));
  return WHERE(is, loss, neap__const_like(g, loss, 0));
}

/* x1, x2: ([N,] D), target: ([N]) of 1 and -1 */
static neap_id embedding_loss(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in,
                              const neap_opt *opt) {
  neap_id in[2] = {NEAP_NONE, NEAP_NONE};
  char xt[96], tt[96];
  (void)n_in;
  if (!vectors(g, op, given, 2, in)) return NEAP_NONE;
  neap_shape x = neap__desc_at(g, in[0]).shape, rows = x;
  const neap_desc target = neap__desc_at(g, given[2]);
  rows.ndim--;
  if (x.ndim > 2 || !neap__shape_equal(&rows, &target.shape))
    return neap__graph_fail(g, op, NEAP_SHAPE,
                            "inputs of shape %s with targets %s, expected [N, D] with [N], or [D] with []",
                            neap__shape_text(&x, xt, sizeof xt), neap__shape_text(&target.shape, tt, sizeof tt));
  if (target.dtype == NEAP_BOOL || target.dtype == NEAP_U8)
    return neap__graph_fail(g, op, NEAP_DTYPE, "the target is %s, which does not hold 1 and -1",
                            neap__dtype_name(target.dtype));
  const neap_id cosine = embedding_cosine(g, in[0], in[1], x.ndim - 1);
  const neap_id near = SUB(neap__const_like(g, cosine, 1), cosine);
  const neap_id far = AT_LEAST(SUB(cosine, neap__const_like(g, cosine, opt[1].v.f)), 0);
  return neap__reduce_loss(g, ADD(choose(g, given[2], 1, near), choose(g, given[2], -1, far)), opt[0].v.i);
}

static neap_id distance(neap_graph *g, neap_id a, neap_id b, double p, double eps) {
  return neap__build(g, &neap__op_pairwise_distance, (neap_id[]){a, b}, 2,
                     (neap_opt[NEAP_MAX_OPTS]){NEAP_FLOAT(p), NEAP_FLOAT(eps), NEAP_INT(0)});
}

enum { REDUCTION, MARGIN, P, T_EPS, SWAP };

static neap_id triplet(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  const double p = opt[P].v.f, eps = opt[T_EPS].v.f;
  if (!(opt[MARGIN].v.f > 0))
    return neap__graph_fail(g, op, NEAP_RANGE, "`margin` is %g, expected more than 0", opt[MARGIN].v.f);
  if (!vectors(g, op, given, n_in, in)) return NEAP_NONE;
  const neap_id near = distance(g, in[0], in[1], p, eps);
  neap_id far = distance(g, in[0], in[2], p, eps);
  if (opt[SWAP].v.i) far = neap__build2(g, &neap__op_minimum, far, distance(g, in[1], in[2], p, eps));
  const neap_id loss = AT_LEAST(ADD(SUB(near, far), neap__const_like(g, near, opt[MARGIN].v.f)), 0);
  return neap__reduce_loss(g, loss, opt[REDUCTION].v.i);
}

static const char *const cosine_samples[] = {"f32[2,3] f32[2,3]",
                                             "f32[2,3,4] f32[2,3,4]; dim=1",
                                             "f32[5] f32[5]; dim=-1",
                                             "f32[0,3] f32[0,3]",
                                             "f32[4,3] f32[3]",
                                             "f64[3,4] f64[3,4]",
                                             NULL};
static const char *const embedding_samples[] = {"f32[4,3] f32[4,3] i64[4]",
                                                "f32[5] f32[5] i64[]; reduction=none",
                                                "f32[4,3] f32[4,3] i64[4]; margin=0.5; reduction=sum",
                                                "f32[0,3] f32[0,3] i64[0]; reduction=sum",
                                                "f64[4,3] f64[4,3] i64[4]; margin=-0.5",
                                                NULL};
static const char *const triplet_samples[] = {"f32[4,3] f32[4,3] f32[4,3]; margin=1e4",
                                              "f64[2,5] f64[2,5] f64[2,5]; p=1; margin=2",
                                              "f64[4,3] f64[4,3] f64[4,3]; swap=true; margin=0.5; reduction=none",
                                              "f32[0,3] f32[0,3] f32[0,3]; reduction=sum",
                                              "f64[4,3] f64[4,3] f64[4,3]; p=3; reduction=sum",
                                              NULL};

const neap_op neap__op_cosine_similarity = {
    .name = "cosine_similarity",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts =
        {{.name = "dim", .type = NEAP_OPT_DIM, .def = 1, .has_default = true, .doc = "Dimension that holds a vector."},
         {.name = "eps",
          .type = NEAP_OPT_FLOAT,
          .def = 1e-8,
          .has_default = true,
          .min = 0,
          .max = 1,
          .doc = "Smallest length to divide by."}},
    .expand = cosine,
    .samples = cosine_samples,
    .doc = "The cosine of the angle between vectors along `dim`, a b / (|a| |b|), each length at least `eps`; the "
           "inputs broadcast.",
    .example = "local a, b = neap.tensor {{3, 0}, {0, 2}}, neap.tensor {{1, 0}, {1, 0}}\n"
               "print(neap.cosine_similarity(a, b))  --> tensor fp32 [2] {1, 0}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "a [...], b [...] -> [... without dim]",
};

const neap_op neap__op_cosine_embedding_loss = {
    .name = "cosine_embedding_loss",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION,
             {.name = "margin",
              .type = NEAP_OPT_FLOAT,
              .def = 0,
              .has_default = true,
              .min = -1,
              .max = 1,
              .doc = "Cosine up to which those that differ cost nothing."}},
    .expand = embedding_loss,
    .samples = embedding_samples,
    .doc = "1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1, reduced. One pair may "
           "be [D] with a target [].",
    .example = "local a, b = neap.tensor {{3, 0}, {0, 2}}, neap.tensor {{1, 0}, {1, 0}}\n"
               "local loss = neap.cosine_embedding_loss(a, b, neap.tensor {1, 1}, {reduction = \"none\"})\n"
               "print(loss:round())  --> tensor fp32 [2] {0, 1}",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x1 [N, D], x2 [N, D], target [N] -> []",
};

const neap_op neap__op_triplet_margin_loss = {
    .name = "triplet_margin_loss",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION,
             {.name = "margin",
              .type = NEAP_OPT_FLOAT,
              .def = 1,
              .has_default = true,
              .doc = "How much farther the negative should be; above 0."},
             {.name = "p",
              .type = NEAP_OPT_FLOAT,
              .def = 2,
              .has_default = true,
              .min = 0,
              .max = 1e9,
              .doc = "The exponent of the norm."},
             {.name = "eps",
              .type = NEAP_OPT_FLOAT,
              .def = 1e-6,
              .has_default = true,
              .min = 0,
              .max = 1,
              .doc = "Added to each difference."},
             {.name = "swap",
              .type = NEAP_OPT_BOOL,
              .def = 0,
              .has_default = true,
              .doc = "Whether the negative counts from the nearer of the other two."}},
    .expand = triplet,
    .samples = triplet_samples,
    .doc = "max(0, d(anchor, positive) - d(anchor, negative) + margin), reduced; d is the `p`-norm of the difference "
           "plus `eps` along the last dimension (Balntas et al. 2016).",
    .example = "local anchor, near, far = neap.tensor {{0, 0}}, neap.tensor {{0, 1}}, neap.tensor {{3, 4}}\n"
               "print(neap.triplet_margin_loss(anchor, near, far, {margin = 6, eps = 0}))  --> tensor fp32 [] 2",
    .topic = NEAP_TOPIC_LOSS,
    .args = "anchor [..., D], positive [..., D], negative [..., D] -> []",
};
