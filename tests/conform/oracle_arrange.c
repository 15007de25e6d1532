/* Ops that arrange elements anew: each element of the result is one of the input, or zero. */
#include <string.h>

#include "conform/oracle.h"

/* Moves p, a place in the result, to where the element comes from; false: nowhere, it is 0. */
typedef bool (*from_fn)(const cf_case *c, const neap_shape *in, const neap_shape *to, cf_place *p);

static void fetch(const cf_case *c, const kt_value *in, const neap_shape *to, kt_value *out, from_fn from) {
  *out = cf_made(to);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p;
    cf_locate(to, i, &p);
    if (from(c, &in->desc.shape, to, &p)) kt_set(out, i, kt_get(in, cf_index(&in->desc.shape, &p)));
  }
}

/* The dims of the input that the result's dims are. */
static void move_order(const cf_case *c, int32_t ndim, int32_t *order) {
  const neap_opt *from = cf_option(c, "source"), *to = cf_option(c, "destination");
  bool taken[NEAP_MAX_DIMS] = {false}, set[NEAP_MAX_DIMS] = {false};
  for (int32_t i = 0; i < from->n; i++) {
    const int32_t a = cf_dim(from->v.list[i], ndim), b = cf_dim(to->v.list[i], ndim);
    order[b] = a;
    taken[a] = set[b] = true;
  }
  for (int32_t d = 0, next = 0; d < ndim; d++) {
    if (set[d]) continue;
    while (taken[next]) next++;
    order[d] = next++;
  }
}

static void rearrange(const kt_value *in, const int32_t *order, kt_value *out) {
  const neap_shape *from = &in->desc.shape;
  neap_shape s = {from->ndim, {0}};
  for (int32_t d = 0; d < s.ndim; d++) s.dim[d] = from->dim[order[d]];
  *out = cf_made(&s);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p, q = {{0}};
    cf_locate(&s, i, &p);
    for (int32_t d = 0; d < s.ndim; d++) q.at[order[d]] = p.at[d];
    kt_set(out, i, kt_get(in, cf_index(from, &q)));
  }
}

static void movedim(const cf_case *c, const kt_value *in, kt_value *out) {
  int32_t order[NEAP_MAX_DIMS] = {0};
  move_order(c, in->desc.shape.ndim, order);
  rearrange(in, order, out);
}

static void swapdims(const cf_case *c, const kt_value *in, kt_value *out) {
  const int32_t n = in->desc.shape.ndim, a = cf_dim(c->opt[0].v.i, n), b = cf_dim(c->opt[1].v.i, n);
  int32_t order[NEAP_MAX_DIMS];
  for (int32_t d = 0; d < NEAP_MAX_DIMS; d++) order[d] = d == a ? b : d == b ? a : d;
  rearrange(in, order, out);
}

static void transposed(const cf_case *c, const kt_value *in, kt_value *out) {
  const int32_t turned[NEAP_MAX_DIMS] = {1, 0}, kept[NEAP_MAX_DIMS] = {0};
  (void)c;
  rearrange(in, in->desc.shape.ndim == 2 ? turned : kept, out);
}

static void unflatten(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *from = &in->desc.shape;
  const neap_opt *sizes = cf_option(c, "sizes");
  const int32_t dim = cf_dim(cf_whole(c, "dim", 0, 0), from->ndim);
  neap_shape s = {0, {0}};
  int64_t known = 1;
  for (int32_t i = 0; i < sizes->n; i++)
    if (sizes->v.list[i] >= 0) known *= sizes->v.list[i];
  for (int32_t d = 0; d < from->ndim; d++) {
    if (d != dim) s.dim[s.ndim++] = from->dim[d];
    for (int32_t i = 0; i < sizes->n && d == dim; i++)
      s.dim[s.ndim++] = sizes->v.list[i] >= 0 ? sizes->v.list[i] : known ? from->dim[dim] / known : 0;
  }
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(in); i++) kt_set(&out[0], i, kt_get(in, i));
}

static void broadcast_to(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *from = &in->desc.shape;
  neap_shape s = {c->opt[0].n, {0}};
  for (int32_t d = 0; d < s.ndim; d++) {
    s.dim[d] = c->opt[0].v.list[d];
    if (s.dim[d] < 0) s.dim[d] = from->dim[d - (s.ndim - from->ndim)];
  }
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&s, i, &p);
    kt_set(&out[0], i, kt_get(in, cf_spread(from, &s, &p)));
  }
}

