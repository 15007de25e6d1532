/* What a batch may be cut into, and who computes it: the bits must not tell. */
#include <stdio.h>
#include <string.h>

#include "conform/conform.h"
#include "graph/plan.h"
#include "op/op.h"

/* Two and a bit of the largest slabs that ops choose by themselves. */
enum { SLAB = 64, BATCH = 2 * SLAB + 5, ODD = 5 };

/* The inputs of the mask have n samples in dimension 1. */
static cf_case with_samples(const cf_case *c, uint32_t mask, int64_t n) {
  cf_case v = *c;
  for (uint32_t i = 0; i < v.n_in; i++)
    if (mask >> i & 1) v.in[i].desc.shape.dim[0] = n;
  return v;
}

/* Of what a case takes the gradient: nothing, the sum of the outputs' squares, or the mere sum, whose gradient is the
 * same for every sample and known before any has run. */
typedef enum slope { NO_SLOPE, OF_SQUARES, OF_SUM } slope;

/* Outputs of the op and, when asked, gradients. False: the op has no such case. */
static bool built(cf_run *r, const cf_case *c, slope gradient) {
  neap_id ids[CF_INPUTS], out[NEAP_MAX_OUT], wrt[CF_INPUTS], grad[CF_INPUTS], loss = NEAP_NONE;
  uint32_t n, n_wrt = 0;
  cf_add_inputs(r, c, ids);
  if (!cf_apply(r, c, ids, out, &n)) return false;
  for (uint32_t o = 0; o < n; o++) neap__graph_output(r->g, out[o]);
  for (uint32_t o = 0; o < n && gradient; o++) {
    if (!neap__dtype_is_float(neap__desc_of(r->g, out[o])->dtype)) continue;
    const neap_id of = gradient == OF_SUM ? out[o] : neap__build1(r->g, &neap__op_square, out[o]);
    const neap_id part = neap__build1(r->g, &neap__op_sum, of);
    loss = loss == NEAP_NONE ? part : neap__build2(r->g, &neap__op_add, loss, part);
  }
  for (uint32_t i = 0; i < c->n_in; i++)
    if (neap__dtype_is_float(c->in[i].desc.dtype)) wrt[n_wrt++] = ids[i];
  if (!gradient) return true;
  if (loss == NEAP_NONE || n_wrt == 0) return false;
  neap__gradient(r->g, loss, NEAP_NONE, wrt, n_wrt, grad);
  for (uint32_t i = 0; i < n_wrt; i++) neap__graph_output(r->g, grad[i]);
  return r->g->error.status == NEAP_OK;
}

typedef struct cut {
  uint32_t mask; /* inputs that carry the batch; 0: none is told to */
  int64_t micro;
  slope gradient;
  bool slices;
  uint32_t threads;
} cut;

/* Whether everything is of a size that tests are about. */
static bool small(const cf_run *r) {
  for (uint32_t v = 0; v < r->g->n_values; v++)
    if (neap__desc_bytes(&r->g->values[v].desc) > 16 << 20) return false;
  return true;
}

/* NEAP_NOT_FOUND: no such case. A run that is not OK is closed. */
static neap_status run_cut(cf_run *r, const cf_case *c, const cut *k) {
  cf_open(r, k->threads);
  for (uint32_t i = 0; i < c->n_in; i++)
    if (neap__desc_bytes(&c->in[i].desc) > 16 << 20) return cf_end(r), NEAP_NOT_FOUND;
  neap_status s = built(r, c, k->gradient) && small(r) ? NEAP_OK : NEAP_NOT_FOUND;
  for (uint32_t i = 0; i < c->n_in && k->mask; i++)
    if (k->mask >> i & 1) {
      r->batch_dim[i] = 0;
      r->batch = c->in[i].desc.shape.dim[0];
    }
  r->micro = k->micro;
  if (s == NEAP_OK) s = cf_plan(r);
  if (s == NEAP_OK) s = k->slices ? cf_go_in_slices(r) : cf_go(r);
  if (s != NEAP_OK) cf_end(r);
  return s;
}

/* The batch in micro-batches of `micro` against the whole. */
static void compare_cut(const cf_case *c, const cf_run *whole, cut k) {
  cf_run r;
  const neap_status s = run_cut(&r, c, &k);
  if (s == NEAP_UNSUPPORTED && r.err.message[0]) {
    cf_note("some batch cannot be cut", c->op);
    return;
  }
  if (s != NEAP_OK) {
    cf_complain(c, "in micro-batches of %lld: %s", (long long)k.micro, r.err.message);
    return;
  }
  const neap_exact exact = neap__program_exact(r.p);
  const bool slabs = k.micro % neap__program_grain(r.p) == 0;
  if (exact == NEAP_EXACT_ROUNDING && slabs) cf_complain(c, "whole slabs keep the bits, the plan says they do not");
  if (exact == NEAP_EXACT_BITS && slabs) cf_note("same bits in micro-batches", c->op);
  if (exact == NEAP_EXACT_NO) cf_note("samples depend on each other in some case", c->op);
  for (uint32_t o = 0; o < r.n_out && exact != NEAP_EXACT_NO; o++) {
    char what[64];
    snprintf(what, sizeof what, "output %u in micro-batches of %lld", o + 1, (long long)k.micro);
    if (exact == NEAP_EXACT_BITS) cf_same_bits(c, what, &r.out[o], &whole->out[o]);
    if (exact == NEAP_EXACT_ROUNDING) cf_close(c, what, &r.out[o], &whole->out[o], 2e-6);
  }
  cf_end(&r);
}

