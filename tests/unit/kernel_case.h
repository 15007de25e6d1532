/* One op run through the CPU backend on plain arrays, for tests of kernels. */
#ifndef NEAP_TESTS_KERNEL_CASE_H
#define NEAP_TESTS_KERNEL_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fail_host.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/onednn.h"

typedef struct case_device {
  fail_host host;
  neap_threads *threads;
  neap_backend *b;
} case_device;

static inline void device_open(case_device *d, uint32_t width, bool library) {
  neap_error err = {0};
  fail_host_init(&d->host);
  assert_int_equal(neap__threads_create(&d->host.host, width, NULL, NULL, &d->threads, &err), NEAP_OK);
  neap_backend_config c = {.size = sizeof c, .host = &d->host.host, .threads = d->threads};
  assert_int_equal(neap__backend_open("cpu", &c, &d->b, &err), NEAP_OK);
  if (!library) {
    neap_cpu *cpu = (neap_cpu *)d->b;
    neap__dnn_close(cpu->dnn);
    cpu->dnn = NULL;
  }
}

static inline void device_close(case_device *d) {
  neap__backend_close(d->b);
  neap__threads_destroy(d->threads);
  assert_int_equal(d->host.blocks, 0);
  assert_int_equal(d->host.wrong, 0);
}

#define CASE_MOST 4

/* in: plain arrays, not owned. out: plain arrays owned by the case, made by case_infer. */
typedef struct kernel_case {
  const neap_op *op;
  neap_opt opt[NEAP_MAX_OPTS];
  uint32_t n_in;
  neap_operand in[CASE_MOST], out[CASE_MOST];
  void *in_data[CASE_MOST], *out_data[CASE_MOST];
  int64_t slab;
  uint32_t flags;
  neap_fault fault;
} kernel_case;

static inline neap_desc case_desc(neap_dtype t, int32_t ndim, ...) {
  neap_desc d = {.dtype = t, .shape = {.ndim = ndim}};
  va_list args;
  va_start(args, ndim);
  for (int32_t i = 0; i < ndim; i++) d.shape.dim[i] = va_arg(args, int);
  va_end(args);
  return d;
}

static inline neap_opt case_pair(int64_t a, int64_t b) { return (neap_opt){.set = 1, .n = 2, .v.list = {a, b}}; }

static inline size_t case_bytes(const neap_desc *d) {
  const size_t bytes = neap__desc_bytes(d);
  return ((bytes ? bytes : 1) + 63) & ~(size_t)63;
}

/* Multiples of 1/64 in (-1, 1), the same everywhere. */
static inline void *case_numbers(const neap_desc *d, uint32_t seed) {
  const int64_t n = neap__shape_count(&d->shape);
  void *p = aligned_alloc(64, case_bytes(d));
  assert_non_null(p);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    const double x = ((double)(seed >> 8) / (1 << 23) - 1.0);
    if (d->dtype == NEAP_F64)
      ((double *)p)[i] = x;
    else
      ((float *)p)[i] = (float)x;
  }
  return p;
}

