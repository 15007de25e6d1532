#include "kernel_case.h"

#include "kernels/cpu/gemm.h"
#include "op/op.h"

static case_device device;

/* --- against plain loops ----------------------------------------------------------------------------------------- */

static void reference_gemm(const kernel_case *c, double *out) {
  const neap_shape *a = &c->in[0].desc.shape, *b = &c->in[1].desc.shape, *o = &c->out[0].desc.shape;
  const bool ta = c->opt[0].v.i, tb = c->opt[1].v.i;
  const int64_t m = o->dim[o->ndim - 2], n = o->dim[o->ndim - 1], k = a->dim[a->ndim - (ta ? 2 : 1)];
  const int64_t count = m > 0 && n > 0 ? neap__shape_count(o) / (m * n) : 0;
  for (int64_t x = 0; x < count; x++) {
    int64_t rest = x, am = 0, bm = 0, as = 1, bs = 1;
    for (int32_t d = o->ndim - 3; d >= 0; d--) {
      const int64_t at = rest % o->dim[d], da = d - (o->ndim - a->ndim), db = d - (o->ndim - b->ndim);
      rest /= o->dim[d];
      if (da >= 0) am += (a->dim[da] == 1 ? 0 : at) * as, as *= a->dim[da];
      if (db >= 0) bm += (b->dim[db] == 1 ? 0 : at) * bs, bs *= b->dim[db];
    }
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
          sum += case_at(&c->in[0].desc, c->in_data[0], am * m * k + (ta ? l * m + i : i * k + l)) *
                 case_at(&c->in[1].desc, c->in_data[1], bm * k * n + (tb ? j * k + l : l * n + j));
        out[(x * m + i) * n + j] = sum;
      }
  }
}

static kernel_case gemm_case(neap_desc a, neap_desc b, bool ta, bool tb) {
  kernel_case c = {.op = &neap__op_gemm, .n_in = 2, .opt = {NEAP_INT(ta), NEAP_INT(tb)}};
  c.in[0].desc = a;
  c.in[1].desc = b;
  c.in_data[0] = case_numbers(&a, 1);
  c.in_data[1] = case_numbers(&b, 2);
  case_infer(&c);
  return c;
}

static void check_gemm(neap_desc a, neap_desc b, bool ta, bool tb) {
  kernel_case c = gemm_case(a, b, ta, tb);
  const int64_t n = neap__shape_count(&c.out[0].desc.shape);
  double *want = calloc((size_t)n + 1, sizeof *want);
  reference_gemm(&c, want);
  case_run(&device, &c, false);
  case_close(&c, 0, want, 4.0 * (double)(a.shape.dim[a.shape.ndim - (ta ? 2 : 1)] + 1));
  free(want);
  case_free(&c);
}

static const int sizes[][3] = {{1, 1, 1},    {1, 33, 7},   {2, 15, 3},   {13, 16, 5},  {14, 17, 9},    {15, 31, 64},
                               {28, 32, 65}, {29, 33, 66}, {5, 100, 40}, {64, 10, 70}, {100, 47, 385}, {3, 64, 800},
                               {0, 4, 3},    {4, 0, 3},    {4, 5, 0},    {130, 70, 2}, {57, 130, 20},  {33, 5, 1024}};

static void products_equal_plain_loops(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int t = 0; t < 4; t++)
      for (int wide = 0; wide < 2; wide++) {
        const neap_dtype dtype = wide ? NEAP_F64 : NEAP_F32;
        const int m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        const bool ta = t & 1, tb = t & 2;
        check_gemm(ta ? case_desc(dtype, 2, k, m) : case_desc(dtype, 2, m, k),
                   tb ? case_desc(dtype, 2, n, k) : case_desc(dtype, 2, k, n), ta, tb);
      }
}

