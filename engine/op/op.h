/* The table of all ops, generated from this folder. */
#ifndef NEAP_OP_OP_H
#define NEAP_OP_OP_H

#include "ir/record.h"

/* All ops, sorted by name; found by name in O(log n), NULL when there is none. Thread-safe. */
const neap_op *neap__op_find(const char *name);
extern const neap_op *const neap__ops[];
extern const uint32_t neap__op_count;

#define XX(op_name) extern const neap_op neap__op_##op_name;
#include "op_table.inc"
#undef XX

/* Sets of options as builders write them: (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(1), NEAP_UNSET, ...} */
#define NEAP_UNSET ((neap_opt){0})
#define NEAP_INT(x) ((neap_opt){.set = 1, .v.i = (x)})
#define NEAP_FLOAT(x) ((neap_opt){.set = 1, .v.f = (x)})

/* Shape rules and batch rules that several ops share. */
neap_status neap__infer_same(neap_infer *x); /* output 0 as input 0 */
neap_status neap__batch_same(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out);

#endif
