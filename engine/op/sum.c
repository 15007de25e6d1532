/* Sums and means over dimensions. */
#include "op/build.h"

static neap_status infer(neap_infer *x) {
  const neap_shape *from = &x->in[0].shape;
  neap_status s = neap__dims_resolve(&x->opt[0], from->ndim, x->err);
  if (s != NEAP_OK) return s;
  neap_dtype t = x->in[0].dtype;
  x->out[0].dtype = neap__dtype_is_float(t) ? t : NEAP_I64;
  x->out[0].shape = neap__reduced_shape(from, &x->opt[0], x->opt[1].v.i != 0);
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 1)) return;
  neap_id d = neap__keep_dims(g, gout[0], n->in[0], &n->opt[0]);
  gin[0] = neap__expand_as(g, d, n->in[0]);
}

/* Summing over samples is what accumulation does, whatever else a sample's entries depend on. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  bool samples = neap__batch_carries(&in[0]);
  if (!samples || !neap__opt_has_dim(&n->opt[0], in[0].dim)) return neap__batch_reduce(g, n, in, out);
  out[0] = (neap_batch){.kind = NEAP_B_SUM};
  return NEAP_OK;
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  *flops = (double)neap__shape_count(&s->in[0].desc.shape);
  *bytes = (double)neap__desc_bytes(&s->in[0].desc) + (double)neap__desc_bytes(&s->out[0].desc);
}

static const char *const samples[] = {"f32[2,3]",         "f32[2,3,4]; dim=2", "f32[2,3,4]; dim=1,3; keepdim=true",
                                      "f32[4,5]; dim=-1", "f32[0,3]; dim=1",   "f64[3,7]; dim=1",
                                      "i64[2,3]; dim=2",  "bool[9]",           NULL};

const neap_op neap__op_sum = {
    .name = "sum",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_KEEP,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "Sum over the dimensions `dim`; integers and bool give int64, and the sum of nothing is 0. Halves are "
           "summed in fp32.",
    .example = "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
               "print(x:sum())  --> tensor fp32 [] 21\n"
               "print(x:sum(1))  --> tensor fp32 [3] {5, 7, 9}\n"
               "print(x:sum {dim = 2, keepdim = true})  --> tensor fp32 [2, 1] {{6}, {15}}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim]",
};

static neap_id mean(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_shape shape = neap__desc_at(g, in[0]).shape;
  neap_opt o[NEAP_MAX_OPTS] = {opt[0], opt[1]};
  if (!neap__is_floating(g, op, in[0]) || !neap__dims_of(g, op, in[0], &opt[0], &o[0])) return NEAP_NONE;
  double count = (double)neap__count_along(&shape, &o[0]);
  return neap__scale(g, neap__build(g, &neap__op_sum, in, 1, o), 1.0 / count);
}

static const char *const mean_samples[] = {"f32[2,3]",
                                           "f32[2,3,4]; dim=2",
                                           "f32[2,3,4]; dim=1,3; keepdim=true",
                                           "f32[4,5]; dim=-1",
                                           "f32[3,0]; dim=1",
                                           "f64[3,7]; dim=1",
                                           NULL};

const neap_op neap__op_mean = {
    .name = "mean",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .expand = mean,
    .samples = mean_samples,
    .doc = "Mean over the dimensions `dim`; the mean of nothing is NaN.",
    .example = "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
               "print(x:mean())  --> tensor fp32 [] 3.5\n"
               "print(x:mean(-1))  --> tensor fp32 [2] {2, 5}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim]",
};
