/* Rows brought to mean 0 and variance 1 (or, not centred, to mean square 1), scaled and shifted: what layer,
 * group, instance and root-mean-square normalization have in common, and the gradients.
 *
 * A row is the last `dims` dimensions of x, or, with groups, one group's channels of one sample of
 * x: (N, C, spatial...). weight and bias: those dimensions, or (C). Besides y, a node gives each row's mean (0 when
 * not centred) and 1 / standard deviation, which the gradients read. */
#include "op/formula.h"

enum { DIMS, GROUPS, EPS, CENTER };

#define ROW_OPTIONS                                                                \
  {.name = "dims", .type = NEAP_OPT_INT, .def = 1, .has_default = true},           \
      {.name = "groups", .type = NEAP_OPT_INT, .def = 0, .has_default = true},     \
      {.name = "eps", .type = NEAP_OPT_FLOAT, .def = 1e-5, .has_default = true}, { \
    .name = "center", .type = NEAP_OPT_BOOL, .def = 1, .has_default = true         \
  }

/* Of what a row's statistics are kept: (N, groups), or the dimensions in front. */
static neap_shape stats_shape(const neap_shape *x, const neap_opt *opt) {
  neap_shape s = *x;
  if (opt[GROUPS].v.i > 0) return (neap_shape){2, {x->dim[0], opt[GROUPS].v.i}};
  s.ndim = x->ndim - (int32_t)opt[DIMS].v.i;
  return s;
}

static neap_shape param_shape(const neap_shape *x, const neap_opt *opt) {
  neap_shape s = {.ndim = 1, .dim = {x->ndim > 1 ? x->dim[1] : 1}};
  if (opt[GROUPS].v.i > 0) return s;
  s.ndim = (int32_t)opt[DIMS].v.i;
  for (int32_t i = 0; i < s.ndim; i++) s.dim[i] = x->dim[x->ndim - s.ndim + i];
  return s;
}

static neap_status one_dtype(const neap_infer *x) {
  neap_status s;
  for (uint32_t i = 0; i < x->n_in; i++) {
    if ((s = neap__need_float(x, i))) return s;
    if (x->in[i].dtype != x->in[0].dtype)
      return neap__fail(x->err, NEAP_DTYPE, "input %u is %s, expected %s like input 1", i + 1,
                        neap__dtype_name(x->in[i].dtype), neap__dtype_name(x->in[0].dtype));
  }
  return NEAP_OK;
}

static neap_status need_shape(const neap_infer *x, uint32_t i, const char *what, const neap_shape *want) {
  char got[96], wanted[96];
  if (neap__shape_equal(&x->in[i].shape, want)) return NEAP_OK;
  return neap__fail(x->err, NEAP_SHAPE, "%s has shape %s, expected %s", what,
                    neap__shape_text(&x->in[i].shape, got, sizeof got), neap__shape_text(want, wanted, sizeof wanted));
}

static neap_status check_rows(const neap_infer *x, const neap_shape *in) {
  const int64_t dims = x->opt[DIMS].v.i, groups = x->opt[GROUPS].v.i;
  char text[96];
  neap__shape_text(in, text, sizeof text);
  if (groups == 0 && (dims < 1 || dims > in->ndim))
    return neap__fail(x->err, NEAP_SHAPE, "input %s has no last %lld dimensions to normalize", text, (long long)dims);
  if (groups == 0) return NEAP_OK;
  if (in->ndim < 2)
    return neap__fail(x->err, NEAP_SHAPE, "input %s, expected at least 2 dimensions (samples, channels, ...)", text);
  if (groups < 0 || in->dim[1] % groups)
    return neap__fail(x->err, NEAP_SHAPE, "input %s has %lld channels, which %lld groups do not share evenly", text,
                      (long long)in->dim[1], (long long)groups);
  return NEAP_OK;
}

