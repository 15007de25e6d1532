/* Steps over plan values: micro shapes, layouts and the copies between them, outputs. */
#include <stdio.h>
#include <string.h>

#include "graph/plan.h"
#include "op/op.h"

neap_status neap__plan_nomem(neap_error *err) {
  return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for a plan");
}

neap_desc neap__micro_desc(const neap_desc *d, const neap_batch *b, int64_t m) {
  neap_desc out = *d;
  if (neap__batch_carries(b) && b->dim >= 0) out.shape.dim[b->dim] = m * b->per;
  return out;
}

bool neap__layout_same(const neap_desc *d, neap_layout a, neap_layout b) {
  if (a == b || d->shape.ndim < 3) return true;
  int64_t spatial = 1;
  for (int32_t i = 2; i < d->shape.ndim; i++) spatial *= d->shape.dim[i];
  return spatial <= 1 || d->shape.dim[1] <= 1;
}

static uint32_t new_value(neap_program *p, const neap_desc *full, const neap_batch *b, neap_layout layout) {
  neap_pvalue *values = neap__zone_grow(&p->zone, p->values, p->n_values, &p->cap_values, sizeof *values);
  if (!values) return NEAP_NONE;
  p->values = values;
  uint32_t id = p->n_values++;
  neap_pvalue *v = &values[id];
  memset(v, 0, sizeof *v);
  v->desc = neap__micro_desc(full, b, p->micro);
  v->tail = neap__micro_desc(full, b, p->tail ? p->tail : p->micro);
  v->layout = layout;
  v->batch = *b;
  v->root = id;
  v->other = NEAP_NONE;
  v->first = NEAP_FOREVER;
  return id;
}

uint32_t neap__root(neap_program *p, uint32_t value) {
  while (p->values[value].root != value) value = p->values[value].root;
  return value;
}

static neap_step *new_step(neap_program *p, uint32_t n_in, uint32_t n_out) {
  neap_step *steps = neap__zone_grow(&p->zone, p->steps, p->n_steps, &p->cap_steps, sizeof *steps);
  if (!steps) return NULL;
  p->steps = steps;
  neap_step *s = &steps[p->n_steps];
  memset(s, 0, sizeof *s);
  s->n_in = n_in;
  s->n_out = n_out;
  s->node = NEAP_NONE;
  s->called = s->path = s->where = "";
  s->in = neap__zone_alloc(&p->zone, (n_in + n_out + 1) * sizeof *s->in);
  if (!s->in) return NULL;
  s->out = s->in + n_in;
  p->n_steps++;
  if (n_in + n_out > p->widest) p->widest = n_in + n_out;
  return s;
}

/* Bytes from one sample to the next, when the batch is the outermost dimension. */
static size_t sample_stride(const neap_program *p, const neap_desc *full, const neap_batch *b) {
  if (!neap__batch_carries(b) || b->dim != 0 || p->batch == 0) return 0;
  return neap__desc_bytes(full) / (size_t)p->batch;
}

static uint32_t leaf(neap_lowering *l, neap_id id) {
  neap_program *p = l->p;
  const neap_value *g = &p->graph->values[id];
  const neap_batch *b = &p->info[id].batch;
  uint32_t v = new_value(p, &g->desc, b, NEAP_LAYOUT_PLAIN);
  if (v == NEAP_NONE) return v;
  neap_pvalue *pv = &p->values[v];
  pv->pinned = true;
  if (g->kind == NEAP_VALUE_INPUT) pv->ref = NEAP_REF_INPUT;
  if (g->kind == NEAP_VALUE_CAPTURE) pv->ref = NEAP_REF_CAPTURE;
  pv->index = g->index;
  pv->sample_bytes = sample_stride(p, &g->desc, b);
  if (g->kind == NEAP_VALUE_CONST) {
    pv->constant = true;
    pv->number = g->number;
    pv->offset = p->const_offset;
    p->const_offset += NEAP_ALIGN;
  }
  return l->map[id] = v;
}

/* Where the value is; a node must have run before what takes its results. */
static neap_status find(neap_lowering *l, neap_id id, uint32_t *v) {
  *v = l->map[id];
  if (*v != NEAP_NONE) return NEAP_OK;
  if (l->p->graph->values[id].kind == NEAP_VALUE_NODE)
    return neap__fail(l->err, NEAP_INTERNAL, "a value is planned to be taken before it is computed");
  *v = leaf(l, id);
  return *v == NEAP_NONE ? neap__plan_nomem(l->err) : NEAP_OK;
}

