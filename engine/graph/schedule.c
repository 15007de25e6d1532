/* Which nodes run once and which once a micro-batch, in what order. */
#include <string.h>

#include "graph/plan.h"

typedef struct schedule {
  neap_program *p;
  neap_lowering low;
  uint8_t *done;     /* by node: its outputs are known for good */
  uint8_t *body;     /* by node: runs in the pass at hand */
  uint8_t *want;     /* by value, while a body is gathered */
  uint8_t *for_body; /* by value: a sum that a later pass needs for each sample */
} schedule;

static bool node_needed(const neap_program *p, const neap_node *n) {
  for (uint32_t o = 0; o < n->n_out; o++)
    if (p->info[n->out[o]].needed) return true;
  return false;
}

static bool takes_samples(const neap_program *p, const neap_node *n) {
  for (uint32_t i = 0; i < n->n_in; i++)
    if (neap__batch_carries(&p->info[n->in[i]].batch)) return true;
  return false;
}

/* A node that gives sums beside per-sample values runs again in a later pass; its sums are known after the first. */
static bool sum_known(const schedule *s, neap_id v) {
  return s->p->info[v].batch.kind == NEAP_B_SUM && s->low.map[v] != NEAP_NONE;
}

/* A sum of which only the shape is used need not be known: what takes the node may run before it (batch.c). */
static bool ready(const schedule *s, const neap_node *n) {
  const neap_graph *g = s->p->graph;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const neap_value *v = &g->values[n->in[i]];
    if (neap__shape_only(n->op, i)) continue;
    if (v->kind == NEAP_VALUE_NODE && !s->done[v->node] && !sum_known(s, n->in[i])) return false;
  }
  return true;
}

static neap_status segment(neap_program *p, bool loop, uint32_t begin, neap_error *err) {
  if (begin == p->n_steps) return NEAP_OK;
  neap_segment_range *segments =
      neap__zone_grow(&p->zone, p->segments, p->n_segments, &p->cap_segments, sizeof *segments);
  if (!segments) return neap__plan_nomem(err);
  p->segments = segments;
  p->segments[p->n_segments++] = (neap_segment_range){begin, p->n_steps, loop};
  return NEAP_OK;
}

/* Everything that needs no samples and whose inputs are known by now. */
static neap_status run_once(schedule *s, bool last) {
  neap_program *p = s->p;
  uint32_t begin = p->n_steps;
  for (uint32_t k = 0; k < p->graph->n_nodes; k++) {
    const neap_node *n = p->graph->nodes[k];
    if (s->done[k] || !node_needed(p, n) || takes_samples(p, n) || !ready(s, n)) continue;
    neap_status st = neap__lower_node(&s->low, n);
    if (st != NEAP_OK) return st;
    s->done[k] = 1;
  }
  neap_status st = last ? neap__lower_outputs(&s->low, false) : NEAP_OK;
  return st == NEAP_OK ? segment(p, false, begin, s->low.err) : st;
}

/* A sum that per-sample nodes take, and through sums of sums all it is made of. */
static void mark_for_body(schedule *s) {
  neap_program *p = s->p;
  for (uint32_t k = p->graph->n_nodes; k-- > 0;) {
    const neap_node *n = p->graph->nodes[k];
    if (!node_needed(p, n)) continue;
    bool samples = takes_samples(p, n), wanted = samples;
    for (uint32_t o = 0; o < n->n_out; o++) wanted |= s->for_body[n->out[o]] != 0;
    if (!wanted) continue;
    for (uint32_t i = 0; i < n->n_in; i++)
      if (p->info[n->in[i]].batch.kind == NEAP_B_SUM) s->for_body[n->in[i]] = 1;
  }
}

/* Is this value to be computed in pass `pass` for its own sake? In the last pass: whatever is left. */
static bool is_goal(const schedule *s, neap_id v, uint32_t pass) {
  const neap_value_info *info = &s->p->info[v];
  if (!info->needed) return false;
  if (pass == s->p->n_passes) return true;
  return info->batch.kind == NEAP_B_SUM && info->pass == pass && s->for_body[v];
}

