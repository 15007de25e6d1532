#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *neap_status_name(neap_status status) {
  switch (status) {
#define XX(name, value, text) \
  case NEAP_##name: return "NEAP_" #name;
    NEAP_STATUS_MAP(XX)
#undef XX
  }
  return "NEAP_UNKNOWN";
}

const char *neap_status_text(neap_status status) {
  switch (status) {
#define XX(name, value, text) \
  case NEAP_##name: return text;
    NEAP_STATUS_MAP(XX)
#undef XX
  }
  return "an unknown status";
}

neap_status neap__fail(neap_error *e, neap_status status, const char *fmt, ...) {
  /* Formatted aside first: a caller that adds context passes e->message as an argument. */
  char message[sizeof(((neap_error *)0)->message)];
  va_list args;
  if (!e) return status;
  va_start(args, fmt);
  if (vsnprintf(message, sizeof message, fmt, args) < 0) message[0] = '\0';
  va_end(args);
  neap__error_clear(e);
  e->status = status;
  memcpy(e->message, message, sizeof message);
  return status;
}

void neap__error_clear(neap_error *e) {
  if (!e) return;
  e->status = NEAP_OK;
  e->bytes = 0;
  e->op[0] = e->shapes[0] = e->where[0] = e->message[0] = '\0';
}
