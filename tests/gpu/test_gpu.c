/* SPDX-License-Identifier: MIT */
/* The public interface on a device, or on the SIMT harness: graphs, threads, lifetimes, refusals.
   Skips with 77 where there is no driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>
#include <dlfcn.h>
#include <kiln/kiln.h>
#include <pthread.h>

#include "cli/device.h"

enum { TOKENS = 7, HIDDEN = 256, BLOCKS = HIDDEN / 128 };

/* A cast of ones: every code is 448 (0x7e), every scale 1/448. */
struct fixture {
  struct cli_device *device;
  kiln *k;
  kiln_kernel *kernel;
  void *x, *out, *sf;
  kiln_arg args[3];
};
static struct fixture f;

static bool launch(void *user) {
  kiln_launch_options options;
  kiln_launch_options_init(&options);
  options.use_pdl = user != NULL;
  return kiln_launch(f.kernel, f.args, 3, &options, cli_device_stream(f.device)) == KILN_OK;
}

static void poison(void) {
  assert_true(cli_device_fill(f.device, f.out, 0xA5, TOKENS * HIDDEN));
  assert_true(cli_device_fill(f.device, f.sf, 0xA5, TOKENS * BLOCKS * 4));
}

static void expect_outputs(bool written) {
  static unsigned char out[TOKENS * HIDDEN];
  static uint32_t sf[TOKENS * BLOCKS];
  assert_true(cli_device_wait(f.device));
  assert_true(cli_device_download(f.device, out, f.out, sizeof out));
  assert_true(cli_device_download(f.device, sf, f.sf, sizeof sf));
  for (size_t i = 0; i < sizeof out; ++i) assert_int_equal(out[i], written ? 0x7e : 0xA5);
  for (size_t i = 0; i < TOKENS * BLOCKS; ++i) {
    assert_int_equal(sf[i], written ? 0x3B124925 : 0xA5A5A5A5);
  }
}

static void a_launch_can_be_captured_and_replayed(void **state) {
  (void)state;
  cli_graph *graph = cli_graph_capture(f.device, launch, NULL);
  assert_non_null(graph);
  for (int i = 0; i < 3; ++i) {
    poison();
    assert_true(cli_graph_launch(f.device, graph));
    expect_outputs(true);
  }
  cli_graph_free(f.device, graph);
}

static void a_refused_launch_writes_nothing(void **state) {
  kiln_arg args[3];
  (void)state;
  memcpy(args, f.args, sizeof args);
  args[2].tensor.shape[1] = BLOCKS + 1;
  poison();
  assert_int_equal(kiln_launch(f.kernel, args, 3, NULL, cli_device_stream(f.device)),
                   KILN_E_ARGUMENT);
  expect_outputs(false);
}

static void dependent_launches_keep_their_order(void **state) {
  (void)state;
  poison();
  for (int i = 0; i < 100; ++i) assert_true(launch(&f));
  expect_outputs(true);
}

static void *launch_from_thread(void *user) {
  (void)user;
  return launch(NULL) ? &f : NULL;
}