/* An input of which only the shape is used may be computed later, or never: then it is a value without bytes. */
static neap_status find_input(neap_lowering *l, const neap_node *n, uint32_t i, uint32_t *v) {
  const neap_id id = n->in[i];
  if (!neap__shape_only(n->op, i) || l->map[id] != NEAP_NONE) return find(l, id, v);
  *v = new_value(l->p, neap__desc_of(l->p->graph, id), &l->p->info[id].batch, NEAP_LAYOUT_PLAIN);
  return *v == NEAP_NONE ? neap__plan_nomem(l->err) : NEAP_OK;
}

neap_status neap__lower_begin(neap_lowering *l) {
  neap_program *p = l->p;
  l->map = neap__zone_alloc(&p->zone, (p->graph->n_values + 1) * sizeof *l->map);
  if (!l->map) return neap__plan_nomem(l->err);
  for (uint32_t i = 0; i < p->graph->n_values; i++) l->map[i] = NEAP_NONE;
  return NEAP_OK;
}

void neap__lower_forget_samples(neap_lowering *l) {
  neap_program *p = l->p;
  for (uint32_t i = 0; i < p->graph->n_values; i++) {
    if (!neap__batch_carries(&p->info[i].batch)) continue;
    if (p->graph->values[i].kind == NEAP_VALUE_NODE)
      l->map[i] = NEAP_NONE;
    else if (l->map[i] != NEAP_NONE)
      p->values[l->map[i]].other = NEAP_NONE;
  }
}

/* The value's bytes in the layout asked for; a copy is made once and kept for the next who asks. */
static uint32_t in_layout(neap_lowering *l, uint32_t v, neap_layout layout) {
  neap_program *p = l->p;
  if (neap__layout_same(&p->values[v].desc, p->values[v].layout, layout)) return v;
  if (p->values[v].other != NEAP_NONE) return p->values[v].other;
  neap_desc full = p->values[v].desc;
  neap_batch batch = p->values[v].batch;
  uint32_t copy = new_value(p, &full, &batch, layout);
  neap_step *s = copy == NEAP_NONE ? NULL : new_step(p, 1, 1);
  if (!s) return NEAP_NONE;
  s->op = &neap__op_copy;
  s->called = s->op->name;
  s->opt = p->no_options;
  s->in[0] = v;
  s->out[0] = copy;
  p->values[v].other = copy;
  p->values[copy].other = v;
  return copy;
}

static neap_status lower_alias(neap_lowering *l, const neap_node *n) {
  neap_program *p = l->p;
  uint32_t in;
  neap_status st = find(l, n->in[0], &in);
  if (st != NEAP_OK) return st;
  in = in_layout(l, in, NEAP_LAYOUT_PLAIN);
  uint32_t out = new_value(p, neap__desc_of(p->graph, n->out[0]), &p->info[n->out[0]].batch, NEAP_LAYOUT_PLAIN);
  if (in == NEAP_NONE || out == NEAP_NONE) return neap__plan_nomem(l->err);
  neap_pvalue *a = &p->values[in], *b = &p->values[out];
  b->root = in;
  b->ref = a->ref;
  b->index = a->index;
  b->sample_bytes = a->sample_bytes;
  l->map[n->out[0]] = out;
  return NEAP_OK;
}

static void fill_operands(const neap_program *p, const neap_step *s, bool tail, neap_operand *to) {
  for (uint32_t i = 0; i < s->n_in + s->n_out; i++) {
    const neap_pvalue *v = &p->values[s->in[i]]; /* out follows in */
    to[i] = (neap_operand){tail ? v->tail : v->desc, v->layout, v->batch};
  }
}

void neap__step_sig(const neap_program *p, const neap_step *s, bool tail, neap_sig *out) {
  neap_operand *to = p->scratch + (tail ? p->widest : 0);
  fill_operands(p, s, tail, to);
  *out = (neap_sig){.op = s->op,
                    .opt = s->opt,
                    .n_in = s->n_in,
                    .n_out = s->n_out,
                    .in = to,
                    .out = to + s->n_in,
                    .slab = s->slab,
                    .salt = s->salt};
}

