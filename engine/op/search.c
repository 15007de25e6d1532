/* Counting and finding: places in sorted values, and how often values occur. */
#include <math.h>

#include "op/build.h"

/* (sorted, values) -> where each value goes, along the last dimension */
static neap_status infer(neap_infer *x) {
  const neap_shape *sorted = &x->in[0].shape, *values = &x->in[1].shape;
  char a[96], b[96];
  bool fits = sorted->ndim == 1 || (sorted->ndim > 1 && sorted->ndim == values->ndim);
  for (int32_t d = 0; d + 1 < sorted->ndim && fits; d++) fits = sorted->dim[d] == values->dim[d];
  if (!fits)
    return neap__fail(x->err, NEAP_SHAPE,
                      "values of shape %s for sorted ones of %s, expected those in 1 dimension or in "
                      "the same but for the last",
                      neap__shape_text(values, b, sizeof b), neap__shape_text(sorted, a, sizeof a));
  if (x->in[0].dtype != x->in[1].dtype)
    return neap__fail(x->err, NEAP_DTYPE, "values of %s for sorted ones of %s, expected one dtype",
                      neap__dtype_name(x->in[1].dtype), neap__dtype_name(x->in[0].dtype));
  x->out[0] = (neap_desc){NEAP_I64, *values};
  return NEAP_OK;
}

/* One list serves all samples, or each has its own; it is never cut itself. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  const int32_t lists = g->values[n->in[0]].desc.shape.ndim;
  if (!neap__batch_carries(&in[1])) return NEAP_UNSUPPORTED;
  out[0] = in[1];
  if (lists == 1) return in[0].kind == NEAP_B_CONST ? NEAP_OK : NEAP_UNSUPPORTED;
  if (in[1].dim == lists - 1) return in[0].kind == NEAP_B_CONST ? NEAP_OK : NEAP_UNSUPPORTED;
  return in[0].kind != NEAP_B_CONST ? neap__batch_same(g, n, in, out) : NEAP_UNSUPPORTED;
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  const neap_shape *sorted = &s->in[0].desc.shape;
  const double n = (double)(sorted->ndim ? sorted->dim[sorted->ndim - 1] : 1);
  *flops = (double)neap__shape_count(&s->in[1].desc.shape) * log2(n + 1);
  *bytes = (double)neap__desc_bytes(&s->in[0].desc) + 2 * (double)neap__desc_bytes(&s->out[0].desc);
}

static const char *const node_samples[] = {"f32[5] f32[2,3]", "f32[2,5] f32[2,3]; right=true", "i64[4] i64[6]",
                                           "f32[0] f32[3]",   "f64[6] f64[]; right=true",      NULL};

#define RIGHT                                                              \
  {                                                                        \
    .name = "right", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true, \
    .doc = "Whether equal entries count as less."                          \
  }

const neap_op neap__op_sorted_place = {
    .name = "sorted_place",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .internal = true,
    .nondiff = true,
    .precision = NEAP_PREC_KEEP,
    .opts = {RIGHT},
    .infer = infer,
    .batch = batch,
    .cost = cost,
    .samples = node_samples,
    .doc = "searchsorted of inputs of one dtype.",
};

static neap_id place(neap_graph *g, neap_id sorted, neap_id values, const neap_opt *right) {
  const neap_dtype t = neap__dtype_promote(neap__desc_at(g, sorted).dtype, neap__desc_at(g, values).dtype);
  const neap_id in[2] = {neap__cast(g, sorted, t), neap__cast(g, values, t)};
  return neap__build(g, &neap__op_sorted_place, in, 2, (neap_opt[NEAP_MAX_OPTS]){*right});
}

static neap_id searchsorted(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)op, (void)n_in;
  return place(g, in[0], in[1], &opt[0]);
}

static neap_id bucketize(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape s = neap__desc_at(g, in[1]).shape;
  char text[96];
  (void)n_in;
  if (s.ndim == 1) return place(g, in[1], in[0], &opt[0]);
  return neap__graph_fail(g, op, NEAP_SHAPE, "boundaries of shape %s, expected 1 dimension",
                          neap__shape_text(&s, text, sizeof text));
}

/* --- how often ---------------------------------------------------------------------------------------------------- */

