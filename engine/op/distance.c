/* Distances between vectors, and vectors of length 1. */
#include <math.h>

#include "op/norm.h"

static neap_id difference(neap_graph *g, const neap_op *op, neap_id a, neap_id b) {
  return neap__is_floating(g, op, a) && neap__is_floating(g, op, b) ? neap__build2(g, &neap__op_sub, a, b) : NEAP_NONE;
}

static neap_id norm_along(neap_graph *g, neap_id x, double p, int32_t dim, bool keep) {
  neap_opt dims = neap__opt_list((int64_t[]){dim}, 1);
  return x == NEAP_NONE ? x : neap__norm_of(g, x, p, &(neap_span){&dims, keep});
}

static neap_id dist(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_opt dims = NEAP_UNSET;
  neap_id x = difference(g, op, in[0], in[1]);
  if (x == NEAP_NONE || !neap__dims_of(g, op, x, &dims, &dims)) return NEAP_NONE;
  return neap__norm_of(g, x, opt[0].v.f, &(neap_span){&dims, false});
}

/* eps is added to the difference, as torch does, so that its norm has a slope where the two are equal. */
static neap_id pairwise_distance(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in,
                                 const neap_opt *opt) {
  (void)n_in;
  neap_id x = difference(g, op, in[0], in[1]);
  int32_t ndim = neap__desc_at(g, x).shape.ndim;
  if (x == NEAP_NONE) return x;
  if (ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "scalars are no vectors");
  if (opt[1].v.f != 0) x = neap__with_number(g, &neap__op_add, x, opt[1].v.f);
  return norm_along(g, x, opt[0].v.f, ndim - 1, opt[2].v.i != 0);
}

/* (..., P, M) and (..., R, M) -> (..., P, R) */
static neap_id cdist(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  neap_shape a = neap__desc_at(g, in[0]).shape, b = neap__desc_at(g, in[1]).shape;
  if (a.ndim < 2 || b.ndim < 2)
    return neap__graph_fail(g, op, NEAP_SHAPE, "expected vectors in rows: at least 2 dimensions each");
  if (a.dim[a.ndim - 1] != b.dim[b.ndim - 1])
    return neap__graph_fail(g, op, NEAP_SHAPE, "vectors of %lld and of %lld numbers have no distance",
                            (long long)a.dim[a.ndim - 1], (long long)b.dim[b.ndim - 1]);
  neap_id rows = neap__insert_dim(g, in[0], a.ndim - 1), columns = neap__insert_dim(g, in[1], b.ndim - 2);
  neap_id x = difference(g, op, rows, columns);
  return norm_along(g, x, opt[0].v.f, neap__desc_at(g, x).shape.ndim - 1, false);
}

static neap_id normalize(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  const int32_t ndim = neap__desc_at(g, in[0]).shape.ndim;
  int32_t dim;
  if (!neap__is_floating(g, op, in[0])) return NEAP_NONE;
  if (ndim == 0) return neap__graph_fail(g, op, NEAP_SHAPE, "a scalar is no vector");
  if (!neap__dim_at(g, op, opt[1].v.i, ndim, &dim)) return NEAP_NONE;
  neap_id length = norm_along(g, in[0], opt[0].v.f, dim, true);
  return neap__build2(g, &neap__op_div, in[0], neap__with_number(g, &neap__op_clamp_min, length, opt[2].v.f));
}

static const char *const normalize_samples[] = {
    "f32[2,3]", "f32[2,3,4]; p=1; dim=3", "f32[2,5]; dim=-1; eps=10", "f64[4,3]; p=3; dim=1", "f32[0,3]", NULL};
static const char *const dist_samples[] = {"f32[2,3] f32[2,3]",  "f32[2,3] f32[3]; p=1", "f32[5] f32[5]; p=inf",
                                           "f64[4] f64[4]; p=3", "f32[0,3] f32[3]",      NULL};
static const char *const pair_samples[] = {
    "f32[2,3] f32[2,3]",  "f32[2,3] f32[3]; p=1", "f32[2,4,5] f32[4,5]; eps=0; keepdim=true",
    "f64[4] f64[4]; p=3", "f32[0,3] f32[3]",      NULL};
static const char *const cdist_samples[] = {"f32[4,3] f32[2,3]",        "f32[2,4,3] f32[5,3]; p=1",
                                            "f32[2,3] f32[2,3]; p=inf", "f64[2,3,4] f64[2,1,4]; p=3",
                                            "f32[0,3] f32[2,3]",        NULL};

#define ORDER                                                           \
  {                                                                     \
    .name = "p", .type = NEAP_OPT_FLOAT, .def = 2, .has_default = true, \
    .doc = "Order of the norm: 0 counts, infinite takes the largest."   \
  }

const neap_op neap__op_dist = {
    .name = "dist",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {ORDER},
    .expand = dist,
    .samples = dist_samples,
    .doc = "The `p`-norm of the difference of two values.",
    .example = "print(neap.dist(neap.tensor {0, 0}, neap.tensor {3, 4}))  --> tensor fp32 [] 5",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "a [...], b [...] -> []",
};

const neap_op neap__op_pairwise_distance = {
    .name = "pairwise_distance",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts =
        {ORDER,
         {.name = "eps", .type = NEAP_OPT_FLOAT, .def = 1e-6, .has_default = true, .doc = "Added to the difference."},
         NEAP_KEEPDIM},
    .expand = pairwise_distance,
    .samples = pair_samples,
    .doc = "The `p`-norm along the last dimension of the difference of two values plus `eps`.",
    .example =
        "print(neap.pairwise_distance(neap.zeros(2), neap.tensor {3, 4}, {p = 1, eps = 0}))  --> tensor fp32 [] 7",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "a [..., M], b [..., M] -> [...]",
};

const neap_op neap__op_cdist = {
    .name = "cdist",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .opts = {{.name = "p",
              .type = NEAP_OPT_FLOAT,
              .def = 2,
              .has_default = true,
              .max = HUGE_VAL,
              .doc = "Order of the norm: 0 counts, infinite takes the largest."}},
    .expand = cdist,
    .samples = cdist_samples,
    .doc = "The `p`-norm of the difference of each row of the first input [..., P, M] and each row of the second [..., "
           "R, M]: [..., P, R].",
    .example = "print(neap.cdist(neap.tensor {{0, 0}, {3, 4}}, neap.tensor {{0, 0}, {3, 0}}))  --> tensor fp32 [2, 2] "
               "{{0, 3}, {5, 4}}",
    .topic = NEAP_TOPIC_REDUCTION,
    .args = "a [..., P, M], b [..., R, M] -> [..., P, R]",
};

const neap_op neap__op_normalize = {
    .name = "normalize",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {ORDER,
             {.name = "dim", .type = NEAP_OPT_DIM, .def = 1, .has_default = true, .doc = "Dimension of a vector."},
             {.name = "eps",
              .type = NEAP_OPT_FLOAT,
              .def = 1e-12,
              .has_default = true,
              .max = HUGE_VAL,
              .doc = "Smallest denominator."}},
    .expand = normalize,
    .samples = normalize_samples,
    .doc = "Vectors along `dim` divided by their `p`-norm, or by `eps` where that is larger.",
    .example = "print(neap.normalize(neap.tensor {{3, 4}, {0, 2}}))  --> tensor fp32 [2, 2] {{0.6, 0.8}, {0, 1}}",
    .topic = NEAP_TOPIC_NORMALIZATION,
    .args = "x [...] -> [...]",
};
