/* Writing to indexed places, searching and counting; products by name. */
#include <math.h>

#include "conform/oracle.h"

static void copy_of(const kt_value *in, kt_value *out) {
  *out = cf_made(&in->desc.shape);
  for (int64_t i = 0; i < kt_count(in); i++) kt_set(out, i, kt_get(in, i));
}

static int32_t dim_of(const cf_case *c, const kt_value *in) {
  return cf_dim(cf_whole(c, "dim", 0, 0), in->desc.shape.ndim);
}

static void scatter(const cf_case *c, const kt_value *in, kt_value *out) {
  const int32_t dim = dim_of(c, in);
  copy_of(&in[0], &out[0]);
  for (int64_t i = 0; i < kt_count(&in[1]); i++) {
    cf_place p;
    cf_locate(&in[1].desc.shape, i, &p);
    const double v = c->n_in > 2 ? kt_get(&in[2], cf_index(&in[2].desc.shape, &p)) : cf_number(c, "value", 0);
    p.at[dim] = (int64_t)kt_get(&in[1], i);
    kt_set(&out[0], cf_index(&in[0].desc.shape, &p), v);
  }
}

static void scatter_last(const cf_case *c, const kt_value *in, kt_value *out) {
  const int32_t dim = dim_of(c, in);
  out[0] = cf_made(&in[0].desc.shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) kt_set(&out[0], i, -1);
  for (int64_t i = 0; i < kt_count(&in[1]); i++) {
    cf_place p;
    cf_locate(&in[1].desc.shape, i, &p);
    const int64_t at = p.at[dim];
    p.at[dim] = (int64_t)kt_get(&in[1], i);
    kt_set(&out[0], cf_index(&in[0].desc.shape, &p), (double)at);
  }
}

/* Entry k of dim, in order of k, meets entry index[k] of the output: written, added or filled. */
typedef double (*meet_fn)(const cf_case *c, double old, double new);

static void by_entry(const cf_case *c, const kt_value *in, kt_value *out, meet_fn meet) {
  const int32_t dim = dim_of(c, in);
  neap_shape entries = in[0].desc.shape;
  entries.dim[dim] = kt_count(&in[1]);
  copy_of(&in[0], &out[0]);
  for (int64_t i = 0; i < neap__shape_count(&entries); i++) {
    cf_place p;
    cf_locate(&entries, i, &p);
    p.at[dim] = (int64_t)kt_get(&in[1], p.at[dim]);
    const int64_t at = cf_index(&in[0].desc.shape, &p);
    kt_set(&out[0], at, meet(c, kt_get(&out[0], at), c->n_in > 2 ? kt_get(&in[2], i) : 0));
  }
}

static double write_new(const cf_case *c, double old, double new) { return (void)c, (void)old, new; }
static double write_value(const cf_case *c, double old, double new) {
  return (void)old, (void)new, cf_number(c, "value", 0);
}
static double add_new(const cf_case *c, double old, double new) { return old + cf_number(c, "alpha", 1) * new; }

static void index_copy(const cf_case *c, const kt_value *in, kt_value *out) { by_entry(c, in, out, write_new); }
static void index_fill(const cf_case *c, const kt_value *in, kt_value *out) { by_entry(c, in, out, write_value); }
static void index_add(const cf_case *c, const kt_value *in, kt_value *out) { by_entry(c, in, out, add_new); }

static void take_along(const cf_case *c, const kt_value *in, kt_value *out) {
  kt_value x = in[0], index = in[1];
  neap_error err;
  if (!cf_option(c, "dim")) {
    x.desc.shape = (neap_shape){1, {kt_count(&x)}};
    index.desc.shape = (neap_shape){1, {kt_count(&index)}};
  }
  const int32_t dim = dim_of(c, &x);
  neap_shape a = x.desc.shape, b = index.desc.shape, s;
  a.dim[dim] = b.dim[dim] = 1;
  assert_int_equal(neap__broadcast(&a, &b, &s, &err), NEAP_OK);
  s.dim[dim] = index.desc.shape.dim[dim];
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p, q;
    cf_locate(&s, i, &p);
    q = p;
    for (int32_t d = 0; d < s.ndim; d++)
      if (d != dim && index.desc.shape.dim[d] == 1) q.at[d] = 0;
    p.at[dim] = (int64_t)kt_get(&index, cf_index(&index.desc.shape, &q));
    for (int32_t d = 0; d < s.ndim; d++)
      if (d != dim && x.desc.shape.dim[d] == 1) p.at[d] = 0;
    kt_set(&out[0], i, kt_get(&x, cf_index(&x.desc.shape, &p)));
  }
}

