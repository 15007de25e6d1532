/* Scaled dot-product attention without a tensor of all pairs: the forward keeps the log of the sum of exponentials of
 * each query, from which the gradient computes weights again, block by block (Dao et al. 2022).
 *
 * q: (..., L, E), k: (..., S, E), v: (..., S, F), mask: broadcasts to (..., L, S); bool (true takes part) or a summand
 * to the scores -> y: (..., L, F), lse: (..., L), minus infinity for a query that sees nothing, whose y is 0. */
#include "op/build.h"

enum { CAUSAL, SCALE };

#define ATTENTION_OPTIONS                                                        \
  {.name = "is_causal", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true}, { \
    .name = "scale", .type = NEAP_OPT_FLOAT                                      \
  }

static neap_status one_dtype(const neap_infer *x, uint32_t data) {
  neap_status s;
  for (uint32_t i = 0; i < data; i++) {
    if ((s = neap__need_float(x, i))) return s;
    if (x->in[i].dtype != x->in[0].dtype)
      return neap__fail(x->err, NEAP_DTYPE, "input %u is %s, expected %s like input 1", i + 1,
                        neap__dtype_name(x->in[i].dtype), neap__dtype_name(x->in[0].dtype));
  }
  return NEAP_OK;
}

/* in: q, k, v. */
static neap_status check_qkv(const neap_infer *x, const neap_desc *in) {
  const neap_shape *q = &in[0].shape, *k = &in[1].shape, *v = &in[2].shape;
  const int32_t n = q->ndim;
  bool fit = n >= 2 && k->ndim == n && v->ndim == n;
  char qt[96], kt[96], vt[96];
  for (int32_t i = 0; fit && i + 2 < n; i++) fit = k->dim[i] == q->dim[i] && v->dim[i] == q->dim[i];
  if (fit && k->dim[n - 1] == q->dim[n - 1] && v->dim[n - 2] == k->dim[n - 2]) return NEAP_OK;
  return neap__fail(
      x->err, NEAP_SHAPE, "query %s, key %s and value %s, expected (..., L, E), (..., S, E) and (..., S, F)",
      neap__shape_text(q, qt, sizeof qt), neap__shape_text(k, kt, sizeof kt), neap__shape_text(v, vt, sizeof vt));
}

static neap_status check_mask(const neap_infer *x, const neap_desc *in, const neap_desc *mask) {
  const int32_t n = in[0].shape.ndim;
  neap_shape pairs = in[0].shape, whole;
  char mt[96], pt[96];
  pairs.dim[n - 1] = in[1].shape.dim[n - 2];
  if (mask->dtype != NEAP_BOOL && mask->dtype != in[0].dtype)
    return neap__fail(x->err, NEAP_DTYPE, "the mask is %s, expected bool or %s", neap__dtype_name(mask->dtype),
                      neap__dtype_name(in[0].dtype));
  if (x->opt[CAUSAL].v.i) return neap__fail(x->err, NEAP_INVALID, "a mask and is_causal, expected one of the two");
  if (neap__broadcast(&mask->shape, &pairs, &whole, NULL) == NEAP_OK && neap__shape_equal(&whole, &pairs))
    return NEAP_OK;
  return neap__fail(x->err, NEAP_SHAPE, "mask %s does not broadcast to %s, the pairs of queries and keys",
                    neap__shape_text(&mask->shape, mt, sizeof mt), neap__shape_text(&pairs, pt, sizeof pt));
}

static neap_status infer(neap_infer *x) {
  const neap_shape *q = &x->in[0].shape;
  neap_status s;
  if ((s = one_dtype(x, 3)) || (s = check_qkv(x, x->in))) return s;
  if (x->n_in > 3 && (s = check_mask(x, x->in, &x->in[3]))) return s;
  x->out[0] = x->out[1] = x->in[0];
  x->out[0].shape.dim[q->ndim - 1] = x->in[2].shape.dim[q->ndim - 1];
  x->out[1].shape.ndim--;
  return NEAP_OK;
}

#define MUL(a, b) neap__build2(g, &neap__op_mul, a, b)
#define SUB(a, b) neap__build2(g, &neap__op_sub, a, b)

static neap_id transposed(neap_graph *g, neap_id v) {
  const int32_t n = neap__desc_at(g, v).shape.ndim;
  int64_t dims[NEAP_MAX_DIMS];
  for (int32_t i = 0; i < n; i++) dims[i] = i;
  if (n >= 2) dims[n - 2] = n - 1, dims[n - 1] = n - 2;
  return neap__permute_by(g, v, dims, n);
}

