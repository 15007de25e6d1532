/* Losses that cost nothing beyond a margin, and their smooth relatives. */
#include "op/formula.h"

#define K(v, number) neap__const_like(g, v, number)
#define POSITIVE(a) neap__build2(g, &neap__op_clamp_min, a, K(a, 0))

#define MARGIN(value, text) \
  { .name = "margin", .type = NEAP_OPT_FLOAT, .def = value, .has_default = true, .doc = text }

static neap_id ranking(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  const neap_id behind = MUL(in[2], SUB(in[1], in[0]));
  return neap__reduce_loss(g, POSITIVE(ADD(behind, K(behind, opt[1].v.f))), opt[0].v.i);
}

/* loss where the target is not `other` */
static neap_id unless(neap_graph *g, neap_id target, double other, neap_id loss) {
  const neap_id is = neap__build2(g, &neap__op_eq, target, K(target, other));
  return WHERE(is, K(loss, 0), loss);
}

static neap_id hinge(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[2] = {NEAP_NONE, NEAP_NONE};
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  const neap_id far = POSITIVE(SUB(K(in[0], opt[1].v.f), in[0]));
  return neap__reduce_loss(g, ADD(unless(g, in[1], 1, far), unless(g, in[1], -1, in[0])), opt[0].v.i);
}

/* log(1 + exp(-t x)), as softplus has no overflow. */
static neap_id soft(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in, const neap_opt *opt) {
  neap_id in[2] = {NEAP_NONE, NEAP_NONE};
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  const neap_id against = NEG(MUL(in[0], in[1]));
  return neap__reduce_loss(g, neap__build1(g, &neap__op_softplus, against), opt[0].v.i);
}

