/* What an op does not take is refused in words, and nothing is left behind; what it takes runs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conform/conform.h"
#include "op/op.h"

/* What was changed in a case: an input (option NULL) or an option. */
typedef struct change {
  const char *option;
  bool must_refuse;
  bool beyond; /* may be a number that fp32 does not hold */
} change;

static bool small(const cf_run *r) {
  for (uint32_t v = 0; v < r->g->n_values; v++)
    if (neap__desc_bytes(&r->g->values[v].desc) > 1 << 20) return false;
  return true;
}

static void judge_refusal(const cf_case *c, const cf_run *r, const change *how) {
  const neap_error *e = &r->err;
  if (e->status == NEAP_OK || e->status == NEAP_INTERNAL || !e->message[0] ||
      strcmp(e->message, neap_status_text(e->status)) == 0)
    cf_complain(c, "refused with %s and \"%s\", expected a reason", neap_status_name(e->status), e->message);
  if (strcmp(e->op, c->op->name) != 0) cf_complain(c, "refused in the name of \"%s\": %s", e->op, e->message);
  if (how->option && !strstr(e->message, how->option) && !e->shapes[0])
    cf_complain(c, "option `%s` is refused without naming it: %s", how->option, e->message);
  if (!how->option && c->n_in > 0 && !e->shapes[0] && e->status != NEAP_INVALID)
    cf_complain(c, "refused without telling the shapes: %s", e->message);
}

/* Runs what was taken, if it is small enough to. */
static bool runs(cf_run *r, const cf_case *c) {
  neap_program_memory m = {0};
  if (!small(r)) return false;
  neap_status s = cf_plan(r);
  if (s == NEAP_OK) neap__program_memory(r->p, &m);
  if (m.arena > 64 << 20) {
    cf_note("needs much memory for little data", c->op);
    return false;
  }
  if (s == NEAP_OK) s = cf_go(r);
  if (s != NEAP_OK && (!r->err.message[0] || !r->err.op[0] || s == NEAP_INTERNAL))
    cf_complain(c, "fails in \"%s\" with %s: \"%s\"", r->err.op, neap_status_name(s), r->err.message);
  return s == NEAP_OK;
}

/* Whether results can be compared: halves are storage that the checks do not read, and numbers as options go
 * beyond what fp32 holds. */
static bool comparable(const cf_run *r, const change *how) {
  for (uint32_t v = 0; v < r->g->n_values; v++)
    if (r->g->values[v].desc.dtype > NEAP_BOOL) return false;
  return !how->beyond;
}

static void attempt(const cf_case *c, const change *how) {
  neap_id ids[CF_INPUTS], out[NEAP_MAX_OUT];
  uint32_t n;
  const uint64_t before = cf_in_use();
  cf_run r;
  cf_open(&r, 1);
  for (uint32_t i = 0; i < c->n_in; i++) { /* values come when the op takes them */
    ids[i] = r.in_id[i] = neap__graph_input(r.g, &c->in[i].desc);
    r.batch_dim[i] = -1;
  }
  if (!cf_apply(&r, c, ids, out, &n)) {
    judge_refusal(c, &r, how);
    cf_end(&r);
    if (cf_in_use() != before) cf_complain(c, "a refusal leaves %lld bytes", (long long)(cf_in_use() - before));
    return;
  }
  if (how->must_refuse) cf_complain(c, "takes option `%s` out of its range", how->option);
  for (uint32_t i = 0; i < c->n_in && small(&r); i++) r.in[r.n_in++] = cf_values(&c->in[i], i);
  for (uint32_t o = 0; o < n; o++) neap__graph_output(r.g, out[o]);
  const bool ran = runs(&r, c) && comparable(&r, how);
  cf_end(&r);
  if (ran) cf_check_forward(c);
}

/* --- inputs --- */
static void other_shape(const cf_case *c, uint32_t i, neap_shape shape) {
  cf_case v = *c;
  v.in[i].desc.shape = shape;
  attempt(&v, &(change){NULL, false, false});
}

