/* Ops that choose elements by integers. */
#include "conform/oracle.h"

static void gather(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *s = &in[1].desc.shape;
  const int32_t dim = cf_dim(cf_whole(c, "dim", 0, 0), in[0].desc.shape.ndim);
  out[0] = cf_made(s);
  for (int64_t i = 0; i < kt_count(&in[1]); i++) {
    cf_place p;
    cf_locate(s, i, &p);
    p.at[dim] = (int64_t)kt_get(&in[1], i);
    kt_set(&out[0], i, kt_get(&in[0], cf_index(&in[0].desc.shape, &p)));
  }
}

static void scatter_add(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *s = &in[0].desc.shape, *from = &in[1].desc.shape;
  const int32_t dim = cf_dim(cf_whole(c, "dim", 0, 0), s->ndim);
  out[0] = cf_made(s);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) kt_set(&out[0], i, kt_get(&in[0], i));
  for (int64_t i = 0; i < kt_count(&in[1]); i++) {
    cf_place p;
    cf_locate(from, i, &p);
    const double x = kt_get(&in[2], cf_index(&in[2].desc.shape, &p));
    p.at[dim] = (int64_t)kt_get(&in[1], i);
    const int64_t to = cf_index(s, &p);
    kt_set(&out[0], to, kt_get(&out[0], to) + x);
  }
}

/* The dimension of x by the indices, which put theirs in its place. */
static void take(const kt_value *x, const kt_value *index, int32_t dim, kt_value *out) {
  const neap_shape *xs = &x->desc.shape, *is = &index->desc.shape;
  neap_shape s = {0, {0}};
  for (int32_t d = 0; d < dim; d++) s.dim[s.ndim++] = xs->dim[d];
  for (int32_t d = 0; d < is->ndim; d++) s.dim[s.ndim++] = is->dim[d];
  for (int32_t d = dim + 1; d < xs->ndim; d++) s.dim[s.ndim++] = xs->dim[d];
  *out = cf_made(&s);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p, q = {{0}};
    int64_t at = 0;
    cf_locate(&s, i, &p);
    for (int32_t d = 0; d < is->ndim; d++) at = at * is->dim[d] + p.at[dim + d];
    for (int32_t d = 0; d < dim; d++) q.at[d] = p.at[d];
    for (int32_t d = dim + 1; d < xs->ndim; d++) q.at[d] = p.at[d - 1 + is->ndim];
    q.at[dim] = (int64_t)kt_get(index, at);
    kt_set(out, i, kt_get(x, cf_index(xs, &q)));
  }
}

static void index_select(const cf_case *c, const kt_value *in, kt_value *out) {
  kt_value index = in[1];
  if (index.desc.shape.ndim == 0) index.desc.shape = (neap_shape){1, {1}};
  take(&in[0], &index, cf_dim(cf_whole(c, "dim", 0, 0), in[0].desc.shape.ndim), &out[0]);
}

static void embedding(const cf_case *c, const kt_value *in, kt_value *out) {
  (void)c;
  take(&in[1], &in[0], 0, &out[0]);
}

static void one_hot(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = in[0].desc.shape;
  const int64_t n = cf_whole(c, "num_classes", 0, 0);
  s.dim[s.ndim++] = n;
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&in[0]); i++) kt_set(&out[0], i * n + (int64_t)kt_get(&in[0], i), 1);
}

static void masked_fill(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape shape;
  neap_error err;
  assert_int_equal(neap__broadcast(&in[0].desc.shape, &in[1].desc.shape, &shape, &err), NEAP_OK);
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&shape, i, &p);
    const bool masked = kt_get(&in[1], cf_spread(&in[1].desc.shape, &shape, &p)) != 0;
    const double x = kt_get(&in[0], cf_spread(&in[0].desc.shape, &shape, &p));
    kt_set(&out[0], i, masked ? cf_number(c, "value", 0) : x);
  }
}

const cf_oracle_row cf_oracles_index[] = {{"gather", gather},
                                          {"scatter_add", scatter_add},
                                          {"embedding", embedding},
                                          {"index_select", index_select},
                                          {"one_hot", one_hot},
                                          {"masked_fill", masked_fill},
                                          {NULL, NULL}};
