/* Products of matrices, convolution, pooling. */
#include <math.h>
#include <string.h>

#include "conform/oracle.h"

/* a: (..., M, K) or stored (..., K, M) when ta; b likewise; dimensions in front broadcast. */
static void multiply(const kt_value *a, const kt_value *b, bool ta, bool tb, kt_value *out) {
  const neap_shape *as = &a->desc.shape, *bs = &b->desc.shape;
  const int32_t an = as->ndim, bn = bs->ndim, ndim = an > bn ? an : bn;
  const int64_t m = as->dim[an - (ta ? 1 : 2)], k = as->dim[an - (ta ? 2 : 1)], n = bs->dim[bn - (tb ? 2 : 1)];
  neap_shape front = {ndim - 2, {0}}, af = {an - 2, {0}}, bf = {bn - 2, {0}};
  for (int32_t d = 0; d < an - 2; d++) af.dim[d] = as->dim[d];
  for (int32_t d = 0; d < bn - 2; d++) bf.dim[d] = bs->dim[d];
  neap_error err;
  assert_int_equal(neap__broadcast(&af, &bf, &front, &err), NEAP_OK);
  neap_shape shape = front;
  shape.dim[shape.ndim++] = m;
  shape.dim[shape.ndim++] = n;
  *out = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(out); i++) {
    cf_place p;
    const int64_t f = i / (m * n), row = i / n % m, col = i % n;
    cf_locate(&front, f, &p);
    const int64_t ab = cf_spread(&af, &front, &p) * m * k, bb = cf_spread(&bf, &front, &p) * k * n;
    double s = 0;
    for (int64_t j = 0; j < k; j++)
      s += kt_get(a, ab + (ta ? j * m + row : row * k + j)) * kt_get(b, bb + (tb ? col * k + j : j * n + col));
    kt_set(out, i, s);
  }
}

static void gemm(const cf_case *c, const kt_value *in, kt_value *out) {
  multiply(&in[0], &in[1], c->opt[0].v.i, c->opt[1].v.i, &out[0]);
}

static void matmul(const cf_case *c, const kt_value *in, kt_value *out) {
  kt_value a = in[0], b = in[1];
  (void)c;
  const bool row = a.desc.shape.ndim == 1, column = b.desc.shape.ndim == 1;
  if (row) a.desc.shape = (neap_shape){2, {1, a.desc.shape.dim[0]}};
  if (column) b.desc.shape = (neap_shape){2, {b.desc.shape.dim[0], 1}};
  multiply(&a, &b, false, false, &out[0]);
  neap_shape *s = &out[0].desc.shape;
  if (column) s->ndim--;
  if (row && column) s->ndim--;
  if (row && !column) {
    s->dim[s->ndim - 2] = s->dim[s->ndim - 1];
    s->ndim--;
  }
}

static void linear(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t features = in[1].desc.shape.dim[1], n = in[1].desc.shape.dim[0];
  neap_shape shape = in[0].desc.shape;
  shape.dim[shape.ndim - 1] = n;
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    double s = c->n_in > 2 ? kt_get(&in[2], i % n) : 0;
    for (int64_t k = 0; k < features; k++)
      s += kt_get(&in[0], i / n * features + k) * kt_get(&in[1], i % n * features + k);
    kt_set(&out[0], i, s);
  }
}

static void linear_grad_weight(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *d = &in[0].desc.shape, *x = &in[1].desc.shape;
  const int64_t m = d->dim[d->ndim - 1], n = x->dim[x->ndim - 1], rows = m ? kt_count(&in[0]) / m : 0;
  (void)c;
  out[0] = cf_made(&(neap_shape){2, {m, n}});
  out[1] = cf_made(&(neap_shape){1, {m}});
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < m; i++) {
      const double g = kt_get(&in[0], r * m + i);
      kt_set(&out[1], i, kt_get(&out[1], i) + g);
      for (int64_t j = 0; j < n; j++)
        kt_set(&out[0], i * n + j, kt_get(&out[0], i * n + j) + g * kt_get(&in[1], r * n + j));
    }
}

/* --- windows over (N, C, H, W) --- */
typedef struct window {
  int64_t kernel[2], stride[2], padding[2], dilation[2], size[2], places[2];
} window;