static inline double case_at(const neap_desc *d, const void *p, int64_t i) {
  return d->dtype == NEAP_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static inline void case_infer(kernel_case *c) {
  neap_desc in[CASE_MOST], out[CASE_MOST];
  neap_error err = {0};
  neap_opt opt[NEAP_MAX_OPTS];
  assert_int_equal(neap__opts_complete(c->op, c->opt, opt, &err), NEAP_OK);
  memcpy(c->opt, opt, sizeof opt);
  for (uint32_t i = 0; i < c->n_in; i++) in[i] = c->in[i].desc;
  neap_infer x = {
      .op = c->op, .n_in = c->n_in, .n_out = c->op->n_out, .in = in, .opt = c->opt, .out = out, .err = &err};
  const neap_status s = c->op->infer(&x);
  if (s) print_error("%s: %s\n", c->op->name, err.message);
  assert_int_equal(s, NEAP_OK);
  for (uint32_t o = 0; o < c->op->n_out; o++) {
    c->out[o].desc = out[o];
    c->out_data[o] = aligned_alloc(64, case_bytes(&out[o]));
    assert_non_null(c->out_data[o]);
    memset(c->out_data[o], 0xff, case_bytes(&out[o]));
  }
  if (c->slab == 0) c->slab = 8;
}

static inline void case_free(kernel_case *c) {
  for (uint32_t i = 0; i < c->n_in; i++) free(c->in_data[i]);
  for (uint32_t o = 0; o < c->op->n_out; o++) free(c->out_data[o]);
}

/* Copies between the plain order and channels innermost. */
static inline void case_relayout(const neap_desc *d, const char *from, char *to, bool to_last) {
  const int64_t *n = d->shape.dim, pixels = n[2] * n[3];
  const size_t size = neap__dtype_size(d->dtype);
  for (int64_t i = 0; i < n[0]; i++)
    for (int64_t c = 0; c < n[1]; c++)
      for (int64_t p = 0; p < pixels; p++) {
        const size_t plain = (size_t)((i * n[1] + c) * pixels + p) * size;
        const size_t last = (size_t)((i * pixels + p) * n[1] + c) * size;
        memcpy(to + (to_last ? last : plain), from + (to_last ? plain : last), size);
      }
}

static inline neap_sig case_sig(kernel_case *c) {
  return (neap_sig){c->op, c->opt, c->n_in, c->op->n_out, c->in, c->out, c->slab, 0};
}

static inline neap_status case_prepare(case_device *d, kernel_case *c, neap_kernel **out, neap_error *err) {
  neap_layout in[CASE_MOST], lo[CASE_MOST];
  neap_sig s = case_sig(c);
  d->b->vt->layouts(d->b, &s, in, lo);
  for (uint32_t i = 0; i < c->n_in; i++) c->in[i].layout = in[i];
  for (uint32_t o = 0; o < c->op->n_out; o++) c->out[o].layout = lo[o];
  return d->b->vt->prepare(d->b, &s, out, err);
}

/* Launches a prepared kernel on buffers in the layouts it asked for; tasks one by one when `single`. */
static inline void case_launch(case_device *d, kernel_case *c, const neap_kernel *k, bool single) {
  void *in[CASE_MOST], *out[CASE_MOST], *work = aligned_alloc(64, (k->workspace + 127) & ~(size_t)63);
  neap_error err = {0};
  memset(work, 0xff, k->workspace); /* NaN: nothing may be read before it is written */
  for (uint32_t i = 0; i < c->n_in; i++) {
    in[i] = aligned_alloc(64, case_bytes(&c->in[i].desc));
    if (c->in[i].layout == NEAP_LAYOUT_LAST)
      case_relayout(&c->in[i].desc, c->in_data[i], in[i], true);
    else
      memcpy(in[i], c->in_data[i], neap__desc_bytes(&c->in[i].desc));
  }
  for (uint32_t o = 0; o < c->op->n_out; o++) {
    out[o] = aligned_alloc(64, case_bytes(&c->out[o].desc));
    memcpy(out[o], c->out_data[o], neap__desc_bytes(&c->out[o].desc));
  }
  c->fault = (neap_fault){0};
  neap_launch l = {.in = in, .out = out, .workspace = work, .fault = &c->fault, .flags = c->flags};
  const uint64_t asked = d->host.asked;
  for (uint32_t p = 0; p < k->n_phases; p++) {
    if (single)
      for (uint32_t t = k->tasks[p]; t-- > 0;) assert_int_equal(d->b->vt->launch(d->b, k, &l, p, t, 1, &err), NEAP_OK);
    else
      assert_int_equal(d->b->vt->launch(d->b, k, &l, p, 0, k->tasks[p], &err), NEAP_OK);
  }
  assert_int_equal(d->host.asked, asked);
  for (uint32_t o = 0; o < c->op->n_out; o++) {
    if (c->out[o].layout == NEAP_LAYOUT_LAST)
      case_relayout(&c->out[o].desc, out[o], c->out_data[o], false);
    else
      memcpy(c->out_data[o], out[o], neap__desc_bytes(&c->out[o].desc));
    free(out[o]);
  }
  for (uint32_t i = 0; i < c->n_in; i++) free(in[i]);
  free(work);
}

static inline void case_run(case_device *d, kernel_case *c, bool single) {
  neap_kernel *k = NULL;
  neap_error err = {0};
  const neap_status s = case_prepare(d, c, &k, &err);
  if (s) print_error("%s: %s\n", c->op->name, err.message);
  assert_int_equal(s, NEAP_OK);
  case_launch(d, c, k, single);
  assert_int_equal(c->fault.code, NEAP_OK);
  d->b->vt->kernel_free(d->b, k);
}

/* Every element of output o within `scale` roundings of the reference. */
static inline void case_close(const kernel_case *c, uint32_t o, const double *want, double scale) {
  const neap_desc *d = &c->out[o].desc;
  const double eps = d->dtype == NEAP_F64 ? 2.2e-16 : 1.2e-7;
  for (int64_t i = 0; i < neap__shape_count(&d->shape); i++) {
    const double got = case_at(d, c->out_data[o], i);
    if (!(fabs(got - want[i]) <= eps * scale)) {
      print_error("%s output %u element %lld: %.9g, expected %.9g\n", c->op->name, o, (long long)i, got, want[i]);
      fail();
    }
  }
}

#endif
