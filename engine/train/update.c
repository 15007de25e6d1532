#include "train/update.h"

#include <math.h>
#include <string.h>

struct neap_update {
  neap_context *ctx;
  neap_graph *graph;
  neap_optimizer *optimizer;
  neap_optimizer_pass *pass;
  int64_t batch, grain;
  double clip_norm, clip_value;
  int32_t *input_batch;
  uint32_t n_inputs;

  /* Graph outputs: loss, aux, gradients of present segments. */
  uint32_t n_aux, n_grads;
  neap_output_spec *places;
  uint32_t n_outputs;
  uint8_t *present; /* by segment */
  uint32_t n_segments;

  neap_program *program; /* the plan in force */
  neap_run run;
  bool running;
  double commit_seconds; /* measured; predicted before the first */
  double loss, grad_norm;
  uint64_t commits;
};

static neap_status nomem(neap_error *err) {
  return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for an update");
}

static neap_status graph_error(const neap_graph *g, neap_error *err) {
  if (err) *err = g->error;
  return g->error.status;
}

/* The captured value that is segment i's parameter, or NEAP_NONE. */
static neap_id param_value(const neap_graph *g, const neap_segment *s) {
  for (uint32_t i = 0; i < g->n_captures; i++)
    if (g->captures[i].storage == s->param) return g->capture_ids[i];
  return NEAP_NONE;
}

static neap_status check_views(const neap_graph *g, const neap_segment *s, neap_error *err) {
  uint32_t seen = 0;
  for (uint32_t i = 0; i < g->n_captures; i++) seen += g->captures[i].storage == s->param;
  return seen <= 1
             ? NEAP_OK
             : neap__fail(err, NEAP_UNSUPPORTED, "a parameter is used through views made outside the traced function");
}

/* Gradients of all segments, appended to the outputs; segments the loss does not reach stay as they are. */
static neap_status differentiate(neap_update *u, neap_error *err) {
  neap_graph *g = u->graph;
  const neap_optimizer *o = u->optimizer;
  neap_id *wrt = neap__zone_alloc(&g->zone, (o->n_segments + 1) * sizeof *wrt);
  neap_id *grads = neap__zone_alloc(&g->zone, (o->n_segments + 1) * sizeof *grads);
  uint32_t *which = neap__zone_alloc(&g->zone, (o->n_segments + 1) * sizeof *which);
  if (!wrt || !grads || !which) return nomem(err);
  uint32_t n = 0;
  for (uint32_t i = 0; i < o->n_segments; i++) {
    neap_status s = check_views(g, &o->segments[i], err);
    if (s != NEAP_OK) return s;
    wrt[n] = param_value(g, &o->segments[i]);
    which[n] = i;
    if (wrt[n] != NEAP_NONE) n++;
  }
  neap__gradient(g, g->outputs[0], NEAP_NONE, wrt, n, grads);
  for (uint32_t i = 0; i < n && g->error.status == NEAP_OK; i++) {
    if (grads[i] == NEAP_NONE) continue;
    neap__graph_output(g, grads[i]);
    u->present[which[i]] = 1;
    u->n_grads++;
  }
  if (g->error.status != NEAP_OK) return graph_error(g, err);
  if (!u->n_grads) return neap__fail(err, NEAP_INVALID, "the loss depends on none of the optimizer's parameters");
  return NEAP_OK;
}

static neap_status place_outputs(neap_update *u, neap_error *err) {
  u->n_outputs = u->graph->n_outputs;
  u->places = neap__calloc(&u->ctx->host, u->n_outputs, sizeof *u->places);
  if (!u->places) return nomem(err);
  uint32_t k = 0;
  u->places[k++].place = NEAP_PLACE_KEEP;
  for (uint32_t i = 0; i < u->n_aux; i++) u->places[k++].place = NEAP_PLACE_EXTERNAL;
  for (uint32_t i = 0; i < u->n_segments; i++)
    if (u->present[i]) u->places[k++] = (neap_output_spec){NEAP_PLACE_GRAD, u->optimizer->segments[i].offset};
  return NEAP_OK;
}