static void dimensions_in_front_broadcast(void **state) {
  (void)state;
  check_gemm(case_desc(NEAP_F32, 3, 5, 7, 3), case_desc(NEAP_F32, 2, 3, 4), false, false);
  check_gemm(case_desc(NEAP_F32, 4, 2, 1, 7, 3), case_desc(NEAP_F32, 3, 3, 3, 4), false, false);
  check_gemm(case_desc(NEAP_F32, 4, 1, 3, 3, 7), case_desc(NEAP_F32, 4, 2, 1, 4, 3), true, true);
  check_gemm(case_desc(NEAP_F64, 2, 7, 3), case_desc(NEAP_F64, 3, 6, 3, 4), false, false);
  check_gemm(case_desc(NEAP_F32, 3, 200, 4, 4), case_desc(NEAP_F32, 3, 200, 4, 4), false, true);
  check_gemm(case_desc(NEAP_F32, 3, 0, 4, 4), case_desc(NEAP_F32, 3, 1, 4, 4), false, true);
}

/* --- linear ------------------------------------------------------------------------------------------------------ */

static kernel_case linear_case(neap_dtype t, int rows, int in, int out, bool bias) {
  kernel_case c = {.op = &neap__op_linear, .n_in = bias ? 3 : 2};
  c.in[0].desc = case_desc(t, 2, rows, in);
  c.in[1].desc = case_desc(t, 2, out, in);
  c.in[2].desc = case_desc(t, 1, out);
  for (uint32_t i = 0; i < c.n_in; i++) c.in_data[i] = case_numbers(&c.in[i].desc, 3 + i);
  case_infer(&c);
  return c;
}

static void check_linear(neap_dtype t, int rows, int in, int out, bool bias) {
  kernel_case c = linear_case(t, rows, in, out, bias);
  double *want = calloc((size_t)(rows * out) + 1, sizeof *want);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      double sum = bias ? case_at(&c.in[2].desc, c.in_data[2], o) : 0;
      for (int i = 0; i < in; i++)
        sum += case_at(&c.in[0].desc, c.in_data[0], r * in + i) * case_at(&c.in[1].desc, c.in_data[1], o * in + i);
      want[r * out + o] = sum;
    }
  case_run(&device, &c, false);
  case_close(&c, 0, want, 4.0 * (in + 2));
  free(want);
  case_free(&c);
}

static void linear_equals_plain_loops(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int v = 0; v < 4; v++) check_linear(v & 1 ? NEAP_F64 : NEAP_F32, sizes[i][0], sizes[i][2], sizes[i][1], v & 2);
}

/* d (rows, out), x (rows, in); the batch is dimension 0. */
static kernel_case grad_case(neap_dtype t, int rows, int in, int out, int slab) {
  kernel_case c = {.op = &neap__op_linear_grad_weight, .n_in = 2, .slab = slab, .flags = NEAP_LAUNCH_FIRST};
  c.in[0].desc = case_desc(t, 2, rows, out);
  c.in[1].desc = case_desc(t, 2, rows, in);
  for (uint32_t i = 0; i < 2; i++) {
    c.in[i].batch = (neap_batch){NEAP_B_SAMPLE, 0, 1};
    c.in_data[i] = case_numbers(&c.in[i].desc, 7 + i);
    c.out[i].batch = (neap_batch){.kind = NEAP_B_SUM};
  }
  case_infer(&c);
  return c;
}

static void check_grad(neap_dtype t, int rows, int in, int out) {
  kernel_case c = grad_case(t, rows, in, out, 8);
  double *dw = calloc((size_t)(in * out) + 1, sizeof *dw), *db = calloc((size_t)out + 1, sizeof *db);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      const double d = case_at(&c.in[0].desc, c.in_data[0], r * out + o);
      db[o] += d;
      for (int i = 0; i < in; i++) dw[o * in + i] += d * case_at(&c.in[1].desc, c.in_data[1], r * in + i);
    }
  case_run(&device, &c, false);
  case_close(&c, 0, dw, 4.0 * (rows + 1));
  case_close(&c, 1, db, 4.0 * (rows + 1));
  free(dw);
  free(db);
  case_free(&c);
}

