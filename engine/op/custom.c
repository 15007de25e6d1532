/* An op of the user's own with a gradient of its own, both made of other ops.
 *
 * The node passes on input 0, the value that the forward part made; the other inputs are what that was made of, and
 * receive gradients. How those are computed was traced along with the node: nodes [first, end) of the graph, which
 * nothing needs and no plan runs, compute from `slope`, a stand-in for the output's gradient, the values `grads`, one
 * for each of the inputs after the first (-1: none). A gradient is a copy of those nodes with the stand-in replaced. */
#include "op/build.h"

enum { GRADS, FIRST, END, SLOPE };

/* Ids of values made from `from` on, as their copies have them. */
typedef struct copies {
  neap_id from, count;
  neap_id *to;
  neap_id slope, gradient; /* the stand-in, and what it stands for */
} copies;

static neap_id copy_of(const copies *c, neap_id v) {
  if (v == c->slope) return c->gradient;
  return v >= c->from && v - c->from < c->count ? c->to[v - c->from] : v;
}

static neap_id mapped(const copies *c, int64_t id) { return id < 0 ? NEAP_NONE : copy_of(c, (neap_id)id); }

static bool copy_node(neap_graph *g, const neap_node *n, copies *c) {
  neap_id out[NEAP_MAX_OUT], *in = neap__zone_alloc(&g->zone, (n->n_in + 1u) * sizeof *in);
  if (!in) {
    neap__graph_fail(g, n->op, NEAP_NOMEM, "the host allocator refused memory for gradients");
    return false;
  }
  for (uint32_t i = 0; i < n->n_in; i++) in[i] = copy_of(c, n->in[i]);
  if (!neap__build_n(g, n->op, in, n->n_in, n->opt, out)) return false;
  g->nodes[g->n_nodes - 1]->salt = n->salt;
  for (uint32_t o = 0; o < n->n_out; o++) c->to[n->out[o] - c->from] = out[o];
  return true;
}

/* Such ops among the copies: their own nodes were copied too, to the same places behind them. */
static void move_inner(neap_node *n, const copies *c, int64_t by) {
  if (n->op != &neap__op_custom || !n->opt[FIRST].set) return;
  n->opt[FIRST].v.i += by;
  n->opt[END].v.i += by;
  n->opt[SLOPE].v.i = copy_of(c, (neap_id)n->opt[SLOPE].v.i);
  for (int i = 0; i < n->opt[GRADS].n; i++)
    if (n->opt[GRADS].v.list[i] >= 0) n->opt[GRADS].v.list[i] = copy_of(c, (neap_id)n->opt[GRADS].v.list[i]);
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  (void)need;
  if (!n->opt[FIRST].set) {
    neap__graph_fail(g, n->op, NEAP_UNSUPPORTED, "has no gradient: none was traced");
    return;
  }
  const uint32_t first = (uint32_t)n->opt[FIRST].v.i, end = (uint32_t)n->opt[END].v.i, base = g->n_nodes;
  copies c = {.from = (neap_id)n->opt[SLOPE].v.i + 1, .slope = (neap_id)n->opt[SLOPE].v.i, .gradient = gout[0]};
  c.count = g->n_values - c.from;
  c.to = neap__zone_alloc(&g->zone, (c.count + 1) * sizeof *c.to);
  if (!c.to) {
    neap__graph_fail(g, n->op, NEAP_NOMEM, "the host allocator refused memory for gradients");
    return;
  }
  for (neap_id v = 0; v < c.count; v++) c.to[v] = c.from + v;
  for (uint32_t k = first; k < end; k++)
    if (!copy_node(g, g->nodes[k], &c)) return;
  for (uint32_t k = base; k < g->n_nodes; k++) move_inner(g->nodes[k], &c, (int64_t)base - first);
  for (uint32_t i = 1; i < n->n_in; i++) gin[i] = mapped(&c, n->opt[GRADS].v.list[i - 1]);
}

/* Samples are where the passed value has them. One that sums over samples must be summed outside to be cut. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  (void)g;
  if (neap__batch_settled(n, in, out, &s)) return s;
  if (in[0].kind == NEAP_B_CONST) return NEAP_UNSUPPORTED;
  out[0] = in[0];
  return NEAP_OK;
}

static void cost(const neap_sig *s, double *flops, double *bytes) {
  (void)s;
  *flops = *bytes = 0;
}

static const char *const samples[] = {"f32[2,3] f32[2,3]", "f64[4] f64[2] f64[3]", "i64[3]", "f32[0,2]", NULL};

const neap_op neap__op_custom = {
    .name = "custom",
    .min_in = 1,
    .max_in = 1 + NEAP_MAX_DIMS,
    .n_out = 1,
    .internal = true,
    .alias = true,
    .shape_only = 0xfe,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "grads", .type = NEAP_OPT_INTS},
             {.name = "first", .type = NEAP_OPT_INT},
             {.name = "end", .type = NEAP_OPT_INT},
             {.name = "slope", .type = NEAP_OPT_INT}},
    .infer = neap__infer_same,
    .grad = grad,
    .batch = batch,
    .cost = cost,
    .samples = samples,
    .doc = "The first input, with gradients of the others as they were traced (neap.custom).",
};
