/* The launches of one optimizer step: one for each run of segments that lie side by side and share their
 * settings. */
#include <math.h>
#include <string.h>

#include "op/hyper.h"
#include "op/op.h"
#include "train/optimizer.h"

typedef struct part {
  neap_kernel *kernel;
  void *workspace;  /* NULL when the kernel wants none */
  size_t offset;    /* into gradients and moments */
  uint32_t segment; /* the first */
  uint32_t group;
  neap_dtype dtype;
  int64_t count;
} part;

struct neap_optimizer_pass {
  neap_optimizer *o;
  part *steps, *norms;
  uint32_t n_steps, n_norms, room;
  uint8_t *present;
  neap_storage *workspace;
};

static neap_status nomem(neap_error *err) {
  return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for an optimizer");
}

static bool is_present(const neap_optimizer_pass *p, uint32_t i) {
  return p->present[i] && p->o->segments[i].count > 0;
}

static const char *param_at(const neap_optimizer *o, uint32_t i) { return o->segments[i].param->data; }

/* Gaps between segments belong to nobody: stepping over them along with their neighbours does no harm. */
static bool continues(const neap_optimizer *o, uint32_t i) {
  const neap_segment *a = &o->segments[i], *b = &o->segments[i + 1];
  return a->group == b->group && a->dtype == b->dtype && a->param->parent && a->param->parent == b->param->parent &&
         param_at(o, i + 1) - param_at(o, i) == (ptrdiff_t)(b->offset - a->offset);
}

static void cut(neap_optimizer_pass *p) {
  const neap_optimizer *o = p->o;
  for (uint32_t i = 0; i < o->n_segments; i++) {
    if (!is_present(p, i)) continue;
    const neap_segment *s = &o->segments[i];
    const part one = {.offset = s->offset, .segment = i, .group = s->group, .dtype = s->dtype, .count = s->count};
    part *last = p->n_steps ? &p->steps[p->n_steps - 1] : NULL;
    p->norms[p->n_norms++] = one;
    if (last && i > 0 && is_present(p, i - 1) && continues(o, i - 1))
      last->count = (int64_t)((s->offset - last->offset) / neap__dtype_size(s->dtype)) + s->count;
    else
      p->steps[p->n_steps++] = one;
  }
}

static neap_status prepare(neap_optimizer_pass *p, const neap_op *op, part *q, neap_error *err) {
  neap_operand ops[10];
  memset(ops, 0, sizeof ops);
  uint32_t n_in = op->min_in, n_out = op->n_out;
  bool norm = op == &neap__op_sumsq;
  for (uint32_t i = 0; i < n_in + n_out; i++)
    ops[i].desc = (neap_desc){.dtype = q->dtype, .shape = {.ndim = 1, .dim = {q->count}}};
  if (norm)
    ops[1].desc = (neap_desc){.dtype = NEAP_F64};
  else
    ops[n_in - 1].desc = (neap_desc){.dtype = NEAP_F64, .shape = {.ndim = 1, .dim = {NEAP_HYPER}}};
  neap_opt none[NEAP_MAX_OPTS];
  memset(none, 0, sizeof none);
  neap_sig sig = {.op = op, .opt = none, .n_in = n_in, .n_out = n_out, .in = ops, .out = ops + n_in, .slab = 1};
  neap_backend *b = p->o->ctx->backend;
  return b->vt->prepare(b, &sig, &q->kernel, err);
}

static neap_status prepare_all(neap_optimizer_pass *p, neap_error *err) {
  neap_status s = NEAP_OK;
  size_t most = 0;
  for (uint32_t i = 0; s == NEAP_OK && i < p->n_steps; i++) s = prepare(p, p->o->rule->op, &p->steps[i], err);
  for (uint32_t i = 0; s == NEAP_OK && i < p->n_norms; i++) s = prepare(p, &neap__op_sumsq, &p->norms[i], err);
  if (s != NEAP_OK) return s;
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (p->steps[i].kernel->workspace > most) most = p->steps[i].kernel->workspace;
  for (uint32_t i = 0; i < p->n_norms; i++)
    if (p->norms[i].kernel->workspace > most) most = p->norms[i].kernel->workspace;
  if (!most) return NEAP_OK;
  return neap__storage_create(&p->o->ctx->host, p->o->ctx->memory, most, NEAP_OWNER_WORKSPACE, &p->workspace, err);
}

