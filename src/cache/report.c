/* SPDX-License-Identifier: MIT */
/* The cache as JSON, for people and scripts. */
#include "base/error.h"
#include "cache/cache.h"

struct report {
  struct kn_text *out;
  bool is_first;
};

static void add_string(struct kn_text *out, const char *name, const char *value) {
  kn_text_printf(out, "\"%s\": ", name);
  if (value) {
    kn_text_json_string(out, value);
  } else {
    kn_text_append(out, "null");
  }
}

static kiln_status add_entry(const kn_entry_info *info, void *user) {
  struct report *report = user;
  struct kn_text *out = report->out;

  kn_text_append(out, report->is_first ? "{" : ", {");
  report->is_first = false;
  add_string(out, "path", info->path);
  kn_text_append(out, ", ");
  add_string(out, "target", info->target);
  kn_text_append(out, ", ");
  add_string(out, "key", info->key_hex);
  kn_text_append(out, ", ");
  add_string(out, "nvrtc_id", info->nvrtc_id);
  kn_text_printf(out, ", \"bytes\": %llu, \"valid\": %s, ", (unsigned long long)info->bytes,
                 info->valid ? "true" : "false");
  add_string(out, "key_text", info->key_text);
  /* Facts are JSON that Kiln itself wrote, as their digest shows. */
  kn_text_printf(out, ", \"facts\": %s}", info->facts ? info->facts : "null");
  return KILN_OK;
}

kiln_status kn_cache_json(struct kn_cache *cache, struct kn_text *out) {
  struct report report = {out, true};
  kn_cache_counters counters;
  const char *root;
  kiln_status status;
  size_t i;

  kn_cache_get_counters(cache, &counters);
  kn_text_append(out, "{\"roots\": [");
  for (i = 0; (root = kn_cache_nth_root(cache, i)) != NULL; i++) {
    if (i > 0) kn_text_append(out, ", ");
    kn_text_json_string(out, root);
  }
  kn_text_printf(out, "], \"rejected_roots\": %llu, \"entries\": [",
                 (unsigned long long)counters.rejected_roots);
  status = kn_cache_each(cache, add_entry, &report);
  kn_text_append(out, "]}");
  if (status == KILN_OK && out->failed) {
    status = kn_fail(KILN_E_MEMORY, "out of memory while reading the cache");
  }
  return status;
}
