/* SPDX-License-Identifier: MIT */
/* NVRTC through dlopen: found without loading, loaded on the first compile. */
#ifndef KILN_CUDA_NVRTC_H
#define KILN_CUDA_NVRTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

#include "base/text.h"

struct kn_nvrtc;

/* Finds libnvrtc: `path` if given, KILN_NVRTC, the dynamic loader's path (.so.13, then .so.12),
   the toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda*), pip wheels (nvidia/cu13/lib,
   nvidia/cuda_nvrtc/lib, under KILN_WHEELS and the build tree). Reads version and ELF build id
   from the file, without dlopen. On failure KILN_E_COMPILE with every path tried. */
kiln_status kn_nvrtc_find(const char *path, struct kn_nvrtc **out);
void kn_nvrtc_free(struct kn_nvrtc *nvrtc);

const char *kn_nvrtc_path(const struct kn_nvrtc *nvrtc);
/* 8 hex digits of version and ELF build id, and a final NUL. */
const char *kn_nvrtc_id(const struct kn_nvrtc *nvrtc);
/* 13000 for 13.0, as far as the file name or the library tells. */
int kn_nvrtc_version(const struct kn_nvrtc *nvrtc);
bool kn_nvrtc_is_loaded(const struct kn_nvrtc *nvrtc);

struct kn_cubin {
  void *data; /* free() */
  size_t length;
  char *log; /* free(); "" if NVRTC said nothing */
  uint64_t compile_us;
};

/* The options every compile gets, NULL-terminated, without the target. Part of the key. */
extern const char *const kn_nvrtc_options[];

/* Compiles `source` for `target` ("sm_90a") with kn_nvrtc_options. May be called from several
   threads; runs on a thread with enough stack. Errors: KILN_E_COMPILE with NVRTC's log, NVRTC's
   version and path; an unknown target names those that this NVRTC has; an empty cubin is refused.
 */
kiln_status kn_nvrtc_compile(struct kn_nvrtc *nvrtc, const char *name, const char *source,
                             const char *target, struct kn_cubin *out);
void kn_cubin_release(struct kn_cubin *cubin);

/* What a cubin's ELF says of each function. */
struct kn_function_facts {
  char name[96];
  int registers;
  int stack_bytes;  /* local memory a thread has: spills, and arrays that registers cannot hold */
  int shared_bytes; /* static shared memory */
  int max_threads;  /* from __launch_bounds__, 0 if not given */
};
/* Fills up to `capacity` facts, sorted by name; *out_count is how many there are. KILN_E_COMPILE if
   it is no ELF file, none if it has no CUDA sections. */
kiln_status kn_cubin_facts(const void *data, size_t length, struct kn_function_facts *facts,
                           size_t capacity, size_t *out_count);

#endif
