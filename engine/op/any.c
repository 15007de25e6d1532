/* What is 0 and what is not, over dimensions. */
#include "op/build.h"

static neap_id nonzero(neap_graph *g, neap_id x) {
  return neap__desc_at(g, x).dtype == NEAP_BOOL ? x : neap__with_number(g, &neap__op_ne, x, 0);
}

/* Of nothing, what changes nothing. */
static neap_id over(neap_graph *g, const neap_op *op, neap_id x, const neap_opt *opt, const neap_op *choose) {
  neap_opt dims;
  if (!neap__dims_of(g, op, x, &opt[0], &dims)) return NEAP_NONE;
  bool keep = opt[1].v.i != 0;
  neap_id some = nonzero(g, x);
  neap_shape from = neap__desc_at(g, x).shape, shape = neap__reduced_shape(&from, &dims, keep);
  if (neap__count_along(&from, &dims) == 0) return neap__filled(g, some, &shape, choose == &neap__op_amin);
  return neap__reduce(g, choose, some, dims.v.list, dims.n, keep);
}

static neap_id any(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return over(g, op, in[0], opt, &neap__op_amax);
}

static neap_id all(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  return over(g, op, in[0], opt, &neap__op_amin);
}

static neap_id count_nonzero(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_opt dims;
  if (!neap__dims_of(g, op, in[0], &opt[0], &dims)) return NEAP_NONE;
  return neap__reduce(g, &neap__op_sum, nonzero(g, in[0]), dims.v.list, dims.n, false);
}

static const char *const samples[] = {"bool[2,3]",
                                      "f32[2,3,4]; dim=2",
                                      "i64[2,3,4]:below=2; dim=1,3; keepdim=true",
                                      "f32[3,0]; dim=2",
                                      "bool[4,3]; dim=1",
                                      "u8[7]:below=2",
                                      "f64[3,2]; dim=-1",
                                      NULL};
static const char *const count_samples[] = {"bool[2,3]",
                                            "f32[2,3,4]; dim=2",
                                            "i64[2,3,4]:below=2; dim=1,3",
                                            "f32[3,0]; dim=2",
                                            "u8[7]:below=2",
                                            "f64[3,2]; dim=-1",
                                            NULL};

const neap_op neap__op_any = {
    .name = "any",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .expand = any,
    .samples = samples,
    .doc = "1 where something along the dimensions `dim` (all when left out) is not 0, NaN included; of nothing 0.",
    .example = "print(neap.any(neap.tensor {{0, 1}, {0, 0}}, 2))  --> tensor bool [2] {true, false}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim] bool",
};

const neap_op neap__op_all = {
    .name = "all",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .opts = {NEAP_DIMS, NEAP_KEEPDIM},
    .expand = all,
    .samples = samples,
    .doc = "1 where nothing along the dimensions `dim` (all when left out) is 0; of nothing 1.",
    .example = "print(neap.all(neap.tensor {{1, 1}, {0, 1}}, 2))  --> tensor bool [2] {true, false}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim] bool",
};

const neap_op neap__op_count_nonzero = {
    .name = "count_nonzero",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .opts = {NEAP_DIMS},
    .expand = count_nonzero,
    .samples = count_samples,
    .doc = "How many elements over the dimensions `dim` (all when left out) are not 0, NaN included, in int64.",
    .example = "print(neap.count_nonzero(neap.tensor {{0, 1}, {2, 3}}, 2))  --> tensor int64 [2] {1, 2}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "x [...] -> [... without dim] int64",
};
