/* Order statistics: elements by their place in the sorted line. NaN is sorted last, so that a line holds one if its
 * last element is one. */
#include <math.h>

#include "op/index.h"

/* A line to choose from: dimension `dim` of x, or all of x in a row. */
typedef struct line {
  neap_id x, sorted, places;
  int32_t dim;
  int64_t n;
  bool whole; /* all of x: the place is no result */
} line;

static bool is_line(neap_graph *g, const neap_op *op, neap_id x, const neap_opt *dim, line *l) {
  neap_shape s = neap__desc_at(g, x).shape, row = {.ndim = 1, .dim = {neap__shape_count(&s)}};
  *l = (line){.x = x, .whole = !dim->set};
  if (dim->set && !neap__dim_at(g, op, dim->v.i, s.ndim, &l->dim)) return false;
  if (!dim->set || s.ndim == 0) l->x = neap__reshape_to(g, x, &row);
  l->n = !dim->set || s.ndim == 0 ? row.dim[0] : s.dim[l->dim];
  if (l->n == 0) neap__graph_fail(g, op, NEAP_SHAPE, "there is nothing to choose from");
  if (g->error.status != NEAP_OK) return false;
  l->places = neap__build(g, &neap__op_argsort, &l->x, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(l->dim), NEAP_INT(0)});
  l->sorted = neap__gather_at(g, l->x, l->places, l->dim);
  return l->sorted != NEAP_NONE;
}

static neap_id pick(neap_graph *g, const line *l, neap_id v, int64_t at) {
  return neap__narrow_to(g, v, l->dim, at, 1);
}

/* What was kept as a dimension of 1, in the shape of the result. */
static neap_id shaped(neap_graph *g, const line *l, neap_id of, neap_id v, bool keep) {
  neap_shape s = neap__desc_at(g, of).shape, to = s;
  neap_opt dims = neap__opt_list((int64_t[]){l->dim}, 1);
  if (v == NEAP_NONE) return v;
  if (l->whole)
    for (int32_t i = 0; i < s.ndim; i++) to.dim[i] = 1;
  if (l->whole && !keep) to.ndim = 0;
  if (!l->whole && s.ndim > 0) to = neap__reduced_shape(&s, &dims, keep);
  return neap__reshape_to(g, v, &to);
}

/* place: of the chosen element in the line, with the dimension kept. */
static void choose(neap_graph *g, const line *l, neap_id of, neap_id place, bool keep, neap_id *out) {
  if (place == NEAP_NONE) return;
  out[0] = shaped(g, l, of, neap__gather_at(g, l->x, place, l->dim), keep);
  if (!l->whole) out[1] = shaped(g, l, of, place, keep);
}

/* 1 where the line has a NaN. */
static neap_id has_nan(neap_graph *g, const line *l) {
  return neap__build1(g, &neap__op_isnan, pick(g, l, l->sorted, l->n - 1));
}

static void median(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                   neap_id *out) {
  (void)n_in;
  line l;
  if (!is_line(g, op, in[0], &opt[0], &l)) return;
  neap_id middle = pick(g, &l, l.places, (l.n - 1) / 2), last = pick(g, &l, l.places, l.n - 1);
  choose(g, &l, in[0], neap__build3(g, &neap__op_where, has_nan(g, &l), last, middle), opt[1].v.i != 0, out);
}

/* The middle of what comes before the NaNs; the first of them where there is nothing else. */
static void nanmedian(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                      neap_id *out) {
  (void)n_in;
  line l;
  if (!is_line(g, op, in[0], &opt[0], &l)) return;
  neap_id numbers = neap__build1(g, &neap__op_logical_not, neap__build1(g, &neap__op_isnan, l.x));
  neap_id count = neap__reduce(g, &neap__op_sum, numbers, (int64_t[]){l.dim}, 1, true);
  neap_id before = neap__with_number(g, &neap__op_sub, neap__with_number(g, &neap__op_clamp_min, count, 1), 1);
  neap_id middle = neap__with_number(g, &neap__op_floor_divide, before, 2);
  choose(g, &l, in[0], neap__gather_at(g, l.places, middle, l.dim), opt[1].v.i != 0, out);
}

static void kthvalue(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                     neap_id *out) {
  (void)n_in;
  line l;
  if (!is_line(g, op, in[0], &opt[1], &l)) return;
  if (opt[0].v.i > l.n)
    neap__graph_fail(g, op, NEAP_RANGE, "`k` is %lld, but there are %lld elements to choose from",
                     (long long)opt[0].v.i, (long long)l.n);
  else
    choose(g, &l, in[0], pick(g, &l, l.places, opt[0].v.i - 1), opt[2].v.i != 0, out);
}

enum { LINEAR, LOWER, HIGHER, NEAREST, MIDPOINT };

/* The point `at` of the sorted line, counted from 0, which may lie between two elements. */
static neap_id between(neap_graph *g, const line *l, double at, int64_t how) {
  double low = floor(at), part = at - low;
  if (how == LOWER || part == 0) return pick(g, l, l->sorted, (int64_t)low);
  if (how == HIGHER) return pick(g, l, l->sorted, (int64_t)low + 1);
  if (how == NEAREST) return pick(g, l, l->sorted, (int64_t)rint(at));
  neap_id ends[] = {pick(g, l, l->sorted, (int64_t)low), pick(g, l, l->sorted, (int64_t)low + 1)};
  return neap__build(g, &neap__op_lerp, ends, 2, (neap_opt[NEAP_MAX_OPTS]){NEAP_FLOAT(how == MIDPOINT ? 0.5 : part)});
}