/* x, target: (..., C)[, weight] -> (...): means over classes. */
static neap_id multilabel_soft(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n_in,
                               const neap_opt *opt) {
  neap_id in[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
  const neap_shape x = neap__desc_at(g, given[0]).shape, t = neap__desc_at(g, given[1]).shape;
  const int64_t last = x.ndim - 1;
  char xt[96], tt[96];
  if (!neap__floats(g, op, given, n_in, in)) return NEAP_NONE;
  if (x.ndim == 0 || !neap__shape_equal(&x, &t))
    return neap__graph_fail(g, op, NEAP_SHAPE, "scores %s and targets %s, expected one shape with the classes last",
                            neap__shape_text(&x, xt, sizeof xt), neap__shape_text(&t, tt, sizeof tt));
  neap_id loss = neap__build2(g, &neap__op_logit_loss, in[0], in[1]);
  if (n_in > 2) loss = MUL(loss, in[2]);
  const neap_shape all = neap__desc_at(g, loss).shape;
  if (loss != NEAP_NONE && !neap__shape_equal(&all, &x)) {
    const neap_shape w = neap__desc_at(g, in[2]).shape;
    return neap__graph_fail(g, op, NEAP_SHAPE, "a weight of shape %s for scores %s",
                            neap__shape_text(&w, tt, sizeof tt), neap__shape_text(&x, xt, sizeof xt));
  }
  loss = neap__scale(g, neap__reduce(g, &neap__op_sum, loss, &last, 1, false), 1.0 / (double)x.dim[last]);
  return neap__reduce_loss(g, loss, opt[0].v.i);
}

/* x: ([N,] C), target: ([N]) int64[, weight: (C)] */
static bool class_inputs(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in) {
  const neap_desc x = neap__desc_at(g, in[0]), t = neap__desc_at(g, in[1]);
  const neap_desc w = n_in > 2 ? neap__desc_at(g, in[2]) : x;
  neap_shape rows = x.shape;
  char xt[96], tt[96];
  rows.ndim = x.shape.ndim > 0 ? x.shape.ndim - 1 : 0;
  if (!neap__dtype_is_float(x.dtype) || w.dtype != x.dtype)
    neap__graph_fail(g, op, NEAP_DTYPE, "scores of %s and weights of %s, expected one floating-point dtype",
                     neap__dtype_name(x.dtype), neap__dtype_name(w.dtype));
  else if (t.dtype != NEAP_I64)
    neap__graph_fail(g, op, NEAP_DTYPE, "the target is %s, expected class indices as int64", neap__dtype_name(t.dtype));
  else if (x.shape.ndim < 1 || x.shape.ndim > 2 || !neap__shape_equal(&rows, &t.shape))
    neap__graph_fail(g, op, NEAP_SHAPE, "scores %s with targets %s, expected [N, C] with [N], or [C] with []",
                     neap__shape_text(&x.shape, xt, sizeof xt), neap__shape_text(&t.shape, tt, sizeof tt));
  else if (n_in > 2 && (w.shape.ndim != 1 || w.shape.dim[0] != x.shape.dim[rows.ndim]))
    neap__graph_fail(g, op, NEAP_SHAPE, "a weight of shape %s for scores %s, expected one for each class",
                     neap__shape_text(&w.shape, tt, sizeof tt), neap__shape_text(&x.shape, xt, sizeof xt));
  else
    return true;
  return false;
}

/* For each class but the label's: max(0, margin - x[label] + x[class])^p; the mean over all classes. */
static neap_id multi(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  if (!class_inputs(g, op, in, n_in)) return NEAP_NONE;
  const neap_desc x = neap__desc_at(g, in[0]), t = neap__desc_at(g, in[1]);
  const int32_t dim = x.shape.ndim - 1;
  const int64_t classes = x.shape.dim[dim], last = dim;
  if (classes < 1) return neap__graph_fail(g, op, NEAP_SHAPE, "there are no classes: the scores' last dimension is 0");
  const neap_id at = neap__insert_dim(g, in[1], dim), own = neap__build(g, &neap__op_gather, (neap_id[]){in[0], at}, 2,
                                                                        (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim)});
  neap_id loss = POSITIVE(ADD(SUB(in[0], own), K(in[0], opt[2].v.f)));
  if (opt[1].v.i == 2) loss = neap__build1(g, &neap__op_square, loss);
  const neap_id label = neap__build(g, &neap__op_one_hot, &in[1], 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(classes)});
  loss = unless(g, label, 1, loss);
  loss = neap__scale(g, neap__reduce(g, &neap__op_sum, loss, &last, 1, false), 1.0 / (double)classes);
  if (n_in > 2) {
    const neap_id weight =
        neap__build(g, &neap__op_index_select, (neap_id[]){in[2], in[1]}, 2, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(0)});
    loss = MUL(loss, neap__reshape_to(g, weight, &t.shape));
  }
  return neap__reduce_loss(g, loss, opt[0].v.i);
}

static const char *const ranking_samples[] = {
    "f32[2,3] f32[2,3] f32[2,3]", "f32[4] f32[4] f32[4]; margin=0.5; reduction=none",
    "f32[0] f32[0] f32[0]; reduction=sum", "f64[5] f64[5] f64[5]; margin=0.25; reduction=sum", NULL};
static const char *const hinge_samples[] = {"f32[2,3] f32[2,3]", "f32[4] f32[4]; margin=0.5; reduction=none",
                                            "f32[0] f32[0]; reduction=sum", "f64[5] f64[5]; reduction=sum", NULL};
static const char *const soft_samples[] = {"f32[2,3] f32[2,3]", "f32[4] f32[4]; reduction=none",
                                           "f32[0] f32[0]; reduction=sum", "f64[5] f64[5]; reduction=sum", NULL};
static const char *const multilabel_samples[] = {"f32[4,3] f32[4,3]:positive",
                                                 "f32[4] f32[4]; reduction=none",
                                                 "f32[4,3] f32[4,3]:positive f32[3]:positive",
                                                 "f32[2,4,3] f32[2,4,3]; reduction=none",
                                                 "f32[0,3] f32[0,3]; reduction=sum",
                                                 "f64[5,2] f64[5,2]; reduction=sum",
                                                 NULL};
