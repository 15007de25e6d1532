#include "kernel_case.h"
#include "op/op.h"

static case_device device;

typedef struct window {
  int n, c, h, w, kernel[2], stride[2], padding[2], dilation[2], ceil, include, oh, ow;
} window;

/* Output sizes are PyTorch's, written down rather than computed. */
static const window shapes[] = {
    {2, 3, 4, 6, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 0, 1, 2, 3},
    {2, 3, 5, 5, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0, 0, 3, 3},
    {1, 70, 5, 6, {2, 3}, {1, 2}, {0, 1}, {1, 1}, 1, 1, 4, 4},
    {3, 2, 7, 7, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, 1, 4, 4},
    {2, 16, 24, 24, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 0, 1, 12, 12},
    {1, 1, 3, 150, {1, 2}, {1, 1}, {0, 1}, {1, 1}, 0, 0, 3, 151},
    {1, 2, 20, 20, {17, 17}, {1, 1}, {8, 8}, {1, 1}, 0, 1, 20, 20},
    {0, 2, 4, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 0, 1, 2, 2},
    {2, 3, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0, 1, 1, 1},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])
static const window dilated = {1, 2, 7, 7, {2, 2}, {2, 2}, {0, 0}, {2, 2}, 0, 1, 3, 3};

static void options(const window *s, bool max, bool gradient, neap_opt *opt) {
  opt[0] = case_pair(s->kernel[0], s->kernel[1]);
  opt[1] = case_pair(s->stride[0], s->stride[1]);
  opt[2] = case_pair(s->padding[0], s->padding[1]);
  opt[3] = NEAP_INT(s->ceil);
  opt[4] = max ? case_pair(s->dilation[0], s->dilation[1]) : NEAP_INT(s->include);
  if (gradient) opt[5] = case_pair(s->h, s->w);
}

static kernel_case make_case(const window *s, neap_dtype t, const neap_op *op, neap_layout layout) {
  const bool max = op == &neap__op_max_pool2d || op == &neap__op_max_pool2d_grad;
  const bool gradient = op == &neap__op_max_pool2d_grad || op == &neap__op_avg_pool2d_grad;
  kernel_case c = {.op = op, .n_in = op->max_in};
  options(s, max, gradient, c.opt);
  c.in[0].desc = gradient ? case_desc(t, 4, s->n, s->c, s->oh, s->ow) : case_desc(t, 4, s->n, s->c, s->h, s->w);
  c.in_data[0] = case_numbers(&c.in[0].desc, 5);
  if (c.n_in > 1) {
    const bool narrow = s->kernel[0] * s->kernel[1] <= 256;
    c.in[1].desc = case_desc(narrow ? NEAP_U8 : NEAP_I32, 4, s->n, s->c, s->oh, s->ow);
    c.in_data[1] = malloc(case_bytes(&c.in[1].desc));
  }
  for (uint32_t i = 0; i < c.n_in; i++) c.in[i].layout = layout;
  case_infer(&c);
  return c;
}

static int64_t index_at(const neap_desc *d, const void *p, int64_t i) {
  return d->dtype == NEAP_U8 ? ((const uint8_t *)p)[i] : ((const int32_t *)p)[i];
}

/* The element of x under tap (ky, kx) of window `y`, an index into the outputs; -1 in the padding. */
static int64_t under(const window *s, int64_t y, int ky, int kx) {
  const int64_t ox = y % s->ow, oy = y / s->ow % s->oh, plane = y / (s->oh * s->ow);
  const int64_t iy = oy * s->stride[0] - s->padding[0] + ky * s->dilation[0];
  const int64_t ix = ox * s->stride[1] - s->padding[1] + kx * s->dilation[1];
  return iy < 0 || iy >= s->h || ix < 0 || ix >= s->w ? -1 : (plane * s->h + iy) * s->w + ix;
}

/* What an average divides by: the window's part within the padded input, or within the input. */
static double divisor(const window *s, int64_t y) {
  const int64_t at[2] = {y / s->ow % s->oh, y % s->ow}, size[2] = {s->h, s->w};
  int64_t count = 1;
  for (int a = 0; a < 2; a++) {
    int64_t inside = 0;
    for (int64_t k = 0; k < s->kernel[a]; k++) {
      const int64_t i = at[a] * s->stride[a] - s->padding[a] + k, pad = s->include ? s->padding[a] : 0;
      inside += i >= -pad && i < size[a] + pad;
    }
    count *= inside;
  }
  return (double)count;
}

