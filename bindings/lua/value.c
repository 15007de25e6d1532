/* Elements between Lua and device memory. */
#include <math.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

neap_status neap__copy(neap_context *ctx, void *dst, const void *src, size_t bytes, neap_copy_kind kind,
                       neap_error *err) {
  return bytes ? ctx->backend->vt->copy(ctx->backend, dst, src, bytes, kind, err) : NEAP_OK;
}

void neap__stage_begin(neap_stage *w, neap_context *ctx, void *device, size_t bytes) {
  w->ctx = ctx;
  w->device = device;
  w->used = 0;
  w->left = bytes;
}

neap_status neap__stage_flush(neap_stage *w, neap_error *err) {
  neap_status s = neap__copy(w->ctx, w->device, w->buf, w->used, NEAP_COPY_IN, err);
  w->device += w->used;
  w->used = 0;
  return s;
}

neap_status neap__stage_put(neap_stage *w, const void *element, size_t size, neap_error *err) {
  memcpy(w->buf + w->used, element, size);
  w->used += size;
  return w->used + sizeof(double) > sizeof w->buf ? neap__stage_flush(w, err) : NEAP_OK;
}

/* Element sizes divide the buffer's, so that none lies across its end. */
neap_status neap__stage_take(neap_stage *r, void *element, size_t size, neap_error *err) {
  size_t at = r->used % sizeof r->buf;
  if (at == 0) {
    size_t n = r->left < sizeof r->buf ? r->left : sizeof r->buf;
    neap_status s = neap__copy(r->ctx, r->buf, r->device, n, NEAP_COPY_OUT, err);
    if (s != NEAP_OK) return s;
    r->device += n;
    r->left -= n;
  }
  memcpy(element, r->buf + at, size);
  r->used += size;
  return NEAP_OK;
}

static neap_status encode_integer(int64_t i, neap_dtype t, void *out, neap_error *err) {
  int64_t min = t == NEAP_I32 ? INT32_MIN : 0, max = t == NEAP_I32 ? INT32_MAX : t == NEAP_U8 ? UINT8_MAX : 1;
  if (t != NEAP_I64 && (i < min || i > max))
    return neap__fail(err, NEAP_RANGE, "%lld does not fit %s", (long long)i, neap__dtype_name(t));
  int32_t narrow = (int32_t)i;
  uint8_t byte = (uint8_t)i;
  if (t == NEAP_I64)
    memcpy(out, &i, sizeof i);
  else if (t == NEAP_I32)
    memcpy(out, &narrow, sizeof narrow);
  else
    memcpy(out, &byte, sizeof byte);
  return NEAP_OK;
}

static neap_status encode_float(double x, neap_dtype t, void *out, neap_error *err) {
  float f = (float)x;
  if (t == NEAP_F32)
    memcpy(out, &f, sizeof f);
  else if (t == NEAP_F64)
    memcpy(out, &x, sizeof x);
  else
    return neap__fail(err, NEAP_UNSUPPORTED, "numbers cannot be stored as %s directly", neap__dtype_name(t));
  return NEAP_OK;
}

neap_status neap__encode_double(double x, neap_dtype t, void *out, neap_error *err) {
  if (neap__dtype_is_float(t)) return encode_float(x, t, out, err);
  if (!(fabs(x) <= 9223372036854774784.0) || x != floor(x))
    return neap__fail(err, NEAP_RANGE, "%.14g is not a whole number, as %s needs", x, neap__dtype_name(t));
  return encode_integer((int64_t)x, t, out, err);
}

neap_status neap__encode(lua_State *L, int index, neap_dtype t, void *out, neap_error *err) {
  char text[80];
  if (lua_isboolean(L, index)) return neap__encode_double(lua_toboolean(L, index), t, out, err);
  if (lua_type(L, index) != LUA_TNUMBER)
    return neap__fail(err, NEAP_DTYPE, "%s is neither a number nor a boolean",
                      neap__describe(L, index, text, sizeof text));
  if (lua_isinteger(L, index) && !neap__dtype_is_float(t)) return encode_integer(lua_tointeger(L, index), t, out, err);
  return neap__encode_double(lua_tonumber(L, index), t, out, err);
}

static double half_value(uint16_t h) {
  int exponent = (h >> 10) & 31, fraction = h & 1023;
  double x = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                            : ldexp(fraction, -24);
  return h & 0x8000 ? -x : x;
}

static double bfloat_value(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

void neap__push_element(lua_State *L, neap_dtype t, const void *element) {
  union {
    float f32;
    double f64;
    int64_t i64;
    int32_t i32;
    uint16_t half;
    uint8_t u8;
  } v;
  memcpy(&v, element, neap__dtype_size(t));
  switch (t) {
    case NEAP_F32: lua_pushnumber(L, (double)v.f32); break;
    case NEAP_F64: lua_pushnumber(L, v.f64); break;
    case NEAP_I64: lua_pushinteger(L, v.i64); break;
    case NEAP_I32: lua_pushinteger(L, v.i32); break;
    case NEAP_U8: lua_pushinteger(L, v.u8); break;
    case NEAP_BOOL: lua_pushboolean(L, v.u8); break;
    case NEAP_F16: lua_pushnumber(L, half_value(v.half)); break;
    case NEAP_BF16: lua_pushnumber(L, bfloat_value(v.half)); break;
  }
}
