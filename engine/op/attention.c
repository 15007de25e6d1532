/* Scaled dot-product attention without a tensor of all pairs: the forward keeps the log of the sum of exponentials of
 * each query, from which the gradient computes weights again, block by block (Dao et al. 2022).
 *
 * q: (..., L, E), k: (..., S, E), v: (..., S, F), mask: broadcasts to (..., L, S); bool (true takes part) or a summand
 * to the scores -> y: (..., L, F), lse: (..., L), minus infinity for a query that sees nothing, whose y is 0. */
#include <math.h>

#include "op/formula.h"

enum { CAUSAL, SCALE };

#define ATTENTION_OPTIONS                                                                              \
  {.name = "is_causal",                                                                                \
   .type = NEAP_OPT_BOOL,                                                                              \
   .def = 0,                                                                                           \
   .has_default = true,                                                                                \
   .doc = "Whether a query sees only keys up to its own place; not beside a mask."},                   \
  {                                                                                                    \
    .name = "scale", .type = NEAP_OPT_FLOAT, .doc = "Factor of the scores; 1 / sqrt(E) when left out." \
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

/* --- out of other ops, with tensors of all pairs --- */

static neap_id product(neap_graph *g, neap_id a, neap_id b, bool ta, bool tb) {
  return neap__build(g, &neap__op_gemm, (neap_id[]){a, b}, 2, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(ta), NEAP_INT(tb)});
}

static neap_id sum_last(neap_graph *g, neap_id v) {
  const int64_t last = neap__desc_at(g, v).shape.ndim - 1;
  return neap__reduce(g, &neap__op_sum, v, &last, 1, true);
}

/* (L, S), true where a query sees a key. */
static neap_id seen_before(neap_graph *g, const neap_shape *pairs) {
  const neap_id none = NEAP_NONE; /* the builder looks at a first input even when there is none */
  const neap_opt full[NEAP_MAX_OPTS] = {neap__opt_list(&pairs->dim[pairs->ndim - 2], 2), NEAP_FLOAT(1),
                                        NEAP_INT(NEAP_BOOL)};
  return neap__build1(g, &neap__op_tril, neap__build(g, &neap__op_full, &none, 0, full));
}

/* (..., L, S): scale q k', minus infinity for a key that is not seen. qk: q and k. mask: NEAP_NONE, none. */
static neap_id scores(neap_graph *g, const neap_opt *opt, const neap_id *qk, neap_id mask) {
  const neap_id s = neap__scale(g, product(g, qk[0], qk[1], false, true), opt[SCALE].v.f);
  if (opt[CAUSAL].v.i) {
    const neap_shape pairs = neap__desc_at(g, s).shape;
    mask = seen_before(g, &pairs);
  }
  if (mask == NEAP_NONE) return s;
  if (neap__desc_at(g, mask).dtype != NEAP_BOOL) return ADD(s, mask);
  return WHERE(mask, s, neap__const_like(g, s, -(double)INFINITY));
}

/* The weights, which are 0 for a query that sees nothing. */
static neap_id weights(neap_graph *g, const neap_opt *opt, const neap_id *qk, neap_id mask, neap_id lse) {
  const neap_id nothing = neap__build2(g, &neap__op_eq, lse, neap__const_like(g, lse, -(double)INFINITY));
  const neap_id base = WHERE(nothing, neap__const_like(g, lse, 0), lse);
  const neap_id beside = neap__insert_dim(g, base, neap__desc_at(g, lse).shape.ndim);
  return EXP(SUB(scores(g, opt, qk, mask), beside));
}

/* The sum of p t over keys, where p adds up to 1 up to rounding; 0 for a query that sees nothing. */
static neap_id mean_last(neap_graph *g, neap_id p, neap_id t) {
  const neap_id sum = sum_last(g, p), one = neap__const_like(g, p, 1);
  const neap_id nothing = neap__build2(g, &neap__op_eq, sum, neap__const_like(g, p, 0));
  return DIV(sum_last(g, MUL(p, t)), WHERE(nothing, one, sum));
}

/* --- the gradient's nodes --- */

/* A summand to the scores is a pair's own: this alone needs all pairs. p (d v' - sum(d y)) with the weights p. */
static neap_id grad_mask(neap_graph *g, const neap_node *n, neap_id d, neap_id p) {
  const neap_desc m = neap__desc_at(g, n->in[3]);
  const neap_id slope = SUB(product(g, d, n->in[2], false, true), sum_last(g, MUL(d, n->out[0])));
  return neap__sum_to(g, MUL(p, slope), &m);
}

