/* SPDX-License-Identifier: MIT */
/* The context: open, close, and requests answered from memory, disk or compiler. */
#include <kiln/kiln.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "context_text.h"
#include "kernel.h"
#include "pipeline.h"

/* A request under way or done, by its canonical form. Single flight: who comes second waits. */
struct slot {
  enum { BUILDING, READY, FAILED } state;
  kiln_kernel *kernel;        /* one reference, READY */
  char *message, *file, *log; /* FAILED: a compile that NVRTC refused, told again as it was */
  int line, column, driver_code;
};

struct kiln {
  struct kn_core *core;
  struct kn_pipeline pipeline;
  char *texts[3]; /* copies of option texts */
  char *device_error;

  pthread_rwlock_t memo_lock;
  struct kn_table memo; /* request as given -> kernel, which `slots` holds */

  pthread_mutex_t mutex; /* guards slots */
  pthread_cond_t done;
  struct kn_table slots; /* canonical request -> slot */

  atomic_uint_fast64_t memory_hits;
};

/* ---- names ---- */

#define X(name, value, text) \
  case name:                 \
    return #name;
const char *kiln_status_name(kiln_status status) {
  switch (status) { KILN_STATUS_TABLE(X) }
  return "KILN_E_?";
}
#undef X

const kiln_error *kiln_last_error(void) {
  return kn_error_last();
}

#define KILN_STRING(x) #x
#define KILN_VERSION_TEXT(a, b, c) "kiln " KILN_STRING(a) "." KILN_STRING(b) "." KILN_STRING(c)
const char *kiln_version(void) {
  return KILN_VERSION_TEXT(KILN_VERSION_MAJOR, KILN_VERSION_MINOR, KILN_VERSION_PATCH);
}

const char *kiln_dtype_name(kiln_dtype dtype) {
  switch (dtype) {
#define X(name, value, bits, text) \
  case name:                       \
    return text;
    KILN_DTYPE_TABLE(X)
#undef X
    case KILN_DTYPE_NONE:
      break;
  }
  return "?";
}

int kiln_dtype_bits(kiln_dtype dtype) {
  switch (dtype) {
#define X(name, value, bits, text) \
  case name:                       \
    return bits;
    KILN_DTYPE_TABLE(X)
#undef X
    case KILN_DTYPE_NONE:
      break;
  }
  return 0;
}

void kiln_free(void *text) {
  free(text);
}

/* ---- opening ---- */

static kiln_status copy_text(kiln *k, int index, const char *text, const char **out) {
  if (!text) return KILN_OK;
  k->texts[index] = strdup(text);
  *out = k->texts[index];
  return k->texts[index] ? KILN_OK : kn_fail(KILN_E_MEMORY, "out of memory for a context");
}

static kiln_status unknown_arch(const char *arch) {
  struct kn_text list = {0};
  size_t count = 0;
  const struct kn_limits *limits = kn_limits_all(&count);
  for (size_t i = 0; i < count; ++i) {
    kn_text_printf(&list, "%s%s", i ? ", " : "", limits[i].target);
  }
  kiln_status status =
      kn_fail(KILN_E_NOT_FOUND, "arch is '%s'; allowed are %s", arch, list.data ? list.data : "?");
  kn_text_release(&list);
  return status;
}

/* The targets to serve: that of `arch`, else those of the device. */
static kiln_status choose_targets(kiln *k, const kiln_options *options) {
  struct kn_pipeline *p = &k->pipeline;
  kiln_status status = KILN_OK;
  if (options->arch && !kn_limits_find(options->arch)) return unknown_arch(options->arch);
  if (!(options->flags & KILN_NO_DEVICE)) {
    status = kn_device_open(options->device, &k->core->device);
  } else if (!options->arch) {
    return kn_fail(KILN_E_ARGUMENT, "with KILN_NO_DEVICE an arch must be given");
  }
  if (options->arch) {
    if (status != KILN_OK) k->device_error = strdup(kn_error_last()->message);
    kn_error_clear();
    p->targets[0] = kn_limits_find(options->arch)->target;
    p->num_targets = 1;
    return KILN_OK;
  }
  if (status != KILN_OK) return status;
  int compute = kn_device_compute(k->core->device);
  const char *const *targets = kn_device_targets(compute / 10, compute % 10);
  while (targets[p->num_targets]) {
    p->targets[p->num_targets] = targets[p->num_targets];
    ++p->num_targets;
  }
  return KILN_OK;
}

