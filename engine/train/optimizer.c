/* The segment table: making it, and gathering parameters into one flat buffer. */
#include "train/optimizer.h"

#include <string.h>

#include "op/hyper.h"
#include "op/op.h"

/* By kind, and by what is asked of it: momentum (1), AMSGrad or centered squares (2). */
enum { PLAIN = 0, MOMENTUM = 1, ALSO = 2 };
static const neap_step rules[NEAP_OPTIMIZER_KINDS][4] = {
    [NEAP_SGD] = {[PLAIN] = {&neap__op_sgd_plain_step, {NULL}}, [MOMENTUM] = {&neap__op_sgd_step, {"momentum_buffer"}}},
    [NEAP_ADAM] = {[PLAIN] = {&neap__op_adam_step, {"exp_avg", "exp_avg_sq"}},
                   [ALSO] = {&neap__op_adam_most_step, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}}},
    [NEAP_NADAM] = {[PLAIN] = {&neap__op_nadam_step, {"exp_avg", "exp_avg_sq"}}},
    [NEAP_RADAM] = {[PLAIN] = {&neap__op_radam_step, {"exp_avg", "exp_avg_sq"}}},
    [NEAP_ADAMAX] = {[PLAIN] = {&neap__op_adamax_step, {"exp_avg", "exp_inf"}}},
    [NEAP_ADADELTA] = {[PLAIN] = {&neap__op_adadelta_step, {"square_avg", "acc_delta"}}},
    [NEAP_RMSPROP] = {[PLAIN] = {&neap__op_rmsprop_plain_step, {"square_avg"}},
                      [MOMENTUM] = {&neap__op_rmsprop_step, {"square_avg", "momentum_buffer"}},
                      [ALSO] = {&neap__op_rmsprop_centered_plain_step, {"square_avg", "grad_avg"}},
                      [MOMENTUM |
                          ALSO] = {&neap__op_rmsprop_centered_step, {"square_avg", "momentum_buffer", "grad_avg"}}},
    [NEAP_ADAGRAD] = {[PLAIN] = {&neap__op_adagrad_step, {"sum"}}},
    [NEAP_LION] = {[PLAIN] = {&neap__op_lion_step, {"exp_avg"}}},
};

const char *neap__optimizer_name(neap_optimizer_kind kind) {
  static const char *const names[NEAP_OPTIMIZER_KINDS] = {
      [NEAP_SGD] = "sgd",         [NEAP_ADAM] = "adam",       [NEAP_NADAM] = "nadam",
      [NEAP_RADAM] = "radam",     [NEAP_ADAMAX] = "adamax",   [NEAP_ADADELTA] = "adadelta",
      [NEAP_RMSPROP] = "rmsprop", [NEAP_ADAGRAD] = "adagrad", [NEAP_LION] = "lion"};
  return names[kind];
}

static unsigned asked(neap_optimizer_kind kind, const neap_hyper *h) {
  const bool momentum = (kind == NEAP_SGD || kind == NEAP_RMSPROP) && h->momentum != 0;
  const bool also = (kind == NEAP_ADAM && h->amsgrad) || (kind == NEAP_RMSPROP && h->centered);
  return (momentum ? MOMENTUM : 0) | (also ? ALSO : 0);
}

static bool has_moment(const neap_step *rule, const char *name) {
  for (int m = 0; m < 3 && rule->moments[m]; m++)
    if (strcmp(rule->moments[m], name) == 0) return true;
  return false;
}

const char *neap__optimizer_lacks(const neap_optimizer *o, const neap_hyper *h) {
  const neap_step *rule = &rules[o->kind][asked(o->kind, h)];
  for (int m = 0; m < 3 && rule->moments[m]; m++)
    if (!has_moment(o->rule, rule->moments[m])) return rule->moments[m];
  return NULL;
}

static neap_status nomem(neap_error *err) {
  return neap__fail(err, NEAP_NOMEM, "the host allocator refused memory for an optimizer");
}

