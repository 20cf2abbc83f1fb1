/* SPDX-License-Identifier: MIT */
#include "context_text.h"

static void add_string(struct kn_text *out, const char *name, const char *value) {
  kn_text_printf(out, "\"%s\": ", name);
  if (value) {
    kn_text_json_string(out, value);
  } else {
    kn_text_append(out, "null");
  }
}

static void add_device(struct kn_text *out, const struct kn_device *device) {
  kn_text_append(out, ", \"device\": ");
  if (!device) {
    kn_text_append(out, "null");
    return;
  }
  kn_text_append(out, "{");
  add_string(out, "name", kn_device_name(device));
  kn_text_printf(out, ", \"compute\": %d, \"num_sms\": %d}", kn_device_compute(device),
                 kn_device_num_sms(device));
}

static void add_nvrtc(struct kn_text *out, const struct kn_nvrtc *nvrtc) {
  kn_text_append(out, ", \"nvrtc\": ");
  if (!nvrtc) {
    kn_text_append(out, "null");
    return;
  }
  kn_text_append(out, "{");
  add_string(out, "path", kn_nvrtc_path(nvrtc));
  kn_text_append(out, ", ");
  add_string(out, "id", kn_nvrtc_id(nvrtc));
  kn_text_printf(out, ", \"version\": %d, \"is_loaded\": %s}", kn_nvrtc_version(nvrtc),
                 kn_nvrtc_is_loaded(nvrtc) ? "true" : "false");
}

static void add_cache(struct kn_text *out, const struct kn_cache *cache) {
  const char *root;
  size_t i;

  add_string(out, "cache_root", cache ? kn_cache_root(cache) : NULL);
  kn_text_append(out, ", \"cache_roots\": [");
  for (i = 0; cache && (root = kn_cache_nth_root(cache, i)) != NULL; i++) {
    if (i > 0) kn_text_append(out, ", ");
    kn_text_json_string(out, root);
  }
  kn_text_append(out, "]");
}

void kn_context_json(const struct kn_context_facts *facts, struct kn_text *out) {
  kn_text_append(out, "{");
  add_string(out, "version", kiln_version());
  kn_text_append(out, ", ");
  add_string(out, "target", facts->target);
  add_device(out, facts->device);
  kn_text_append(out, ", ");
  add_string(out, "device_error", facts->device_error);
  add_nvrtc(out, facts->nvrtc);
  kn_text_append(out, ", ");
  add_string(out, "nvrtc_error", facts->nvrtc_error);
  kn_text_append(out, ", ");
  add_cache(out, facts->cache);
  kn_text_append(out, "}");
}
