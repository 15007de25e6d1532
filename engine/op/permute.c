#include "op/build.h"

static neap_status infer(neap_infer *x) {
  const neap_shape *from = &x->in[0].shape;
  bool seen[NEAP_MAX_DIMS] = {false};
  neap_opt *o = &x->opt[0];
  if (o->n != from->ndim)
    return neap__fail(x->err, NEAP_SHAPE, "%d dims are given for %d dimensions", (int)o->n, (int)from->ndim);
  x->out[0] = x->in[0];
  for (int32_t i = 0; i < from->ndim; i++) {
    int32_t dim = 0;
    neap_status s = neap__dim_resolve(o->v.list[i], from->ndim, &dim, x->err);
    if (s != NEAP_OK) return s;
    if (seen[dim]) return neap__fail(x->err, NEAP_INVALID, "dim %d is given twice", (int)dim + 1);
    seen[dim] = true;
    o->v.list[i] = dim;
    x->out[0].shape.dim[i] = from->dim[dim];
  }
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  int64_t back[NEAP_MAX_DIMS] = {0};
  for (int32_t i = 0; i < n->opt[0].n; i++) back[n->opt[0].v.list[i]] = i;
  if (need & 1) gin[0] = neap__permute_by(g, gout[0], back, n->opt[0].n);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  out[0] = in[0];
  for (int32_t i = 0; i < n->opt[0].n; i++)
    if (n->opt[0].v.list[i] == in[0].dim) out[0].dim = i;
  return NEAP_OK;
}

static const char *const samples[] = {"f32[2,3,4]; dims=3,1,2", "f32[5,7]; dims=2,1", "f32[0,3]; dims=-1,1",
                                      "i64[2,3,4,5]; dims=1,3,4,2", NULL};

const neap_op neap__op_permute = {
    .name = "permute",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dims",
              .type = NEAP_OPT_DIMS,
              .required = true,
              .doc = "Every dimension once, in the order of the result."}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .samples = samples,
    .doc = "Dimensions in another order: dimension i of the result is dimension dims[i] of the input.",
    .example = "local images = neap.zeros(8, 32, 16, 3)\n"
               "print(table.concat(images:permute(1, 4, 2, 3).shape, \" \"))  --> 8 3 32 16",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...] -> [... by dims]",
};

static neap_id swap(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  int32_t ndim = neap__desc_at(g, in[0]).shape.ndim, a = 0, b = 0;
  if (!neap__dim_at(g, op, opt[0].v.i, ndim, &a) || !neap__dim_at(g, op, opt[1].v.i, ndim, &b)) return NEAP_NONE;
  if (a == b) return in[0];
  int64_t dims[NEAP_MAX_DIMS];
  for (int32_t i = 0; i < ndim; i++) dims[i] = i == a ? b : i == b ? a : i;
  return neap__permute_by(g, in[0], dims, ndim);
}

static const char *const transpose_samples[] = {"f32[2,3]; dim0=1; dim1=2", "f32[2,3,4]; dim0=-1; dim1=1",
                                                "f32[0,3]; dim0=1; dim1=2", NULL};

#define THE_TWO                                                                         \
  {.name = "dim0", .type = NEAP_OPT_DIM, .required = true, .doc = "One of the two."}, { \
    .name = "dim1", .type = NEAP_OPT_DIM, .required = true, .doc = "The other."         \
  }

const neap_op neap__op_transpose = {
    .name = "transpose",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {THE_TWO},
    .expand = swap,
    .samples = transpose_samples,
    .doc = "Two dimensions exchanged.",
    .example = "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
               "print(x:transpose(1, 2))  --> tensor fp32 [3, 2] {{1, 4}, {2, 5}, {3, 6}}",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...] -> [...]",
};

/* --- other ways to say it --- */

const neap_op neap__op_swapdims = {
    .name = "swapdims",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {THE_TWO},
    .expand = swap,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [...] -> [...]",
    .samples = transpose_samples,
    .doc = "Two dimensions exchanged: transpose by another name.",
    .example =
        "print(neap.tensor {{1, 2, 3}, {4, 5, 6}}:swapdims(1, 2))  --> tensor fp32 [3, 2] {{1, 4}, {2, 5}, {3, 6}}",
};

