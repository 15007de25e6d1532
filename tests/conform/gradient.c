/* Gradients against central finite differences, to any order.
 *
 * A level is a list of floating-point outputs. Differentiating it gives the next: the gradients, with respect to
 * every floating-point input there is, of the sum of all outputs times random weights. The weights are inputs of
 * the graph, so that the level after that depends on them too. */
#include <math.h>
#include <string.h>

#include "conform/conform.h"
#include "op/op.h"

/* The step balances h^2 against 2^-53 / h; values are about 1. */
static const double STEP = 0x1p-16;
enum { ORDERS = 3 };
static const double FD_TOLERANCE = 2e-7, F32_TOLERANCE = 2e-5;

static void take_floats(cf_level *l, const neap_graph *g, const neap_id *ids, uint32_t n, uint32_t mask) {
  l->n_out = 0;
  for (uint32_t i = 0; i < n; i++)
    if ((i >= 32 || (mask >> i & 1)) && ids[i] != NEAP_NONE && neap__dtype_is_float(neap__desc_of(g, ids[i])->dtype))
      l->out[l->n_out++] = ids[i];
}

static void take_inputs(cf_level *l, const cf_run *r) {
  l->n_wrt = 0;
  for (uint32_t i = 0; i < r->n_in; i++)
    if (neap__dtype_is_float(r->in[i].desc.dtype)) l->wrt[l->n_wrt++] = i;
}

/* The sum of all outputs times their weights, or output and weight themselves when there is one. */
static neap_id weighted(cf_run *r, const neap_id *out, const neap_id *weight, uint32_t n, neap_id *seed) {
  neap_id total = NEAP_NONE;
  *seed = n == 1 ? weight[0] : NEAP_NONE;
  if (n == 1) return out[0];
  for (uint32_t o = 0; o < n; o++) {
    const neap_id part = neap__build1(r->g, &neap__op_sum, neap__build2(r->g, &neap__op_mul, out[o], weight[o]));
    total = o ? neap__build2(r->g, &neap__op_add, total, part) : part;
  }
  return total;
}

static bool differentiate(cf_run *r, cf_level *l) {
  neap_id wrt[CF_GRAPH_INPUTS], weight[CF_GRAPH_INPUTS], seed;
  take_inputs(l, r);
  for (uint32_t i = 0; i < l->n_wrt; i++) wrt[i] = r->in_id[l->wrt[i]];
  for (uint32_t o = 0; o < l->n_out; o++) {
    l->weight[o] = cf_weights(neap__desc_of(r->g, l->out[o]), r->n_in);
    weight[o] = cf_add(r, l->weight[o]);
  }
  const uint32_t n = l->n_out;
  if (n == 0) {
    for (uint32_t i = 0; i < l->n_wrt; i++) l->grad[i] = NEAP_NONE;
    return true;
  }
  const neap_id loss = weighted(r, l->out, weight, n, &seed);
  if (loss != NEAP_NONE) neap__gradient(r->g, loss, seed, wrt, l->n_wrt, l->grad);
  take_floats(l, r->g, l->grad, l->n_wrt, UINT32_MAX);
  r->err = r->g->error;
  return r->err.status == NEAP_OK;
}

bool cf_differentiated(cf_run *r, cf_level *l, const cf_case *c, const cf_order *what) {
  neap_id ids[CF_INPUTS], out[NEAP_MAX_OUT];
  uint32_t n;
  memset(l, 0, sizeof *l);
  cf_open(r, 1);
  cf_add_inputs(r, c, ids);
  bool ok = cf_apply(r, c, ids, out, &n);
  if (ok) take_floats(l, r->g, out, n, what->outputs);
  for (int k = 0; ok && k < what->order; k++) ok = differentiate(r, l);
  for (uint32_t o = 0; ok && o < l->n_out; o++) neap__graph_output(r->g, l->out[o]);
  ok = ok && cf_plan(r) == NEAP_OK && cf_go(r) == NEAP_OK;
  if (!ok) cf_end(r);
  return ok;
}