static neap_id ones_as(neap_graph *g, neap_id like, neap_dtype t) {
  return neap__build2(g, &neap__op_expand_as, neap__graph_const(g, t, 1), like);
}

/* weights added up in `bins` by index, all in one dimension */
static neap_id add_up(neap_graph *g, neap_id weights, neap_id index, int64_t bins) {
  const neap_opt o[NEAP_MAX_OPTS] = {neap__opt_list(&bins, 1), NEAP_FLOAT(0),
                                     NEAP_INT(neap__desc_at(g, weights).dtype)};
  const neap_id like = neap__build(g, &neap__op_full, NULL, 0, o);
  return neap__build(g, &neap__op_scatter_sum, (neap_id[]){weights, index, like}, 3,
                     (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(0)});
}

static neap_id bincount(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_desc x = neap__desc_at(g, in[0]);
  char text[96], wt[96];
  if (x.dtype != NEAP_I64)
    return neap__graph_fail(g, op, NEAP_DTYPE, "the values are %s, expected int64", neap__dtype_name(x.dtype));
  if (x.shape.ndim != 1)
    return neap__graph_fail(g, op, NEAP_SHAPE, "values of shape %s, expected 1 dimension",
                            neap__shape_text(&x.shape, text, sizeof text));
  if (n_in < 2) return add_up(g, ones_as(g, in[0], NEAP_I64), in[0], opt[0].v.i);
  const neap_desc w = neap__desc_at(g, in[1]);
  if (!neap__shape_equal(&x.shape, &w.shape))
    return neap__graph_fail(g, op, NEAP_SHAPE, "weights of shape %s for values of %s, expected one for each",
                            neap__shape_text(&w.shape, wt, sizeof wt), neap__shape_text(&x.shape, text, sizeof text));
  return add_up(g, in[1], in[0], opt[0].v.i);
}

/* The two ends: as given, or where both are 0 those of the values; ends that coincide are moved apart by 1 each way. */
static bool ends(neap_graph *g, neap_id x, const neap_opt *opt, neap_id *low, neap_id *high) {
  const double from = opt[1].v.f, to = opt[2].v.f;
  const neap_desc d = neap__desc_at(g, x);
  if (from != 0 || to != 0 || neap__shape_count(&d.shape) == 0) {
    const double apart = from == to ? 1 : 0;
    *low = neap__const_like(g, x, from - apart);
    *high = neap__const_like(g, x, to + apart);
    return true;
  }
  const neap_id least = neap__build1(g, &neap__op_amin, x), most = neap__build1(g, &neap__op_amax, x);
  const neap_id apart = neap__cast(g, neap__build2(g, &neap__op_eq, least, most), d.dtype);
  *low = neap__build2(g, &neap__op_sub, least, apart);
  *high = neap__build2(g, &neap__op_add, most, apart);
  return *high != NEAP_NONE;
}

static neap_id histc(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_desc d = neap__desc_at(g, in[0]);
  const int64_t bins = opt[0].v.i;
  neap_id low, high;
  (void)n_in;
  if (!neap__dtype_is_float(d.dtype))
    return neap__graph_fail(g, op, NEAP_DTYPE, "input 1 is %s, expected a floating-point dtype",
                            neap__dtype_name(d.dtype));
  if (!(opt[1].v.f <= opt[2].v.f) || !isfinite(opt[1].v.f) || !isfinite(opt[2].v.f))
    return neap__graph_fail(g, op, NEAP_RANGE, "`min` is %g and `max` is %g, expected finite ones in this order",
                            opt[1].v.f, opt[2].v.f);
  const neap_id x = neap__reshape_to(g, in[0], &(neap_shape){1, {neap__shape_count(&d.shape)}});
  if (!ends(g, x, opt, &low, &high)) return NEAP_NONE;
  const neap_id inside = neap__build2(g, &neap__op_logical_and, neap__build2(g, &neap__op_ge, x, low),
                                      neap__build2(g, &neap__op_le, x, high));
  const neap_id span = neap__build2(g, &neap__op_sub, high, low);
  neap_id at = neap__build2(g, &neap__op_div, neap__build2(g, &neap__op_sub, x, low), span);
  at = neap__cast(g, neap__scale(g, at, (double)bins), NEAP_I64);
  at = neap__build3(g, &neap__op_where, inside, at, neap__const_like(g, at, 0));
  at = neap__build2(g, &neap__op_clamp_max, at, neap__const_like(g, at, (double)(bins - 1))); /* the upper end itself */
  return add_up(g, neap__cast(g, inside, d.dtype), at, bins);
}

