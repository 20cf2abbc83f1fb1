/* SPDX-License-Identifier: MIT */
/* The public interface without a device: where kernels come from, refusals, threads, lifetimes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <kiln/kiln.h>
#include <pthread.h>

static char cache[] = "/tmp/kiln-test-api-XXXXXX";

static void remove_folder(const char *folder) {
  char command[64];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static kiln *open_for(uint32_t flags, const char *nvrtc) {
  kiln_options o;
  kiln *k = NULL;
  kiln_options_init(&o);
  o.flags = KILN_NO_DEVICE | flags;
  o.arch = "sm_90a";
  o.cache_dirs = cache;
  o.nvrtc = nvrtc;
  if (kiln_open(&o, &k) != KILN_OK) fail_msg("%s", kiln_last_error()->message);
  return k;
}

static const kiln_param cast_params[] = {
    {"hidden", "256"}, {"in_dtype", "bf16"}, {"fmt", "e4m3"}, {"num_per_channels", "128"}};

static kiln_request cast_request(void) {
  kiln_request r;
  kiln_request_init(&r);
  r.op = "per_token_cast";
  r.params = cast_params;
  r.num_params = 4;
  return r;
}

static kiln_stats stats_of(const kiln *k) {
  kiln_stats s;
  kiln_stats_init(&s);
  assert_int_equal(kiln_get_stats(k, &s), KILN_OK);
  return s;
}

static void a_kernel_is_compiled_once_then_found_on_disk_and_in_memory(void **state) {
  const kiln_request r = cast_request();
  kiln_kernel *first = NULL, *second = NULL;
  (void)state;
  kiln *k = open_for(0, NULL);
  assert_int_equal(kiln_get(k, &r, &first), KILN_OK);
  assert_int_equal(kiln_get(k, &r, &second), KILN_OK);
  assert_ptr_equal(first, second);
  assert_int_equal(stats_of(k).compiles, 1);
  assert_int_equal(stats_of(k).memory_hits, 1);
  kiln_kernel_unref(second);
  kiln_close(k);
  assert_int_equal(kiln_kernel_num_args(first), 7); /* valid beyond its context */
  kiln_kernel_unref(first);

  k = open_for(KILN_NO_COMPILE, "/nonexistent/libnvrtc.so.13");
  assert_int_equal(kiln_get(k, &r, &first), KILN_OK);
  assert_int_equal(stats_of(k).disk_hits, 1);
  assert_int_equal(stats_of(k).compiles, 0);
  kiln_kernel_unref(first);
  kiln_close(k);
}

static void strict_mode_misses_and_missing_nvrtc_is_told(void **state) {
  kiln_param params[] = {
      {"hidden", "512"}, {"in_dtype", "f32"}, {"fmt", "e5m2"}, {"num_per_channels", "32"}};
  kiln_request r = cast_request();
  kiln_kernel *kernel = NULL;
  (void)state;
  r.params = params;
  kiln *k = open_for(KILN_NO_COMPILE, NULL);
  assert_int_equal(kiln_get(k, &r, &kernel), KILN_E_MISS);
  assert_null(kernel);
  kiln_close(k);
  k = open_for(0, "/nonexistent/libnvrtc.so.13");
  assert_int_equal(kiln_get(k, &r, &kernel), KILN_E_COMPILE);
  assert_string_equal(kiln_last_error()->message,
                      "per_token_cast: NVRTC: '/nonexistent/libnvrtc.so.13', which was asked for, "
                      "cannot be read");
  kiln_close(k);
}

static void a_template_that_does_not_compile_is_told_with_its_place(void **state) {
  char folder[] = "/tmp/kiln-test-spec-XXXXXX", path[256];
  kiln_options o;
  kiln *k = NULL;
  kiln_kernel *kernel = NULL;
  kiln_request r;
  (void)state;
  assert_non_null(mkdtemp(folder));
  (void)snprintf(path, sizeof path, "%s/broken.yaml", folder);
  FILE *file = fopen(path, "w");
  fputs(
      "operator: broken\ntensors: {x: {role: in, dtype: u8, shape: [n]}}\ntemplate: broken.cu\n"
      "launch: [{threads: 32, grid: 1, variants: [{function: broken}]}]\nexamples: [{}]\n",
      file);
  fclose(file);
  (void)snprintf(path, sizeof path, "%s/broken.cu", folder);
  file = fopen(path, "w");
  fputs("// line 1\nextern \"C\" __global__ void broken() { nonsense; }\n", file);
  fclose(file);
  kiln_options_init(&o);
  o.flags = KILN_NO_DEVICE | KILN_NO_CACHE;
  o.arch = "sm_100a";
  o.spec_dirs = folder;
  assert_int_equal(kiln_open(&o, &k), KILN_OK);
  kiln_request_init(&r);
  r.op = "broken";
  for (int i = 0; i < 2; ++i) { /* the second time from memory, just the same */
    assert_int_equal(kiln_get(k, &r, &kernel), KILN_E_COMPILE);
    assert_string_equal(kiln_last_error()->file, "broken.cu");
    assert_int_equal(kiln_last_error()->line, 2);
    assert_non_null(strstr(kiln_last_error()->log, "nonsense"));
    assert_non_null(strstr(kiln_last_error()->message, "sm_100a"));
    assert_int_equal(stats_of(k).compiles, 0);
  }
  kiln_close(k);
  remove_folder(folder);
}

