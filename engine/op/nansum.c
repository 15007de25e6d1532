/* Sums and means of what is a number. */
#include "op/build.h"

/* NaN as 0. */
static neap_id numbers(neap_graph *g, neap_id x) {
  if (!neap__dtype_is_float(neap__desc_at(g, x).dtype)) return x;
  return neap__build3(g, &neap__op_where, neap__build1(g, &neap__op_isnan, x), neap__const_like(g, x, 0), x);
}

static neap_id sum(neap_graph *g, neap_id v, const neap_opt *dims, bool keep) {
  return neap__reduce(g, &neap__op_sum, v, dims->v.list, dims->n, keep);
}

static neap_id nansum(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_opt dims;
  if (!neap__dims_of(g, op, in[0], &opt[0], &dims)) return NEAP_NONE;
  return sum(g, numbers(g, in[0]), &dims, opt[1].v.i != 0);
}

static neap_id nanmean(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_opt dims;
  if (!neap__is_floating(g, op, in[0]) || !neap__dims_of(g, op, in[0], &opt[0], &dims)) return NEAP_NONE;
  neap_id total = sum(g, numbers(g, in[0]), &dims, opt[1].v.i != 0);
  neap_id is_number = neap__build1(g, &neap__op_logical_not, neap__build1(g, &neap__op_isnan, in[0]));
  neap_id count = sum(g, is_number, &dims, opt[1].v.i != 0);
  return neap__build2(g, &neap__op_div, total, neap__cast(g, count, neap__desc_at(g, total).dtype));
}

static const char *const sum_samples[] = {"f32[2,3]",
                                          "f32[2,3,4]; dim=2",
                                          "f32[2,3,4]; dim=1,3; keepdim=true",
                                          "f32[0,3]; dim=1",
                                          "f64[3,7]; dim=1",
                                          "i64[2,3]; dim=2",
                                          NULL};
static const char *const mean_samples[] = {"f32[2,3]",        "f32[2,3,4]; dim=2", "f32[2,3,4]; dim=1,3; keepdim=true",
                                           "f32[3,0]; dim=1", "f64[3,7]; dim=1",   NULL};

const neap_op neap__op_nansum = {
    .name = "nansum",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .expand = nansum,
    .samples = sum_samples,
    .doc = "Sum over the dimensions `dim` (all when left out) of what is not NaN.",
    .example = "print(neap.nansum(neap.tensor {1, 0 / 0, 3}))  --> tensor fp32 [] 4",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim]",
};

const neap_op neap__op_nanmean = {
    .name = "nanmean",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .expand = nanmean,
    .samples = mean_samples,
    .doc = "Mean over the dimensions `dim` (all when left out) of what is not NaN; of nothing NaN.",
    .example = "print(neap.nanmean(neap.tensor {1, 0 / 0, 3}))  --> tensor fp32 [] 2",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim]",
};
