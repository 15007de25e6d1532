#include "op/build.h"

/* Amounts come in pairs, the last dimension's first; dimension d's pair: */
static int64_t amount(const neap_opt *o, int32_t ndim, int32_t d, int side) {
  int32_t at = 2 * (ndim - 1 - d) + side;
  return at < o->n ? o->v.list[at] : 0;
}

static neap_status infer(neap_infer *x) {
  const neap_opt *o = &x->opt[0];
  x->out[0] = x->in[0];
  neap_shape *shape = &x->out[0].shape;
  if (o->n % 2 || o->n > 2 * shape->ndim)
    return neap__fail(x->err, NEAP_INVALID, "`pad` has %d amounts, expected a pair for each of up to %d dimensions",
                      (int)o->n, (int)shape->ndim);
  for (int32_t d = 0; d < shape->ndim; d++)
    for (int side = 0; side < 2; side++) {
      int64_t a = amount(o, shape->ndim, d, side);
      if (a < 0)
        return neap__fail(x->err, NEAP_RANGE, "`pad` has the amount %lld, expected 0 or more (narrow cuts)",
                          (long long)a);
      if (__builtin_add_overflow(shape->dim[d], a, &shape->dim[d]))
        return neap__fail(x->err, NEAP_RANGE, "padding by %lld is too large", (long long)a);
    }
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_shape shape = neap__desc_at(g, n->in[0]).shape;
  neap_id v = gout[0];
  if (!(need & 1)) return;
  for (int32_t d = 0; d < shape.ndim; d++) {
    int64_t before = amount(&n->opt[0], shape.ndim, d, 0), after = amount(&n->opt[0], shape.ndim, d, 1);
    if (before || after) v = neap__narrow_to(g, v, d, before, shape.dim[d]);
  }
  gin[0] = v;
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  int32_t ndim = g->values[n->in[0]].desc.shape.ndim;
  out[0] = in[0];
  bool grows = amount(&n->opt[0], ndim, in[0].dim, 0) || amount(&n->opt[0], ndim, in[0].dim, 1);
  return grows ? NEAP_UNSUPPORTED : NEAP_OK;
}

static const char *const samples[] = {"f32[2,3]; pad=1,2",         "f32[2,3]; pad=1,0,0,2",
                                      "f32[1,2,3,4]; pad=1,1,2,2", "f32[2,0]; pad=1,1; value=3",
                                      "i64[3]; pad=0,2; value=7",  NULL};

const neap_op neap__op_pad = {
    .name = "pad",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "pad",
              .type = NEAP_OPT_INTS,
              .required = true,
              .doc = "A pair for each of the last dimensions, the last one's first; none is negative."},
             {.name = "value", .type = NEAP_OPT_FLOAT, .def = 0, .has_default = true, .doc = "What is added."}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .samples = samples,
    .doc = "Adds `value` around the input: amounts before and after, the last dimension's pair first.",
    .example = "local x = neap.tensor {{1, 2}, {3, 4}}\n"
               "print(x:pad({1, 0}))  --> tensor fp32 [2, 3] {{0, 1, 2}, {0, 3, 4}}\n"
               "print(x:pad({0, 0, 1, 1}, {value = 9}))  --> tensor fp32 [4, 2] {{9, 9}, {1, 2}, {3, 4}, {9, 9}}",
    .topic = NEAP_TOPIC_JOIN,
    .args = "x [...] -> [... and more]",
};