static neap_status fill(neap_update *u, const neap_update_spec *spec, neap_error *err) {
  neap_graph *g = u->graph;
  if (g->error.status != NEAP_OK) return graph_error(g, err);
  if (g->n_outputs < 1) return neap__fail(err, NEAP_INVALID, "the traced function returned no loss");
  if (spec->input_batch && spec->batch < 1) return neap__fail(err, NEAP_SHAPE, "the batch has no samples");
  u->n_aux = g->n_outputs - 1;
  u->n_inputs = g->n_inputs;
  u->n_segments = u->optimizer->n_segments;
  u->present = neap__calloc(&u->ctx->host, u->n_segments + 1, 1);
  u->input_batch = neap__calloc(&u->ctx->host, u->n_inputs + 1, sizeof *u->input_batch);
  if (!u->present || !u->input_batch) return nomem(err);
  for (uint32_t i = 0; i < u->n_inputs; i++) u->input_batch[i] = spec->input_batch ? spec->input_batch[i] : -1;
  neap_status s = differentiate(u, err);
  if (s == NEAP_OK) s = place_outputs(u, err);
  if (s == NEAP_OK) s = neap__optimizer_pass_create(u->optimizer, u->present, &u->pass, err);
  if (s == NEAP_OK) u->commit_seconds = neap__optimizer_pass_seconds(u->pass);
  return s;
}

neap_status neap__update_create(neap_context *c, const neap_update_spec *spec, neap_update **out, neap_error *err) {
  neap_update *u = neap__calloc(&c->host, 1, sizeof *u);
  if (!u) return nomem(err);
  u->ctx = c;
  u->graph = neap__graph_retain(spec->graph);
  u->optimizer = spec->optimizer;
  u->batch = spec->input_batch ? spec->batch : 0;
  u->grain = spec->grain;
  u->clip_norm = spec->clip_norm;
  u->clip_value = spec->clip_value;
  u->loss = u->grad_norm = NAN;
  neap_status s = fill(u, spec, err);
  if (s != NEAP_OK) {
    neap__update_destroy(u);
    return s;
  }
  *out = u;
  return NEAP_OK;
}

void neap__update_destroy(neap_update *u) {
  if (!u) return;
  neap_host *h = &u->ctx->host;
  neap__update_drop(u);
  neap__program_destroy(u->program);
  neap__optimizer_pass_destroy(u->pass);
  neap__free(h, u->present, u->n_segments + 1u);
  neap__free(h, u->input_batch, (u->n_inputs + 1u) * sizeof *u->input_batch);
  neap__free(h, u->places, u->n_outputs * sizeof *u->places);
  neap__graph_drop(u->graph);
  neap__free(h, u, sizeof *u);
}

static neap_status make_program(neap_update *u, const neap_update_plan *plan, neap_program **out, neap_error *err) {
  if (plan->micro < 0) return neap__fail(err, NEAP_RANGE, "a micro-batch of %lld samples", (long long)plan->micro);
  neap_program_spec spec = {.graph = u->graph,
                            .input_batch = u->input_batch,
                            .batch = u->batch,
                            .micro = plan->micro,
                            .grain = u->grain,
                            .outputs = u->places,
                            .grad_bytes = u->optimizer->flat_bytes};
  return neap__program_create(u->ctx, &spec, out, err);
}

static void memory_of(const neap_update *u, const neap_program *p, neap_update_memory *out) {
  neap_program_memory m;
  neap__program_memory(p, &m);
  memset(out, 0, sizeof *out);
  out->parameters = m.parameters + m.captures;
  out->gradients = m.gradients;
  for (uint32_t i = 0; i < u->optimizer->n_moments; i++) out->optimizer += neap__align_up(u->optimizer->flat_bytes);
  out->activations = m.activations;
  out->workspace = m.workspace;
  out->outputs = m.outputs;
  out->arena = m.arena;
  out->peak = out->parameters + out->optimizer + m.arena + m.inputs + m.outputs;
}

static void forecast(const neap_update *u, const neap_program *p, neap_update_forecast *out) {
  memory_of(u, p, &out->memory);
  out->exact = neap__program_exact(p);
  out->seconds = neap__program_seconds(p);
  out->micro = neap__program_micro(p);
  out->grain = neap__program_grain(p);
}

neap_status neap__update_predict(neap_update *u, const neap_update_plan *plan, neap_update_forecast *out,
                                 neap_error *err) {
  neap_program *p = NULL;
  neap_status s = make_program(u, plan, &p, err);
  if (s != NEAP_OK) return s;
  forecast(u, p, out);
  neap__program_destroy(p);
  return NEAP_OK;
}

neap_status neap__update_plan(neap_update *u, const neap_update_plan *plan, neap_error *err) {
  if (u->running)
    return neap__fail(err, NEAP_BUSY, "the update is unfinished: finish it or drop it before changing its plan");
  neap_program *p = NULL;
  neap_status s = make_program(u, plan, &p, err);
  if (s != NEAP_OK) return s;
  neap__program_destroy(u->program);
  u->program = p;
  return NEAP_OK;
}