/* Adds what lse sends back, whose gradient by a score is its weight. */
static void grad_lse(neap_graph *g, const neap_node *n, neap_id d, neap_id p, neap_id *gin, uint32_t need) {
  const neap_id s = MUL(p, neap__insert_dim(g, d, neap__desc_at(g, d).shape.ndim));
  neap_id more[4] = {NEAP_NONE, NEAP_NONE, NEAP_NONE, NEAP_NONE};
  if (need & 1) more[0] = neap__scale(g, product(g, s, n->in[1], false, false), n->opt[SCALE].v.f);
  if (need & 2) more[1] = neap__scale(g, product(g, s, n->in[0], true, false), n->opt[SCALE].v.f);
  if (need & 8) {
    const neap_desc m = neap__desc_at(g, n->in[3]);
    more[3] = neap__sum_to(g, s, &m);
  }
  for (uint32_t i = 0; i < n->n_in; i++)
    if (more[i] != NEAP_NONE) gin[i] = gin[i] == NEAP_NONE ? more[i] : ADD(gin[i], more[i]);
}

static void grad_qkv(neap_graph *g, const neap_node *n, neap_id d, neap_id *gin) {
  const neap_id in[] = {d, n->in[0], n->in[1], n->in[2], n->out[0], n->out[1], n->n_in > 3 ? n->in[3] : NEAP_NONE};
  neap_id out[NEAP_MAX_OUT];
  neap__build_n(g, &neap__op_attention_grad, in, n->n_in + 3u, n->opt, out);
  for (uint32_t i = 0; i < 3; i++) gin[i] = out[i];
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_id mask = n->n_in > 3 ? n->in[3] : NEAP_NONE;
  const bool summand = (need & 8) && neap__desc_at(g, mask).dtype != NEAP_BOOL;
  if (!summand) need &= 7;
  if (gout[0] != NEAP_NONE && (need & 7)) grad_qkv(g, n, gout[0], gin);
  if (gout[1] == NEAP_NONE && !summand) return;
  const neap_id p = weights(g, n->opt, n->in, mask, n->out[1]);
  if (gout[0] != NEAP_NONE && summand) gin[3] = grad_mask(g, n, gout[0], p);
  if (gout[1] != NEAP_NONE) grad_lse(g, n, gout[1], p, gin, need);
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

/* With the weights p and t = d v', s = p (t - sum(p t)): of q scale s k, of k scale s' q, of v p' d. sum(p t) is
 * sum(d y), but closer to what makes the sum of s zero, as the kernel has it. */
static void unfused(neap_graph *g, const neap_node *n, neap_id *out) {
  const neap_id d = n->in[0], q = n->in[1], k = n->in[2], v = n->in[3];
  const neap_id p = weights(g, n->opt, n->in + 1, n->n_in > 6 ? n->in[6] : NEAP_NONE, n->in[5]);
  const neap_id t = product(g, d, v, false, true);
  const neap_id s = neap__scale(g, MUL(p, SUB(t, mean_last(g, p, t))), n->opt[SCALE].v.f);
  out[0] = product(g, s, k, false, false);
  out[1] = product(g, s, q, true, false);
  out[2] = product(g, p, d, true, false);
}

static neap_status batch_grad(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  return batch_heads(g, n, in, out, 6);
}

static void cost_grad(const neap_sig *s, double *flops, double *bytes) { work(s, 1, 5, flops, bytes); }

static const char *const grad_samples[] = {
    "f32[2,5,4] f32[2,5,4] f32[2,5,4] f32[2,5,4] f32[2,5,4] f32[2,5]; scale=0.5",
    "f32[2,5,3] f32[2,5,4] f32[2,7,4] f32[2,7,3] f32[2,5,3] f32[2,5]; is_causal=true; scale=0.5",
    "f32[2,5,4] f32[2,5,4] f32[2,6,4] f32[2,6,4] f32[2,5,4] f32[2,5] bool[5,6]; scale=0.5",
    "f32[2,5,4] f32[2,5,4] f32[2,6,4] f32[2,6,4] f32[2,5,4] f32[2,5] f32[2,1,6]; scale=0.5",
    "f32[0,5,4] f32[0,5,4] f32[0,5,4] f32[0,5,4] f32[0,5,4] f32[0,5]; scale=0.5",
    NULL};

const neap_op neap__op_attention_grad = {
    .name = "attention_grad",
    .min_in = 6,
    .max_in = 7,
    .n_out = 3,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .opts = {ATTENTION_OPTIONS},
    .infer = infer_grad,
    .unfused = unfused,
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
    .doc = "softmax(scale query key' + mask) value over the last two dimensions (Vaswani et al. 2017), without a "
           "tensor of all pairs (Dao et al. 2022); dimensions in front broadcast. The mask is bool (true takes part) "
           "or a summand to the scores. A query that sees nothing gives 0.",
    .example = "local q, k, v = neap.randn(2, 4, 10, 16), neap.randn(2, 4, 10, 16), neap.randn(2, 4, 10, 16)\n"
               "print(table.concat(neap.scaled_dot_product_attention(q, k, v, {is_causal = true}).shape, \" \"))  --> "
               "2 4 10 16",
    .topic = NEAP_TOPIC_SEQUENCE,
    .args = "query [..., L, E], key [..., S, E], value [..., S, F], mask? [..., L, S] bool -> [..., L, F]",
};