/* Slabs are cut by the shape of the whole batch, so that they are the same for every micro-batch. */
static neap_status choose_slab(neap_lowering *l, neap_step *s, const neap_node *n) {
  neap_program *p = l->p;
  s->slab = 1;
  for (uint32_t o = 0; o < n->n_out; o++) s->sums |= p->info[n->out[o]].batch.kind == NEAP_B_SUM;
  bool samples = false;
  for (uint32_t i = 0; i < n->n_in; i++)
    samples |= p->info[n->in[i]].pass > 0 && p->info[n->in[i]].batch.kind != NEAP_B_SUM;
  s->sums = s->sums && samples;
  if (!s->sums) return NEAP_OK;
  s->slab = 8;
  if (p->grain_asked) {
    s->slab = p->grain_asked;
  } else if (n->op->slab) {
    neap_operand *full = neap__zone_alloc(&p->zone, (s->n_in + s->n_out) * sizeof *full);
    if (!full) return neap__plan_nomem(l->err);
    for (uint32_t i = 0; i < s->n_in + s->n_out; i++) {
      neap_id id = i < s->n_in ? n->in[i] : n->out[i - s->n_in];
      full[i] = (neap_operand){*neap__desc_of(p->graph, id), p->values[s->in[i]].layout, p->info[id].batch};
    }
    neap_sig sig = {
        .op = s->op, .opt = s->opt, .n_in = s->n_in, .n_out = s->n_out, .in = full, .out = full + s->n_in, .slab = 1};
    s->slab = n->op->slab(&sig);
  }
  if (s->slab < 1) s->slab = 1;
  if (s->slab > p->grain) p->grain = s->slab;
  return NEAP_OK;
}

/* What layouts the backend wants and writes, for values as they are now. */
static neap_status ask_layouts(neap_lowering *l, const neap_node *n, uint32_t *in, neap_layout *want_in,
                               neap_layout *will_out) {
  neap_program *p = l->p;
  uint32_t total = n->n_in + n->n_out;
  neap_operand *ops = neap__zone_alloc(&p->zone, total * sizeof *ops);
  if (!ops) return neap__plan_nomem(l->err);
  for (uint32_t i = 0; i < n->n_in; i++) {
    const neap_pvalue *v = &p->values[in[i]];
    ops[i] = (neap_operand){v->desc, v->layout, v->batch};
    want_in[i] = NEAP_LAYOUT_PLAIN;
  }
  for (uint32_t o = 0; o < n->n_out; o++) {
    const neap_batch *b = &p->info[n->out[o]].batch;
    ops[n->n_in + o] =
        (neap_operand){neap__micro_desc(neap__desc_of(p->graph, n->out[o]), b, p->micro), NEAP_LAYOUT_PLAIN, *b};
    will_out[o] = NEAP_LAYOUT_PLAIN;
  }
  neap_sig sig = {
      .op = n->op, .opt = n->opt, .n_in = n->n_in, .n_out = n->n_out, .in = ops, .out = ops + n->n_in, .slab = 1};
  const neap_backend_vtable *vt = p->ctx->backend->vt;
  if (vt->layouts) vt->layouts(p->ctx->backend, &sig, want_in, will_out);
  return NEAP_OK;
}

static neap_status add_step(neap_lowering *l, const neap_node *n, const uint32_t *in, const neap_layout *will_out) {
  neap_program *p = l->p;
  neap_step *s = new_step(p, n->n_in, n->n_out);
  if (!s) return neap__plan_nomem(l->err);
  s->op = n->op;
  s->opt = n->opt;
  s->node = n->index;
  s->called = n->called;
  s->path = n->path;
  s->where = n->where;
  s->salt = n->salt;
  p->random |= n->op->random;
  memcpy(s->in, in, n->n_in * sizeof *in);
  for (uint32_t o = 0; o < n->n_out; o++) {
    uint32_t v = new_value(p, neap__desc_of(p->graph, n->out[o]), &p->info[n->out[o]].batch, will_out[o]);
    if (v == NEAP_NONE) return neap__plan_nomem(l->err);
    s->out[o] = l->map[n->out[o]] = v;
  }
  return choose_slab(l, s, n);
}

