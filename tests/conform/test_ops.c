/* Conformance of ops: every op of the table, by its record's samples.
 *
 *   test_ops            all ops
 *   test_ops NAME...    these
 *   test_ops --list     their names, one a line */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "op/op.h"

typedef struct check {
  const char *name;
  void (*fn)(const cf_case *c);
  bool once; /* for the first sample only */
} check;

static const check checks[] = {
    {"its record is complete", cf_check_record, true},
    {"results", cf_check_forward, false},
    {"its parts", cf_check_unfused, false},
    {"gradients", cf_check_gradient, false},
    {"gradients of gradients", cf_check_higher, false},
    {"zero-size, size 1, broadcast", cf_check_shapes, false},
    {"special and large values", cf_check_values, false},
    {"in place", cf_check_inplace, false},
    {"permuted and channels innermost", cf_check_layouts, false},
    {"micro-batches", cf_check_batch, false},
    {"threads and slices", cf_check_threads, false},
    {"refusals", cf_check_refusals, false},
    {"host memory refused", cf_check_memory, true},
};
enum { CHECKS = sizeof checks / sizeof checks[0] };

typedef struct job {
  const neap_op *op;
  const check *check;
  char name[96];
} job;

static void run_job(void **state) {
  const job *j = *state;
  cf_case c;
  assert_non_null(j->op->samples);
  assert_non_null(j->op->samples[0]);
  for (const char *const *s = j->op->samples; *s; s++) {
    cf_parse(&c, j->op, *s);
    j->check->fn(&c);
    if (j->check->once) break;
  }
  assert_int_equal(cf_complaints(), 0);
}

static int close_engines(void **state) {
  (void)state;
  cf_close_engines();
  return 0;
}

static int run_ops(const neap_op *const *ops, uint32_t n) {
  job *jobs = calloc((size_t)n * CHECKS, sizeof *jobs);
  struct CMUnitTest *tests = calloc((size_t)n * CHECKS, sizeof *tests);
  for (uint32_t i = 0; jobs && tests && i < n * CHECKS; i++) {
    job *j = &jobs[i];
    j->op = ops[i / CHECKS];
    j->check = &checks[i % CHECKS];
    snprintf(j->name, sizeof j->name, "%s: %s", j->op->name, j->check->name);
    tests[i] = (struct CMUnitTest){j->name, run_job, NULL, NULL, j};
  }
  int failed = 1;
  if (jobs && tests) failed = _cmocka_run_group_tests("ops", tests, (size_t)n * CHECKS, NULL, close_engines);
  cf_print_notes();
  free(tests);
  free(jobs);
  return failed;
}

int main(int argc, char **argv) {
  const neap_op *named[64];
  if (argc > 1 && strcmp(argv[1], "--list") == 0) {
    for (uint32_t i = 0; i < neap__op_count; i++) puts(neap__ops[i]->name);
    return 0;
  }
  for (int i = 1; i < argc && i <= 64; i++) {
    named[i - 1] = neap__op_find(argv[i]);
    if (named[i - 1]) continue;
    fprintf(stderr, "there is no op '%s'\n", argv[i]);
    return 2;
  }
  return argc > 1 ? run_ops(named, (uint32_t)(argc - 1)) : run_ops(neap__ops, neap__op_count);
}
