/* Linear recurrences along a dimension: what gradients of running products and the like are, without a division. */
#include "op/scan.h"

neap_id neap__with_entry(neap_graph *g, neap_id v, int32_t dim, double number, bool before) {
  neap_shape s = neap__desc_at(g, v).shape;
  s.dim[dim] = 1;
  neap_id one = neap__filled(g, v, &s, number);
  neap_id both[] = {before ? one : v, before ? v : one};
  return neap__build(g, &neap__op_cat, both, 2, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim)});
}

neap_id neap__shifted(neap_graph *g, neap_id v, int32_t dim, double number, bool back) {
  neap_shape s = neap__desc_at(g, v).shape;
  if (s.ndim == 0 || s.dim[dim] == 1) return neap__filled(g, v, &s, number);
  neap_id rest = neap__narrow_to(g, v, dim, back ? 1 : 0, s.dim[dim] - 1);
  return rest == NEAP_NONE ? rest : neap__with_entry(g, rest, dim, number, !back);
}

neap_id neap__linear_scan(neap_graph *g, neap_id a, neap_id b, int32_t dim, bool reverse) {
  return neap__build(g, &neap__op_linear_scan, (neap_id[]){a, b}, 2,
                     (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim), NEAP_INT(reverse)});
}

neap_status neap__infer_running(neap_infer *x) {
  neap_dtype t = x->in[0].dtype;
  x->out[0] = (neap_desc){neap__dtype_is_float(t) ? t : NEAP_I64, x->in[0].shape};
  return neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err);
}

neap_status neap__batch_lines(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  return neap__batch_along(n, in, out, (int32_t)n->opt[0].v.i);
}

static neap_status infer(neap_infer *x) {
  char a[96], b[96];
  if (x->in[0].dtype != x->in[1].dtype || !neap__shape_equal(&x->in[0].shape, &x->in[1].shape))
    return neap__fail(x->err, NEAP_SHAPE, "factors %s %s and terms %s %s, expected the same of both",
                      neap__dtype_name(x->in[0].dtype), neap__shape_text(&x->in[0].shape, a, sizeof a),
                      neap__dtype_name(x->in[1].dtype), neap__shape_text(&x->in[1].shape, b, sizeof b));
  x->out[0] = x->in[1];
  neap_status s = neap__need_float(x, 0);
  return s == NEAP_OK ? neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err) : s;
}

/* What reaches h_i comes from d_i, and through a_(i+1) from what reaches h_(i+1): a scan the other way. */
static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  int32_t dim = (int32_t)n->opt[0].v.i;
  bool reverse = n->opt[1].v.i != 0;
  neap_desc d = neap__desc_at(g, n->out[0]);
  if (neap__shape_count(&d.shape) == 0) return;
  neap_id reaches = neap__linear_scan(g, neap__shifted(g, n->in[0], dim, 0, !reverse), gout[0], dim, !reverse);
  if (need & 1) gin[0] = neap__build2(g, &neap__op_mul, reaches, neap__shifted(g, n->out[0], dim, 0, reverse));
  if (need & 2) gin[1] = reaches;
}

static const char *const samples[] = {"f32[2,5] f32[2,5]; dim=2", "f32[2,3,4] f32[2,3,4]; dim=2; reverse=true",
                                      "f32[0,3] f32[0,3]; dim=2", "f64[7] f64[7]; dim=1", NULL};

const neap_op neap__op_linear_scan = {
    .name = "linear_scan",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_KEEP,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true},
             {.name = "reverse", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true}},
    .infer = infer,
    .grad = grad,
    .batch = neap__batch_lines,
    .samples = samples,
    .doc = "h with h_i = a_i h_(i-1) + b_i along `dim`, from the first entry, which is b's, or from the last.",
};