neap_status neap__lower_node(neap_lowering *l, const neap_node *n) {
  if (n->op->alias) return lower_alias(l, n);
  neap_program *p = l->p;
  uint32_t *in = neap__zone_alloc(&p->zone, (n->n_in + 1u) * sizeof *in);
  neap_layout *want = neap__zone_alloc(&p->zone, (n->n_in + 1u) * sizeof *want);
  neap_layout will[NEAP_MAX_OUT];
  if (!in || !want) return neap__plan_nomem(l->err);
  for (uint32_t i = 0; i < n->n_in; i++) {
    neap_status st = find_input(l, n, i, &in[i]);
    if (st != NEAP_OK) return st;
  }
  neap_status st = ask_layouts(l, n, in, want, will);
  for (uint32_t i = 0; st == NEAP_OK && i < n->n_in; i++) {
    in[i] = in_layout(l, in[i], want[i]);
    if (in[i] == NEAP_NONE) st = neap__plan_nomem(l->err);
  }
  return st == NEAP_OK ? add_step(l, n, in, will) : st;
}

static void pin(neap_program *p, uint32_t v, uint32_t output) {
  neap_pvalue *pv = &p->values[v];
  pv->pinned = true;
  p->output_values[output] = v;
  const neap_desc *full = neap__desc_of(p->graph, p->results[output]);
  switch (p->outputs[output].place) {
    case NEAP_PLACE_EXTERNAL:
      pv->ref = NEAP_REF_OUTPUT;
      pv->index = p->output_external[output];
      pv->sample_bytes = sample_stride(p, full, &pv->batch);
      break;
    case NEAP_PLACE_GRAD:
      pv->grad = true;
      pv->offset = p->outputs[output].grad_offset;
      break;
    case NEAP_PLACE_KEEP: break;
  }
}

/* Can the value be written where the output belongs in the first place? */
static bool may_pin(neap_program *p, uint32_t v) {
  const neap_pvalue *pv = &p->values[v];
  return pv->root == v && pv->ref == NEAP_REF_ARENA && !pv->pinned && !pv->constant &&
         neap__layout_same(&pv->desc, pv->layout, NEAP_LAYOUT_PLAIN);
}

static neap_status not_in_pieces(neap_lowering *l, uint32_t output, const neap_batch *b) {
  const neap_graph *g = l->p->graph;
  if (output < g->n_outputs)
    return neap__fail(l->err, NEAP_UNSUPPORTED,
                      "output %u carries its batch in dimension %d: micro-batches need it in dimension 1", output + 1,
                      b->dim + 1);
  neap__fail(l->err, NEAP_UNSUPPORTED, "a tensor is written with a value for each sample, which micro-batches are not");
  if (l->err) snprintf(l->err->where, sizeof l->err->where, "%s", g->writes[output - g->n_outputs].where);
  return NEAP_UNSUPPORTED;
}

static neap_status lower_output(neap_lowering *l, uint32_t output) {
  neap_program *p = l->p;
  neap_id id = p->results[output];
  const neap_batch *b = &p->info[id].batch;
  if (neap__batch_carries(b) && p->n_micro > 1 && (b->dim != 0 || p->outputs[output].place != NEAP_PLACE_EXTERNAL))
    return not_in_pieces(l, output, b);
  uint32_t v;
  neap_status st = find(l, id, &v);
  if (st != NEAP_OK) return st;
  if (may_pin(p, v)) {
    pin(p, v, output);
    return NEAP_OK;
  }
  neap_desc desc = *neap__desc_of(p->graph, id);
  uint32_t copy = new_value(p, &desc, b, NEAP_LAYOUT_PLAIN);
  neap_step *s = copy == NEAP_NONE ? NULL : new_step(p, 1, 1);
  if (!s) return neap__plan_nomem(l->err);
  s->op = &neap__op_copy;
  s->called = s->op->name;
  s->opt = p->no_options;
  s->in[0] = v;
  s->out[0] = copy;
  pin(p, copy, output);
  return NEAP_OK;
}

neap_status neap__lower_outputs(neap_lowering *l, bool samples) {
  neap_program *p = l->p;
  for (uint32_t i = 0; i < p->n_results; i++) {
    if (neap__batch_carries(&p->info[p->results[i]].batch) != samples) continue;
    neap_status st = lower_output(l, i);
    if (st != NEAP_OK) return st;
  }
  return NEAP_OK;
}
