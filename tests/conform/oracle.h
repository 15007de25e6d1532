/* Plain loops in double that know nothing of the kernels: what an op's first output should be. */
#ifndef NEAP_TESTS_CONFORM_ORACLE_H
#define NEAP_TESTS_CONFORM_ORACLE_H

#include "conform/conform.h"

/* c: with defaults filled in. in: as many values as the case has. out[o] are made by the oracle, fp64, in the shape
 * that is right; what it does not make it leaves. */
typedef void (*cf_oracle)(const cf_case *c, const kt_value *in, kt_value *out);

cf_oracle cf_oracle_of(const neap_op *op); /* NULL: there is none */

/* The case with defaults filled in. */
cf_case cf_complete(const cf_case *c);
/* The option as completed, NULL when it is unset or the op has none of that name. */
const neap_opt *cf_option(const cf_case *c, const char *name);
int64_t cf_whole(const cf_case *c, const char *name, int axis, int64_t otherwise); /* axis: of a pair */
double cf_number(const cf_case *c, const char *name, double otherwise);
kt_value cf_made(const neap_shape *s); /* fp64 zeros */

/* A counter over a shape: at[] is the place of element i. */
typedef struct cf_place {
  int64_t at[NEAP_MAX_DIMS];
} cf_place;
void cf_locate(const neap_shape *s, int64_t i, cf_place *p);
int64_t cf_index(const neap_shape *s, const cf_place *p);
/* The element of a value of shape s that broadcasting pairs with place p of shape `to`. */
int64_t cf_spread(const neap_shape *s, const neap_shape *to, const cf_place *p);
int32_t cf_dim(int64_t dim, int32_t ndim);

/* A file of oracles has a table that is named as the file, ended by a name of NULL; its line begins with
 * const cf_oracle_row cf_oracles_NAME[] =, by which the build finds it. */
typedef struct cf_oracle_row {
  const char *name;
  cf_oracle fn;
} cf_oracle_row;
#define XX(file) extern const cf_oracle_row cf_oracles_##file[];
#include "oracle_table.inc"
#undef XX
void cf_oracle_elementwise(const cf_case *c, const kt_value *in, kt_value *out); /* rows of elementwise.def */

#endif
