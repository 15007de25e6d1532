/* Running sums. */
#include "op/scan.h"

/* Each element is in the sums from its own on: the same sums of the gradient from the other end. */
static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_opt o[NEAP_MAX_OPTS] = {n->opt[0], NEAP_INT(!n->opt[1].v.i)};
  if (need & 1) gin[0] = neap__build(g, &neap__op_running_sum, gout, 1, o);
}

static const char *const running_samples[] = {
    "f32[2,5]; dim=2",         "f32[2,3,4]; dim=2; reverse=true", "f32[0,3]; dim=2",
    "i64[3,4]:below=9; dim=1", "f64[7]; dim=1; reverse=true",     NULL};

const neap_op neap__op_running_sum = {
    .name = "running_sum",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true},
             {.name = "reverse", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true}},
    .infer = neap__infer_running,
    .grad = grad,
    .batch = neap__batch_lines,
    .samples = running_samples,
    .doc = "Sums of the entries of dimension `dim` up to each one, or from each one on.",
};

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op;
  return neap__build(g, &neap__op_running_sum, in, n_in, (neap_opt[NEAP_MAX_OPTS]){opt[0]});
}

static const char *const samples[] = {"f32[2,5]; dim=2",
                                      "f32[2,3,4]; dim=1",
                                      "f32[0,3]; dim=2",
                                      "i64[3,4]:below=9; dim=1",
                                      "bool[6]; dim=1",
                                      "f64[7]; dim=1",
                                      NULL};

const neap_op neap__op_cumsum = {
    .name = "cumsum",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension to sum along."}},
    .expand = expand,
    .samples = samples,
    .doc = "Sums along `dim` up to and with each element; integers and bool give int64.",
    .example = "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
               "print(x:cumsum(2))  --> tensor fp32 [2, 3] {{1, 3, 6}, {4, 9, 15}}\n"
               "print(x:cumsum(1))  --> tensor fp32 [2, 3] {{1, 2, 3}, {5, 7, 9}}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [...]",
};
