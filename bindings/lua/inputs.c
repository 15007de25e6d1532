/* Inputs of programs and updates as scripts give them at each run. */
#include <string.h>

#include "bindings/lua/lua_neap.h"

static bool make_arrays(neap_host *h, uint32_t n, neap_lua_inputs *out) {
  out->desc = neap__calloc(h, n + 1u, sizeof *out->desc);
  out->data = neap__calloc(h, n + 1u, sizeof(void *));
  out->held = neap__calloc(h, n + 1u, sizeof(void *));
  out->offset = neap__calloc(h, n + 1u, sizeof *out->offset);
  return out->desc && out->data && out->held && out->offset;
}

static bool describe(neap_lua_inputs *in, const neap_graph *g) {
  bool scalars = false;
  for (uint32_t i = 0; i < in->n; i++) {
    in->desc[i] = *neap__desc_of(g, g->inputs[i]);
    scalars = scalars || in->desc[i].shape.ndim == 0;
  }
  return scalars;
}

neap_status neap__inputs_create(neap_context *ctx, const neap_graph *g, neap_lua_inputs *out, neap_error *err) {
  memset(out, 0, sizeof *out);
  out->ctx = ctx;
  out->n = g->n_inputs;
  neap_status s = NEAP_OK;
  if (!make_arrays(&ctx->host, out->n, out)) {
    s = neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for %u inputs", out->n);
  } else if (describe(out, g)) {
    void *block = NULL;
    out->scalar_bytes = (size_t)out->n * NEAP_ALIGN;
    s = neap__context_reserve(ctx, out->scalar_bytes, NEAP_OWNER_STAGING, &block, err);
    out->scalars = block;
  }
  if (s != NEAP_OK) neap__inputs_destroy(out);
  return s;
}

void neap__inputs_destroy(neap_lua_inputs *in) {
  if (!in->ctx) return;
  neap_host *h = &in->ctx->host;
  size_t n = in->n + 1u;
  if (in->held) neap__inputs_release(in);
  if (in->scalars) neap__release(in->ctx->memory, in->scalars, in->scalar_bytes, NEAP_OWNER_STAGING);
  neap__free(h, in->desc, n * sizeof *in->desc);
  neap__free(h, in->data, n * sizeof(void *));
  neap__free(h, in->held, n * sizeof(void *));
  neap__free(h, in->offset, n * sizeof *in->offset);
  memset(in, 0, sizeof *in);
}

static void bind_number(lua_State *L, neap_lua_inputs *in, uint32_t i, int index, const char *function) {
  char element[8];
  neap_error err;
  const neap_desc *d = &in->desc[i];
  neap_status s = neap__encode(L, index, d->dtype, element, &err);
  if (s != NEAP_OK) neap__lua_fail(L, s, function, "input %u: %s", i + 1, err.message);
  char *to = in->scalars + (size_t)i * NEAP_ALIGN;
  neap__ok(L, neap__copy(in->ctx, to, element, neap__dtype_size(d->dtype), NEAP_COPY_IN, &err), &err);
  in->data[i] = to;
}

static void bind_tensor(lua_State *L, neap_lua_inputs *in, uint32_t i, int index, const char *function) {
  const neap_desc *d = &in->desc[i];
  const neap_lua_tensor *t = neap__tensor_test(L, index);
  char text[96], expected[96];
  neap__shape_text(&d->shape, expected, sizeof expected);
  if (t) {
    neap__tensor_usable(L, t, function);
    if (t->trace)
      neap__lua_fail(L, NEAP_INVALID, function, "input %u is a value of a traced function, expected a tensor", i + 1);
    if (t->t.dtype != d->dtype || !neap__shape_equal(&t->t.shape, &d->shape))
      neap__lua_fail(L, t->t.dtype != d->dtype ? NEAP_DTYPE : NEAP_SHAPE, function, "input %u is %s %s, expected %s %s",
                     i + 1, neap__dtype_name(t->t.dtype), neap__shape_text(&t->t.shape, text, sizeof text),
                     neap__dtype_name(d->dtype), expected);
    in->data[i] = neap__tensor_data(&t->t);
  } else {
    neap__lua_fail(L, NEAP_INVALID, function, "input %u is %s, expected a tensor (%s %s)", i + 1,
                   neap__describe(L, index, text, sizeof text), neap__dtype_name(d->dtype), expected);
  }
}

void neap__inputs_bind(lua_State *L, neap_lua_inputs *in, int first, const char *function) {
  int given = lua_gettop(L) - first + 1;
  if (given != (int)in->n) neap__lua_fail(L, NEAP_INVALID, function, "takes %u inputs, got %d", in->n, given);
  for (uint32_t i = 0; i < in->n; i++) {
    int index = first + (int)i;
    if (lua_type(L, index) == LUA_TNUMBER && in->desc[i].shape.ndim == 0)
      bind_number(L, in, i, index, function);
    else
      bind_tensor(L, in, i, index, function);
  }
}

static int64_t shape_entry(lua_State *L, int index, const char *function, int i, int k) {
  char text[80];
  int64_t x = 0;
  lua_rawgeti(L, index, k);
  if (!neap__to_integer(L, -1, &x))
    neap__lua_fail(L, NEAP_INVALID, function, "dimension %d of shape %d is %s, expected a number without a fraction", k,
                   i, neap__describe(L, -1, text, sizeof text));
  lua_pop(L, 1);
  return x;
}

