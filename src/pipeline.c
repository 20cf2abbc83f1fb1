/* SPDX-License-Identifier: MIT */
#include "pipeline.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "emit/emit.h"

/* One target's way through the pipeline. */
struct attempt {
  const char *target;
  struct kn_plan *plan;
  struct kn_text source;
  struct kn_key key;
  uint64_t emit_us;
};

void kn_log(kiln_log_fn log, void *user, const char *format, ...) {
  char message[512];
  va_list args;
  if (!log) return;
  va_start(args, format);
  (void)vsnprintf(message, sizeof message, format, args);
  va_end(args);
  log(user, message);
}

static uint64_t now_us(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void attempt_release(struct attempt *a) {
  kn_plan_free(a->plan);
  kn_text_release(&a->source);
  kn_key_release(&a->key);
  *a = (struct attempt){0};
}

void kn_built_release(struct kn_built *built) {
  kn_plan_free(built->plan);
  free(built->cubin);
  free(built->facts);
  *built = (struct kn_built){0};
}

/* Everything that changes code, and nothing else: no path, time, host or device. */
static kiln_status make_key(struct attempt *a) {
  char hex[KN_DIGEST_HEX + 1];
  struct kn_digest digest = kn_hash(a->source.data, a->source.length);
  kn_digest_hex(&digest, hex);
  kn_key_begin(&a->key);
  kn_key_add(&a->key, "kiln-key", "1");
  kn_key_add(&a->key, "target", a->target);
  for (size_t i = 0; kn_nvrtc_options[i]; ++i) {
    kn_key_add(&a->key, "option", kn_nvrtc_options[i]);
  }
  kn_key_add(&a->key, "source-blake2b", hex);
  return kn_key_end(&a->key);
}

/* Plan, source and key for one target. */
static kiln_status prepare(const struct kn_pipeline *p, const char *target,
                           const struct kn_spec *spec, const kiln_param *params, size_t num_params,
                           struct attempt *out) {
  uint64_t begin = now_us();
  out->target = target;
  kiln_status status = kn_plan_make(spec, kn_limits_find(target), params, num_params, &out->plan);
  if (status == KILN_OK) {
    status = kn_emit(out->plan, kn_library_source, (void *)(uintptr_t)p->library, &out->source);
  }
  if (status == KILN_OK) status = make_key(out);
  out->emit_us = now_us() - begin;
  return status;
}

struct kn_nvrtc *kn_pipeline_nvrtc(struct kn_pipeline *p, const char **out_error) {
  (void)pthread_mutex_lock(&p->nvrtc_mutex);
  if (!p->nvrtc && !p->nvrtc_missing) {
    p->nvrtc_missing = kn_nvrtc_find(p->nvrtc_path, &p->nvrtc) != KILN_OK;
    if (p->nvrtc_missing) p->nvrtc_error = strdup(kn_error_last()->message);
    kn_error_clear();
  }
  struct kn_nvrtc *nvrtc = p->nvrtc;
  if (out_error) *out_error = p->nvrtc_error ? p->nvrtc_error : "NVRTC: not found";
  (void)pthread_mutex_unlock(&p->nvrtc_mutex);
  return nvrtc;
}

/* Looks one target up. Strict mode, like a machine without NVRTC, takes the newest compiler's. */
static bool look_up(struct kn_pipeline *p, struct attempt *a, struct kn_built *built) {
  struct kn_entry entry = {0};
  struct kn_nvrtc *nvrtc = p->no_compile ? NULL : kn_pipeline_nvrtc(p, NULL);
  if (!p->cache) return false;
  if (!kn_cache_load(p->cache, a->target, &a->key, nvrtc ? kn_nvrtc_id(nvrtc) : NULL, false,
                     &entry)) {
    return false;
  }
  built->cubin = entry.data[KN_SECTION_CUBIN];
  built->cubin_bytes = entry.length[KN_SECTION_CUBIN];
  built->facts = strndup(entry.data[KN_SECTION_FACTS], entry.length[KN_SECTION_FACTS]);
  built->origin = KILN_FROM_DISK;
  entry.data[KN_SECTION_CUBIN] = NULL;
  kn_entry_release(&entry);
  return true;
}

static char *facts_json(const struct attempt *a, const struct kn_nvrtc *nvrtc,
                        const struct kn_cubin *cubin) {
  struct kn_function_facts facts[32];
  struct kn_text text = {0};
  size_t count = 0;
  enum { CAPACITY = sizeof facts / sizeof *facts };
  if (kn_cubin_facts(cubin->data, cubin->length, facts, CAPACITY, &count) != KILN_OK) {
    kn_error_clear();
  }
  kn_text_printf(&text, "{\"kiln\": \"%d.%d.%d\", \"nvrtc\": \"%d.%d\", \"compile_us\": %llu, ",
                 KILN_VERSION_MAJOR, KILN_VERSION_MINOR, KILN_VERSION_PATCH,
                 kn_nvrtc_version(nvrtc) / 1000, kn_nvrtc_version(nvrtc) % 1000 / 10,
                 (unsigned long long)cubin->compile_us);
  kn_text_append(&text, "\"request\": ");
  kn_text_json_string(&text, a->plan->canonical);
  kn_text_append(&text, ", \"functions\": [");
  for (size_t i = 0; i < count && i < CAPACITY; ++i) {
    kn_text_printf(&text,
                   "%s{\"name\": \"%s\", \"registers\": %d, \"stack_bytes\": %d, "
                   "\"shared_bytes\": %d, \"max_threads\": %d}",
                   i ? ", " : "", facts[i].name, facts[i].registers, facts[i].stack_bytes,
                   facts[i].shared_bytes, facts[i].max_threads);
  }
  kn_text_append(&text, "]}");
  return kn_text_take(&text);
}

/* A store that fails costs a later compile, not this request: the cache counts and logs it. */
static void publish(struct kn_pipeline *p, struct attempt *a, const char *nvrtc_id,
                    const struct kn_cubin *cubin, char *facts) {
  if (!p->cache) return;
  struct kn_entry entry = {
      .data = {[KN_SECTION_KEY] = a->key.text.data,
               [KN_SECTION_FACTS] = facts,
               [KN_SECTION_CUBIN] = cubin->data,
               [KN_SECTION_SOURCE] = a->source.data},
      .length = {[KN_SECTION_KEY] = a->key.text.length,
                 [KN_SECTION_FACTS] = strlen(facts),
                 [KN_SECTION_CUBIN] = cubin->length,
                 [KN_SECTION_SOURCE] = a->source.length},
  };
  (void)kn_cache_store(p->cache, a->target, &a->key, nvrtc_id, &entry);
}

static kiln_status compile(struct kn_pipeline *p, struct attempt *a, struct kn_built *built) {
  struct kn_cubin cubin = {0};
  const char *error = NULL;
  struct kn_nvrtc *nvrtc = kn_pipeline_nvrtc(p, &error);
  if (!nvrtc) return kn_fail(KILN_E_COMPILE, "%s: %s", a->plan->spec->name, error);
  kiln_status status = kn_nvrtc_compile(nvrtc, "kiln.cu", a->source.data, a->target, &cubin);
  if (status != KILN_OK) {
    kn_error_prefix("%s", a->plan->spec->name);
    return status;
  }
  atomic_fetch_add(&p->compiles, 1);
  atomic_fetch_add(&p->compile_us, cubin.compile_us);
  kn_log(p->log, p->log_user, "compiled %s for %s in %.1f ms", a->plan->canonical, a->target,
         (double)cubin.compile_us / 1000);
  char *facts = facts_json(a, nvrtc, &cubin);
  if (!facts) {
    kn_cubin_release(&cubin);
    return kn_fail(KILN_E_MEMORY, "%s: out of memory", a->plan->spec->name);
  }
  publish(p, a, kn_nvrtc_id(nvrtc), &cubin, facts);
  built->cubin = cubin.data;
  built->cubin_bytes = cubin.length;
  built->facts = facts;
  built->origin = KILN_FROM_COMPILER;
  cubin.data = NULL;
  kn_cubin_release(&cubin);
  return KILN_OK;
}

static void hand_over(struct kn_pipeline *p, struct attempt *a, struct kn_built *built) {
  struct kn_nvrtc *nvrtc = p->no_compile ? NULL : kn_pipeline_nvrtc(p, NULL);
  built->plan = a->plan;
  built->source_bytes = a->source.length;
  built->emit_us = a->emit_us;
  memcpy(built->key, a->key.hex, sizeof built->key);
  if (nvrtc) memcpy(built->nvrtc_id, kn_nvrtc_id(nvrtc), sizeof built->nvrtc_id);
  a->plan = NULL;
}

kiln_status kn_pipeline_build(struct kn_pipeline *p, const struct kn_spec *spec,
                              const kiln_param *params, size_t num_params, struct kn_built *out) {
  struct attempt attempts[KN_MAX_TARGETS] = {0};
  struct kn_built built = {0};
  kiln_status status = KILN_OK;
  size_t served = 0;
  bool found = false;
  /* The device's own target first, then those of its family that the cache may hold. */
  for (size_t i = 0; i < p->num_targets && status == KILN_OK && !found; ++i) {
    status = prepare(p, p->targets[i], spec, params, num_params, &attempts[i]);
    if (status == KILN_OK && look_up(p, &attempts[i], &built)) {
      found = true;
      served = i;
    }
  }
  if (status == KILN_OK && !found) {
    status = p->no_compile
                 ? kn_fail(KILN_E_MISS,
                           "%s: not in the cache for %s (key %.16s), and compiling is "
                           "off",
                           attempts[0].plan->canonical, p->targets[0], attempts[0].key.hex)
                 : compile(p, &attempts[0], &built);
  }
  if (status == KILN_OK) {
    hand_over(p, &attempts[served], &built);
    *out = built;
  }
  for (size_t i = 0; i < p->num_targets; ++i) attempt_release(&attempts[i]);
  return status;
}

kiln_status kn_pipeline_emit(const struct kn_pipeline *p, const struct kn_spec *spec,
                             const kiln_param *params, size_t num_params,
                             struct kn_text *out_source) {
  struct attempt a = {0};
  kiln_status status = prepare(p, p->targets[0], spec, params, num_params, &a);
  if (status == KILN_OK) {
    *out_source = a.source;
    a.source = (struct kn_text){0};
  }
  attempt_release(&a);
  return status;
}

kiln_status kn_pipeline_key(const struct kn_pipeline *p, const struct kn_spec *spec,
                            const kiln_param *params, size_t num_params, struct kn_key *out_key) {
  struct attempt a = {0};
  kiln_status status = prepare(p, p->targets[0], spec, params, num_params, &a);
  if (status == KILN_OK) {
    *out_key = a.key;
    a.key = (struct kn_key){0};
  }
  attempt_release(&a);
  return status;
}
