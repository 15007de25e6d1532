/* Ops that move values and compute nothing. */
#include <math.h>
#include <string.h>

#include "conform/oracle.h"
#include "op/op.h"

static void fill_from(kt_value *out, const kt_value *in) {
  for (int64_t i = 0; i < kt_count(out); i++) kt_set(out, i, kt_get(in, i));
}

static void same(const cf_case *c, const kt_value *in, kt_value *out) {
  (void)c;
  out[0] = cf_made(&in[0].desc.shape);
  fill_from(&out[0], &in[0]);
}

static void reshape(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = {c->opt[0].n, {0}};
  int64_t known = 1;
  for (int32_t d = 0; d < s.ndim; d++)
    if (c->opt[0].v.list[d] >= 0) known *= c->opt[0].v.list[d];
  for (int32_t d = 0; d < s.ndim; d++) {
    s.dim[d] = c->opt[0].v.list[d];
    if (s.dim[d] < 0) s.dim[d] = known ? kt_count(&in[0]) / known : 0;
  }
  out[0] = cf_made(&s);
  fill_from(&out[0], &in[0]);
}

static void flatten(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *from = &in[0].desc.shape;
  const int32_t first = cf_dim(c->opt[0].v.i, from->ndim), last = cf_dim(c->opt[1].v.i, from->ndim);
  neap_shape s = {0, {0}};
  int64_t merged = 1;
  for (int32_t d = 0; d < from->ndim; d++) {
    if (d >= first && d <= last) merged *= from->dim[d];
    if (d == last) s.dim[s.ndim++] = merged;
    if (d < first || d > last) s.dim[s.ndim++] = from->dim[d];
  }
  if (from->ndim == 0) s = (neap_shape){1, {1}};
  out[0] = cf_made(&s);
  fill_from(&out[0], &in[0]);
}

static void move_dims(const kt_value *in, const int32_t *dims, kt_value *out) {
  const neap_shape *from = &in->desc.shape;
  neap_shape s = {from->ndim, {0}};
  for (int32_t d = 0; d < s.ndim; d++) s.dim[d] = from->dim[dims[d]];
  *out = cf_made(&s);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p, q = {{0}};
    cf_locate(&s, i, &p);
    for (int32_t d = 0; d < s.ndim; d++) q.at[dims[d]] = p.at[d];
    kt_set(out, i, kt_get(in, cf_index(from, &q)));
  }
}

static void permute(const cf_case *c, const kt_value *in, kt_value *out) {
  int32_t dims[NEAP_MAX_DIMS] = {0};
  for (int32_t d = 0; d < c->opt[0].n; d++) dims[d] = cf_dim(c->opt[0].v.list[d], in[0].desc.shape.ndim);
  move_dims(&in[0], dims, &out[0]);
}

static void transpose(const cf_case *c, const kt_value *in, kt_value *out) {
  const int32_t ndim = in[0].desc.shape.ndim, a = cf_dim(c->opt[0].v.i, ndim), b = cf_dim(c->opt[1].v.i, ndim);
  int32_t dims[NEAP_MAX_DIMS];
  for (int32_t d = 0; d < NEAP_MAX_DIMS; d++) dims[d] = d == a ? b : d == b ? a : d;
  move_dims(&in[0], dims, &out[0]);
}

static void spread(const kt_value *in, const neap_shape *to, kt_value *out) {
  *out = cf_made(to);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p;
    cf_locate(to, i, &p);
    kt_set(out, i, kt_get(in, cf_spread(&in->desc.shape, to, &p)));
  }
}

static void expand(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = {c->opt[0].n, {0}};
  for (int32_t d = 0; d < s.ndim; d++) {
    s.dim[d] = c->opt[0].v.list[d];
    if (s.dim[d] < 0) s.dim[d] = in[0].desc.shape.dim[d - (s.ndim - in[0].desc.shape.ndim)];
  }
  spread(&in[0], &s, &out[0]);
}

static void expand_as(const cf_case *c, const kt_value *in, kt_value *out) {
  (void)c;
  spread(&in[0], &in[1].desc.shape, &out[0]);
}

/* The elements of `in` whose place along dim is [start, start + n) go to `to` on in out, or the other way. */
static void range(const kt_value *whole, kt_value *part, int32_t dim, int64_t start, bool out_of) {
  const neap_shape *s = &part->desc.shape;
  for (int64_t i = 0; i < kt_count(part); i++) {
    cf_place p;
    cf_locate(s, i, &p);
    p.at[dim] += start;
    const int64_t w = cf_index(&whole->desc.shape, &p);
    if (out_of)
      kt_set(part, i, kt_get(whole, w));
    else
      kt_set((kt_value *)(uintptr_t)whole, w, kt_get(part, i));
  }
}