static void check_mask(const cf_case *given, uint32_t mask, slope gradient) {
  const cf_case c = with_samples(given, mask, BATCH);
  cut k = {.mask = mask, .gradient = gradient, .threads = 1};
  cf_run whole, plain;
  const neap_status s = run_cut(&whole, &c, &k);
  if (s == NEAP_NOT_FOUND || s == NEAP_RANGE) return;
  if (s != NEAP_OK) {
    cf_complain(&c, "with a batch: %s", whole.err.message);
    return;
  }
  const int64_t grain = neap__program_grain(whole.p);
  if (grain & (grain - 1)) cf_complain(&c, "has slabs of %lld samples, expected a power of two", (long long)grain);
  k.mask = 0;
  if (run_cut(&plain, &c, &k) == NEAP_OK) {
    /* Without a batch there is one sample, whose numbers are others; what sums to 0 has more rounding. */
    for (uint32_t o = 0; o < plain.n_out && !plain.p->random; o++)
      cf_close(&c, "without a batch", &plain.out[o], &whole.out[o], gradient == OF_SUM ? 8e-6 : 4e-6);
    cf_end(&plain);
  }
  k.mask = mask;
  k.micro = grain > SLAB ? grain : SLAB;
  compare_cut(&c, &whole, k);
  k.micro = ODD;
  compare_cut(&c, &whole, k);
  cf_end(&whole);
}

/* The inputs that begin with as many entries as input k. */
static uint32_t alike(const cf_case *c, uint32_t k) {
  uint32_t mask = 0;
  if (c->in[k].desc.shape.ndim == 0 || c->in[k].desc.shape.dim[0] == 0) return 0;
  for (uint32_t i = 0; i < c->n_in && i < 32; i++)
    if (c->in[i].desc.shape.ndim && c->in[i].desc.shape.dim[0] == c->in[k].desc.shape.dim[0]) mask |= 1u << i;
  return mask;
}

void cf_check_batch(const cf_case *c) {
  uint32_t seen[2 * CF_INPUTS], n = 0;
  for (uint32_t i = 0; i < 2 * c->n_in && i < 8; i++) {
    const uint32_t all = alike(c, i / 2), mask = all && i % 2 ? 1u << (i / 2) : all;
    bool again = mask == 0;
    for (uint32_t k = 0; k < n; k++) again |= seen[k] == mask;
    if (again) continue;
    seen[n++] = mask;
    for (slope of = NO_SLOPE; of <= (c->op->nondiff ? NO_SLOPE : OF_SUM); of++) check_mask(c, mask, of);
  }
}

/* So many samples that kernels have several tasks. */
static int64_t many(const cf_case *c, uint32_t mask) {
  int64_t most = 1;
  for (uint32_t i = 0; i < c->n_in; i++) {
    if (!(mask >> i & 1)) continue;
    const int64_t each = neap__shape_count(&c->in[i].desc.shape) / c->in[i].desc.shape.dim[0];
    if (each > most) most = each;
  }
  const int64_t n = 40000 / most;
  return n > BATCH ? n : BATCH;
}

static void compare_threads(const cf_case *c, uint32_t mask, slope gradient) {
  cut k = {.mask = mask, .gradient = gradient, .threads = 1};
  cf_run one, r;
  if (run_cut(&one, c, &k) != NEAP_OK) return;
  for (k.threads = 1; k.threads <= CF_THREADS; k.threads++) {
    k.slices = k.threads == 1; /* one thread again, a task at a time */
    const neap_status s = run_cut(&r, c, &k);
    if (s != NEAP_OK) {
      cf_complain(c, "with %u threads: %s", k.threads, r.err.message);
      continue;
    }
    char what[64];
    snprintf(what, sizeof what, k.slices ? "in slices" : "with %u threads", k.threads);
    for (uint32_t o = 0; o < r.n_out; o++) cf_same_bits(c, what, &r.out[o], &one.out[o]);
    cf_end(&r);
  }
  cf_end(&one);
}

void cf_check_threads(const cf_case *c) {
  for (uint32_t k = 0; k < c->n_in && k < 2; k++) {
    const uint32_t mask = alike(c, k);
    if (!mask || (k && mask == alike(c, 0))) continue;
    const cf_case v = with_samples(c, mask, many(c, mask));
    compare_threads(&v, mask, NO_SLOPE);
    if (!c->op->nondiff) compare_threads(&v, mask, OF_SQUARES);
  }
  compare_threads(c, 0, NO_SLOPE);
}
