/* Losses over class indices. Classes lie in dimension 2 (of a single sample: 1); the target has the input's
 * shape without it. A label equal to ignore_index, when that is given, costs nothing and is not counted. */
#include "op/build.h"

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

#define ADD(a, b) neap__build2(g, &neap__op_add, a, b)
#define SUB(a, b) neap__build2(g, &neap__op_sub, a, b)
#define MUL(a, b) neap__build2(g, &neap__op_mul, a, b)

/* The softmax of the scores; in fp64 as far as a large common part of them could cost digits. */
static neap_id probabilities(neap_graph *g, neap_id x, neap_id lse) {
  const neap_id shifted = SUB(neap__cast(g, x, NEAP_F64), at_classes(g, lse, x));
  return neap__build1(g, &neap__op_exp, neap__cast(g, shifted, neap__desc_at(g, x).dtype));
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
  { .name = "ignore_index", .type = NEAP_OPT_INT }

static const char *const forward_samples[] = {"f32[3,5] i64[3]:below=5", "f32[2,4,3] i64[2,3]:below=4",
                                              "f32[6] i64[]:below=6",    "f32[0,5] i64[0]",
                                              "f64[3,5] i64[3]:below=5", NULL};
static const char *const ignore_samples[] = {"f32[8,3] i64[8]:below=3; ignore_index=1",
                                             "f32[3,5] i64[3]:below=5",
                                             "f32[2,4,3] i64[2,3]:below=4",
                                             "f32[6] i64[]:below=6",
                                             "f64[3,5] i64[3]:below=5; reduction=sum",
                                             "f32[0,5] i64[0]; reduction=none",
                                             NULL};
static const char *const smooth_samples[] = {"f32[3,5] i64[3]:below=5",
                                             "f32[3,5] i64[3]:below=5; label_smoothing=0.1",
                                             "f32[2,4,3] i64[2,3]:below=4; reduction=none",
                                             "f32[6] i64[]:below=6",
                                             "f32[8,3] i64[8]:below=3; ignore_index=1; label_smoothing=0.2",
                                             "f64[3,5] i64[3]:below=5; reduction=sum",
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

/* Without an ignore_index every target counts, and their number is known to the trace. */
static neap_id reduce(neap_graph *g, neap_id loss, neap_id target, int64_t reduction, const neap_opt *ignore) {
  if (reduction != 0 || !ignore->set) return neap__reduce_loss(g, loss, reduction);
  neap_id count = neap__build1(g, &neap__op_sum, counted(g, target, ignore, neap__desc_at(g, loss).dtype));
  return neap__build2(g, &neap__op_div, neap__build1(g, &neap__op_sum, loss), count);
}

/* (1 - s) nll + s mean over classes of -log_softmax; the latter is lse - mean(scores). */
static neap_id smooth(neap_graph *g, const neap_id *in, neap_id nll, neap_id lse, double s, const neap_opt *ignore) {
  neap_desc x = neap__desc_at(g, in[0]);
  int64_t dim = class_dim(&x.shape);
  neap_id sum = neap__reduce(g, &neap__op_sum, in[0], &dim, 1, false);
  neap_id uniform =
      neap__build2(g, &neap__op_sub, neap__cast(g, lse, x.dtype), neap__scale(g, sum, 1.0 / (double)x.shape.dim[dim]));
  if (ignore->set) uniform = neap__build2(g, &neap__op_mul, uniform, counted(g, in[1], ignore, x.dtype));
  return neap__build2(g, &neap__op_add, neap__scale(g, nll, 1 - s), neap__scale(g, uniform, s));
}

static neap_id cross_entropy(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op;
  neap_id out[NEAP_MAX_OUT];
  neap_opt ignore[NEAP_MAX_OPTS] = {opt[1]};
  if (!neap__build_n(g, &neap__op_softmax_nll, in, n_in, ignore, out)) return NEAP_NONE;
  neap_id loss = out[0];
  if (opt[2].v.f > 0) loss = smooth(g, in, loss, out[1], opt[2].v.f, &opt[1]);
  return reduce(g, loss, in[1], opt[0].v.i, &opt[1]);
}

static neap_id nll_loss(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op;
  neap_id loss = neap__build(g, &neap__op_pick_nll, in, n_in, (neap_opt[NEAP_MAX_OPTS]){opt[1]});
  return loss == NEAP_NONE ? loss : reduce(g, loss, in[1], opt[0].v.i, &opt[1]);
}

const neap_op neap__op_cross_entropy = {
    .name = "cross_entropy",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION,
             IGNORE_INDEX,
             {.name = "label_smoothing", .type = NEAP_OPT_FLOAT, .def = 0, .has_default = true, .min = 0, .max = 1}},
    .expand = cross_entropy,
    .samples = smooth_samples,
    .doc = "Cross entropy of scores and class indices (0-based); the mean is over targets other than ignore_index.",
};

const neap_op neap__op_nll_loss = {
    .name = "nll_loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {NEAP_REDUCTION, IGNORE_INDEX},
    .expand = nll_loss,
    .samples = ignore_samples,
    .doc = "Minus the log-probability at the class index; the mean is over targets other than ignore_index.",
};
