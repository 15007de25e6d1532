/* Images of another size and their gradients, against the rules of torch written as plain loops; where samples are. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"
#include "support/kernels.h"

enum { AREA, NEAREST, BILINEAR };

typedef struct resample_case {
  const char *x;
  int mode, height, width;
  bool corners;
  double scale; /* input places an output place; 0: sizes tell */
} resample_case;

static const resample_case cases[] = {
    {"f32[2,3,5,7]", AREA, 2, 3, false, 0},          {"f32[1,2,3,4]", AREA, 7, 5, false, 0},
    {"f32[2,1,9,8]", AREA, 1, 8, false, 0},          {"f32[1,2,3,4]", NEAREST, 6, 8, false, 0.5},
    {"f32[1,2,3,4]", NEAREST, 5, 9, false, 0},       {"f32[1,2,9,9]", NEAREST, 4, 2, false, 0},
    {"f32[1,2,5,5]", NEAREST, 3, 3, false, 1 / 0.6}, {"f32[1,2,3,4]", BILINEAR, 6, 8, false, 0.5},
    {"f32[2,2,3,4]", BILINEAR, 7, 2, false, 0},      {"f32[2,2,3,4]", BILINEAR, 7, 2, true, 0},
    {"f32[1,1,4,4]", BILINEAR, 1, 1, true, 0},       {"f64[1,2,5,4]", BILINEAR, 9, 11, false, 0},
    {"f64[1,1,1,1]", BILINEAR, 3, 2, true, 0},       {"f32[0,2,3,3]", AREA, 2, 2, false, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* The weight of input place `from` (of n) in output place `to` (of m). */
static double weight(const resample_case *c, int64_t to, int64_t m, int64_t from, int64_t n) {
  double scale = c->scale > 0 ? c->scale : (double)n / (double)m;
  if (c->mode == AREA) {
    const int64_t begin = to * n / m, end = (int64_t)ceil((double)((to + 1) * n) / (double)m);
    return from >= begin && from < end ? 1 / (double)(end - begin) : 0;
  }
  if (c->mode == NEAREST) {
    const int64_t at = (int64_t)floorf((float)to * (float)scale);
    return from == (at < n ? at : n - 1) ? 1 : 0;
  }
  if (c->corners) scale = m > 1 ? (double)(n - 1) / (double)(m - 1) : 0;
  double at = c->corners ? (double)to * scale : ((double)to + 0.5) * scale - 0.5;
  at = at < 0 ? 0 : at > (double)(n - 1) ? (double)(n - 1) : at;
  const double off = fabs(at - (double)from);
  return off < 1 ? 1 - off : 0;
}

static neap_opt *options(const resample_case *c, const kt_value *x, neap_opt *opt) {
  memset(opt, 0, NEAP_MAX_OPTS * sizeof *opt);
  opt[0] = NEAP_INT(c->mode);
  opt[1] = kt_list(2, c->height, c->width);
  opt[2] = kt_list(2, (int)x->desc.shape.dim[2], (int)x->desc.shape.dim[3]);
  opt[3] = NEAP_INT(c->corners);
  if (c->scale > 0) opt[4] = opt[5] = NEAP_FLOAT(c->scale);
  return opt;
}

/* small: an image of h x w; large: of c->height x c->width. Adds the map, or its transpose, of one plane. */
static void map_plane(const resample_case *c, int64_t h, int64_t w, const double *from, double *to, bool transposed) {
  for (int64_t oy = 0; oy < c->height; oy++)
    for (int64_t ox = 0; ox < c->width; ox++)
      for (int64_t iy = 0; iy < h; iy++)
        for (int64_t ix = 0; ix < w; ix++) {
          const double share = weight(c, oy, c->height, iy, h) * weight(c, ox, c->width, ix, w);
          const int64_t out = oy * c->width + ox, in = iy * w + ix;
          to[transposed ? in : out] += share * from[transposed ? out : in];
        }
}

static void check_map(const resample_case *c, const kt_value *x, const kt_call *y, bool transposed) {
  const kt_value *in = &y->in[0], *out = &y->out[0];
  const int64_t h = x->desc.shape.dim[2], w = x->desc.shape.dim[3], planes = kt_count(x) / (h * w);
  const int64_t from = transposed ? (int64_t)c->height * c->width : h * w,
                to = transposed ? h * w : (int64_t)c->height * c->width;
  double *a = calloc((size_t)from, sizeof *a), *b = calloc((size_t)to, sizeof *b);
  for (int64_t p = 0; p < planes; p++) {
    memset(b, 0, (size_t)to * sizeof *b);
    for (int64_t i = 0; i < from; i++) a[i] = kt_get(in, p * from + i);
    map_plane(c, h, w, a, b, transposed);
    for (int64_t i = 0; i < to; i++)
      if (!(fabs(kt_get(out, p * to + i) - b[i]) <= (x->desc.dtype == NEAP_F64 ? 1e-14 : 1e-6) * 20))
        fail_msg("%s mode %d at %d is %.9g, expected %.9g", c->x, c->mode, (int)i, kt_get(out, p * to + i), b[i]);
  }
  free(a);
  free(b);
}

static void images_match(void **state) {
  (void)state;
  for (int n = 0; n < CASES; n++) {
    neap_opt opt[NEAP_MAX_OPTS];
    kt_value x = kt_make(cases[n].x);
    kt_call y;
    kt_fill(&x, 2, 1);
    kt_call_op(&y, "resample2d", options(&cases[n], &x, opt), 1, &x);
    check_map(&cases[n], &x, &y, false);
    kt_assert_any_order(&y);
    kt_end(&y);
    kt_free(&x);
  }
}

static void gradients_match(void **state) {
  (void)state;
  for (int n = 0; n < CASES; n++) {
    neap_opt opt[NEAP_MAX_OPTS];
    kt_value x = kt_make(cases[n].x);
    kt_call y, dx;
    kt_call_op(&y, "resample2d", options(&cases[n], &x, opt), 1, &x);
    kt_fill(&y.out[0], 2, 2);
    kt_call_op(&dx, "resample2d_grad", options(&cases[n], &x, opt), 1, &y.out[0]);
    assert_true(neap__shape_equal(&dx.out[0].desc.shape, &x.desc.shape));
    check_map(&cases[n], &x, &dx, true);
    kt_assert_any_order(&dx);
    kt_end(&dx);
    kt_end(&y);
    kt_free(&x);
  }
}

static void bad_shapes_are_named(void **state) {
  (void)state;
  kt_value x = kt_make("f32[2,3,4]"), empty = kt_make("f32[1,1,0,4]"), d = kt_make("f32[1,1,2,2]");
  neap_desc out;
  neap_error err = {0};
  neap_opt *opt = KT_OPTS(NEAP_INT(1), kt_list(2, 3, 3), kt_list(2, 4, 4));
  assert_int_equal(kt_infer("resample2d", opt, 1, &x, &out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "[2, 3, 4]"));
  assert_int_equal(kt_infer("resample2d", opt, 1, &empty, &out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "at least 1"));
  assert_int_equal(kt_infer("resample2d_grad", opt, 1, &d, &out, &err), NEAP_SHAPE);
  assert_non_null(strstr(err.message, "expected images of 3 x 3"));
  kt_free(&x), kt_free(&empty), kt_free(&d);
}

static int close_all(void **state) {
  (void)state;
  kt_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(images_match),
      cmocka_unit_test(gradients_match),
      cmocka_unit_test(bad_shapes_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, close_all);
}
