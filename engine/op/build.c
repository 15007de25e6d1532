/* Builder calls that gradients and composites share. */
#include "op/build.h"

#include <string.h>

neap_desc neap__desc_at(const neap_graph *g, neap_id v) {
  if (v == NEAP_NONE) return (neap_desc){.dtype = NEAP_F32};
  return g->values[v].desc;
}

neap_opt neap__opt_list(const int64_t *list, int32_t n) {
  neap_opt o = {.set = 1, .n = (uint8_t)n};
  if (n > 0) memcpy(o.v.list, list, (size_t)n * sizeof *list);
  return o;
}

neap_shape neap__opt_shape(const neap_opt *opt) {
  neap_shape s = {.ndim = opt->n};
  memcpy(s.dim, opt->v.list, sizeof s.dim);
  return s;
}

neap_id neap__const_like(neap_graph *g, neap_id v, double number) {
  return neap__graph_const(g, neap__desc_at(g, v).dtype, number);
}

neap_id neap__scale(neap_graph *g, neap_id v, double number) {
  return neap__build2(g, &neap__op_mul, v, neap__const_like(g, v, number));
}

neap_id neap__cast(neap_graph *g, neap_id v, neap_dtype dtype) {
  if (neap__desc_at(g, v).dtype == dtype) return v;
  return neap__build(g, &neap__op_to, &v, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dtype)});
}

neap_id neap__as_float(neap_graph *g, neap_id v) {
  neap_dtype t = neap__desc_at(g, v).dtype;
  return neap__cast(g, v, neap__dtype_is_float(t) ? t : NEAP_F32);
}

neap_id neap__with_number(neap_graph *g, const neap_op *op, neap_id v, double number) {
  return neap__build2(g, op, v, neap__const_like(g, v, number));
}

neap_id neap__filled(neap_graph *g, neap_id like, const neap_shape *shape, double number) {
  neap_id one = neap__const_like(g, like, number);
  return neap__build(g, &neap__op_expand, &one, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(shape->dim, shape->ndim)});
}

bool neap__is_floating(neap_graph *g, const neap_op *op, neap_id x) {
  neap_dtype t = neap__desc_at(g, x).dtype;
  if (neap__dtype_is_float(t)) return true;
  neap__graph_fail(g, op, NEAP_DTYPE, "the input is %s, expected a floating-point dtype", neap__dtype_name(t));
  return false;
}

bool neap__dims_of(neap_graph *g, const neap_op *op, neap_id x, const neap_opt *given, neap_opt *dims) {
  neap_error err;
  *dims = *given;
  neap_status s = neap__dims_resolve(dims, neap__desc_at(g, x).shape.ndim, &err);
  if (s != NEAP_OK) neap__graph_fail(g, op, s, "%s", err.message);
  return s == NEAP_OK;
}

int64_t neap__count_along(const neap_shape *shape, const neap_opt *dims) {
  int64_t n = 1;
  for (int32_t i = 0; i < dims->n; i++) n *= shape->dim[dims->v.list[i]];
  return n;
}

neap_id neap__reshape_to(neap_graph *g, neap_id v, const neap_shape *shape) {
  neap_desc d = neap__desc_at(g, v);
  if (neap__shape_equal(&d.shape, shape)) return v;
  return neap__build(g, &neap__op_reshape, &v, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(shape->dim, shape->ndim)});
}

neap_id neap__insert_dim(neap_graph *g, neap_id v, int32_t dim) {
  neap_shape s = neap__desc_at(g, v).shape;
  if (v == NEAP_NONE) return v;
  if (s.ndim >= NEAP_MAX_DIMS)
    return neap__graph_fail(g, NULL, NEAP_SHAPE, "there is no room for another dimension beside %d", s.ndim);
  memmove(s.dim + dim + 1, s.dim + dim, (size_t)(s.ndim - dim) * sizeof *s.dim);
  s.dim[dim] = 1;
  s.ndim++;
  return neap__reshape_to(g, v, &s);
}

neap_id neap__narrow_to(neap_graph *g, neap_id v, int32_t dim, int64_t start, int64_t length) {
  return neap__build(g, &neap__op_narrow, &v, 1,
                     (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim), NEAP_INT(start), NEAP_INT(length)});
}

neap_id neap__reduce(neap_graph *g, const neap_op *op, neap_id v, const int64_t *dims, int32_t n, bool keepdim) {
  return neap__build(g, op, &v, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(dims, n), NEAP_INT(keepdim)});
}

neap_id neap__permute_by(neap_graph *g, neap_id v, const int64_t *dims, int32_t n) {
  return neap__build(g, &neap__op_permute, &v, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(dims, n)});
}

neap_id neap__expand_as(neap_graph *g, neap_id v, neap_id like) {
  neap_desc a = neap__desc_at(g, v), b = neap__desc_at(g, like);
  if (neap__shape_equal(&a.shape, &b.shape)) return v;
  return neap__build2(g, &neap__op_expand_as, v, like);
}

neap_id neap__keep_dims(neap_graph *g, neap_id v, neap_id of, const neap_opt *dims) {
  neap_desc d = neap__desc_at(g, of);
  neap_shape kept = neap__reduced_shape(&d.shape, dims, true);
  return neap__reshape_to(g, v, &kept);
}

neap_id neap__sum_to(neap_graph *g, neap_id v, const neap_desc *to) {
  neap_desc d = neap__desc_at(g, v);
  int64_t dims[NEAP_MAX_DIMS];
  int32_t n = 0, lead = d.shape.ndim - to->shape.ndim;
  for (int32_t i = 0; i < d.shape.ndim; i++)
    if (i < lead || (to->shape.dim[i - lead] == 1 && d.shape.dim[i] != 1)) dims[n++] = i;
  if (n) v = neap__reduce(g, &neap__op_sum, v, dims, n, lead == 0);
  return neap__cast(g, neap__reshape_to(g, v, &to->shape), to->dtype);
}

/* A mean is divided by the number of all elements, which a trace knows: micro-batches then add their sums. */
neap_id neap__reduce_loss(neap_graph *g, neap_id v, int64_t reduction) {
  if (reduction == 2) return v;
  neap_desc d = neap__desc_at(g, v);
  neap_id sum = neap__build1(g, &neap__op_sum, v);
  return reduction == 1 ? sum : neap__scale(g, sum, 1.0 / (double)neap__shape_count(&d.shape));
}

bool neap__floats(neap_graph *g, const neap_op *op, const neap_id *given, uint32_t n, neap_id *in) {
  neap_dtype all = neap__desc_at(g, given[0]).dtype;
  for (uint32_t i = 0; i < n; i++) {
    const neap_dtype t = neap__desc_at(g, given[i]).dtype;
    if (given[i] == NEAP_NONE) return false;
    all = neap__dtype_promote(all, t);
    if (neap__dtype_is_float(t)) continue;
    neap__graph_fail(g, op, NEAP_DTYPE, "input %u is %s, expected a floating-point dtype", i + 1, neap__dtype_name(t));
    return false;
  }
  for (uint32_t i = 0; i < n; i++) in[i] = neap__cast(g, given[i], all);
  return true;
}

bool neap__dim_at(neap_graph *g, const neap_op *op, int64_t given, int32_t ndim, int32_t *dim) {
  neap_error err;
  const neap_status s = neap__dim_resolve(given, ndim, dim, &err);
  if (s != NEAP_OK) neap__graph_fail(g, op, s, "%s", err.message);
  return s == NEAP_OK;
}