static void other_inputs(const cf_case *c) {
  for (uint32_t i = 0; i < c->n_in; i++) {
    const neap_shape *s = &c->in[i].desc.shape;
    for (int t = 0; t < NEAP_DTYPE_COUNT; t++) {
      cf_case v = *c;
      v.in[i].desc.dtype = (neap_dtype)t;
      attempt(&v, &(change){NULL, false, false});
    }
    for (int32_t d = 0; d < s->ndim; d++) {
      neap_shape more = *s;
      more.dim[d]++;
      other_shape(c, i, more);
    }
    if (s->ndim < NEAP_MAX_DIMS) {
      neap_shape longer = *s;
      longer.dim[longer.ndim++] = 2;
      other_shape(c, i, longer);
    }
    other_shape(c, i, (neap_shape){0, {0}});
    other_shape(c, i, (neap_shape){NEAP_MAX_DIMS, {1, 1, 1, 1, 1, 1, 1, 2}});
  }
}

static void other_count(const cf_case *c) {
  cf_case v = *c;
  if (c->op->min_in > 0) {
    v.n_in = c->op->min_in - 1u;
    attempt(&v, &(change){NULL, true, false});
  }
  if (c->op->max_in >= CF_INPUTS) return;
  v = *c;
  for (uint32_t i = c->n_in; i <= c->op->max_in; i++) v.in[i] = c->n_in ? c->in[0] : (cf_input){.below = 1};
  v.n_in = c->op->max_in + 1u;
  attempt(&v, &(change){NULL, true, false});
}

/* --- options --- */
static void set_whole(const cf_case *c, int k, int64_t x, bool must_refuse) {
  cf_case v = *c;
  neap_opt *o = &v.opt[k];
  const neap_opt_type t = c->op->opts[k].type;
  *o = NEAP_INT(x);
  if (t == NEAP_OPT_PAIR || t == NEAP_OPT_INTS || t == NEAP_OPT_DIMS) {
    o->n = t == NEAP_OPT_PAIR ? 2 : 1;
    o->v.list[0] = o->v.list[1] = x;
  }
  attempt(&v, &(change){c->op->opts[k].name, must_refuse, false});
}

static void set_float(const cf_case *c, int k, double x, bool must_refuse) {
  cf_case v = *c;
  v.opt[k] = NEAP_FLOAT(x);
  attempt(&v, &(change){c->op->opts[k].name, must_refuse, true});
}

static void set_list(const cf_case *c, int k, uint8_t n, int64_t x) {
  cf_case v = *c;
  v.opt[k] = (neap_opt){.set = 1, .n = n};
  for (uint8_t i = 0; i < n; i++) v.opt[k].v.list[i] = x;
  attempt(&v, &(change){c->op->opts[k].name, false, false});
}

static void other_floats(const cf_case *c, int k) {
  static const double values[] = {-1, 0, 1, 0.5, 1e300, -1e300, INFINITY, -INFINITY};
  const neap_opt_spec *s = &c->op->opts[k];
  const bool bounded = s->min != 0 || s->max != 0;
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
    set_float(c, k, values[i], bounded && (values[i] < s->min || values[i] > s->max));
  set_float(c, k, NAN, true);
}

static void other_wholes(const cf_case *c, int k) {
  static const int64_t values[] = {-1, 0, 1, 2, 3, 7, -9, 99, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN};
  const neap_opt_spec *s = &c->op->opts[k];
  const bool dim = s->type == NEAP_OPT_DIM || s->type == NEAP_OPT_DIMS;
  const bool bounded = !dim && (s->min != 0 || s->max != 0);
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
    set_whole(c, k, values[i], bounded && ((double)values[i] < s->min || (double)values[i] > s->max));
  if (!bounded) return;
  set_whole(c, k, (int64_t)s->min, false);
  set_whole(c, k, (int64_t)s->max, false);
}

