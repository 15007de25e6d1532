/* CRC-32C (Castagnoli 1993, as in RFC 3720): the checksum stored with each dataset the engine writes. */
#ifndef NEAP_IO_CRC32C_H
#define NEAP_IO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc` (0 at the start), so that data may come in pieces of any size. */
uint32_t neap__crc32c(uint32_t crc, const void *data, size_t bytes);
/* The same without instructions of its own; public so that a test can hold one against the other. */
uint32_t neap__crc32c_portable(uint32_t crc, const void *data, size_t bytes);

#endif