/* Whether kernels of this context can run on its device. */
static bool runs_here(const kiln *k) {
  if (!k->core->device) return false;
  int compute = kn_device_compute(k->core->device);
  const char *const *targets = kn_device_targets(compute / 10, compute % 10);
  for (size_t i = 0; targets && targets[i]; ++i) {
    if (strcmp(targets[i], k->pipeline.targets[0]) == 0) return true;
  }
  return false;
}

static kiln_status open_parts(kiln *k, const kiln_options *options) {
  struct kn_pipeline *p = &k->pipeline;
  const char *cache_dirs = NULL;
  p->no_compile = options->flags & KILN_NO_COMPILE;
  p->no_cache = options->flags & KILN_NO_CACHE;
  p->log = options->log;
  p->log_user = options->log_user;
  kiln_status status = copy_text(k, 0, options->cache_dirs, &cache_dirs);
  if (status == KILN_OK) status = copy_text(k, 1, options->nvrtc, &p->nvrtc_path);
  if (status == KILN_OK) status = kn_library_open(options->spec_dirs, &k->core->library);
  if (status == KILN_OK) status = choose_targets(k, options);
  if (status == KILN_OK && !p->no_cache) {
    status = kn_cache_open(cache_dirs, p->no_compile, p->log, p->log_user, &p->cache);
  }
  p->library = &k->core->library;
  return status;
}

kiln_status kiln_open(const kiln_options *options, kiln **out) {
  kn_error_clear();
  if (!options || !out) return kn_fail(KILN_E_ARGUMENT, "options or out is NULL");
  if (options->size != sizeof *options) {
    return kn_fail(KILN_E_ARGUMENT, "options have size %zu; set them by kiln_options_init",
                   options->size);
  }
  if (options->flags & ~(uint32_t)(KILN_NO_COMPILE | KILN_NO_CACHE | KILN_NO_DEVICE)) {
    return kn_fail(KILN_E_ARGUMENT,
                   "flags are 0x%x; allowed are KILN_NO_COMPILE, KILN_NO_CACHE "
                   "and KILN_NO_DEVICE",
                   options->flags);
  }
  kiln *k = calloc(1, sizeof *k);
  struct kn_core *core = calloc(1, sizeof *core);
  if (!k || !core) {
    free(k);
    free(core);
    return kn_fail(KILN_E_MEMORY, "out of memory for a context");
  }
  atomic_init(&core->refs, 1);
  k->core = core;
  (void)pthread_rwlock_init(&k->memo_lock, NULL);
  (void)pthread_mutex_init(&k->mutex, NULL);
  (void)pthread_cond_init(&k->done, NULL);
  (void)pthread_mutex_init(&k->pipeline.nvrtc_mutex, NULL);
  kiln_status status = open_parts(k, options);
  if (status != KILN_OK) {
    kiln_close(k);
    return status;
  }
  *out = k;
  return KILN_OK;
}

static void free_slot(void *value, void *user) {
  struct slot *slot = value;
  (void)user;
  if (!slot) return; /* given up */
  kiln_kernel_unref(slot->kernel);
  free(slot->message);
  free(slot->file);
  free(slot->log);
  free(slot);
}

void kiln_close(kiln *k) {
  if (!k) return;
  kn_table_release(&k->memo);
  kn_table_each(&k->slots, free_slot, NULL);
  kn_table_release(&k->slots);
  kn_cache_close(k->pipeline.cache);
  kn_nvrtc_free(k->pipeline.nvrtc);
  free(k->pipeline.nvrtc_error);
  free(k->device_error);
  for (size_t i = 0; i < sizeof k->texts / sizeof *k->texts; ++i) free(k->texts[i]);
  (void)pthread_rwlock_destroy(&k->memo_lock);
  (void)pthread_mutex_destroy(&k->mutex);
  (void)pthread_cond_destroy(&k->done);
  (void)pthread_mutex_destroy(&k->pipeline.nvrtc_mutex);
  kn_core_unref(k->core);
  free(k);
}

const char *kiln_arch(const kiln *k) {
  return k ? k->pipeline.targets[0] : NULL;
}

/* ---- requests ---- */

static kiln_status check_request(const kiln *k, const kiln_request *request, const void *out) {
  kn_error_clear();
  if (!k || !request || !out) return kn_fail(KILN_E_ARGUMENT, "context, request or out is NULL");
  if (request->size != sizeof *request) {
    return kn_fail(KILN_E_ARGUMENT, "the request has size %zu; set it by kiln_request_init",
                   request->size);
  }
  if (!request->op) return kn_fail(KILN_E_ARGUMENT, "the request names no operator");
  if (!request->params && request->num_params) {
    return kn_fail(KILN_E_ARGUMENT, "%s: params is NULL", request->op);
  }
  return KILN_OK;
}

