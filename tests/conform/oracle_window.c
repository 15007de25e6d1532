/* Windows over sequences, images and volumes, all seen as volumes (N, C, D, H, W): sizes that are not there are 1. */
#include <math.h>

#include "conform/oracle.h"

typedef struct axis {
  int64_t size, kernel, stride, padding, dilation, places;
} axis;

typedef struct window {
  int32_t spatial; /* how many of the three axes there are, the last ones */
  int64_t samples, channels;
  axis a[3];
} window;

/* The option for axis k of three: one number for all, or one for each that is there. */
static int64_t option_at(const cf_case *c, const char *name, const window *w, int k, int64_t otherwise,
                         int64_t outside) {
  const neap_opt *o = cf_option(c, name);
  const int32_t i = k - (3 - w->spatial);
  if (i < 0) return outside;
  if (!o) return otherwise;
  return o->n == 0 ? o->v.i : o->v.list[o->n == 1 ? 0 : i];
}

/* kernel: sizes along the axes there are, NULL for the option. */
static window window_of(const cf_case *c, const neap_shape *x, const int64_t *kernel) {
  window w = {.spatial = x->ndim - 2, .samples = x->dim[0], .channels = x->dim[1]};
  const bool ceil_mode = cf_whole(c, "ceil_mode", 0, 0);
  for (int k = 0; k < 3; k++) {
    axis *a = &w.a[k];
    const int32_t i = k - (3 - w.spatial);
    a->size = i < 0 ? 1 : x->dim[2 + i];
    a->kernel = kernel ? (i < 0 ? 1 : kernel[i]) : option_at(c, "kernel_size", &w, k, 1, 1);
    a->stride = option_at(c, "stride", &w, k, kernel ? 1 : a->kernel, 1);
    a->padding = option_at(c, "padding", &w, k, 0, 0);
    a->dilation = option_at(c, "dilation", &w, k, 1, 1);
    const double room = (double)(a->size + 2 * a->padding - a->dilation * (a->kernel - 1) - 1) / (double)a->stride;
    a->places = (int64_t)(ceil_mode ? ceil(room) : floor(room)) + 1;
    if (ceil_mode && (a->places - 1) * a->stride >= a->size + a->padding) a->places--;
  }
  return w;
}

static neap_shape placed(const window *w, int64_t channels) {
  neap_shape s = {2, {w->samples, channels}};
  for (int k = 3 - w->spatial; k < 3; k++) s.dim[s.ndim++] = w->a[k].places;
  return s;
}

/* Element j of the window at place o of axis k lies at *at, in the input or not. */
static bool under(const axis *a, int64_t o, int64_t j, int64_t *at) {
  *at = o * a->stride - a->padding + j * a->dilation;
  return *at >= 0 && *at < a->size;
}

/* What a window has: the j-th of its elements, counted row by row, of channel plane `plane`. */
typedef struct cell {
  bool inside, padded; /* padded: in the input or its padding */
  double value;
} cell;

static cell cell_at(const kt_value *x, const window *w, int64_t plane, const int64_t *place, int64_t j) {
  int64_t at[3];
  cell r = {true, true, 0};
  for (int k = 2; k >= 0; k--) {
    const axis *a = &w->a[k];
    r.inside &= under(a, place[k], j % a->kernel, &at[k]);
    r.padded &= at[k] < a->size + a->padding;
    j /= a->kernel;
  }
  if (r.inside) r.value = kt_get(x, ((plane * w->a[0].size + at[0]) * w->a[1].size + at[1]) * w->a[2].size + at[2]);
  return r;
}

static int64_t cells(const window *w) { return w->a[0].kernel * w->a[1].kernel * w->a[2].kernel; }
static int64_t places(const window *w) { return w->a[0].places * w->a[1].places * w->a[2].places; }

static void split_place(const window *w, int64_t i, int64_t *place) {
  place[2] = i % w->a[2].places;
  place[1] = i / w->a[2].places % w->a[1].places;
  place[0] = i / w->a[2].places / w->a[1].places;
}

