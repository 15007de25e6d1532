/* Results: against plain loops in double, against the fp64 kernels, with other shapes, with special values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conform/oracle.h"

static const double F32_TOLERANCE = 4e-6, F64_TOLERANCE = 1e-13;

static double tolerance(neap_dtype t) { return t == NEAP_F64 ? F64_TOLERANCE : F32_TOLERANCE; }

static void free_all(kt_value *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) kt_free(&v[i]);
}

/* Arithmetic of bytes wraps around; what is not 0 is true. */
static void as_stored(kt_value *v, neap_dtype t) {
  for (int64_t i = 0; i < kt_count(v) && t == NEAP_U8; i++) kt_set(v, i, (double)(uint8_t)(int64_t)kt_get(v, i));
  for (int64_t i = 0; i < kt_count(v) && t == NEAP_BOOL; i++) kt_set(v, i, kt_get(v, i) != 0);
}

static void against_oracle(const cf_case *c, const cf_run *r, cf_oracle oracle) {
  kt_value out[NEAP_MAX_OUT];
  memset(out, 0, sizeof out);
  const cf_case full = cf_complete(c);
  oracle(&full, r->in, out);
  for (uint32_t o = 0; o < r->n_out && o < NEAP_MAX_OUT; o++) {
    if (!out[o].data) continue;
    as_stored(&out[o], r->out[o].desc.dtype);
    /* A second output of fp64 may be computed from fp32 inputs. */
    const neap_dtype t = c->n_in && c->in[0].desc.dtype == NEAP_F32 ? NEAP_F32 : r->out[o].desc.dtype;
    char what[40];
    snprintf(what, sizeof what, "output %u against plain loops", o + 1);
    cf_close(c, what, &r->out[o], &out[o], tolerance(t));
  }
  free_all(out, NEAP_MAX_OUT);
}

/* Every element is written, and the same each time: whatever the output held before. */
static void check_written(const cf_case *c, cf_run *r) {
  kt_value first[NEAP_MAX_OUT];
  memset(first, 0, sizeof first);
  for (uint32_t o = 0; o < r->n_out; o++) {
    first[o] = cf_copy(&r->out[o]);
    memset(r->out[o].data, 0x5A, neap__desc_bytes(&r->out[o].desc));
  }
  if (cf_go(r) != NEAP_OK) cf_complain(c, "does not run twice: %s", r->err.message);
  for (uint32_t o = 0; o < r->n_out && !c->op->random; o++) cf_same_bits(c, "the second run", &r->out[o], &first[o]);
  free_all(first, NEAP_MAX_OUT);
}

static bool float_inputs(const cf_case *c) {
  for (uint32_t i = 0; i < c->n_in; i++)
    if (neap__dtype_is_float(c->in[i].desc.dtype)) return true;
  return c->n_in == 0;
}

static void against_wide(const cf_case *c, const cf_run *r) {
  const cf_case wide = cf_wide(c);
  const cf_oracle oracle = cf_oracle_of(c->op);
  cf_run w;
  if (!cf_forward(&w, &wide, 1)) {
    cf_note("no fp64 kernel", c->op);
    if (!oracle) cf_complain(c, "has neither an fp64 kernel nor plain loops to compare with: %s", w.err.message);
    return;
  }
  if (!oracle) cf_note("compared with the fp64 kernel only", c->op);
  if (w.n_out != r->n_out) cf_complain(c, "has %u outputs in fp64 and %u in fp32", w.n_out, r->n_out);
  for (uint32_t o = 0; o < r->n_out && o < w.n_out; o++)
    cf_close(c, "output against fp64", &r->out[o], &w.out[o], F32_TOLERANCE);
  if (oracle) against_oracle(&wide, &w, oracle);
  cf_end(&w);
}

void cf_check_forward(const cf_case *c) {
  const cf_oracle oracle = cf_oracle_of(c->op);
  cf_run r;
  if (!cf_must_run(&r, c)) return;
  if (r.n_out == 0) cf_complain(c, "gives nothing");
  check_written(c, &r);
  if (c->op->random) {
    cf_note("random: shapes, gradients and threads only", c->op);
  } else {
    if (oracle) against_oracle(c, &r, oracle);
    if (float_inputs(c)) against_wide(c, &r);
  }
  cf_end(&r);
}

/* --- other shapes ---------------------------------------------------------------------------------------- */

/* A variant is checked when the op takes it. Refusals tell why; labels may be out of range of fewer classes. */
static bool variant(const cf_case *v) {
  cf_run r;
  if (!cf_forward(&r, v, 1)) {
    if (r.err.status == NEAP_OK || !r.err.message[0]) cf_complain(v, "refused without a reason");
    if (r.err.status == NEAP_INTERNAL) cf_complain(v, "fails: %s", r.err.message);
    return false;
  }
  cf_end(&r);
  cf_check_forward(v);
  cf_check_gradient(v);
  return true;
}

/* Dimension `dim` of input i, or every dimension of that size, becomes n. */
static cf_case resized(const cf_case *c, uint32_t i, int32_t dim, int64_t n, bool linked) {
  cf_case v = *c;
  const int64_t size = c->in[i].desc.shape.dim[dim];
  v.in[i].desc.shape.dim[dim] = n;
  for (uint32_t k = 0; k < v.n_in && linked; k++)
    for (int32_t d = 0; d < v.in[k].desc.shape.ndim; d++)
      if (c->in[k].desc.shape.dim[d] == size) v.in[k].desc.shape.dim[d] = n;
  return v;
}