/* What is no derivative by definition. */
static bool by_definition(const cf_case *c) {
  static const struct {
    const char *op, *option;
  } rules[] = {{"embedding", "padding_idx"}}; /* its row learns nothing */
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    for (int k = 0; k < NEAP_MAX_OPTS && c->op->opts[k].type != NEAP_OPT_END; k++)
      if (strcmp(c->op->name, rules[i].op) == 0 && strcmp(c->op->opts[k].name, rules[i].option) == 0 && c->opt[k].set)
        return true;
  return false;
}

static double total(cf_run *r, const cf_level *above) {
  double sum = 0;
  if (cf_go(r) != NEAP_OK) return NAN;
  for (uint32_t o = 0; o < r->n_out; o++)
    for (int64_t i = 0; i < kt_count(&r->out[o]); i++) sum += kt_get(&r->out[o], i) * kt_get(&above->weight[o], i);
  return sum;
}

static double difference(cf_run *r, const cf_level *above, kt_value *x, int64_t i) {
  const double old = kt_get(x, i);
  kt_set(x, i, old + STEP);
  const double up = total(r, above);
  kt_set(x, i, old - STEP);
  const double down = total(r, above);
  kt_set(x, i, old);
  return (up - down) / (2 * STEP);
}

/* All elements, or about 200 of many. */
static int64_t stride_of(const kt_value *x) {
  const int64_t n = kt_count(x);
  return n > 200 ? n / 150 : 1;
}

static double size_of(const kt_value *v) {
  double most = 1;
  for (int64_t i = 0; v && i < kt_count(v); i++)
    if (isfinite(kt_get(v, i)) && fabs(kt_get(v, i)) > most) most = fabs(kt_get(v, i));
  return most;
}

/* below: runs the level below; got: the gradient of its weighted sum by input `input`, NULL: zero. */
static void compare(const cf_case *c, cf_run *below, const cf_level *above, uint32_t input, const kt_value *got,
                    int order) {
  kt_value *x = &below->in[input];
  const double limit = FD_TOLERANCE * (order > 1 ? 10 : 1) * size_of(got) * (1 + fabs(total(below, above)));
  for (int64_t i = 0; i < kt_count(x); i += stride_of(x)) {
    const double want = difference(below, above, x, i), have = got ? kt_get(got, i) : 0;
    if ((isnan(want) && isnan(have)) || fabs(want - have) <= limit) continue;
    cf_complain(c, "gradient of order %d by input %u, element %lld: %.9g, differences give %.9g", order, input + 1,
                (long long)i, have, want);
    return;
  }
}

/* Nothing, and what is infinite or NaN, has no differences. */
static bool has_differences(cf_run *below, const cf_level *above, int order) {
  int64_t n = 0;
  for (uint32_t o = 0; o < below->n_out; o++) n += kt_count(&below->out[o]);
  return isfinite(total(below, above)) && (n > 0 || order == 1);
}

static void check_order(const cf_case *wide, const cf_order *what) {
  cf_run below, r;
  cf_level lb, l;
  const int order = what->order;
  if (!cf_differentiated(&below, &lb, wide, &(cf_order){order - 1, what->outputs})) {
    cf_complain(wide, "does not run: %s", below.err.message);
    return;
  }
  if (!cf_differentiated(&r, &l, wide, what)) {
    cf_complain(wide, "gradient of order %d: %s: %s", order, r.err.op, r.err.message);
    cf_end(&below);
    return;
  }
  uint32_t o = 0;
  const bool differences = has_differences(&below, &l, order);
  for (uint32_t i = 0; i < l.n_wrt; i++) {
    const kt_value *got = l.grad[i] == NEAP_NONE ? NULL : &r.out[o++];
    if (got && !neap__shape_equal(&got->desc.shape, &r.in[l.wrt[i]].desc.shape))
      cf_complain(wide, "gradient of order %d by input %u has another shape than it", order, i + 1);
    else if (l.wrt[i] < below.n_in && differences)
      compare(wide, &below, &l, l.wrt[i], got, order);
  }
  cf_end(&r);
  cf_end(&below);
}

