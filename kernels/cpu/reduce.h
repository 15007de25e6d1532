/* How reductions walk their input. */
#ifndef NEAP_KERNELS_CPU_REDUCE_H
#define NEAP_KERNELS_CPU_REDUCE_H

#include "kernels/cpu/cpu.h"

typedef struct neap_walk {
  int32_t n;
  int64_t size[NEAP_MAX_DIMS], stride[NEAP_MAX_DIMS]; /* outermost first; in elements */
} neap_walk;

/* Dimensions of 1 are gone and neighbours of one kind are merged, except that the batch dimension stays by
 * itself: the order of additions may not depend on how many samples there are. */
typedef struct neap_reduce {
  neap_walk kept, reduced;          /* `reduced` is without the split dimension */
  int64_t split_size, split_stride; /* the reduced batch dimension, else the outermost reduced one, else 1, 0 */
  int64_t n_out, n_reduced;         /* outputs; inputs of each */
  bool rows;                        /* the innermost dimension is reduced: outputs are sums of rows */
  bool split_rows;                  /* and it is the split dimension */
} neap_reduce;

/* dims: resolved. batch_dim -1: none. */
void NEAP_CPU_NAME(reduce_plan)(neap_reduce *r, const neap_shape *shape, const neap_opt *dims, int32_t batch_dim);

/* Offset of place i of the first n dimensions of a walk. */
static inline int64_t neap_walk_offset(const neap_walk *w, int32_t n, int64_t i) {
  int64_t offset = 0;
  while (n-- > 0) {
    offset += i % w->size[n] * w->stride[n];
    i /= w->size[n];
  }
  return offset;
}

static inline int64_t neap_walk_count(const neap_walk *w, int32_t n) {
  int64_t count = 1;
  while (n-- > 0) count *= w->size[n];
  return count;
}

#endif