/* --- searching and counting --- */

static void place_in(const cf_case *c, const kt_value *sorted, const kt_value *values, kt_value *out) {
  const int64_t n = sorted->desc.shape.dim[sorted->desc.shape.ndim - 1];
  const neap_shape *s = &values->desc.shape;
  const int64_t each = sorted->desc.shape.ndim == 1 ? INT64_MAX : s->dim[s->ndim - 1];
  *out = cf_made(s);
  for (int64_t i = 0; i < kt_count(values); i++) {
    int64_t low = 0, high = n;
    while (low < high) { /* the lists of the cases are not ascending, so that the way counts */
      const int64_t middle = low + (high - low) / 2;
      const double there = kt_get(sorted, i / each * n + middle), v = kt_get(values, i);
      if (cf_whole(c, "right", 0, 0) ? there > v : there >= v)
        high = middle;
      else
        low = middle + 1;
    }
    kt_set(out, i, (double)low);
  }
}

static void searchsorted(const cf_case *c, const kt_value *in, kt_value *out) { place_in(c, &in[0], &in[1], &out[0]); }
static void bucketize(const cf_case *c, const kt_value *in, kt_value *out) { place_in(c, &in[1], &in[0], &out[0]); }

static void bincount(const cf_case *c, const kt_value *in, kt_value *out) {
  out[0] = cf_made(&(neap_shape){1, {cf_whole(c, "minlength", 0, 0)}});
  for (int64_t i = 0; i < kt_count(&in[0]); i++) {
    const int64_t at = (int64_t)kt_get(&in[0], i);
    kt_set(&out[0], at, kt_get(&out[0], at) + (c->n_in > 1 ? kt_get(&in[1], i) : 1));
  }
}

static void embedding_bag(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t bags = in[0].desc.shape.dim[0], n = in[0].desc.shape.dim[1], width = in[1].desc.shape.dim[1];
  const int64_t mode = cf_whole(c, "mode", 0, 1);
  out[0] = cf_made(&(neap_shape){2, {bags, width}});
  for (int64_t i = 0; i < bags * width; i++) {
    double sum = 0, most = n ? -INFINITY : 0;
    for (int64_t k = 0; k < n; k++) {
      const int64_t at = i / width * n + k;
      const double v = kt_get(&in[1], (int64_t)kt_get(&in[0], at) * width + i % width);
      sum += v * (c->n_in > 2 ? kt_get(&in[2], at) : 1);
      if (v > most || (isnan(v) && !isnan(most))) most = v;
    }
    kt_set(&out[0], i, mode == 2 ? most : mode == 1 && n ? sum / (double)n : sum);
  }
}

/* --- products --- */

/* a: (B, M, K), b: (B, K, N), with B, M, N of 1 where they are not there. */
static void products(const kt_value *a, const kt_value *b, const neap_shape *shape, kt_value *out) {
  const neap_shape *as = &a->desc.shape, *bs = &b->desc.shape;
  const int64_t k = as->dim[as->ndim - 1], n = bs->ndim == 1 ? 1 : bs->dim[bs->ndim - 1];
  const int64_t m = as->ndim == 1 ? 1 : as->dim[as->ndim - 2];
  *out = cf_made(shape);
  for (int64_t i = 0; i < kt_count(out); i++) {
    const int64_t which = i / (m * n), row = i / n % m, column = i % n;
    double sum = 0;
    for (int64_t j = 0; j < k; j++)
      sum += kt_get(a, (which * m + row) * k + j) * kt_get(b, (which * k + j) * n + column);
    kt_set(out, i, sum);
  }
}

