/* Losses over classes, which lie in dimension 2 (of a single sample: 1). The target has class indices, in the input's
 * shape without that dimension, or the classes' probabilities, in the input's shape. A label equal to ignore_index,
 * when that is given, costs nothing and is not counted; a weight of its class says how much another one costs and
 * counts. */
#include "op/formula.h"

static int32_t class_dim(const neap_shape *s) { return s->ndim > 1 ? 1 : 0; }

static neap_shape without_classes(const neap_shape *s) {
  neap_shape r = {.ndim = s->ndim - 1};
  for (int32_t i = 0, o = 0; i < s->ndim; i++)
    if (i != class_dim(s)) r.dim[o++] = s->dim[i];
  return r;
}

static neap_status check(const neap_infer *x, const neap_desc *scores, const neap_desc *target) {
  char a[96], b[96], c[96];
  if (!neap__dtype_is_float(scores->dtype))
    return neap__fail(x->err, NEAP_DTYPE, "the scores are %s, expected a floating-point dtype",
                      neap__dtype_name(scores->dtype));
  if (scores->shape.ndim == 0)
    return neap__fail(x->err, NEAP_SHAPE, "the scores are a scalar, expected [samples, classes]");
  if (target->dtype != NEAP_I64)
    return neap__fail(x->err, NEAP_DTYPE, "the target is %s, expected class indices as int64",
                      neap__dtype_name(target->dtype));
  neap_shape expected = without_classes(&scores->shape);
  if (!neap__shape_equal(&expected, &target->shape))
    return neap__fail(x->err, NEAP_SHAPE, "scores %s go with a target of shape %s, this one has %s",
                      neap__shape_text(&scores->shape, a, sizeof a), neap__shape_text(&expected, b, sizeof b),
                      neap__shape_text(&target->shape, c, sizeof c));
  return NEAP_OK;
}

/* (scores, target) -> loss of each place [, log of the sum of exp of its scores, as fp64: a large common part
 * of the scores then costs the softmax no digits] */
static neap_status infer(neap_infer *x) {
  neap_status s = check(x, &x->in[0], &x->in[1]);
  for (uint32_t o = 0; s == NEAP_OK && o < x->n_out; o++)
    x->out[o] = (neap_desc){o ? NEAP_F64 : x->in[0].dtype, x->in[1].shape};
  return s;
}

/* (gradient, scores, target, ...) -> gradient of the scores */
static neap_status infer_back(neap_infer *x) {
  char a[96], b[96];
  neap_status s = check(x, &x->in[1], &x->in[2]);
  if (s != NEAP_OK) return s;
  for (uint32_t i = 0; i < x->n_in; i += 3) { /* the gradient, and the logarithms of softmax_nll */
    const neap_dtype t = i ? NEAP_F64 : x->in[1].dtype;
    if (x->in[i].dtype == t && neap__shape_equal(&x->in[i].shape, &x->in[2].shape)) continue;
    return neap__fail(x->err, NEAP_SHAPE, "input %u is %s %s, expected %s %s like the target", i + 1,
                      neap__dtype_name(x->in[i].dtype), neap__shape_text(&x->in[i].shape, a, sizeof a),
                      neap__dtype_name(t), neap__shape_text(&x->in[2].shape, b, sizeof b));
  }
  x->out[0] = x->in[1];
  return NEAP_OK;
}

static neap_id at_classes(neap_graph *g, neap_id v, neap_id scores) {
  neap_shape s = neap__desc_at(g, scores).shape;
  return neap__insert_dim(g, v, class_dim(&s));
}

/* The softmax of the scores; in fp64 as far as a large common part of them could cost digits. */
static neap_id probabilities(neap_graph *g, neap_id x, neap_id lse) {
  const neap_id shifted = SUB(neap__cast(g, x, NEAP_F64), at_classes(g, lse, x));
  return EXP(neap__cast(g, shifted, neap__desc_at(g, x).dtype));
}

/* 1 where the label counts, in the scores' dtype. */
static neap_id counted(neap_graph *g, neap_id target, const neap_opt *ignore, neap_dtype dtype) {
  neap_id skip = neap__const_like(g, target, (double)ignore->v.i);
  return neap__cast(g, neap__build2(g, &neap__op_ne, target, skip), dtype);
}

