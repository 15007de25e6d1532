/* The largest and smallest elements so far. Of equal ones the last counts, and of NaNs, which win, as in torch. */
#include "op/index.h"
#include "op/scan.h"

static neap_status infer(neap_infer *x) {
  x->out[0] = (neap_desc){NEAP_I64, x->in[0].shape};
  return neap__dim_option(&x->opt[0], x->in[0].shape.ndim, x->err);
}

static const char *const place_samples[] = {"f32[2,5]:distinct; dim=2", "f32[2,3,4]:distinct; dim=2; smallest=true",
                                            "f32[0,3]; dim=2",          "i64[3,7]:below=3; dim=2",
                                            "f64[9]:distinct; dim=1",   NULL};

const neap_op neap__op_cummax_places = {
    .name = "cummax_places",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .nondiff = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true},
             {.name = "smallest", .type = NEAP_OPT_BOOL, .def = 0, .has_default = true}},
    .infer = infer,
    .batch = neap__batch_lines,
    .samples = place_samples,
    .doc = "0-based place of the largest (or smallest) element along `dim` up to each one.",
};

static void running(neap_graph *g, neap_id x, const neap_opt *opt, bool smallest, neap_id *out) {
  neap_id places =
      neap__build(g, &neap__op_cummax_places, &x, 1, (neap_opt[NEAP_MAX_OPTS]){opt[0], NEAP_INT(smallest)});
  if (places == NEAP_NONE) return;
  int32_t dim = (int32_t)g->nodes[g->values[places].node]->opt[0].v.i;
  out[0] = neap__gather_at(g, x, places, dim);
  out[1] = places;
}

static void cummax(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                   neap_id *out) {
  (void)op, (void)n_in;
  running(g, in[0], opt, false, out);
}

static void cummin(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt,
                   neap_id *out) {
  (void)op, (void)n_in;
  running(g, in[0], opt, true, out);
}

static const char *const samples[] = {"f32[2,5]:distinct; dim=2", "f32[2,3,4]:distinct; dim=2", "f32[0,3]; dim=2",
                                      "i64[3,7]:below=3; dim=2",  "f64[9]:distinct; dim=1",     NULL};

#define RUNNING(op_name, builder, text, shown)                                                               \
  {                                                                                                          \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 2, .results = 2,                                     \
    .opts = {{.name = "dim", .type = NEAP_OPT_DIM, .required = true, .doc = "Dimension to go along."}},      \
    .expand_all = builder, .samples = samples, .doc = text, .example = shown, .topic = NEAP_TOPIC_REDUCTION, \
    .args = "x [...] -> value [...], place [...] int64"                                                      \
  }

const neap_op neap__op_cummax =
    RUNNING("cummax", cummax,
            "Largest element along `dim` up to and with each one, and its 0-based place; of equal ones the last, NaN "
            "wins.",
            "local value, place = neap.cummax(neap.tensor {2, 1, 3, 0}, 1)\n"
            "print(value)  --> tensor fp32 [4] {2, 2, 3, 3}\n"
            "print(place)  --> tensor int64 [4] {0, 0, 2, 2}");
const neap_op neap__op_cummin =
    RUNNING("cummin", cummin,
            "Smallest element along `dim` up to and with each one, and its 0-based place; of equal ones the last, NaN "
            "wins.",
            "local value, place = neap.cummin(neap.tensor {2, 1, 3, 0}, 1)\n"
            "print(value)  --> tensor fp32 [4] {2, 1, 1, 0}\n"
            "print(place)  --> tensor int64 [4] {0, 1, 1, 3}");
