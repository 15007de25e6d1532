/* Running a program: no memory is taken, and work can stop after any task and go on later. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/plan.h"

/* Told in terms of the first node that uses it. */
static neap_status closed(const neap_graph *g, neap_id capture, neap_error *err) {
  const neap_desc *d = neap__desc_of(g, capture);
  char shape[96];
  neap__shape_text(&d->shape, shape, sizeof shape);
  for (uint32_t k = 0; k < g->n_nodes; k++) {
    const neap_node *n = g->nodes[k];
    uint32_t i = 0;
    while (i < n->n_in && n->in[i] != capture) i++;
    if (i == n->n_in) continue;
    neap__fail(err, NEAP_CLOSED, "the tensor from outside that it takes (%s %s) was closed", neap__dtype_name(d->dtype),
               shape);
    if (err) snprintf(err->op, sizeof err->op, "%s", n->called);
    if (err) snprintf(err->where, sizeof err->where, "%s", n->where);
    return NEAP_CLOSED;
  }
  return neap__fail(err, NEAP_CLOSED, "a tensor from outside (%s %s) was closed", neap__dtype_name(d->dtype), shape);
}

neap_status neap__captures_open(const neap_graph *g, const neap_tensor *captures, neap_error *err) {
  for (uint32_t i = 0; i < g->n_captures; i++)
    if (!captures[i].storage || captures[i].storage->closed) return closed(g, g->capture_ids[i], err);
  return NEAP_OK;
}

static neap_status write_constant(neap_backend *b, char *to, neap_dtype dtype, double number, neap_error *err) {
  union {
    float f;
    double d;
    int64_t l;
    int32_t i;
    uint8_t u;
  } v;
  memset(&v, 0, sizeof v);
  switch (dtype) {
    case NEAP_F32: v.f = (float)number; break;
    case NEAP_F64: v.d = number; break;
    case NEAP_I64: v.l = (int64_t)number; break;
    case NEAP_I32: v.i = (int32_t)number; break;
    case NEAP_BOOL: v.u = number != 0; break;
    default: v.u = (uint8_t)number; break;
  }
  return b->vt->copy(b, to, &v, neap__dtype_size(dtype), NEAP_COPY_IN, err);
}

static neap_status write_constants(neap_run *r, neap_error *err) {
  neap_program *p = r->program;
  for (uint32_t v = 0; v < p->n_values; v++) {
    const neap_pvalue *c = &p->values[v];
    if (!c->constant) continue;
    neap_status s = write_constant(p->ctx->backend, r->base + c->offset, c->desc.dtype, c->number, err);
    if (s != NEAP_OK) return s;
  }
  return NEAP_OK;
}

neap_status neap__run_begin(neap_run *r, neap_program *p, neap_arena *a, const void *const *inputs,
                            void *const *outputs, neap_error *err) {
  neap_status s = neap__captures_open(p->graph, p->captures, err);
  if (s != NEAP_OK) return s;
  memset(r, 0, sizeof *r);
  s = neap__arena_take(a, r, p->arena_bytes, err);
  if (s != NEAP_OK) return s;
  r->program = p;
  r->arena = a;
  r->base = a->base;
  r->inputs = inputs;
  r->outputs = outputs;
  r->seed = p->ctx->seed;
  if (p->random) r->draw = a == &p->ctx->train ? p->ctx->updates : p->ctx->draws++ | 1ull << 63;
  r->done = p->n_segments == 0;
  s = write_constants(r, err);
  if (s != NEAP_OK) neap__run_end(r);
  return s;
}

void neap__run_end(neap_run *r) {
  if (r->arena) neap__arena_return(r->arena, r);
  r->arena = NULL;
  r->done = true;
}

static char *resolve(const neap_run *r, uint32_t value) {
  const neap_program *p = r->program;
  while (p->values[value].root != value) value = p->values[value].root;
  /* The root's, since a value may become an external output after others were made its aliases. */
  const neap_pvalue *root = &p->values[value];
  size_t skip = (size_t)((int64_t)r->micro * p->micro) * root->sample_bytes;
  switch (root->ref) {
    case NEAP_REF_INPUT: return (char *)(uintptr_t)r->inputs[root->index] + skip;
    case NEAP_REF_CAPTURE: return neap__tensor_data(&p->captures[root->index]);
    case NEAP_REF_OUTPUT: return (char *)r->outputs[root->index] + skip;
    default: return r->base + root->offset;
  }
}