/* The request as bytes, in `fixed` where it fits: names and values each with their NUL. */
static void *memo_key(const kiln_request *request, char *fixed, size_t capacity, size_t *out) {
  size_t at = strlen(request->op) + 1;
  if (at > capacity) return NULL;
  memcpy(fixed, request->op, at);
  for (size_t i = 0; i < request->num_params; ++i) {
    const char *const texts[] = {request->params[i].name, request->params[i].value};
    for (size_t j = 0; j < 2; ++j) {
      size_t length = texts[j] ? strlen(texts[j]) + 1 : capacity;
      if (length > capacity - at) return NULL; /* too long to remember: the slow way is right too */
      memcpy(fixed + at, texts[j], length);
      at += length;
    }
  }
  *out = at;
  return fixed;
}

/* Tells a remembered failure again. */
static kiln_status tell(const struct slot *slot) {
  kiln_status status =
      kn_fail_at(KILN_E_COMPILE, slot->file, slot->line, slot->column, "%s", slot->message);
  if (slot->log) kn_error_set_log(slot->log);
  kn_error_set_driver_code(slot->driver_code);
  return status;
}

/* A refusal of the compiler is final for this source; all else may be different the next time. */
static bool is_final(kiln_status status) {
  return status == KILN_E_COMPILE && kn_error_last()->log && *kn_error_last()->log;
}

static void remember_failure(struct slot *slot) {
  const kiln_error *error = kn_error_last();
  slot->message = strdup(error->message);
  slot->file = error->file ? strdup(error->file) : NULL;
  slot->log = error->log ? strdup(error->log) : NULL;
  slot->line = error->line;
  slot->column = error->column;
  slot->driver_code = error->driver_code;
  slot->state = slot->message ? FAILED : BUILDING;
}

static kiln_status build_kernel(kiln *k, const struct kn_spec *spec, const kiln_request *request,
                                kiln_kernel **out) {
  struct kn_built built = {0};
  kiln_status status =
      kn_pipeline_build(&k->pipeline, spec, request->params, request->num_params, &built);
  if (status == KILN_OK) status = kn_kernel_make(k->core, &built, runs_here(k), out);
  kn_built_release(&built);
  return status;
}

/* Waits for another thread's build of the same request. With the mutex held. */
static kiln_status wait_locked(kiln *k, const char *canonical, struct slot **out) {
  struct slot *slot = NULL;
  size_t length = strlen(canonical);
  for (;;) {
    slot = kn_table_find(&k->slots, canonical, length);
    if (!slot || slot->state != BUILDING) break;
    (void)pthread_cond_wait(&k->done, &k->mutex);
  }
  if (!slot) {
    slot = calloc(1, sizeof *slot);
    if (!slot || !kn_table_set(&k->slots, canonical, length, slot)) {
      free(slot);
      return kn_fail(KILN_E_MEMORY, "out of memory for a request");
    }
    slot->state = BUILDING;
    *out = slot;
    return KILN_OK;
  }
  *out = slot;
  return slot->state == FAILED ? tell(slot) : KILN_OK;
}

/* Gives up a slot that was not built, so that the next request tries again. */
static void drop_locked(kiln *k, const char *canonical, struct slot *slot) {
  (void)kn_table_set(&k->slots, canonical, strlen(canonical), NULL);
  free_slot(slot, NULL);
}

static kiln_status get_by_canonical(kiln *k, const struct kn_spec *spec,
                                    const kiln_request *request, const char *canonical,
                                    kiln_kernel **out) {
  struct slot *slot = NULL;
  kiln_kernel *kernel = NULL;
  (void)pthread_mutex_lock(&k->mutex);
  kiln_status status = wait_locked(k, canonical, &slot);
  bool is_mine = status == KILN_OK && slot->state == BUILDING;
  if (status == KILN_OK && !is_mine) {
    kernel = kiln_kernel_ref(slot->kernel);
    atomic_fetch_add(&k->memory_hits, 1);
  }
  (void)pthread_mutex_unlock(&k->mutex);
  if (!is_mine) {
    if (status == KILN_OK) *out = kernel;
    return status;
  }
  status = build_kernel(k, spec, request, &kernel);
  (void)pthread_mutex_lock(&k->mutex);
  if (status == KILN_OK) {
    slot->kernel = kiln_kernel_ref(kernel);
    slot->state = READY;
    *out = kernel;
  } else {
    if (is_final(status)) remember_failure(slot);
    if (slot->state != FAILED) drop_locked(k, canonical, slot);
  }
  (void)pthread_cond_broadcast(&k->done);
  (void)pthread_mutex_unlock(&k->mutex);
  return status;
}

