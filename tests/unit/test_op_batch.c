/* Where an op's result keeps its samples: the batch rules of elementwise, shape and reduction ops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"

enum { BATCH = 6 };

typedef struct built {
  neap_host host;
  neap_graph *g;
  neap_batch in[4], out[NEAP_MAX_OUT];
  neap_id ids[4];
  uint32_t n;
  neap_status status;
} built;

static void begin(built *b) {
  memset(b, 0, sizeof *b);
  neap__host_init(&b->host, NULL, NULL);
  b->g = neap__graph_create(&b->host);
  assert_non_null(b->g);
}

static void input(built *b, neap_batch batch, int ndim, ...) {
  neap_desc d = {.dtype = NEAP_F32, .shape = {.ndim = ndim}};
  va_list args;
  va_start(args, ndim);
  for (int i = 0; i < ndim; i++) d.shape.dim[i] = va_arg(args, int);
  va_end(args);
  b->in[b->n] = batch;
  b->ids[b->n++] = neap__graph_input(b->g, &d);
}

/* Applies the op and its rule, and ends the graph. */
static void apply(built *b, const neap_op *op, const neap_opt *opt) {
  neap_id id = neap__build(b->g, op, b->ids, b->n, opt);
  if (id == NEAP_NONE) fail_msg("%s: %s", op->name, b->g->error.message);
  const neap_node *n = b->g->nodes[b->g->n_nodes - 1];
  b->status = op->batch(b->g, n, b->in, b->out);
  neap__graph_drop(b->g);
  assert_int_equal(b->host.in_use, 0);
}

static const neap_batch constant = {.kind = NEAP_B_CONST}, total = {.kind = NEAP_B_SUM};
static neap_batch samples(int32_t dim, int64_t per) { return (neap_batch){NEAP_B_SAMPLE, dim, per}; }
static neap_batch mixed(int32_t dim) { return (neap_batch){NEAP_B_MIX, dim, 1}; }

static void gives(const built *b, neap_batch_kind kind, int32_t dim, int64_t per) {
  assert_int_equal(b->status, NEAP_OK);
  assert_int_equal(b->out[0].kind, kind);
  if (kind != NEAP_B_SAMPLE && kind != NEAP_B_MIX) return;
  assert_int_equal(b->out[0].dim, dim);
  assert_int_equal(b->out[0].per, per);
}

#define OPTS(...) ((neap_opt[NEAP_MAX_OPTS]){__VA_ARGS__})
#define LIST(...) \
  ((neap_opt){.set = 1, .n = (uint8_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .v.list = {__VA_ARGS__}})

static void elementwise_aligns_from_the_right(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 3), input(&b, constant, 1, 3), apply(&b, &neap__op_add, NULL);
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 1, BATCH), input(&b, constant, 2, 4, 1), apply(&b, &neap__op_add, NULL);
  gives(&b, NEAP_B_SAMPLE, 1, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 3), input(&b, samples(0, 1), 2, BATCH, 1),
      apply(&b, &neap__op_mul, NULL);
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 3), input(&b, mixed(0), 2, BATCH, 3), apply(&b, &neap__op_mul, NULL);
  gives(&b, NEAP_B_MIX, 0, 1);
  begin(&b), input(&b, constant, 1, 3), input(&b, total, 1, 3), apply(&b, &neap__op_mul, NULL);
  gives(&b, NEAP_B_SUM, 0, 0);
  begin(&b), input(&b, constant, 1, 3), input(&b, constant, 1, 3), apply(&b, &neap__op_mul, NULL);
  gives(&b, NEAP_B_CONST, 0, 0);
}

static void elementwise_refuses_what_it_cannot_cut(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 3), input(&b, total, 1, 3), apply(&b, &neap__op_add, NULL);
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 3), input(&b, constant, 2, BATCH, 3), apply(&b, &neap__op_add, NULL);
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, BATCH), input(&b, samples(0, 1), 1, BATCH);
  apply(&b, &neap__op_add, NULL);
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(0, 2), 1, 2 * BATCH), input(&b, samples(0, 1), 1, 2 * BATCH);
  apply(&b, &neap__op_add, NULL);
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
}