static void grad_softmax_nll(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 1)) return;
  neap_id x = n->in[0], lse = n->out[1], sum = NEAP_NONE;
  if (gout[0] != NEAP_NONE)
    sum = neap__build(g, &neap__op_softmax_nll_grad, (neap_id[]){gout[0], x, n->in[1], lse}, 4, n->opt);
  if (gout[1] != NEAP_NONE) {
    neap_dtype t = neap__desc_at(g, x).dtype;
    neap_id more = MUL(probabilities(g, x, lse), at_classes(g, neap__cast(g, gout[1], t), x));
    sum = sum == NEAP_NONE ? more : ADD(sum, more);
  }
  gin[0] = sum;
}

/* d (exp(x - lse) - 1 at the label), where the label counts. */
static void unfused_softmax_nll_grad(neap_graph *g, const neap_node *n, neap_id *out) {
  const neap_id x = n->in[1], target = n->in[2];
  const neap_id label = neap__build(g, &neap__op_pick_nll_grad, (neap_id[]){n->in[0], x, target}, 3, n->opt);
  neap_id d = n->in[0];
  if (n->opt[0].set) d = MUL(d, counted(g, target, &n->opt[0], neap__desc_at(g, x).dtype));
  out[0] = ADD(MUL(probabilities(g, x, n->in[3]), at_classes(g, d, x)), label);
}

static void grad_pick_nll(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__build(g, &neap__op_pick_nll_grad, (neap_id[]){gout[0], n->in[0], n->in[1]}, 3, n->opt);
}

/* The gradient scattered is linear in its first input: picking undoes it. */
static void grad_pick_nll_grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__build(g, &neap__op_pick_nll, (neap_id[]){gout[0], n->in[2]}, 2, n->opt);
}

/* Where samples lie in the target, or nothing when they lie along the classes. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  const neap_shape *scores = &g->values[n->in[0]].desc.shape;
  neap_batch r = in[0];
  if (r.kind == NEAP_B_CONST || in[1].kind == NEAP_B_CONST || r.dim == class_dim(scores)) return NEAP_UNSUPPORTED;
  if (r.dim > class_dim(scores)) r.dim--;
  if (in[1].dim != r.dim || in[1].per != r.per) return NEAP_UNSUPPORTED;
  if (in[1].kind == NEAP_B_MIX) r.kind = NEAP_B_MIX;
  for (uint32_t o = 0; o < n->n_out; o++) out[o] = r;
  return NEAP_OK;
}

/* The gradient has the scores' samples; a gradient that is the same for all of them is spread over them, so
 * a scalar one would have to be cut. */
static neap_status batch_back(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  out[0] = in[1];
  for (uint32_t i = 0; i < n->n_in; i++) {
    if (in[i].kind == NEAP_B_CONST) return NEAP_UNSUPPORTED;
    if (in[i].kind == NEAP_B_MIX) out[0].kind = NEAP_B_MIX;
  }
  return NEAP_OK;
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  const neap_desc *scores = &s->in[s->n_in > 2 ? 1 : 0].desc;
  *flops = 12.0 * (double)neap__shape_count(&scores->shape);
  *bytes = 2.0 * (double)neap__desc_bytes(scores);
}

#define IGNORE_INDEX \
  { .name = "ignore_index", .type = NEAP_OPT_INT, .doc = "Class whose targets do not count." }

static const char *const forward_samples[] = {"f32[3,5] i64[3]:below=5", "f32[2,4,3] i64[2,3]:below=4",
                                              "f32[6] i64[]:below=6",    "f32[0,5] i64[0]",
                                              "f64[3,5] i64[3]:below=5", NULL};
static const char *const ignore_samples[] = {"f32[8,3] i64[8]:below=3; ignore_index=1",
                                             "f32[3,5] i64[3]:below=5",
                                             "f32[2,4,3] i64[2,3]:below=4",
                                             "f32[6] i64[]:below=6",
                                             "f64[3,5] i64[3]:below=5; reduction=sum",
                                             "f32[0,5] i64[0]; reduction=none",
                                             "f32[8,3] i64[8]:below=3 f32[3]:positive; ignore_index=1",
                                             "f32[2,4,3] i64[2,3]:below=4 f32[4]:positive",
                                             "f64[6] i64[]:below=6 f64[6]:positive; reduction=sum",
                                             NULL};
