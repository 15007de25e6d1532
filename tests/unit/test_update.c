/* The update: same bits whatever the micro-batches, threads and slices; all or nothing. */
#include "net.h"

static neap_id loss_mean(net *n, neap_graph *g, neap_id x, neap_id y) {
  return neap__build2(g, &neap__op_cross_entropy, net_mlp(n, g, x), y);
}

/* Class 3 is not counted: how many count is known only when all samples were seen. */
static neap_id loss_ignore(net *n, neap_graph *g, neap_id x, neap_id y) {
  const neap_op *op = &neap__op_cross_entropy;
  neap_opt opt[NEAP_MAX_OPTS];
  memset(opt, 0, sizeof opt);
  for (uint32_t i = 0; op->opts[i].type; i++)
    if (!strcmp(op->opts[i].name, "ignore_index")) opt[i] = NEAP_INT(3);
  return neap__build(g, op, (neap_id[]){net_mlp(n, g, x), y}, 2, opt);
}

/* Inputs with their mean over the batch taken off: every sample depends on a sum over all. */
static neap_id loss_centred(net *n, neap_graph *g, neap_id x, neap_id y) {
  neap_opt opt[NEAP_MAX_OPTS];
  memset(opt, 0, sizeof opt);
  opt[0] = (neap_opt){.set = 1, .n = 1};
  neap_id h = net_linear(n, g, 0, x);
  neap_id mean = neap__build(g, &neap__op_mean, &h, 1, opt);
  neap_id c = neap__build2(g, &neap__op_sub, h, mean);
  return neap__build2(g, &neap__op_cross_entropy, net_linear(n, g, 1, net_op1(g, &neap__op_tanh, c)), y);
}

/* Weight decay by hand: a part of the loss that no sample has to do with. */
static neap_id loss_penalty(net *n, neap_graph *g, neap_id x, neap_id y) {
  neap_id w = neap__graph_capture(g, &n->params[0]);
  neap_id p = neap__build1(g, &neap__op_sum, net_op1(g, &neap__op_square, w));
  neap_id k = neap__graph_const(g, NEAP_F32, 0.01);
  return neap__build2(g, &neap__op_add, loss_mean(n, g, x, y), neap__build2(g, &neap__op_mul, p, k));
}

/* The same layer twice: two sums over the samples make one gradient. */
static neap_id loss_tied(net *n, neap_graph *g, neap_id x, neap_id y) {
  neap_id a = net_mlp(n, g, x), b = net_mlp(n, g, net_op1(g, &neap__op_square, x));
  return loss_mean(n, g, x, y) == NEAP_NONE
             ? NEAP_NONE
             : neap__build2(g, &neap__op_cross_entropy, neap__build2(g, &neap__op_add, a, b), y);
}

/* Half of the hidden values dropped: a sample's draws are its own, whatever it is computed beside. */
static neap_id loss_dropout(net *n, neap_graph *g, neap_id x, neap_id y) {
  neap_id h = net_op1(g, &neap__op_dropout, net_op1(g, &neap__op_tanh, net_linear(n, g, 0, x)));
  return neap__build2(g, &neap__op_cross_entropy, net_linear(n, g, 1, net_op1(g, &neap__op_dropout, h)), y);
}

static const net_loss losses[] = {loss_dropout, loss_mean, loss_ignore, loss_centred, loss_penalty, loss_tied};
enum { LOSSES = sizeof losses / sizeof losses[0] };

static uint64_t train(net_loss loss, uint32_t threads, int64_t micro, double seconds, double *last) {
  net n;
  net_open(&n, threads, 100, loss, 8, 0);
  net_plan(&n, micro);
  for (int i = 0; i < 5; i++) net_update(&n, seconds);
  *last = neap__update_loss(n.update);
  uint64_t h = net_hash(&n);
  net_close(&n);
  return h;
}

static void whole_slabs_keep_every_bit(void **state) {
  (void)state;
  for (int k = 0; k < LOSSES; k++) {
    double whole_loss, loss;
    uint64_t whole = train(losses[k], 1, 0, INFINITY, &whole_loss);
    assert_true(isfinite(whole_loss));
    const int64_t micros[] = {8, 16, 40, 96, 100};
    for (int m = 0; m < 5; m++) {
      assert_true(whole == train(losses[k], 1, micros[m], INFINITY, &loss));
      assert_true(loss == whole_loss);
    }
  }
}

static void threads_keep_every_bit(void **state) {
  (void)state;
  for (int k = 0; k < LOSSES; k++) {
    double a, b;
    uint64_t one = train(losses[k], 1, 16, INFINITY, &a);
    for (uint32_t t = 2; t <= 8; t += t == 3 ? 5 : 1)
      assert_true(one == train(losses[k], t, 16, INFINITY, &b) && a == b);
  }
}

