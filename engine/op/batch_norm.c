/* Batch normalization (Ioffe and Szegedy 2015) over x: (N, C, ...): each channel brought to mean 0 and variance 1.
 *
 * Training takes the statistics from the batch, so its samples depend on each other; under micro-batches they are
 * those of the micro-batch. The gradient takes them from x again instead of keeping them: a micro-batch's statistics
 * are neither a sum over samples nor the same for all. What the running statistics are updated with are sums, to
 * which each micro-batch adds its mean and its variance by its share of the samples. */
#include <float.h>

#include "op/formula.h"

enum { EPS, SAMPLES };

#define EPS_OPTION                                                                                     \
  {                                                                                                    \
    .name = "eps", .type = NEAP_OPT_FLOAT, .def = 1e-5, .has_default = true, .min = 0, .max = DBL_MAX, \
    .doc = "Added to the variance before the root."                                                    \
  }

static neap_status check_params(const neap_infer *x, uint32_t data) {
  const neap_shape *in = &x->in[0].shape;
  char text[96], got[96];
  neap_status s;
  neap__shape_text(in, text, sizeof text);
  if (in->ndim < 2)
    return neap__fail(x->err, NEAP_SHAPE, "input %s, expected at least 2 dimensions (samples, channels, ...)", text);
  for (uint32_t i = 0; i < x->n_in; i++) {
    const neap_shape *p = &x->in[i].shape;
    if ((s = neap__need_float(x, i))) return s;
    if (x->in[i].dtype != x->in[0].dtype)
      return neap__fail(x->err, NEAP_DTYPE, "input %u is %s, expected %s like input 1", i + 1,
                        neap__dtype_name(x->in[i].dtype), neap__dtype_name(x->in[0].dtype));
    neap__shape_text(p, got, sizeof got);
    if (i < data && !neap__shape_equal(p, in))
      return neap__fail(x->err, NEAP_SHAPE, "input %u has shape %s, expected %s like input 1", i + 1, got, text);
    if (i >= data && (p->ndim != 1 || p->dim[0] != in->dim[1]))
      return neap__fail(x->err, NEAP_SHAPE, "input %u has shape %s, expected [%lld] for the channels of input %s",
                        i + 1, got, (long long)in->dim[1], text);
  }
  return NEAP_OK;
}

/* x, then weight and bias -> y, and the mean and unbiased variance of each channel: (C). */
static neap_status infer(neap_infer *x) {
  const neap_shape *in = &x->in[0].shape;
  char text[96];
  const neap_status s = check_params(x, 1);
  if (s) return s;
  if (in->dim[1] > 0 && neap__shape_count(in) == in->dim[1])
    return neap__fail(x->err, NEAP_SHAPE, "input %s has 1 value a channel, expected more for their variance",
                      neap__shape_text(in, text, sizeof text));
  x->opt[SAMPLES] = NEAP_INT(in->dim[0]);
  x->out[0] = x->in[0];
  x->out[1] = x->out[2] = (neap_desc){x->in[0].dtype, {1, {in->dim[1]}}};
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_id in[] = {gout[0], n->in[0], n->n_in > 1 ? n->in[1] : NEAP_NONE};
  neap_id out[NEAP_MAX_OUT];
  if (gout[1] != NEAP_NONE || gout[2] != NEAP_NONE) {
    neap__graph_fail(g, n->op, NEAP_UNSUPPORTED, "the batch's statistics have no gradient: use mean and var");
    return;
  }
  if (gout[0] == NEAP_NONE || !need) return;
  neap__build_n(g, &neap__op_batch_norm_grad, in, n->n_in > 1 ? 3 : 2, (neap_opt[NEAP_MAX_OPTS]){n->opt[EPS]}, out);
  for (uint32_t i = 0; i < n->n_in; i++) gin[i] = out[i];
}

