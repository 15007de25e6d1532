/* What ops on indices share. Indices are data: 0-based. */
#ifndef NEAP_OP_INDEX_H
#define NEAP_OP_INDEX_H

#include "op/build.h"

/* Element by element: entry index[.., j, ..] of dimension dim; index has x's dimensions. */
neap_id neap__gather_at(neap_graph *g, neap_id x, neap_id index, int32_t dim);
/* The input `index` (0-based) in int64, or NEAP_DTYPE naming it. */
neap_status neap__need_index(const neap_infer *x, uint32_t index);

#endif
