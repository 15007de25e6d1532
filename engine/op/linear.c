/* x W' + b, and the gradient of W and b. */
#include "op/build.h"

/* x: (..., in), w: (out, in), bias: (out) -> (..., out) */
static neap_status infer(neap_infer *x) {
  const neap_shape *in = &x->in[0].shape, *w = &x->in[1].shape, *b = x->n_in > 2 ? &x->in[2].shape : NULL;
  char it[96], wt[96];
  neap_status s;
  for (uint32_t i = 0; i < x->n_in; i++) {
    if ((s = neap__need_float(x, i))) return s;
    if (x->in[i].dtype != x->in[0].dtype)
      return neap__fail(x->err, NEAP_DTYPE, "input is %s but %s is %s, expected one dtype",
                        neap__dtype_name(x->in[0].dtype), i == 1 ? "weight" : "bias", neap__dtype_name(x->in[i].dtype));
  }
  neap__shape_text(in, it, sizeof it);
  neap__shape_text(w, wt, sizeof wt);
  if (w->ndim != 2) return neap__fail(x->err, NEAP_SHAPE, "weight %s, expected [out, in]", wt);
  if (in->ndim < 1 || in->dim[in->ndim - 1] != w->dim[1])
    return neap__fail(x->err, NEAP_SHAPE, "input %s does not end in the %lld features that weight %s takes", it,
                      (long long)w->dim[1], wt);
  if (b && (b->ndim != 1 || b->dim[0] != w->dim[0]))
    return neap__fail(x->err, NEAP_SHAPE, "bias %s, expected [%lld] for weight %s", neap__shape_text(b, it, sizeof it),
                      (long long)w->dim[0], wt);
  x->out[0] = x->in[0];
  x->out[0].shape.dim[in->ndim - 1] = w->dim[0];
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_id out[NEAP_MAX_OUT];
  if (need & 1) gin[0] = neap__build2(g, &neap__op_matmul, gout[0], n->in[1]);
  if (!(need & 6)) return;
  neap__build_n(g, &neap__op_linear_grad_weight, (neap_id[]){gout[0], n->in[0]}, 2, NULL, out);
  if (need & 2) gin[1] = out[0];
  if (need & 4) gin[2] = out[1];
}

/* Samples pass through, unless the features are the samples. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  out[0] = in[0];
  for (uint32_t i = 1; i < n->n_in; i++)
    if (in[i].kind != NEAP_B_CONST) return NEAP_UNSUPPORTED;
  return in[0].dim + 1 < g->values[n->in[0]].desc.shape.ndim ? NEAP_OK : NEAP_UNSUPPORTED;
}

static double bytes_of(const neap_sig *s) {
  double bytes = 0;
  for (uint32_t i = 0; i < s->n_in; i++) bytes += (double)neap__desc_bytes(&s->in[i].desc);
  for (uint32_t o = 0; o < s->n_out; o++) bytes += (double)neap__desc_bytes(&s->out[o].desc);
  return bytes;
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = 2 * (double)neap__shape_count(&s->out[0].desc.shape) * (double)s->in[1].desc.shape.dim[1];
  *bytes = bytes_of(s);
}

static const char *const samples[] = {
    "f32[3,4] f32[5,4]",        "f32[3,4] f32[5,4] f32[5]", "f32[2,3,4] f32[5,4] f32[5]", "f32[4] f32[5,4]",
    "f32[0,4] f32[5,4] f32[5]", "f32[3,0] f32[5,0] f32[5]", "f32[33,7] f32[17,7]",        NULL};

const neap_op neap__op_linear = {
    .name = "linear",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .rule = NEAP_BATCH_CUSTOM,
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "x times the transpose of weight, plus bias.",
    .example = "local weight, bias = neap.tensor {{1, 2}, {0, 1}, {1, 0}}, neap.tensor {100, 200, 300}\n"
               "print(neap.linear(neap.tensor {{3, 4}}, weight, bias))  --> tensor fp32 [1, 3] {{111, 204, 303}}",
    .topic = NEAP_TOPIC_PRODUCT,
    .args = "x [..., in], weight [out, in], bias? [out] -> [..., out]",
};

/* --- the weight's and the bias's gradient ------------------------------------------------------------------ */

