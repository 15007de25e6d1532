/* Kernels, workspaces, cost. */
#include <string.h>

#include "graph/plan.h"

static void cost(const neap_sig *sig, double *flops, double *bytes) {
  if (sig->op->cost) {
    sig->op->cost(sig, flops, bytes);
    return;
  }
  *flops = *bytes = 0;
  for (uint32_t i = 0; i < sig->n_in + sig->n_out; i++) *bytes += (double)neap__desc_bytes(&sig->in[i].desc);
  for (uint32_t o = 0; o < sig->n_out; o++) *flops += (double)neap__shape_count(&sig->out[o].desc.shape);
}

#define MAX_OPERANDS 64 /* of nodes with more, none is known that does more than to move them */

double neap__node_flops(const neap_graph *g, const neap_node *n) {
  neap_operand all[MAX_OPERANDS];
  double flops, bytes;
  const uint32_t total = (uint32_t)n->n_in + n->n_out;
  if (total > MAX_OPERANDS) return (double)neap__shape_count(&neap__desc_of(g, n->out[0])->shape);
  memset(all, 0, sizeof all);
  for (uint32_t i = 0; i < total; i++) all[i].desc = *neap__desc_of(g, i < n->n_in ? n->in[i] : n->out[i - n->n_in]);
  const neap_sig sig = {
      .op = n->op, .opt = n->opt, .n_in = n->n_in, .n_out = n->n_out, .in = all, .out = all + n->n_in, .slab = 1};
  cost(&sig, &flops, &bytes);
  return flops;
}

static neap_status prepare_step(neap_program *p, neap_step *s, neap_error *err) {
  neap_backend *b = p->ctx->backend;
  neap_sig sig;
  neap__step_sig(p, s, false, &sig);
  cost(&sig, &s->flops, &s->bytes);
  neap_status st = b->vt->prepare(b, &sig, &s->kernel, err);
  if (st != NEAP_OK) return neap__step_error(s, st, err);
  s->workspace = s->kernel->workspace;
  s->seconds = neap__zone_alloc(&p->zone, (s->kernel->n_phases + 1) * sizeof *s->seconds);
  if (!s->seconds) return neap__plan_nomem(err);
  if (!p->tail) return NEAP_OK;
  neap__step_sig(p, s, true, &sig);
  st = b->vt->prepare(b, &sig, &s->tail, err);
  if (st != NEAP_OK) return neap__step_error(s, st, err);
  if (s->tail->workspace > s->workspace) s->workspace = s->tail->workspace;
  return NEAP_OK;
}

static double segment_seconds(const neap_program *p, const neap_segment_range *seg) {
  double once = 0;
  uint32_t width = neap__threads_width(p->ctx->threads);
  for (uint32_t k = seg->begin; k < seg->end; k++) {
    const neap_kernel *kernel = p->steps[k].kernel;
    uint32_t most = 1;
    for (uint32_t i = 0; i < kernel->n_phases; i++)
      if (kernel->tasks[i] > most) most = kernel->tasks[i];
    once += kernel->seconds / (most < width ? most : width);
  }
  if (!seg->loop || !p->micro) return once;
  return once * (double)p->batch / (double)p->micro;
}

neap_status neap__plan_prepare(neap_program *p, neap_error *err) {
  p->scratch = neap__zone_alloc(&p->zone, 2u * (p->widest + 1) * sizeof *p->scratch);
  p->pointers = neap__zone_alloc(&p->zone, (p->widest + 1) * sizeof *p->pointers);
  if (!p->scratch || !p->pointers) return neap__plan_nomem(err);
  for (uint32_t k = 0; k < p->n_steps; k++) {
    neap_status st = prepare_step(p, &p->steps[k], err);
    if (st != NEAP_OK) return st;
  }
  for (uint32_t g = 0; g < p->n_segments; g++) p->seconds += segment_seconds(p, &p->segments[g]);
  return NEAP_OK;
}

void neap__plan_unprepare(neap_program *p) {
  neap_backend *b = p->ctx->backend;
  for (uint32_t k = 0; k < p->n_steps; k++) {
    if (p->steps[k].kernel) b->vt->kernel_free(b, p->steps[k].kernel);
    if (p->steps[k].tail) b->vt->kernel_free(b, p->steps[k].tail);
  }
}
