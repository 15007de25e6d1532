/* Included before every file when the analyzer reads it: a failure's status is the one it is given. */
#ifndef NEAP_LINT_PLAIN
#include "base/status.h"
#define neap__fail(e, status, ...) (neap__fail((e), (status), __VA_ARGS__), (status))
#endif