static void slices_keep_every_bit(void **state) {
  (void)state;
  double a, b;
  uint64_t one = train(loss_mean, 1, 16, INFINITY, &a);
  assert_true(one == train(loss_mean, 1, 16, 0, &b) && a == b);
  assert_true(one == train(loss_mean, 2, 100, 1e-5, &b) && a == b);
}

static void a_slice_of_nothing_does_one_piece(void **state) {
  (void)state;
  net n;
  net_open(&n, 1, 100, loss_mean, 8, 0);
  net_plan(&n, 8);
  assert_true(net_update(&n, 0) > 20);
  net_close(&n);
}

static void training_lowers_the_loss(void **state) {
  (void)state;
  for (int k = 0; k < LOSSES; k++) {
    net n;
    net_open(&n, 2, 100, losses[k], 0, 1.0);
    net_plan(&n, 0);
    net_update(&n, INFINITY);
    double first = neap__update_loss(n.update);
    assert_true(neap__update_grad_norm(n.update) > 0);
    for (int i = 0; i < 100; i++) net_update(&n, INFINITY);
    assert_true(neap__update_loss(n.update) < (losses[k] == loss_dropout ? 1.0 : 0.8) * first);
    net_close(&n);
  }
}

/* Micro-batches of part slabs change the order of sums and say so. */
static void exactness_is_told(void **state) {
  (void)state;
  net n;
  net_open(&n, 1, 100, loss_mean, 8, 0);
  neap_error err = {0};
  neap_update_forecast f;
  const int64_t micro[] = {100, 8, 24, 12};
  const neap_exact exact[] = {NEAP_EXACT_BITS, NEAP_EXACT_BITS, NEAP_EXACT_BITS, NEAP_EXACT_ROUNDING};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(neap__update_predict(n.update, &(neap_update_plan){.micro = micro[i]}, &f, &err), NEAP_OK);
    assert_int_equal(f.exact, exact[i]);
    assert_int_equal(f.grain, 8);
  }
  net_close(&n);
}

static void smaller_micro_batches_need_less(void **state) {
  (void)state;
  net n;
  net_open(&n, 1, 512, loss_mean, 8, 0);
  neap_error err = {0};
  neap_update_forecast f;
  uint64_t before = UINT64_MAX;
  for (int64_t m = 512; m >= 8; m /= 2) {
    assert_int_equal(neap__update_predict(n.update, &(neap_update_plan){.micro = m}, &f, &err), NEAP_OK);
    assert_true(f.memory.activations < before);
    before = f.memory.activations;
    assert_true(f.memory.gradients >= (16 * 12 + 16 + 5 * 16 + 5) * sizeof(float));
    assert_true(f.memory.arena <= f.memory.peak);
  }
  net_close(&n);
}

static void a_dropped_update_leaves_no_trace(void **state) {
  (void)state;
  net n;
  net_open(&n, 2, 100, loss_mean, 8, 0);
  net_plan(&n, 16);
  net_update(&n, INFINITY);
  uint64_t h = net_hash(&n);
  neap_error err = {0};
  bool committed;
  assert_int_equal(net_begin(&n, &err), NEAP_OK);
  for (int i = 0; i < 9; i++) assert_int_equal(neap__update_step(n.update, 0, &committed, &err), NEAP_OK);
  assert_false(committed);
  neap__update_drop(n.update);
  assert_true(h == net_hash(&n));
  assert_int_equal(n.optimizer->step, 1);
  /* What comes after is what would have come without it. */
  net_update(&n, INFINITY);
  uint64_t after = net_hash(&n);
  net_close(&n);
  net_open(&n, 2, 100, loss_mean, 8, 0);
  net_plan(&n, 16);
  net_update(&n, INFINITY);
  net_update(&n, INFINITY);
  assert_true(after == net_hash(&n));
  net_close(&n);
}

static void a_label_out_of_range_changes_nothing(void **state) {
  (void)state;
  net n;
  net_open(&n, 2, 100, loss_mean, 8, 0);
  net_plan(&n, 16);
  uint64_t h = net_hash(&n);
  ((int64_t *)n.y.storage->data)[70] = 5;
  neap_error err = {0};
  bool committed;
  assert_int_equal(net_begin(&n, &err), NEAP_OK);
  assert_int_equal(neap__update_step(n.update, INFINITY, &committed, &err), NEAP_RANGE);
  assert_non_null(strstr(err.message, "holds 5"));
  assert_false(neap__update_running(n.update));
  assert_true(h == net_hash(&n));
  ((int64_t *)n.y.storage->data)[70] = 4;
  net_update(&n, INFINITY);
  assert_true(h != net_hash(&n));
  net_close(&n);
}

