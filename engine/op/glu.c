/* A half gated by the other. */
#include "op/build.h"

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  int32_t dim;
  if (!neap__is_floating(g, op, in[0]) || !neap__dim_at(g, op, opt[0].v.i, neap__desc_at(g, in[0]).shape.ndim, &dim))
    return NEAP_NONE;
  neap_shape s = neap__desc_at(g, in[0]).shape;
  if (s.ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar has no halves");
  int64_t half = s.dim[dim] / 2;
  if (s.dim[dim] % 2)
    return neap__graph_fail(g, op, NEAP_SHAPE, "dimension %d has %lld entries, expected an even number", dim + 1,
                            (long long)s.dim[dim]);
  neap_id gate = neap__build1(g, &neap__op_sigmoid, neap__narrow_to(g, in[0], dim, half, half));
  return neap__build2(g, &neap__op_mul, neap__narrow_to(g, in[0], dim, 0, half), gate);
}

static const char *const samples[] = {"f32[2,6]", "f32[4,3]; dim=1", "f32[0,4]", "f64[6]", NULL};

const neap_op neap__op_glu = {
    .name = "glu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .def = -1, .has_default = true, .doc = "Dimension that is halved."}},
    .expand = expand,
    .samples = samples,
    .doc = "The first half along `dim` times the sigmoid of the second (Dauphin et al. 2016).",
    .example = "print(neap.glu(neap.tensor {1, 2, 0, 0}))  --> tensor fp32 [2] {0.5, 1}",
    .topic = NEAP_TOPIC_ACTIVATION,
    .args = "x [...] -> [...]",
};