/* A summand to the scores is a pair's own: this alone needs all pairs. p (d v' - sum(d y)) with the weights p. */
static neap_id grad_mask(neap_graph *g, const neap_node *n, neap_id d) {
  const neap_id q = n->in[0], k = n->in[1], v = n->in[2], mask = n->in[3];
  const neap_desc m = neap__desc_at(g, mask), y = neap__desc_at(g, n->out[0]);
  const int64_t last = y.shape.ndim - 1;
  if (m.dtype == NEAP_BOOL) return NEAP_NONE;
  const neap_id scores = neap__scale(g, neap__build2(g, &neap__op_matmul, q, transposed(g, k)), n->opt[SCALE].v.f);
  const neap_id shifted =
      SUB(neap__build2(g, &neap__op_add, scores, mask), neap__insert_dim(g, n->out[1], y.shape.ndim - 1));
  const neap_id sum = neap__reduce(g, &neap__op_sum, MUL(d, n->out[0]), &last, 1, true);
  const neap_id slope = SUB(neap__build2(g, &neap__op_matmul, d, transposed(g, v)), sum);
  return neap__sum_to(g, MUL(neap__build1(g, &neap__op_exp, shifted), slope), &m);
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_id in[] = {
      gout[0], n->in[0], n->in[1], n->in[2], n->out[0], n->out[1], n->n_in > 3 ? n->in[3] : NEAP_NONE};
  neap_id out[NEAP_MAX_OUT];
  if (gout[0] == NEAP_NONE) return;
  if (need & 8) gin[3] = grad_mask(g, n, gout[0]);
  if (!(need & 7)) return;
  neap__build_n(g, &neap__op_attention_grad, in, n->n_in + 3u, n->opt, out);
  for (uint32_t i = 0; i < 3; i++) gin[i] = out[i];
}

/* Inputs other than the mask have samples at one place in front of the last two dimensions; the mask has them at the
 * same place from the right, or none and one entry for all. */
static neap_status batch_heads(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out,
                               uint32_t data) {
  const neap_shape *q = &g->values[n->in[0]].desc.shape;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  neap_batch r = in[0];
  for (uint32_t i = 0; i < data; i++) {
    if (in[i].kind == NEAP_B_CONST || in[i].dim != r.dim || in[i].per != r.per || r.dim + 2 >= q->ndim)
      return NEAP_UNSUPPORTED;
    if (in[i].kind == NEAP_B_MIX) r.kind = NEAP_B_MIX;
  }
  if (n->n_in > data) {
    const neap_shape *m = &g->values[n->in[data]].desc.shape;
    const int32_t at = m->ndim - (q->ndim - r.dim);
    const bool own = in[data].kind != NEAP_B_CONST;
    if (own ? in[data].dim != at || in[data].per != r.per : at >= 0 && m->dim[at] != 1) return NEAP_UNSUPPORTED;
    if (in[data].kind == NEAP_B_MIX) r.kind = NEAP_B_MIX;
  }
  for (uint32_t o = 0; o < n->n_out; o++) out[o] = r;
  return NEAP_OK;
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  return batch_heads(g, n, in, out, 3);
}

/* q, k: which inputs; products: of all pairs of queries and keys. */
static void work(const neap_sig *s, uint32_t q, double products, double *flops, double *bytes) {
  const neap_shape *shape = &s->in[q].desc.shape, *k = &s->in[q + 1].desc.shape;
  const double pairs = (double)neap__shape_count(shape) * (double)k->dim[k->ndim - 2];
  *flops = (s->opt[CAUSAL].v.i ? 1 : 2) * pairs * products;
  *bytes = 0;
  for (uint32_t i = 0; i < s->n_in; i++) *bytes += (double)neap__desc_bytes(&s->in[i].desc);
  for (uint32_t o = 0; o < s->n_out; o++) *bytes += (double)neap__desc_bytes(&s->out[o].desc);
}

static void cost(const neap_sig *s, double *flops, double *bytes) { work(s, 0, 2, flops, bytes); }

static const char *const node_samples[] = {
    "f32[2,2,5,4] f32[2,2,5,4] f32[2,2,5,4]; scale=0.5", "f32[2,5,4] f32[2,7,4] f32[2,7,3]; is_causal=true; scale=0.5",
    "f32[3,5,4] f32[3,6,4] f32[3,6,4] f32[5,6]; scale=0.5", "f32[0,5,4] f32[0,5,4] f32[0,5,4]; scale=0.5", NULL};

const neap_op neap__op_attention = {
    .name = "attention",
    .min_in = 3,
    .max_in = 4,
    .n_out = 2,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .opts = {ATTENTION_OPTIONS},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = node_samples,
    .doc = "Attention of each query to all keys, and the log of the sum of the exponentials of its scores.",
};

/* --- the gradient ---------------------------------------------------------------------------------------------- */

/* d, q, k, v, y, lse, mask -> gradients of q, k and v. */
static neap_status infer_grad(neap_infer *x) {
  const neap_shape *q = &x->in[1].shape;
  neap_shape y = *q, lse = *q;
  neap_status s;
  if ((s = one_dtype(x, 6)) || (s = check_qkv(x, x->in + 1))) return s;
  if (x->n_in > 6 && (s = check_mask(x, x->in + 1, &x->in[6]))) return s;
  y.dim[q->ndim - 1] = x->in[3].shape.dim[q->ndim - 1];
  lse.ndim--;
  for (uint32_t i = 0; i < 6; i += i == 0 ? 4 : 1) {
    const neap_shape *want = i == 5 ? &lse : &y;
    char got[96], wanted[96];
    if (!neap__shape_equal(&x->in[i].shape, want))
      return neap__fail(x->err, NEAP_SHAPE, "input %u has shape %s, expected %s", i + 1,
                        neap__shape_text(&x->in[i].shape, got, sizeof got),
                        neap__shape_text(want, wanted, sizeof wanted));
  }
  for (uint32_t o = 0; o < 3; o++) x->out[o] = x->in[1 + o];
  return NEAP_OK;
}

