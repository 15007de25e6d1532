#include "kernel_case.h"
#include "op/op.h"

/* Each check runs by oneDNN, where it is built in, and by the portable kernels. */
static case_device devices[2];
#define EACH_DEVICE(d) for (case_device *d = devices; d < devices + 2; d++)

typedef struct conv {
  int n, c, h, w, o, kh, kw, stride[2], padding[2], dilation[2], groups;
} conv;

static const conv shapes[] = {
    {2, 1, 5, 5, 3, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},     {3, 3, 7, 6, 4, 3, 2, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 4, 9, 8, 6, 3, 3, {2, 1}, {1, 0}, {1, 1}, 2},     {1, 2, 9, 9, 3, 3, 3, {1, 1}, {2, 2}, {2, 2}, 1},
    {2, 3, 5, 5, 3, 3, 3, {1, 1}, {1, 1}, {1, 1}, 3},     {2, 3, 5, 5, 5, 1, 1, {2, 2}, {0, 0}, {1, 1}, 1},
    {19, 3, 6, 6, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},    {9, 16, 8, 8, 16, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},
    {10, 1, 12, 12, 16, 5, 5, {3, 2}, {2, 1}, {1, 1}, 1}, {2, 17, 6, 7, 33, 2, 3, {1, 1}, {0, 1}, {1, 2}, 1},
    {0, 2, 5, 5, 3, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},     {1, 1, 3, 3, 1, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},
    {67, 1, 4, 4, 2, 2, 2, {1, 1}, {0, 0}, {1, 1}, 1},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static int places(const conv *s, int axis) {
  const int size = axis ? s->w : s->h, k = axis ? s->kw : s->kh;
  return (size + 2 * s->padding[axis] - s->dilation[axis] * (k - 1) - 1) / s->stride[axis] + 1;
}

static void options(const conv *s, neap_opt *opt, int64_t h, int64_t w) {
  opt[0] = case_pair(s->stride[0], s->stride[1]);
  opt[1] = case_pair(s->padding[0], s->padding[1]);
  opt[2] = case_pair(s->dilation[0], s->dilation[1]);
  opt[3] = NEAP_INT(s->groups);
  if (h) opt[4] = case_pair(h, w);
}

enum { X, W, Y }; /* the three arrays of a convolution, and their seeds */

static neap_desc side(const conv *s, neap_dtype t, int which) {
  if (which == X) return case_desc(t, 4, s->n, s->c, s->h, s->w);
  if (which == W) return case_desc(t, 4, s->o, s->c / s->groups, s->kh, s->kw);
  return case_desc(t, 4, s->n, s->o, places(s, 0), places(s, 1));
}

static kernel_case make_case(const conv *s, neap_dtype t, const neap_op *op) {
  kernel_case c = {.op = op, .n_in = 2, .flags = NEAP_LAUNCH_FIRST};
  const bool forward = op == &neap__op_conv2d, weight = op == &neap__op_conv2d_grad_weight;
  const int a = forward ? X : Y, b = weight ? X : W;
  options(s, c.opt, forward ? 0 : weight ? s->kh : s->h, weight ? s->kw : s->w);
  c.in[0] = (neap_operand){.desc = side(s, t, a), .batch = {NEAP_B_SAMPLE, 0, 1}};
  c.in[1].desc = side(s, t, b);
  c.in_data[0] = case_numbers(&c.in[0].desc, 11 + (uint32_t)a);
  c.in_data[1] = case_numbers(&c.in[1].desc, 11 + (uint32_t)b);
  if (forward) {
    c.in[c.n_in].desc = case_desc(t, 1, s->o);
    c.in_data[c.n_in] = case_numbers(&c.in[c.n_in].desc, 17);
    c.n_in++;
  }
  for (uint32_t o = 0; o < op->n_out; o++) c.out[o].batch = c.in[0].batch;
  if (weight) {
    c.in[1].batch = c.in[0].batch;
    c.out[0].batch = c.out[1].batch = (neap_batch){.kind = NEAP_B_SUM};
  }
  case_infer(&c);
  return c;
}

/* Calls fn with the indices of x, w and y of each product. */
static void each_product(const conv *s, void (*fn)(void *ctx, int64_t x, int64_t w, int64_t y), void *ctx) {
  const int oh = places(s, 0), ow = places(s, 1), cg = s->c / s->groups, og = s->o / s->groups;
  for (int n = 0; n < s->n; n++)
    for (int o = 0; o < s->o; o++)
      for (int yy = 0; yy < oh; yy++)
        for (int yx = 0; yx < ow; yx++)
          for (int c = 0; c < cg; c++)
            for (int ky = 0; ky < s->kh; ky++)
              for (int kx = 0; kx < s->kw; kx++) {
                const int xy = yy * s->stride[0] - s->padding[0] + ky * s->dilation[0];
                const int xx = yx * s->stride[1] - s->padding[1] + kx * s->dilation[1];
                if (xy < 0 || xy >= s->h || xx < 0 || xx >= s->w) continue;
                fn(ctx, (((int64_t)n * s->c + o / og * cg + c) * s->h + xy) * s->w + xx,
                   ((int64_t)(o * cg + c) * s->kh + ky) * s->kw + kx, (((int64_t)n * s->o + o) * oh + yy) * ow + yx);
              }
}

typedef struct sums {
  const kernel_case *c;
  double *out;
} sums;

static void add_forward(void *ctx, int64_t x, int64_t w, int64_t y) {
  const sums *s = ctx;
  s->out[y] += case_at(&s->c->in[0].desc, s->c->in_data[0], x) * case_at(&s->c->in[1].desc, s->c->in_data[1], w);
}
static void add_input(void *ctx, int64_t x, int64_t w, int64_t y) {
  const sums *s = ctx;
  s->out[x] += case_at(&s->c->in[0].desc, s->c->in_data[0], y) * case_at(&s->c->in[1].desc, s->c->in_data[1], w);
}
static void add_weight(void *ctx, int64_t x, int64_t w, int64_t y) {
  const sums *s = ctx;
  s->out[w] += case_at(&s->c->in[0].desc, s->c->in_data[0], y) * case_at(&s->c->in[1].desc, s->c->in_data[1], x);
}

static double *new_sums(const kernel_case *c, uint32_t o) {
  double *p = calloc((size_t)neap__shape_count(&c->out[o].desc.shape) + 1, sizeof *p);
  assert_non_null(p);
  return p;
}

static void check_forward(case_device *d, const conv *s, neap_dtype t) {
  kernel_case c = make_case(s, t, &neap__op_conv2d);
  double *want = new_sums(&c, 0);
  const int64_t plane = places(s, 0) * places(s, 1), n = neap__shape_count(&c.out[0].desc.shape);
  for (int64_t i = 0; i < n; i++) want[i] = case_at(&c.in[2].desc, c.in_data[2], i / plane % s->o);
  each_product(s, add_forward, &(sums){&c, want});
  case_run(d, &c, false);
  case_close(&c, 0, want, 4.0 * (s->c * s->kh * s->kw + 2));
  free(want);
  case_free(&c);
}

static void check_input(case_device *d, const conv *s, neap_dtype t) {
  kernel_case c = make_case(s, t, &neap__op_conv2d_grad_input);
  double *want = new_sums(&c, 0);
  each_product(s, add_input, &(sums){&c, want});
  case_run(d, &c, false);
  case_close(&c, 0, want, 4.0 * (s->o * s->kh * s->kw + 2));
  free(want);
  case_free(&c);
}

static void check_weight(case_device *d, const conv *s, neap_dtype t) {
  kernel_case c = make_case(s, t, &neap__op_conv2d_grad_weight);
  double *dw = new_sums(&c, 0), *db = new_sums(&c, 1);
  const int64_t plane = places(s, 0) * places(s, 1), n = neap__shape_count(&c.in[0].desc.shape);
  each_product(s, add_weight, &(sums){&c, dw});
  for (int64_t i = 0; i < n; i++) db[i / plane % s->o] += case_at(&c.in[0].desc, c.in_data[0], i);
  case_run(d, &c, false);
  case_close(&c, 0, dw, 4.0 * (double)(s->n * plane + 2));
  case_close(&c, 1, db, 4.0 * (double)(s->n * plane + 2));
  free(dw);
  free(db);
  case_free(&c);
}

static void convolutions_equal_plain_loops(void **state) {
  (void)state;
  EACH_DEVICE(d)
  for (size_t i = 0; i < SHAPES; i++) {
    check_forward(d, &shapes[i], NEAP_F32);
    check_forward(d, &shapes[i], NEAP_F64);
  }
}

static void gradients_equal_plain_loops(void **state) {
  (void)state;
  EACH_DEVICE(d)
  for (size_t i = 0; i < SHAPES; i++)
    for (int t = NEAP_F32; t <= NEAP_F64; t++) {
      check_input(d, &shapes[i], (neap_dtype)t);
      check_weight(d, &shapes[i], (neap_dtype)t);
    }
}

/* --- bits ----------------------------------------------------------------------------------------------- */

static const neap_op *const ops[] = {&neap__op_conv2d, &neap__op_conv2d_grad_input, &neap__op_conv2d_grad_weight};
static const conv big[] = {{70, 1, 14, 14, 16, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},
                           {70, 8, 10, 10, 12, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1}};

static void check_same_bits(const kernel_case *a, const kernel_case *b) {
  for (uint32_t o = 0; o < a->op->n_out; o++)
    assert_memory_equal(a->out_data[o], b->out_data[o], neap__desc_bytes(&a->out[o].desc));
}

static void threads_do_not_show(void **state) {
  static const uint32_t widths[] = {1, 2, 3, 8};
  (void)state;
  for (int library = 0; library < 2; library++)
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
      case_device d;
      device_open(&d, widths[w], library);
      for (size_t i = 0; i < 6; i++) {
        kernel_case one = make_case(&big[i / 3], NEAP_F32, ops[i % 3]);
        kernel_case many = make_case(&big[i / 3], NEAP_F32, ops[i % 3]);
        case_run(&devices[!library], &one, true);
        case_run(&d, &many, false);
        check_same_bits(&one, &many);
        case_free(&one);
        case_free(&many);
      }
      device_close(&d);
    }
}

