/* The private Lua inside libneap reaches the C library's streams through these (see cmake/libraries.cmake). */
#include <stdio.h>

extern FILE *neap__stdin, *neap__stdout, *neap__stderr;
FILE *neap__stdin, *neap__stdout, *neap__stderr;

__attribute__((constructor)) static void set_streams(void) {
  neap__stdin = stdin;
  neap__stdout = stdout;
  neap__stderr = stderr;
}