static neap_status batch_grad(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  return batch_heads(g, n, in, out, 6);
}

static void cost_grad(const neap_sig *s, double *flops, double *bytes) { work(s, 1, 5, flops, bytes); }

static const char *const grad_samples[] = {
    "f32[2,5,4] f32[2,5,4] f32[2,5,4] f32[2,5,4] f32[2,5,4] f32[2,5]; scale=0.5",
    "f32[2,5,3] f32[2,5,4] f32[2,7,4] f32[2,7,3] f32[2,5,3] f32[2,5]; is_causal=true; scale=0.5",
    "f32[0,5,4] f32[0,5,4] f32[0,5,4] f32[0,5,4] f32[0,5,4] f32[0,5]; scale=0.5", NULL};

const neap_op neap__op_attention_grad = {
    .name = "attention_grad",
    .min_in = 6,
    .max_in = 7,
    .n_out = 3,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .opts = {ATTENTION_OPTIONS},
    .infer = infer_grad,
    .batch = batch_grad,
    .cost = cost_grad,
    .samples = grad_samples,
    .doc = "Gradients of attention's query, key and value from y's gradient, all that it read, y and lse.",
};

/* --- what scripts use -------------------------------------------------------------------------------------------- */

/* v with the dimensions in front of its last two spread to those of `lead`. */
static neap_id spread(neap_graph *g, neap_id v, const neap_shape *lead) {
  const neap_shape s = neap__desc_at(g, v).shape;
  neap_shape to = *lead;
  to.dim[to.ndim++] = s.dim[s.ndim - 2];
  to.dim[to.ndim++] = s.dim[s.ndim - 1];
  if (neap__shape_equal(&s, &to)) return v;
  return neap__build(g, &neap__op_expand, &v, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(to.dim, to.ndim)});
}

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  neap_id ids[4] = {in[0], in[1], in[2], n_in > 3 ? in[3] : NEAP_NONE};
  neap_shape lead = {.ndim = 0};
  neap_opt options[NEAP_MAX_OPTS] = {opt[CAUSAL], opt[SCALE]};
  neap_error err;
  for (uint32_t i = 0; i < 3; i++) {
    neap_shape s = neap__desc_at(g, in[i]).shape, all;
    char text[96];
    if (s.ndim < 2)
      return neap__graph_fail(g, op, NEAP_SHAPE, "input %u is %s, expected at least 2 dimensions", i + 1,
                              neap__shape_text(&s, text, sizeof text));
    s.ndim -= 2;
    const neap_status status = neap__broadcast(&lead, &s, &all, &err);
    if (status != NEAP_OK)
      return neap__graph_fail(g, op, status, "the dimensions in front do not fit: %s", err.message);
    lead = all;
  }
  for (uint32_t i = 0; i < 3; i++) ids[i] = spread(g, in[i], &lead);
  const neap_shape q = neap__desc_at(g, in[0]).shape;
  const int64_t e = q.dim[q.ndim - 1];
  if (!options[SCALE].set) options[SCALE] = NEAP_FLOAT(e > 0 ? 1 / __builtin_sqrt((double)e) : 1);
  return neap__build(g, &neap__op_attention, ids, n_in, options);
}

static const char *const samples[] = {"f32[2,2,5,4] f32[2,2,5,4] f32[2,2,5,4]",
                                      "f32[2,2,5,4] f32[2,2,5,4] f32[2,2,5,4]; is_causal=true",
                                      "f32[5,4] f32[7,4] f32[7,3]; scale=0.3",
                                      "f32[2,5,4] f32[2,6,4] f32[2,6,4] bool[5,6]",
                                      "f32[2,5,4] f32[2,6,4] f32[2,6,4] f32[2,1,6]",
                                      "f32[1,70,9] f32[1,150,9] f32[1,150,9]; is_causal=true",
                                      "f64[2,3,2] f64[1,3,2] f64[2,3,2]",
                                      "f32[2,3,4] f32[2,0,4] f32[2,0,4]",
                                      NULL};

const neap_op neap__op_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .min_in = 3,
    .max_in = 4,
    .n_out = 1,
    .precision = NEAP_PREC_CAST,
    .opts = {ATTENTION_OPTIONS},
    .expand = expand,
    .samples = samples,
    .doc =
        "softmax(scale q k' + mask) v over the last two dimensions (Vaswani et al. 2017), mask bool (true takes part) "
        "or a summand, scale 1 / sqrt(width) unless given; with is_causal a query sees keys up to its own place.",
};
