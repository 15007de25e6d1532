/* What does not depend on the gradient is computed for all steps at once; a step then is a product elementwise with
 * that, and one with w. */
#include "op/formula.h"
#include "op/recurrent.h"

#define ONE_MINUS(a) SUB(neap__const_like(g, a, 1), a)

static neap_id join(neap_graph *g, const neap_id *v, uint32_t n, int32_t dim) {
  return neap__build(g, &neap__op_concat, v, n, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(dim)});
}

static neap_id join4(neap_graph *g, neap_id a, neap_id b, neap_id c, neap_id d) {
  return join(g, (neap_id[]){a, b, c, d}, 4, neap__desc_at(g, a).shape.ndim - 1);
}

static neap_id plus(neap_graph *g, neap_id a, neap_id b) { return a == NEAP_NONE ? b : b == NEAP_NONE ? a : ADD(a, b); }

neap_id neap__states_before(neap_graph *g, neap_id states, neap_id first) {
  const int64_t steps = neap__desc_at(g, states).shape.dim[1];
  const neap_id start = first == NEAP_NONE ? first : neap__insert_dim(g, first, 1);
  if (steps == 1 && start != NEAP_NONE) return start;
  if (steps == 1) return neap__expand_as(g, neap__const_like(g, states, 0), states);
  const neap_id rest = neap__narrow_to(g, states, 1, 0, steps - 1);
  if (start != NEAP_NONE) return join(g, (neap_id[]){start, rest}, 2, 1);
  return neap__build(g, &neap__op_pad, &rest, 1,
                     (neap_opt[NEAP_MAX_OPTS]){neap__opt_list((const int64_t[]){0, 0, 1, 0}, 4)});
}

/* v: (N, T, width) at step t: (N, width). */
static neap_id at_step(neap_graph *g, neap_id v, int64_t t) {
  if (v == NEAP_NONE) return v;
  const neap_shape s = neap__desc_at(g, v).shape;
  return neap__reshape_to(g, neap__narrow_to(g, v, 1, t, 1), &(neap_shape){2, {s.dim[0], s.dim[2]}});
}

/* Part k of v: (..., parts h). */
static neap_id part(neap_graph *g, neap_id v, int64_t k, int64_t h) {
  return neap__narrow_to(g, v, neap__desc_at(g, v).shape.ndim - 1, k * h, h);
}

/* The slope of a sigmoid, or of a tanh, at its value v. */
static neap_id sigmoid_slope(neap_graph *g, neap_id v) { return MUL(v, ONE_MINUS(v)); }
static neap_id tanh_slope(neap_graph *g, neap_id v) { return ONE_MINUS(neap__build1(g, &neap__op_square, v)); }

/* A place for what each of the steps gives; NULL after a failure. */
static neap_id *steps_of(neap_graph *g, int64_t steps) {
  neap_id *v = g->error.status == NEAP_OK ? neap__zone_alloc(&g->zone, (size_t)steps * sizeof *v) : NULL;
  if (!v) neap__graph_fail(g, NULL, NEAP_NOMEM, "the host allocator refused memory for %lld steps", (long long)steps);
  return v;
}

/* What they give, (N, width) each, as (N, T, width). */
static neap_id stacked(neap_graph *g, neap_id *v, int64_t steps) {
  for (int64_t t = 0; t < steps; t++) v[t] = neap__insert_dim(g, v[t], 1);
  return join(g, v, (uint32_t)steps, 1);
}

/* --- LSTM: c = f c + i g, h = o tanh(c) --- */

/* What the gradient of a step's gates is a multiple of: for i, f and g that of c, for o that of h. *more: what the
 * gates' values' own gradients add. */
static neap_id lstm_factors(neap_graph *g, const neap_scan *s, int64_t h, neap_id squashed, neap_id *more) {
  const neap_id i = part(g, s->kept, 0, h), f = part(g, s->kept, 1, h), c = part(g, s->kept, 2, h);
  const neap_id o = part(g, s->kept, 3, h), before = neap__states_before(g, s->states, s->first);
  const neap_id slopes = join4(g, sigmoid_slope(g, i), sigmoid_slope(g, f), tanh_slope(g, c), sigmoid_slope(g, o));
  *more = s->dkept == NEAP_NONE ? NEAP_NONE : MUL(s->dkept, slopes);
  return MUL(slopes, join4(g, c, before, i, squashed));
}

