/* Graphs of a case, through the planner and the CPU backend. */
#include <math.h>
#include <string.h>

#include "conform/conform.h"
#include "unit/fail_host.h"

typedef struct engine {
  fail_host host;
  neap_context *c;
} engine;
static engine engines[CF_THREADS];

neap_context *cf_engine(uint32_t threads) {
  engine *e = &engines[threads - 1];
  if (e->c) return e->c;
  neap_error err = {0};
  fail_host_init(&e->host);
  neap_config config = {
      .size = sizeof config, .device = "cpu", .threads = threads, .alloc = fail_host_alloc, .alloc_user = &e->host};
  if (neap__context_create(&config, &e->c, &err) != NEAP_OK) fail_msg("no engine: %s", err.message);
  return e->c;
}

uint64_t cf_refuse(uint64_t n) {
  engines[0].host.until = n;
  return engines[0].host.asked;
}

uint64_t cf_in_use(void) { return cf_engine(1)->host.in_use; }

void cf_close_engines(void) {
  for (int i = 0; i < CF_THREADS; i++) {
    if (!engines[i].c) continue;
    neap__context_destroy(engines[i].c);
    engines[i].c = NULL;
    assert_int_equal(engines[i].host.blocks, 0);
    assert_int_equal(engines[i].host.wrong, 0);
  }
}

void cf_open(cf_run *r, uint32_t threads) {
  memset(r, 0, sizeof *r);
  r->c = cf_engine(threads);
  r->g = neap__graph_create(&r->c->host);
}

void cf_end(cf_run *r) {
  neap__program_destroy(r->p);
  neap__graph_drop(r->g);
  for (uint32_t i = 0; i < r->n_in; i++) kt_free(&r->in[i]);
  for (uint32_t o = 0; o < r->n_out; o++) kt_free(&r->out[o]);
  r->p = NULL;
  r->g = NULL;
  r->n_in = r->n_out = 0;
}

neap_id cf_add(cf_run *r, kt_value v) {
  assert_true(r->n_in < CF_GRAPH_INPUTS);
  r->in[r->n_in] = v;
  r->batch_dim[r->n_in] = -1;
  return r->in_id[r->n_in++] = neap__graph_input(r->g, &v.desc);
}

void cf_add_inputs(cf_run *r, const cf_case *c, neap_id *ids) {
  for (uint32_t i = 0; i < c->n_in; i++) ids[i] = cf_add(r, cf_values(&c->in[i], i));
}

bool cf_apply(cf_run *r, const cf_case *c, const neap_id *ids, neap_id *out, uint32_t *n) {
  const bool ok = neap__build_n(r->g, c->op, ids, c->n_in, c->opt, out);
  *n = 0;
  while (ok && *n < c->op->n_out && out[*n] != NEAP_NONE) (*n)++;
  if (!ok) r->err = r->g->error;
  return ok;
}

neap_status cf_plan(cf_run *r) {
  const neap_program_spec spec = {.graph = r->g, .input_batch = r->batch_dim, .batch = r->batch, .micro = r->micro};
  memset(&r->err, 0, sizeof r->err);
  const neap_status s = neap__program_create(r->c, &spec, &r->p, &r->err);
  if (s != NEAP_OK) return s;
  assert_true(r->g->n_outputs <= CF_GRAPH_INPUTS);
  for (uint32_t o = 0; o < r->g->n_outputs; o++) r->out[r->n_out++] = cf_buffer(neap__desc_of(r->g, r->g->outputs[o]));
  return s;
}

/* Runs draw the same random numbers each time: the counter of draws starts over. */
typedef struct pointers {
  const void *in[CF_GRAPH_INPUTS];
  void *out[CF_GRAPH_INPUTS];
} pointers;

static void gather(const cf_run *r, pointers *p) {
  for (uint32_t i = 0; i < r->n_in; i++) p->in[i] = r->in[i].data;
  for (uint32_t o = 0; o < r->n_out; o++) p->out[o] = r->out[o].data;
}

neap_status cf_go(cf_run *r) {
  pointers p;
  gather(r, &p);
  memset(&r->err, 0, sizeof r->err);
  r->c->draws = 0;
  return neap__program_run(r->p, p.in, p.out, &r->err);
}

neap_status cf_go_in_slices(cf_run *r) {
  pointers p;
  neap_run run;
  gather(r, &p);
  r->c->draws = 0;
  neap_status s = neap__run_begin(&run, r->p, &r->c->infer, p.in, p.out, &r->err);
  while (s == NEAP_OK && !run.done) s = neap__run_step(&run, 0, &r->err);
  neap__run_end(&run);
  return s;
}

bool cf_forward(cf_run *r, const cf_case *c, uint32_t threads) {
  neap_id ids[CF_INPUTS], out[NEAP_MAX_OUT];
  uint32_t n;
  cf_open(r, threads);
  cf_add_inputs(r, c, ids);
  bool ok = cf_apply(r, c, ids, out, &n);
  for (uint32_t o = 0; ok && o < n; o++) neap__graph_output(r->g, out[o]);
  ok = ok && cf_plan(r) == NEAP_OK && cf_go(r) == NEAP_OK;
  if (!ok) cf_end(r);
  return ok;
}

bool cf_must_run(cf_run *r, const cf_case *c) {
  if (cf_forward(r, c, 1)) return true;
  cf_complain(c, "does not run: %s", r->err.message);
  return false;
}