neap_status neap__optimizer_pass_create(neap_optimizer *o, const uint8_t *present, neap_optimizer_pass **out,
                                        neap_error *err) {
  neap_host *h = &o->ctx->host;
  neap_optimizer_pass *p = neap__calloc(h, 1, sizeof *p);
  if (!p) return nomem(err);
  p->o = o;
  p->room = o->n_segments + 1;
  p->steps = neap__calloc(h, p->room, sizeof *p->steps);
  p->norms = neap__calloc(h, p->room, sizeof *p->norms);
  p->present = neap__calloc(h, p->room, 1);
  neap_status s = p->steps && p->norms && p->present ? NEAP_OK : nomem(err);
  if (s == NEAP_OK) {
    for (uint32_t i = 0; i < o->n_segments; i++) p->present[i] = present ? present[i] : 1;
    cut(p);
    s = prepare_all(p, err);
  }
  if (s != NEAP_OK) {
    neap__optimizer_pass_destroy(p);
    return s;
  }
  *out = p;
  return NEAP_OK;
}

void neap__optimizer_pass_destroy(neap_optimizer_pass *p) {
  if (!p) return;
  neap_host *h = &p->o->ctx->host;
  neap_backend *b = p->o->ctx->backend;
  for (uint32_t i = 0; p->steps && i < p->n_steps; i++)
    if (p->steps[i].kernel) b->vt->kernel_free(b, p->steps[i].kernel);
  for (uint32_t i = 0; p->norms && i < p->n_norms; i++)
    if (p->norms[i].kernel) b->vt->kernel_free(b, p->norms[i].kernel);
  neap__storage_drop(p->workspace);
  neap__free(h, p->steps, p->room * sizeof *p->steps);
  neap__free(h, p->norms, p->room * sizeof *p->norms);
  neap__free(h, p->present, p->room);
  neap__free(h, p, sizeof *p);
}

double neap__optimizer_pass_seconds(const neap_optimizer_pass *p) {
  double seconds = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) seconds += p->steps[i].kernel->seconds;
  for (uint32_t i = 0; i < p->n_norms; i++) seconds += p->norms[i].kernel->seconds;
  return seconds / neap__threads_width(p->o->ctx->threads);
}

static neap_status launch(neap_optimizer_pass *p, const part *q, void **at, uint32_t n_in, neap_error *err) {
  neap_backend *b = p->o->ctx->backend;
  neap_fault fault = {0};
  neap_launch l = {.in = at, .out = at + n_in, .fault = &fault, .flags = NEAP_LAUNCH_FIRST};
  l.workspace = p->workspace ? p->workspace->data : NULL;
  for (uint32_t ph = 0; ph < q->kernel->n_phases; ph++) {
    neap_status s = b->vt->launch(b, q->kernel, &l, ph, 0, q->kernel->tasks[ph], err);
    if (s != NEAP_OK) return s;
  }
  return NEAP_OK;
}

neap_status neap__optimizer_pass_norm(neap_optimizer_pass *p, const void *grads, double *out, neap_error *err) {
  neap_optimizer *o = p->o;
  neap_backend *b = o->ctx->backend;
  char *where = (char *)o->hyper->data + o->n_groups * NEAP_HYPER * sizeof(double);
  double total = 0;
  for (uint32_t i = 0; i < p->n_norms; i++) {
    void *at[2] = {(char *)(uintptr_t)grads + p->norms[i].offset, where};
    double sum = 0;
    neap_status s = launch(p, &p->norms[i], at, 1, err);
    if (s == NEAP_OK) s = b->vt->copy(b, &sum, where, sizeof sum, NEAP_COPY_OUT, err);
    if (s != NEAP_OK) return s;
    total += sum;
  }
  *out = sqrt(total);
  return NEAP_OK;
}

/* Momentum of NAdam's step t (Dozat 2016), which rises to beta1. */
static double momentum_at(const neap_hyper *g, double t) {
  return g->beta1 * (1 - 0.5 * pow(0.96, t * g->momentum_decay));
}

static void fill_nadam(const neap_hyper *g, double t, double *h) {
  const double now = momentum_at(g, t), next = momentum_at(g, t + 1), product = g->product * now;
  h[NEAP_H_ALONG_G] = g->lr * (1 - now) / (1 - product);
  h[NEAP_H_ALONG_M] = g->lr * next / (1 - product * next);
}

/* Liu et al. 2020: 0 as long as the variance of the root is not known to be finite. */
static double rectification(const neap_hyper *g, double t, double bias2) {
  const double most = 2 / (1 - g->beta2) - 1, now = most - 2 * t * pow(g->beta2, t) / bias2;
  return now > 5 ? sqrt((now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now)) : 0;
}

