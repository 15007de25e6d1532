/* Shape rules and batch rules that several ops share. */
#include <string.h>

#include "op/build.h"

neap_status neap__infer_same(neap_infer *x) {
  x->out[0] = x->in[0];
  return NEAP_OK;
}

neap_status neap__need_float(const neap_infer *x, uint32_t i) {
  neap_dtype t = x->in[i].dtype;
  if (neap__dtype_is_float(t)) return NEAP_OK;
  return neap__fail(x->err, NEAP_DTYPE, "input %u is %s, expected a floating-point dtype", i + 1, neap__dtype_name(t));
}

neap_status neap__dim_option(neap_opt *opt, int32_t ndim, neap_error *err) {
  int32_t dim = 0;
  neap_status s = neap__dim_resolve(opt->v.i, ndim, &dim, err);
  if (s == NEAP_OK) opt->v.i = dim;
  return s;
}

neap_status neap__dims_resolve(neap_opt *opt, int32_t ndim, neap_error *err) {
  bool chosen[NEAP_MAX_DIMS] = {false};
  bool all = !opt->set;
  for (int32_t i = 0; i < opt->n && !all; i++) {
    int32_t dim = 0;
    neap_status s = neap__dim_resolve(opt->v.list[i], ndim, &dim, err);
    if (s != NEAP_OK) return s;
    if (chosen[dim]) return neap__fail(err, NEAP_INVALID, "dim %d is given twice", (int)dim + 1);
    chosen[dim] = true;
  }
  memset(opt, 0, sizeof *opt);
  opt->set = 1;
  for (int32_t d = 0; d < ndim; d++)
    if (all || chosen[d]) opt->v.list[opt->n++] = d;
  return NEAP_OK;
}

bool neap__batch_settled(const neap_node *n, const neap_batch *in, neap_batch *out, neap_status *s) {
  bool samples = false, sums = false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    samples |= neap__batch_carries(&in[i]);
    sums |= in[i].kind == NEAP_B_SUM;
  }
  /* What needs a finished sum cannot be computed sample by sample. */
  *s = samples && sums ? NEAP_UNSUPPORTED : NEAP_OK;
  if (samples && !sums) return false;
  for (uint32_t o = 0; o < n->n_out; o++) out[o] = (neap_batch){.kind = sums ? NEAP_B_SUM : NEAP_B_CONST};
  return true;
}

neap_status neap__batch_none(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  return neap__batch_settled(n, in, out, &s) ? s : NEAP_UNSUPPORTED;
}

neap_status neap__batch_same(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  if (in[0].kind == NEAP_B_CONST) return NEAP_UNSUPPORTED;
  out[0] = in[0];
  for (uint32_t i = 1; i < n->n_in; i++) {
    if (in[i].kind == NEAP_B_CONST) continue;
    if (in[i].dim != in[0].dim || in[i].per != in[0].per) return NEAP_UNSUPPORTED;
    if (in[i].kind == NEAP_B_MIX) out[0].kind = NEAP_B_MIX;
  }
  for (uint32_t o = 1; o < n->n_out; o++) out[o] = out[0];
  return NEAP_OK;
}

neap_status neap__batch_along(const neap_node *n, const neap_batch *in, neap_batch *out, int32_t along) {
  neap_status s = neap__batch_same(NULL, n, in, out);
  if (s == NEAP_OK && out[0].kind == NEAP_B_SAMPLE && out[0].dim == along) out[0].kind = NEAP_B_MIX;
  return s;
}

/* The batch dimension must lie at the same place from the right in every input that has samples, and every
 * other input must be spread along it, since a constant of batch size would have to be cut as well. */
neap_status neap__batch_elementwise(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  neap_batch r = {.kind = NEAP_B_SAMPLE, .dim = -1};
  int32_t ndim = g->values[n->out[0]].desc.shape.ndim, right = -1;
  for (uint32_t i = 0; i < n->n_in; i++) {
    if (in[i].kind == NEAP_B_CONST) continue;
    int32_t from_right = g->values[n->in[i]].desc.shape.ndim - in[i].dim;
    if (right >= 0 && (right != from_right || r.per != in[i].per)) return NEAP_UNSUPPORTED;
    right = from_right;
    r.per = in[i].per;
    if (in[i].kind == NEAP_B_MIX) r.kind = NEAP_B_MIX;
  }
  for (uint32_t i = 0; i < n->n_in; i++) {
    const neap_shape *shape = &g->values[n->in[i]].desc.shape;
    if (in[i].kind == NEAP_B_CONST && shape->ndim >= right && shape->dim[shape->ndim - right] != 1)
      return NEAP_UNSUPPORTED;
  }
  r.dim = ndim - right;
  for (uint32_t o = 0; o < n->n_out; o++) out[o] = r;
  return NEAP_OK;
}

bool neap__opt_has_dim(const neap_opt *dims, int32_t dim) {
  for (int32_t i = 0; i < dims->n; i++)
    if (dims->v.list[i] == dim) return true;
  return false;
}

neap_shape neap__reduced_shape(const neap_shape *from, const neap_opt *dims, bool keepdim) {
  neap_shape r = {.ndim = 0};
  for (int32_t d = 0; d < from->ndim; d++) {
    if (!neap__opt_has_dim(dims, d))
      r.dim[r.ndim++] = from->dim[d];
    else if (keepdim)
      r.dim[r.ndim++] = 1;
  }
  return r;
}

neap_status neap__batch_reduce(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  (void)g;
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  if (neap__opt_has_dim(&n->opt[0], in[0].dim)) return NEAP_UNSUPPORTED;
  out[0] = in[0];
  for (int32_t i = 0; i < n->opt[0].n && n->opt[1].v.i == 0; i++)
    if (n->opt[0].v.list[i] < in[0].dim) out[0].dim--;
  return NEAP_OK;
}