static void weight_gradients_equal_plain_loops(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int wide = 0; wide < 2; wide++) check_grad(wide ? NEAP_F64 : NEAP_F32, sizes[i][2], sizes[i][1], sizes[i][0]);
}

/* --- bits -------------------------------------------------------------------------------------------------------- */

static void check_same(const kernel_case *a, const kernel_case *b) {
  for (uint32_t o = 0; o < a->op->n_out; o++)
    assert_memory_equal(a->out_data[o], b->out_data[o], neap__desc_bytes(&a->out[o].desc));
}

static void threads_do_not_show(void **state) {
  static const uint32_t widths[] = {1, 2, 3, 8};
  kernel_case first = linear_case(NEAP_F32, 70, 400, 300, true), sum = grad_case(NEAP_F32, 70, 300, 200, 16);
  (void)state;
  case_run(&device, &first, true);
  case_run(&device, &sum, true);
  for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
    case_device d;
    kernel_case c = linear_case(NEAP_F32, 70, 400, 300, true), s = grad_case(NEAP_F32, 70, 300, 200, 16);
    device_open(&d, widths[i], true);
    case_run(&d, &c, false);
    case_run(&d, &s, false);
    check_same(&first, &c);
    check_same(&sum, &s);
    case_free(&c);
    case_free(&s);
    device_close(&d);
  }
  case_free(&first);
  case_free(&sum);
}

/* A row of the result is the same bits in any batch, at any place in it. */
static void rows_do_not_depend_on_their_batch(void **state) {
  enum { ROWS = 67, IN = 401, OUT = 37 };
  kernel_case all = linear_case(NEAP_F32, ROWS, IN, OUT, true);
  (void)state;
  case_run(&device, &all, false);
  for (int count = 1; count < ROWS; count += 5)
    for (int from = 0; from + count <= ROWS; from += 13) {
      kernel_case c = linear_case(NEAP_F32, count, IN, OUT, true);
      memcpy(c.in_data[0], (float *)all.in_data[0] + from * IN, (size_t)(count * IN) * sizeof(float));
      case_run(&device, &c, false);
      assert_memory_equal(c.out_data[0], (float *)all.out_data[0] + from * OUT, (size_t)(count * OUT) * sizeof(float));
      case_free(&c);
    }
  case_free(&all);
}

/* Micro-batches of whole slabs add up to the bits of the whole batch, whatever the number of slabs in each. */
static void whole_slabs_add_up(void **state) {
  enum { ROWS = 70, IN = 50, OUT = 33, SLAB = 8 };
  kernel_case all = grad_case(NEAP_F32, ROWS, IN, OUT, SLAB);
  (void)state;
  case_run(&device, &all, false);
  for (int step = SLAB; step < ROWS; step += SLAB) {
    kernel_case parts = grad_case(NEAP_F32, ROWS, IN, OUT, SLAB);
    void *const in[] = {parts.in_data[0], parts.in_data[1]};
    for (int from = 0; from < ROWS; from += step) {
      parts.flags = from == 0 ? NEAP_LAUNCH_FIRST : 0;
      for (uint32_t i = 0; i < 2; i++) {
        parts.in[i].desc.shape.dim[0] = ROWS - from < step ? ROWS - from : step;
        parts.in_data[i] = (float *)in[i] + from * parts.in[i].desc.shape.dim[1];
      }
      case_run(&device, &parts, false);
    }
    check_same(&all, &parts);
    memcpy(parts.in_data, in, sizeof in);
    case_free(&parts);
  }
  case_free(&all);
}