static neap_id matrix_transpose(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in,
                                const neap_opt *opt) {
  const neap_shape shape = neap__desc_at(g, in[0]).shape;
  char text[96];
  (void)n_in, (void)opt;
  if (shape.ndim < 2) return in[0];
  if (shape.ndim == 2) return neap__permute_by(g, in[0], (const int64_t[]){1, 0}, 2);
  return neap__graph_fail(g, op, NEAP_SHAPE, "shape %s, expected at most 2 dimensions (transpose takes more)",
                          neap__shape_text(&shape, text, sizeof text));
}

static const char *const t_samples[] = {"f32[2,3]", "f32[4]", "f32[]", "i64[0,3]", NULL};

const neap_op neap__op_t = {
    .name = "t",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .expand = matrix_transpose,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [m, n] -> [n, m]",
    .samples = t_samples,
    .doc = "A matrix transposed; what has fewer dimensions stays.",
    .example = "print(neap.tensor {{1, 2, 3}, {4, 5, 6}}:t())  --> tensor fp32 [3, 2] {{1, 4}, {2, 5}, {3, 6}}",
};

/* The dims of the result that are not in `to` take those of the input that are not in `from`, in order. */
static void fill_order(const neap_opt *from, const neap_opt *to, int32_t ndim, int64_t *order) {
  int64_t next = 0;
  for (int32_t i = 0; i < from->n; i++) order[to->v.list[i]] = from->v.list[i];
  for (int32_t d = 0; d < ndim; d++) {
    if (neap__opt_has_dim(to, d)) continue;
    while (neap__opt_has_dim(from, (int32_t)next)) next++;
    order[d] = next++;
  }
}

static bool resolve_list(neap_graph *g, const neap_op *op, const char *name, neap_opt *dims, int32_t ndim) {
  for (int32_t i = 0; i < dims->n; i++) {
    int32_t dim = 0;
    if (!neap__dim_at(g, op, dims->v.list[i], ndim, &dim)) return false;
    dims->v.list[i] = dim;
    for (int32_t k = 0; k < i; k++) {
      if (dims->v.list[k] != dim) continue;
      neap__graph_fail(g, op, NEAP_INVALID, "`%s` names dimension %d twice", name, (int)dim + 1);
      return false;
    }
  }
  return true;
}

static neap_id movedim(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int32_t ndim = neap__desc_at(g, in[0]).shape.ndim;
  neap_opt from = opt[0], to = opt[1];
  int64_t order[NEAP_MAX_DIMS] = {0};
  (void)n_in;
  if (from.n != to.n)
    return neap__graph_fail(g, op, NEAP_INVALID, "`source` has %d dims and `destination` %d, expected as many",
                            (int)from.n, (int)to.n);
  if (!resolve_list(g, op, "source", &from, ndim) || !resolve_list(g, op, "destination", &to, ndim)) return NEAP_NONE;
  if (ndim == 0) return in[0];
  fill_order(&from, &to, ndim, order);
  return neap__permute_by(g, in[0], order, ndim);
}

static const char *const move_samples[] = {
    "f32[2,3,4]; source=1; destination=-1", "f32[2,3,4,5]; source=1,2; destination=-1,1",
    "f32[0,3]; source=2; destination=1", "i64[2,3]; source=1; destination=1", NULL};

const neap_op neap__op_movedim = {
    .name = "movedim",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "source", .type = NEAP_OPT_DIMS, .required = true, .doc = "Dimensions that move."},
             {.name = "destination", .type = NEAP_OPT_DIMS, .required = true, .doc = "Where they go, in the result."}},
    .expand = movedim,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [...] -> [...]",
    .samples = move_samples,
    .doc = "Dimensions `source` moved to the places `destination`; the others keep their order.",
    .example = "local images = neap.zeros(8, 32, 16, 3)\n"
               "print(table.concat(images:movedim(4, 2).shape, \" \"))  --> 8 3 32 16",
};
