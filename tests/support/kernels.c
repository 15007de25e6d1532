#include "support/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/resource.h"
#include "op/op.h"
#include "support/kernels.h"

static neap_host host;
static neap_backend *backend;

neap_backend *kt_backend(void) {
  if (backend) return backend;
  neap_error err = {0};
  neap__host_init(&host, NULL, NULL);
  neap_backend_config c = {.size = sizeof c, .host = &host};
  if (neap__backend_open("cpu", &c, &backend, &err) != NEAP_OK) fail_msg("%s", err.message);
  return backend;
}

void kt_close(void) {
  if (!backend) return;
  neap__backend_close(backend);
  backend = NULL;
  assert_int_equal(host.in_use, 0);
}

static void *take(size_t bytes) {
  void *p = aligned_alloc(NEAP_ALIGN, neap__align_up(bytes ? bytes : 1));
  assert_non_null(p);
  memset(p, 0, neap__align_up(bytes ? bytes : 1));
  return p;
}

kt_value kt_make(const char *spec) {
  static const char *const names[] = {"f32", "f64", "i64", "i32", "u8", "bool"};
  kt_value v = {.data = NULL};
  const char *shape = strchr(spec, '[');
  assert_non_null(shape);
  v.desc.dtype = NEAP_F16;
  for (int t = 0; t < 6; t++)
    if (strncmp(spec, names[t], (size_t)(shape - spec)) == 0) v.desc.dtype = (neap_dtype)t;
  assert_int_not_equal(v.desc.dtype, NEAP_F16);
  for (const char *p = shape + 1; *p && *p != ']';) {
    char *end;
    v.desc.shape.dim[v.desc.shape.ndim++] = strtoll(p, &end, 10);
    p = *end == ',' ? end + 1 : end;
  }
  v.data = take(neap__desc_bytes(&v.desc));
  return v;
}

void kt_free(kt_value *v) {
  free(v->data);
  v->data = NULL;
}

int64_t kt_count(const kt_value *v) { return neap__shape_count(&v->desc.shape); }

double kt_get(const kt_value *v, int64_t i) {
  switch (v->desc.dtype) {
    case NEAP_F32: return (double)((const float *)v->data)[i];
    case NEAP_F64: return ((const double *)v->data)[i];
    case NEAP_I64: return (double)((const int64_t *)v->data)[i];
    case NEAP_I32: return (double)((const int32_t *)v->data)[i];
    default: return (double)((const uint8_t *)v->data)[i];
  }
}

void kt_set(kt_value *v, int64_t i, double x) {
  switch (v->desc.dtype) {
    case NEAP_F32: ((float *)v->data)[i] = (float)x; break;
    case NEAP_F64: ((double *)v->data)[i] = x; break;
    case NEAP_I64: ((int64_t *)v->data)[i] = (int64_t)x; break;
    case NEAP_I32: ((int32_t *)v->data)[i] = (int32_t)x; break;
    default: ((uint8_t *)v->data)[i] = (uint8_t)x; break;
  }
}

void kt_fill(kt_value *v, double range, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 12345u;
  for (int64_t i = 0; i < kt_count(v); i++) {
    state = state * 1664525u + 1013904223u;
    double u = (double)(state >> 8) / 16777216.0;
    kt_set(v, i, neap__dtype_is_float(v->desc.dtype) ? (2 * u - 1) * range : floor(u * range));
  }
}

neap_opt kt_list(int n, ...) {
  neap_opt o = {.set = 1, .n = (uint8_t)n};
  va_list args;
  va_start(args, n);
  for (int i = 0; i < n; i++) o.v.list[i] = va_arg(args, int);
  va_end(args);
  return o;
}

static neap_status infer(const neap_op *op, neap_opt *opt, uint32_t n_in, const kt_value *in, neap_desc *out,
                         neap_error *err) {
  neap_desc descs[KT_MAX];
  for (uint32_t i = 0; i < n_in; i++) descs[i] = in[i].desc;
  neap_infer x = {.op = op, .n_in = n_in, .n_out = op->n_out, .in = descs, .opt = opt, .out = out, .err = err};
  return op->infer(&x);
}