static neap_status check_param(const neap_tensor *t, uint32_t i, neap_error *err) {
  if (t->dtype != NEAP_F32 && t->dtype != NEAP_F64)
    return neap__fail(err, NEAP_DTYPE, "parameter %u is %s, expected fp32 or fp64", i + 1, neap__dtype_name(t->dtype));
  if (t->storage->closed) return neap__fail(err, NEAP_CLOSED, "parameter %u was closed", i + 1);
  if (!neap__tensor_dense(t) || t->offset != 0 ||
      (size_t)neap__shape_count(&t->shape) * neap__dtype_size(t->dtype) != t->storage->bytes)
    return neap__fail(err, NEAP_INVALID, "parameter %u is a view of another tensor", i + 1);
  return NEAP_OK;
}

static neap_status fill_segments(neap_optimizer *o, const neap_tensor *params, const uint32_t *group, uint32_t n,
                                 neap_error *err) {
  for (uint32_t i = 0; i < n; i++) {
    neap_status s = check_param(&params[i], i, err);
    if (s != NEAP_OK) return s;
    if (neap__optimizer_find(o, params[i].storage) >= 0)
      return neap__fail(err, NEAP_INVALID, "parameter %u is given twice", i + 1);
    if (group[i] >= o->n_groups)
      return neap__fail(err, NEAP_RANGE, "parameter %u is in group %u of %u", i + 1, group[i] + 1, o->n_groups);
    neap_segment *seg = &o->segments[o->n_segments++];
    seg->param = neap__storage_retain(params[i].storage);
    seg->param->parameter = true;
    seg->count = neap__shape_count(&params[i].shape);
    seg->offset = o->flat_bytes;
    seg->group = group[i];
    seg->dtype = params[i].dtype;
    o->flat_bytes += neap__align_up(neap__segment_bytes(seg));
  }
  return NEAP_OK;
}

static bool alone(const neap_storage *s) { return s->resource && !s->parent && s->bytes > 0; }

/* Parameters side by side let one launch step them all. It is no more than that: where there is no room for
 * both copies at once they stay where they are. */
static neap_status gather(neap_optimizer *o, neap_error *err) {
  for (uint32_t i = 0; i < o->n_segments; i++)
    if (!alone(o->segments[i].param)) return NEAP_OK;
  if (o->n_segments < 2 || !o->flat_bytes) return NEAP_OK;
  neap_storage *flat = NULL;
  neap_context *c = o->ctx;
  neap_status s = neap__storage_create(&c->host, c->memory, o->flat_bytes, NEAP_OWNER_PARAMETERS, &flat, err);
  if (s == NEAP_OOM) {
    neap__error_clear(err);
    return NEAP_OK;
  }
  if (s == NEAP_OK) s = c->backend->vt->fill(c->backend, flat->data, 0, o->flat_bytes, err);
  for (uint32_t i = 0; s == NEAP_OK && i < o->n_segments; i++) {
    neap_segment *seg = &o->segments[i];
    s = c->backend->vt->copy(c->backend, (char *)flat->data + seg->offset, seg->param->data, neap__segment_bytes(seg),
                             NEAP_COPY_WITHIN, err);
  }
  for (uint32_t i = 0; s == NEAP_OK && i < o->n_segments; i++)
    neap__storage_rebind(o->segments[i].param, flat, (char *)flat->data + o->segments[i].offset);
  neap__storage_drop(flat);
  return s;
}

static neap_status zeroed(neap_context *c, size_t bytes, neap_storage **out, neap_error *err) {
  neap_desc d = {.dtype = NEAP_U8, .shape = {.ndim = 1, .dim = {(int64_t)bytes}}};
  neap_tensor t;
  neap_status s = neap__context_tensor(c, &d, NEAP_OWNER_OPTIMIZER, &t, err);
  if (s != NEAP_OK) return s;
  *out = t.storage;
  return bytes ? c->backend->vt->fill(c->backend, t.storage->data, 0, bytes, err) : NEAP_OK;
}

static neap_status reserve_state(neap_optimizer *o, neap_error *err) {
  neap_status s = zeroed(o->ctx, (o->n_groups * NEAP_HYPER + 1) * sizeof(double), &o->hyper, err);
  for (uint32_t m = 0; s == NEAP_OK && m < o->n_moments; m++) s = zeroed(o->ctx, o->flat_bytes, &o->moments[m], err);
  return s;
}

