/* The one reader of environment variables.
 *   NEAP_DEVICE    default of --device / config.device
 *   NEAP_MEMORY    default budget, e.g. 64MiB
 *   NEAP_THREADS   default number of threads
 *   NEAP_LOG       error, warn, info or debug */
#ifndef NEAP_BASE_ENV_H
#define NEAP_BASE_ENV_H

#include <stdint.h>

#include "base/status.h"

const char *neap__env(const char *name); /* NULL when unset or empty */

/* "64MiB", "1.5 GB", "4096" -> bytes. KiB MiB GiB TiB are powers of 1024; kB MB GB TB of 1000; a bare
 * K, M, G, T is 1024. Refuses negative, NaN, overflow and trailing text with NEAP_RANGE. */
neap_status neap__parse_bytes(const char *text, uint64_t *out, neap_error *err);
/* Writes e.g. "63.9 MiB" into buf. Returns buf. */
const char *neap__format_bytes(uint64_t bytes, char *buf, size_t size);

#endif