static void fill_by_kind(const neap_optimizer *o, const neap_hyper *g, double t, double *h) {
  switch (o->kind) {
    case NEAP_SGD:
      h[NEAP_H_BETA1] = g->momentum;
      h[NEAP_H_FRESH] = o->step == 0 ? 1 : 1 - g->dampening; /* as torch, which begins with the gradient itself */
      h[NEAP_H_ALSO] = g->nesterov;
      break;
    case NEAP_RMSPROP:
      h[NEAP_H_BETA1] = g->momentum;
      h[NEAP_H_ALSO] = g->centered;
      break;
    case NEAP_ADAGRAD: h[NEAP_H_LR] = g->lr / (1 + (t - 1) * g->lr_decay); break;
    case NEAP_NADAM: fill_nadam(g, t, h); break;
    case NEAP_RADAM: h[NEAP_H_ALONG_M] = rectification(g, t, h[NEAP_H_BIAS2]); break;
    default: h[NEAP_H_ALSO] = g->amsgrad;
  }
}

static void fill_hyper(const neap_optimizer *o, const neap_hyper *g, double scale, double limit, double *h) {
  const double t = (double)o->step + 1;
  const bool decoupled = g->decoupled || o->kind == NEAP_LION;
  memset(h, 0, NEAP_HYPER * sizeof *h);
  h[NEAP_H_LR] = g->lr;
  h[NEAP_H_SCALE] = g->maximize ? -scale : scale;
  h[NEAP_H_LIMIT] = limit;
  h[NEAP_H_L2] = decoupled ? 0 : g->weight_decay;
  h[NEAP_H_KEEP] = decoupled ? 1 - g->lr * g->weight_decay : 1;
  h[NEAP_H_BETA1] = g->beta1;
  h[NEAP_H_BETA2] = g->beta2;
  h[NEAP_H_EPS] = g->eps;
  h[NEAP_H_BIAS1] = 1 - pow(g->beta1, t);
  h[NEAP_H_BIAS2] = 1 - pow(g->beta2, t);
  fill_by_kind(o, g, t, h);
}

static void count_step(neap_optimizer *o) {
  o->step++;
  for (uint32_t i = 0; o->kind == NEAP_NADAM && i < o->n_groups; i++)
    o->groups[i].product *= momentum_at(&o->groups[i], (double)o->step);
}

neap_status neap__optimizer_pass_apply(neap_optimizer_pass *p, const void *grads, double scale, double limit,
                                       neap_error *err) {
  neap_optimizer *o = p->o;
  neap_backend *b = o->ctx->backend;
  neap_status s = NEAP_OK;
  for (uint32_t g = 0; s == NEAP_OK && g < o->n_groups; g++) {
    double h[NEAP_HYPER];
    fill_hyper(o, &o->groups[g], scale, limit, h);
    s = b->vt->copy(b, (char *)o->hyper->data + g * sizeof h, h, sizeof h, NEAP_COPY_IN, err);
  }
  for (uint32_t i = 0; s == NEAP_OK && i < p->n_steps; i++) {
    const part *q = &p->steps[i];
    void *at[10];
    uint32_t n = 0;
    at[n++] = o->segments[q->segment].param->data;
    at[n++] = (char *)(uintptr_t)grads + q->offset;
    for (uint32_t m = 0; m < o->n_moments; m++) at[n++] = (char *)o->moments[m]->data + q->offset;
    at[n++] = (char *)o->hyper->data + q->group * NEAP_HYPER * sizeof(double);
    uint32_t n_in = n;
    at[n++] = at[0];
    for (uint32_t m = 0; m < o->n_moments; m++) at[n++] = at[2 + m];
    s = launch(p, q, at, n_in, err);
  }
  if (s == NEAP_OK) count_step(o);
  return s;
}

double neap__clip_scale(double norm, double clip_norm) {
  return norm > clip_norm || !isfinite(norm) ? clip_norm / (norm + 1e-6) : 1;
}

static neap_status ready(neap_optimizer *o, const uint8_t *present, neap_error *err) {
  bool same = o->all != NULL;
  for (uint32_t i = 0; same && i < o->n_segments; i++) same = !o->all->present[i] == !(present ? present[i] : 1);
  if (same) return NEAP_OK;
  neap__optimizer_pass_destroy(o->all);
  o->all = NULL;
  return neap__optimizer_pass_create(o, present, &o->all, err);
}

neap_status neap__optimizer_apply(neap_optimizer *o, const void *grads, const uint8_t *present, neap_clip clip,
                                  double *norm, neap_error *err) {
  double scale = 1;
  *norm = NAN;
  neap_status s = ready(o, present, err);
  if (s == NEAP_OK && clip.norm > 0) {
    s = neap__optimizer_pass_norm(o->all, grads, norm, err);
    scale = neap__clip_scale(*norm, clip.norm);
  }
  return s == NEAP_OK ? neap__optimizer_pass_apply(o->all, grads, scale, clip.value, err) : s;
}