static void a_run_takes_no_memory(void **state) {
  (void)state;
  net n;
  net_open(&n, 2, 100, loss_mean, 8, 1.0);
  net_plan(&n, 16);
  net_update(&n, INFINITY);
  neap_memory_stats before, after;
  n.c->pool->vt->stats(n.c->pool, &before);
  uint64_t host = n.c->host.count;
  for (int i = 0; i < 10; i++) net_update(&n, INFINITY);
  n.c->pool->vt->stats(n.c->pool, &after);
  assert_int_equal(host, n.c->host.count);
  assert_int_equal(before.count, after.count);
  net_close(&n);
}

static void the_budget_refuses_before_anything_runs(void **state) {
  (void)state;
  net n;
  net_open(&n, 1, 65536, loss_mean, 8, 0);
  net_plan(&n, 0);
  uint64_t h = net_hash(&n);
  neap_memory_stats s;
  n.c->budget->vt->stats(n.c->budget, &s);
  neap__context_limit(n.c, UINT64_MAX, true);
  n.c->budget->vt->stats(n.c->budget, &s);
  neap__context_limit(n.c, s.in_use + 65536, true);
  neap_error err = {0};
  assert_int_equal(neap__update_reserve(n.update, &err), NEAP_OOM);
  assert_int_equal(net_begin(&n, &err), NEAP_OOM);
  assert_true(h == net_hash(&n));
  net_plan(&n, 8);
  assert_int_equal(neap__update_reserve(n.update, &err), NEAP_OK);
  net_update(&n, INFINITY);
  n.c->budget->vt->stats(n.c->budget, &s);
  assert_true(s.peak <= s.limit || s.in_use <= s.limit);
  net_close(&n);
}

/* Lowered in the middle of an update, for the next one: that one finishes, then the block it ran in is too much. */
static void a_lowered_budget_binds_the_next_update(void **state) {
  (void)state;
  net n;
  net_open(&n, 1, 65536, loss_mean, 8, 0);
  net_plan(&n, 0);
  neap_error err = {0};
  bool committed = false;
  assert_int_equal(net_begin(&n, &err), NEAP_OK);
  assert_int_equal(neap__update_step(n.update, 0, &committed, &err), NEAP_OK);
  neap_memory_stats s;
  n.c->memory->vt->stats(n.c->memory, &s);
  neap__context_limit(n.c, s.in_use - n.c->train.bytes + 65536, false);
  assert_int_equal(neap__update_step(n.update, INFINITY, &committed, &err), NEAP_OK);
  assert_true(committed);
  assert_int_equal(net_begin(&n, &err), NEAP_OOM);
  net_plan(&n, 8);
  net_update(&n, INFINITY);
  n.c->memory->vt->stats(n.c->memory, &s);
  assert_true(s.in_use <= s.limit);
  net_close(&n);
}

static void two_updates_take_turns(void **state) {
  (void)state;
  net n;
  net_open(&n, 1, 100, loss_mean, 8, 0);
  net_plan(&n, 16);
  neap_error err = {0};
  bool committed;
  assert_int_equal(net_begin(&n, &err), NEAP_OK);
  assert_int_equal(neap__update_step(n.update, 0, &committed, &err), NEAP_OK);
  assert_int_equal(net_begin(&n, &err), NEAP_BUSY);
  assert_int_equal(neap__update_plan(n.update, &(neap_update_plan){.micro = 8}, &err), NEAP_BUSY);
  neap__update_drop(n.update);
  assert_int_equal(neap__update_plan(n.update, &(neap_update_plan){.micro = 8}, &err), NEAP_OK);
  net_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_slabs_keep_every_bit),
      cmocka_unit_test(threads_keep_every_bit),
      cmocka_unit_test(slices_keep_every_bit),
      cmocka_unit_test(a_slice_of_nothing_does_one_piece),
      cmocka_unit_test(training_lowers_the_loss),
      cmocka_unit_test(exactness_is_told),
      cmocka_unit_test(smaller_micro_batches_need_less),
      cmocka_unit_test(a_dropped_update_leaves_no_trace),
      cmocka_unit_test(a_label_out_of_range_changes_nothing),
      cmocka_unit_test(a_run_takes_no_memory),
      cmocka_unit_test(the_budget_refuses_before_anything_runs),
      cmocka_unit_test(a_lowered_budget_binds_the_next_update),
      cmocka_unit_test(two_updates_take_turns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