/* The first `data` inputs and the first output have samples in their first dimension; the other outputs are sums. */
static neap_status batch_mix(const neap_node *n, const neap_batch *in, neap_batch *out, uint32_t data) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  for (uint32_t i = 0; i < n->n_in; i++) {
    if ((in[i].kind != NEAP_B_CONST) != (i < data)) return NEAP_UNSUPPORTED;
    if (i < data && (in[i].dim != 0 || in[i].per != in[0].per)) return NEAP_UNSUPPORTED;
  }
  out[0] = (neap_batch){NEAP_B_MIX, 0, in[0].per};
  out[1] = out[2] = (neap_batch){.kind = NEAP_B_SUM};
  return NEAP_OK;
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return batch_mix(n, in, out, 1);
}

static neap_status batch_grad(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return batch_mix(n, in, out, 2);
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = 10 * (double)neap__shape_count(&s->in[0].desc.shape);
  *bytes = (double)neap__desc_bytes(&s->in[0].desc) * (2 * s->n_in + 1.0);
}

static const char *const train_samples[] = {"f32[4,3,5,5] f32[3] f32[3]", "f32[6,4] f32[4] f32[4]", "f32[3,2,7]",
                                            "f32[0,2,3] f32[2] f32[2]", NULL};

const neap_op neap__op_batch_norm_train = {
    .name = "batch_norm_train",
    .min_in = 1,
    .max_in = 3,
    .n_out = 3,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .rule = NEAP_BATCH_MIX,
    .opts = {EPS_OPTION, {.name = "samples", .type = NEAP_OPT_INT}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = train_samples,
    .doc = "Channels normalized by the batch's statistics, scaled and shifted; their means and unbiased variances.",
};

/* --- the gradient ---------------------------------------------------------------------------------------------- */

/* d, x, then weight -> gradients of x, weight and bias. */
static neap_status infer_grad(neap_infer *x) {
  const neap_status s = check_params(x, 2);
  if (s) return s;
  x->out[0] = x->in[1];
  x->out[1] = x->out[2] = (neap_desc){x->in[1].dtype, {1, {x->in[1].shape.dim[1]}}};
  return NEAP_OK;
}

static neap_id sum_channels(neap_graph *g, neap_id v) {
  const int32_t n = neap__desc_at(g, v).shape.ndim;
  int64_t dims[NEAP_MAX_DIMS] = {0};
  for (int32_t i = 2; i < n; i++) dims[i - 1] = i;
  return neap__reduce(g, &neap__op_sum, v, dims, n - 1, false);
}

/* v: (C) as (1, C, 1, ...). */
static neap_id column(neap_graph *g, neap_id v, neap_id x) {
  const neap_shape s = neap__desc_at(g, x).shape;
  neap_shape to = {.ndim = s.ndim};
  for (int32_t i = 0; i < s.ndim; i++) to.dim[i] = i == 1 ? s.dim[1] : 1;
  return neap__reshape_to(g, v, &to);
}

#define MEAN(a) neap__build1(g, &neap__op_channel_mean, a)

/* With h = (x - mean) rstd and means over channels: w rstd (d - mean(d) - h mean(d h)); sums of d h and d. */
static void unfused_grad(neap_graph *g, const neap_node *n, neap_id *out) {
  const neap_id d = n->in[0], x = n->in[1], off = SUB(x, MEAN(x));
  const neap_id var = MEAN(neap__build1(g, &neap__op_square, off));
  neap_id rstd = neap__build1(g, &neap__op_rsqrt, ADD(var, neap__const_like(g, x, n->opt[EPS].v.f)));
  const neap_id h = MUL(off, rstd), product = MUL(d, h);
  if (n->n_in > 2) rstd = MUL(rstd, column(g, n->in[2], x));
  out[0] = MUL(SUB(SUB(d, MEAN(d)), MUL(h, MEAN(product))), rstd);
  out[1] = sum_channels(g, product);
  out[2] = sum_channels(g, d);
}

static const char *const grad_samples[] = {"f32[4,3,5,5] f32[4,3,5,5] f32[3]", "f32[6,4] f32[6,4]",
                                           "f32[0,2,3] f32[0,2,3] f32[2]", NULL};

const neap_op neap__op_batch_norm_grad = {
    .name = "batch_norm_grad",
    .min_in = 2,
    .max_in = 3,
    .n_out = 3,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .rule = NEAP_BATCH_MIX,
    .opts = {EPS_OPTION},
    .infer = infer_grad,
    .unfused = unfused_grad,
    .batch = batch_grad,
    .cost = cost,
    .samples = grad_samples,
    .doc = "Gradients of batch_norm_train's input, weight and bias from y's gradient, x and the weight.",
};

/* --- what scripts use -------------------------------------------------------------------------------------------- */

/* v beside x. */
static neap_id beside(neap_graph *g, neap_id v, neap_id x) {
  const neap_shape s = neap__desc_at(g, x).shape, p = neap__desc_at(g, v).shape;
  char xt[96], pt[96];
  if (s.ndim < 2 || p.ndim != 1 || p.dim[0] != s.dim[1])
    return neap__graph_fail(g, NULL, NEAP_SHAPE, "statistics or parameters %s, expected [channels] of input %s",
                            neap__shape_text(&p, pt, sizeof pt), neap__shape_text(&s, xt, sizeof xt));
  return column(g, v, x);
}

/* One factor and one summand a channel. */
static neap_id by_running(neap_graph *g, neap_id x, neap_id mean, neap_id var, const neap_id *wb, double eps) {
  neap_id scale = neap__build1(g, &neap__op_rsqrt, ADD(var, neap__const_like(g, var, eps)));
  if (wb) scale = MUL(scale, wb[0]);
  neap_id shift = NEG(MUL(mean, scale));
  if (wb) shift = ADD(shift, wb[1]);
  scale = beside(g, scale, x);
  return ADD(MUL(x, scale), beside(g, shift, x));
}

/* Everything beside x is one number a channel, in x's dtype: a product of them would hide that one is not. */
static bool fits(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in) {
  const neap_desc x = neap__desc_at(g, in[0]);
  char xt[96], pt[96];
  if (!neap__dtype_is_float(x.dtype) || x.shape.ndim < 2) {
    neap__graph_fail(g, op, x.shape.ndim < 2 ? NEAP_SHAPE : NEAP_DTYPE,
                     "the input is %s %s, expected floating point, (samples, channels, ...)", neap__dtype_name(x.dtype),
                     neap__shape_text(&x.shape, xt, sizeof xt));
    return false;
  }
  for (uint32_t i = 1; i < n_in; i++) {
    const neap_desc p = neap__desc_at(g, in[i]);
    if (p.dtype == x.dtype && p.shape.ndim == 1 && p.shape.dim[0] == x.shape.dim[1]) continue;
    neap__graph_fail(g, op, p.dtype == x.dtype ? NEAP_SHAPE : NEAP_DTYPE, "input %u is %s %s, expected %s [%lld]",
                     i + 1, neap__dtype_name(p.dtype), neap__shape_text(&p.shape, pt, sizeof pt),
                     neap__dtype_name(x.dtype), (long long)x.shape.dim[1]);
    return false;
  }
  return true;
}

/* x, running_mean, running_var, weight, bias; in training the running ones may be left out, otherwise weight and
 * bias. The running statistics are not written here: who keeps them takes batch_mean and batch_var. */
static neap_id batch_norm(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const bool training = opt[0].v.i != 0;
  const neap_id *wb = n_in == 5 ? in + 3 : n_in == 3 && training ? in + 1 : NULL;
  if (n_in == 2 || n_in == 4 || (n_in == 1 && !training))
    return neap__graph_fail(g, op, NEAP_INVALID, "%u inputs, expected %s", n_in,
                            training ? "x; x, weight, bias; or x, running_mean, running_var, weight, bias"
                                     : "x, running_mean, running_var; or those and weight, bias");
  if (!fits(g, op, in, n_in)) return NEAP_NONE;
  if (!training) return by_running(g, in[0], in[1], in[2], wb, opt[2].v.f);
  const neap_id given[] = {in[0], wb ? wb[0] : NEAP_NONE, wb ? wb[1] : NEAP_NONE};
  return neap__build(g, &neap__op_batch_norm_train, given, wb ? 3 : 1, (neap_opt[NEAP_MAX_OPTS]){opt[2]});
}

static const char *const samples[] = {"f32[4,3,5,5] f32[3] f32[3]; training=true",
                                      "f32[4,3] f32[3] f32[3]:positive",
                                      "f32[2,3,4] f32[3] f32[3]:positive f32[3] f32[3]",
                                      "f64[3,2,4] f64[2] f64[2]:positive f64[2] f64[2]; training=true; eps=0.01",
                                      "f32[0,2,3] f32[2] f32[2]; training=true",
                                      NULL};

const neap_op neap__op_batch_norm = {
    .name = "batch_norm",
    .min_in = 1,
    .max_in = 5,
    .n_out = 1,
    .precision = NEAP_PREC_KEEP,
    .opts = {{.name = "training",
              .type = NEAP_OPT_BOOL,
              .def = 0,
              .has_default = true,
              .doc = "Whether the batch's statistics are used."},
             {.name = "momentum",
              .type = NEAP_OPT_FLOAT,
              .def = 0.1,
              .has_default = true,
              .min = 0,
              .max = 1,
              .doc = "Taken as torch takes it; the op itself updates nothing."},
             EPS_OPTION},
    .expand = batch_norm,
    .samples = samples,
    .doc = "Channels brought to mean 0 and variance 1, times weight, plus bias (Ioffe and Szegedy 2015), by the "
           "batch's statistics when `training`, else by the running ones. In training it also takes x, weight, bias. "
           "The running statistics are only read: nn.BatchNorm2d keeps them, as a part of the update.",
    .example = "local x = neap.tensor {{1, 10}, {3, 30}}\n"
               "print(neap.batch_norm(x, {training = true, eps = 0}))  --> tensor fp32 [2, 2] {{-1, -1}, {1, 1}}\n"
               "print(neap.batch_norm(x, neap.tensor {1, 10}, neap.tensor {4, 4}, {eps = 0}))  --> tensor fp32 [2, 2] "
               "{{0, 0}, {1, 10}}",
    .topic = NEAP_TOPIC_NORMALIZATION,
    .args = "x [N, C, ...], running_mean? [C], running_var? [C], weight? [C], bias? [C] -> [N, C, ...]",
};

/* --- the batch's statistics ----------------------------------------------------------------------------- */

/* Output `which` of the node that normalizes x, when there is one already, else of a new one. */
static neap_id statistic(neap_graph *g, neap_id x, uint32_t which) {
  neap_id out[NEAP_MAX_OUT];
  for (uint32_t i = g->n_nodes; i-- > 0;)
    if (g->nodes[i]->op == &neap__op_batch_norm_train && g->nodes[i]->in[0] == x) return g->nodes[i]->out[which];
  return neap__build_n(g, &neap__op_batch_norm_train, &x, 1, NULL, out) ? out[which] : NEAP_NONE;
}

static neap_id batch_mean(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  return neap__build1(g, &neap__op_stop, statistic(g, in[0], 1));
}

static neap_id batch_var(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in, (void)opt;
  return neap__build1(g, &neap__op_stop, statistic(g, in[0], 2));
}

static const char *const statistic_samples[] = {"f32[4,3,5,5]", "f32[6,4]", "f64[3,2,7]", NULL};

const neap_op neap__op_batch_mean = {
    .name = "batch_mean",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .precision = NEAP_PREC_KEEP,
    .expand = batch_mean,
    .samples = statistic_samples,
    .doc = "The mean of each channel over the batch, as batch_norm sees it in training, without a gradient.",
    .example = "print(neap.batch_mean(neap.tensor {{1, 10}, {3, 30}}))  --> tensor fp32 [2] {2, 20}",
    .topic = NEAP_TOPIC_NORMALIZATION,
    .args = "x [N, C, ...] -> [C]",
};

const neap_op neap__op_batch_var = {
    .name = "batch_var",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .precision = NEAP_PREC_KEEP,
    .expand = batch_var,
    .samples = statistic_samples,
    .doc =
        "The unbiased variance of each channel over the batch, as batch_norm keeps it in training, without a gradient.",
    .example = "print(neap.batch_var(neap.tensor {{1, 10}, {3, 30}}))  --> tensor fp32 [2] {2, 200}",
    .topic = NEAP_TOPIC_NORMALIZATION,
    .args = "x [N, C, ...] -> [C]",
};