static kiln_status get_slowly(kiln *k, const kiln_request *request, kiln_kernel **out) {
  const struct kn_spec *spec = NULL;
  struct kn_plan *plan = NULL;
  kiln_status status = kn_library_find(&k->core->library, request->op, &spec);
  if (status == KILN_OK) {
    status = kn_plan_make(spec, kn_limits_find(k->pipeline.targets[0]), request->params,
                          request->num_params, &plan);
  }
  if (status == KILN_OK) status = get_by_canonical(k, spec, request, plan->canonical, out);
  kn_plan_free(plan);
  return status;
}

enum { MEMO_KEY_BYTES = 1024 };

kiln_status kiln_get(kiln *k, const kiln_request *request, kiln_kernel **out) {
  char fixed[MEMO_KEY_BYTES];
  size_t length = 0;
  kiln_kernel *kernel = NULL;
  kiln_status status = check_request(k, request, out);
  if (status != KILN_OK) return status;
  void *key = memo_key(request, fixed, sizeof fixed, &length);
  if (key) {
    (void)pthread_rwlock_rdlock(&k->memo_lock);
    kernel = kiln_kernel_ref(kn_table_find(&k->memo, key, length));
    (void)pthread_rwlock_unlock(&k->memo_lock);
  }
  if (kernel) {
    atomic_fetch_add_explicit(&k->memory_hits, 1, memory_order_relaxed);
    *out = kernel;
    return KILN_OK;
  }
  status = get_slowly(k, request, &kernel);
  if (status != KILN_OK) return status;
  if (key) {
    (void)pthread_rwlock_wrlock(&k->memo_lock);
    (void)kn_table_set(&k->memo, key, length, kernel);
    (void)pthread_rwlock_unlock(&k->memo_lock);
  }
  *out = kernel;
  return KILN_OK;
}

kiln_status kiln_get_by_tensors(kiln *k, const kiln_request *request, const kiln_arg *args,
                                size_t num_args, kiln_kernel **out) {
  const struct kn_spec *spec = NULL;
  struct kn_arena arena = {0};
  kiln_request solved;
  kiln_param *params = NULL;
  kiln_status status = check_request(k, request, out);
  if (status == KILN_OK && !args && num_args) {
    status = kn_fail(KILN_E_ARGUMENT, "%s: args is NULL", request->op);
  }
  if (status == KILN_OK) status = kn_library_find(&k->core->library, request->op, &spec);
  if (status != KILN_OK) return status;
  solved = *request;
  status = kn_plan_solve(spec, &arena, request->params, request->num_params, args, num_args,
                         &params, &solved.num_params);
  solved.params = params;
  if (status == KILN_OK) status = kiln_get(k, &solved, out);
  kn_arena_release(&arena);
  return status;
}

kiln_status kiln_preload(kiln *k, const kiln_request *requests, size_t num_requests) {
  kn_error_clear();
  if (!k || (!requests && num_requests)) {
    return kn_fail(KILN_E_ARGUMENT, "context or requests is NULL");
  }
  for (size_t i = 0; i < num_requests; ++i) {
    kiln_kernel *kernel = NULL;
    kiln_status status = kiln_get(k, &requests[i], &kernel);
    if (status != KILN_OK) return status;
    kiln_kernel_unref(kernel);
  }
  return KILN_OK;
}

/* ---- texts ---- */

/* Hands text over to the caller. */
static kiln_status give(struct kn_text *text, char **out) {
  char *taken = kn_text_take(text);
  if (!taken) return kn_fail(KILN_E_MEMORY, "out of memory");
  *out = taken;
  return KILN_OK;
}

kiln_status kiln_emit(kiln *k, const kiln_request *request, char **out_source) {
  const struct kn_spec *spec = NULL;
  struct kn_text source = {0};
  kiln_status status = check_request(k, request, out_source);
  if (status == KILN_OK) status = kn_library_find(&k->core->library, request->op, &spec);
  if (status == KILN_OK) {
    status = kn_pipeline_emit(&k->pipeline, spec, request->params, request->num_params, &source);
  }
  if (status == KILN_OK) status = give(&source, out_source);
  kn_text_release(&source);
  return status;
}