static void preload_answers_from_memory_and_stops_at_the_first_failure(void **state) {
  const kiln_param wide[] = {
      {"hidden", "384"}, {"in_dtype", "bf16"}, {"fmt", "e4m3"}, {"num_per_channels", "128"}};
  const kiln_param wrong[] = {
      {"hidden", "300"}, {"in_dtype", "bf16"}, {"fmt", "e4m3"}, {"num_per_channels", "128"}};
  kiln_request requests[3] = {cast_request(), cast_request(), cast_request()};
  kiln_kernel *kernel = NULL;
  (void)state;
  requests[1].params = wide;
  kiln *k = open_for(KILN_NO_CACHE, NULL);
  assert_int_equal(kiln_preload(k, requests, 2), KILN_OK);
  assert_int_equal(stats_of(k).compiles, 2);
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(kiln_get(k, &requests[i], &kernel), KILN_OK);
    kiln_kernel_unref(kernel);
  }
  assert_int_equal(stats_of(k).compiles, 2);
  assert_int_equal(stats_of(k).memory_hits, 2);
  requests[0].params = wrong;
  requests[2].params = NULL;
  assert_int_equal(kiln_preload(k, requests, 3), KILN_E_UNSUPPORTED);
  assert_non_null(strstr(kiln_last_error()->message, "hidden % num_per_channels == 0"));
  assert_int_equal(kiln_preload(k, NULL, 0), KILN_OK);
  kiln_close(k);
}

static void count_line(void *user, const char *message) {
  if (strstr(message, "kernels are not kept in the cache")) ++*(int *)user;
}

static void what_needs_no_error_is_logged(void **state) {
  const kiln_request r = cast_request();
  kiln_options o;
  kiln *k = NULL;
  kiln_kernel *kernel = NULL;
  int lines = 0;
  char file[sizeof cache + 32], root[sizeof cache + 64];
  (void)state;
  /* A cache root below a file can neither be read nor made: the kernel is built all the same. */
  (void)snprintf(file, sizeof file, "%s/file", cache);
  FILE *stream = fopen(file, "w");
  assert_non_null(stream);
  assert_int_equal(fclose(stream), 0);
  (void)snprintf(root, sizeof root, "%s/nonexistent-root", file);
  kiln_options_init(&o);
  o.flags = KILN_NO_DEVICE;
  o.arch = "sm_90a";
  o.cache_dirs = root;
  o.log = count_line;
  o.log_user = &lines;
  assert_int_equal(kiln_open(&o, &k), KILN_OK);
  assert_int_equal(kiln_get(k, &r, &kernel), KILN_OK);
  assert_int_equal(lines, 1);
  assert_int_equal(stats_of(k).compiles, 1);
  kiln_kernel_unref(kernel);
  kiln_close(k);
}

static void a_kernel_without_scratch_memory_needs_none(void **state) {
  const kiln_request r = cast_request();
  const int64_t x_shape[2] = {2, 256}, sf_shape[2] = {2, 2};
  static _Alignas(16) unsigned char x[1024], out[512], sf[16];
  kiln_arg args[] = {{.name = "x", .tensor = kiln_tensor_make(x, KILN_BF16, 2, x_shape)},
                     {.name = "out", .tensor = kiln_tensor_make(out, KILN_E4M3, 2, x_shape)},
                     {.name = "out_sf", .tensor = kiln_tensor_make(sf, KILN_F32, 2, sf_shape)}};
  kiln_kernel *kernel = NULL;
  uint64_t bytes = 1;
  (void)state;
  kiln *k = open_for(0, NULL);
  assert_int_equal(kiln_get(k, &r, &kernel), KILN_OK);
  if (kiln_workspace_bytes(kernel, args, 3, NULL, &bytes) != KILN_OK) {
    fail_msg("%s", kiln_last_error()->message);
  }
  assert_int_equal(bytes, 0);
  args[1].tensor.shape[0] = 3;
  assert_int_equal(kiln_workspace_bytes(kernel, args, 3, NULL, &bytes), KILN_E_ARGUMENT);
  kiln_kernel_unref(kernel);
  kiln_close(k);
}