/* A quarter turn at a time: y[i][j] = x[j][n - 1 - i]. */
static void rot90(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_opt *dims = cf_option(c, "dims");
  const int32_t ndim = in->desc.shape.ndim, a = dims ? cf_dim(dims->v.list[0], ndim) : 0,
                b = dims ? cf_dim(dims->v.list[1], ndim) : 1;
  const int64_t turns = (cf_whole(c, "k", 0, 1) % 4 + 4) % 4;
  kt_value x = cf_copy(in);
  for (int64_t k = 0; k < turns; k++) {
    neap_shape s = x.desc.shape;
    s.dim[a] = x.desc.shape.dim[b];
    s.dim[b] = x.desc.shape.dim[a];
    kt_value y = cf_made(&s);
    for (int64_t i = 0; i < kt_count(&y); i++) {
      cf_place p;
      cf_locate(&s, i, &p);
      const int64_t row = p.at[a];
      p.at[a] = p.at[b];
      p.at[b] = s.dim[a] - 1 - row;
      kt_set(&y, i, kt_get(&x, cf_index(&x.desc.shape, &p)));
    }
    kt_free(&x);
    x = y;
  }
  out[0] = cf_made(&x.desc.shape);
  for (int64_t i = 0; i < kt_count(&x); i++) kt_set(&out[0], i, kt_get(&x, i));
  kt_free(&x);
}

/* --- diagonals --- */

static void take_diagonal(const kt_value *in, int32_t a, int32_t b, int64_t offset, kt_value *out) {
  const neap_shape *from = &in->desc.shape;
  if (offset > from->dim[b] || offset < -from->dim[a]) offset = from->dim[b]; /* as empty as any beyond the matrix */
  neap_shape s = {0, {0}};
  int64_t n = 0;
  for (int32_t d = 0; d < from->ndim; d++)
    if (d != a && d != b) s.dim[s.ndim++] = from->dim[d];
  for (int64_t i = 0; i < from->dim[a]; i++) n += i + offset >= 0 && i + offset < from->dim[b];
  s.dim[s.ndim++] = n;
  *out = cf_made(&s);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p, q = {{0}};
    cf_locate(&s, i, &p);
    const int64_t at = p.at[s.ndim - 1] + (offset < 0 ? -offset : 0);
    for (int32_t d = 0, k = 0; d < from->ndim; d++) q.at[d] = d == a ? at : d == b ? at + offset : p.at[k++];
    kt_set(out, i, kt_get(in, cf_index(from, &q)));
  }
}

static void diagonal(const cf_case *c, const kt_value *in, kt_value *out) {
  const int32_t ndim = in->desc.shape.ndim;
  take_diagonal(in, cf_dim(cf_whole(c, "dim1", 0, 0), ndim), cf_dim(cf_whole(c, "dim2", 0, 1), ndim),
                cf_whole(c, "offset", 0, 0), out);
}

static void put_diagonal(const kt_value *in, int32_t a, int32_t b, int64_t offset, kt_value *out) {
  const neap_shape *from = &in->desc.shape;
  const int64_t n = from->dim[from->ndim - 1], size = n + (offset < 0 ? -offset : offset);
  neap_shape s = {from->ndim + 1, {0}};
  for (int32_t d = 0, k = 0; d < s.ndim; d++) s.dim[d] = d == a || d == b ? size : from->dim[k++];
  *out = cf_made(&s);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p, q = {{0}};
    cf_locate(&s, i, &p);
    if (p.at[b] - p.at[a] != offset) continue;
    int32_t k = 0;
    for (int32_t d = 0; d < s.ndim; d++)
      if (d != a && d != b) q.at[k++] = p.at[d];
    q.at[k] = p.at[a] - (offset < 0 ? -offset : 0);
    kt_set(out, i, kt_get(in, cf_index(from, &q)));
  }
}

static void diag_embed(const cf_case *c, const kt_value *in, kt_value *out) {
  const int32_t ndim = in->desc.shape.ndim + 1;
  put_diagonal(in, cf_dim(cf_whole(c, "dim1", 0, -2), ndim), cf_dim(cf_whole(c, "dim2", 0, -1), ndim),
               cf_whole(c, "offset", 0, 0), out);
}

static void diag(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t offset = cf_whole(c, "diagonal", 0, 0);
  if (in->desc.shape.ndim == 1)
    put_diagonal(in, 0, 1, offset, out);
  else
    take_diagonal(in, 0, 1, offset, out);
}

