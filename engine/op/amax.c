/* Largest and smallest values, and where they are. */
#include "op/build.h"

static neap_status infer(neap_infer *x) {
  const neap_shape *from = &x->in[0].shape;
  char text[96];
  neap_status s = neap__dims_resolve(&x->opt[0], from->ndim, x->err);
  if (s != NEAP_OK) return s;
  for (int32_t i = 0; i < x->opt[0].n; i++)
    if (from->dim[x->opt[0].v.list[i]] == 0)
      return neap__fail(x->err, NEAP_SHAPE, "shape %s has nothing along dimension %lld to choose from",
                        neap__shape_text(from, text, sizeof text), (long long)(x->opt[0].v.list[i] + 1));
  x->out[0] = (neap_desc){x->in[0].dtype, neap__reduced_shape(from, &x->opt[0], x->opt[1].v.i != 0)};
  return NEAP_OK;
}

static neap_status infer_arg(neap_infer *x) {
  neap_status s = infer(x);
  x->out[0].dtype = NEAP_I64;
  return s;
}

/* Equal values share the gradient, as in torch.amax. */
static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (!(need & 1)) return;
  neap_id x = n->in[0], y = neap__keep_dims(g, n->out[0], x, &n->opt[0]);
  neap_id d = neap__keep_dims(g, gout[0], x, &n->opt[0]);
  neap_id hit = neap__cast(g, neap__build2(g, &neap__op_eq, x, y), neap__desc_at(g, d).dtype);
  neap_id count = neap__reduce(g, &neap__op_sum, hit, n->opt[0].v.list, n->opt[0].n, true);
  gin[0] = neap__build2(g, &neap__op_mul, hit, neap__build2(g, &neap__op_div, d, count));
}

static const char *const samples[] = {
    "f32[2,3]:distinct", "f32[2,3,4]:distinct; dim=2", "f32[2,3,4]:distinct; dim=1,3; keepdim=true",
    "f32[0,3]; dim=-1",  "i64[3,4]:below=3; dim=1",    NULL};
static const char *const arg_samples[] = {"f32[2,3]:distinct",
                                          "f32[2,3,4]:distinct; dim=2",
                                          "f32[2,3]:distinct; dim=-1; keepdim=true",
                                          "f32[2,3,4]:distinct; dim=1,3",
                                          "f32[0,3]; dim=2",
                                          "i64[3,4]:below=3; dim=1",
                                          NULL};

#define EXTREME(op_name, ...)                                                                                         \
  {                                                                                                                   \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1, .precision = NEAP_PREC_FOLLOW,                             \
    .opts = {NEAP_DIMS, NEAP_KEEPDIM}, .infer = infer, .grad = grad, .batch = neap__batch_reduce, .samples = samples, \
    .doc = __VA_ARGS__                                                                                                \
  }
#define POSITION(op_name, ...)                                                                                  \
  {                                                                                                             \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1, .nondiff = true, .precision = NEAP_PREC_FOLLOW,      \
    .opts = {NEAP_DIMS, NEAP_KEEPDIM}, .infer = infer_arg, .batch = neap__batch_reduce, .samples = arg_samples, \
    .doc = __VA_ARGS__                                                                                          \
  }

const neap_op neap__op_amax =
    EXTREME("amax", "Largest value over the dimensions `dim`; NaN wins; equal values share the gradient.",
            "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
            "print(x:amax {1, 2})  --> tensor fp32 [] 6\n"
            "print(x:amax(1))  --> tensor fp32 [3] {4, 5, 6}",
            NEAP_TOPIC_REDUCTION, "x [...] -> [... without dim]");
const neap_op neap__op_amin =
    EXTREME("amin", "Smallest value over the dimensions `dim`; NaN wins; equal values share the gradient.",
            "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
            "print(x:amin {1, 2})  --> tensor fp32 [] 1\n"
            "print(x:amin(1))  --> tensor fp32 [3] {1, 2, 3}",
            NEAP_TOPIC_REDUCTION, "x [...] -> [... without dim]");
const neap_op neap__op_argmax =
    POSITION("argmax",
             "0-based place of the first largest value along `dim` (in the flat tensor when left out; over several "
             "dimensions in row-major order); NaN is the largest.",
             "local x = neap.tensor {{1, 9, 3}, {7, 5, 6}}\n"
             "print(x:argmax())  --> tensor int64 [] 1\n"
             "print(x:argmax(2))  --> tensor int64 [2] {1, 0}",
             NEAP_TOPIC_REDUCTION, "x [...] -> [... without dim] int64");
const neap_op neap__op_argmin =
    POSITION("argmin",
             "0-based place of the first smallest value along `dim` (in the flat tensor when left out; over several "
             "dimensions in row-major order); NaN is the smallest.",
             "local x = neap.tensor {{1, 9, 3}, {7, 5, 6}}\n"
             "print(x:argmin())  --> tensor int64 [] 0\n"
             "print(x:argmin(2))  --> tensor int64 [2] {0, 1}",
             NEAP_TOPIC_REDUCTION, "x [...] -> [... without dim] int64");

static void aminmax(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                    neap_id *out) {
  (void)op, (void)n_in;
  out[0] = neap__build(g, &neap__op_amin, in, 1, opt);
  out[1] = neap__build(g, &neap__op_amax, in, 1, opt);
}

const neap_op neap__op_aminmax = {
    .name = "aminmax",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .results = 2,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .expand_all = aminmax,
    .samples = samples,
    .doc = "Smallest and largest value over the dimensions `dim` (all when left out).",
    .example = "local low, high = neap.aminmax(neap.tensor {{3, 1, 2}, {4, 6, 5}}, 2)\n"
               "print(low)  --> tensor fp32 [2] {1, 4}\n"
               "print(high)  --> tensor fp32 [2] {3, 6}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> low [... without dim], high [... without dim]",
};
