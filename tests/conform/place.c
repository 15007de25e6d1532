/* Where values lie must not matter: written over an input, moved from elsewhere, or with channels innermost. */
#include <string.h>

#include "conform/conform.h"
#include "graph/plan.h"
#include "op/op.h"

/* --- in place ----------------------------------------------------------------------------------------------- */

/* copy -> op -> copy: between copies a value lies in the arena, where the plan may write over it. kept: the copied
 * inputs are outputs too, so that it may not. */
static bool between_copies(cf_run *r, const cf_case *c, bool kept, uint32_t *n) {
  neap_id ids[CF_INPUTS], out[NEAP_MAX_OUT];
  cf_open(r, 1);
  cf_add_inputs(r, c, ids);
  for (uint32_t i = 0; i < c->n_in; i++) ids[i] = neap__build1(r->g, &neap__op_copy, ids[i]);
  bool ok = cf_apply(r, c, ids, out, n);
  for (uint32_t o = 0; ok && o < *n; o++) neap__graph_output(r->g, neap__build1(r->g, &neap__op_copy, out[o]));
  for (uint32_t i = 0; ok && kept && i < c->n_in; i++) neap__graph_output(r->g, ids[i]);
  ok = ok && cf_plan(r) == NEAP_OK && cf_go(r) == NEAP_OK;
  if (!ok) {
    cf_complain(c, "does not run between copies: %s", r->err.message);
    cf_end(r);
  }
  return ok;
}

/* The first step of the op shares its output's bytes with an input. */
static bool is_inplace(cf_run *r, const neap_op *op) {
  for (uint32_t k = 0; k < r->p->n_steps; k++) {
    const neap_step *s = &r->p->steps[k];
    if (s->op != op) continue;
    for (uint32_t i = 0; i < s->n_in; i++)
      if (neap__root(r->p, s->out[0]) == neap__root(r->p, s->in[i])) return true;
  }
  return false;
}

/* An input that the record allows to be written over, and that looks like the output. */
static bool may_be_inplace(const cf_run *r, const cf_case *c) {
  for (uint32_t i = 0; i < c->n_in && i < 8; i++)
    if ((c->op->inplace >> i & 1) && c->in[i].desc.dtype == r->out[0].desc.dtype &&
        neap__shape_equal(&c->in[i].desc.shape, &r->out[0].desc.shape))
      return kt_count(&r->out[0]) > 0;
  return false;
}

void cf_check_inplace(const cf_case *c) {
  cf_run a, b;
  uint32_t n;
  if (!between_copies(&a, c, false, &n)) return;
  if (between_copies(&b, c, true, &n)) {
    for (uint32_t o = 0; o < n; o++) cf_same_bits(c, "in place", &a.out[o], &b.out[o]);
    for (uint32_t i = 0; i < c->n_in; i++) cf_same_bits(c, "a kept input", &b.out[n + i], &b.in[i]);
    if (!neap__is_composite(c->op) && may_be_inplace(&a, c) && !is_inplace(&a, c->op))
      cf_complain(c, "may be in place and is not");
    if (!neap__is_composite(c->op) && !c->op->alias && is_inplace(&b, c->op))
      cf_complain(c, "writes over an input that is kept");
    if (is_inplace(&a, c->op)) cf_note("in place", c->op);
    cf_end(&b);
  }
  for (uint32_t i = 0; i < c->n_in; i++) {
    kt_value fresh = cf_values(&c->in[i], i);
    cf_same_bits(c, "an input after the run", &a.in[i], &fresh);
    kt_free(&fresh);
  }
  cf_end(&a);
}

/* --- permuted and channels innermost ---------------------------------------------------------------------------- */

static kt_value reversed(const kt_value *v) {
  const neap_shape *s = &v->desc.shape;
  neap_desc d = v->desc;
  for (int32_t i = 0; i < s->ndim; i++) d.shape.dim[i] = s->dim[s->ndim - 1 - i];
  kt_value r = cf_buffer(&d);
  for (int64_t i = 0; i < kt_count(v); i++) {
    int64_t rest = i, to = 0, step = 1, at[NEAP_MAX_DIMS];
    for (int32_t k = s->ndim; k-- > 0; rest /= s->dim[k]) at[k] = rest % s->dim[k];
    for (int32_t k = 0; k < s->ndim; step *= s->dim[k++]) to += at[k] * step;
    kt_set(&r, to, kt_get(v, i));
  }
  return r;
}