/* The fp32 kernels against the fp64 ones, where the gradients exist in both. */
static void check_narrow(const cf_case *c, const cf_case *wide, uint32_t outputs) {
  const cf_order what = {1, outputs};
  cf_run a, b;
  cf_level la, lb;
  if (!cf_differentiated(&a, &la, c, &what)) {
    cf_complain(c, "gradient: %s: %s", a.err.op, a.err.message);
    return;
  }
  for (uint32_t i = 0; i < la.n_wrt; i++)
    if (la.grad[i] != NEAP_NONE && neap__desc_of(a.g, la.grad[i])->dtype != a.in[la.wrt[i]].desc.dtype)
      cf_complain(c, "the gradient by input %u is %s", i + 1, neap__dtype_name(neap__desc_of(a.g, la.grad[i])->dtype));
  if (cf_differentiated(&b, &lb, wide, &what)) {
    for (uint32_t o = 0; o < a.n_out && o < b.n_out; o++)
      cf_close(c, "fp32 gradient", &a.out[o], &b.out[o], F32_TOLERANCE);
    cf_end(&b);
  }
  cf_end(&a);
}

static bool runs(const cf_case *c) {
  cf_run r;
  const bool ok = cf_forward(&r, c, 1);
  if (ok) cf_end(&r);
  return ok;
}

/* Whether the error is an honest "has no gradient". */
static bool without_gradient(const cf_case *c, int order) {
  cf_run r;
  cf_level l;
  if (cf_differentiated(&r, &l, c, &(cf_order){order, 1})) {
    cf_end(&r);
    return false;
  }
  return r.err.status == NEAP_UNSUPPORTED && strstr(r.err.message, "no gradient") != NULL;
}

/* The outputs that a gradient flows through: the first, and what else the record gives one. */
static uint32_t outputs_of(const cf_case *c) {
  uint32_t outputs = 1;
  for (uint32_t o = 1; o < c->op->n_out; o++) {
    cf_run r;
    cf_level l;
    if (!cf_differentiated(&r, &l, c, &(cf_order){1, 1u << o})) continue;
    for (uint32_t i = 0; i < l.n_wrt; i++)
      if (l.grad[i] != NEAP_NONE) outputs |= 1u << o;
    cf_end(&r);
  }
  return outputs;
}

/* By nature: every gradient is absent, and asking is no error. */
static void check_nondiff(const cf_case *c) {
  cf_run r;
  cf_level l;
  if (!cf_differentiated(&r, &l, c, &(cf_order){1, UINT32_MAX})) {
    cf_complain(c, "has no gradient by nature, but asking for it fails: %s", r.err.message);
    return;
  }
  for (uint32_t i = 0; i < c->n_in && i < l.n_wrt; i++)
    if (l.grad[i] != NEAP_NONE) cf_complain(c, "has no gradient by nature, yet input %u gets one", i + 1);
  cf_end(&r);
}

void cf_check_gradient(const cf_case *c) {
  const cf_case wide = cf_wide(c);
  if (c->op->nondiff) {
    if (runs(c)) check_nondiff(c);
    return;
  }
  if (c->op->internal && without_gradient(c, 1)) {
    cf_note("no gradient (internal)", c->op);
    return;
  }
  const uint32_t outputs = outputs_of(c);
  const bool differences = runs(&wide) && !by_definition(c);
  for (uint32_t o = 0; differences && o < c->op->n_out; o++)
    if (outputs >> o & 1) check_order(&wide, &(cf_order){1, 1u << o});
  if (differences && outputs != 1) check_order(&wide, &(cf_order){1, outputs});
  check_narrow(c, &wide, outputs);
}

void cf_check_higher(const cf_case *c) {
  const cf_case wide = cf_wide(c);
  if (c->op->nondiff || !runs(&wide) || without_gradient(&wide, 1)) return;
  for (int order = 2; order <= ORDERS; order++) {
    if (without_gradient(&wide, order)) {
      cf_complain(c, "has no gradient of order %d", order);
      return;
    }
    check_order(&wide, &(cf_order){order, 1});
  }
}