static const char *const smooth_samples[] = {"f32[3,5] i64[3]:below=5",
                                             "f32[3,5] i64[3]:below=5; label_smoothing=0.1",
                                             "f32[2,4,3] i64[2,3]:below=4; reduction=none",
                                             "f32[6] i64[]:below=6",
                                             "f32[8,3] i64[8]:below=3; ignore_index=1; label_smoothing=0.2",
                                             "f64[3,5] i64[3]:below=5; reduction=sum",
                                             "f32[8,3] i64[8]:below=3 f32[3]:positive; ignore_index=1",
                                             "f32[2,4,3] i64[2,3]:below=4 f32[4]:positive; label_smoothing=0.3",
                                             "f64[6] i64[]:below=6 f64[6]; reduction=sum",
                                             "f32[3,5] f32[3,5]:positive",
                                             "f32[2,4,3] f32[2,4,3] f32[4]:positive; label_smoothing=0.2",
                                             "f64[6] f64[6] f64[6]; reduction=none",
                                             "f32[0,5] f32[0,5]; reduction=sum",
                                             NULL};
static const char *const back_samples[] = {"f32[3] f32[3,5] i64[3]:below=5", "f32[2,3] f32[2,4,3] i64[2,3]:below=4",
                                           "f32[0] f32[0,5] i64[0]", "f64[3] f64[3,5] i64[3]:below=5", NULL};
static const char *const softmax_back_samples[] = {
    "f32[3] f32[3,5] i64[3]:below=5 f64[3]:positive", "f32[2,3] f32[2,4,3] i64[2,3]:below=4 f64[2,3]:positive",
    "f32[0] f32[0,5] i64[0] f64[0]", "f64[8] f64[8,3] i64[8]:below=3 f64[8]:positive; ignore_index=1", NULL};

#define CLASS_OP(op_name, inputs, outputs, rule_infer, rule_batch, shapes, cases, text)                          \
  .name = op_name, .min_in = inputs, .max_in = inputs, .n_out = outputs, .internal = true, .shape_only = shapes, \
  .precision = NEAP_PREC_KEEP, .opts = {IGNORE_INDEX}, .infer = rule_infer, .batch = rule_batch, .cost = cost,   \
  .samples = cases, .doc = text

const neap_op neap__op_softmax_nll = {
    CLASS_OP("softmax_nll", 2, 2, infer, batch, 0, forward_samples,
             "Minus the log of the softmax of the scores at the label, and the log of the sum of their exp."),
    .grad = grad_softmax_nll};
const neap_op neap__op_softmax_nll_grad = {
    CLASS_OP("softmax_nll_grad", 4, 1, infer_back, batch_back, 0, softmax_back_samples,
             "Gradient of softmax_nll's first output: d (exp(x - lse) - 1 at the label)."),
    .unfused = unfused_softmax_nll_grad};
const neap_op neap__op_pick_nll = {
    CLASS_OP("pick_nll", 2, 1, infer, batch, 0, forward_samples, "Minus the score at the label."),
    .grad = grad_pick_nll};
const neap_op neap__op_pick_nll_grad = {CLASS_OP("pick_nll_grad", 3, 1, infer_back, batch_back, 2, back_samples,
                                                 "Gradient of pick_nll: -d at the label, 0 elsewhere."),
                                        .grad = grad_pick_nll_grad};

/* --- composites --- */

typedef struct class_loss {
  const neap_op *op;
  neap_id scores, target, weight; /* NEAP_NONE: all classes weigh 1 */
  int64_t reduction;
  const neap_opt *ignore;
  double smoothing;
} class_loss;

/* weight: (C), as the scores are. */
static bool check_weight(neap_graph *g, const class_loss *l) {
  const neap_desc x = neap__desc_at(g, l->scores), w = neap__desc_at(g, l->weight);
  char text[96];
  if (l->weight == NEAP_NONE || x.shape.ndim == 0) return true;
  const int64_t classes = x.shape.dim[class_dim(&x.shape)];
  if (w.dtype == x.dtype && w.shape.ndim == 1 && w.shape.dim[0] == classes) return true;
  neap__graph_fail(g, l->op, w.dtype == x.dtype ? NEAP_SHAPE : NEAP_DTYPE,
                   "the weight is %s %s, expected %s [%lld], a number for each class", neap__dtype_name(w.dtype),
                   neap__shape_text(&w.shape, text, sizeof text), neap__dtype_name(x.dtype), (long long)classes);
  return false;
}

/* The weight beside the scores. */
static neap_id weight_column(neap_graph *g, const class_loss *l) {
  const neap_shape x = neap__desc_at(g, l->scores).shape;
  neap_shape column = x;
  for (int32_t i = 0; i < x.ndim; i++)
    if (i != class_dim(&x)) column.dim[i] = 1;
  return neap__reshape_to(g, l->weight, &column);
}

