/* Running logarithms of sums of exponentials. */
#include "op/scan.h"

#define OP(op, a, b) neap__build2(g, &neap__op_##op, a, b)

static neap_status infer(neap_infer *x) {
  neap_status s = neap__need_float(x, 0);
  x->out[0] = x->in[0];
  return s == NEAP_OK ? neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err) : s;
}

/* exp(a - b), where equal infinities differ by 0. */
static neap_id ratio(neap_graph *g, neap_id a, neap_id b) {
  neap_id gap = neap__build3(g, &neap__op_where, OP(eq, a, b), neap__const_like(g, a, 0), OP(sub, a, b));
  return neap__build1(g, &neap__op_exp, gap);
}

/* What reaches y_i comes from d_i, and by the part exp(y_i - y_(i+1)) from what reaches y_(i+1); the part of x_i in y_i
 * is exp(x_i - y_i). None is above 1. */
static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  int32_t dim = (int32_t)n->opt[0].v.i;
  neap_id y = n->out[0], reaches = gout[0];
  neap_shape s = neap__desc_at(g, y).shape;
  int64_t r = s.ndim ? s.dim[dim] : 1;
  if (!(need & 1) || neap__shape_count(&s) == 0) return;
  if (r > 1) {
    neap_id part = ratio(g, neap__narrow_to(g, y, dim, 0, r - 1), neap__narrow_to(g, y, dim, 1, r - 1));
    reaches = neap__linear_scan(g, neap__with_entry(g, part, dim, 0, false), reaches, dim, true);
  }
  gin[0] = OP(mul, reaches, ratio(g, n->in[0], y));
}

static const char *const samples[] = {"f32[2,5]; dim=2", "f32[2,3,4]; dim=2", "f32[0,3]; dim=2",
                                      "f64[7]; dim=1",   "f32[3,1]; dim=2",   NULL};

const neap_op neap__op_logcumsumexp = {
    .name = "logcumsumexp",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_KEEP,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension to go along."}},
    .infer = infer,
    .grad = grad,
    .batch = neap__batch_lines,
    .samples = samples,
    .doc = "Logarithm of the sum of exp(x) along `dim` up to and with each element, without overflow.",
    .example = "print(neap.logcumsumexp(neap.tensor {0, 0, 1000}, 1))  --> tensor fp32 [3] {0, 0.6931472, 1000}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [...]",
};
