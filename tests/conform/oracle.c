/* Finding oracles, and what they share. */
#include <string.h>

#include "conform/oracle.h"

static cf_oracle look_in(const cf_oracle_row *rows, const char *name) {
  for (; rows->name; rows++)
    if (strcmp(rows->name, name) == 0) return rows->fn;
  return NULL;
}

cf_oracle cf_oracle_of(const neap_op *op) {
  static const cf_oracle_row *const tables[] = {
#define XX(file) cf_oracles_##file,
#include "oracle_table.inc"
#undef XX
  };
  cf_oracle fn = op->row ? cf_oracle_elementwise : NULL;
  for (size_t i = 0; i < sizeof tables / sizeof tables[0] && !fn; i++) fn = look_in(tables[i], op->name);
  return fn;
}

cf_case cf_complete(const cf_case *c) {
  cf_case full = *c;
  neap_error err;
  if (neap__opts_complete(c->op, c->opt, full.opt, &err) != NEAP_OK) fail_msg("%s: %s", cf_title(c), err.message);
  return full;
}

const neap_opt *cf_option(const cf_case *c, const char *name) {
  for (int i = 0; i < NEAP_MAX_OPTS && c->op->opts[i].type != NEAP_OPT_END; i++)
    if (strcmp(c->op->opts[i].name, name) == 0) return c->opt[i].set ? &c->opt[i] : NULL;
  return NULL;
}

int64_t cf_whole(const cf_case *c, const char *name, int axis, int64_t otherwise) {
  const neap_opt *o = cf_option(c, name);
  if (!o) return otherwise;
  return o->n == 2 ? o->v.list[axis] : o->v.i;
}

double cf_number(const cf_case *c, const char *name, double otherwise) {
  const neap_opt *o = cf_option(c, name);
  return o ? o->v.f : otherwise;
}

kt_value cf_made(const neap_shape *s) { return cf_buffer(&(neap_desc){NEAP_F64, *s}); }

void cf_locate(const neap_shape *s, int64_t i, cf_place *p) {
  for (int32_t d = s->ndim; d-- > 0;) {
    p->at[d] = i % s->dim[d];
    i /= s->dim[d];
  }
}

int64_t cf_index(const neap_shape *s, const cf_place *p) {
  int64_t i = 0;
  for (int32_t d = 0; d < s->ndim; d++) i = i * s->dim[d] + p->at[d];
  return i;
}

int64_t cf_spread(const neap_shape *s, const neap_shape *to, const cf_place *p) {
  int64_t i = 0;
  for (int32_t d = 0; d < s->ndim; d++) i = i * s->dim[d] + (s->dim[d] == 1 ? 0 : p->at[d + to->ndim - s->ndim]);
  return i;
}

int32_t cf_dim(int64_t dim, int32_t ndim) { return (int32_t)(dim < 0 ? dim + (ndim ? ndim : 1) : dim); }