static void narrow(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = in[0].desc.shape;
  const int32_t dim = cf_dim(c->opt[0].v.i, s.ndim);
  const int64_t start = c->opt[1].v.i < 0 ? c->opt[1].v.i + s.dim[dim] : c->opt[1].v.i;
  s.dim[dim] = c->opt[2].v.i;
  out[0] = cf_made(&s);
  range(&in[0], &out[0], dim, start, true);
}

static void select(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = in[0].desc.shape;
  const int32_t dim = cf_dim(c->opt[0].v.i, s.ndim);
  const int64_t at = c->opt[1].v.i < 0 ? c->opt[1].v.i + s.dim[dim] : c->opt[1].v.i;
  s.dim[dim] = 1;
  out[0] = cf_made(&s);
  range(&in[0], &out[0], dim, at, true);
  memmove(s.dim + dim, s.dim + dim + 1, (size_t)(s.ndim - dim - 1) * sizeof *s.dim);
  s.ndim--;
  out[0].desc.shape = s;
}

static void place(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = in[0].desc.shape;
  const int32_t dim = cf_dim(c->opt[0].v.i, s.ndim);
  kt_value part = in[0];
  s.dim[dim] = c->opt[2].v.i;
  out[0] = cf_made(&s);
  range(&out[0], &part, dim, c->opt[1].v.i, false);
}

static void cat(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = in[0].desc.shape;
  const int32_t dim = cf_dim(c->opt[0].v.i, s.ndim);
  int64_t at = 0;
  for (uint32_t i = 1; i < c->n_in; i++) s.dim[dim] += in[i].desc.shape.dim[dim];
  out[0] = cf_made(&s);
  for (uint32_t i = 0; i < c->n_in; i++) {
    kt_value part = in[i];
    range(&out[0], &part, dim, at, false);
    at += in[i].desc.shape.dim[dim];
  }
}

static void stack(const cf_case *c, const kt_value *in, kt_value *out) {
  kt_value rows[CF_INPUTS];
  cf_case as_cat = *c;
  const int32_t ndim = in[0].desc.shape.ndim, dim = cf_dim(c->opt[0].v.i, ndim + 1);
  for (uint32_t i = 0; i < c->n_in; i++) {
    rows[i] = in[i];
    neap_shape *s = &rows[i].desc.shape;
    memmove(s->dim + dim + 1, s->dim + dim, (size_t)(ndim - dim) * sizeof *s->dim);
    s->dim[dim] = 1;
    s->ndim++;
  }
  as_cat.opt[0] = NEAP_INT(dim);
  cat(&as_cat, rows, out);
}

static double converted(double x, neap_dtype t) {
  if (neap__dtype_is_float(t)) return x;
  if (t == NEAP_BOOL) return x != 0;
  if (isnan(x)) return 0;
  if (t == NEAP_U8) return fmax(0, fmin(255, trunc(x)));
  if (t == NEAP_I32) return fmax(INT32_MIN, fmin(INT32_MAX, trunc(x)));
  return fmax(-0x1p63, fmin(0x1p63, trunc(x))); /* the largest int64 reads back as 2^63 */
}

static void full(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = {c->opt[0].n, {0}};
  (void)in;
  memcpy(s.dim, c->opt[0].v.list, sizeof s.dim);
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++)
    kt_set(&out[0], i, converted(c->opt[1].v.f, (neap_dtype)c->opt[2].v.i));
}

static void to(const cf_case *c, const kt_value *in, kt_value *out) {
  out[0] = cf_made(&in[0].desc.shape);
  for (int64_t i = 0; i < kt_count(&in[0]); i++)
    kt_set(&out[0], i, converted(kt_get(&in[0], i), (neap_dtype)c->opt[0].v.i));
}

const cf_oracle_row cf_oracles_shape[] = {{"copy", same},       {"stop", same},           {"reshape", reshape},
                                          {"flatten", flatten}, {"permute", permute},     {"transpose", transpose},
                                          {"expand", expand},   {"expand_as", expand_as}, {"narrow", narrow},
                                          {"select", select},   {"place", place},         {"concat", cat},
                                          {"cat", cat},         {"stack", stack},         {"full", full},
                                          {"to", to},           {"variable", same},       {NULL, NULL}};