/* Dimension `dim` of input i is the last of at least two of its size. */
static bool last_of_many(const cf_case *c, uint32_t i, int32_t dim) {
  const int64_t size = c->in[i].desc.shape.dim[dim];
  bool before = false, here = true;
  for (uint32_t k = 0; k < c->n_in; k++)
    for (int32_t d = 0; d < c->in[k].desc.shape.ndim; d++) {
      if (c->in[k].desc.shape.dim[d] != size || (k == i && d == dim)) continue;
      if (k < i || (k == i && d < dim))
        before = true;
      else
        here = false;
    }
  return before && here;
}

static int sized(const cf_case *c, uint32_t i, int32_t dim, int64_t n) {
  int taken = 0;
  /* The record says nothing of values (their sign, say) where it has none. */
  const bool empty = neap__shape_count(&c->in[i].desc.shape) == 0;
  if (c->in[i].desc.shape.dim[dim] == n || (empty && n > 0)) return 0;
  cf_case v = resized(c, i, dim, n, false);
  taken += variant(&v);
  if (!last_of_many(c, i, dim)) return taken;
  v = resized(c, i, dim, n, true);
  return taken + variant(&v);
}

static void without_first_dim(const cf_case *c, uint32_t i) {
  cf_case v = *c;
  neap_shape *s = &v.in[i].desc.shape;
  if (s->ndim == 0 || neap__shape_count(s) == 0) return;
  s->ndim--;
  memmove(s->dim, s->dim + 1, (size_t)s->ndim * sizeof *s->dim);
  s->dim[s->ndim] = 0;
  variant(&v);
}

void cf_check_shapes(const cf_case *c) {
  int zero = 0;
  for (uint32_t i = 0; i < c->n_in; i++) {
    for (int32_t d = 0; d < c->in[i].desc.shape.ndim; d++) {
      zero += sized(c, i, d, 0);
      sized(c, i, d, 1);
    }
    without_first_dim(c, i);
  }
  if (zero) cf_note("take a dimension of size 0", c->op);
}

/* --- special values ------------------------------------------------------------------------------------------ */

static const double specials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 100, -100, 1e4, -1e4, 1e-30, -1e-30};
enum { SPECIALS = sizeof specials / sizeof specials[0] };

/* All combinations of special values, of ops that work element by element. */
static void check_specials(const cf_case *c, cf_run *r) {
  for (int shift = 0; shift < SPECIALS; shift++) {
    for (uint32_t i = 0; i < c->n_in; i++) {
      if (!neap__dtype_is_float(c->in[i].desc.dtype)) continue;
      for (int64_t k = 0; k < kt_count(&r->in[i]); k++)
        kt_set(&r->in[i], k, specials[(k + (i ? shift : 0)) % SPECIALS]);
    }
    if (cf_go(r) != NEAP_OK) cf_complain(c, "special values: %s", r->err.message);
    kt_value out[NEAP_MAX_OUT];
    memset(out, 0, sizeof out);
    cf_oracle_elementwise(c, r->in, out);
    for (int64_t k = 0; k < kt_count(&out[0]); k++) /* what overflows in fp32 is infinite there */
      if (r->out[0].desc.dtype == NEAP_F32) kt_set(&out[0], k, (double)(float)kt_get(&out[0], k));
    cf_close(c, "special values", &r->out[0], &out[0], F32_TOLERANCE);
    free_all(out, NEAP_MAX_OUT);
  }
}

static void dress(kt_value *v, double scale, double first) {
  for (int64_t i = 0; i < kt_count(v); i++) kt_set(v, i, (double)(float)(kt_get(v, i) * scale));
  if (first != 0 && kt_count(v)) kt_set(v, kt_count(v) / 2, first);
}

/* Large values (a softmax of 1e4 is no overflow), and one NaN or infinity, in the first floating-point input. */
static void check_hard(const cf_case *c, double scale, double first) {
  const cf_oracle oracle = cf_oracle_of(c->op);
  cf_run r;
  uint32_t i = 0;
  while (i < c->n_in && !neap__dtype_is_float(c->in[i].desc.dtype)) i++;
  if (i == c->n_in || !cf_must_run(&r, c)) return;
  dress(&r.in[i], scale, first);
  if (cf_go(&r) != NEAP_OK) cf_complain(c, "hard values: %s", r.err.message);
  against_oracle(c, &r, oracle);
  cf_end(&r);
}

/* A grid wide enough that every pair of special values meets. */
static cf_case widened(const cf_case *c) {
  cf_case v = *c;
  for (uint32_t i = 0; i < v.n_in; i++) v.in[i].desc.shape = (neap_shape){1, {SPECIALS}};
  return v;
}

void cf_check_values(const cf_case *c) {
  if (c->op->row) {
    const cf_case v = widened(c);
    cf_run r;
    if (!float_inputs(c) || !cf_must_run(&r, &v)) return;
    check_specials(&v, &r);
    cf_end(&r);
    return;
  }
  if (!cf_oracle_of(c->op) || c->op->random || c->in[0].desc.dtype != NEAP_F32) return;
  if (c->op->internal && c->op->nondiff) return; /* an optimizer's step, which presupposes finite numbers */
  check_hard(c, 1e4, 0);
  check_hard(c, 1, NAN);
  check_hard(c, 1, INFINITY);
  check_hard(c, 1, -INFINITY);
}