static void fill_launch(const neap_run *r, const neap_step *s, neap_launch *l) {
  void **at = r->program->pointers;
  for (uint32_t i = 0; i < s->n_in + s->n_out; i++) at[i] = resolve(r, s->in[i]);
  l->in = at;
  l->out = at + s->n_in;
  l->workspace = s->workspace ? r->base + s->ws_offset : NULL;
  l->fault = &((neap_run *)(uintptr_t)r)->fault;
  l->draw = (neap_draw){r->seed, r->draw, (int64_t)r->micro * r->program->micro};
  l->flags = r->micro == 0 ? NEAP_LAUNCH_FIRST : 0;
}

static bool in_tail(const neap_run *r) {
  const neap_program *p = r->program;
  return p->tail && p->segments[r->segment].loop && (int64_t)r->micro == p->n_micro - 1;
}

static const neap_kernel *current(const neap_run *r) {
  const neap_step *s = &r->program->steps[r->step];
  return in_tail(r) ? s->tail : s->kernel;
}

/* On to the next step, micro-batch or segment. */
static void advance(neap_run *r) {
  const neap_program *p = r->program;
  const neap_segment_range *seg = &p->segments[r->segment];
  r->phase = r->task = 0;
  if (++r->step < seg->end) return;
  if (seg->loop && (int64_t)r->micro + 1 < p->n_micro) {
    r->micro++;
    r->step = seg->begin;
    return;
  }
  r->micro = 0;
  if (++r->segment == p->n_segments)
    r->done = true;
  else
    r->step = p->segments[r->segment].begin;
}

neap_status neap__step_error(const neap_step *s, neap_status st, neap_error *err) {
  if (err && !err->op[0]) snprintf(err->op, sizeof err->op, "%s", s->called);
  if (err && !err->where[0]) snprintf(err->where, sizeof err->where, "%s", s->where);
  return st;
}

static neap_status fault(neap_run *r, const neap_step *s, neap_error *err) {
  const neap_fault *f = &r->fault;
  if (f->code == NEAP_RANGE)
    neap__fail(err, NEAP_RANGE, "row %lld holds %lld, expected 0 to %lld", (long long)f->row + 1, (long long)f->value,
               (long long)f->limit - 1);
  else
    neap__fail(err, (neap_status)f->code, "bad data in row %lld: %lld", (long long)f->row + 1, (long long)f->value);
  return neap__step_error(s, (neap_status)f->code, err);
}

static neap_status finish_step(neap_run *r, const neap_step *s, neap_error *err) {
  if (r->fault.code) return fault(r, s, err);
  neap_status st = neap__canary_check(r, s, err);
  if (st != NEAP_OK) return neap__step_error(s, st, err);
  advance(r);
  return NEAP_OK;
}

static neap_status run_whole_step(neap_run *r, neap_error *err) {
  const neap_program *p = r->program;
  const neap_step *s = &p->steps[r->step];
  const neap_kernel *k = current(r);
  neap_backend *b = p->ctx->backend;
  neap_launch l;
  fill_launch(r, s, &l);
  neap__canary_put(r, s);
  for (; r->phase < k->n_phases; r->phase++) {
    if (r->task < k->tasks[r->phase]) {
      neap_status st = b->vt->launch(b, k, &l, r->phase, r->task, k->tasks[r->phase] - r->task, err);
      if (st != NEAP_OK) return neap__step_error(s, st, err);
    }
    r->task = 0;
  }
  return finish_step(r, s, err);
}

/* Seconds of one task of the phase: measured when it has run before, predicted otherwise. */
static double task_seconds(const neap_step *s, const neap_kernel *k, uint32_t phase) {
  if (s->seconds[phase] > 0) return s->seconds[phase];
  double tasks = 0;
  for (uint32_t i = 0; i < k->n_phases; i++) tasks += k->tasks[i];
  return tasks > 0 ? k->seconds / tasks : 0;
}

