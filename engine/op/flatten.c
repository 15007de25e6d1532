#include "op/build.h"

static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_shape from = neap__desc_at(g, in[0]).shape, to = {.ndim = 0};
  int32_t first = 0, last = 0;
  if (!neap__dim_at(g, op, opt[0].v.i, from.ndim, &first)) return NEAP_NONE;
  if (!neap__dim_at(g, op, opt[1].v.i, from.ndim, &last)) return NEAP_NONE;
  if (first > last)
    return neap__graph_fail(g, op, NEAP_RANGE, "start_dim %d lies behind end_dim %d", first + 1, last + 1);
  for (int32_t i = 0; i < from.ndim; i++) {
    if (i > first && i <= last)
      to.dim[to.ndim - 1] *= from.dim[i];
    else
      to.dim[to.ndim++] = from.dim[i];
  }
  if (from.ndim == 0) to = (neap_shape){.ndim = 1, .dim = {1}};
  return neap__reshape_to(g, in[0], &to);
}

static const char *const samples[] = {"f32[2,3,4]", "f32[2,3,4]; start_dim=2", "f32[0,3]", "f32[]", NULL};

const neap_op neap__op_flatten = {
    .name = "flatten",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "start_dim",
              .type = NEAP_OPT_DIM,
              .def = 0,
              .has_default = true,
              .doc = "First dimension of those to join."},
             {.name = "end_dim",
              .type = NEAP_OPT_DIM,
              .def = -1,
              .has_default = true,
              .doc = "Last dimension of those to join."}},
    .expand = expand,
    .samples = samples,
    .doc = "Dimensions `start_dim` to `end_dim` as one; a scalar becomes [1].",
    .example = "local x = neap.zeros(2, 3, 4)\n"
               "print(table.concat(x:flatten().shape, \" \"))  --> 24\n"
               "print(table.concat(x:flatten(2).shape, \" \"))  --> 2 12",
    .topic = NEAP_TOPIC_SHAPE,
    .args = "x [...] -> [..., flat, ...]",
};

static neap_id unflatten(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape from = neap__desc_at(g, in[0]).shape;
  neap_shape to = {.ndim = 0};
  int32_t dim = 0;
  int64_t known = 1, *open = NULL;
  char text[96];
  (void)n_in;
  if (from.ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar has no dimension to split");
  if (!neap__dim_at(g, op, opt[0].v.i, from.ndim, &dim)) return NEAP_NONE;
  if (from.ndim - 1 + opt[1].n > NEAP_MAX_DIMS)
    return neap__graph_fail(g, op, NEAP_SHAPE, "`sizes` makes %d dimensions, expected at most %d",
                            from.ndim - 1 + opt[1].n, NEAP_MAX_DIMS);
  for (int32_t d = 0; d < from.ndim; d++) {
    if (d != dim) to.dim[to.ndim++] = from.dim[d];
    for (int32_t i = 0; i < opt[1].n && d == dim; i++) {
      int64_t *size = &to.dim[to.ndim++];
      *size = opt[1].v.list[i];
      if (*size == -1 && !open)
        open = size;
      else if (*size < 0 || __builtin_mul_overflow(known, *size, &known))
        return neap__graph_fail(g, op, NEAP_RANGE, "`sizes` has %lld, expected sizes of at least 0, and one -1 at most",
                                (long long)*size);
    }
  }
  if (open) *open = known > 0 ? from.dim[dim] / known : 0;
  if ((open ? known * *open : known) != from.dim[dim])
    return neap__graph_fail(g, op, NEAP_SHAPE, "`sizes` do not make up dimension %d of %s", dim + 1,
                            neap__shape_text(&from, text, sizeof text));
  return neap__reshape_to(g, in[0], &to);
}

static const char *const un_samples[] = {"f32[2,12]; dim=2; sizes=3,4", "f32[6,2]; dim=1; sizes=2,-1",
                                         "i64[2,4]; dim=-1; sizes=2,2,1", "f32[0,4]; dim=2; sizes=2,2", NULL};

const neap_op neap__op_unflatten = {
    .name = "unflatten",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts =
        {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "The dimension to split."},
         {.name = "sizes", .type = NEAP_OPT_INTS, .required = true, .doc = "Of the new dimensions; one may be -1."}},
    .expand = unflatten,
    .topic = NEAP_TOPIC_SHAPE,
    .args = "input [...] -> [...]",
    .samples = un_samples,
    .doc = "Dimension `dim` split into dimensions of `sizes`, of which one may be -1.",
    .example = "print(table.concat(neap.zeros(2, 12):unflatten(2, {3, -1}).shape, \" \"))  --> 2 3 4",
};
