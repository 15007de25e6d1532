/* Small networks built in C, for tests of plans and updates. */
#ifndef NEAP_TESTS_NET_H
#define NEAP_TESTS_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "op/op.h"
#include "train/update.h"

static inline neap_context *net_context(uint32_t threads, uint64_t limit) {
  neap_config config = {.size = sizeof config, .device = "cpu", .threads = threads, .memory_limit = limit};
  neap_context *c = NULL;
  neap_error err = {0};
  neap_status s = neap__context_create(&config, &c, &err);
  if (s != NEAP_OK) print_error("%s\n", err.message);
  assert_int_equal(s, NEAP_OK);
  return c;
}

/* Numbers that look random and are the same everywhere. */
static inline void net_fill(float *x, int64_t n, uint64_t seed) {
  neap_rng r = {.seed = seed};
  for (int64_t i = 0; i < n; i++) x[i] = (float)(neap__rng_uniform(&r) - 0.5);
}

static inline neap_tensor net_tensor(neap_context *c, neap_dtype t, const int64_t *dim, int32_t ndim) {
  neap_desc d = {.dtype = t, .shape = {.ndim = ndim}};
  for (int32_t i = 0; i < ndim; i++) d.shape.dim[i] = dim[i];
  neap_tensor x;
  neap_error err = {0};
  assert_int_equal(neap__context_tensor(c, &d, NEAP_OWNER_TENSORS, &x, &err), NEAP_OK);
  return x;
}

#define NET_PARAMS 6
typedef struct net {
  neap_context *c;
  neap_tensor params[NET_PARAMS];
  uint32_t n_params;
  neap_optimizer *optimizer;
  neap_update *update;
  neap_tensor x, y;
  int64_t batch;
} net;

static inline neap_id net_op1(neap_graph *g, const neap_op *op, neap_id a) { return neap__build1(g, op, a); }

typedef neap_id (*net_loss)(net *n, neap_graph *g, neap_id x, neap_id y);

static inline neap_id net_linear(net *n, neap_graph *g, uint32_t layer, neap_id x) {
  neap_id w = neap__graph_capture(g, &n->params[2 * layer]), b = neap__graph_capture(g, &n->params[2 * layer + 1]);
  return neap__build3(g, &neap__op_linear, x, w, b);
}

/* A two-layer perceptron 12 -> 16 -> 5. */
static inline neap_id net_mlp(net *n, neap_graph *g, neap_id x) {
  return net_linear(n, g, 1, net_op1(g, &neap__op_tanh, net_linear(n, g, 0, x)));
}

static inline void net_params(net *n) {
  const int64_t dims[4][2] = {{16, 12}, {16, 0}, {5, 16}, {5, 0}};
  for (uint32_t i = 0; i < 4; i++) {
    n->params[i] = net_tensor(n->c, NEAP_F32, dims[i], i % 2 ? 1 : 2);
    net_fill(n->params[i].storage->data, neap__shape_count(&n->params[i].shape), i + 1);
  }
  n->n_params = 4;
}

static inline void net_data(net *n, int64_t batch) {
  n->x = net_tensor(n->c, NEAP_F32, (int64_t[]){batch, 12}, 2);
  n->y = net_tensor(n->c, NEAP_I64, &batch, 1);
  net_fill(n->x.storage->data, batch * 12, 77);
  for (int64_t i = 0; i < batch; i++) ((int64_t *)n->y.storage->data)[i] = (i * 7 + i / 3) % 5;
}

/* Optimizer and update over what the net has so far: params, x and y. */
static inline void net_finish(net *n, int64_t batch, net_loss loss, int64_t grain, double clip) {
  neap_error err = {0};
  neap_hyper h = {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true};
  uint32_t group[NET_PARAMS] = {0};
  n->batch = batch;
  assert_int_equal(neap__optimizer_create(n->c, NEAP_SGD, n->params, group, n->n_params, &h, 1, &n->optimizer, &err),
                   NEAP_OK);
  neap_graph *g = neap__graph_create(&n->c->host);
  assert_non_null(g);
  neap_desc dx = neap__tensor_desc(&n->x), dy = neap__tensor_desc(&n->y);
  neap_id x = neap__graph_input(g, &dx), y = neap__graph_input(g, &dy);
  neap__graph_output(g, loss(n, g, x, y));
  int32_t dims[2] = {0, 0};
  neap_update_spec spec = {
      .graph = g, .optimizer = n->optimizer, .input_batch = dims, .batch = batch, .grain = grain, .clip_norm = clip};
  neap_status s = neap__update_create(n->c, &spec, &n->update, &err);
  if (s != NEAP_OK) print_error("%s: %s\n", err.op, err.message);
  assert_int_equal(s, NEAP_OK);
  neap__graph_drop(g);
}

static inline void net_open(net *n, uint32_t threads, int64_t batch, net_loss loss, int64_t grain, double clip) {
  memset(n, 0, sizeof *n);
  n->c = net_context(threads, 0);
  net_params(n);
  net_data(n, batch);
  net_finish(n, batch, loss, grain, clip);
}

static inline void net_close(net *n) {
  neap__update_destroy(n->update);
  neap__optimizer_destroy(n->optimizer);
  for (uint32_t i = 0; i < n->n_params; i++) neap__storage_drop(n->params[i].storage);
  neap__storage_drop(n->x.storage);
  neap__storage_drop(n->y.storage);
  neap__context_destroy(n->c);
}

static inline void net_plan(net *n, int64_t micro) {
  neap_error err = {0};
  neap_status s = neap__update_plan(n->update, &(neap_update_plan){.micro = micro}, &err);
  if (s != NEAP_OK) print_error("%s: %s\n", err.op, err.message);
  assert_int_equal(s, NEAP_OK);
}

static inline neap_status net_begin(net *n, neap_error *err) {
  static const void *inputs[2];
  inputs[0] = n->x.storage->data;
  inputs[1] = n->y.storage->data;
  return neap__update_begin(n->update, inputs, NULL, err);
}

/* One update in slices of `seconds`; returns how many it took. */
static inline int net_update(net *n, double seconds) {
  neap_error err = {0};
  assert_int_equal(net_begin(n, &err), NEAP_OK);
  bool committed = false;
  int slices = 0;
  while (!committed) {
    neap_status s = neap__update_step(n->update, seconds, &committed, &err);
    if (s != NEAP_OK) print_error("%s: %s\n", err.op, err.message);
    assert_int_equal(s, NEAP_OK);
    slices++;
  }
  return slices;
}

static inline uint64_t net_hash(const net *n) {
  uint64_t h = 14695981039346656037u;
  for (uint32_t i = 0; i < n->n_params; i++) {
    const unsigned char *p = n->params[i].storage->data;
    for (size_t k = 0; k < n->params[i].storage->bytes; k++) h = (h ^ p[k]) * 1099511628211u;
  }
  return h;
}

#endif
