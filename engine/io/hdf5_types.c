#include <stdio.h>
#include <string.h>

#include "io/hdf5_seam.h"

/* Half types are not among libhdf5's own; these are the fields that h5py gives float16, and bfloat16. */
static hid_t half_type(size_t exponent_bits, size_t bias) {
  const size_t mantissa = 15 - exponent_bits;
  hid_t t = H5Tcopy(H5T_IEEE_F32LE);
  if (t < 0) return t;
  if (H5Tset_fields(t, 15, mantissa, exponent_bits, 0, mantissa) >= 0 && H5Tset_size(t, 2) >= 0 &&
      H5Tset_ebias(t, bias) >= 0)
    return t;
  H5Tclose(t);
  return -1;
}

/* As h5py writes NumPy's bool. */
static hid_t bool_type(void) {
  const int8_t no = 0, yes = 1;
  hid_t t = H5Tenum_create(H5T_NATIVE_INT8);
  if (t < 0) return t;
  if (H5Tenum_insert(t, "FALSE", &no) >= 0 && H5Tenum_insert(t, "TRUE", &yes) >= 0) return t;
  H5Tclose(t);
  return -1;
}

hid_t neap__h5_type(neap_dtype t) {
  switch (t) {
    case NEAP_F32: return H5Tcopy(H5T_NATIVE_FLOAT);
    case NEAP_F64: return H5Tcopy(H5T_NATIVE_DOUBLE);
    case NEAP_I64: return H5Tcopy(H5T_NATIVE_INT64);
    case NEAP_I32: return H5Tcopy(H5T_NATIVE_INT32);
    case NEAP_U8: return H5Tcopy(H5T_NATIVE_UINT8);
    case NEAP_BOOL: return bool_type();
    case NEAP_F16: return half_type(5, 15);
    case NEAP_BF16: return half_type(8, 127);
  }
  return -1;
}

static bool is_half(hid_t type, neap_dtype t) {
  hid_t half = neap__h5_type(t);
  bool same = half >= 0 && H5Tequal(type, half) > 0;
  if (half >= 0) H5Tclose(half);
  return same;
}

static bool float_dtype(hid_t type, neap_dtype *out) {
  if (H5Tequal(type, H5T_IEEE_F32LE) > 0 || H5Tequal(type, H5T_IEEE_F32BE) > 0) return *out = NEAP_F32, true;
  if (H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F64BE) > 0) return *out = NEAP_F64, true;
  if (is_half(type, NEAP_F16)) return *out = NEAP_F16, true;
  if (is_half(type, NEAP_BF16)) return *out = NEAP_BF16, true;
  return false;
}

static bool int_dtype(hid_t type, neap_dtype *out) {
  const size_t size = H5Tget_size(type);
  const bool sign = H5Tget_sign(type) == H5T_SGN_2;
  if (H5Tget_precision(type) != size * 8 || H5Tget_offset(type) != 0) return false;
  switch (size) {
    case 1: return *out = sign ? NEAP_I32 : NEAP_U8, true;
    case 2: return *out = NEAP_I32, true;
    case 4: return *out = sign ? NEAP_I32 : NEAP_I64, true;
    case 8: return *out = NEAP_I64, true;
    default: return false;
  }
}

static bool member_is(hid_t type, unsigned i, const char *name, int8_t value) {
  int8_t v = -1;
  char *text = H5Tget_member_name(type, i);
  bool same = text && strcmp(text, name) == 0 && H5Tget_member_value(type, i, &v) >= 0 && v == value;
  if (text) H5free_memory(text);
  return same;
}

static bool is_bool(hid_t type) {
  return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && member_is(type, 0, "FALSE", 0) &&
         member_is(type, 1, "TRUE", 1);
}

static const char *class_name(H5T_class_t c) {
  static const char *const names[] = {
      [H5T_INTEGER] = "integer",      [H5T_FLOAT] = "float",         [H5T_TIME] = "time",
      [H5T_STRING] = "string",        [H5T_BITFIELD] = "bitfield",   [H5T_OPAQUE] = "opaque",
      [H5T_COMPOUND] = "compound",    [H5T_REFERENCE] = "reference", [H5T_ENUM] = "enumeration",
      [H5T_VLEN] = "variable-length", [H5T_ARRAY] = "array"};
  return c >= 0 && c <= H5T_ARRAY ? names[c] : "unknown";
}

bool neap__h5_dtype(hid_t type, neap_dtype *out, char *found, size_t size) {
  const H5T_class_t c = H5Tget_class(type);
  if (c == H5T_FLOAT && float_dtype(type, out)) return true;
  if (c == H5T_INTEGER && int_dtype(type, out)) return true;
  if (c == H5T_ENUM && is_bool(type)) return *out = NEAP_BOOL, true;
  snprintf(found, size, "%s of %zu bytes", class_name(c), H5Tget_size(type));
  return false;
}

bool neap__h5_is_text(hid_t type) { return H5Tget_class(type) == H5T_STRING; }