void neap__update_forecast(const neap_update *u, neap_update_forecast *out) {
  memset(out, 0, sizeof *out);
  if (u->program) forecast(u, u->program, out);
}

static neap_status need_plan(const neap_update *u, neap_error *err) {
  return u->program ? NEAP_OK : neap__fail(err, NEAP_INVALID, "the update has no plan yet");
}

neap_status neap__update_reserve(neap_update *u, neap_error *err) {
  neap_status s = need_plan(u, err);
  if (s != NEAP_OK || u->running) return s;
  neap_program_memory m;
  neap__program_memory(u->program, &m);
  s = neap__arena_take(&u->ctx->train, u, (size_t)m.arena, err);
  if (s == NEAP_OK) neap__arena_return(&u->ctx->train, u);
  return s;
}

neap_status neap__update_begin(neap_update *u, const void *const *inputs, void *const *aux, neap_error *err) {
  neap_status s = need_plan(u, err);
  if (s != NEAP_OK) return s;
  if (u->running) return neap__fail(err, NEAP_BUSY, "the update is unfinished: finish it or drop it first");
  s = neap__run_begin(&u->run, u->program, &u->ctx->train, inputs, aux, err);
  u->running = s == NEAP_OK;
  return s;
}

static double read_loss(neap_update *u, neap_error *err, neap_status *s) {
  const neap_desc *d = neap__desc_of(u->graph, u->graph->outputs[0]);
  union {
    float f;
    double d;
  } v = {0};
  neap_backend *b = u->ctx->backend;
  *s = b->vt->copy(b, &v, neap__run_output(&u->run, 0), neap__dtype_size(d->dtype), NEAP_COPY_OUT, err);
  return d->dtype == NEAP_F64 ? v.d : (double)v.f;
}

/* Everything that can go wrong with the data has been looked at before the first byte changes. */
static neap_status commit(neap_update *u, neap_error *err) {
  neap_status s;
  double loss = read_loss(u, err, &s), norm = NAN, scale = 1;
  const void *grads = neap__run_gradients(&u->run);
  if (s == NEAP_OK && u->clip_norm > 0) {
    s = neap__optimizer_pass_norm(u->pass, grads, &norm, err);
    scale = neap__clip_scale(norm, u->clip_norm);
  }
  if (s == NEAP_OK) s = neap__optimizer_pass_apply(u->pass, grads, scale, u->clip_value, err);
  if (s == NEAP_OK) s = neap__run_commit(&u->run, err);
  if (s != NEAP_OK) return s;
  u->loss = loss;
  u->grad_norm = norm;
  u->ctx->updates++;
  u->commits++;
  return NEAP_OK;
}

/* A commit is one piece of work: never visible half done. */
static neap_status commit_and_time(neap_update *u, neap_error *err) {
  const double start = neap__clock();
  const neap_status s = commit(u, err);
  if (s == NEAP_OK) u->commit_seconds = neap__learn_seconds(u->commit_seconds, neap__clock() - start);
  return s;
}

neap_status neap__update_step(neap_update *u, double seconds, bool *committed, neap_error *err) {
  *committed = false;
  if (!u->running) return neap__fail(err, NEAP_INVALID, "no update was begun");
  const double end = isinf(seconds) ? INFINITY : neap__clock() + seconds;
  const bool worked = !u->run.done;
  neap_status s = neap__run_step(&u->run, seconds, err);
  /* It waits for a slice of its own when it does not fit into what is left of this one. */
  if (s == NEAP_OK && u->run.done && worked && !isinf(end) && neap__clock() + u->commit_seconds > end) return NEAP_OK;
  if (s == NEAP_OK && u->run.done) {
    s = commit_and_time(u, err);
    *committed = s == NEAP_OK;
  }
  if (s != NEAP_OK || u->run.done) neap__update_drop(u);
  return s;
}

void neap__update_drop(neap_update *u) {
  if (u->running) neap__run_end(&u->run);
  u->running = false;
}

bool neap__update_running(const neap_update *u) { return u->running; }
uint64_t neap__update_commits(const neap_update *u) { return u->commits; }
double neap__update_loss(const neap_update *u) { return u->loss; }
double neap__update_grad_norm(const neap_update *u) { return u->grad_norm; }

double neap__update_next_seconds(const neap_update *u) {
  if (!u->running) return 0;
  return u->run.done ? u->commit_seconds : neap__run_next_seconds(&u->run);
}
