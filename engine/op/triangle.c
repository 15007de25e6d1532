/* Triangles of the matrices in the last two dimensions. */
#include "op/build.h"

static neap_status infer(neap_infer *x) {
  char text[96];
  x->out[0] = x->in[0];
  if (x->in[0].shape.ndim >= 2) return NEAP_OK;
  return neap__fail(x->err, NEAP_SHAPE, "shape %s, expected at least 2 dimensions",
                    neap__shape_text(&x->in[0].shape, text, sizeof text));
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__build(g, n->op, gout, 1, n->opt);
}

/* Samples inside the matrices would not know their place in a micro-batch. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s = neap__batch_same(g, n, in, out);
  bool samples = s == NEAP_OK && neap__batch_carries(&out[0]);
  return samples && out[0].dim >= neap__desc_at(g, n->in[0]).shape.ndim - 2 ? NEAP_UNSUPPORTED : s;
}

static const char *const samples[] = {"f32[3,4]",
                                      "f32[4,3]; diagonal=1",
                                      "f32[2,3,3]; diagonal=-1",
                                      "f64[2,2]",
                                      "f32[0,3]",
                                      "bool[3,3]",
                                      "i64[3,3]:below=9",
                                      NULL};

#define TRIANGLE(op_name, ...)                                                                          \
  {                                                                                                     \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1, .precision = NEAP_PREC_FOLLOW, .inplace = 1, \
    .opts = {{.name = "diagonal",                                                                       \
              .type = NEAP_OPT_INT,                                                                     \
              .def = 0,                                                                                 \
              .has_default = true,                                                                      \
              .doc = "0 is the main diagonal, 1 the next above, -1 the next below."}},                  \
    .infer = infer, .grad = grad, .batch = batch, .samples = samples, .doc = __VA_ARGS__                \
  }

const neap_op neap__op_triu =
    TRIANGLE("triu", "Matrices in the last two dimensions with zeros below diagonal `diagonal`.",
             "local x = neap.ones(3, 3)\n"
             "print(x:triu())  --> tensor fp32 [3, 3] {{1, 1, 1}, {0, 1, 1}, {0, 0, 1}}\n"
             "print(x:triu(1))  --> tensor fp32 [3, 3] {{0, 1, 1}, {0, 0, 1}, {0, 0, 0}}",
             NEAP_TOPIC_PRODUCT, "x [..., m, n] -> [..., m, n]");
const neap_op neap__op_tril =
    TRIANGLE("tril", "Matrices in the last two dimensions with zeros above diagonal `diagonal`.",
             "local x = neap.ones(3, 3)\n"
             "print(x:tril())  --> tensor fp32 [3, 3] {{1, 0, 0}, {1, 1, 0}, {1, 1, 1}}\n"
             "print(x:tril(1))  --> tensor fp32 [3, 3] {{1, 1, 0}, {1, 1, 1}, {1, 1, 1}}",
             NEAP_TOPIC_PRODUCT, "x [..., m, n] -> [..., m, n]");