/* x, given with its dimensions backwards and turned round in the graph. */
static neap_id add_reversed(cf_run *r, const cf_case *c, uint32_t i) {
  kt_value v = cf_values(&c->in[i], i);
  neap_opt opt[NEAP_MAX_OPTS] = {{.set = 1, .n = (uint8_t)v.desc.shape.ndim}};
  const neap_id x = cf_add(r, reversed(&v));
  for (int32_t d = 0; d < v.desc.shape.ndim; d++) opt[0].v.list[d] = v.desc.shape.ndim - 1 - d;
  kt_free(&v);
  return neap__build(r->g, &neap__op_permute, &x, 1, opt);
}

static bool is_image(const neap_desc *d) {
  return d->shape.ndim == 4 && neap__dtype_is_float(d->dtype) && neap__shape_count(&d->shape) > 0;
}

/* x through a 1 x 1 convolution that changes nothing: a producer that may leave channels innermost. */
static neap_id add_convolved(cf_run *r, const cf_case *c, uint32_t i) {
  const neap_desc *d = &c->in[i].desc;
  const neap_id x = cf_add(r, cf_values(&c->in[i], i));
  if (!is_image(d)) return x;
  const int64_t channels = d->shape.dim[1];
  kt_value w = cf_buffer(&(neap_desc){d->dtype, {4, {channels, channels, 1, 1}}});
  for (int64_t k = 0; k < channels; k++) kt_set(&w, k * channels + k, 1);
  return neap__build2(r->g, &neap__op_conv2d, x, cf_add(r, w));
}

static bool through(cf_run *r, const cf_case *c, neap_id (*add)(cf_run *, const cf_case *, uint32_t)) {
  neap_id ids[CF_INPUTS], out[NEAP_MAX_OUT];
  uint32_t n = 0;
  cf_open(r, 1);
  for (uint32_t i = 0; i < c->n_in; i++) ids[i] = add(r, c, i);
  bool ok = cf_apply(r, c, ids, out, &n);
  for (uint32_t o = 0; ok && o < n; o++) neap__graph_output(r->g, out[o]);
  ok = ok && cf_plan(r) == NEAP_OK && cf_go(r) == NEAP_OK;
  if (!ok) {
    cf_complain(c, "does not run on moved inputs: %s", r->err.message);
    cf_end(r);
  }
  return ok;
}

static bool channels_innermost(const cf_run *r) {
  for (uint32_t v = 0; v < r->p->n_values; v++)
    if (r->p->values[v].layout == NEAP_LAYOUT_LAST) return true;
  return false;
}

static void behind_a_convolution(const cf_case *c, const cf_run *plain) {
  cf_run moved;
  if (!through(&moved, c, add_convolved)) return;
  if (channels_innermost(&moved)) cf_note("run on channels innermost", c->op);
  for (uint32_t o = 0; o < plain->n_out; o++) cf_close(c, "behind a convolution", &moved.out[o], &plain->out[o], 2e-6);
  cf_end(&moved);
}

/* The case with images for inputs, where the op takes them; the last input of several may be one pixel, or one
 * number a channel. */
static void with_images(const cf_case *c, neap_shape last) {
  cf_case v = *c;
  cf_run plain;
  for (uint32_t i = 0; i < v.n_in; i++) v.in[i].desc.shape = (neap_shape){4, {2, 3, 4, 5}};
  if (v.n_in > 1 && last.ndim) v.in[v.n_in - 1].desc.shape = last;
  if (v.n_in == 0 || !is_image(&v.in[0].desc) || !cf_forward(&plain, &v, 1)) return;
  behind_a_convolution(&v, &plain);
  cf_end(&plain);
}

void cf_check_layouts(const cf_case *c) {
  cf_run plain, moved;
  bool images = false;
  for (uint32_t i = 0; i < c->n_in; i++) images |= is_image(&c->in[i].desc);
  if (!cf_must_run(&plain, c)) return;
  if (through(&moved, c, add_reversed)) {
    for (uint32_t o = 0; o < plain.n_out; o++) cf_same_bits(c, "permuted before", &moved.out[o], &plain.out[o]);
    cf_end(&moved);
  }
  if (images) {
    behind_a_convolution(c, &plain);
  } else {
    with_images(c, (neap_shape){0, {0}});
    with_images(c, (neap_shape){3, {3, 1, 1}});
    with_images(c, (neap_shape){1, {5}});
  }
  cf_end(&plain);
}
