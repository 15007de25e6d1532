/* Order along a dimension. Equal elements keep their order; NaN is the largest, as in torch. */
#include "op/index.h"
#include "op/scan.h"

static neap_status infer(neap_infer *x) {
  x->out[0] = (neap_desc){NEAP_I64, x->in[0].shape};
  return neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err);
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  double n = (double)neap__shape_count(&s->in[0].desc.shape), depth = 1;
  int64_t dim = s->opt[0].v.i;
  for (int64_t r = dim < s->in[0].desc.shape.ndim ? s->in[0].desc.shape.dim[dim] : 1; r > 1; r /= 2) depth++;
  *flops = n * depth;
  *bytes = (double)neap__desc_bytes(&s->in[0].desc) + (double)neap__desc_bytes(&s->out[0].desc);
}

static const char *const samples[] = {"f32[2,5]:distinct; dim=2", "f32[2,3,4]:distinct; dim=2; descending=true",
                                      "f32[0,3]; dim=2",          "i64[3,7]:below=3",
                                      "f64[9]:distinct; dim=1",   NULL};

#define DIM \
  { .name = "dim", .type = NEAP_OPT_DIM, .def = -1, .has_default = true, .doc = "Dimension to go along." }
#define DESCENDING                                                              \
  {                                                                             \
    .name = "descending", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true, \
    .doc = "Whether the largest comes first."                                   \
  }

const neap_op neap__op_argsort = {
    .name = "argsort",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {DIM, DESCENDING},
    .infer = infer,
    .batch = neap__batch_lines,
    .cost = cost,
    .samples = samples,
    .doc = "0-based places of the elements in order along `dim`; equal ones keep theirs, NaN is the largest.",
    .example = "print(neap.argsort(neap.tensor {3, 1, 2}))  --> tensor int64 [3] {1, 2, 0}",
    .topic = NEAP_TOPIC_SORT,
    .args = "x [...] -> [...] int64",
};

static neap_id order(neap_graph *g, neap_id x, int32_t dim, bool descending) {
  return neap__build(g, &neap__op_argsort, &x, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim), NEAP_INT(descending)});
}

static void with_places(neap_graph *g, neap_id x, neap_id places, int32_t dim, neap_id *out) {
  out[0] = neap__gather_at(g, x, places, dim);
  out[1] = places;
}

static void sort(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                 neap_id *out) {
  (void)n_in;
  int32_t dim;
  if (neap__dim_at(g, op, opt[0].v.i, neap__desc_at(g, in[0]).shape.ndim, &dim))
    with_places(g, in[0], order(g, in[0], dim, opt[1].v.i != 0), dim, out);
}

static void topk(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                 neap_id *out) {
  (void)n_in;
  int32_t dim;
  neap_shape shape = neap__desc_at(g, in[0]).shape;
  if (!neap__dim_at(g, op, opt[1].v.i, shape.ndim, &dim)) return;
  int64_t size = shape.ndim ? shape.dim[dim] : 1, k = opt[0].v.i;
  if (k > size || (shape.ndim == 0 && k == 0)) {
    neap__graph_fail(g, op, NEAP_RANGE, "`k` is %lld, but dimension %d has %lld entries", (long long)k, dim + 1,
                     (long long)size);
    return;
  }
  neap_id places = order(g, in[0], dim, opt[2].v.i != 0);
  with_places(g, in[0], k == size ? places : neap__narrow_to(g, places, dim, 0, k), dim, out);
}

static const char *const topk_samples[] = {"f32[2,5]:distinct; k=3",
                                           "f32[4,3]:distinct; k=2; dim=1",
                                           "f32[2,5]:distinct; k=2; largest=false",
                                           "f32[2,5]:distinct; k=0",
                                           "f32[0,3]; k=1",
                                           "f64[9]:distinct; k=9",
                                           "i64[3,7]:below=3; k=2",
                                           NULL};

const neap_op neap__op_sort = {
    .name = "sort",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .results = 2,
    .opts = {DIM, DESCENDING},
    .expand_all = sort,
    .samples = samples,
    .doc =
        "The elements in order along `dim`, and their 0-based places; equal ones keep their order, NaN is the largest.",
    .example = "local values, places = neap.sort(neap.tensor {3, 1, 2})\n"
               "print(values)  --> tensor fp32 [3] {1, 2, 3}\n"
               "print(places)  --> tensor int64 [3] {1, 2, 0}\n"
               "print((neap.sort(neap.tensor {3, 1, 2}, {descending = true})))  --> tensor fp32 [3] {3, 2, 1}",
    .topic = NEAP_TOPIC_SORT,
    .args = "x [...] -> values [...], places [...] int64",
};

const neap_op neap__op_topk = {
    .name = "topk",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .results = 2,
    .opts = {{.name = "k", .type = NEAP_OPT_INT, .required = true, .min = 0, .max = 1e15, .doc = "How many."},
             DIM,
             {.name = "largest",
              .type = NEAP_OPT_BOOL,
              .def = 1,
              .has_default = true,
              .doc = "Whether the largest are chosen, rather than the smallest."}},
    .expand_all = topk,
    .samples = topk_samples,
    .doc = "The `k` largest (or smallest) elements along `dim`, in order, and their 0-based places; of equal ones the "
           "first, NaN is the largest.",
    .example = "local x = neap.tensor {{5, 1, 9}, {2, 8, 4}}\n"
               "local values, places = x:topk(2)\n"
               "print(values)  --> tensor fp32 [2, 2] {{9, 5}, {8, 4}}\n"
               "print(places)  --> tensor int64 [2, 2] {{2, 0}, {1, 2}}\n"
               "print((x:topk(1, {largest = false})))  --> tensor fp32 [2, 1] {{1}, {2}}",
    .topic = NEAP_TOPIC_SORT,
    .args = "x [...] -> values [..., k, ...], places [..., k, ...] int64",
};
