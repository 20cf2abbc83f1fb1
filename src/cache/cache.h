/* SPDX-License-Identifier: MIT */
/*
 * The disk cache: one file per entry, `<root>/v1/<target>/<2 hex>/<key>-<nvrtc id>.kiln`.
 * cache/README.md has the format. Correct without locks; a damaged entry is a miss.
 */
#ifndef KILN_CACHE_CACHE_H
#define KILN_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

#include "base/hash.h"
#include "base/text.h"

/* The key: labelled, length-prefixed text that can be printed and compared, and its digest. */
struct kn_key {
  struct kn_text text;
  char hex[KN_DIGEST_HEX + 1];
};
void kn_key_begin(struct kn_key *key);
/* Adds one fact: "label <length>:value\n". Labels are literals. */
void kn_key_add(struct kn_key *key, const char *label, const char *value);
/* KILN_E_MEMORY if an append failed. */
kiln_status kn_key_end(struct kn_key *key);
void kn_key_release(struct kn_key *key);

/* The sections of an entry, in file order. */
enum kn_section {
  KN_SECTION_KEY = 0, /* the key's text */
  KN_SECTION_FACTS,   /* JSON: functions, registers, spills, shared bytes, compile_us, versions */
  KN_SECTION_CUBIN,
  KN_SECTION_SOURCE, /* not read on a hit */
  KN_NUM_SECTIONS
};

struct kn_entry {
  void *data[KN_NUM_SECTIONS]; /* free() each, through kn_entry_release */
  size_t length[KN_NUM_SECTIONS];
};
void kn_entry_release(struct kn_entry *entry);

typedef struct kn_cache_counters {
  uint64_t hits, misses, corrupt, store_failures, rejected_roots;
} kn_cache_counters;

struct kn_cache;

/* Opens `roots` (colon-separated; the first is written, the others only read). NULL:
   KILN_CACHE_DIR, $XDG_CACHE_HOME/kiln, $HOME/.cache/kiln; none of these: no cache at all. Unsafe
   roots (not ours or root's, world-writable) are left out, counted and logged. Never fails but for
   memory. */
kiln_status kn_cache_open(const char *roots, bool read_only, kiln_log_fn log, void *log_user,
                          struct kn_cache **out);
void kn_cache_close(struct kn_cache *cache);

/* Looks an entry up in each root. `nvrtc_id` NULL: the newest id does. `with_source` reads the
   last section too. Returns true on a verified hit; any damage is a miss that is counted. */
bool kn_cache_load(struct kn_cache *cache, const char *target, const struct kn_key *key,
                   const char *nvrtc_id, bool with_source, struct kn_entry *out);

/* Publishes an entry in the writable root; a failure is counted and logged. True if stored. */
bool kn_cache_store(struct kn_cache *cache, const char *target, const struct kn_key *key,
                    const char *nvrtc_id, const struct kn_entry *entry);

void kn_cache_get_counters(const struct kn_cache *cache, kn_cache_counters *out);
/* The writable root, or NULL. */
const char *kn_cache_root(const struct kn_cache *cache);
/* Root `index` in the order of lookup, NULL beyond the last. */
const char *kn_cache_nth_root(const struct kn_cache *cache, size_t index);

/* For `kiln cache stats` and `list`: visits every entry file of the roots. */
typedef struct kn_entry_info {
  const char *path, *target, *key_hex, *nvrtc_id;
  uint64_t bytes;
  bool valid;                   /* header, table and all digests agree */
  const char *key_text, *facts; /* NULL if not valid */
} kn_entry_info;
kiln_status kn_cache_each(struct kn_cache *cache,
                          kiln_status (*visit)(const kn_entry_info *info, void *user), void *user);

/* What KILN_TEXT_CACHE gives: appends {"roots": [..], "rejected_roots": n, "entries": [..]}. */
kiln_status kn_cache_json(struct kn_cache *cache, struct kn_text *out);

#endif