static void reshape_keeps_samples_together(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, samples(0, 1), 3, BATCH, 4, 5), apply(&b, &neap__op_reshape, OPTS(LIST(BATCH, 20)));
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 3, BATCH, 4, 5), apply(&b, &neap__op_reshape, OPTS(LIST(4 * BATCH, 5)));
  gives(&b, NEAP_B_SAMPLE, 0, 4);
  begin(&b), input(&b, samples(0, 4), 2, 4 * BATCH, 5), apply(&b, &neap__op_reshape, OPTS(LIST(BATCH, 4, 5)));
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), apply(&b, &neap__op_reshape, OPTS(LIST(1, BATCH, 5)));
  gives(&b, NEAP_B_SAMPLE, 1, 1);
  begin(&b), input(&b, samples(1, 1), 3, 7, BATCH, 5), apply(&b, &neap__op_reshape, OPTS(LIST(7, 5 * BATCH)));
  gives(&b, NEAP_B_SAMPLE, 1, 5);
  begin(&b), input(&b, samples(1, 1), 2, 5, BATCH), apply(&b, &neap__op_reshape, OPTS(LIST(-1)));
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 4), apply(&b, &neap__op_reshape, OPTS(LIST(4, BATCH)));
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
}

static void shape_ops_follow_the_batch(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, samples(0, 1), 3, BATCH, 4, 5), apply(&b, &neap__op_permute, OPTS(LIST(2, 0, 1)));
  gives(&b, NEAP_B_SAMPLE, 1, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 1), apply(&b, &neap__op_expand, OPTS(LIST(3, -1, 4)));
  gives(&b, NEAP_B_SAMPLE, 1, 1);
  begin(&b), input(&b, constant, 0), input(&b, samples(0, 1), 2, BATCH, 3), apply(&b, &neap__op_expand_as, NULL);
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5);
  apply(&b, &neap__op_narrow, OPTS(NEAP_INT(1), NEAP_INT(1), NEAP_INT(2)));
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5);
  apply(&b, &neap__op_narrow, OPTS(NEAP_INT(0), NEAP_INT(1), NEAP_INT(2)));
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), apply(&b, &neap__op_pad_value, OPTS(LIST(1, 1)));
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), apply(&b, &neap__op_pad_value, OPTS(LIST(0, 0, 1, 0)));
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), input(&b, samples(0, 1), 2, BATCH, 2);
  apply(&b, &neap__op_concat, OPTS(NEAP_INT(1)));
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), input(&b, constant, 2, BATCH, 2);
  apply(&b, &neap__op_concat, OPTS(NEAP_INT(1)));
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
}

static void reductions_sum_over_samples(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), apply(&b, &neap__op_sum, NULL);
  gives(&b, NEAP_B_SUM, 0, 0);
  begin(&b), input(&b, mixed(0), 2, BATCH, 5), apply(&b, &neap__op_sum, OPTS(LIST(0)));
  gives(&b, NEAP_B_SUM, 0, 0);
  begin(&b), input(&b, samples(1, 1), 3, 4, BATCH, 5), apply(&b, &neap__op_sum, OPTS(LIST(0)));
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(1, 1), 3, 4, BATCH, 5), apply(&b, &neap__op_sum, OPTS(LIST(0, 2), NEAP_INT(1)));
  gives(&b, NEAP_B_SAMPLE, 1, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), apply(&b, &neap__op_amax, OPTS(LIST(0)));
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), apply(&b, &neap__op_softmax, OPTS(NEAP_INT(1)));
  gives(&b, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), apply(&b, &neap__op_softmax, OPTS(NEAP_INT(0)));
  gives(&b, NEAP_B_MIX, 0, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise_aligns_from_the_right), cmocka_unit_test(elementwise_refuses_what_it_cannot_cut),
      cmocka_unit_test(reshape_keeps_samples_together),    cmocka_unit_test(shape_ops_follow_the_batch),
      cmocka_unit_test(reductions_sum_over_samples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
