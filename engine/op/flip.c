/* Dimensions back to front. */
#include "op/build.h"

static neap_status infer(neap_infer *x) {
  x->out[0] = x->in[0];
  return neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err);
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  if (need & 1) gin[0] = neap__build(g, &neap__op_reverse, gout, 1, n->opt);
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s = neap__batch_same(g, n, in, out);
  bool samples = s == NEAP_OK && neap__batch_carries(&out[0]);
  return samples && out[0].dim == n->opt[0].v.i ? NEAP_UNSUPPORTED : s;
}

static const char *const reverse_samples[] = {"f32[2,5]; dim=2", "f32[4,3]; dim=1", "f64[2,3,2]; dim=2",
                                              "f32[0,3]; dim=1", "bool[5]; dim=1",  NULL};

const neap_op neap__op_reverse = {
    .name = "reverse",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .samples = reverse_samples,
    .doc = "Dimension `dim` back to front.",
};

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_opt dims = opt[0];
  neap_shape shape = neap__desc_at(g, in[0]).shape;
  neap_error err;
  neap_id x = in[0];
  if (shape.ndim == 0) return x;
  neap_status s = neap__dims_resolve(&dims, shape.ndim, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message);
  for (int32_t i = 0; i < dims.n && x != NEAP_NONE; i++)
    if (shape.dim[dims.v.list[i]] > 1)
      x = neap__build(g, &neap__op_reverse, &x, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dims.v.list[i])});
  return x;
}

static const char *const samples[] = {"f32[2,5]; dim=2", "f32[2,3,4]; dim=1,3", "f32[0,3]; dim=1", "i64[4]", NULL};

const neap_op neap__op_flip = {
    .name = "flip",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIMS, .doc = "Dimensions to turn; all when left out."}},
    .expand = expand,
    .samples = samples,
    .doc = "The dimensions `dim` back to front.",
    .example = "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
               "print(x:flip(2))  --> tensor fp32 [2, 3] {{3, 2, 1}, {6, 5, 4}}\n"
               "print(x:flip())  --> tensor fp32 [2, 3] {{6, 5, 4}, {3, 2, 1}}",
    .topic = NEAP_TOPIC_JOIN,
    .args = "x [...] -> [...]",
};

static neap_id rot90(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int32_t ndim = neap__desc_at(g, in[0]).shape.ndim;
  const int64_t turns = (opt[0].v.i % 4 + 4) % 4;
  int32_t plane[2] = {0, 1};
  int64_t dims[NEAP_MAX_DIMS];
  (void)n_in;
  if (opt[1].set && opt[1].n != 2)
    return neap__graph_fail(g, op, NEAP_INVALID, "`dims` has %d entries, expected the 2 of a plane", (int)opt[1].n);
  if (ndim < 2) return neap__graph_fail(g, op, NEAP_SHAPE, "the input has no plane: %d dimensions, expected 2", ndim);
  for (int i = 0; i < 2 && opt[1].set; i++)
    if (!neap__dim_at(g, op, opt[1].v.list[i], ndim, &plane[i])) return NEAP_NONE;
  if (plane[0] == plane[1])
    return neap__graph_fail(g, op, NEAP_INVALID, "`dims` names dimension %d twice", plane[0] + 1);
  for (int32_t d = 0; d < ndim; d++) dims[d] = d == plane[0] ? plane[1] : d == plane[1] ? plane[0] : d;
  neap_id x = in[0];
  if (turns == 1 || turns == 2)
    x = neap__build(g, &neap__op_reverse, &x, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(plane[1])});
  if (turns == 2 || turns == 3)
    x = neap__build(g, &neap__op_reverse, &x, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(plane[0])});
  return turns % 2 && x != NEAP_NONE ? neap__permute_by(g, x, dims, ndim) : x;
}

static const char *const rot_samples[] = {"f32[2,3]",      "f32[2,3]; k=2",           "f32[2,3,4]; k=-1; dims=2,3",
                                          "i64[2,3]; k=4", "f32[0,3]; k=3; dims=2,1", NULL};

const neap_op neap__op_rot90 = {
    .name = "rot90",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "k",
              .type = NEAP_OPT_INT,
              .def = 1,
              .has_default = true,
              .doc = "Quarter turns; negative ones go back."},
             {.name = "dims", .type = NEAP_OPT_DIMS, .doc = "The two dimensions of the plane."}},
    .expand = rot90,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [...] -> [...]",
    .samples = rot_samples,
    .doc = "Turned `k` times by 90 degrees in the plane of `dims` (the first two), from the first towards the second.",
    .example = "print(neap.tensor {{1, 2}, {3, 4}}:rot90())  --> tensor fp32 [2, 2] {{2, 4}, {1, 3}}",
};
