/* Products of matrices, of which matmul and the gradients of products are made. */
#include "op/build.h"

/* What an operand's last two dimensions are: its matrix, as multiplied. */
static int64_t rows_of(const neap_shape *s, bool transposed) { return s->dim[s->ndim - (transposed ? 1 : 2)]; }
static int64_t cols_of(const neap_shape *s, bool transposed) { return s->dim[s->ndim - (transposed ? 2 : 1)]; }

static neap_shape without_matrix(const neap_shape *s) {
  neap_shape b = *s;
  b.ndim = s->ndim - 2;
  return b;
}

/* a: (..., M, K), b: (..., K, N); with ta, tb they are stored (..., K, M), (..., N, K). Dimensions in front
 * broadcast. */
static neap_status infer(neap_infer *x) {
  const neap_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
  const bool ta = x->opt[0].v.i, tb = x->opt[1].v.i;
  char at[96], bt[96];
  neap_shape ab, bb, out;
  neap_status s;
  for (uint32_t i = 0; i < 2; i++)
    if ((s = neap__need_float(x, i))) return s;
  neap__shape_text(a, at, sizeof at);
  neap__shape_text(b, bt, sizeof bt);
  if (x->in[0].dtype != x->in[1].dtype)
    return neap__fail(x->err, NEAP_DTYPE, "operands are %s and %s, expected one dtype",
                      neap__dtype_name(x->in[0].dtype), neap__dtype_name(x->in[1].dtype));
  if (a->ndim < 2 || b->ndim < 2)
    return neap__fail(x->err, NEAP_SHAPE, "operands %s and %s, expected at least 2 dimensions each", at, bt);
  if (cols_of(a, ta) != rows_of(b, tb))
    return neap__fail(x->err, NEAP_SHAPE, "%s%s has %lld columns but %s%s has %lld rows", at, ta ? " transposed" : "",
                      (long long)cols_of(a, ta), bt, tb ? " transposed" : "", (long long)rows_of(b, tb));
  ab = without_matrix(a);
  bb = without_matrix(b);
  if ((s = neap__broadcast(&ab, &bb, &out, x->err))) return s;
  out.dim[out.ndim++] = rows_of(a, ta);
  out.dim[out.ndim++] = cols_of(b, tb);
  x->out[0] = (neap_desc){x->in[0].dtype, out};
  return NEAP_OK;
}

static neap_id product(neap_graph *g, neap_id a, neap_id b, bool ta, bool tb) {
  return neap__build(g, &neap__op_gemm, (neap_id[]){a, b}, 2, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(ta), NEAP_INT(tb)});
}

/* (..., M, K) -> (rest, K): all rows as one matrix. */
static neap_id merge_rows(neap_graph *g, neap_id v) {
  const neap_shape s = neap__desc_at(g, v).shape;
  neap_shape flat = {.ndim = 2, .dim = {1, s.ndim ? s.dim[s.ndim - 1] : 1}};
  for (int32_t i = 0; i + 1 < s.ndim; i++) flat.dim[0] *= s.dim[i];
  return neap__reshape_to(g, v, &flat);
}

/* With C = A B: dA = dC B', dB = A' dC, each stored as its operand is. */
static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  const bool ta = n->opt[0].v.i, tb = n->opt[1].v.i;
  const neap_id a = n->in[0], b = n->in[1], d = gout[0];
  const neap_desc ad = neap__desc_at(g, a), bd = neap__desc_at(g, b);
  if (need & 1) {
    const neap_id da = ta ? product(g, b, d, tb, true) : product(g, d, b, false, !tb);
    gin[0] = neap__sum_to(g, da, &ad);
  }
  if (!(need & 2)) return;
  if (bd.shape.ndim == 2 && ad.shape.ndim > 2 && !ta) {
    /* One matrix for all: its gradient is one product over all rows, which needs no sum after. */
    const neap_id rows = merge_rows(g, a), drows = merge_rows(g, d);
    gin[1] = tb ? product(g, drows, rows, true, false) : product(g, rows, drows, true, false);
  } else {
    const neap_id db = tb ? product(g, d, a, true, ta) : product(g, a, d, !ta, false);
    gin[1] = neap__sum_to(g, db, &bd);
  }
}

