/* A host allocator for tests: counts what is out, checks the sizes given back, refuses on demand. */
#ifndef NEAP_TESTS_FAIL_HOST_H
#define NEAP_TESTS_FAIL_HOST_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/host.h"

typedef struct fail_host {
  neap_host host;
  uint64_t until;  /* requests until the refused one; 0: never */
  int every;       /* and all after it */
  uint64_t asked;  /* requests for memory so far */
  uint64_t blocks; /* out now */
  uint64_t wrong;  /* sizes given back that were not the sizes asked for */
} fail_host;

#define FAIL_HOST_HEADER 16u

static int fail_host_refuses(fail_host *f) {
  if (f->until == 0) return 0;
  if (f->until == 1 && f->every) return 1;
  return --f->until == 0;
}

static void *fail_host_alloc(void *user, void *p, size_t old_size, size_t new_size) {
  fail_host *f = user;
  char *block = p ? (char *)p - FAIL_HOST_HEADER : NULL;
  size_t known = 0;
  if (block) memcpy(&known, block, sizeof known);
  if (known != old_size) f->wrong++;
  if (new_size == 0) {
    if (block) f->blocks--;
    free(block);
    return NULL;
  }
  f->asked++;
  if (fail_host_refuses(f)) return NULL;
  block = realloc(block, new_size + FAIL_HOST_HEADER);
  if (!block) return NULL;
  if (!p) f->blocks++;
  memcpy(block, &new_size, sizeof new_size);
  return block + FAIL_HOST_HEADER;
}

static inline void fail_host_init(fail_host *f) {
  memset(f, 0, sizeof *f);
  neap__host_init(&f->host, fail_host_alloc, f);
}

#endif