static neap_status infer(neap_infer *x) {
  const neap_desc *in = &x->in[0];
  neap_status s;
  if ((s = one_dtype(x)) || (s = check_rows(x, &in->shape))) return s;
  const neap_shape params = param_shape(&in->shape, x->opt);
  if (x->n_in > 1 && (s = need_shape(x, 1, "weight", &params))) return s;
  if (x->n_in > 2 && (s = need_shape(x, 2, "bias", &params))) return s;
  x->out[0] = *in;
  x->out[1] = x->out[2] = (neap_desc){in->dtype, stats_shape(&in->shape, x->opt)};
  return NEAP_OK;
}

/* --- rows out of other ops --- */

/* v, of x's shape, with a row's elements in its last dimensions, `*from` and on: with groups (N, groups, channels of
 * one, inner). */
static neap_id as_rows(neap_graph *g, neap_id v, const neap_opt *opt, int32_t *from) {
  const neap_shape s = neap__desc_at(g, v).shape;
  neap_shape rows = {4, {s.dim[0], opt[GROUPS].v.i, s.dim[1] / (opt[GROUPS].v.i > 0 ? opt[GROUPS].v.i : 1), 1}};
  *from = opt[GROUPS].v.i > 0 ? 2 : s.ndim - (int32_t)opt[DIMS].v.i;
  if (opt[GROUPS].v.i == 0) return v;
  for (int32_t i = 2; i < s.ndim; i++) rows.dim[3] *= s.dim[i];
  return neap__reshape_to(g, v, &rows);
}

/* Statistics beside `rows`. */
static neap_id beside_rows(neap_graph *g, neap_id v, neap_id rows, int32_t from) {
  neap_shape s = neap__desc_at(g, rows).shape;
  for (int32_t i = from; i < s.ndim; i++) s.dim[i] = 1;
  return neap__reshape_to(g, v, &s);
}

/* The weight beside `rows`. */
static neap_id weight_beside(neap_graph *g, neap_id w, neap_id rows, const neap_opt *opt) {
  const neap_shape s = neap__desc_at(g, rows).shape;
  const neap_shape channels = {3, {s.dim[1], s.dim[2], 1}};
  return opt[GROUPS].v.i > 0 ? neap__reshape_to(g, w, &channels) : w;
}

static neap_id sum_rows(neap_graph *g, neap_id v, int32_t from) {
  int64_t dims[NEAP_MAX_DIMS];
  const int32_t n = neap__desc_at(g, v).shape.ndim;
  for (int32_t i = from; i < n; i++) dims[i - from] = i;
  return neap__reduce(g, &neap__op_sum, v, dims, n - from, true);
}

static double row_length(const neap_graph *g, neap_id rows, int32_t from) {
  const neap_shape s = neap__desc_at(g, rows).shape;
  double n = 1;
  for (int32_t i = from; i < s.ndim; i++) n *= (double)s.dim[i];
  return n > 0 ? n : 1;
}

/* What the statistics add to x's gradient, with h = (x - mean) rstd: d mean / n - d rstd rstd^2 h / n. */
static neap_id grad_stats(neap_graph *g, const neap_node *n, neap_id mean, neap_id rstd) {
  int32_t from;
  const neap_shape shape = neap__desc_at(g, n->in[0]).shape;
  const neap_id x = as_rows(g, n->in[0], n->opt, &from), s = beside_rows(g, n->out[2], x, from);
  const double share = 1 / row_length(g, x, from);
  neap_id sum = NEAP_NONE;
  if (mean != NEAP_NONE && n->opt[CENTER].v.i)
    sum = neap__expand_as(g, beside_rows(g, neap__scale(g, mean, share), x, from), x);
  if (rstd != NEAP_NONE) {
    const neap_id slope = neap__scale(g, MUL(beside_rows(g, rstd, x, from), MUL(s, MUL(s, s))), -share);
    const neap_id more = MUL(slope, SUB(x, beside_rows(g, n->out[1], x, from)));
    sum = sum == NEAP_NONE ? more : ADD(sum, more);
  }
  return sum == NEAP_NONE ? sum : neap__reshape_to(g, sum, &shape);
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const neap_id in[] = {gout[0], n->in[0], n->out[1], n->out[2], n->n_in > 1 ? n->in[1] : NEAP_NONE};
  neap_id out[NEAP_MAX_OUT];
  if (need & 1) {
    if (gout[0] != NEAP_NONE) gin[0] = neap__build(g, &neap__op_standardize_grad, in, n->n_in > 1 ? 5 : 4, n->opt);
    const neap_id more = grad_stats(g, n, gout[1], gout[2]);
    if (more != NEAP_NONE) gin[0] = gin[0] == NEAP_NONE ? more : ADD(gin[0], more);
  }
  if (gout[0] == NEAP_NONE || !(need & 6)) return;
  neap__build_n(g, &neap__op_standardize_grad_weight, in, 4, n->opt, out);
  if (need & 2) gin[1] = out[0];
  if (need & 4) gin[2] = out[1];
}