/* v, summed over the classes. */
static neap_id sum_classes(neap_graph *g, const class_loss *l, neap_id v) {
  const neap_shape x = neap__desc_at(g, l->scores).shape;
  const int64_t dim = class_dim(&x);
  return neap__reduce(g, &neap__op_sum, v, &dim, 1, false);
}

/* The weight of each label's class; an ignored label, which may be no class, gets that of the first. */
static neap_id label_weights(neap_graph *g, const class_loss *l) {
  const neap_shape classes = neap__desc_at(g, l->weight).shape, shape = neap__desc_at(g, l->target).shape;
  neap_id label = l->target;
  if (l->ignore->set) {
    const neap_id skip = neap__const_like(g, label, (double)l->ignore->v.i);
    label = WHERE(neap__build2(g, &neap__op_ne, label, skip), label, neap__const_like(g, label, 0));
  }
  const neap_id table = neap__reshape_to(g, l->weight, &(neap_shape){2, {classes.dim[0], 1}});
  return neap__reshape_to(g, neap__build2(g, &neap__op_embedding, label, table), &shape);
}

/* How much each place counts, NEAP_NONE: 1. */
static neap_id counts(neap_graph *g, const class_loss *l) {
  const neap_id some = l->ignore->set ? counted(g, l->target, l->ignore, neap__desc_at(g, l->scores).dtype) : NEAP_NONE;
  if (l->weight == NEAP_NONE) return some;
  return some == NEAP_NONE ? label_weights(g, l) : MUL(some, label_weights(g, l));
}

/* The mean is over what counts; where all do, their number is known to the trace. */
static neap_id reduce(neap_graph *g, const class_loss *l, neap_id loss, neap_id count) {
  if (l->reduction != 0 || count == NEAP_NONE) return neap__reduce_loss(g, loss, l->reduction);
  return DIV(neap__build1(g, &neap__op_sum, loss), neap__build1(g, &neap__op_sum, count));
}

/* (1 - s) nll + s mean over classes of -log_softmax, which is lse - scores, times the classes' weights. */
static neap_id smooth(neap_graph *g, const class_loss *l, neap_id nll, neap_id lse) {
  const neap_desc x = neap__desc_at(g, l->scores);
  const double share = 1.0 / (double)x.shape.dim[class_dim(&x.shape)];
  neap_id uniform = neap__cast(g, lse, x.dtype);
  if (l->weight == NEAP_NONE) {
    uniform = SUB(uniform, neap__scale(g, sum_classes(g, l, l->scores), share));
  } else {
    const neap_id each = MUL(SUB(at_classes(g, uniform, l->scores), l->scores), weight_column(g, l));
    uniform = neap__scale(g, sum_classes(g, l, each), share);
  }
  if (l->ignore->set) uniform = MUL(uniform, counted(g, l->target, l->ignore, x.dtype));
  return ADD(neap__scale(g, nll, 1 - l->smoothing), neap__scale(g, uniform, l->smoothing));
}

static neap_id of_labels(neap_graph *g, const class_loss *l) {
  neap_id out[NEAP_MAX_OUT];
  const neap_opt ignore[NEAP_MAX_OPTS] = {*l->ignore};
  if (!neap__build_n(g, &neap__op_softmax_nll, (neap_id[]){l->scores, l->target}, 2, ignore, out)) return NEAP_NONE;
  const neap_id count = l->weight != NEAP_NONE || l->reduction == 0 ? counts(g, l) : NEAP_NONE;
  neap_id loss = l->weight == NEAP_NONE ? out[0] : MUL(out[0], count);
  if (l->smoothing > 0) loss = smooth(g, l, loss, out[1]);
  return reduce(g, l, loss, count);
}

static bool check_probabilities(neap_graph *g, const class_loss *l) {
  const neap_desc x = neap__desc_at(g, l->scores), t = neap__desc_at(g, l->target);
  char xt[96], tt[96];
  if (l->ignore->set) {
    neap__graph_fail(g, l->op, NEAP_INVALID, "`ignore_index` is %lld, but the target has no indices: it is %s",
                     (long long)l->ignore->v.i, neap__dtype_name(t.dtype));
    return false;
  }
  if (x.shape.ndim > 0 && t.dtype == x.dtype && neap__shape_equal(&x.shape, &t.shape)) return true;
  neap__graph_fail(g, l->op, t.dtype == x.dtype ? NEAP_SHAPE : NEAP_DTYPE,
                   "scores %s %s go with probabilities alike or with class indices as int64, the target is %s %s",
                   neap__dtype_name(x.dtype), neap__shape_text(&x.shape, xt, sizeof xt), neap__dtype_name(t.dtype),
                   neap__shape_text(&t.shape, tt, sizeof tt));
  return false;
}

