/* Making programs and telling about them. */
#include <string.h>

#include "graph/plan.h"

/* Writes stay in the arena until the run is committed. */
static bool take_results(neap_program *p, const neap_program_spec *spec) {
  const neap_graph *g = spec->graph;
  const uint32_t n = g->n_outputs + g->n_writes;
  neap_id *results = neap__zone_alloc(&p->zone, (n + 1) * sizeof *results);
  p->outputs = neap__zone_alloc(&p->zone, (n + 1) * sizeof *p->outputs);
  p->output_values = neap__zone_alloc(&p->zone, (n + 1) * sizeof *p->output_values);
  p->output_external = neap__zone_alloc(&p->zone, (n + 1) * sizeof *p->output_external);
  if (!results || !p->outputs || !p->output_values || !p->output_external) return false;
  for (uint32_t i = 0; i < n; i++) results[i] = i < g->n_outputs ? g->outputs[i] : g->writes[i - g->n_outputs].value;
  if (spec->outputs) memcpy(p->outputs, spec->outputs, g->n_outputs * sizeof *p->outputs);
  for (uint32_t i = g->n_outputs; i < n; i++) p->outputs[i].place = NEAP_PLACE_KEEP;
  for (uint32_t i = 0, external = 0; i < n; i++)
    p->output_external[i] = p->outputs[i].place == NEAP_PLACE_EXTERNAL ? external++ : NEAP_NONE;
  p->results = results;
  p->n_results = n;
  return true;
}

static neap_status take_spec(neap_program *p, const neap_program_spec *spec, neap_error *err) {
  neap_graph *g = spec->graph;
  if (g->error.status != NEAP_OK) {
    if (err) *err = g->error;
    return g->error.status;
  }
  p->batch = spec->batch;
  p->micro = spec->micro > 0 && spec->micro < spec->batch ? spec->micro : spec->batch;
  p->n_micro = p->micro ? (p->batch + p->micro - 1) / p->micro : 1;
  p->tail = p->micro ? p->batch % p->micro : 0;
  p->grain = 1;
  p->grain_asked = spec->grain;
  p->grad_bytes = spec->grad_bytes;
  p->captures = g->captures;
  p->input_batch =
      spec->input_batch ? neap__zone_copy(&p->zone, spec->input_batch, g->n_inputs * sizeof(int32_t)) : NULL;
  if (!take_results(p, spec) || (spec->input_batch && g->n_inputs && !p->input_batch)) return neap__plan_nomem(err);
  return NEAP_OK;
}

/* Exactness of the cut: whole slabs keep every sum's order. */
static void judge_cut(neap_program *p) {
  if (p->micro == p->batch || p->exact == NEAP_EXACT_NO) return;
  p->exact = p->micro % p->grain == 0 ? NEAP_EXACT_BITS : NEAP_EXACT_ROUNDING;
}

neap_status neap__program_create(neap_context *c, const neap_program_spec *spec, neap_program **out, neap_error *err) {
  neap_program *p = neap__calloc(&c->host, 1, sizeof *p);
  if (!p) return neap__plan_nomem(err);
  p->ctx = c;
  p->graph = neap__graph_retain(spec->graph);
  neap__zone_init(&p->zone, &c->host);
  neap_status s = take_spec(p, spec, err);
  if (s == NEAP_OK) s = neap__plan_batch(p, err);
  if (s == NEAP_OK) s = neap__plan_schedule(p, err);
  if (s == NEAP_OK) s = neap__plan_prepare(p, err);
  if (s == NEAP_OK) s = neap__plan_live(p, err);
  if (s != NEAP_OK) {
    neap__program_destroy(p);
    return s;
  }
  judge_cut(p);
  *out = p;
  return NEAP_OK;
}

void neap__program_destroy(neap_program *p) {
  if (!p) return;
  neap_host *h = &p->ctx->host;
  neap__plan_unprepare(p);
  neap__zone_free(&p->zone);
  neap__graph_drop(p->graph);
  neap__free(h, p, sizeof *p);
}

void neap__program_memory(const neap_program *p, neap_program_memory *out) {
  const neap_graph *g = p->graph;
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < g->n_captures; i++) {
    const neap_tensor *t = &p->captures[i];
    neap_desc d = neap__tensor_desc(t);
    size_t bytes = neap__align_up(neap__desc_bytes(&d));
    *(t->storage && t->storage->parameter ? &out->parameters : &out->captures) += bytes;
  }
  for (uint32_t i = 0; i < g->n_inputs; i++)
    out->inputs += neap__align_up(neap__desc_bytes(neap__desc_of(g, g->inputs[i])));
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (p->outputs[i].place == NEAP_PLACE_EXTERNAL)
      out->outputs += neap__align_up(neap__desc_bytes(neap__desc_of(g, g->outputs[i])));
  out->gradients = neap__align_up(p->grad_bytes);
  out->activations = p->activation_bytes;
  out->workspace = p->workspace_bytes;
  out->arena = p->arena_bytes;
}

neap_exact neap__program_exact(const neap_program *p) { return p->exact; }
int64_t neap__program_grain(const neap_program *p) { return p->grain; }
int64_t neap__program_micro(const neap_program *p) { return p->micro; }
double neap__program_seconds(const neap_program *p) { return p->seconds; }
const neap_graph *neap__program_graph(const neap_program *p) { return p->graph; }
