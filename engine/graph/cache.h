/* Programs of small graphs, found again by structure, so that tensor operations outside a trace are planned
 * once. Bounded by host bytes; the least recently used goes. */
#ifndef NEAP_GRAPH_CACHE_H
#define NEAP_GRAPH_CACHE_H

#include "graph/context.h"

neap_status neap__cache_create(neap_context *c, neap_error *err);
void neap__cache_destroy(neap_context *c);

#endif
