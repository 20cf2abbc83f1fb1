/* SPDX-License-Identifier: MIT */
/* One entry as bytes of a file; cache/README.md has the format. */
#ifndef KILN_CACHE_ENTRY_H
#define KILN_CACHE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "cache/cache.h"

enum { KN_ENTRY_HEADER_BYTES = 16 + KN_NUM_SECTIONS * 48 + KN_DIGEST_BYTES };

/* Appends the whole file; `failed` of the text tells whether memory sufficed. */
void kn_entry_encode(const struct kn_entry *entry, struct kn_text *out);

enum kn_entry_state {
  KN_ENTRY_GOOD,
  KN_ENTRY_ABSENT,  /* no such file, or one that went away while it was read */
  KN_ENTRY_DAMAGED, /* anything else that is not a sound entry of ours; *out_why says what */
  KN_ENTRY_NO_MEMORY
};

/* Reads and verifies `path`; never blocks on what is no regular file. With `with_source` the last
   section too, else it is neither read nor verified. `*out` and `*out_why` are set for
   KN_ENTRY_GOOD and KN_ENTRY_DAMAGED only. */
enum kn_entry_state kn_entry_read(const char *path, bool with_source, struct kn_entry *out,
                                  const char **out_why);

#endif