static bool wanted_in(const schedule *s, const neap_node *n, uint32_t pass) {
  bool goal = false, want = false, sums = false;
  for (uint32_t o = 0; o < n->n_out; o++) {
    goal |= is_goal(s, n->out[o], pass);
    want |= s->want[n->out[o]] != 0;
    sums |= s->p->info[n->out[o]].batch.kind == NEAP_B_SUM;
  }
  if (want) return true;
  /* In the last pass a per-sample node is there for the sums and outputs that need it, not for itself. */
  if (pass < s->p->n_passes || sums) return goal;
  return false;
}

static void gather_body(schedule *s, uint32_t pass) {
  neap_program *p = s->p;
  const neap_graph *g = p->graph;
  memset(s->body, 0, g->n_nodes);
  memset(s->want, 0, g->n_values);
  if (pass == p->n_passes)
    for (uint32_t i = 0; i < p->n_results; i++)
      if (neap__batch_carries(&p->info[p->results[i]].batch)) s->want[p->results[i]] = 1;
  for (uint32_t k = g->n_nodes; k-- > 0;) {
    const neap_node *n = g->nodes[k];
    if (s->done[k] || !node_needed(p, n) || !takes_samples(p, n) || !wanted_in(s, n, pass)) continue;
    s->body[k] = 1;
    for (uint32_t i = 0; i < n->n_in; i++)
      if (neap__batch_carries(&p->info[n->in[i]].batch)) s->want[n->in[i]] = 1;
  }
}

static bool finished_for_good(const schedule *s, const neap_node *n) {
  if (s->p->n_micro == 1) return true;
  for (uint32_t o = 0; o < n->n_out; o++)
    if (neap__batch_carries(&s->p->info[n->out[o]].batch)) return false;
  return true;
}

static neap_status run_pass(schedule *s, uint32_t pass) {
  neap_program *p = s->p;
  gather_body(s, pass);
  if (p->n_micro > 1) neap__lower_forget_samples(&s->low);
  uint32_t begin = p->n_steps;
  for (uint32_t k = 0; k < p->graph->n_nodes; k++) {
    if (!s->body[k]) continue;
    neap_status st = neap__lower_node(&s->low, p->graph->nodes[k]);
    if (st != NEAP_OK) return st;
    if (finished_for_good(s, p->graph->nodes[k])) s->done[k] = 1;
  }
  neap_status st = pass == p->n_passes ? neap__lower_outputs(&s->low, true) : NEAP_OK;
  if (st == NEAP_OK) st = segment(p, true, begin, s->low.err);
  return st == NEAP_OK ? run_once(s, pass == p->n_passes) : st;
}

neap_status neap__plan_schedule(neap_program *p, neap_error *err) {
  const neap_graph *g = p->graph;
  schedule s = {.p = p, .low = {.p = p, .err = err}};
  s.done = neap__zone_alloc(&p->zone, g->n_nodes + 1u);
  s.body = neap__zone_alloc(&p->zone, g->n_nodes + 1u);
  s.want = neap__zone_alloc(&p->zone, g->n_values + 1u);
  s.for_body = neap__zone_alloc(&p->zone, g->n_values + 1u);
  if (!s.done || !s.body || !s.want || !s.for_body) return neap__plan_nomem(err);
  /* Samples that only pass through still take one loop. */
  if (p->batch && !p->n_passes) p->n_passes = 1;
  neap_status st = neap__lower_begin(&s.low);
  mark_for_body(&s);
  if (st == NEAP_OK) st = run_once(&s, p->n_passes == 0);
  for (uint32_t pass = 1; st == NEAP_OK && pass <= p->n_passes; pass++) st = run_pass(&s, pass);
  return st;
}
