/* Where normalization and attention keep their samples, what their gradients add up, and what composites refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"

enum { BATCH = 6, MOST = 8 };

typedef struct built {
  neap_host host;
  neap_graph *g;
  neap_batch in[MOST], out[NEAP_MAX_OUT];
  neap_id ids[MOST];
  uint32_t n;
  neap_status status;
} built;

static const neap_batch constant = {.kind = NEAP_B_CONST};
static neap_batch samples(int32_t dim, int64_t per) { return (neap_batch){NEAP_B_SAMPLE, dim, per}; }

static void begin(built *b) {
  memset(b, 0, sizeof *b);
  neap__host_init(&b->host, NULL, NULL);
  b->g = neap__graph_create(&b->host);
  assert_non_null(b->g);
}

static void end(built *b) {
  neap__graph_drop(b->g);
  assert_int_equal(b->host.in_use, 0);
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

static void apply(built *b, const neap_op *op, const neap_opt *opt) {
  const neap_id id = neap__build(b->g, op, b->ids, b->n, opt);
  if (id == NEAP_NONE) fail_msg("%s: %s", op->name, b->g->error.message);
  b->status = op->batch(b->g, b->g->nodes[b->g->n_nodes - 1], b->in, b->out);
  end(b);
}

static void gives(const built *b, uint32_t o, neap_batch_kind kind, int32_t dim, int64_t per) {
  assert_int_equal(b->status, NEAP_OK);
  assert_int_equal(b->out[o].kind, kind);
  if (kind != NEAP_B_SAMPLE && kind != NEAP_B_MIX) return;
  assert_int_equal(b->out[o].dim, dim);
  assert_int_equal(b->out[o].per, per);
}

#define OPTS(...) ((neap_opt[NEAP_MAX_OPTS]){__VA_ARGS__})

static void rows_keep_their_samples(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, samples(0, 1), 3, BATCH, 4, 5), input(&b, constant, 1, 5),
      apply(&b, &neap__op_standardize, NULL);
  for (uint32_t o = 0; o < 3; o++) gives(&b, o, NEAP_B_SAMPLE, 0, 1);
  begin(&b), input(&b, samples(1, 2), 3, 4, 2 * BATCH, 5), apply(&b, &neap__op_standardize, NULL);
  gives(&b, 1, NEAP_B_SAMPLE, 1, 2);
  begin(&b), input(&b, samples(1, 1), 2, 4, BATCH), apply(&b, &neap__op_standardize, NULL);
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(1, 1), 3, 4, BATCH, 5);
  apply(&b, &neap__op_standardize, OPTS(NEAP_INT(1), NEAP_INT(2)));
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 5), input(&b, samples(0, 1), 2, BATCH, 5);
  input(&b, samples(0, 1), 1, BATCH), input(&b, samples(0, 1), 1, BATCH);
  apply(&b, &neap__op_standardize_grad_weight, NULL);
  gives(&b, 0, NEAP_B_SUM, 0, 0), gives(&b, 1, NEAP_B_SUM, 0, 0);
  begin(&b), input(&b, constant, 2, BATCH, 5), apply(&b, &neap__op_standardize, NULL);
  gives(&b, 0, NEAP_B_CONST, 0, 0);
}

static void channels_mix_samples(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, samples(0, 1), 3, BATCH, 4, 5), input(&b, constant, 1, 4);
  apply(&b, &neap__op_batch_norm_train, NULL);
  gives(&b, 0, NEAP_B_MIX, 0, 1), gives(&b, 1, NEAP_B_SUM, 0, 0), gives(&b, 2, NEAP_B_SUM, 0, 0);
  begin(&b), input(&b, samples(0, 1), 2, BATCH, 4), input(&b, samples(0, 1), 2, BATCH, 4);
  apply(&b, &neap__op_batch_norm_grad, NULL);
  gives(&b, 0, NEAP_B_MIX, 0, 1), gives(&b, 1, NEAP_B_SUM, 0, 0);
  begin(&b), input(&b, samples(1, 1), 3, 4, BATCH, 5), apply(&b, &neap__op_batch_norm_train, NULL);
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
}

static void heads_keep_their_samples(void **state) {
  built b;
  (void)state;
  begin(&b);
  for (int i = 0; i < 3; i++) input(&b, samples(0, 1), 4, BATCH, 2, 5, 4);
  input(&b, constant, 2, 5, 5);
  apply(&b, &neap__op_attention, NULL);
  gives(&b, 0, NEAP_B_SAMPLE, 0, 1), gives(&b, 1, NEAP_B_SAMPLE, 0, 1);
  begin(&b);
  for (int i = 0; i < 3; i++) input(&b, samples(0, 2), 3, 2 * BATCH, 5, 4);
  input(&b, constant, 3, 2 * BATCH, 5, 5); /* would have to be cut */
  apply(&b, &neap__op_attention, NULL);
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
  begin(&b);
  for (int i = 0; i < 3; i++) input(&b, samples(0, 1), 3, BATCH, 5, 4);
  input(&b, samples(0, 1), 3, BATCH, 1, 5);
  apply(&b, &neap__op_attention, NULL);
  gives(&b, 0, NEAP_B_SAMPLE, 0, 1);
  begin(&b);
  for (int i = 0; i < 3; i++) input(&b, samples(1, 1), 3, 2, BATCH, 4); /* along the sequence */
  apply(&b, &neap__op_attention, NULL);
  assert_int_equal(b.status, NEAP_UNSUPPORTED);
}