static window window_of(const cf_case *c, const neap_shape *in, int64_t kh, int64_t kw) {
  const bool ceil_mode = cf_whole(c, "ceil_mode", 0, 0);
  window w = {.kernel = {kh, kw}};
  for (int a = 0; a < 2; a++) {
    w.size[a] = in->dim[2 + a];
    w.stride[a] = cf_whole(c, "stride", a, w.kernel[a]);
    w.padding[a] = cf_whole(c, "padding", a, 0);
    w.dilation[a] = cf_whole(c, "dilation", a, 1);
    const double room = (double)(w.size[a] + 2 * w.padding[a] - w.dilation[a] * (w.kernel[a] - 1) - 1);
    w.places[a] = (int64_t)(ceil_mode ? ceil(room / (double)w.stride[a]) : floor(room / (double)w.stride[a])) + 1;
    if (ceil_mode && (w.places[a] - 1) * w.stride[a] >= w.size[a] + w.padding[a]) w.places[a]--;
  }
  return w;
}

/* The input's row (axis 0) or column under kernel element k at place o, or -1 in the padding. */
static int64_t under(const window *w, int a, int64_t o, int64_t k) {
  const int64_t i = o * w->stride[a] - w->padding[a] + k * w->dilation[a];
  return i >= 0 && i < w->size[a] ? i : -1;
}

static double convolve(const kt_value *in, const window *w, const cf_place *p, int64_t groups) {
  const int64_t channels = in[0].desc.shape.dim[1], outputs = in[1].desc.shape.dim[0], each = channels / groups;
  const int64_t first = p->at[1] / (outputs / groups) * each;
  double s = 0;
  for (int64_t ch = 0; ch < each; ch++)
    for (int64_t y = 0; y < w->kernel[0]; y++)
      for (int64_t x = 0; x < w->kernel[1]; x++) {
        const int64_t iy = under(w, 0, p->at[2], y), ix = under(w, 1, p->at[3], x);
        if (iy < 0 || ix < 0) continue;
        s += kt_get(&in[0], cf_index(&in[0].desc.shape, &(cf_place){{p->at[0], first + ch, iy, ix}})) *
             kt_get(&in[1], cf_index(&in[1].desc.shape, &(cf_place){{p->at[1], ch, y, x}}));
      }
  return s;
}

static void conv2d(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *x = &in[0].desc.shape, *k = &in[1].desc.shape;
  const window w = window_of(c, x, k->dim[2], k->dim[3]);
  const neap_shape shape = {4, {x->dim[0], k->dim[0], w.places[0], w.places[1]}};
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&shape, i, &p);
    const double bias = c->n_in > 2 ? kt_get(&in[2], p.at[1]) : 0;
    kt_set(&out[0], i, bias + convolve(in, &w, &p, cf_whole(c, "groups", 0, 1)));
  }
}

/* x: (N, C, L), w: (O, C / groups, k): images of height 1. */
static void conv1d(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *x = &in[0].desc.shape, *k = &in[1].desc.shape;
  kt_value flat[3] = {in[0], in[1], c->n_in > 2 ? in[2] : in[1]};
  flat[0].desc.shape = (neap_shape){4, {x->dim[0], x->dim[1], 1, x->dim[2]}};
  flat[1].desc.shape = (neap_shape){4, {k->dim[0], k->dim[1], 1, k->dim[2]}};
  window w = window_of(c, &flat[0].desc.shape, 1, k->dim[2]);
  w.padding[0] = 0;
  const neap_shape shape = {4, {x->dim[0], k->dim[0], 1, w.places[1]}};
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&shape, i, &p);
    const double bias = c->n_in > 2 ? kt_get(&in[2], p.at[1]) : 0;
    kt_set(&out[0], i, bias + convolve(flat, &w, &p, cf_whole(c, "groups", 0, 1)));
  }
  out[0].desc.shape = (neap_shape){3, {x->dim[0], k->dim[0], w.places[1]}};
}

static double pool_max(const kt_value *in, const window *w, const cf_place *p) {
  double most = -INFINITY;
  for (int64_t y = 0; y < w->kernel[0]; y++)
    for (int64_t x = 0; x < w->kernel[1]; x++) {
      const int64_t iy = under(w, 0, p->at[2], y), ix = under(w, 1, p->at[3], x);
      if (iy < 0 || ix < 0) continue;
      const double v = kt_get(in, cf_index(&in->desc.shape, &(cf_place){{p->at[0], p->at[1], iy, ix}}));
      if (v > most || isnan(v)) most = v;
      if (isnan(v)) return v;
    }
  return most;
}