static neap_id quantile(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  (void)n_in;
  line l;
  if (!neap__is_floating(g, op, in[0]) || !is_line(g, op, in[0], &opt[1], &l)) return NEAP_NONE;
  neap_id y = between(g, &l, opt[0].v.f * (double)(l.n - 1), opt[3].v.i);
  y = neap__build3(g, &neap__op_where, has_nan(g, &l), pick(g, &l, l.sorted, l.n - 1), y);
  return shaped(g, &l, in[0], y, opt[2].v.i != 0);
}

#define ONE_OR_ALL \
  { .name = "dim", .type = NEAP_OPT_DIM, .doc = "Dimension to go along; all elements when left out." }

static const char *const samples[] = {"f32[2,3]:distinct",
                                      "f32[2,6,3]:distinct; dim=2",
                                      "f32[2,3,4]:distinct; dim=-1; keepdim=true",
                                      "f32[0,3]; dim=2",
                                      "f64[3,7]:distinct; dim=1",
                                      "i64[3,5]:below=9; dim=2",
                                      "f32[]; dim=1",
                                      NULL};
static const char *const kth_samples[] = {"f32[2,3]:distinct; k=2",
                                          "f32[2,6,3]:distinct; k=5; dim=2",
                                          "f32[2,3,4]:distinct; k=1; dim=-1; keepdim=true",
                                          "f32[0,3]; k=3",
                                          "f64[3,7]:distinct; k=2; dim=1",
                                          "i64[3,5]:below=9; k=4",
                                          NULL};
static const char *const quantile_samples[] = {"f32[2,3]:distinct; q=0.3",
                                               "f32[2,6,3]:distinct; q=0.8; dim=2",
                                               "f32[2,3,4]:distinct; q=0; dim=-1; keepdim=true",
                                               "f32[0,3]; q=1; dim=2",
                                               "f64[3,7]:distinct; q=0.4; dim=2; interpolation=lower",
                                               "f32[7]:distinct; q=0.4; interpolation=higher",
                                               "f32[7]:distinct; q=0.4; interpolation=nearest",
                                               "f32[7]:distinct; q=0.4; interpolation=midpoint",
                                               NULL};

const neap_op neap__op_median = {
    .name = "median",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .results = 2,
    .opts = {ONE_OR_ALL, NEAP_KEEPDIM},
    .expand_all = median,
    .samples = samples,
    .doc = "The lower of the middle elements along `dim`, and its 0-based place; of all elements, without a place, "
           "when `dim` is left out. NaN wins.",
    .example = "local value, place = neap.median(neap.tensor {{4, 1, 3, 2}, {9, 7, 8, 6}}, 2)\n"
               "print(value)  --> tensor fp32 [2] {2, 7}\n"
               "print(place)  --> tensor int64 [2] {3, 1}",
    .topic = NEAP_TOPIC_SORT,
    .args = "x [...] -> value [... without dim], place [... without dim] int64",
};

const neap_op neap__op_nanmedian = {
    .name = "nanmedian",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .results = 2,
    .opts = {ONE_OR_ALL, NEAP_KEEPDIM},
    .expand_all = nanmedian,
    .samples = samples,
    .doc = "median of what is not NaN.",
    .example = "local value, place = neap.nanmedian(neap.tensor {4, 0 / 0, 3, 2}, 1)\n"
               "print(value, place)  --> tensor fp32 [] 3\ttensor int64 [] 2",
    .topic = NEAP_TOPIC_SORT,
    .args = "x [...] -> value [... without dim], place [... without dim] int64",
};

const neap_op neap__op_kthvalue = {
    .name = "kthvalue",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .results = 2,
    .opts =
        {{.name = "k", .type = NEAP_OPT_INT, .required = true, .min = 1, .max = 1e15, .doc = "Which, counted from 1."},
         {.name = "dim", .type = NEAP_OPT_DIM, .def = -1, .has_default = true, .doc = "Dimension to go along."},
         NEAP_KEEPDIM},
    .expand_all = kthvalue,
    .samples = kth_samples,
    .doc = "The `k`-th smallest element along `dim`, counted from 1, and its 0-based place; NaN is the largest.",
    .example = "local value, place = neap.kthvalue(neap.tensor {4, 1, 3, 2}, 3)\n"
               "print(value, place)  --> tensor fp32 [] 3\ttensor int64 [] 2",
    .topic = NEAP_TOPIC_SORT,
    .args = "x [...] -> value [... without dim], place [... without dim] int64",
};

const neap_op neap__op_quantile = {
    .name = "quantile",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "q",
              .type = NEAP_OPT_FLOAT,
              .required = true,
              .min = 0,
              .max = 1,
              .doc = "Which part lies below, from 0 to 1."},
             ONE_OR_ALL,
             NEAP_KEEPDIM,
             {.name = "interpolation",
              .type = NEAP_OPT_CHOICE,
              .def = 0,
              .has_default = true,
              .choices = "linear|lower|higher|nearest|midpoint",
              .doc = "What is taken between two elements."}},
    .expand = quantile,
    .samples = quantile_samples,
    .doc = "The point below which the part `q` of the elements along `dim` lies (of all elements when left out), "
           "between two elements by `interpolation`. NaN wins.",
    .example = "print(neap.quantile(neap.tensor {1, 2, 3, 5}, 0.5))  --> tensor fp32 [] 2.5",
    .topic = NEAP_TOPIC_SORT,
    .args = "x [...] -> [... without dim]",
};