static void pool(const cf_case *c, const kt_value *in, kt_value *out, bool mean) {
  const window w = window_of(c, &in->desc.shape, NULL);
  const neap_shape s = placed(&w, w.channels);
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    int64_t place[3], inside = 0, padded = 0;
    double sum = 0, most = -INFINITY;
    split_place(&w, i % places(&w), place);
    for (int64_t j = 0; j < cells(&w); j++) {
      const cell v = cell_at(in, &w, i / places(&w), place, j);
      inside += v.inside;
      padded += v.padded;
      sum += v.value;
      if (v.inside && (v.value > most || isnan(v.value)) && !isnan(most)) most = v.value;
    }
    kt_set(&out[0], i, mean ? sum / (double)(cf_whole(c, "count_include_pad", 0, 1) ? padded : inside) : most);
  }
}

static void max_pool(const cf_case *c, const kt_value *in, kt_value *out) { pool(c, in, out, false); }
static void avg_pool(const cf_case *c, const kt_value *in, kt_value *out) { pool(c, in, out, true); }

static void conv(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *k = &in[1].desc.shape;
  const window w = window_of(c, &in[0].desc.shape, k->dim + 2);
  const int64_t outputs = k->dim[0], each = k->dim[1], groups = cf_whole(c, "groups", 0, 1);
  const neap_shape s = placed(&w, outputs);
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    const int64_t o = i / places(&w) % outputs,
                  first = i / places(&w) / outputs * w.channels + o / (outputs / groups) * each;
    int64_t place[3];
    double sum = c->n_in > 2 ? kt_get(&in[2], o) : 0;
    split_place(&w, i % places(&w), place);
    for (int64_t ch = 0; ch < each; ch++)
      for (int64_t j = 0; j < cells(&w); j++) {
        const cell v = cell_at(&in[0], &w, first + ch, place, j);
        if (v.inside) sum += v.value * kt_get(&in[1], (o * each + ch) * cells(&w) + j);
      }
    kt_set(&out[0], i, sum);
  }
}

/* x: (N, C, L), w: (C, O / groups, k): each element spreads the kernel over the output. */
static void conv_transpose1d(const cf_case *c, const kt_value *in, kt_value *out) {
  const neap_shape *x = &in[0].desc.shape, *k = &in[1].desc.shape;
  const int64_t stride = cf_whole(c, "stride", 0, 1), padding = cf_whole(c, "padding", 0, 0),
                dilation = cf_whole(c, "dilation", 0, 1), groups = cf_whole(c, "groups", 0, 1);
  const int64_t length =
      (x->dim[2] - 1) * stride + (k->dim[2] - 1) * dilation + 1 - 2 * padding + cf_whole(c, "output_padding", 0, 0);
  const int64_t outputs = k->dim[1] * groups;
  out[0] = cf_made(&(neap_shape){3, {x->dim[0], outputs, length}});
  for (int64_t i = 0; i < kt_count(&out[0]) && c->n_in > 2; i++)
    kt_set(&out[0], i, kt_get(&in[2], i / length % outputs));
  for (int64_t i = 0; i < kt_count(&in[0]); i++)
    for (int64_t j = 0; j < k->dim[1] * k->dim[2]; j++) {
      const int64_t ch = i / x->dim[2] % x->dim[1], o = ch / (x->dim[1] / groups) * k->dim[1] + j / k->dim[2];
      const int64_t at = i % x->dim[2] * stride + j % k->dim[2] * dilation - padding;
      const int64_t to = (i / x->dim[2] / x->dim[1] * outputs + o) * length + at;
      if (at < 0 || at >= length) continue;
      kt_set(&out[0], to, kt_get(&out[0], to) + kt_get(&in[0], i) * kt_get(&in[1], ch * k->dim[1] * k->dim[2] + j));
    }
}