static void statistics_come_from_the_node_there_is(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, constant, 2, BATCH, 3);
  neap__build(b.g, &neap__op_batch_norm, b.ids, 1, OPTS(NEAP_INT(1)));
  neap__build1(b.g, &neap__op_batch_mean, b.ids[0]);
  neap__build1(b.g, &neap__op_batch_var, b.ids[0]);
  uint32_t nodes = 0;
  for (uint32_t i = 0; i < b.g->n_nodes; i++) nodes += b.g->nodes[i]->op == &neap__op_batch_norm_train;
  assert_int_equal(nodes, 1);
  end(&b);
}

static void refused(built *b, const neap_op *op, const neap_opt *opt, neap_status status, const char *words) {
  assert_int_equal(neap__build(b->g, op, b->ids, b->n, opt), NEAP_NONE);
  assert_int_equal(b->g->error.status, status);
  assert_string_equal(b->g->error.op, op->name);
  if (!strstr(b->g->error.message, words)) fail_msg("no \"%s\" in \"%s\"", words, b->g->error.message);
  end(b);
}

static void composites_name_what_does_not_fit(void **state) {
  built b;
  (void)state;
  begin(&b), input(&b, constant, 2, 3, 5), input(&b, constant, 1, 4);
  refused(&b, &neap__op_layer_norm, NULL, NEAP_SHAPE, "does not end in the normalized shape [4]");
  begin(&b), input(&b, constant, 2, 3, 5);
  refused(&b, &neap__op_instance_norm, NULL, NEAP_SHAPE, "[3, 5]");
  begin(&b), input(&b, constant, 2, 3, 5), input(&b, constant, 1, 5);
  refused(&b, &neap__op_batch_norm, OPTS(NEAP_INT(1)), NEAP_INVALID, "2 inputs");
  begin(&b), input(&b, constant, 2, 3, 5), input(&b, constant, 1, 4), input(&b, constant, 1, 4);
  refused(&b, &neap__op_batch_norm, NULL, NEAP_SHAPE, "input 2 is fp32 [4], expected fp32 [5]");
  begin(&b), input(&b, constant, 2, 3, 5), input(&b, constant, 3, 4, 3, 2);
  refused(&b, &neap__op_conv1d, NULL, NEAP_SHAPE, "[3, 5]");
  begin(&b), input(&b, constant, 4, 1, 2, 3, 3), input(&b, constant, 4, 2, 3, 2, 2), input(&b, constant, 1, 2);
  refused(&b, &neap__op_conv_transpose2d, NULL, NEAP_SHAPE, "bias [2], expected [3]");
  begin(&b), input(&b, constant, 4, 1, 2, 3, 3), input(&b, constant, 4, 2, 3, 2, 2);
  refused(&b, &neap__op_conv_transpose2d, OPTS({0}, {0}, {.set = 1, .n = 2, .v.list = {1, 1}}), NEAP_RANGE,
          "`output_padding` is 1");
  begin(&b), input(&b, constant, 4, 1, 2, 3, 3);
  refused(&b, &neap__op_upsample_nearest2d, NULL, NEAP_INVALID, "neither");
  begin(&b), input(&b, constant, 4, 1, 2, 3, 3);
  refused(&b, &neap__op_upsample_bilinear2d, OPTS({0}, NEAP_FLOAT(0.1)), NEAP_RANGE, "`scale_factor` is 0.1");
  begin(&b), input(&b, constant, 3, 2, 5, 4), input(&b, constant, 3, 3, 5, 4), input(&b, constant, 3, 3, 5, 4);
  refused(&b, &neap__op_scaled_dot_product_attention, NULL, NEAP_SHAPE, "in front");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_keep_their_samples),           cmocka_unit_test(channels_mix_samples),
      cmocka_unit_test(heads_keep_their_samples),          cmocka_unit_test(statistics_come_from_the_node_there_is),
      cmocka_unit_test(composites_name_what_does_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
