/* Repeating and rotating along dimensions. */
#include "op/build.h"

/* (before, 1 or size, after): the dimension `dim` repeated as a block, or entry by entry. */
static neap_id repeat(neap_graph *g, const neap_op *op, neap_id x, int32_t dim, int64_t times, bool each) {
  neap_shape shape = neap__desc_at(g, x).shape, parts = {.ndim = 3, .dim = {1, 1, 1}};
  if (times == 1) return x;
  if (__builtin_mul_overflow(shape.dim[dim], times, &shape.dim[dim]))
    return neap__graph_fail(g, op, NEAP_RANGE, "%lld repeats of dimension %d are too many", (long long)times, dim + 1);
  neap_shape from = neap__desc_at(g, x).shape;
  for (int32_t d = 0; d < from.ndim; d++) parts.dim[d < dim || (each && d == dim) ? 0 : 2] *= from.dim[d];
  x = neap__reshape_to(g, x, &parts);
  parts.dim[1] = times;
  x = neap__build(g, &neap__op_expand, &x, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(parts.dim, 3)});
  return neap__reshape_to(g, x, &shape);
}

static neap_id tile(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_shape shape = neap__desc_at(g, in[0]).shape;
  const neap_opt *times = &opt[0];
  neap_id x = in[0];
  while (shape.ndim < times->n && x != NEAP_NONE) {
    x = neap__insert_dim(g, x, 0);
    shape.ndim++;
  }
  for (int32_t i = 0; i < times->n; i++)
    if (times->v.list[i] < 0)
      return neap__graph_fail(g, op, NEAP_RANGE, "`dims` has %lld, expected counts of at least 0",
                              (long long)times->v.list[i]);
  for (int32_t i = 0; i < times->n && x != NEAP_NONE; i++)
    x = repeat(g, op, x, shape.ndim - times->n + i, times->v.list[i], false);
  return x;
}

static neap_id repeat_interleave(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in,
                                 const neap_opt *opt) {
  (void)n_in;
  int32_t dim = 0;
  neap_id x = in[0];
  if (!opt[1].set) {
    neap_desc d = neap__desc_at(g, x);
    neap_shape flat = {.ndim = 1, .dim = {neap__shape_count(&d.shape)}};
    x = neap__reshape_to(g, x, &flat);
  } else {
    neap_shape shape = neap__desc_at(g, x).shape;
    if (shape.ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar has no dimension to repeat along");
    if (!neap__dim_at(g, op, opt[1].v.i, shape.ndim, &dim)) return NEAP_NONE;
  }
  return repeat(g, op, x, dim, opt[0].v.i, true);
}

static neap_id roll_dim(neap_graph *g, neap_id x, int32_t dim, int64_t shift) {
  int64_t size = neap__desc_at(g, x).shape.dim[dim];
  int64_t head = size ? (shift % size + size) % size : 0; /* entries that come round to the front */
  if (head == 0) return x;
  neap_id parts[2] = {neap__narrow_to(g, x, dim, size - head, head), neap__narrow_to(g, x, dim, 0, size - head)};
  return neap__build(g, &neap__op_cat, parts, 2, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim)});
}

static neap_id roll(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  const neap_opt *shifts = &opt[0], *dims = &opt[1];
  neap_desc d = neap__desc_at(g, in[0]);
  neap_id x = in[0];
  if (shifts->n != (dims->set ? dims->n : 1))
    return neap__graph_fail(g, op, NEAP_INVALID, "%d shifts are given for %d dims", shifts->n, dims->set ? dims->n : 1);
  if (!dims->set) {
    neap_shape flat = {.ndim = 1, .dim = {neap__shape_count(&d.shape)}};
    return neap__reshape_to(g, roll_dim(g, neap__reshape_to(g, x, &flat), 0, shifts->v.list[0]), &d.shape);
  }
  if (d.shape.ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar has no dimension to roll along");
  for (int32_t i = 0; i < dims->n && x != NEAP_NONE; i++) {
    int32_t dim = 0;
    if (!neap__dim_at(g, op, dims->v.list[i], d.shape.ndim, &dim)) return NEAP_NONE;
    x = roll_dim(g, x, dim, shifts->v.list[i]);
  }
  return x;
}

static const char *const tile_samples[] = {
    "f32[2,3]; dims=2,2", "f32[3]; dims=2,1,3", "f32[2,3]; dims=2",     "f32[0,3]; dims=2,1",
    "i64[2,2]; dims=0,1", "f32[]; dims=3",      "f32[2,3,4]; dims=1,3", NULL};
static const char *const each_samples[] = {"f32[2,3]; repeats=2", "f32[2,3]; repeats=3; dim=1",
                                           "f32[2,3,2]; repeats=2; dim=-1", "f32[0,3]; repeats=2; dim=2", NULL};
static const char *const roll_samples[] = {"f32[2,5]; shifts=2", "f32[2,5]; shifts=2; dims=2",
                                           "f32[3,5]; shifts=-1,7; dims=1,2", "f32[0,3]; shifts=1; dims=1", NULL};

const neap_op neap__op_tile = {
    .name = "tile",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "dims",
              .type = NEAP_OPT_INTS,
              .required = true,
              .doc = "How many times along each of the last dimensions."}},
    .expand = tile,
    .samples = tile_samples,
    .doc = "The input repeated `dims` times as a block, the last number for the last dimension; more numbers than "
           "dimensions make new ones in front.",
    .example = "print(neap.tile(neap.tensor {1, 2}, {2, 2}))  --> tensor fp32 [2, 4] {{1, 2, 1, 2}, {1, 2, 1, 2}}",
    .topic = NEAP_TOPIC_JOIN,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_repeat_interleave = {
    .name = "repeat_interleave",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts =
        {{.name = "repeats", .type = NEAP_OPT_INT, .required = true, .min = 0, .max = 1e15, .doc = "How many times."},
         {.name = "dim", .type = NEAP_OPT_DIM, .doc = "Dimension of the entries; the flat tensor when left out."}},
    .expand = repeat_interleave,
    .samples = each_samples,
    .doc = "Each entry of dimension `dim` `repeats` times in a row.",
    .example = "print(neap.repeat_interleave(neap.tensor {1, 2}, 3))  --> tensor fp32 [6] {1, 1, 1, 2, 2, 2}",
    .topic = NEAP_TOPIC_JOIN,
    .args = "x [...] -> [...]",
};

const neap_op neap__op_roll = {
    .name = "roll",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "shifts",
              .type = NEAP_OPT_INTS,
              .required = true,
              .doc = "Places to move by, one for each of `dims`; negative: towards the front."},
             {.name = "dims",
              .type = NEAP_OPT_DIMS,
              .doc = "Dimensions to move along; the flat tensor when left out."}},
    .expand = roll,
    .samples = roll_samples,
    .doc = "Entries moved on by `shifts` along `dims`, around the end.",
    .example =
        "print(neap.roll(neap.tensor {1, 2, 3, 4}, 1))  --> tensor fp32 [4] {4, 1, 2, 3}\n"
        "print(neap.roll(neap.tensor {{1, 2}, {3, 4}}, -1, {dims = 2}))  --> tensor fp32 [2, 2] {{2, 1}, {4, 3}}",
    .topic = NEAP_TOPIC_JOIN,
    .args = "x [...] -> [...]",
};