static double next_task(const neap_run *r) { return task_seconds(&r->program->steps[r->step], current(r), r->phase); }

double neap__run_next_seconds(const neap_run *r) { return r->done || !r->program ? 0 : next_task(r); }

double neap__learn_seconds(double before, double seen) {
  if (before <= 0) return seen;
  if (seen > before) return before + 0.5 * (fmin(seen, 2 * before) - before);
  return before + 0.05 * (seen - before);
}

/* Launches what of the phase fits into `left` seconds (at least a task when `must`). */
static neap_status run_some(neap_run *r, double left, bool must, bool *stopped, neap_error *err) {
  neap_program *p = r->program;
  neap_step *s = &p->steps[r->step];
  const neap_kernel *k = current(r);
  neap_backend *b = p->ctx->backend;
  uint32_t remaining = k->tasks[r->phase] - r->task, width = neap__threads_width(p->ctx->threads);
  double each = task_seconds(s, k, r->phase);
  double room = each > 0 ? fmax(0, floor(left / each)) * width : remaining;
  uint32_t n = room >= remaining ? remaining : (uint32_t)room;
  if (remaining && n == 0) {
    if (!must) return *stopped = true, NEAP_OK;
    n = 1;
  }
  if (r->phase == 0 && r->task == 0) neap__canary_put(r, s); /* a first phase may have no tasks */
  if (n) {
    neap_launch l;
    fill_launch(r, s, &l);
    double t0 = neap__clock();
    neap_status st = b->vt->launch(b, k, &l, r->phase, r->task, n, err);
    if (st != NEAP_OK) return neap__step_error(s, st, err);
    const uint32_t in_turn = (n + width - 1) / width;
    s->seconds[r->phase] = neap__learn_seconds(s->seconds[r->phase], (neap__clock() - t0) / in_turn);
    r->task += n;
  }
  if (r->task < k->tasks[r->phase]) return NEAP_OK;
  r->task = 0;
  if (++r->phase < k->n_phases) return NEAP_OK;
  return finish_step(r, s, err);
}

neap_status neap__run_step(neap_run *r, double seconds, neap_error *err) {
  neap_status s = NEAP_OK;
  if (isinf(seconds)) {
    while (!r->done && s == NEAP_OK) s = run_whole_step(r, err);
    if (s == NEAP_OK) s = r->program->ctx->backend->vt->wait(r->program->ctx->backend, err);
    return s;
  }
  double end = neap__clock() + seconds;
  bool must = true, stopped = false;
  while (!r->done && !stopped && s == NEAP_OK) {
    s = run_some(r, end - neap__clock(), must, &stopped, err);
    must = false;
  }
  return s;
}

void *neap__run_output(const neap_run *r, uint32_t output) {
  const neap_program *p = r->program;
  return r->base + p->values[p->output_values[output]].offset;
}

void *neap__run_gradients(const neap_run *r) { return r->base; }

neap_status neap__run_commit(neap_run *r, neap_error *err) {
  const neap_program *p = r->program;
  const neap_graph *g = p->graph;
  neap_backend *b = p->ctx->backend;
  if (!r->done || !r->arena) return neap__fail(err, NEAP_INTERNAL, "a run that is not finished has nothing to write");
  for (uint32_t i = 0; i < g->n_writes; i++) {
    const neap_value *target = &g->values[g->writes[i].target];
    const size_t bytes = neap__desc_bytes(&target->desc);
    void *to = neap__tensor_data(&p->captures[target->index]);
    neap_status s =
        bytes ? b->vt->copy(b, to, neap__run_output(r, g->n_outputs + i), bytes, NEAP_COPY_WITHIN, err) : NEAP_OK;
    if (s != NEAP_OK) return s;
  }
  return NEAP_OK;
}

neap_status neap__program_run(neap_program *p, const void *const *inputs, void *const *outputs, neap_error *err) {
  neap_run r;
  neap_status s = neap__run_begin(&r, p, &p->ctx->infer, inputs, outputs, err);
  if (s != NEAP_OK) return s;
  s = neap__run_step(&r, INFINITY, err);
  if (s == NEAP_OK) s = neap__run_commit(&r, err);
  neap__run_end(&r);
  return s;
}