static const char *const multi_samples[] = {"f32[4,3] i64[4]:below=3",
                                            "f32[4,3] i64[4]:below=3; p=2; margin=0.5",
                                            "f32[4,3] i64[4]:below=3 f32[3]:positive; reduction=none",
                                            "f32[5] i64[]:below=5",
                                            "f32[0,3] i64[0]; reduction=sum",
                                            "f64[5,4] i64[5]:below=4 f64[4]:positive; p=2; reduction=sum",
                                            NULL};

const neap_op neap__op_margin_ranking_loss = {
    .name = "margin_ranking_loss",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION, MARGIN(0, "How far apart they should be.")},
    .expand = ranking,
    .samples = ranking_samples,
    .doc = "max(0, -target (x1 - x2) + margin), reduced: a target of 1 wants x1 above x2, -1 below. No gradient where "
           "it is 0.",
    .example = "print(neap.margin_ranking_loss(neap.tensor {1, 5}, neap.tensor {3, 2}, neap.tensor {1, 1}, {reduction "
               "= \"none\"}))  --> tensor fp32 [2] {2, 0}",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x1 [...], x2 [...], target [...] -> []",
};

const neap_op neap__op_hinge_embedding_loss = {
    .name = "hinge_embedding_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION, MARGIN(1, "Distance from which those that differ cost nothing.")},
    .expand = hinge,
    .samples = hinge_samples,
    .doc = "The distance x where the target is 1, max(0, margin - x) where it is -1, reduced.",
    .example = "print(neap.hinge_embedding_loss(neap.tensor {0.25, 0.25}, neap.tensor {1, -1}, {reduction = "
               "\"none\"}))  --> tensor fp32 [2] {0.25, 0.75}",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...] -> []",
};

const neap_op neap__op_soft_margin_loss = {
    .name = "soft_margin_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = soft,
    .samples = soft_samples,
    .doc = "log(1 + exp(-target x)) for targets of 1 and -1, without overflow, reduced.",
    .example = "print(neap.soft_margin_loss(neap.tensor {-1000, 1000}, neap.tensor {1, 1}, {reduction = \"none\"}))  "
               "--> tensor fp32 [2] {1000, 0}",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [...], target [...] -> []",
};

const neap_op neap__op_multilabel_soft_margin_loss = {
    .name = "multilabel_soft_margin_loss",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION},
    .expand = multilabel_soft,
    .samples = multilabel_samples,
    .doc = "The mean over classes of the cross entropy of sigmoid(x) and targets in [0, 1], reduced; a weight "
           "multiplies the classes.",
    .example = "print(neap.multilabel_soft_margin_loss(neap.tensor {{-1000, 1000}}, neap.tensor {{1, 1}}))  --> tensor "
               "fp32 [] 500",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [..., C], target [..., C], weight? [C] -> []",
};

const neap_op neap__op_multi_margin_loss = {
    .name = "multi_margin_loss",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts =
        {NEAP_REDUCTION,
         {.name = "p", .type = NEAP_OPT_INT, .def = 1, .has_default = true, .min = 1, .max = 2, .doc = "The power."},
         MARGIN(1, "How far the score of the target should be above the others.")},
    .expand = multi,
    .samples = multi_samples,
    .doc = "The sum over the other classes of max(0, margin - x[target] + x[class])^p, over the number of classes, "
           "reduced; a weight multiplies by the target's class (Crammer and Singer 2001). One sample may be [C] with a "
           "target [].",
    .example = "print(neap.multi_margin_loss(neap.tensor {{2, 1.5, 0}}, neap.tensor({0}, {dtype = \"int64\"}), {margin "
               "= 2}))  --> tensor fp32 [] 0.5",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [N, C], target [N] int64, weight? [C] -> []",
};