kiln_status kiln_key_text(kiln *k, const kiln_request *request, char **out_text) {
  const struct kn_spec *spec = NULL;
  struct kn_key key = {0};
  kiln_status status = check_request(k, request, out_text);
  if (status == KILN_OK) status = kn_library_find(&k->core->library, request->op, &spec);
  if (status == KILN_OK) {
    status = kn_pipeline_key(&k->pipeline, spec, request->params, request->num_params, &key);
  }
  if (status == KILN_OK) status = give(&key.text, out_text);
  kn_key_release(&key);
  return status;
}

size_t kiln_num_operators(const kiln *k) {
  return k ? k->core->library.num_specs : 0;
}

const char *kiln_operator_name(const kiln *k, size_t index) {
  return index < kiln_num_operators(k) ? k->core->library.specs[index]->name : NULL;
}

kiln_status kiln_operator_text(const kiln *k, const char *op, kiln_text what, char **out_text) {
  const struct kn_spec *spec = NULL;
  kn_error_clear();
  if (!k || !op || !out_text) return kn_fail(KILN_E_ARGUMENT, "context, op or out_text is NULL");
  if (what != KILN_TEXT_SPEC) {
    return kn_fail(KILN_E_ARGUMENT, "what is %d; an operator has KILN_TEXT_SPEC", (int)what);
  }
  kiln_status status = kn_library_find(&k->core->library, op, &spec);
  if (status != KILN_OK) return status;
  char *text = kn_spec_json(spec);
  if (!text) return kn_fail(KILN_E_MEMORY, "out of memory");
  *out_text = text;
  return KILN_OK;
}

static void add_context(kiln *k, struct kn_text *out) {
  const char *nvrtc_error = NULL;
  struct kn_nvrtc *nvrtc = kn_pipeline_nvrtc(&k->pipeline, &nvrtc_error);
  struct kn_context_facts facts = {
      .target = k->pipeline.targets[0],
      .device = k->core->device,
      .device_error = k->core->device   ? NULL
                      : k->device_error ? k->device_error
                                        : "the context was opened without a device",
      .nvrtc = nvrtc,
      .nvrtc_error = nvrtc ? NULL : nvrtc_error,
      .cache = k->pipeline.cache,
  };
  kn_context_json(&facts, out);
}

kiln_status kiln_context_text(kiln *k, kiln_text what, char **out_text) {
  struct kn_text text = {0};
  kiln_status status = KILN_OK;
  kn_error_clear();
  if (!k || !out_text) return kn_fail(KILN_E_ARGUMENT, "context or out_text is NULL");
  if (what == KILN_TEXT_CONTEXT) {
    add_context(k, &text);
  } else if (what == KILN_TEXT_CACHE && k->pipeline.cache) {
    status = kn_cache_json(k->pipeline.cache, &text);
  } else if (what == KILN_TEXT_CACHE) {
    kn_text_append(&text, "{\"roots\": [], \"rejected_roots\": 0, \"entries\": []}");
  } else {
    status = kn_fail(KILN_E_ARGUMENT,
                     "what is %d; a context has KILN_TEXT_CONTEXT and "
                     "KILN_TEXT_CACHE",
                     (int)what);
  }
  if (status == KILN_OK) status = give(&text, out_text);
  kn_text_release(&text);
  return status;
}

kiln_status kiln_get_stats(const kiln *k, kiln_stats *stats) {
  kn_cache_counters counters = {0};
  kn_error_clear();
  if (!k || !stats) return kn_fail(KILN_E_ARGUMENT, "context or stats is NULL");
  if (stats->size != sizeof *stats) {
    return kn_fail(KILN_E_ARGUMENT, "stats have size %zu; set them by kiln_stats_init",
                   stats->size);
  }
  if (k->pipeline.cache) kn_cache_get_counters(k->pipeline.cache, &counters);
  stats->memory_hits = atomic_load(&k->memory_hits);
  stats->disk_hits = counters.hits;
  stats->misses = counters.misses;
  stats->compiles = atomic_load(&k->pipeline.compiles);
  stats->compile_us = atomic_load(&k->pipeline.compile_us);
  stats->corrupt_entries = counters.corrupt;
  stats->store_failures = counters.store_failures;
  stats->rejected_roots = counters.rejected_roots;
  return KILN_OK;
}