void neap__lstm_back(neap_graph *g, const neap_scan *s, neap_id *out) {
  const neap_shape shape = neap__desc_at(g, s->states).shape;
  const int64_t steps = shape.dim[1], h = shape.dim[2];
  const neap_id squashed = neap__build1(g, &neap__op_tanh, s->states);
  const neap_id to_cell = MUL(part(g, s->kept, 3, h), tanh_slope(g, squashed)), forget = part(g, s->kept, 1, h);
  neap_id more, *d = steps_of(g, steps), dh = NEAP_NONE, dc = s->dlast;
  const neap_id factors = lstm_factors(g, s, h, squashed, &more);
  for (int64_t t = steps; d && t-- > 0;) {
    dh = plus(g, at_step(g, s->dy, t), dh);
    dc = plus(g, plus(g, dc, MUL(dh, at_step(g, to_cell, t))), at_step(g, s->dstates, t));
    d[t] = plus(g, MUL(join4(g, dc, dc, dc, dh), at_step(g, factors, t)), at_step(g, more, t));
    dh = neap__build2(g, &neap__op_gemm, d[t], s->w);
    dc = MUL(dc, at_step(g, forget, t));
  }
  if (!d) return;
  out[0] = stacked(g, d, steps);
  out[1] = dh;
  out[2] = dc;
}

/* --- GRU: n = tanh(gate + r m), h = (1 - z) n + z h --- */

/* What the gradient of r, z, n and m at a step is that of h times. *more: what the kept values' own gradients add. */
static neap_id gru_factors(neap_graph *g, const neap_scan *s, int64_t h, neap_id *more) {
  const neap_id r = part(g, s->kept, 0, h), z = part(g, s->kept, 1, h), n = part(g, s->kept, 2, h);
  const neap_id m = part(g, s->kept, 3, h), before = neap__states_before(g, s->states, s->first);
  const neap_id sr = sigmoid_slope(g, r), sz = sigmoid_slope(g, z), sn = tanh_slope(g, n);
  const neap_id by_n = MUL(ONE_MINUS(z), sn), of_r = MUL(m, sr);
  *more = NEAP_NONE;
  if (s->dkept != NEAP_NONE) {
    const neap_id dn = MUL(part(g, s->dkept, 2, h), sn);
    *more = join4(g, ADD(MUL(part(g, s->dkept, 0, h), sr), MUL(dn, of_r)), MUL(part(g, s->dkept, 1, h), sz), dn,
                  ADD(part(g, s->dkept, 3, h), MUL(dn, r)));
  }
  return join4(g, MUL(by_n, of_r), MUL(SUB(before, n), sz), by_n, MUL(by_n, r));
}

/* Of gradients of r, z, n and m those that go on through w: (r, z, m). */
static neap_id through_state(neap_graph *g, neap_id d, int64_t h) {
  const int32_t last = neap__desc_at(g, d).shape.ndim - 1;
  return join(g, (neap_id[]){neap__narrow_to(g, d, last, 0, 2 * h), part(g, d, 3, h)}, 2, last);
}

void neap__gru_back(neap_graph *g, const neap_scan *s, neap_id *out) {
  const neap_shape shape = neap__desc_at(g, s->states).shape;
  const int64_t steps = shape.dim[1], h = shape.dim[2];
  const neap_id update = part(g, s->kept, 1, h);
  neap_id more, *d = steps_of(g, steps), dh = NEAP_NONE;
  const neap_id factors = gru_factors(g, s, h, &more);
  for (int64_t t = steps; d && t-- > 0;) {
    dh = plus(g, at_step(g, s->dy, t), dh);
    d[t] = plus(g, MUL(join4(g, dh, dh, dh, dh), at_step(g, factors, t)), at_step(g, more, t));
    dh = ADD(MUL(dh, at_step(g, update, t)), neap__build2(g, &neap__op_gemm, through_state(g, d[t], h), s->w));
  }
  if (!d) return;
  const neap_id all = stacked(g, d, steps);
  out[0] = neap__narrow_to(g, all, 2, 0, 3 * h);
  out[1] = through_state(g, all, h);
  out[2] = dh;
}

/* --- RNN: h = tanh(gate + w h), or relu --- */

void neap__rnn_back(neap_graph *g, const neap_scan *s, bool relu, neap_id *out) {
  const int64_t steps = neap__desc_at(g, s->states).shape.dim[1];
  neap_id *d = steps_of(g, steps), dh = NEAP_NONE;
  for (int64_t t = steps; d && t-- > 0;) {
    dh = plus(g, at_step(g, s->dy, t), dh);
    d[t] = neap__build2(g, relu ? &neap__op_relu_grad : &neap__op_tanh_grad, dh, at_step(g, s->states, t));
    dh = neap__build2(g, &neap__op_gemm, d[t], s->w);
  }
  if (!d) return;
  out[0] = stacked(g, d, steps);
  out[1] = dh;
}