/* Micro-batches of `step` samples give the bits of the whole batch: its part of them, or its sum. */
static void check_micro(case_device *d, const conv *s, const neap_op *op, int step) {
  kernel_case all = make_case(s, NEAP_F32, op), part = make_case(s, NEAP_F32, op);
  const bool sum = op == &neap__op_conv2d_grad_weight;
  const int64_t in_step = neap__shape_count(&all.in[0].desc.shape) / s->n;
  const int64_t in1_step = neap__shape_count(&all.in[1].desc.shape) / s->n;
  const int64_t out_step = neap__shape_count(&all.out[0].desc.shape) / s->n;
  void *const in[] = {part.in_data[0], part.in_data[1]}, *const out = part.out_data[0];
  case_run(d, &all, false);
  for (int from = 0; from < s->n; from += step) {
    const int count = s->n - from < step ? s->n - from : step;
    part.flags = from == 0 ? NEAP_LAUNCH_FIRST : 0;
    part.in[0].desc.shape.dim[0] = count;
    part.in_data[0] = (float *)in[0] + from * in_step;
    if (sum) {
      part.in[1].desc.shape.dim[0] = count;
      part.in_data[1] = (float *)in[1] + from * in1_step;
    } else {
      part.out[0].desc.shape.dim[0] = count;
      part.out_data[0] = (float *)out + from * out_step;
    }
    case_run(d, &part, false);
  }
  memcpy(part.in_data, in, sizeof in);
  part.out_data[0] = out;
  part.out[0].desc = all.out[0].desc;
  check_same_bits(&all, &part);
  case_free(&all);
  case_free(&part);
}