/* The same for a product that contracts over the batch, with several rows a sample. */
static void contracted_batches_add_up(void **state) {
  enum { SAMPLES = 12, PER = 3, M = 5, N = 40, SLAB = 4 };
  kernel_case all =
      gemm_case(case_desc(NEAP_F32, 2, SAMPLES * PER, M), case_desc(NEAP_F32, 2, SAMPLES * PER, N), true, false);
  kernel_case parts = gemm_case(all.in[0].desc, all.in[1].desc, true, false);
  void *const in[] = {parts.in_data[0], parts.in_data[1]};
  (void)state;
  for (uint32_t i = 0; i < 2; i++) all.in[i].batch = parts.in[i].batch = (neap_batch){NEAP_B_SAMPLE, 0, PER};
  all.out[0].batch = parts.out[0].batch = (neap_batch){.kind = NEAP_B_SUM};
  all.slab = parts.slab = SLAB;
  all.flags = NEAP_LAUNCH_FIRST;
  case_run(&device, &all, false);
  for (int from = 0; from < SAMPLES; from += SLAB) {
    parts.flags = from == 0 ? NEAP_LAUNCH_FIRST : 0;
    for (uint32_t i = 0; i < 2; i++) {
      parts.in[i].desc.shape.dim[0] = SLAB * PER;
      parts.in_data[i] = (float *)in[i] + from * PER * parts.in[i].desc.shape.dim[1];
    }
    case_run(&device, &parts, false);
  }
  check_same(&all, &parts);
  memcpy(parts.in_data, in, sizeof in);
  case_free(&parts);
  case_free(&all);
}

/* --- every level this processor runs ------------------------------------------------------------------------------ */

#if defined(__x86_64__)
typedef void (*block_fn)(const neap_cpu_gemm *, int64_t, int64_t, int64_t, int64_t, void *);
void neap__cpu_gemm_block_v2(const neap_cpu_gemm *, int64_t, int64_t, int64_t, int64_t, void *);
void neap__cpu_gemm_block_v3(const neap_cpu_gemm *, int64_t, int64_t, int64_t, int64_t, void *);
void neap__cpu_gemm_block_v4(const neap_cpu_gemm *, int64_t, int64_t, int64_t, int64_t, void *);
size_t neap__cpu_gemm_pack_v4(neap_dtype, int64_t, int64_t);

static void check_level(block_fn block, neap_dtype t) {
  enum { M = 31, N = 45, K = 70 };
  const neap_desc ad = case_desc(t, 2, M, K), bd = case_desc(t, 2, N, K);
  void *a = case_numbers(&ad, 4), *b = case_numbers(&bd, 5), *pack = malloc(neap__cpu_gemm_pack_v4(t, K, N));
  double c[M * N];
  neap_cpu_gemm g = {
      .dtype = t, .m = M, .n = N, .k = K, .a = a, .a_row = K, .a_col = 1, .b = b, .b_row = 1, .b_col = K};
  g.c = c, g.c_row = N;
  block(&g, 0, M, 0, 32, pack);
  block(&g, 0, 20, 32, N, pack);
  block(&g, 20, M, 32, N, pack);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += case_at(&ad, a, i * K + k) * case_at(&bd, b, j * K + k);
      const double got = t == NEAP_F64 ? c[i * N + j] : (double)((float *)c)[i * N + j];
      assert_true(fabs(got - sum) < (t == NEAP_F64 ? 1e-13 : 1e-5));
    }
  free(a);
  free(b);
  free(pack);
}

static void every_level_multiplies(void **state) {
  (void)state;
  __builtin_cpu_init();
  for (int t = NEAP_F32; t <= NEAP_F64; t++) {
    check_level(neap__cpu_gemm_block_v2, (neap_dtype)t);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      check_level(neap__cpu_gemm_block_v3, (neap_dtype)t);
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
      check_level(neap__cpu_gemm_block_v4, (neap_dtype)t);
  }
}
#endif

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
    cmocka_unit_test(products_equal_plain_loops),
    cmocka_unit_test(dimensions_in_front_broadcast),
    cmocka_unit_test(linear_equals_plain_loops),
    cmocka_unit_test(weight_gradients_equal_plain_loops),
    cmocka_unit_test(threads_do_not_show),
    cmocka_unit_test(rows_do_not_depend_on_their_batch),
    cmocka_unit_test(whole_slabs_add_up),
    cmocka_unit_test(contracted_batches_add_up),
#if defined(__x86_64__)
    cmocka_unit_test(every_level_multiplies),
#endif
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
