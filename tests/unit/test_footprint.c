/* What a run takes beyond its plan: nothing of the engine's, and of the libraries little, constant and given
 * back before it returns. */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define COUNTS 0
#else
#define COUNTS 1
/* glibc's own names let this program count every malloc of its libraries, oneDNN's included. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static _Atomic long taken, given;

#pragma GCC visibility push(default)

void *malloc(size_t n) {
  taken++;
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
  taken++;
  return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
  if (!p) taken++;
  return __libc_realloc(p, n);
}
void *memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n) {
  taken++;
  return __libc_memalign(align, n);
}
void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
int posix_memalign(void **out, size_t align, size_t n) {
  *out = memalign(align, n);
  return *out ? 0 : 12;
}
void free(void *p) {
  if (p) given++;
  __libc_free(p);
}
#pragma GCC visibility pop
#endif

#define SIDE 28
#define BATCH 64

static neap_id conv(net *n, neap_graph *g, uint32_t layer, neap_id x) {
  neap_id w = neap__graph_capture(g, &n->params[2 * layer]), b = neap__graph_capture(g, &n->params[2 * layer + 1]);
  return net_op1(g, &neap__op_relu, neap__build3(g, &neap__op_conv2d, x, w, b));
}

static neap_id cnn(net *n, neap_graph *g, neap_id x, neap_id y) {
  neap_opt opt[NEAP_MAX_OPTS];
  memset(opt, 0, sizeof opt);
  opt[0] = (neap_opt){.set = 1, .v.i = 1};
  neap_id h = conv(n, g, 1, conv(n, g, 0, x));
  h = neap__build(g, &neap__op_flatten, &h, 1, opt);
  return neap__build2(g, &neap__op_cross_entropy, net_linear(n, g, 2, h), y);
}

static void cnn_open(net *n, uint32_t threads, int64_t batch) {
  memset(n, 0, sizeof *n);
  n->c = net_context(threads, 0);
  const int64_t dims[6][4] = {{16, 1, 3, 3}, {16}, {32, 16, 3, 3}, {32}, {10, 32 * 24 * 24}, {10}};
  const int32_t ndim[6] = {4, 1, 4, 1, 2, 1};
  for (uint32_t i = 0; i < 6; i++) {
    n->params[i] = net_tensor(n->c, NEAP_F32, dims[i], ndim[i]);
    net_fill(n->params[i].storage->data, neap__shape_count(&n->params[i].shape), i + 1);
  }
  n->n_params = 6;
  n->x = net_tensor(n->c, NEAP_F32, (int64_t[]){batch, 1, SIDE, SIDE}, 4);
  n->y = net_tensor(n->c, NEAP_I64, &batch, 1);
  net_fill(n->x.storage->data, batch * SIDE * SIDE, 7);
  for (int64_t i = 0; i < batch; i++) ((int64_t *)n->y.storage->data)[i] = i % 10;
  net_finish(n, batch, cnn, 0, 0);
}

static void a_run_allocates_nothing_that_stays(void **state) {
  (void)state;
#if COUNTS
  net n;
  cnn_open(&n, 2, BATCH);
  net_plan(&n, 16);
  for (int i = 0; i < 3; i++) net_update(&n, INFINITY);
  assert_true(taken > 1000); /* planning does allocate: the count sees it */
  long took[4];
  for (int i = 0; i < 4; i++) {
    long t = taken, g = given;
    net_update(&n, INFINITY);
    took[i] = taken - t;
    assert_int_equal(took[i], given - g);
  }
  for (int i = 1; i < 4; i++) assert_int_equal(took[i], took[0]);
  print_message("libraries allocate %ld times a run, and give all back\n", took[0]);
  assert_true(took[0] < 2000);
  net_close(&n);
#else
  skip();
#endif
}

static void the_high_water_mark_is_the_plan(void **state) {
  (void)state;
  net n;
  cnn_open(&n, 2, BATCH);
  net_plan(&n, 16);
  neap_update_forecast f;
  neap__update_forecast(n.update, &f);
  const size_t plan = (size_t)f.memory.arena, more = 1u << 20;
  neap_error err = {0};
  assert_int_equal(neap__arena_take(&n.c->train, &n, plan + more, &err), NEAP_OK);
  memset(n.c->train.base, 0xB7, plan + more);
  neap__arena_return(&n.c->train, &n);
  net_update(&n, INFINITY);
  const unsigned char *at = n.c->train.base;
  assert_true(n.c->train.bytes == plan + more);
  size_t high = plan + more;
  while (high > 0 && at[high - 1] == 0xB7) high--;
  print_message("planned %zu bytes, touched up to %zu\n", plan, high);
  assert_true(high <= plan);
  assert_true(high + plan / 100 + 4096 >= plan);
  net_close(&n);
}

static size_t resident(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  long total = 0, pages = 0;
  assert_non_null(f);
  assert_int_equal(fscanf(f, "%ld %ld", &total, &pages), 2);
  fclose(f);
  return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The first update also pays for JIT code and what the libraries keep: the published overhead. */
#define OVERHEAD ((size_t)24 << 20)

static void resident_memory_grows_by_the_plan(void **state) {
  (void)state;
#if COUNTS
  net n;
  cnn_open(&n, 2, 1024);
  size_t before = resident();
  net_plan(&n, 0);
  neap_update_forecast f;
  neap__update_forecast(n.update, &f);
  for (int i = 0; i < 2; i++) net_update(&n, INFINITY);
  size_t grown = resident() - before;
  print_message("planned %zu bytes, resident grew by %zu\n", (size_t)f.memory.arena, grown);
  assert_true(grown <= f.memory.arena + f.memory.arena * 3 / 100 + OVERHEAD);
  net_close(&n);
#else
  skip();
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_allocates_nothing_that_stays),
      cmocka_unit_test(the_high_water_mark_is_the_plan),
      cmocka_unit_test(resident_memory_grows_by_the_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