/* The first `data` inputs have samples, at one place outside of the rows; parameters are the same for all. */
static neap_status batch_rows(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out,
                              uint32_t data) {
  const neap_shape *x = &g->values[n->in[data > 1 ? 1 : 0]].desc.shape;
  const int32_t lead = n->opt[GROUPS].v.i > 0 ? 1 : x->ndim - (int32_t)n->opt[DIMS].v.i;
  neap_batch_kind kind = NEAP_B_SAMPLE;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const bool samples = in[i].kind != NEAP_B_CONST;
    if (samples != (i < data)) return NEAP_UNSUPPORTED;
    if (samples && (in[i].dim >= lead || in[i].dim != in[0].dim || in[i].per != in[0].per)) return NEAP_UNSUPPORTED;
    if (in[i].kind == NEAP_B_MIX) kind = NEAP_B_MIX;
  }
  for (uint32_t o = 0; o < n->n_out; o++) out[o] = (neap_batch){kind, in[0].dim, in[0].per};
  return NEAP_OK;
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  return batch_rows(g, n, in, out, 1);
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = 8 * (double)neap__shape_count(&s->in[0].desc.shape);
  *bytes = 0;
  for (uint32_t i = 0; i < s->n_in; i++) *bytes += (double)neap__desc_bytes(&s->in[i].desc);
  for (uint32_t o = 0; o < s->n_out; o++) *bytes += (double)neap__desc_bytes(&s->out[o].desc);
}

static const char *const samples[] = {"f32[3,5]",
                                      "f32[3,5] f32[5]; center=false",
                                      "f32[2,3,4] f32[3,4] f32[3,4]; dims=2",
                                      "f32[2,6,3,2] f32[6] f32[6]; groups=3",
                                      "f32[2,4] f32[4] f32[4]; groups=2",
                                      "f32[0,5] f32[5] f32[5]",
                                      NULL};

const neap_op neap__op_standardize = {
    .name = "standardize",
    .min_in = 1,
    .max_in = 3,
    .n_out = 3,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .inplace = 1,
    .opts = {ROW_OPTIONS},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "Rows normalized, scaled and shifted; the rows' means; 1 over their standard deviations.",
};

/* --- the input's gradient ------------------------------------------------------------------------------------ */

/* d, x, mean, rstd: as standardize has y, x and its other outputs. */
static neap_status check_saved(const neap_infer *x) {
  neap_status s;
  if ((s = one_dtype(x)) || (s = check_rows(x, &x->in[1].shape))) return s;
  const neap_shape stats = stats_shape(&x->in[1].shape, x->opt);
  if ((s = need_shape(x, 0, "gradient", &x->in[1].shape)) || (s = need_shape(x, 2, "mean", &stats))) return s;
  return need_shape(x, 3, "rstd", &stats);
}

static neap_status infer_grad(neap_infer *x) {
  neap_status s = check_saved(x);
  if (s) return s;
  const neap_shape params = param_shape(&x->in[1].shape, x->opt);
  x->out[0] = x->in[1];
  return x->n_in > 4 ? need_shape(x, 4, "weight", &params) : NEAP_OK;
}