/* What lies beyond the padding, under a window that hangs over, never counts. */
static double pool_mean(const cf_case *c, const kt_value *in, const window *w, const cf_place *p) {
  double s = 0;
  int64_t inside = 0, padded = 0;
  for (int64_t y = 0; y < w->kernel[0]; y++)
    for (int64_t x = 0; x < w->kernel[1]; x++) {
      const int64_t iy = under(w, 0, p->at[2], y), ix = under(w, 1, p->at[3], x);
      padded += p->at[2] * w->stride[0] - w->padding[0] + y < w->size[0] + w->padding[0] &&
                p->at[3] * w->stride[1] - w->padding[1] + x < w->size[1] + w->padding[1];
      if (iy < 0 || ix < 0) continue;
      inside++;
      s += kt_get(in, cf_index(&in->desc.shape, &(cf_place){{p->at[0], p->at[1], iy, ix}}));
    }
  const int64_t fixed = cf_whole(c, "divisor_override", 0, 0);
  return s / (double)(fixed ? fixed : cf_whole(c, "count_include_pad", 0, 1) ? padded : inside);
}

static void pool(const cf_case *c, const kt_value *in, kt_value *out, bool mean) {
  const neap_shape *x = &in[0].desc.shape;
  const window w = window_of(c, x, cf_whole(c, "kernel_size", 0, 1), cf_whole(c, "kernel_size", 1, 1));
  const neap_shape shape = {4, {x->dim[0], x->dim[1], w.places[0], w.places[1]}};
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(&shape, i, &p);
    kt_set(&out[0], i, mean ? pool_mean(c, in, &w, &p) : pool_max(in, &w, &p));
  }
}

static void max_pool2d(const cf_case *c, const kt_value *in, kt_value *out) { pool(c, in, out, false); }
static void avg_pool2d(const cf_case *c, const kt_value *in, kt_value *out) { pool(c, in, out, true); }

/* The element whose number in the window is given; 0 where the window has none. */
static void max_pool2d_at(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *x = &in[0].desc.shape, *y = &in[1].desc.shape;
  const window w = window_of(c, x, cf_whole(c, "kernel_size", 0, 1), cf_whole(c, "kernel_size", 1, 1));
  out[0] = cf_made(y);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    cf_locate(y, i, &p);
    const int64_t number = (int64_t)kt_get(&in[1], i);
    const int64_t iy = under(&w, 0, p.at[2], number / w.kernel[1]), ix = under(&w, 1, p.at[3], number % w.kernel[1]);
    if (number < 0 || number >= w.kernel[0] * w.kernel[1] || iy < 0 || ix < 0) continue;
    kt_set(&out[0], i, kt_get(&in[0], cf_index(x, &(cf_place){{p.at[0], p.at[1], iy, ix}})));
  }
}

/* Window i of n over size begins at floor(i size / n) and ends before ceil((i + 1) size / n). */
static void adaptive_avg_pool2d(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *x = &in[0].desc.shape;
  const int64_t n[2] = {cf_whole(c, "output_size", 0, 1), cf_whole(c, "output_size", 1, 1)};
  const neap_shape shape = {4, {x->dim[0], x->dim[1], n[0], n[1]}};
  out[0] = cf_made(&shape);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    cf_place p;
    int64_t from[2], to[2];
    double s = 0;
    cf_locate(&shape, i, &p);
    for (int a = 0; a < 2; a++) {
      from[a] = p.at[2 + a] * x->dim[2 + a] / n[a];
      to[a] = ((p.at[2 + a] + 1) * x->dim[2 + a] + n[a] - 1) / n[a];
    }
    for (int64_t y = from[0]; y < to[0]; y++)
      for (int64_t z = from[1]; z < to[1]; z++) s += kt_get(&in[0], cf_index(x, &(cf_place){{p.at[0], p.at[1], y, z}}));
    kt_set(&out[0], i, s / (double)((to[0] - from[0]) * (to[1] - from[1])));
  }
}

const cf_oracle_row cf_oracles_product[] = {{"gemm", gemm},
                                            {"matmul", matmul},
                                            {"linear", linear},
                                            {"linear_grad_weight", linear_grad_weight},
                                            {"conv2d", conv2d},
                                            {"conv1d", conv1d},
                                            {"max_pool2d", max_pool2d},
                                            {"max_pool2d_at", max_pool2d_at},
                                            {"avg_pool2d", avg_pool2d},
                                            {"adaptive_avg_pool2d", adaptive_avg_pool2d},
                                            {NULL, NULL}};
