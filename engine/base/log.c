#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void neap__log(const neap_log *log, int level, const char *fmt, ...) {
  char text[1024];
  va_list args;
  if (!log || !log->fn || level > log->level) return;
  va_start(args, fmt);
  if (vsnprintf(text, sizeof text, fmt, args) < 0) text[0] = '\0';
  va_end(args);
  /* A line is one line: a message quoting a file or a script must not fake another. */
  for (char *c = text; *c; c++)
    if (*c == '\n' || *c == '\r') *c = ' ';
  log->fn(log->user, level, text);
}

double neap__clock(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0.0;
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