static void micro_batches_do_not_show(void **state) {
  static const int steps[] = {8, 16, 24, 64};
  (void)state;
  EACH_DEVICE(d)
  for (size_t i = 0; i < 6; i++)
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) check_micro(d, &big[i / 3], ops[i % 3], steps[s]);
}

/* --- failures ------------------------------------------------------------------------------------------- */

static void a_refused_allocation_leaks_nothing(void **state) {
  (void)state;
  EACH_DEVICE(d)
  for (size_t i = 0; i < 3; i++) {
    kernel_case c = make_case(&big[1], NEAP_F32, ops[i]);
    const uint64_t blocks = d->host.blocks;
    neap_status s = NEAP_NOMEM;
    for (uint64_t n = 1; s != NEAP_OK && n < 20; n++) {
      neap_kernel *k = NULL;
      neap_error err = {0};
      d->host.until = n;
      s = case_prepare(d, &c, &k, &err);
      d->host.until = 0;
      if (s == NEAP_OK) {
        d->b->vt->kernel_free(d->b, k);
      } else {
        assert_int_equal(s, NEAP_NOMEM);
        assert_null(k);
        assert_true(strstr(err.message, c.op->name) != NULL);
      }
      assert_int_equal(d->host.blocks, blocks);
    }
    assert_int_equal(s, NEAP_OK);
    case_free(&c);
  }
}

