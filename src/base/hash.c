/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <blake2.h>

struct kn_digest kn_hash(const void *data, size_t length) {
  struct kn_digest digest = {0};
  /* Fails only for lengths that BLAKE2b does not have. */
  (void)blake2b(digest.bytes, length ? data : "", NULL, sizeof digest.bytes, length, 0);
  return digest;
}

void kn_digest_hex(const struct kn_digest *digest, char out_hex[KN_DIGEST_HEX + 1]) {
  static const char digits[] = "0123456789abcdef";
  int i;
  for (i = 0; i < KN_DIGEST_BYTES; i++) {
    out_hex[2 * i] = digits[digest->bytes[i] >> 4];
    out_hex[2 * i + 1] = digits[digest->bytes[i] & 15];
  }
  out_hex[KN_DIGEST_HEX] = '\0';
}