/* Minus the sum over classes of weight, probability and log_softmax; the mean is over places, whatever they weigh. */
static neap_id of_probabilities(neap_graph *g, const class_loss *l) {
  const neap_shape x = neap__desc_at(g, l->scores).shape;
  if (!check_probabilities(g, l)) return NEAP_NONE;
  const double classes = (double)x.dim[class_dim(&x)];
  neap_id p = l->target;
  if (l->smoothing > 0) p = ADD(neap__scale(g, p, 1 - l->smoothing), neap__const_like(g, p, l->smoothing / classes));
  neap_id each =
      MUL(p, neap__build(g, &neap__op_log_softmax, &l->scores, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(class_dim(&x))}));
  if (l->weight != NEAP_NONE) each = MUL(each, weight_column(g, l));
  return neap__reduce_loss(g, NEG(sum_classes(g, l, each)), l->reduction);
}

static neap_id cross_entropy(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const class_loss l = {op, in[0], in[1], n_in > 2 ? in[2] : NEAP_NONE, opt[0].v.i, &opt[1], opt[2].v.f};
  if (!check_weight(g, &l)) return NEAP_NONE;
  return neap__dtype_is_float(neap__desc_at(g, in[1]).dtype) ? of_probabilities(g, &l) : of_labels(g, &l);
}

static neap_id nll_loss(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const class_loss l = {op, in[0], in[1], n_in > 2 ? in[2] : NEAP_NONE, opt[0].v.i, &opt[1], 0};
  if (!check_weight(g, &l)) return NEAP_NONE;
  neap_id loss = neap__build(g, &neap__op_pick_nll, in, 2, (neap_opt[NEAP_MAX_OPTS]){opt[1]});
  const neap_id count = l.weight != NEAP_NONE || l.reduction == 0 ? counts(g, &l) : NEAP_NONE;
  if (l.weight != NEAP_NONE) loss = MUL(loss, count);
  return loss == NEAP_NONE ? loss : reduce(g, &l, loss, count);
}

const neap_op neap__op_cross_entropy = {
    .name = "cross_entropy",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION,
             IGNORE_INDEX,
             {.name = "label_smoothing",
              .type = NEAP_OPT_FLOAT,
              .def = 0,
              .has_default = true,
              .min = 0,
              .max = 1,
              .doc = "Share of the target that is spread evenly over all classes (Szegedy et al. 2016)."}},
    .expand = cross_entropy,
    .samples = smooth_samples,
    .doc = "Cross entropy of scores (logits) and 0-based classes, minus log_softmax(x) at the class times its weight, "
           "or with floating-point targets [N, C, ...] of the classes' probabilities, reduced. The mean of classes is "
           "over the weights of those other than `ignore_index`, of probabilities over places. One sample may be [C] "
           "with a target [].",
    .example = "local scores = neap.tensor {{0, 0}, {1000, 0}}\n"
               "local target = neap.tensor({0, 0}, {dtype = \"int64\"})\n"
               "print((\"%.3f\"):format(neap.cross_entropy(scores, target, {reduction = \"sum\"}):item()))  --> 0.693",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [N, C, ...], target [N, ...] int64, weight? [C] -> []",
};

const neap_op neap__op_nll_loss = {
    .name = "nll_loss",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {NEAP_REDUCTION, IGNORE_INDEX},
    .expand = nll_loss,
    .samples = ignore_samples,
    .doc =
        "Minus the log-probability x at the 0-based class times its weight, reduced; the mean is over the weights of "
        "classes other than `ignore_index`. One sample may be [C] with a target [].",
    .example = "local x = neap.tensor {{-1, -2}, {-3, -4}}\n"
               "print(neap.nll_loss(x, neap.tensor({0, 1}, {dtype = \"int64\"})))  --> tensor fp32 [] 2.5",
    .topic = NEAP_TOPIC_LOSS,
    .args = "x [N, C, ...], target [N, ...] int64, weight? [C] -> []",
};