static void other_lists(const cf_case *c, int k) {
  for (uint8_t n = 0; n <= NEAP_MAX_DIMS; n++) {
    set_list(c, k, n, 1);
    set_list(c, k, n, 0);
    set_list(c, k, n, -1);
    set_list(c, k, n, INT64_MAX);
  }
}

static void other_options(const cf_case *c) {
  for (int k = 0; k < NEAP_MAX_OPTS && c->op->opts[k].type != NEAP_OPT_END; k++) {
    const neap_opt_spec *s = &c->op->opts[k];
    cf_case v = *c;
    v.opt[k] = NEAP_UNSET;
    attempt(&v, &(change){s->name, s->required, false});
    switch (s->type) {
      case NEAP_OPT_FLOAT: other_floats(c, k); break;
      case NEAP_OPT_INT:
      case NEAP_OPT_PAIR:
      case NEAP_OPT_DIM: other_wholes(c, k); break;
      case NEAP_OPT_INTS:
      case NEAP_OPT_DIMS:
        other_wholes(c, k);
        other_lists(c, k);
        break;
      case NEAP_OPT_DTYPE:
        for (int t = 0; t < NEAP_DTYPE_COUNT; t++) set_whole(c, k, t, false);
        break;
      default: /* a bool or a choice: both answers, the choices there are */
        set_whole(c, k, 0, false);
        set_whole(c, k, 1, false);
        break;
    }
  }
}

void cf_check_refusals(const cf_case *c) {
  other_inputs(c);
  other_count(c);
  other_options(c);
}

/* --- host memory refused at every place ---------------------------------------------------------------------- */

/* Builds and plans the op and its gradient. */
static neap_status build_all(cf_run *r, const cf_case *c, const kt_value *in) {
  neap_id ids[CF_INPUTS], out[NEAP_MAX_OUT], grad[CF_INPUTS], loss;
  uint32_t n;
  memset(r, 0, sizeof *r);
  r->c = cf_engine(1);
  r->g = neap__graph_create(&r->c->host);
  if (!r->g) return NEAP_NOMEM;
  for (uint32_t i = 0; i < c->n_in; i++) {
    ids[i] = neap__graph_input(r->g, &in[i].desc);
    r->batch_dim[i] = -1;
  }
  if (cf_apply(r, c, ids, out, &n)) {
    for (uint32_t o = 0; o < n; o++) neap__graph_output(r->g, out[o]);
    if (!c->op->nondiff && neap__dtype_is_float(neap__desc_of(r->g, out[0])->dtype)) {
      loss = neap__build1(r->g, &neap__op_sum, out[0]);
      neap__gradient(r->g, loss, NEAP_NONE, ids, c->n_in, grad);
      for (uint32_t i = 0; i < c->n_in; i++) neap__graph_output(r->g, grad[i]);
    }
  }
  if (r->g->error.status != NEAP_OK) {
    r->err = r->g->error;
    return r->err.status;
  }
  return cf_plan(r);
}

/* Every request refused in turn, until one run needs fewer. */
void cf_check_memory(const cf_case *c) {
  enum { MOST = 2000 };
  kt_value in[CF_INPUTS];
  for (uint32_t i = 0; i < c->n_in; i++) in[i] = cf_values(&c->in[i], i);
  cf_run r;
  const neap_status usual = build_all(&r, c, in);
  cf_end(&r);
  for (uint64_t n = 1; n < MOST; n++) {
    const uint64_t before = cf_in_use(), asked = cf_refuse(n);
    const neap_status s = build_all(&r, c, in);
    const bool reached = cf_refuse(0) - asked >= n;
    if (s != usual && s != NEAP_NOMEM)
      cf_complain(c, "host memory refused (request %d): %s: %s", (int)n, neap_status_name(s), r.err.message);
    cf_end(&r);
    if (cf_in_use() != before)
      cf_complain(c, "host memory refused (request %d): %lld bytes are left", (int)n,
                  (long long)(cf_in_use() - before));
    if (!reached) break;
  }
  for (uint32_t i = 0; i < c->n_in; i++) kt_free(&in[i]);
}
