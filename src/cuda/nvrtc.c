/* SPDX-License-Identifier: MIT */
#include "cuda/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nvrtc.h>

#include "base/error.h"
#include "cuda/nvrtc_find.h"

#define NVRTC_SYMBOLS(X)                                                                         \
  X(nvrtcVersion, (int *, int *))                                                                \
  X(nvrtcCreateProgram,                                                                          \
    (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
  X(nvrtcCompileProgram, (nvrtcProgram, int, const char *const *))                               \
  X(nvrtcDestroyProgram, (nvrtcProgram *))                                                       \
  X(nvrtcGetCUBINSize, (nvrtcProgram, size_t *))                                                 \
  X(nvrtcGetCUBIN, (nvrtcProgram, char *))                                                       \
  X(nvrtcGetProgramLogSize, (nvrtcProgram, size_t *))                                            \
  X(nvrtcGetProgramLog, (nvrtcProgram, char *))

struct kn_nvrtc {
  struct kn_nvrtc_place place;
  pthread_mutex_t mutex; /* guards loading */
  void *handle;
#define X(name, arguments) nvrtcResult(*name) arguments;
  NVRTC_SYMBOLS(X)
#undef X
};

const char *const kn_nvrtc_options[] = {"--std=c++17", NULL};

/* Honest timings and a full log; not part of the key, since it changes no code. */
static const char no_cache[] = "--no-cache";

/* NVRTC crashes on small thread stacks, so it gets one of its own. */
enum { COMPILE_STACK_BYTES = 8 << 20 };

/* From which version on NVRTC knows a target. */
static const struct {
  const char *target;
  int version;
} targets[] = {{"sm_90a", 12000}, {"sm_100a", 12080}, {"sm_100f", 12090}, {"sm_103a", 12090}};

kiln_status kn_nvrtc_find(const char *path, struct kn_nvrtc **out) {
  struct kn_nvrtc *nvrtc = calloc(1, sizeof *nvrtc);
  if (!nvrtc) return kn_fail(KILN_E_MEMORY, "NVRTC: out of memory");
  kiln_status status = kn_nvrtc_locate(path, &nvrtc->place);
  if (status != KILN_OK) {
    free(nvrtc);
    return status;
  }
  (void)pthread_mutex_init(&nvrtc->mutex, NULL);
  *out = nvrtc;
  return KILN_OK;
}

/* The library stays loaded: NVRTC keeps threads and caches that outlive dlclose badly. */
void kn_nvrtc_free(struct kn_nvrtc *nvrtc) {
  if (!nvrtc) return;
  (void)pthread_mutex_destroy(&nvrtc->mutex);
  free(nvrtc);
}

const char *kn_nvrtc_path(const struct kn_nvrtc *nvrtc) {
  return nvrtc->place.path;
}
const char *kn_nvrtc_id(const struct kn_nvrtc *nvrtc) {
  return nvrtc->place.id;
}
int kn_nvrtc_version(const struct kn_nvrtc *nvrtc) {
  return nvrtc->place.version;
}

bool kn_nvrtc_is_loaded(const struct kn_nvrtc *nvrtc) {
  struct kn_nvrtc *self = (struct kn_nvrtc *)(uintptr_t)nvrtc;
  (void)pthread_mutex_lock(&self->mutex);
  bool loaded = self->handle != NULL;
  (void)pthread_mutex_unlock(&self->mutex);
  return loaded;
}

static kiln_status load_locked(struct kn_nvrtc *nvrtc) {
  if (nvrtc->handle) return KILN_OK;
  void *handle = dlopen(nvrtc->place.path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return kn_fail(KILN_E_COMPILE, "NVRTC: cannot be loaded: %s", dlerror());
#define X(name, arguments)                                                                   \
  *(void **)(&nvrtc->name) = dlsym(handle, #name);                                           \
  if (!nvrtc->name) {                                                                        \
    (void)dlclose(handle);                                                                   \
    return kn_fail(KILN_E_COMPILE, "NVRTC: '%s' has no function " #name, nvrtc->place.path); \
  }
  NVRTC_SYMBOLS(X)
#undef X
  int major = 0, minor = 0;
  if (nvrtc->nvrtcVersion(&major, &minor) == NVRTC_SUCCESS) {
    nvrtc->place.version = major * 1000 + minor * 10;
  }
  nvrtc->handle = handle;
  return KILN_OK;
}

static kiln_status check_target(const struct kn_nvrtc *nvrtc, const char *target) {
  char supported[128] = "";
  for (size_t i = 0; i < sizeof targets / sizeof *targets; ++i) {
    if (nvrtc->place.version < targets[i].version) continue;
    if (strcmp(target, targets[i].target) == 0) return KILN_OK;
    size_t length = strlen(supported);
    (void)snprintf(supported + length, sizeof supported - length, "%s%s", length ? ", " : "",
                   targets[i].target);
  }
  return kn_fail(KILN_E_COMPILE,
                 "target %s is not one that Kiln builds with NVRTC %d.%d (%s); it builds %s",
                 target, nvrtc->place.version / 1000, nvrtc->place.version % 1000 / 10,
                 nvrtc->place.path, supported);
}

struct job {
  struct kn_nvrtc *nvrtc;
  const char *name, *source, *target;
  struct kn_cubin cubin;
  nvrtcResult result;
};

static uint64_t now_us(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* Runs on the big stack; takes no part in error reporting, which is the caller's thread's. */
static void *compile_job(void *user) {
  struct job *job = user;
  struct kn_nvrtc *nvrtc = job->nvrtc;
  nvrtcProgram program = NULL;
  char arch[64];
  const char *options[8] = {arch};
  int num_options = 1;
  uint64_t begin = now_us();
  (void)snprintf(arch, sizeof arch, "--gpu-architecture=%s", job->target);
  for (size_t i = 0; kn_nvrtc_options[i]; ++i) options[num_options++] = kn_nvrtc_options[i];
  if (nvrtc->place.version >= 13000) options[num_options++] = no_cache;

  job->result = nvrtc->nvrtcCreateProgram(&program, job->source, job->name, 0, NULL, NULL);
  if (job->result != NVRTC_SUCCESS) return NULL;
  job->result = nvrtc->nvrtcCompileProgram(program, num_options, options);
  size_t log_length = 0;
  if (nvrtc->nvrtcGetProgramLogSize(program, &log_length) == NVRTC_SUCCESS && log_length) {
    job->cubin.log = calloc(1, log_length + 1);
    if (job->cubin.log) (void)nvrtc->nvrtcGetProgramLog(program, job->cubin.log);
  }
  size_t length = 0;
  if (job->result == NVRTC_SUCCESS && nvrtc->nvrtcGetCUBINSize(program, &length) == NVRTC_SUCCESS &&
      length) {
    job->cubin.data = malloc(length);
    if (job->cubin.data && nvrtc->nvrtcGetCUBIN(program, job->cubin.data) == NVRTC_SUCCESS) {
      job->cubin.length = length;
    }
  }
  (void)nvrtc->nvrtcDestroyProgram(&program);
  job->cubin.compile_us = now_us() - begin;
  return NULL;
}

static kiln_status run_on_big_stack(struct job *job) {
  pthread_attr_t attributes;
  pthread_t thread;
  (void)pthread_attr_init(&attributes);
  (void)pthread_attr_setstacksize(&attributes, COMPILE_STACK_BYTES);
  int code = pthread_create(&thread, &attributes, compile_job, job);
  (void)pthread_attr_destroy(&attributes);
  if (code != 0) {
    return kn_fail(KILN_E_MEMORY, "NVRTC: no thread to compile on: %s", strerror(code));
  }
  (void)pthread_join(thread, NULL);
  return KILN_OK;
}

/* Turns the first "file(line): error: text" of a log into the error's place and text. */
static kiln_status fail_with_log(const struct job *job) {
  const struct kn_nvrtc *nvrtc = job->nvrtc;
  const char *log = job->cubin.log ? job->cubin.log : "";
  const char *error = strstr(log, ": error");
  char file[128] = "";
  int line = 0;
  if (error) {
    const char *begin = error;
    while (begin > log && begin[-1] != '\n') --begin;
    if (sscanf(begin, "%127[^(\n](%d)", file, &line) != 2) file[0] = '\0', line = 0;
  }
  const char *text = error ? error + 2 : log;
  int length = (int)strcspn(text, "\n");
  kiln_status status =
      kn_fail_at(KILN_E_COMPILE, file[0] ? file : NULL, line, 0,
                 "NVRTC %d.%d (%s) refused the source for %s: %.*s", nvrtc->place.version / 1000,
                 nvrtc->place.version % 1000 / 10, nvrtc->place.path, job->target,
                 length < 300 ? length : 300, *text ? text : "it gave no reason");
  kn_error_set_log(log);
  kn_error_set_driver_code((int)job->result);
  return status;
}

kiln_status kn_nvrtc_compile(struct kn_nvrtc *nvrtc, const char *name, const char *source,
                             const char *target, struct kn_cubin *out) {
  struct job job = {.nvrtc = nvrtc, .name = name, .source = source, .target = target};
  (void)pthread_mutex_lock(&nvrtc->mutex);
  kiln_status status = load_locked(nvrtc);
  (void)pthread_mutex_unlock(&nvrtc->mutex);
  if (status == KILN_OK) status = check_target(nvrtc, target);
  if (status == KILN_OK) status = run_on_big_stack(&job);
  if (status != KILN_OK) return status;
  if (job.result != NVRTC_SUCCESS) {
    status = fail_with_log(&job);
  } else if (!job.cubin.length) {
    status = kn_fail(KILN_E_COMPILE, "NVRTC %d.%d (%s) made an empty cubin for %s",
                     nvrtc->place.version / 1000, nvrtc->place.version % 1000 / 10,
                     nvrtc->place.path, target);
    kn_error_set_log(job.cubin.log ? job.cubin.log : "");
  }
  if (status != KILN_OK) {
    kn_cubin_release(&job.cubin);
    return status;
  }
  *out = job.cubin;
  return KILN_OK;
}

void kn_cubin_release(struct kn_cubin *cubin) {
  free(cubin->data);
  free(cubin->log);
  *cubin = (struct kn_cubin){0};
}