static void source_and_key_can_be_had_without_compiling(void **state) {
  const kiln_request r = cast_request();
  char *source = NULL, *key = NULL;
  (void)state;
  kiln *k = open_for(0, "/nonexistent/libnvrtc.so.13");
  assert_int_equal(kiln_emit(k, &r, &source), KILN_OK);
  assert_int_equal(kiln_key_text(k, &r, &key), KILN_OK);
  assert_non_null(strstr(source, "group_full"));
  assert_non_null(strstr(key, "target 6:sm_90a"));
  assert_int_equal(stats_of(k).compiles, 0);
  kiln_free(source);
  kiln_free(key);
  kiln_close(k);
}

static void wrong_arguments_are_refused(void **state) {
  kiln_options o;
  kiln *k = NULL;
  (void)state;
  kiln_options_init(&o);
  o.flags = KILN_NO_DEVICE;
  o.arch = "sm_80";
  assert_int_equal(kiln_open(&o, &k), KILN_E_NOT_FOUND);
  assert_string_equal(kiln_last_error()->message,
                      "arch is 'sm_80'; allowed are sm_90a, sm_100a, sm_100f, sm_103a");
  o.arch = NULL;
  assert_int_equal(kiln_open(&o, &k), KILN_E_ARGUMENT);
  o.size = 3;
  assert_int_equal(kiln_open(&o, &k), KILN_E_ARGUMENT);
  assert_int_equal(kiln_open(NULL, &k), KILN_E_ARGUMENT);
  assert_null(k);
  kiln_close(NULL);
  kiln_kernel_unref(NULL);
  kiln_free(NULL);
}

static void without_a_device_a_launch_is_refused(void **state) {
  const kiln_request r = cast_request();
  const int64_t x_shape[2] = {2, 256}, sf_shape[2] = {2, 2};
  static _Alignas(16) unsigned char x[1024], out[512], sf[16], before[512];
  const kiln_arg args[] = {
      {.name = "x", .tensor = kiln_tensor_make(x, KILN_BF16, 2, x_shape)},
      {.name = "out", .tensor = kiln_tensor_make(out, KILN_E4M3, 2, x_shape)},
      {.name = "out_sf", .tensor = kiln_tensor_make(sf, KILN_F32, 2, sf_shape)}};
  kiln_kernel *kernel = NULL;
  (void)state;
  memset(out, 0xA5, sizeof out);
  memcpy(before, out, sizeof out);
  kiln *k = open_for(0, NULL);
  assert_int_equal(kiln_get_by_tensors(k, &r, args, 3, &kernel), KILN_OK);
  assert_int_equal(kiln_launch(kernel, args, 3, NULL, NULL), KILN_E_CUDA);
  assert_string_equal(
      kiln_last_error()->message,
      "per_token_cast: this kernel was built for sm_90a without a device; it cannot "
      "be launched");
  assert_memory_equal(out, before, sizeof out);
  kiln_kernel_unref(kernel);
  kiln_close(k);
}

static void *get_one(void *user) {
  const kiln_param params[] = {
      {"hidden", "1024"}, {"in_dtype", "bf16"}, {"fmt", "e5m2"}, {"num_per_channels", "64"}};
  kiln_request r = cast_request();
  kiln_kernel *kernel = NULL;
  r.params = params;
  if (kiln_get(user, &r, &kernel) != KILN_OK) return NULL;
  return kernel;
}

static void threads_that_ask_for_the_same_compile_once(void **state) {
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  (void)state;
  kiln *k = open_for(KILN_NO_CACHE, NULL);
  for (int i = 0; i < THREADS; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, get_one, k), 0);
  for (int i = 0; i < THREADS; ++i) {
    void *kernel = NULL;
    assert_int_equal(pthread_join(threads[i], &kernel), 0);
    assert_non_null(kernel);
    kiln_kernel_unref(kernel);
  }
  assert_int_equal(stats_of(k).compiles, 1);
  kiln_close(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_kernel_is_compiled_once_then_found_on_disk_and_in_memory),
      cmocka_unit_test(strict_mode_misses_and_missing_nvrtc_is_told),
      cmocka_unit_test(a_template_that_does_not_compile_is_told_with_its_place),
      cmocka_unit_test(preload_answers_from_memory_and_stops_at_the_first_failure),
      cmocka_unit_test(what_needs_no_error_is_logged),
      cmocka_unit_test(a_kernel_without_scratch_memory_needs_none),
      cmocka_unit_test(source_and_key_can_be_had_without_compiling),
      cmocka_unit_test(wrong_arguments_are_refused),
      cmocka_unit_test(without_a_device_a_launch_is_refused),
      cmocka_unit_test(threads_that_ask_for_the_same_compile_once),
  };
  if (!mkdtemp(cache)) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove_folder(cache);
  return failed;
}
