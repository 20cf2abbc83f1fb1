/* SPDX-License-Identifier: MIT */
/* BLAKE2b-256 (RFC 7693) by libb2. */
#ifndef KILN_BASE_HASH_H
#define KILN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { KN_DIGEST_BYTES = 32, KN_DIGEST_HEX = 64 };

struct kn_digest {
  uint8_t bytes[KN_DIGEST_BYTES];
};

struct kn_digest kn_hash(const void *data, size_t length);
/* Lower-case hexadecimal with a final NUL. */
void kn_digest_hex(const struct kn_digest *digest, char out_hex[KN_DIGEST_HEX + 1]);

#endif
