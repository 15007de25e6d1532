/* What is differentiated: nodes from a mark on, and ops whose gradient ends. */
#include "fail_host.h"
#include "net.h"

#include "op/build.h"

/* An op with a gradient, and its gradient with none. */
static const neap_op probe_grad = {.name = "probe_grad",
                                   .min_in = 2,
                                   .max_in = 2,
                                   .n_out = 1,
                                   .internal = true,
                                   .rule = NEAP_BATCH_ELEMENTWISE,
                                   .infer = neap__infer_same};

static void grad_probe(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  (void)need;
  gin[0] = neap__build2(g, &probe_grad, gout[0], n->in[0]);
}

static const neap_op probe = {
    .name = "probe", .min_in = 1, .max_in = 1, .n_out = 1, .infer = neap__infer_same, .grad = grad_probe};

static neap_graph *graph_of_one(neap_context *c, neap_id *x) {
  neap_graph *g = neap__graph_create(&c->host);
  const neap_desc d = {.dtype = NEAP_F64};
  assert_non_null(g);
  *x = neap__graph_input(g, &d);
  return g;
}

static void an_op_without_a_second_gradient_is_named(void **state) {
  (void)state;
  neap_context *c = net_context(1, 0);
  neap_id x, once, twice;
  neap_graph *g = graph_of_one(c, &x);
  neap__graph_where(g, "block", "script.lua:12");
  const neap_id y = neap__build1(g, &probe, x);
  neap__graph_where(g, "", "script.lua:20");
  neap__gradient(g, y, NEAP_NONE, &x, 1, &once);
  assert_int_equal(g->error.status, NEAP_OK);
  assert_int_not_equal(once, NEAP_NONE);
  neap__graph_where(g, "", "script.lua:21");
  neap__gradient(g, once, NEAP_NONE, &x, 1, &twice);
  assert_int_equal(g->error.status, NEAP_UNSUPPORTED);
  assert_string_equal(g->error.op, "probe");
  assert_string_equal(g->error.where, "script.lua:12");
  assert_string_equal(g->error.message, "its gradient has no gradient of its own");
  assert_int_equal(twice, NEAP_NONE);
  neap__graph_drop(g);
  neap__context_destroy(c);
}

static void nodes_before_the_mark_are_constant(void **state) {
  (void)state;
  neap_context *c = net_context(1, 0);
  neap_id x, all, since;
  neap_graph *g = graph_of_one(c, &x);
  const neap_id before = neap__build1(g, &neap__op_square, x);
  const uint32_t mark = g->n_nodes;
  const neap_id y = neap__build2(g, &neap__op_mul, before, x);
  neap__gradient_since(g, mark, y, NEAP_NONE, &x, 1, &since);
  neap__gradient(g, y, NEAP_NONE, &x, 1, &all);
  /* What was computed before, unchanged, reaches nothing. */
  neap_id none = 0;
  neap__gradient_since(g, g->n_nodes, before, NEAP_NONE, &x, 1, &none);
  assert_int_equal(none, NEAP_NONE);
  neap__graph_output(g, since);
  neap__graph_output(g, all);
  neap_program *p = NULL;
  neap_error err = {0};
  assert_int_equal(neap__program_create(c, &(neap_program_spec){.graph = g}, &p, &err), NEAP_OK);
  double at = 3, out[2] = {0};
  const void *inputs[] = {&at};
  void *outputs[] = {&out[0], &out[1]};
  assert_int_equal(neap__program_run(p, inputs, outputs, &err), NEAP_OK);
  assert_true(out[0] == 9 && out[1] == 27);
  neap__program_destroy(p);
  neap__graph_drop(g);
  neap__context_destroy(c);
}

/* Builds a function and its second derivative; what was refused is told, and nothing is given. */
static void a_refused_allocation_is_told(void **state) {
  (void)state;
  fail_host h;
  uint64_t refused = 0;
  neap_status st = NEAP_NOMEM;
  for (uint64_t n = 1; st != NEAP_OK; n++) {
    neap_id x = NEAP_NONE, once = 0, twice = 0;
    const neap_desc d = {.dtype = NEAP_F64};
    fail_host_init(&h);
    h.until = n;
    neap_graph *g = neap__graph_create(&h.host);
    if (g) {
      x = neap__graph_input(g, &d);
      neap_id y = x;
      for (int i = 0; i < 40; i++) y = neap__build1(g, &neap__op_tanh, y);
      const uint32_t mark = g->n_nodes - 20;
      neap__gradient(g, y, NEAP_NONE, &x, 1, &once);
      neap__gradient_since(g, mark, once, NEAP_NONE, &x, 1, &twice);
      st = g->error.status;
      if (st != NEAP_OK) assert_int_equal(twice, NEAP_NONE);
    }
    refused += st == NEAP_NOMEM;
    neap__graph_drop(g);
    assert_int_equal(h.blocks, 0);
  }
  assert_true(refused > 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_op_without_a_second_gradient_is_named),
      cmocka_unit_test(nodes_before_the_mark_are_constant),
      cmocka_unit_test(a_refused_allocation_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
