/* A range of one dimension, its inverse, and choosing one index. Positions are 0-based here (negative:
 * from the end), 1-based in scripts. */
#include "op/build.h"

static neap_status check_range(neap_infer *x, int64_t size, const char *what) {
  int64_t start = x->opt[1].v.i, length = x->opt[2].v.i;
  if (start < 0) start += size;
  if (start < 0 || length < 0 || start > size || length > size - start)
    return neap__fail(x->err, NEAP_RANGE,
                      "%s: start %lld (from 0) and length %lld pass the size %lld of dimension %lld", what,
                      (long long)x->opt[1].v.i, (long long)length, (long long)size, (long long)(x->opt[0].v.i + 1));
  x->opt[1].v.i = start;
  return NEAP_OK;
}

static neap_status take_dim(neap_infer *x) {
  if (x->in[0].shape.ndim == 0) return neap__fail(x->err, NEAP_SHAPE, "a scalar has no dimension to take from");
  return neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err);
}

static neap_status infer(neap_infer *x) {
  neap_status s = take_dim(x);
  if (s == NEAP_OK) s = check_range(x, x->in[0].shape.dim[x->opt[0].v.i], "narrow");
  if (s != NEAP_OK) return s;
  x->out[0] = x->in[0];
  x->out[0].shape.dim[x->opt[0].v.i] = x->opt[2].v.i;
  return NEAP_OK;
}

/* Options: dim, start, size of the result. */
static neap_status infer_place(neap_infer *x) {
  neap_status s = take_dim(x);
  if (s != NEAP_OK) return s;
  int64_t dim = x->opt[0].v.i, start = x->opt[1].v.i, size = x->opt[2].v.i, length = x->in[0].shape.dim[dim];
  if (start < 0 || size < start || size - start < length)
    return neap__fail(x->err, NEAP_RANGE, "%lld elements at %lld do not fit into %lld", (long long)length,
                      (long long)start, (long long)size);
  x->out[0] = x->in[0];
  x->out[0].shape.dim[dim] = size;
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  int64_t dim = n->opt[0].v.i, size = neap__desc_at(g, n->in[0]).shape.dim[dim];
  if (need & 1)
    gin[0] = neap__build(g, &neap__op_place, &gout[0], 1,
                         (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim), NEAP_INT(n->opt[1].v.i), NEAP_INT(size)});
}

static void grad_place(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  int64_t dim = n->opt[0].v.i, length = neap__desc_at(g, n->in[0]).shape.dim[dim];
  if (need & 1) gin[0] = neap__narrow_to(g, gout[0], (int32_t)dim, n->opt[1].v.i, length);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s = neap__batch_same(g, n, in, out);
  bool samples = s == NEAP_OK && neap__batch_carries(&out[0]);
  return samples && out[0].dim == n->opt[0].v.i ? NEAP_UNSUPPORTED : s;
}

static const char *const samples[] = {"f32[5,3]; dim=1; start=2; length=3", "f32[2,6]; dim=-1; start=1; length=2",
                                      "f32[2,6,3]; dim=2; start=-2; length=2", "f32[4]; dim=1; start=1; length=0",
                                      NULL};
static const char *const place_samples[] = {"f32[3,3]; dim=1; start=1; length=6", "f32[2,3]; dim=2; start=0; length=3",
                                            "f32[2,0]; dim=2; start=0; length=2", NULL};

const neap_op neap__op_narrow = {
    .name = "narrow",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension to cut."},
             {.name = "start",
              .type = NEAP_OPT_INT,
              .required = true,
              .doc = "Position of the first entry, from 1 on; negative from the end."},
             {.name = "length", .type = NEAP_OPT_INT, .required = true, .doc = "Number of entries."}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .samples = samples,
    .doc = "`length` entries of dimension `dim` from `start` on. Outside a trace and along dimension 1 the result "
           "shares the memory of x.",
    .example = "local x = neap.arange(10, 16)\n"
               "print(x:narrow(1, 3, 2))  --> tensor int64 [2] {12, 13}\n"
               "print(x:narrow(1, -2, 2))  --> tensor int64 [2] {14, 15}",
    .topic = NEAP_TOPIC_INDEX,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_place = {
    .name = "place",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true},
             {.name = "start", .type = NEAP_OPT_INT, .required = true},
             {.name = "length", .type = NEAP_OPT_INT, .required = true}},
    .infer = infer_place,
    .grad = grad_place,
    .batch = batch,
    .samples = place_samples,
    .doc = "The input at `start` of dimension `dim` of zeros; the dimension has `length` entries.",
};

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_shape shape = neap__desc_at(g, in[0]).shape;
  int32_t dim = 0;
  if (shape.ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar has no dimension to select from");
  if (!neap__dim_at(g, op, opt[0].v.i, shape.ndim, &dim)) return NEAP_NONE;
  int64_t size = shape.dim[dim], index = opt[1].v.i < 0 ? opt[1].v.i + size : opt[1].v.i;
  if (index < 0 || index >= size)
    return neap__graph_fail(g, op, NEAP_RANGE, "index %lld (from 0) is out of range: dimension %d has %lld entries",
                            (long long)opt[1].v.i, dim + 1, (long long)size);
  neap_id row = neap__narrow_to(g, in[0], dim, index, 1);
  for (int32_t i = dim; i + 1 < shape.ndim; i++) shape.dim[i] = shape.dim[i + 1];
  shape.ndim--;
  return neap__reshape_to(g, row, &shape);
}

static const char *const select_samples[] = {"f32[5,3]; dim=1; index=2", "f32[2,6]; dim=-1; index=-1",
                                             "f32[2,0,3]; dim=1; index=1", NULL};

const neap_op neap__op_select = {
    .name = "select",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension to take from."},
             {.name = "index",
              .type = NEAP_OPT_INT,
              .required = true,
              .doc = "Position of the entry, from 1 on; negative from the end."}},
    .expand = expand,
    .samples = select_samples,
    .doc = "Entry `index` of dimension `dim`, without that dimension; x[i] along the first. Outside a trace and along "
           "dimension 1 the result shares the memory of x.",
    .example = "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
               "print(x:select(1, 2))  --> tensor fp32 [3] {4, 5, 6}\n"
               "print(x:select(2, -1))  --> tensor fp32 [2] {3, 6}",
    .topic = NEAP_TOPIC_INDEX,
    .args = "x [...] -> [... without dim]",
};