static neap_shape product_shape(const neap_shape *a, const neap_shape *b) {
  neap_shape s = *a;
  s.ndim--;
  if (b->ndim > 1) s.dim[s.ndim++] = b->dim[b->ndim - 1];
  return s;
}

static void product(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape s = product_shape(&in[0].desc.shape, &in[1].desc.shape);
  (void)c;
  products(&in[0], &in[1], &s, &out[0]);
}

static void added_product(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape s = product_shape(&in[1].desc.shape, &in[2].desc.shape);
  const double beta = cf_number(c, "beta", 1);
  products(&in[1], &in[2], &s, &out[0]);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&s, i, &p);
    const double x = kt_get(&in[0], cf_spread(&in[0].desc.shape, &s, &p));
    kt_set(&out[0], i, (beta == 0 ? 0 : beta * x) + cf_number(c, "alpha", 1) * kt_get(&out[0], i));
  }
}

static void outer(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t m = kt_count(&in[0]), n = kt_count(&in[1]);
  (void)c;
  out[0] = cf_made(&(neap_shape){2, {m, n}});
  for (int64_t i = 0; i < m * n; i++) kt_set(&out[0], i, kt_get(&in[0], i / n) * kt_get(&in[1], i % n));
}

static void kron(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *a = &in[0].desc.shape, *b = &in[1].desc.shape;
  neap_shape s = {a->ndim > b->ndim ? a->ndim : b->ndim, {0}};
  (void)c;
  for (int32_t d = 0; d < s.ndim; d++) {
    const int32_t ad = d - (s.ndim - a->ndim), bd = d - (s.ndim - b->ndim);
    s.dim[d] = (ad < 0 ? 1 : a->dim[ad]) * (bd < 0 ? 1 : b->dim[bd]);
  }
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p, ap = {{0}}, bp = {{0}};
    cf_locate(&s, i, &p);
    for (int32_t d = 0; d < s.ndim; d++) {
      const int32_t ad = d - (s.ndim - a->ndim), bd = d - (s.ndim - b->ndim);
      const int64_t each = bd < 0 ? 1 : b->dim[bd];
      if (ad >= 0) ap.at[ad] = p.at[d] / each;
      if (bd >= 0) bp.at[bd] = p.at[d] % each;
    }
    kt_set(&out[0], i, kt_get(&in[0], cf_index(a, &ap)) * kt_get(&in[1], cf_index(b, &bp)));
  }
}

static void cross(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s;
  neap_error err;
  assert_int_equal(neap__broadcast(&in[0].desc.shape, &in[1].desc.shape, &s, &err), NEAP_OK);
  const int32_t dim = cf_dim(cf_whole(c, "dim", 0, -1), s.ndim);
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p, q;
    cf_locate(&s, i, &p);
    q = p;
    p.at[dim] = (p.at[dim] + 1) % 3;
    q.at[dim] = (q.at[dim] + 2) % 3;
    const neap_shape *a = &in[0].desc.shape, *b = &in[1].desc.shape;
    kt_set(&out[0], i,
           kt_get(&in[0], cf_spread(a, &s, &p)) * kt_get(&in[1], cf_spread(b, &s, &q)) -
               kt_get(&in[0], cf_spread(a, &s, &q)) * kt_get(&in[1], cf_spread(b, &s, &p)));
  }
}

const cf_oracle_row cf_oracles_scatter[] = {{"scatter", scatter},
                                            {"scatter_last", scatter_last},
                                            {"index_copy", index_copy},
                                            {"index_fill", index_fill},
                                            {"index_add", index_add},
                                            {"take_along_dim", take_along},
                                            {"sorted_place", searchsorted},
                                            {"searchsorted", searchsorted},
                                            {"bucketize", bucketize},
                                            {"bincount", bincount},
                                            {"embedding_bag", embedding_bag},
                                            {"mm", product},
                                            {"bmm", product},
                                            {"mv", product},
                                            {"dot", product},
                                            {"addmm", added_product},
                                            {"addmv", added_product},
                                            {"baddbmm", added_product},
                                            {"outer", outer},
                                            {"kron", kron},
                                            {"cross", cross},
                                            {NULL, NULL}};