static const char *const sorted_samples[] = {"f32[5] f32[2,3]", "f32[2,5] f32[2,3]; right=true", "i64[4] f32[6]",
                                             "f32[0] f32[3]",   "f64[6] f64[]; right=true",      NULL};
static const char *const bucket_samples[] = {"f32[2,3] f32[5]", "i64[6] i64[4]; right=true", "f32[0] f32[3]",
                                             "f64[] f64[6]", NULL};
static const char *const count_samples[] = {"i64[9]:below=4; minlength=4", "i64[9]:below=4 f32[9]; minlength=6",
                                            "i64[0]; minlength=3", "i64[5]:below=2 f64[5]; minlength=2", NULL};
static const char *const histogram_samples[] = {"f32[40]; bins=5",
                                                "f32[4,5]; bins=4; min=-1; max=1.5",
                                                "f64[7]; bins=3; min=1; max=1",
                                                "f32[0]; bins=2",
                                                "f64[9]; bins=1",
                                                NULL};

#define SEARCH(op_name, fn, cases, shapes, shown, text)                                                    \
  {                                                                                                        \
    .name = op_name, .min_in = 2, .max_in = 2, .n_out = 1, .nondiff = true, .opts = {RIGHT}, .expand = fn, \
    .topic = NEAP_TOPIC_SORT, .args = shapes, .example = shown, .samples = cases, .doc = text              \
  }

const neap_op neap__op_searchsorted =
    SEARCH("searchsorted", searchsorted, sorted_samples, "sorted_sequence [..., n], input [...] -> [...] int64",
           "print(neap.searchsorted(neap.tensor {1, 3, 5}, neap.tensor {0, 3, 9}))  --> tensor int64 [3] {0, 1, 3}",
           "How many of the ascending entries (first input, along its last dimension) are less than each value, with "
           "`right` less or equal: where to insert it, as int64.");
const neap_op neap__op_bucketize =
    SEARCH("bucketize", bucketize, bucket_samples, "input [...], boundaries [n] -> [...] int64",
           "print(neap.bucketize(neap.tensor {0, 3, 9}, neap.tensor {1, 3, 5}, {right = true}))  --> tensor int64 [3] "
           "{0, 2, 3}",
           "How many of the ascending boundaries (second input) are less than each value, with `right` less or equal.");

const neap_op neap__op_bincount = {
    .name = "bincount",
    .min_in = 1,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "minlength",
              .type = NEAP_OPT_INT,
              .required = true,
              .min = 1,
              .max = INT32_MAX,
              .doc = "Number of counts."}},
    .expand = bincount,
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "input [N] int64, weights? [N] -> [minlength]",
    .samples = count_samples,
    .doc = "How often each of 0 to `minlength` - 1 occurs, or the sum of the weights there; larger values are an "
           "error, as "
           "a result's size does not depend on values.",
    .example =
        "print(neap.bincount(neap.tensor({0, 2, 2}, {dtype = \"int64\"}), 4))  --> tensor int64 [4] {1, 0, 2, 0}",
};

const neap_op neap__op_histc = {
    .name = "histc",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .opts = {{.name = "bins",
              .type = NEAP_OPT_INT,
              .def = 100,
              .has_default = true,
              .min = 1,
              .max = INT32_MAX,
              .doc = "Number of parts."},
             {.name = "min", .type = NEAP_OPT_FLOAT, .def = 0, .has_default = true, .doc = "Lower end."},
             {.name = "max", .type = NEAP_OPT_FLOAT, .def = 0, .has_default = true, .doc = "Upper end."}},
    .expand = histc,
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "input [...] -> [bins]",
    .samples = histogram_samples,
    .doc =
        "How many values lie in each of `bins` equal parts of `min` to `max` (of the values' own range where both are "
        "0); values outside, and NaN, are not counted.",
    .example = "print(neap.histc(neap.tensor {0, 0.5, 1, 2}, {bins = 2}))  --> tensor fp32 [2] {2, 2}",
};
