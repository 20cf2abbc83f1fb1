/* SPDX-License-Identifier: MIT */
/* kiln bench --host: what a request costs before any launch. Needs NVRTC, but no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/json.h"

enum { REPEATS = 15, MEMORY_GETS = 200000 };

static const char arch[] = "sm_90a";

static const kiln_param per_token[] = {
    {"hidden", "7168"}, {"in_dtype", "bf16"}, {"fmt", "e4m3"}, {"num_per_channels", "128"}};
static const kiln_param swiglu[] = {{"hidden", "7168"}};

/* A kernel that does nothing, as a spec and template of its own. */
static const char empty_spec[] =
    "operator: empty\n"
    "tensors: {x: {role: in, dtype: u8, shape: [num_bytes]}}\n"
    "template: empty.cu\n"
    "launch: [{threads: 32, grid: 1, variants: [{function: empty}]}]\n"
    "examples: [{}]\n";
static const char empty_template[] =
    "extern \"C\" __global__ void empty(const __grid_constant__ kiln::kiln_args) {}\n";

static double now_us(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static kiln_request request_of(const char *op, const kiln_param *params, size_t count) {
  kiln_request request;
  kiln_request_init(&request);
  request.op = op;
  request.params = params;
  request.num_params = count;
  return request;
}

static kiln *open_context(const struct cli_options *options, const char *spec_dirs, uint32_t flags,
                          const char *cache) {
  kiln_options o;
  kiln *k = NULL;
  kiln_options_init(&o);
  o.flags = KILN_NO_DEVICE | flags;
  o.arch = arch;
  o.nvrtc = options->nvrtc;
  o.spec_dirs = spec_dirs;
  o.cache_dirs = cache;
  if (kiln_open(&o, &k) != KILN_OK) (void)cli_fail_last();
  return k;
}

/* Median time of kiln_get in a fresh context each, negative on failure. */
static double get_us(const struct cli_options *options, const char *spec_dirs, uint32_t flags,
                     const char *cache, const kiln_request *request) {
  double times[REPEATS];
  for (int i = 0; i < REPEATS; ++i) {
    kiln_kernel *kernel = NULL;
    kiln *k = open_context(options, spec_dirs, flags, cache);
    if (!k) return -1;
    double begin = now_us();
    kiln_status status = kiln_get(k, request, &kernel);
    times[i] = now_us() - begin;
    if (status != KILN_OK) (void)cli_fail_last();
    kiln_kernel_unref(kernel);
    kiln_close(k);
    if (status != KILN_OK) return -1;
  }
  qsort(times, REPEATS, sizeof *times, by_value);
  return times[REPEATS / 2];
}

/* Time of an answer from memory in nanoseconds, negative on failure. */
static double memory_ns(const struct cli_options *options, const char *cache,
                        const kiln_request *request) {
  kiln *k = open_context(options, NULL, 0, cache);
  kiln_kernel *kernel = NULL;
  double ns = -1;
  if (k && kiln_get(k, request, &kernel) == KILN_OK) {
    double begin = now_us();
    for (int i = 0; i < MEMORY_GETS; ++i) {
      kiln_kernel *again = NULL;
      if (kiln_get(k, request, &again) == KILN_OK) kiln_kernel_unref(again);
    }
    ns = (now_us() - begin) * 1e3 / MEMORY_GETS;
  } else if (k) {
    (void)cli_fail_last();
  }
  kiln_kernel_unref(kernel);
  kiln_close(k);
  return ns;
}

static bool write_file(const char *folder, const char *name, const char *text) {
  char path[256];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (!file) return false;
  bool good = fputs(text, file) >= 0;
  return fclose(file) == 0 && good;
}

static void remove_folder(const char *folder) {
  char path[256];
  const char *const names[] = {"empty.yaml", "empty.cu"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    (void)unlink(path);
  }
  (void)rmdir(folder);
}

/* A figure, printed and added; false if it is negative. */
static bool add(cJSON *host, const char *name, double value, const char *unit) {
  if (value < 0) return false;
  (void)cJSON_AddNumberToObject(host, name, value);
  (void)fprintf(stderr, "%-28s %10.1f %s\n", name, value, unit);
  return true;
}

static bool add_compiles(const struct cli_options *options, cJSON *host, const char *folder) {
  const kiln_request empty = request_of("empty", NULL, 0);
  const kiln_request cast = request_of("per_token_cast", per_token, 4);
  const kiln_request chain =
      request_of("swiglu_forward_and_per_channel_cast_and_transpose", swiglu, 1);
  /* The first compile of a process loads NVRTC. */
  double first = get_us(options, folder, KILN_NO_CACHE, NULL, &empty);
  double nothing = first < 0 ? -1 : get_us(options, folder, KILN_NO_CACHE, NULL, &empty);
  double cast_us = nothing < 0 ? -1 : get_us(options, NULL, KILN_NO_CACHE, NULL, &cast);
  double chain_us = cast_us < 0 ? -1 : get_us(options, NULL, KILN_NO_CACHE, NULL, &chain);
  return add(host, "empty_compile_us", nothing, "us") &&
         add(host, "per_token_cast_compile_us", cast_us, "us") &&
         add(host, "swiglu_chain_compile_us", chain_us, "us") &&
         add(host, "per_token_cast_ratio", cast_us / nothing, "x the empty kernel") &&
         add(host, "swiglu_chain_ratio", chain_us / nothing, "x the empty kernel");
}

bool bench_host(const struct cli_options *options, cJSON *root) {
  const kiln_request cast = request_of("per_token_cast", per_token, 4);
  cJSON *host = cJSON_AddObjectToObject(root, "host");
  char folder[] = "/tmp/kiln-bench-XXXXXX";
  if (!mkdtemp(folder)) {
    (void)cli_fail("no folder in /tmp for the empty kernel");
    return false;
  }
  bool good = write_file(folder, "empty.yaml", empty_spec) &&
              write_file(folder, "empty.cu", empty_template) && add_compiles(options, host, folder);
  /* Fills the cache, which the next lines read. */
  good = good && add(host, "memory_hit_ns", memory_ns(options, options->cache_dirs, &cast), "ns");
  good = good && add(host, "disk_hit_us",
                     get_us(options, NULL, KILN_NO_COMPILE, options->cache_dirs, &cast), "us");
  remove_folder(folder);
  return good;
}
