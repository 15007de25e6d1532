/* Status codes with their details. An error is a value: it holds no memory and no tensor, so keeping
 * one never keeps anything else alive. */
#ifndef NEAP_BASE_STATUS_H
#define NEAP_BASE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "neap.h"

/* Details of one failure. Owned by whoever declares it; plain data, may be copied.
 * message: what happened, naming the thing, its value and what was expected, without a trailing newline.
 * op, shapes, where: empty strings when unknown. bytes: what was asked for, 0 when it does not apply. */
typedef struct neap_error {
  neap_status status;
  uint64_t bytes;
  char op[40];
  char shapes[200];
  char where[200];
  char message[600];
} neap_error;

#ifdef __cplusplus
extern "C" { /* seams over C++ libraries report failures too */
#endif

#if defined(__GNUC__)
#define NEAP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define NEAP_PRINTF(f, a)
#endif

/* Fills *e (which may be NULL) with `status` and the formatted message, clears the other fields, and
 * returns `status`, so that a failing function is `return neap__fail(e, NEAP_RANGE, "...", ...)`. */
neap_status neap__fail(neap_error *e, neap_status status, const char *fmt, ...) NEAP_PRINTF(3, 4);

/* Makes *e say "no error". */
void neap__error_clear(neap_error *e);

#ifdef __cplusplus
}
#endif
#endif