static void trace(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *s = &in->desc.shape;
  double sum = 0;
  (void)c;
  for (int64_t i = 0; i < s->dim[0] && i < s->dim[1]; i++) sum += kt_get(in, i * s->dim[1] + i);
  out[0] = cf_made(&(neap_shape){0, {0}});
  kt_set(&out[0], 0, sum);
}

static void eye(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t n = cf_whole(c, "n", 0, 0), m = cf_whole(c, "m", 0, n);
  (void)in;
  out[0] = cf_made(&(neap_shape){2, {n, m}});
  for (int64_t i = 0; i < n && i < m; i++) kt_set(&out[0], i * m + i, 1);
}

/* --- around and between --- */

static bool padded(const cf_case *c, const neap_shape *in, const neap_shape *to, cf_place *p) {
  const neap_opt *amounts = cf_option(c, "pad");
  const int64_t mode = cf_whole(c, "mode", 0, 0);
  (void)to;
  for (int32_t d = 0; d < in->ndim; d++) {
    const int32_t k = 2 * (in->ndim - 1 - d);
    const int64_t n = in->dim[d];
    int64_t at = p->at[d] - (k < amounts->n ? amounts->v.list[k] : 0);
    if (mode == 0 && (at < 0 || at >= n)) return false;
    if (mode == 1) at = at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
    if (mode == 2) at = at < 0 ? 0 : at >= n ? n - 1 : at;
    if (mode == 3) at = (at + n) % n;
    p->at[d] = at;
  }
  return true;
}

static void pad(const cf_case *c, const kt_value *in, kt_value *out) {
  neap_shape s = in->desc.shape;
  const neap_opt *amounts = cf_option(c, "pad");
  for (int32_t k = 0; 2 * k + 1 < amounts->n; k++)
    s.dim[s.ndim - 1 - k] += amounts->v.list[2 * k] + amounts->v.list[2 * k + 1];
  fetch(c, in, &s, &out[0], padded);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&s, i, &p);
    if (!padded(c, &in->desc.shape, &s, &p)) kt_set(&out[0], i, cf_number(c, "value", 0));
  }
}

static bool shuffled(const cf_case *c, const neap_shape *in, const neap_shape *to, cf_place *p) {
  const int64_t r = c->opt[0].v.i;
  (void)in, (void)to;
  *p = (cf_place){{p->at[0], (p->at[1] * r + p->at[2] % r) * r + p->at[3] % r, p->at[2] / r, p->at[3] / r}};
  return true;
}

static void pixel_shuffle(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t r = c->opt[0].v.i;
  const neap_shape *x = &in->desc.shape;
  fetch(c, in, &(neap_shape){4, {x->dim[0], x->dim[1] / (r * r), x->dim[2] * r, x->dim[3] * r}}, &out[0], shuffled);
}

static bool unshuffled(const cf_case *c, const neap_shape *in, const neap_shape *to, cf_place *p) {
  const int64_t r = c->opt[0].v.i, part = p->at[1] % (r * r);
  (void)in, (void)to;
  *p = (cf_place){{p->at[0], p->at[1] / (r * r), p->at[2] * r + part / r, p->at[3] * r + part % r}};
  return true;
}

static void pixel_unshuffle(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t r = c->opt[0].v.i;
  const neap_shape *x = &in->desc.shape;
  fetch(c, in, &(neap_shape){4, {x->dim[0], x->dim[1] * r * r, x->dim[2] / r, x->dim[3] / r}}, &out[0], unshuffled);
}

static bool regrouped(const cf_case *c, const neap_shape *in, const neap_shape *to, cf_place *p) {
  const int64_t groups = c->opt[0].v.i;
  (void)to;
  p->at[1] = p->at[1] % groups * (in->dim[1] / groups) + p->at[1] / groups;
  return true;
}

static void channel_shuffle(const cf_case *c, const kt_value *in, kt_value *out) {
  fetch(c, in, &in->desc.shape, &out[0], regrouped);
}

const cf_oracle_row cf_oracles_arrange[] = {{"movedim", movedim},
                                            {"swapdims", swapdims},
                                            {"t", transposed},
                                            {"unflatten", unflatten},
                                            {"broadcast_to", broadcast_to},
                                            {"rot90", rot90},
                                            {"diagonal", diagonal},
                                            {"diag_embed", diag_embed},
                                            {"diag", diag},
                                            {"trace", trace},
                                            {"eye", eye},
                                            {"pad", pad},
                                            {"pad_value", pad},
                                            {"pixel_shuffle", pixel_shuffle},
                                            {"pixel_unshuffle", pixel_unshuffle},
                                            {"channel_shuffle", channel_shuffle},
                                            {NULL, NULL}};
