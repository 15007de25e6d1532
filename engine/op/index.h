/* What ops on indices share. Indices are data: 0-based. */
#ifndef NEAP_OP_INDEX_H
#define NEAP_OP_INDEX_H

#include "op/build.h"

static inline bool neap__has_samples(const neap_batch *b) { return b->kind == NEAP_B_SAMPLE || b->kind == NEAP_B_MIX; }

/* The index v as int64 (int32 and uint8 are taken too), or a failure naming its dtype. */
neap_id neap__as_index(neap_graph *g, const neap_op *op, neap_id v);
/* Entries `index` (1-d) of dimension dim of x; with skip set, index `skip` passes no gradient. */
neap_id neap__take(neap_graph *g, neap_id x, neap_id index, int32_t dim, const neap_opt *skip);
/* Element by element: entry index[.., j, ..] of dimension dim; index has x's dimensions. */
neap_id neap__pick(neap_graph *g, neap_id x, neap_id index, int32_t dim);

#endif
