/* How each value depends on the samples, and the pass in which it can be known. */
#include <string.h>

#include "graph/plan.h"

static neap_batch none(void) { return (neap_batch){NEAP_B_CONST, 0, 1}; }
static neap_batch unknown(void) { return (neap_batch){NEAP_B_MIX, -1, 1}; }

/* A dimension that carries the batch must be a multiple of it, entries of a sample side by side. */
static bool fits(const neap_program *p, const neap_desc *d, const neap_batch *b) {
  return b->dim >= 0 && b->dim < d->shape.ndim && d->shape.dim[b->dim] == p->batch * b->per;
}

static neap_status input_info(neap_program *p, neap_error *err) {
  const neap_graph *g = p->graph;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    neap_value_info *v = &p->info[g->inputs[i]];
    int32_t dim = p->input_batch ? p->input_batch[i] : -1;
    if (dim < 0 || !p->batch) continue;
    const neap_desc *d = neap__desc_of(g, g->inputs[i]);
    v->batch = (neap_batch){NEAP_B_SAMPLE, dim, 1};
    v->pass = 1;
    if (!fits(p, d, &v->batch)) {
      char text[96];
      return neap__fail(err, NEAP_SHAPE, "input %u is %s, expected %lld samples in dimension %d", i + 1,
                        neap__shape_text(&d->shape, text, sizeof text), (long long)p->batch, dim + 1);
    }
    if (dim > 0 && p->micro < p->batch)
      return neap__fail(err, NEAP_UNSUPPORTED,
                        "input %u carries its batch in dimension %d: micro-batches need it in dimension 1", i + 1,
                        dim + 1);
  }
  return NEAP_OK;
}

typedef struct inputs_summary {
  bool samples, sums, mix, unknown;
  uint32_t pass; /* in which a per-sample output can be computed */
  uint32_t sum_pass;
} inputs_summary;

static inputs_summary look(const neap_program *p, const neap_node *n) {
  inputs_summary s = {.pass = 1};
  for (uint32_t i = 0; i < n->n_in; i++) {
    const neap_value_info *v = &p->info[n->in[i]];
    uint32_t pass = v->pass;
    if (neap__shape_only(n->op, i) && v->batch.kind == NEAP_B_SUM) continue;
    if (neap__batch_carries(&v->batch)) s.samples = true;
    if (v->batch.kind == NEAP_B_MIX) s.mix = true;
    if (v->batch.kind == NEAP_B_MIX && v->batch.dim < 0) s.unknown = true;
    if (v->batch.kind == NEAP_B_SUM) {
      s.sums = true;
      if (v->pass > s.sum_pass) s.sum_pass = v->pass;
      pass = v->pass + 1;
    }
    if (pass > s.pass) s.pass = pass;
  }
  return s;
}

/* The op's own rule, asked in terms of values known beforehand (CONST) and per sample. */
static bool ask(neap_program *p, const neap_node *n, neap_batch *out) {
  neap_batch *in = neap__zone_alloc(&p->zone, (n->n_in ? n->n_in : 1u) * sizeof *in);
  if (!in) return false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = p->info[n->in[i]].batch;
    if (in[i].kind == NEAP_B_SUM) in[i] = none();
    if (in[i].kind == NEAP_B_MIX) in[i].kind = NEAP_B_SAMPLE;
  }
  return n->op->batch && n->op->batch(p->graph, n, in, out) == NEAP_OK;
}

static void sample_node(neap_program *p, const neap_node *n, const inputs_summary *s) {
  neap_batch out[NEAP_MAX_OUT];
  for (uint32_t o = 0; o < n->n_out; o++) out[o] = none();
  bool told = !s->unknown && ask(p, n, out);
  for (uint32_t o = 0; o < n->n_out; o++) {
    neap_value_info *v = &p->info[n->out[o]];
    v->pass = s->pass;
    v->batch = told ? out[o] : unknown();
    bool carries = neap__batch_carries(&v->batch);
    if (carries && !fits(p, neap__desc_of(p->graph, n->out[o]), &v->batch)) v->batch = unknown();
    if (carries && v->batch.kind == NEAP_B_SAMPLE && (s->mix || n->op->rule == NEAP_BATCH_MIX))
      v->batch.kind = NEAP_B_MIX;
  }
}

static void node_info(neap_program *p, const neap_node *n) {
  inputs_summary s = look(p, n);
  if (s.samples) {
    sample_node(p, n, &s);
    return;
  }
  for (uint32_t o = 0; o < n->n_out; o++) {
    neap_value_info *v = &p->info[n->out[o]];
    v->batch = none();
    v->pass = 0;
    if (s.sums) {
      v->batch.kind = NEAP_B_SUM;
      v->pass = s.sum_pass;
    }
  }
}

static void mark_needed(neap_program *p) {
  const neap_graph *g = p->graph;
  for (uint32_t i = 0; i < p->n_results; i++) p->info[p->results[i]].needed = true;
  for (uint32_t k = g->n_nodes; k-- > 0;) {
    const neap_node *n = g->nodes[k];
    bool any = false;
    for (uint32_t o = 0; o < n->n_out; o++) any |= p->info[n->out[o]].needed;
    for (uint32_t i = 0; any && i < n->n_in; i++) p->info[n->in[i]].needed = true;
  }
}

static bool is_needed(const neap_program *p, const neap_node *n) {
  for (uint32_t o = 0; o < n->n_out; o++)
    if (p->info[n->out[o]].needed) return true;
  return false;
}

/* Micro-batches change nothing but the order of sums, unless samples depend on each other. */
static neap_status judge(neap_program *p, neap_error *err) {
  bool mix = false;
  for (uint32_t k = 0; k < p->graph->n_nodes; k++) {
    const neap_node *n = p->graph->nodes[k];
    if (!is_needed(p, n)) continue;
    const neap_value_info *v = &p->info[n->out[0]];
    if (v->pass > p->n_passes) p->n_passes = v->pass;
    if (v->batch.kind != NEAP_B_MIX) continue;
    mix = true;
    if (v->batch.dim < 0 && p->micro < p->batch) {
      neap__fail(err, NEAP_UNSUPPORTED, "%s: cannot be computed in micro-batches: its samples depend on each other",
                 n->op->name);
      return NEAP_UNSUPPORTED;
    }
  }
  if (p->micro < p->batch && mix) p->exact = NEAP_EXACT_NO;
  return NEAP_OK;
}

neap_status neap__plan_batch(neap_program *p, neap_error *err) {
  const neap_graph *g = p->graph;
  p->info = neap__zone_alloc(&p->zone, (g->n_values + 1) * sizeof *p->info);
  if (!p->info) return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for a plan");
  for (uint32_t v = 0; v < g->n_values; v++) p->info[v].batch = none();
  neap_status s = input_info(p, err);
  if (s != NEAP_OK) return s;
  for (uint32_t k = 0; k < g->n_nodes; k++) node_info(p, g->nodes[k]);
  mark_needed(p);
  return judge(p, err);
}
