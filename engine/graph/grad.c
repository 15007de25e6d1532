/* Reverse-mode differentiation over the graph: gradients are built of ops like everything else, so they are
 * planned, fused and differentiated like everything else. */
#include <stdio.h>
#include <string.h>

#include "graph/program.h"
#include "op/op.h"

typedef struct grads {
  neap_graph *g;
  neap_id *of;     /* gradient gathered so far of each value that existed at the start */
  uint8_t *wanted; /* values on a path to wrt */
  uint32_t n;
  uint32_t first, end; /* the nodes gone through */
} grads;

/* Some values, gradients of them, and values by which they are differentiated. */
typedef struct pull {
  const neap_id *out, *gout, *wrt;
  uint32_t n_out, n_wrt;
} pull;

static void pull_back(neap_graph *g, uint32_t first, const pull *p, neap_id *gradients);

static void mark_wanted(grads *s, const neap_id *wrt, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (wrt[i] < s->n) s->wanted[wrt[i]] = 1;
  for (uint32_t k = s->first; k < s->end; k++) {
    const neap_node *node = s->g->nodes[k];
    bool any = false;
    for (uint32_t i = 0; i < node->n_in; i++) any |= s->wanted[node->in[i]] != 0;
    for (uint32_t o = 0; any && o < node->n_out; o++)
      if (neap__dtype_is_float(neap__desc_of(s->g, node->out[o])->dtype)) s->wanted[node->out[o]] = 1;
  }
}

static void add_to(grads *s, neap_id value, neap_id gradient) {
  if (gradient == NEAP_NONE) return;
  neap_id *slot = &s->of[value];
  *slot = *slot == NEAP_NONE ? gradient : neap__build2(s->g, &neap__op_add, *slot, gradient);
}

static bool wants(const grads *s, const neap_node *node, uint32_t i) {
  return s->wanted[node->in[i]] && neap__dtype_is_float(neap__desc_of(s->g, node->in[i])->dtype);
}

/* In the terms the script knows: a node that a gradient brought in carries the name of the op it is the gradient of. */
static void no_gradient(neap_graph *g, const neap_node *node) {
  const bool brought = node->op->internal && strcmp(node->called, node->op->name) != 0;
  neap__graph_fail(g, node->op, NEAP_UNSUPPORTED,
                   brought ? "its gradient has no gradient of its own" : "has no gradient");
  snprintf(g->error.op, sizeof g->error.op, "%s", node->called);
}

/* Whether gradient i is wanted, and of an input that is there twice, whether it is the first. */
static bool wants_first(const grads *s, const neap_node *node, uint32_t i) {
  for (uint32_t j = 0; j < i; j++)
    if (node->in[j] == node->in[i]) return false;
  return wants(s, node, i);
}

/* Differentiates what the node is made of. */
static void back_unfused(grads *s, const neap_node *node, const neap_id *gout, neap_id *gin) {
  neap_id out[NEAP_MAX_OUT] = {NEAP_NONE, NEAP_NONE, NEAP_NONE, NEAP_NONE};
  const uint32_t first = s->g->n_nodes;
  neap_id *wrt = neap__zone_alloc(&s->g->zone, node->n_in * sizeof *wrt);
  if (!wrt) {
    neap__graph_fail(s->g, node->op, NEAP_NOMEM, "the host allocator refused memory for gradients");
    return;
  }
  for (uint32_t i = 0; i < node->n_in; i++) wrt[i] = wants_first(s, node, i) ? node->in[i] : NEAP_NONE;
  node->op->unfused(s->g, node, out);
  pull_back(s->g, first, &(pull){out, gout, wrt, node->n_out, node->n_in}, gin);
}