static void check_max(const window *s, neap_dtype t, neap_layout layout) {
  kernel_case c = make_case(s, t, &neap__op_max_pool2d, layout);
  kernel_case g = make_case(s, t, &neap__op_max_pool2d_grad, layout);
  const int64_t n = neap__shape_count(&c.out[0].desc.shape);
  double *want = calloc((size_t)neap__shape_count(&c.in[0].desc.shape) + 1, sizeof *want);
  assert_int_equal(c.out[0].desc.shape.dim[2], s->oh);
  assert_int_equal(c.out[0].desc.shape.dim[3], s->ow);
  case_run(&device, &c, false);
  for (int64_t y = 0; y < n; y++) {
    double best = -INFINITY;
    int64_t at = 0, from = -1;
    for (int ky = 0; ky < s->kernel[0]; ky++)
      for (int kx = 0; kx < s->kernel[1]; kx++) {
        const int64_t x = under(s, y, ky, kx);
        if (x < 0 || !(case_at(&c.in[0].desc, c.in_data[0], x) > best)) continue;
        best = case_at(&c.in[0].desc, c.in_data[0], x);
        at = ky * s->kernel[1] + kx;
        from = x;
      }
    assert_true(case_at(&c.out[0].desc, c.out_data[0], y) == best);
    assert_int_equal(index_at(&c.out[1].desc, c.out_data[1], y), at);
    want[from] += case_at(&g.in[0].desc, g.in_data[0], y);
  }
  memcpy(g.in_data[1], c.out_data[1], neap__desc_bytes(&c.out[1].desc));
  case_run(&device, &g, false);
  case_close(&g, 0, want, 400);
  free(want);
  case_free(&c);
  case_free(&g);
}

static void check_avg(const window *s, neap_dtype t, neap_layout layout) {
  kernel_case c = make_case(s, t, &neap__op_avg_pool2d, layout);
  kernel_case g = make_case(s, t, &neap__op_avg_pool2d_grad, layout);
  const int64_t n = neap__shape_count(&c.out[0].desc.shape);
  double *want = calloc((size_t)n + 1, sizeof *want);
  double *back = calloc((size_t)neap__shape_count(&c.in[0].desc.shape) + 1, sizeof *back);
  for (int64_t y = 0; y < n; y++)
    for (int ky = 0; ky < s->kernel[0]; ky++)
      for (int kx = 0; kx < s->kernel[1]; kx++) {
        const int64_t x = under(s, y, ky, kx);
        if (x < 0) continue;
        want[y] += case_at(&c.in[0].desc, c.in_data[0], x) / divisor(s, y);
        back[x] += case_at(&g.in[0].desc, g.in_data[0], y) / divisor(s, y);
      }
  case_run(&device, &c, false);
  case_run(&device, &g, false);
  case_close(&c, 0, want, 400);
  case_close(&g, 0, back, 400);
  free(want);
  free(back);
  case_free(&c);
  case_free(&g);
}

static void pooling_equals_plain_loops(void **state) {
  (void)state;
  for (int layout = NEAP_LAYOUT_PLAIN; layout <= NEAP_LAYOUT_LAST; layout++)
    for (int t = NEAP_F32; t <= NEAP_F64; t++) {
      for (size_t i = 0; i < SHAPES; i++) {
        check_max(&shapes[i], (neap_dtype)t, (neap_layout)layout);
        check_avg(&shapes[i], (neap_dtype)t, (neap_layout)layout);
      }
      check_max(&dilated, (neap_dtype)t, (neap_layout)layout);
    }
}

static void nan_wins_and_of_equals_the_first(void **state) {
  static const window s = {1, 1, 2, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 0, 1, 1, 2};
  static const float x[] = {1, 3, NAN, 9, 3, 2, 7, 8};
  kernel_case c = make_case(&s, NEAP_F32, &neap__op_max_pool2d, NEAP_LAYOUT_PLAIN);
  (void)state;
  memcpy(c.in_data[0], x, sizeof x);
  case_run(&device, &c, false);
  assert_true(((float *)c.out_data[0])[0] == 3.0f);
  assert_int_equal(((uint8_t *)c.out_data[1])[0], 1);
  assert_true(isnan(((float *)c.out_data[0])[1]));
  assert_int_equal(((uint8_t *)c.out_data[1])[1], 0);
  case_free(&c);
}

/* Left out, the stride is the window's size. */
static void the_stride_is_the_window(void **state) {
  neap_desc in = case_desc(NEAP_F32, 4, 1, 1, 6, 9), out[NEAP_MAX_OUT];
  neap_opt given[NEAP_MAX_OPTS] = {case_pair(2, 3)}, opt[NEAP_MAX_OPTS];
  neap_error err = {0};
  (void)state;
  assert_int_equal(neap__opts_complete(&neap__op_max_pool2d, given, opt, &err), NEAP_OK);
  neap_infer x = {&neap__op_max_pool2d, 1, 2, &in, opt, out, &err};
  assert_int_equal(neap__op_max_pool2d.infer(&x), NEAP_OK);
  assert_int_equal(out[0].shape.dim[2], 3);
  assert_int_equal(out[0].shape.dim[3], 3);
  opt[2] = case_pair(2, 0);
  assert_int_equal(neap__op_max_pool2d.infer(&x), NEAP_RANGE);
  assert_string_equal(err.message, "`padding` is 2, expected at most half of the kernel's 2");
}

static int open_device(void **state) {
  (void)state;
  device_open(&device, 2, true);
  return 0;
}

static int close_device(void **state) {
  (void)state;
  device_close(&device);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pooling_equals_plain_loops),
      cmocka_unit_test(nan_wins_and_of_equals_the_first),
      cmocka_unit_test(the_stride_is_the_window),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
