/* Runs single ops on a backend, for tests of kernels. Failures end the test. */
#ifndef NEAP_TESTS_SUPPORT_KERNELS_H
#define NEAP_TESTS_SUPPORT_KERNELS_H

#include "backend/backend.h"

#define KT_MAX 40

typedef struct kt_value {
  neap_desc desc;
  neap_layout layout;
  neap_batch batch;
  void *data; /* NEAP_ALIGN-aligned; NULL only before kt_alloc */
} kt_value;

typedef struct kt_call {
  const neap_op *op;
  neap_opt opt[NEAP_MAX_OPTS];
  uint32_t n_in, n_out;
  kt_value in[KT_MAX], out[NEAP_MAX_OUT];
  int64_t slab;
  uint32_t flags; /* NEAP_LAUNCH_* */
  bool reverse;   /* tasks from the last to the first, one by one */
  neap_fault fault;
} kt_call;

neap_backend *kt_backend(void); /* cpu without threads, opened once a process */
void kt_close(void);

/* "f32[2,3]" with its bytes cleared. */
kt_value kt_make(const char *spec);
void kt_free(kt_value *v);
/* Values from -range to range by a fixed sequence; integers from 0 to range - 1. */
void kt_fill(kt_value *v, double range, uint32_t seed);
double kt_get(const kt_value *v, int64_t i);
void kt_set(kt_value *v, int64_t i, double x);
int64_t kt_count(const kt_value *v);

/* A call of op `name` on inputs (copied as values; data stays the caller's). Infers and allocates outputs. */
void kt_begin(kt_call *c, const char *name, const neap_opt *opt, uint32_t n_in, const kt_value *in);
/* Prepares and launches; outputs are in c->out. */
void kt_run(kt_call *c);
void kt_end(kt_call *c); /* frees outputs */
/* begin and run. */
void kt_call_op(kt_call *c, const char *name, const neap_opt *opt, uint32_t n_in, const kt_value *in);
/* Runs c again in one task after the other backwards into fresh outputs: all bits must be the same. */
void kt_assert_any_order(const kt_call *c);
/* The status of the shape rule. */
neap_status kt_infer(const char *name, const neap_opt *opt, uint32_t n_in, const kt_value *in, neap_desc *out,
                     neap_error *err);

#define KT_OPTS(...) ((neap_opt[NEAP_MAX_OPTS]){__VA_ARGS__})
neap_opt kt_list(int n, ...); /* int64_t each */

#endif