static void a_thread_without_a_context_can_launch(void **state) {
  pthread_t thread;
  void *result = NULL;
  (void)state;
  poison();
  assert_int_equal(pthread_create(&thread, NULL, launch_from_thread, NULL), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_non_null(result);
  expect_outputs(true);
}

/* Entry points that Kiln itself does not use; the harness lacks some. */
struct driver {
  CUresult (*get_device)(CUdevice *, int);
  CUresult (*create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
  CUresult (*destroy)(CUcontext);
  CUresult (*get_current)(CUcontext *);
  CUresult (*create_stream)(CUstream *, unsigned);
};

static bool find_driver(struct driver *d) {
  static const char *const names[] = {"cuDeviceGet", "cuCtxCreate_v4", "cuCtxDestroy_v2",
                                      "cuCtxGetCurrent", "cuStreamCreate"};
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbols[sizeof names / sizeof *names];
  _Static_assert(sizeof symbols == sizeof *d, "a name for each");
  for (size_t i = 0; library && i < sizeof names / sizeof *names; ++i) {
    symbols[i] = dlsym(library, names[i]);
    if (!symbols[i]) return false;
  }
  if (library) memcpy(d, symbols, sizeof symbols);
  return library != NULL;
}

/* A context of the caller's own is current: launches go to the stream's device all the same, it
   stays current, and a stream of it is refused. */
static void a_context_of_the_caller_is_left_alone(void **state) {
  struct driver d;
  CUdevice device;
  CUcontext own, after;
  CUstream stream;
  (void)state;
  if (!find_driver(&d)) skip();
  poison();
  assert_int_equal(d.get_device(&device, 0), CUDA_SUCCESS);
  assert_int_equal(d.create(&own, NULL, 0, device), CUDA_SUCCESS);
  assert_int_equal(d.create_stream(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  assert_true(launch(NULL));
  assert_int_equal(kiln_launch(f.kernel, f.args, 3, NULL, stream), KILN_E_CUDA);
  assert_non_null(strstr(kiln_last_error()->message, "primary context"));
  assert_int_equal(d.get_current(&after), CUDA_SUCCESS);
  assert_ptr_equal(after, own);
  assert_int_equal(d.destroy(own), CUDA_SUCCESS); /* the primary context is current again */
  expect_outputs(true);
}

/* More than 2^31 elements: offsets that do not fit 32 bits. Needs the memory of a GPU. */
static void a_matrix_of_more_than_two_billion_elements_is_cast(void **state) {
  const int64_t rows = (INT64_C(1) << 31) / HIDDEN + 5, elements = rows * HIDDEN;
  const int64_t shape[2] = {rows, HIDDEN}, sf_shape[2] = {rows, BLOCKS};
  static unsigned char out[TOKENS * HIDDEN];
  kiln_arg args[3];
  (void)state;
  if (cli_device_free_bytes(f.device) < (UINT64_C(16) << 30)) skip();
  memcpy(args, f.args, sizeof args);
  void *x = cli_device_alloc(f.device, (uint64_t)elements * 2);
  void *codes = cli_device_alloc(f.device, (uint64_t)elements);
  void *sf = cli_device_alloc(f.device, (uint64_t)rows * BLOCKS * 4);
  assert_true(x && codes && sf);
  assert_true(cli_device_fill(f.device, x, 0x3f, (uint64_t)elements * 2)); /* bf16 0x3f3f */
  assert_true(cli_device_fill(f.device, codes, 0, (uint64_t)elements));
  args[0].tensor = kiln_tensor_make(x, KILN_BF16, 2, shape);
  args[1].tensor = kiln_tensor_make(codes, KILN_E4M3, 2, shape);
  args[2].tensor = kiln_tensor_make(sf, KILN_F32, 2, sf_shape);
  assert_int_equal(kiln_launch(f.kernel, args, 3, NULL, cli_device_stream(f.device)), KILN_OK);
  assert_true(cli_device_wait(f.device));
  for (int end = 0; end < 2; ++end) {
    uint64_t at = end ? (uint64_t)elements - sizeof out : 0;
    assert_true(cli_device_download(f.device, out, (uint8_t *)codes + at, sizeof out));
    for (size_t i = 0; i < sizeof out; ++i) assert_int_equal(out[i], 0x7e);
  }
  cli_device_free(f.device, x);
  cli_device_free(f.device, codes);
  cli_device_free(f.device, sf);
}

static void a_kernel_outlives_its_context(void **state) {
  (void)state;
  kiln_close(f.k);
  f.k = NULL;
  poison();
  assert_true(launch(NULL));
  expect_outputs(true);
}

static bool set_up(void) {
  static uint16_t ones[TOKENS * HIDDEN];
  const int64_t shape[2] = {TOKENS, HIDDEN}, sf_shape[2] = {TOKENS, BLOCKS};
  static const kiln_param params[] = {{"num_per_channels", "128"}};
  kiln_request request;
  kiln_options options;
  kiln_options_init(&options);
  if (kiln_open(&options, &f.k) != KILN_OK) return false;
  f.device = cli_device_open(0);
  if (!f.device) return false;
  for (size_t i = 0; i < TOKENS * HIDDEN; ++i) ones[i] = 0x3f80;
  f.x = cli_device_alloc(f.device, sizeof ones);
  f.out = cli_device_alloc(f.device, TOKENS * HIDDEN);
  f.sf = cli_device_alloc(f.device, TOKENS * BLOCKS * 4);
  f.args[0] = (kiln_arg){.name = "x", .tensor = kiln_tensor_make(f.x, KILN_BF16, 2, shape)};
  f.args[1] = (kiln_arg){.name = "out", .tensor = kiln_tensor_make(f.out, KILN_E4M3, 2, shape)};
  f.args[2] = (kiln_arg){.name = "out_sf", .tensor = kiln_tensor_make(f.sf, KILN_F32, 2, sf_shape)};
  kiln_request_init(&request);
  request.op = "per_token_cast";
  request.params = params;
  request.num_params = 1;
  return cli_device_upload(f.device, f.x, ones, sizeof ones) &&
         kiln_get_by_tensors(f.k, &request, f.args, 3, &f.kernel) == KILN_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_launch_can_be_captured_and_replayed),
      cmocka_unit_test(a_refused_launch_writes_nothing),
      cmocka_unit_test(dependent_launches_keep_their_order),
      cmocka_unit_test(a_thread_without_a_context_can_launch),
      cmocka_unit_test(a_context_of_the_caller_is_left_alone),
      cmocka_unit_test(a_matrix_of_more_than_two_billion_elements_is_cast),
      cmocka_unit_test(a_kernel_outlives_its_context),
  };
  if (!set_up()) {
    return kiln_last_error()->status == KILN_E_CUDA ? 77 : 1;
  }
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  kiln_kernel_unref(f.kernel);
  cli_device_free(f.device, f.x);
  cli_device_free(f.device, f.out);
  cli_device_free(f.device, f.sf);
  cli_device_close(f.device);
  return failed;
}