/* With g = d w and h = (x - mean) rstd: rstd (g - mean(g) - h mean(g h)). */
static void unfused_grad(neap_graph *g, const neap_node *n, neap_id *out) {
  int32_t from;
  const neap_shape shape = neap__desc_at(g, n->in[1]).shape;
  const neap_id x = as_rows(g, n->in[1], n->opt, &from), s = beside_rows(g, n->in[3], x, from);
  const double share = 1 / row_length(g, x, from);
  const neap_id h = MUL(SUB(x, beside_rows(g, n->in[2], x, from)), s);
  neap_id d = as_rows(g, n->in[0], n->opt, &from);
  if (n->n_in > 4) d = MUL(d, weight_beside(g, n->in[4], x, n->opt));
  neap_id to = SUB(d, MUL(h, neap__scale(g, sum_rows(g, MUL(d, h), from), share)));
  if (n->opt[CENTER].v.i) to = SUB(to, neap__scale(g, sum_rows(g, d, from), share));
  out[0] = neap__reshape_to(g, MUL(s, to), &shape);
}

static neap_status batch_grad(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  return batch_rows(g, n, in, out, 4);
}

static const char *const grad_samples[] = {"f32[3,5] f32[3,5] f32[3] f32[3]:positive",
                                           "f32[3,5] f32[3,5] f32[3] f32[3]:positive f32[5]; center=false",
                                           "f32[2,6,3,2] f32[2,6,3,2] f32[2,3] f32[2,3]:positive f32[6]; groups=3",
                                           "f32[0,5] f32[0,5] f32[0] f32[0] f32[5]", NULL};

const neap_op neap__op_standardize_grad = {
    .name = "standardize_grad",
    .min_in = 4,
    .max_in = 5,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .inplace = 3,
    .opts = {ROW_OPTIONS},
    .infer = infer_grad,
    .unfused = unfused_grad,
    .batch = batch_grad,
    .cost = cost,
    .samples = grad_samples,
    .doc = "Gradient of standardize's input from y's gradient, x, the rows' statistics and the weight.",
};

/* --- the weight's and the bias's gradient ---------------------------------------------------------------------- */

static neap_status infer_weight(neap_infer *x) {
  const neap_status s = check_saved(x);
  if (s) return s;
  x->out[0] = x->out[1] = (neap_desc){x->in[0].dtype, param_shape(&x->in[1].shape, x->opt)};
  return NEAP_OK;
}

/* Sums of d h and of d over all rows. */
static void unfused_weight(neap_graph *g, const neap_node *n, neap_id *out) {
  int32_t from;
  const neap_id x = as_rows(g, n->in[1], n->opt, &from), d = as_rows(g, n->in[0], n->opt, &from);
  const neap_id h = MUL(SUB(x, beside_rows(g, n->in[2], x, from)), beside_rows(g, n->in[3], x, from));
  const neap_desc to = neap__desc_at(g, n->out[0]);
  const neap_shape s = neap__desc_at(g, x).shape;
  const neap_desc beside = {to.dtype, n->opt[GROUPS].v.i > 0 ? (neap_shape){3, {s.dim[1], s.dim[2], 1}} : to.shape};
  out[0] = neap__reshape_to(g, neap__sum_to(g, MUL(d, h), &beside), &to.shape);
  out[1] = neap__reshape_to(g, neap__sum_to(g, d, &beside), &to.shape);
}

static neap_status batch_weight(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  const neap_status s = batch_rows(g, n, in, out, 4);
  for (uint32_t o = 0; o < 2; o++)
    if (out[o].kind != NEAP_B_CONST) out[o] = (neap_batch){.kind = NEAP_B_SUM};
  return s;
}

static const char *const weight_samples[] = {
    "f32[3,5] f32[3,5] f32[3] f32[3]:positive", "f32[9,2,4] f32[9,2,4] f32[9] f32[9]:positive; dims=2; center=false",
    "f32[2,6,3,2] f32[2,6,3,2] f32[2,3] f32[2,3]:positive; groups=3", "f32[0,5] f32[0,5] f32[0] f32[0]", NULL};

const neap_op neap__op_standardize_grad_weight = {
    .name = "standardize_grad_weight",
    .min_in = 4,
    .max_in = 4,
    .n_out = 2,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .opts = {ROW_OPTIONS},
    .infer = infer_weight,
    .unfused = unfused_weight,
    .batch = batch_weight,
    .cost = cost,
    .samples = weight_samples,
    .doc = "Gradients of standardize's weight and bias, sums over all rows.",
};
