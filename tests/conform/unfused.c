/* What a node is made of where it is differentiated: the same numbers as its kernel gives. */
#include <stdio.h>

#include "conform/conform.h"

static const double TOLERANCE = 1e-12; /* in fp64: the same sums in another order */

/* The op's outputs, then those of its parts: *n of each, all outputs of the graph. False: the op has no such case. */
static bool both(cf_run *r, const cf_case *c, uint32_t *n) {
  neap_id ids[CF_INPUTS], out[NEAP_MAX_OUT], parts[NEAP_MAX_OUT] = {NEAP_NONE, NEAP_NONE, NEAP_NONE, NEAP_NONE};
  cf_add_inputs(r, c, ids);
  if (!cf_apply(r, c, ids, out, n)) return false;
  c->op->unfused(r->g, r->g->nodes[r->g->n_nodes - 1], parts);
  for (uint32_t o = 0; o < *n; o++) neap__graph_output(r->g, out[o]);
  for (uint32_t o = 0; o < *n; o++) {
    if (parts[o] == NEAP_NONE && r->g->error.status == NEAP_OK) cf_complain(c, "output %u has no parts", o + 1);
    neap__graph_output(r->g, parts[o]);
  }
  r->err = r->g->error;
  return r->g->error.status == NEAP_OK;
}

void cf_check_unfused(const cf_case *c) {
  cf_run r;
  uint32_t n;
  if (!c->op->unfused) return;
  const cf_case wide = cf_wide(c);
  cf_open(&r, 1);
  if (!both(&r, &wide, &n) || cf_plan(&r) != NEAP_OK || cf_go(&r) != NEAP_OK) {
    cf_complain(c, "its parts do not run: %s: %s", r.err.op, r.err.message);
    cf_end(&r);
    return;
  }
  for (uint32_t o = 0; o < n && n + o < r.n_out; o++) {
    char what[40];
    snprintf(what, sizeof what, "output %u of its parts", o + 1);
    cf_close(c, what, &r.out[n + o], &r.out[o], TOLERANCE);
  }
  cf_end(&r);
}