/* d: (..., out), x: (..., in) -> (out, in), (out): sums over all rows */
static neap_status infer_grad(neap_infer *x) {
  const neap_shape *d = &x->in[0].shape, *in = &x->in[1].shape;
  bool fits = d->ndim == in->ndim && d->ndim >= 1;
  char dt[96], it[96];
  neap_status s;
  for (uint32_t i = 0; i < 2; i++)
    if ((s = neap__need_float(x, i))) return s;
  for (int32_t i = 0; fits && i + 1 < d->ndim; i++) fits = d->dim[i] == in->dim[i];
  if (!fits || x->in[0].dtype != x->in[1].dtype)
    return neap__fail(x->err, fits ? NEAP_DTYPE : NEAP_SHAPE, "gradient %s %s and input %s %s, expected the same rows",
                      neap__dtype_name(x->in[0].dtype), neap__shape_text(d, dt, sizeof dt),
                      neap__dtype_name(x->in[1].dtype), neap__shape_text(in, it, sizeof it));
  x->out[0] = (neap_desc){x->in[0].dtype, {2, {d->dim[d->ndim - 1], in->dim[in->ndim - 1]}}};
  x->out[1] = (neap_desc){x->in[0].dtype, {1, {d->dim[d->ndim - 1]}}};
  return NEAP_OK;
}

/* Both outputs are linear in d, the first in x too. */
static void grad_grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_desc d = neap__desc_at(g, n->in[0]);
  neap_id v = NEAP_NONE;
  if (need & 1) {
    if (gout[0] != NEAP_NONE) {
      const neap_id in[] = {n->in[1], gout[0], gout[1]};
      v = neap__build(g, &neap__op_linear, in, gout[1] != NEAP_NONE ? 3 : 2, NULL);
    } else if (gout[1] != NEAP_NONE) {
      v = neap__expand_as(g, gout[1], n->in[0]);
    }
    gin[0] = v == NEAP_NONE ? v : neap__cast(g, v, d.dtype);
  }
  if ((need & 2) && gout[0] != NEAP_NONE) gin[1] = neap__build2(g, &neap__op_matmul, n->in[0], gout[0]);
}

/* Slabs are whole rows of the outermost dimension. */
static neap_status batch_grad(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  const int32_t ndim = g->values[n->in[0]].desc.shape.ndim;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  out[0] = out[1] = (neap_batch){.kind = NEAP_B_SUM};
  const bool both = in[0].kind != NEAP_B_CONST && in[1].kind != NEAP_B_CONST;
  const bool outermost = in[0].dim == 0 && in[1].dim == 0 && ndim > 1;
  return both && outermost && in[0].per == in[1].per ? NEAP_OK : NEAP_UNSUPPORTED;
}

static int64_t rows_of(const neap_shape *s) {
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < s->ndim; i++) rows *= s->dim[i];
  return rows;
}

/* Many rows a sample make a slab of few samples; one row a sample needs many to fill a product. */
static int64_t slab(const neap_sig *s) {
  const neap_shape *d = &s->in[0].desc.shape;
  int64_t rows = s->in[0].batch.per > 0 ? s->in[0].batch.per : 1, slab = 64;
  for (int32_t i = 1; i + 1 < d->ndim; i++) rows *= d->dim[i];
  while (slab > 8 && slab * rows > 512) slab /= 2;
  return slab;
}

static void cost_grad(const neap_sig *s, double *flops, double *bytes) {
  const double rows = (double)rows_of(&s->in[0].desc.shape);
  *flops = 2 * rows * (double)neap__shape_count(&s->out[0].desc.shape);
  *bytes = bytes_of(s);
}

static const char *const grad_samples[] = {"f32[3,4] f32[3,5]", "f32[2,3,4] f32[2,3,5]", "f32[4] f32[5]",
                                           "f32[0,4] f32[0,5]", "f32[70,3] f32[70,17]",  NULL};

const neap_op neap__op_linear_grad_weight = {
    .name = "linear_grad_weight",
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .rule = NEAP_BATCH_CUSTOM,
    .infer = infer_grad,
    .grad = grad_grad,
    .batch = batch_grad,
    .slab = slab,
    .cost = cost_grad,
    .samples = grad_samples,
    .doc = "Gradients of linear's weight and bias from the output's gradient and x.",
};
