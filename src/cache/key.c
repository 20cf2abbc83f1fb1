/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/error.h"
#include "cache/cache.h"

void kn_key_begin(struct kn_key *key) {
  *key = (struct kn_key){0};
  kn_text_append(&key->text, "kiln-key 1\n");
}

void kn_key_add(struct kn_key *key, const char *label, const char *value) {
  if (value) {
    kn_text_printf(&key->text, "%s %zu:", label, strlen(value));
    kn_text_append(&key->text, value);
    kn_text_append(&key->text, "\n");
  } else { /* absent is not the same as empty */
    kn_text_printf(&key->text, "%s -\n", label);
  }
}

kiln_status kn_key_end(struct kn_key *key) {
  struct kn_digest digest;
  if (key->text.failed) return kn_fail(KILN_E_MEMORY, "out of memory while making a cache key");
  digest = kn_hash(key->text.data, key->text.length);
  kn_digest_hex(&digest, key->hex);
  return KILN_OK;
}

void kn_key_release(struct kn_key *key) {
  kn_text_release(&key->text);
  key->hex[0] = '\0';
}
