/* Options of an op: defaults, ranges. */
#include <math.h>
#include <string.h>

#include "ir/record.h"

static void take_default(const neap_opt_spec *s, neap_opt *o) {
  if (!s->has_default) return;
  o->set = 1;
  if (s->type == NEAP_OPT_FLOAT) {
    o->v.f = s->def;
  } else if (s->type == NEAP_OPT_PAIR) {
    o->n = 2;
    o->v.list[0] = o->v.list[1] = (int64_t)s->def;
  } else {
    o->v.i = (int64_t)s->def;
  }
}

static neap_status check_number(const neap_op *op, const neap_opt_spec *s, double v, neap_error *err) {
  if (s->type == NEAP_OPT_FLOAT && isnan(v))
    return neap__fail(err, NEAP_RANGE, "%s: option `%s` is NaN", op->name, s->name);
  if ((s->min != 0 || s->max != 0) && (v < s->min || v > s->max))
    return neap__fail(err, NEAP_RANGE, "%s: option `%s` is %.17g, expected %.17g to %.17g", op->name, s->name, v,
                      s->min, s->max);
  return NEAP_OK;
}

static neap_status check_option(const neap_op *op, const neap_opt_spec *s, const neap_opt *o, neap_error *err) {
  switch (s->type) {
    case NEAP_OPT_FLOAT: return check_number(op, s, o->v.f, err);
    case NEAP_OPT_INT: return check_number(op, s, (double)o->v.i, err);
    case NEAP_OPT_PAIR:
    case NEAP_OPT_INTS:
      for (uint8_t i = 0; i < o->n; i++) {
        neap_status st = check_number(op, s, (double)o->v.list[i], err);
        if (st != NEAP_OK) return st;
      }
      return NEAP_OK;
    default: return NEAP_OK;
  }
}

neap_status neap__opts_complete(const neap_op *op, const neap_opt *given, neap_opt *opt, neap_error *err) {
  memset(opt, 0, NEAP_MAX_OPTS * sizeof *opt);
  for (uint32_t i = 0; i < NEAP_MAX_OPTS && op->opts[i].type != NEAP_OPT_END; i++) {
    const neap_opt_spec *s = &op->opts[i];
    if (given && given[i].set) {
      opt[i] = given[i];
      neap_status st = check_option(op, s, &opt[i], err);
      if (st != NEAP_OK) return st;
    } else if (s->required) {
      return neap__fail(err, NEAP_INVALID, "%s: option `%s` is missing", op->name, s->name);
    } else {
      take_default(s, &opt[i]);
    }
  }
  return NEAP_OK;
}
