/* Products over dimensions, by halves: each step multiplies the first half of a dimension by the second. The
 * gradient is then exact where elements are 0, and so are gradients of gradients. */
#include "op/build.h"

static neap_id times(neap_graph *g, neap_id a, neap_id b) {
  return a == NEAP_NONE ? b : neap__build2(g, &neap__op_mul, a, b);
}

static neap_id along(neap_graph *g, neap_id x, int32_t dim) {
  int64_t size = neap__desc_at(g, x).shape.dim[dim];
  neap_id rest = NEAP_NONE; /* what was left over where a size was odd */
  while (size > 1) {
    int64_t half = size / 2;
    if (size % 2) rest = times(g, rest, neap__narrow_to(g, x, dim, size - 1, 1));
    x = neap__build2(g, &neap__op_mul, neap__narrow_to(g, x, dim, 0, half), neap__narrow_to(g, x, dim, half, half));
    if (x == NEAP_NONE) return x;
    size = half;
  }
  return times(g, rest, x);
}

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_desc d = neap__desc_at(g, in[0]);
  neap_opt dims;
  if (!neap__dims_of(g, op, in[0], &opt[0], &dims)) return NEAP_NONE;
  neap_shape shape = neap__reduced_shape(&d.shape, &dims, opt[1].v.i != 0);
  neap_id x = neap__cast(g, in[0], neap__dtype_is_float(d.dtype) ? d.dtype : NEAP_I64);
  if (neap__count_along(&d.shape, &dims) == 0) return neap__filled(g, x, &shape, 1); /* the product of nothing */
  for (int32_t i = 0; i < dims.n && x != NEAP_NONE; i++) x = along(g, x, (int32_t)dims.v.list[i]);
  return x == NEAP_NONE ? x : neap__reshape_to(g, x, &shape);
}

static const char *const samples[] = {"f32[2,3]",
                                      "f32[2,3,4]; dim=2",
                                      "f32[2,3,4]; dim=1,3; keepdim=true",
                                      "f32[3,0]; dim=2",
                                      "f64[3,7]; dim=1",
                                      "i64[2,3]:below=4; dim=2",
                                      NULL};

const neap_op neap__op_prod = {
    .name = "prod",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .expand = expand,
    .samples = samples,
    .doc = "Product over the dimensions `dim`; integers and bool give int64, and the product of nothing is 1. The "
           "gradient is exact where elements are 0.",
    .example = "local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}\n"
               "print(x:prod(2))  --> tensor fp32 [2] {6, 120}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim]",
};