neap_status kt_infer(const char *name, const neap_opt *given, uint32_t n_in, const kt_value *in, neap_desc *out,
                     neap_error *err) {
  const neap_op *op = neap__op_find(name);
  neap_opt opt[NEAP_MAX_OPTS];
  assert_non_null(op);
  neap_status s = neap__opts_complete(op, given, opt, err);
  return s == NEAP_OK ? infer(op, opt, n_in, in, out, err) : s;
}

void kt_begin(kt_call *c, const char *name, const neap_opt *opt, uint32_t n_in, const kt_value *in) {
  neap_error err = {0};
  neap_desc out[NEAP_MAX_OUT];
  memset(out, 0, sizeof out);
  memset(c, 0, sizeof *c);
  c->op = neap__op_find(name);
  c->n_in = n_in;
  c->slab = 8;
  c->flags = NEAP_LAUNCH_FIRST;
  assert_non_null(c->op);
  c->n_out = c->op->n_out;
  for (uint32_t i = 0; i < n_in; i++) c->in[i] = in[i];
  if (neap__opts_complete(c->op, opt, c->opt, &err) != NEAP_OK || infer(c->op, c->opt, n_in, in, out, &err) != NEAP_OK)
    fail_msg("%s: %s", name, err.message);
  for (uint32_t o = 0; o < c->n_out; o++) {
    c->out[o].desc = out[o];
    c->out[o].data = take(neap__desc_bytes(&out[o]));
  }
}

static void launch(kt_call *c, const neap_kernel *k) {
  neap_backend *b = kt_backend();
  void *in[KT_MAX], *out[NEAP_MAX_OUT];
  neap_error err = {0};
  for (uint32_t i = 0; i < c->n_in; i++) in[i] = c->in[i].data;
  for (uint32_t o = 0; o < c->n_out; o++) out[o] = c->out[o].data;
  neap_launch l = {.in = in, .out = out, .workspace = take(k->workspace), .fault = &c->fault, .flags = c->flags};
  memset(l.workspace, 0xa5, k->workspace);
  for (uint32_t p = 0; p < k->n_phases; p++) {
    uint32_t n = k->tasks[p];
    if (!c->reverse && n > 0) assert_int_equal(b->vt->launch(b, k, &l, p, 0, n, &err), NEAP_OK);
    for (uint32_t t = n; c->reverse && t-- > 0;) assert_int_equal(b->vt->launch(b, k, &l, p, t, 1, &err), NEAP_OK);
  }
  free(l.workspace);
}

void kt_run(kt_call *c) {
  neap_backend *b = kt_backend();
  neap_operand in[KT_MAX], out[NEAP_MAX_OUT];
  neap_error err = {0};
  neap_kernel *k = NULL;
  for (uint32_t i = 0; i < c->n_in; i++) in[i] = (neap_operand){c->in[i].desc, c->in[i].layout, c->in[i].batch};
  for (uint32_t o = 0; o < c->n_out; o++) out[o] = (neap_operand){c->out[o].desc, c->out[o].layout, c->out[o].batch};
  neap_sig s = {c->op, c->opt, c->n_in, c->n_out, in, out, c->slab, 0};
  if (b->vt->prepare(b, &s, &k, &err) != NEAP_OK) fail_msg("%s: %s", c->op->name, err.message);
  launch(c, k);
  b->vt->kernel_free(b, k);
}

void kt_end(kt_call *c) {
  for (uint32_t o = 0; o < c->n_out; o++) kt_free(&c->out[o]);
}

void kt_call_op(kt_call *c, const char *name, const neap_opt *opt, uint32_t n_in, const kt_value *in) {
  kt_begin(c, name, opt, n_in, in);
  kt_run(c);
}

void kt_assert_any_order(const kt_call *c) {
  kt_call again = *c;
  again.reverse = true;
  for (uint32_t o = 0; o < c->n_out; o++) again.out[o].data = take(neap__desc_bytes(&c->out[o].desc));
  kt_run(&again);
  for (uint32_t o = 0; o < c->n_out; o++)
    if (neap__desc_bytes(&c->out[o].desc))
      assert_memory_equal(again.out[o].data, c->out[o].data, neap__desc_bytes(&c->out[o].desc));
  kt_end(&again);
}
