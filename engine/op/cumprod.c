/* Running products. */
#include "op/scan.h"

/* x_i is in all products from its own on: its gradient is the product before it times d_i + x_(i+1) (d_(i+1) + ...),
 * with no division, so that it is exact where elements are 0. */
static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  int32_t dim = (int32_t)n->opt[0].v.i;
  neap_desc d = neap__desc_at(g, n->out[0]);
  if (!(need & 1) || neap__shape_count(&d.shape) == 0) return;
  neap_id after = neap__linear_scan(g, neap__shifted(g, n->in[0], dim, 0, true), gout[0], dim, true);
  gin[0] = neap__build2(g, &neap__op_mul, after, neap__shifted(g, n->out[0], dim, 1, false));
}

static const char *const samples[] = {"f32[2,5]; dim=2",
                                      "f32[2,3,4]; dim=2",
                                      "f32[0,3]; dim=2",
                                      "f64[7]; dim=1",
                                      "i64[3,4]; dim=1",
                                      "bool[6]; dim=1",
                                      NULL};

const neap_op neap__op_cumprod = {
    .name = "cumprod",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = NEAP_PREC_KEEP,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension to go along."}},
    .infer = neap__infer_running,
    .grad = grad,
    .batch = neap__batch_lines,
    .samples = samples,
    .doc = "Products along `dim` up to and with each element; integers and bool give int64.",
    .example = "print(neap.cumprod(neap.tensor {1, 2, 3, 4}, 1))  --> tensor fp32 [4] {1, 2, 6, 24}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [...]",
};