static neap_desc shape_desc(lua_State *L, int index, const char *function, int i) {
  size_t n = lua_rawlen(L, index);
  if (n > NEAP_MAX_DIMS)
    neap__lua_fail(L, NEAP_SHAPE, function, "shape %d has %d dimensions, expected at most %d", i, (int)n,
                   NEAP_MAX_DIMS);
  neap_desc d = {.dtype = neap__option_dtype(L, index, function, NEAP_F32), .shape.ndim = (int32_t)n};
  for (int k = 0; k < (int)n; k++) d.shape.dim[k] = shape_entry(L, index, function, i, k + 1);
  neap_error err;
  neap__ok(L, neap__desc_check(&d, &err), &err);
  return d;
}

neap_desc neap__input_desc(lua_State *L, int index, const char *function, int i) {
  char text[80];
  if (lua_type(L, index) == LUA_TNUMBER) return (neap_desc){.dtype = NEAP_F32};
  if (lua_istable(L, index)) return shape_desc(L, index, function, i);
  neap_lua_tensor *t = neap__tensor_test(L, index);
  if (!t)
    neap__lua_fail(L, NEAP_INVALID, function, "input %d is %s, expected a tensor, a number or a shape", i,
                   neap__describe(L, index, text, sizeof text));
  neap__tensor_usable(L, t, function);
  return neap__tensor_desc(&t->t);
}

static bool same_desc(const neap_desc *a, const neap_desc *b) {
  return a->dtype == b->dtype && neap__shape_equal(&a->shape, &b->shape);
}

bool neap__inputs_match(lua_State *L, const neap_lua_inputs *in, int first) {
  if (lua_gettop(L) - first + 1 != (int)in->n) return false;
  for (uint32_t i = 0; i < in->n; i++) {
    int index = first + (int)i;
    if (lua_type(L, index) == LUA_TNUMBER) {
      if (in->desc[i].shape.ndim != 0 || !neap__dtype_is_float(in->desc[i].dtype)) return false;
      continue;
    }
    const neap_lua_tensor *t = neap__tensor_test(L, index);
    if (!t && !lua_istable(L, index)) return false;
    neap_desc d = t ? neap__tensor_desc(&t->t) : shape_desc(L, index, "matches", (int)i + 1);
    if (!same_desc(&d, &in->desc[i])) return false;
  }
  return true;
}

void neap__inputs_hold(lua_State *L, neap_lua_inputs *in, int first) {
  neap__inputs_release(in);
  for (uint32_t i = 0; i < in->n; i++) {
    const neap_lua_tensor *t = neap__tensor_test(L, first + (int)i);
    if (!t) continue;
    in->held[i] = neap__storage_retain(t->t.storage);
    in->offset[i] = t->t.offset * (int64_t)neap__dtype_size(t->t.dtype);
  }
}

neap_status neap__inputs_refresh(neap_lua_inputs *in, neap_error *err) {
  for (uint32_t i = 0; i < in->n; i++) {
    const neap_storage *s = in->held[i];
    if (!s) continue;
    if (s->closed) return neap__fail(err, NEAP_CLOSED, "input %u was closed before the update was done", i + 1);
    in->data[i] = s->data ? (const char *)s->data + in->offset[i] : NULL;
  }
  return NEAP_OK;
}

void neap__inputs_release(neap_lua_inputs *in) {
  for (uint32_t i = 0; i < in->n; i++) {
    neap__storage_drop(in->held[i]);
    in->held[i] = NULL;
  }
}

/* The table at index holds, for each input, a dimension (1-based, or negative from the end) or false. */
static int32_t batch_dim(lua_State *L, int index, const char *function, const neap_graph *g, uint32_t i) {
  const neap_shape *s = &neap__desc_of(g, g->inputs[i])->shape;
  int64_t dim;
  if (lua_rawgeti(L, index, (lua_Integer)i + 1) != LUA_TNIL && !(lua_isboolean(L, -1) && !lua_toboolean(L, -1)))
    dim = neap__arg_integer(L, lua_gettop(L), function, "an entry of `batch_dims`", -s->ndim, s->ndim);
  else
    dim = 0;
  if (dim == 0 && lua_isnumber(L, -1))
    neap__lua_fail(L, NEAP_RANGE, function, "an entry of `batch_dims` is 0, expected 1 to %d or -1 to %d", (int)s->ndim,
                   (int)-s->ndim);
  dim += dim < 0 ? s->ndim : -1; /* 0, for none, becomes -1 */
  lua_pop(L, 1);
  return (int32_t)dim;
}

int64_t neap__arg_batch(lua_State *L, int index, const char *function, const neap_graph *g, int32_t *dims) {
  int64_t batch = 0;
  uint32_t from = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    dims[i] = lua_istable(L, index) ? batch_dim(L, index, function, g, i) : -1;
    if (dims[i] < 0) continue;
    int64_t n = neap__desc_of(g, g->inputs[i])->shape.dim[dims[i]];
    if (from && n != batch)
      neap__lua_fail(L, NEAP_SHAPE, function, "input %u has %lld samples but input %u has %lld", i + 1, (long long)n,
                     from, (long long)batch);
    batch = n;
    from = i + 1;
  }
  return batch;
}
