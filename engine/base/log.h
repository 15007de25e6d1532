/* Log lines go to the host's callback or nowhere: the library prints nothing unasked. */
#ifndef NEAP_BASE_LOG_H
#define NEAP_BASE_LOG_H

#include "base/status.h"

typedef struct neap_log {
  neap_log_fn fn; /* NULL: silent */
  void *user;
  int level; /* messages above it are dropped */
} neap_log;

void neap__log(const neap_log *log, int level, const char *fmt, ...) NEAP_PRINTF(3, 4);

/* Seconds on a clock that never goes back (CLOCK_MONOTONIC). Thread-safe. */
double neap__clock(void);

#endif
