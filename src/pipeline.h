/* SPDX-License-Identifier: MIT */
/* request -> plan -> source -> key -> cubin: from the cache, or compiled and published. */
#ifndef KILN_PIPELINE_H
#define KILN_PIPELINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <kiln/kiln.h>

#include "cache/cache.h"
#include "cuda/nvrtc.h"
#include "library.h"
#include "plan/plan.h"

enum { KN_MAX_TARGETS = 4 };

struct kn_pipeline {
  const struct kn_library *library;
  const char *targets[KN_MAX_TARGETS]; /* the first is built for; the others may be in the cache */
  size_t num_targets;
  bool no_compile, no_cache;
  struct kn_cache *cache;
  const char *nvrtc_path; /* as asked for, or NULL */
  kiln_log_fn log;
  void *log_user;

  pthread_mutex_t nvrtc_mutex;
  struct kn_nvrtc *nvrtc; /* found on first need */
  bool nvrtc_missing;
  char *nvrtc_error;

  atomic_uint_fast64_t compiles, compile_us;
};

/* What a request comes to. */
struct kn_built {
  struct kn_plan *plan;
  void *cubin;
  size_t cubin_bytes, source_bytes;
  kiln_origin origin;
  uint64_t emit_us;
  char *facts; /* the entry's facts: JSON */
  char key[KN_DIGEST_HEX + 1];
  char nvrtc_id[9]; /* "" if unknown */
};
void kn_built_release(struct kn_built *built);

kiln_status kn_pipeline_build(struct kn_pipeline *pipeline, const struct kn_spec *spec,
                              const kiln_param *params, size_t num_params, struct kn_built *out);

/* The parts that stop short of a cubin, for the first target. */
kiln_status kn_pipeline_emit(const struct kn_pipeline *pipeline, const struct kn_spec *spec,
                             const kiln_param *params, size_t num_params,
                             struct kn_text *out_source);
kiln_status kn_pipeline_key(const struct kn_pipeline *pipeline, const struct kn_spec *spec,
                            const kiln_param *params, size_t num_params, struct kn_key *out_key);

/* NVRTC, found (not loaded) on first need; NULL and *out_error's reason where there is none. */
struct kn_nvrtc *kn_pipeline_nvrtc(struct kn_pipeline *pipeline, const char **out_error);

void kn_log(kiln_log_fn log, void *user, const char *format, ...) KN_PRINTF(3, 4);

#endif
