/* What norms and standard deviations share. */
#ifndef NEAP_OP_NORM_H
#define NEAP_OP_NORM_H

#include "op/build.h"

/* The p-th root of s >= 0 whose gradient is 0 where s is. */
neap_id neap__safe_root(neap_graph *g, neap_id s, double p);

typedef struct neap_span {
  const neap_opt *dims; /* resolved */
  bool keep;
} neap_span;

/* The p-norm over dims; x floats. */
neap_id neap__norm_of(neap_graph *g, neap_id x, double p, const neap_span *over);

#endif
