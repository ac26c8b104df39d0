/* SHA-256 as in FIPS 180-4, section 6.2: names cache files and tells a damaged one. */
#ifndef MHA_CORE_SHA256_H
#define MHA_CORE_SHA256_H

#include <stddef.h>

#define MHA_SHA256_BYTES 32
#define MHA_SHA256_HEX (2 * MHA_SHA256_BYTES + 1) /* with the NUL */

void mha_sha256(const void *data, size_t size, unsigned char digest[MHA_SHA256_BYTES]);

/* A digest in lower-case hexadecimal. */
void mha_sha256_text(const unsigned char digest[MHA_SHA256_BYTES], char text[MHA_SHA256_HEX]);

#endif