static void unfold(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t kernel[] = {cf_whole(c, "kernel_size", 0, 1), cf_whole(c, "kernel_size", 1, 1)};
  const window w = window_of(c, &in->desc.shape, kernel);
  out[0] = cf_made(&(neap_shape){3, {w.samples, w.channels * cells(&w), places(&w)}});
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    int64_t place[3];
    split_place(&w, i % places(&w), place);
    const int64_t row = i / places(&w);
    kt_set(&out[0], i, cell_at(in, &w, row / cells(&w), place, row % cells(&w)).value);
  }
}

static void fold(const cf_case *c, const kt_value *in, kt_value *out) {
  const int64_t kernel[] = {cf_whole(c, "kernel_size", 0, 1), cf_whole(c, "kernel_size", 1, 1)};
  const int64_t n = kernel[0] * kernel[1];
  const neap_shape s = {4,
                        {in->desc.shape.dim[0], in->desc.shape.dim[1] / n, cf_whole(c, "output_size", 0, 1),
                         cf_whole(c, "output_size", 1, 1)}};
  const window w = window_of(c, &s, kernel);
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(in); i++) {
    int64_t place[3], y, x;
    split_place(&w, i % places(&w), place);
    const int64_t row = i / places(&w), j = row % n;
    if (!under(&w.a[1], place[1], j / kernel[1], &y) || !under(&w.a[2], place[2], j % kernel[1], &x)) continue;
    const int64_t to = (row / n * s.dim[2] + y) * s.dim[3] + x;
    kt_set(&out[0], to, kt_get(&out[0], to) + kt_get(in, i));
  }
}

/* Window i of n over size begins at floor(i size / n) and ends before ceil((i + 1) size / n). */
static void adaptive(const cf_case *c, const kt_value *in, kt_value *out, bool mean) {
  const neap_shape *x = &in->desc.shape;
  const int64_t h = x->ndim == 4 ? x->dim[2] : 1, width = x->dim[x->ndim - 1];
  const int64_t rows = x->ndim == 4 ? cf_whole(c, "output_size", 0, 1) : 1, columns = cf_whole(c, "output_size", 1, 1);
  neap_shape s = {x->ndim, {x->dim[0], x->dim[1], rows, columns}};
  if (x->ndim == 3) s.dim[2] = columns;
  out[0] = cf_made(&s);
  for (int64_t i = 0; i < kt_count(&out[0]); i++) {
    const int64_t r = i / columns % rows, k = i % columns, plane = i / columns / rows;
    double sum = 0, most = -INFINITY, n = 0;
    for (int64_t y = r * h / rows; y < ((r + 1) * h + rows - 1) / rows; y++)
      for (int64_t z = k * width / columns; z < ((k + 1) * width + columns - 1) / columns; z++, n++) {
        const double v = kt_get(in, (plane * h + y) * width + z);
        sum += v;
        if ((v > most || isnan(v)) && !isnan(most)) most = v;
      }
    kt_set(&out[0], i, mean ? sum / n : most);
  }
}

static void adaptive_avg(const cf_case *c, const kt_value *in, kt_value *out) { adaptive(c, in, out, true); }
static void adaptive_max(const cf_case *c, const kt_value *in, kt_value *out) { adaptive(c, in, out, false); }

const cf_oracle_row cf_oracles_window[] = {{"max_pool1d", max_pool},
                                           {"avg_pool1d", avg_pool},
                                           {"max_pool3d", max_pool},
                                           {"avg_pool3d", avg_pool},
                                           {"conv3d", conv},
                                           {"conv_transpose1d", conv_transpose1d},
                                           {"unfold", unfold},
                                           {"fold", fold},
                                           {"adaptive_avg_pool1d", adaptive_avg},
                                           {"adaptive_max_pool1d", adaptive_max},
                                           {"adaptive_max_pool2d", adaptive_max},
                                           {NULL, NULL}};
