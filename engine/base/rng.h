/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): the output is
 * a function of (key, counter), so a draw can be repeated anywhere, in any order. */
#ifndef NEAP_BASE_RNG_H
#define NEAP_BASE_RNG_H

#include <stdint.h>

void neap__philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* A sequential view of one stream, for host-side draws (initializers, shuffles): (seed, stream, position)
 * is the whole state and may be saved. */
typedef struct neap_rng {
  uint64_t seed, stream, position; /* position counts 32-bit words drawn */
} neap_rng;

uint32_t neap__rng_u32(neap_rng *r);
uint64_t neap__rng_below(neap_rng *r, uint64_t n); /* uniform in [0, n), without bias; n > 0 */
double neap__rng_uniform(neap_rng *r);             /* [0, 1), 53 bits */

#endif