static void other_dtypes_are_refused_by_name(void **state) {
  kernel_case c = make_case(&shapes[0], NEAP_F32, &neap__op_conv2d);
  neap_error err = {0};
  neap_kernel *k = NULL;
  (void)state;
  for (uint32_t i = 0; i < c.n_in; i++) c.in[i].desc.dtype = NEAP_F16;
  c.out[0].desc.dtype = NEAP_F16;
  assert_int_equal(case_prepare(&devices[0], &c, &k, &err), NEAP_UNSUPPORTED);
  assert_null(k);
  assert_string_equal(err.message, "conv2d has no kernel for (fp16, fp16, fp16) on the cpu backend");
  assert_string_equal(err.op, "conv2d");
  case_free(&c);
}

static void bad_shapes_are_named(void **state) {
  static const struct {
    int x[4], w[4], groups, padding;
    const char *message;
  } bad[] = {
      {{8, 3, 28, 28},
       {16, 1, 3, 3},
       1,
       0,
       "input [8, 3, 28, 28] has 3 channels but weight [16, 1, 3, 3] takes 1 for each group (groups 1)"},
      {{8, 4, 28, 28}, {3, 2, 3, 3}, 2, 0, "weight [3, 2, 3, 3] makes 3 channels, which 2 groups do not share evenly"},
      {{8, 1, 2, 28},
       {3, 1, 5, 3},
       1,
       1,
       "input [8, 1, 2, 28] is too small for weight [3, 1, 5, 3] with padding 1 and dilation 1 along dimension 3"},
      {{8, 1, 2, 28}, {3, 1, 0, 3}, 1, 1, "weight [3, 1, 0, 3], expected a kernel of at least 1 x 1"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const int *x = bad[i].x, *w = bad[i].w;
    neap_desc in[] = {case_desc(NEAP_F32, 4, x[0], x[1], x[2], x[3]), case_desc(NEAP_F32, 4, w[0], w[1], w[2], w[3])};
    neap_desc out[NEAP_MAX_OUT];
    neap_opt opt[NEAP_MAX_OPTS];
    neap_error err = {0};
    assert_int_equal(neap__opts_complete(&neap__op_conv2d, NULL, opt, &err), NEAP_OK);
    opt[1] = case_pair(bad[i].padding, bad[i].padding);
    opt[3] = NEAP_INT(bad[i].groups);
    neap_infer infer = {&neap__op_conv2d, 2, 1, in, opt, out, &err};
    assert_int_equal(neap__op_conv2d.infer(&infer), NEAP_SHAPE);
    assert_string_equal(err.message, bad[i].message);
  }
}

static int open_devices(void **state) {
  (void)state;
  device_open(&devices[0], 2, true);
  device_open(&devices[1], 2, false);
  return 0;
}

static int close_devices(void **state) {
  (void)state;
  EACH_DEVICE(d) device_close(d);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions_equal_plain_loops),
      cmocka_unit_test(gradients_equal_plain_loops),
      cmocka_unit_test(threads_do_not_show),
      cmocka_unit_test(micro_batches_do_not_show),
      cmocka_unit_test(a_refused_allocation_leaks_nothing),
      cmocka_unit_test(other_dtypes_are_refused_by_name),
      cmocka_unit_test(bad_shapes_are_named),
  };
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}