static void back(grads *s, const neap_node *node) {
  const neap_op *op = node->op;
  neap_id gout[NEAP_MAX_OUT];
  bool any = false;
  for (uint32_t o = 0; o < node->n_out; o++) {
    gout[o] = s->of[node->out[o]];
    any |= gout[o] != NEAP_NONE;
  }
  if (!any || op->nondiff) return;
  uint32_t need = 0;
  for (uint32_t i = 0; i < node->n_in; i++)
    if (wants(s, node, i)) need |= 1u << (i < 31 ? i : 31);
  if (!need) return;
  neap__graph_where(s->g, node->path, node->where);
  if (!op->grad && !op->unfused) {
    no_gradient(s->g, node);
    return;
  }
  neap_id *gin = neap__zone_alloc(&s->g->zone, node->n_in * sizeof *gin);
  if (!gin) {
    neap__graph_fail(s->g, op, NEAP_NOMEM, "the host allocator refused memory for gradients");
    return;
  }
  for (uint32_t i = 0; i < node->n_in; i++) gin[i] = NEAP_NONE;
  s->g->called = node->called;
  if (op->grad)
    op->grad(s->g, node, gout, gin, need);
  else
    back_unfused(s, node, gout, gin);
  s->g->called = NULL;
  for (uint32_t i = 0; i < node->n_in; i++)
    if (wants(s, node, i)) add_to(s, node->in[i], gin[i]);
}

static neap_id seed_one(neap_graph *g, neap_id loss) {
  const neap_desc *d = neap__desc_of(g, loss);
  if (!neap__dtype_is_float(d->dtype) || neap__shape_count(&d->shape) != 1) {
    char text[96];
    return neap__graph_fail(g, NULL, NEAP_SHAPE, "a loss is one floating-point number, this one is %s %s",
                            neap__dtype_name(d->dtype), neap__shape_text(&d->shape, text, sizeof text));
  }
  neap_id one = neap__graph_const(g, d->dtype, 1.0);
  if (one == NEAP_NONE || d->shape.ndim == 0) return one;
  neap_opt opt[NEAP_MAX_OPTS] = {{.set = 1, .n = (uint8_t)d->shape.ndim}};
  memcpy(opt[0].v.list, d->shape.dim, sizeof opt[0].v.list);
  return neap__build(g, &neap__op_expand, &one, 1, opt);
}

static void pull_back(neap_graph *g, uint32_t first, const pull *p, neap_id *gradients) {
  grads s = {.g = g, .n = g->n_values, .first = first, .end = g->n_nodes};
  if (g->error.status != NEAP_OK) return;
  s.of = neap__zone_alloc(&g->zone, s.n * sizeof *s.of);
  s.wanted = neap__zone_alloc(&g->zone, s.n);
  if (!s.of || !s.wanted) {
    neap__graph_fail(g, NULL, NEAP_NOMEM, "the host allocator refused memory for gradients");
    return;
  }
  for (uint32_t i = 0; i < s.n; i++) s.of[i] = NEAP_NONE;
  mark_wanted(&s, p->wrt, p->n_wrt);
  for (uint32_t o = 0; o < p->n_out; o++)
    if (p->out[o] != NEAP_NONE) add_to(&s, p->out[o], p->gout[o]);
  for (uint32_t k = s.end; k-- > first && g->error.status == NEAP_OK;) back(&s, g->nodes[k]);
  for (uint32_t i = 0; i < p->n_wrt && g->error.status == NEAP_OK; i++)
    if (p->wrt[i] != NEAP_NONE) gradients[i] = s.of[p->wrt[i]];
}

void neap__gradient_since(neap_graph *g, uint32_t first, neap_id loss, neap_id seed, const neap_id *wrt, uint32_t n,
                          neap_id *out) {
  for (uint32_t i = 0; i < n; i++) out[i] = NEAP_NONE;
  if (g->error.status != NEAP_OK) return;
  if (seed == NEAP_NONE) seed = seed_one(g, loss);
  pull_back(g, first, &(pull){&loss, &seed, wrt, 1, n}, out);
  for (uint32_t i = 0; i < n && g->error.status != NEAP_OK; i++) out[i] = NEAP_NONE;
}

void neap__gradient(neap_graph *g, neap_id loss, neap_id seed, const neap_id *wrt, uint32_t n, neap_id *out) {
  neap__gradient_since(g, 0, loss, seed, wrt, n, out);
}
