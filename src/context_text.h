/* SPDX-License-Identifier: MIT */
/* KILN_TEXT_CONTEXT: what a context found. */
#ifndef KILN_CONTEXT_TEXT_H
#define KILN_CONTEXT_TEXT_H

#include "base/text.h"
#include "cache/cache.h"
#include "cuda/device.h"
#include "cuda/nvrtc.h"

/* What there is of a context; NULL for what there is not, with the reason where there is one. */
struct kn_context_facts {
  const char *target;
  const struct kn_device *device;
  const char *device_error;
  const struct kn_nvrtc *nvrtc;
  const char *nvrtc_error;
  const struct kn_cache *cache;
};

/* Appends {"version", "target", "device": {"name", "compute", "num_sms"}, "device_error",
   "nvrtc": {"path", "version", "id", "is_loaded"}, "nvrtc_error", "cache_root", "cache_roots"};
   null for what there is not. */
void kn_context_json(const struct kn_context_facts *facts, struct kn_text *out);

#endif
