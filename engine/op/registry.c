/* The op table, generated from the folder. */
#include <string.h>

#include "op/op.h"

const neap_op *const neap__ops[] = {
#define XX(op_name) &neap__op_##op_name,
#include "op_table.inc"
#undef XX
};
const uint32_t neap__op_count = sizeof neap__ops / sizeof neap__ops[0];

const neap_op *neap__op_find(const char *name) {
  uint32_t lo = 0, hi = neap__op_count;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    int c = strcmp(name, neap__ops[mid]->name);
    if (c == 0) return neap__ops[mid];
    if (c < 0)
      hi = mid;
    else
      lo = mid + 1;
  }
  return NULL;
}
