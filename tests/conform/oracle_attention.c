/* Attention as its definition, and the convolutions that are others turned round. */
#include <math.h>
#include <stdlib.h>

#include "conform/oracle.h"

/* softmax(q k' scale + mask) v, for one row of q. */
typedef struct attention_row {
  int64_t row, keys, width, values;
  const kt_value *q, *k, *v;
  int64_t q_at, k_at, v_at; /* where the matrices begin */
  double scale;
  bool causal;
} attention_row;

static double masked(const cf_case *c, const kt_value *in, const neap_shape *scores, cf_place p, double score) {
  if (c->n_in < 4) return score;
  const double m = kt_get(&in[3], cf_spread(&in[3].desc.shape, scores, &p));
  if (in[3].desc.dtype == NEAP_BOOL) return m != 0 ? score : -INFINITY;
  return score + m;
}

static double weights_of(const cf_case *c, const kt_value *in, const neap_shape *scores, const cf_place *front,
                         const attention_row *a, double *w) {
  double most = -INFINITY, s = 0;
  for (int64_t j = 0; j < a->keys; j++) {
    cf_place p = *front;
    double dot = 0;
    for (int64_t x = 0; x < a->width; x++)
      dot += kt_get(a->q, a->q_at + a->row * a->width + x) * kt_get(a->k, a->k_at + j * a->width + x);
    p.at[scores->ndim - 2] = a->row;
    p.at[scores->ndim - 1] = j;
    w[j] = masked(c, in, scores, p, dot * a->scale);
    if (a->causal && j > a->row) w[j] = -INFINITY;
    if (isnan(w[j]) || w[j] > most) most = w[j];
  }
  for (int64_t j = 0; j < a->keys; j++) s += w[j] = most == -INFINITY ? 0 : exp(w[j] - most);
  return most == -INFINITY ? 1 : s; /* a query without a key gets zeros, as in PyTorch since 2.5 */
}

static neap_shape front_of(const neap_shape *s) {
  neap_shape f = *s;
  f.ndim -= 2;
  return f;
}

static void sdpa(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *q = &in[0].desc.shape, *k = &in[1].desc.shape, *v = &in[2].desc.shape;
  const neap_shape qf = front_of(q), kf = front_of(k), vf = front_of(v);
  neap_shape f;
  neap_error err;
  assert_int_equal(neap__broadcast(&qf, &kf, &f, &err), NEAP_OK);
  assert_int_equal(neap__broadcast(&f, &vf, &f, &err), NEAP_OK);
  const int64_t rows = q->dim[q->ndim - 2], width = q->dim[q->ndim - 1];
  attention_row a = {.keys = k->dim[k->ndim - 2],
                     .width = width,
                     .values = v->dim[v->ndim - 1],
                     .q = &in[0],
                     .k = &in[1],
                     .v = &in[2],
                     .scale = cf_number(c, "scale", 1 / sqrt((double)width)),
                     .causal = cf_whole(c, "is_causal", 0, 0)};
  neap_shape scores = f, shape = f;
  scores.dim[scores.ndim++] = shape.dim[shape.ndim++] = rows;
  scores.dim[scores.ndim++] = a.keys;
  shape.dim[shape.ndim++] = a.values;
  if (c->n_in > 3) assert_int_equal(neap__broadcast(&scores, &in[3].desc.shape, &scores, &err), NEAP_OK);
  out[0] = cf_made(&shape);
  double *w = calloc((size_t)a.keys + 1, sizeof *w);
  assert_non_null(w);
  for (int64_t i = 0; i < neap__shape_count(&f); i++) {
    cf_place p;
    cf_locate(&f, i, &p);
    a.q_at = cf_spread(&qf, &f, &p) * rows * width;
    a.k_at = cf_spread(&kf, &f, &p) * a.keys * width;
    a.v_at = cf_spread(&vf, &f, &p) * a.keys * a.values;
    for (a.row = 0; a.row < rows; a.row++) {
      const double s = weights_of(c, in, &scores, &p, &a, w);
      for (int64_t x = 0; x < a.values; x++) {
        double y = 0;
        for (int64_t j = 0; j < a.keys; j++) y += w[j] / s * kt_get(a.v, a.v_at + j * a.values + x);
        kt_set(&out[0], (i * rows + a.row) * a.values + x, y);
      }
    }
  }
  free(w);
}

/* Each input element adds its weighted kernel to the output. x: (N, C, H, W), w: (C, O / groups, kh, kw) */
static void conv_transpose2d(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *x = &in[0].desc.shape, *w = &in[1].desc.shape;
  const int64_t groups = cf_whole(c, "groups", 0, 1), each = w->dim[1];
  neap_shape s = {4, {x->dim[0], each * groups, 0, 0}};
  int64_t stride[2], padding[2], dilation[2];
  for (int a = 0; a < 2; a++) {
    stride[a] = cf_whole(c, "stride", a, 1);
    padding[a] = cf_whole(c, "padding", a, 0);
    dilation[a] = cf_whole(c, "dilation", a, 1);
    s.dim[2 + a] = (x->dim[2 + a] - 1) * stride[a] - 2 * padding[a] + dilation[a] * (w->dim[2 + a] - 1) +
                   cf_whole(c, "output_padding", a, 0) + 1;
  }
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]) && c->n_in > 2; i++) {
    cf_place p;
    cf_locate(&s, i, &p);
    kt_set(&out[0], i, kt_get(&in[2], p.at[1]));
  }
  for (int64_t i = 0; i < kt_count(&in[0]); i++)
    for (int64_t j = 0; j < each * w->dim[2] * w->dim[3]; j++) {
      cf_place p, q;
      cf_locate(x, i, &p);
      cf_locate(w, p.at[1] * each * w->dim[2] * w->dim[3] + j, &q);
      const double product = kt_get(&in[0], i) * kt_get(&in[1], cf_index(w, &q));
      const int64_t oy = p.at[2] * stride[0] - padding[0] + q.at[2] * dilation[0];
      const int64_t ox = p.at[3] * stride[1] - padding[1] + q.at[3] * dilation[1];
      if (oy < 0 || ox < 0 || oy >= s.dim[2] || ox >= s.dim[3]) continue;
      const int64_t channel = p.at[1] / (x->dim[1] / groups) * each + q.at[1];
      const int64_t to = cf_index(&s, &(cf_place){{p.at[0], channel, oy, ox}});
      kt_set(&out[0], to, kt_get(&out[0], to) + product);
    }
}

const cf_oracle_row cf_oracles_attention[] = {
    {"scaled_dot_product_attention", sdpa}, {"conv_transpose2d", conv_transpose2d}, {NULL, NULL}};
