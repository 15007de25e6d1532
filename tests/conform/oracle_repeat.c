/* Ops that repeat, turn round and cut off. */
#include <string.h>

#include "conform/oracle.h"

/* Each element of the result is that of the input at the place `from` tells. */
typedef void (*from_fn)(const cf_case *c, const neap_shape *in, cf_place *p);

static void fetch(const cf_case *c, const kt_value *in, const neap_shape *to, kt_value *out, from_fn from) {
  *out = cf_made(to);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p;
    cf_locate(to, i, &p);
    from(c, &in->desc.shape, &p);
    kt_set(out, i, kt_get(in, cf_index(&in->desc.shape, &p)));
  }
}

static void flipped(const cf_case *c, const neap_shape *in, cf_place *p) {
  const neap_opt *dims = cf_option(c, "dim");
  for (int32_t d = 0; d < in->ndim; d++) {
    bool turn = !dims;
    for (int32_t k = 0; dims && k < dims->n; k++) turn |= cf_dim(dims->v.list[k], in->ndim) == d;
    if (turn) p->at[d] = in->dim[d] - 1 - p->at[d];
  }
}

static void flip(const cf_case *c, const kt_value *in, kt_value *out) {
  fetch(c, in, &in->desc.shape, &out[0], flipped);
}

static void reversed(const cf_case *c, const neap_shape *in, cf_place *p) {
  const int32_t d = cf_dim(cf_whole(c, "dim", 0, 0), in->ndim);
  p->at[d] = in->dim[d] - 1 - p->at[d];
}

static void reverse(const cf_case *c, const kt_value *in, kt_value *out) {
  if (in->desc.shape.ndim) fetch(c, in, &in->desc.shape, &out[0], reversed);
}

static void tiled(const cf_case *c, const neap_shape *in, cf_place *p) {
  const int32_t lead = cf_option(c, "dims")->n > in->ndim ? cf_option(c, "dims")->n - in->ndim : 0;
  for (int32_t d = 0; d < in->ndim; d++) p->at[d] = p->at[d + lead] % in->dim[d];
}

static void tile(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_opt *times = cf_option(c, "dims");
  neap_shape s = in->desc.shape;
  while (s.ndim < times->n) {
    memmove(s.dim + 1, s.dim, (size_t)s.ndim * sizeof *s.dim);
    s.dim[0] = 1;
    s.ndim++;
  }
  for (int32_t k = 0; k < times->n; k++) s.dim[s.ndim - times->n + k] *= times->v.list[k];
  fetch(c, in, &s, &out[0], tiled);
}

static void each(const cf_case *c, const neap_shape *in, cf_place *p) {
  p->at[cf_dim(cf_whole(c, "dim", 0, 0), in->ndim)] /= cf_whole(c, "repeats", 0, 1);
}

static void repeat_interleave(const cf_case *c, const kt_value *in, kt_value *out) {
  kt_value x = *in;
  if (!cf_option(c, "dim")) x.desc.shape = (neap_shape){1, {kt_count(in)}};
  neap_shape s = x.desc.shape;
  s.dim[cf_dim(cf_whole(c, "dim", 0, 0), s.ndim)] *= cf_whole(c, "repeats", 0, 1);
  fetch(c, &x, &s, &out[0], each);
}

static void rolled(const cf_case *c, const neap_shape *in, cf_place *p) {
  const neap_opt *shifts = cf_option(c, "shifts"), *dims = cf_option(c, "dims");
  for (int32_t k = 0; k < shifts->n; k++) {
    const int32_t d = dims ? cf_dim(dims->v.list[k], in->ndim) : 0;
    p->at[d] = ((p->at[d] - shifts->v.list[k] % in->dim[d]) % in->dim[d] + in->dim[d]) % in->dim[d];
  }
}

static void roll(const cf_case *c, const kt_value *in, kt_value *out) {
  kt_value x = *in;
  if (!cf_option(c, "dims")) x.desc.shape = (neap_shape){1, {kt_count(in)}};
  fetch(c, &x, &x.desc.shape, &out[0], rolled);
  out[0].desc.shape = in->desc.shape;
}

static void triangle(const cf_case *c, const kt_value *in, kt_value *out, bool upper) {
  const neap_shape *s = &in->desc.shape;
  out[0] = cf_made(s);
  for (int64_t i = 0; i < kt_count(in); i++) {
    cf_place p;
    cf_locate(s, i, &p);
    const double above = (double)(p.at[s->ndim - 1] - p.at[s->ndim - 2]) - (double)cf_whole(c, "diagonal", 0, 0);
    if (upper ? above >= 0 : above <= 0) kt_set(&out[0], i, kt_get(in, i));
  }
}

static void triu(const cf_case *c, const kt_value *in, kt_value *out) { triangle(c, in, out, true); }
static void tril(const cf_case *c, const kt_value *in, kt_value *out) { triangle(c, in, out, false); }

const cf_oracle_row cf_oracles_repeat[] = {
    {"flip", flip}, {"reverse", reverse}, {"tile", tile}, {"repeat_interleave", repeat_interleave},
    {"roll", roll}, {"triu", triu},       {"tril", tril}, {NULL, NULL}};