typedef enum place { NOWHERE, IN_FRONT, IN_RESULT, CONTRACTED } place;

/* Where operand i carries the batch. */
static place batch_place(const neap_shape *s, const neap_batch *b, uint32_t i, bool transposed) {
  const int32_t from_end = s->ndim - 1 - b->dim; /* 0: last, 1: last but one */
  if (b->kind == NEAP_B_CONST) return NOWHERE;
  if (from_end > 1) return IN_FRONT;
  return ((i == 0) == (from_end == 1)) != transposed ? IN_RESULT : CONTRACTED;
}

/* Operand s meets the batch dimension `dim` of out: it must be spread over it. */
static bool spreads(const neap_shape *s, const neap_shape *out, int32_t dim) {
  const int32_t at = dim - (out->ndim - s->ndim);
  return at < 0 || s->dim[at] == 1;
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  const neap_shape *shape[2], *result = &g->values[n->out[0]].desc.shape;
  place at[2];
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  for (uint32_t i = 0; i < 2; i++) {
    shape[i] = &g->values[n->in[i]].desc.shape;
    at[i] = batch_place(shape[i], &in[i], i, n->opt[i].v.i);
  }
  const uint32_t i = at[0] == NOWHERE; /* an operand with samples */
  const neap_batch_kind kind = in[0].kind == NEAP_B_MIX || in[1].kind == NEAP_B_MIX ? NEAP_B_MIX : NEAP_B_SAMPLE;
  const int32_t front = in[i].dim + result->ndim - shape[i]->ndim;
  if (at[i] == CONTRACTED) {
    out[0] = (neap_batch){.kind = NEAP_B_SUM};
    return at[0] == at[1] && in[0].per == in[1].per ? NEAP_OK : NEAP_UNSUPPORTED;
  }
  if (at[i] == IN_RESULT) {
    out[0] = (neap_batch){kind, result->ndim - (i == 0 ? 2 : 1), in[i].per};
    return at[1 - i] == NOWHERE ? NEAP_OK : NEAP_UNSUPPORTED;
  }
  out[0] = (neap_batch){kind, front, in[i].per};
  if (at[1 - i] == NOWHERE) return spreads(shape[1 - i], result, front) ? NEAP_OK : NEAP_UNSUPPORTED;
  const bool same =
      at[1 - i] == IN_FRONT && in[0].per == in[1].per && in[1 - i].dim + result->ndim - shape[1 - i]->ndim == front;
  return same ? NEAP_OK : NEAP_UNSUPPORTED;
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  const double k = (double)cols_of(&s->in[0].desc.shape, s->opt[0].v.i);
  *flops = 2 * k * (double)neap__shape_count(&s->out[0].desc.shape);
  *bytes =
      (double)(neap__desc_bytes(&s->in[0].desc) + neap__desc_bytes(&s->in[1].desc) + neap__desc_bytes(&s->out[0].desc));
}

/* Many rows a sample make a slab of few samples; one row a sample needs many to fill a product. */
static int64_t slab(const neap_sig *s) {
  int64_t slab = 64;
  while (slab > 8 && slab * s->in[0].batch.per > 512) slab /= 2;
  return slab;
}

static const char *const samples[] = {"f32[2,3] f32[3,4]",
                                      "f32[3,2] f32[3,4]; ta=true",
                                      "f32[2,3] f32[4,3]; tb=true",
                                      "f32[3,2] f32[4,3]; ta=true; tb=true",
                                      "f32[5,2,3] f32[3,4]",
                                      "f32[2,1,2,3] f32[3,3,4]",
                                      "f32[2,3,2] f32[2,4,3]; ta=true; tb=true",
                                      "f32[0,3] f32[3,4]",
                                      "f32[2,0] f32[0,4]",
                                      NULL};

const neap_op neap__op_gemm = {
    .name = "gemm",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_CAST,
    .rule = NEAP_BATCH_CUSTOM,
    .opts = {{.name = "ta", .type = NEAP_OPT_BOOL, .has_default = true},
             {.name = "tb", .type = NEAP_OPT_BOOL, .has_default = true}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .slab = slab,
    .cost = cost,
    .samples = samples,
    .doc = "Products of matrices in the last two dimensions, either stored transposed; those in front broadcast.",
};