static void choose_rule(neap_optimizer *o, const neap_hyper *groups, uint32_t n_groups) {
  unsigned all = 0;
  for (uint32_t i = 0; i < n_groups; i++) all |= asked(o->kind, &groups[i]);
  o->rule = &rules[o->kind][all];
  while (o->n_moments < 3 && o->rule->moments[o->n_moments]) o->n_moments++;
}

/* Where sums of squares do not begin at zero. */
static neap_status begin_sums(neap_optimizer *o, neap_error *err) {
  neap_backend *b = o->ctx->backend;
  neap_status s = NEAP_OK;
  for (uint32_t i = 0; s == NEAP_OK && i < o->n_segments; i++) {
    const neap_segment *seg = &o->segments[i];
    const size_t size = neap__dtype_size(seg->dtype), all = neap__segment_bytes(seg);
    const double first = o->groups[seg->group].initial;
    const float narrow = (float)first;
    char piece[4096];
    if (o->kind != NEAP_ADAGRAD || first == 0) continue;
    for (size_t k = 0; k < sizeof piece / size; k++)
      memcpy(piece + k * size, size == sizeof narrow ? (const void *)&narrow : &first, size);
    for (size_t at = 0; s == NEAP_OK && at < all; at += sizeof piece)
      s = b->vt->copy(b, (char *)o->moments[0]->data + seg->offset + at, piece,
                      all - at < sizeof piece ? all - at : sizeof piece, NEAP_COPY_IN, err);
  }
  return s;
}

static neap_status fill(neap_optimizer *o, const neap_tensor *params, const uint32_t *group, uint32_t n,
                        const neap_hyper *groups, uint32_t n_groups, neap_error *err) {
  o->segments = neap__calloc(&o->ctx->host, n + 1, sizeof *o->segments);
  o->groups = neap__calloc(&o->ctx->host, n_groups + 1, sizeof *o->groups);
  if (!o->segments || !o->groups) return nomem(err);
  memcpy(o->groups, groups, n_groups * sizeof *groups);
  for (uint32_t i = 0; i < n_groups; i++) o->groups[i].product = 1;
  o->n_groups = n_groups;
  neap_status s = fill_segments(o, params, group, n, err);
  if (s == NEAP_OK) s = gather(o, err);
  if (s == NEAP_OK) s = reserve_state(o, err);
  return s == NEAP_OK ? begin_sums(o, err) : s;
}

neap_status neap__optimizer_create(neap_context *c, neap_optimizer_kind kind, const neap_tensor *params,
                                   const uint32_t *group, uint32_t n, const neap_hyper *groups, uint32_t n_groups,
                                   neap_optimizer **out, neap_error *err) {
  neap_optimizer *o = neap__calloc(&c->host, 1, sizeof *o);
  if (!o) return nomem(err);
  o->ctx = c;
  o->kind = kind;
  choose_rule(o, groups, n_groups);
  o->room = n;
  o->room_groups = n_groups;
  neap_status s = fill(o, params, group, n, groups, n_groups, err);
  if (s != NEAP_OK) {
    neap__optimizer_destroy(o);
    return s;
  }
  *out = o;
  return NEAP_OK;
}

void neap__optimizer_destroy(neap_optimizer *o) {
  if (!o) return;
  neap_host *h = &o->ctx->host;
  neap__optimizer_pass_destroy(o->all);
  for (uint32_t i = 0; i < o->n_segments; i++) neap__storage_drop(o->segments[i].param);
  for (uint32_t m = 0; m < 3; m++) neap__storage_drop(o->moments[m]);
  neap__storage_drop(o->hyper);
  neap__free(h, o->segments, (o->room + 1u) * sizeof *o->segments);
  neap__free(h, o->groups, (o->room_groups + 1u) * sizeof *o->groups);
  neap__free(h, o, sizeof *o);
}

int64_t neap__optimizer_find(const neap_optimizer *o, const neap_storage *s) {
  for (uint32_t i = 0; i < o->n_segments; i++)
    if (o->segments[i].param == s) return i;
  return -1;
}
