/* SPDX-License-Identifier: MIT */
/* The oracle against recorded results of the peer's references: casts to the bit, SwiGLU within
   the contract's tolerance, since exp is the host's here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <inttypes.h>
#include <string.h>

#include "oracle/golden_request.h"
#include "oracle/oracle.h"

enum { MAX_FILE = 1 << 20, TEXT = 512 };

struct fixture {
  struct kn_golden golden;
  struct kn_golden_request request;
  char chain[TEXT];
  struct kn_oracle_tensor tensors[3];
  struct kn_oracle_scalar scalar;
  struct kn_oracle_case c;
};

static const char *param(const struct fixture *f, const char *name) {
  return kn_golden_param(f->request.params, f->request.num_params, name);
}

static bool is_true(const struct fixture *f, const char *name) {
  const char *value = param(f, name);
  return value && strcmp(value, "true") == 0;
}

static kiln_dtype format_of(const struct fixture *f) {
  static const kiln_dtype all[] = {KILN_E4M3, KILN_E5M2, KILN_E2M1, KILN_E5M6};
  const char *fmt = param(f, "fmt");
  for (size_t i = 0; fmt && i < 4; ++i) {
    if (strcmp(fmt, kiln_dtype_name(all[i])) == 0) return all[i];
  }
  return KILN_E4M3;
}

static void write_chain(struct fixture *f) {
  const bool swiglu = strncmp(f->request.op, "swiglu", 6) == 0;
  const char *layout = is_true(f, "use_packed_ue8m0")               ? "packed_ue8m0"
                       : is_true(f, "use_tma_aligned_col_major_sf") ? "col_major"
                                                                    : "row_major";
  (void)snprintf(f->chain, sizeof f->chain,
                 "load x\n%s%s%squantize to=%s rows=%s cols=%s round_sf=%d layout=%s\n%s"
                 "store data=out sf=out_sf\n",
                 swiglu ? "swiglu" : "", f->request.num_scalars ? " clamp=swiglu_clamp_value" : "",
                 swiglu ? "\nround to=bf16\n" : "", kiln_dtype_name(format_of(f)),
                 swiglu ? param(f, "num_per_tokens") : "1",
                 swiglu ? "1" : param(f, "num_per_channels"), is_true(f, "round_sf"), layout,
                 swiglu && !is_true(f, "without_transpose") ? "transpose\n" : "");
}

/* An output for the oracle, in the layout that a launch would have; scales column-major where the
   case has them so. */
static struct kn_oracle_tensor output(const struct fixture *f, const char *name, kiln_dtype dtype,
                                      bool col_major) {
  const kiln_tensor *golden = &kn_golden_array(&f->golden, name)->tensor;
  const int64_t bits = kiln_dtype_bits(dtype);
  const int64_t shape[2] = {golden->shape[0],
                            golden->shape[1] * kiln_dtype_bits(golden->dtype) / bits};
  struct kn_oracle_tensor t = {name, true, KILN_OUT, kiln_tensor_make(NULL, dtype, 2, shape), NULL};
  int64_t rows = shape[0];
  if (col_major) {
    rows = (rows + 3) / 4 * 4;
    t.tensor.strides[0] = 1;
    t.tensor.strides[1] = rows;
  }
  t.tensor.size_bytes = (uint64_t)(rows * shape[1] * bits / 8);
  t.tensor.data = malloc(t.tensor.size_bytes + 1);
  assert_non_null(t.tensor.data);
  memset(t.tensor.data, 0xA5, t.tensor.size_bytes);
  return t;
}

static void setup(struct fixture *f) {
  const struct kn_golden_array *sf = kn_golden_array(&f->golden, "out_sf");
  write_chain(f);
  f->tensors[0] =
      (struct kn_oracle_tensor){"x", true, KILN_IN, kn_golden_array(&f->golden, "x")->tensor, NULL};
  f->tensors[1] = output(f, "out", format_of(f), false);
  f->tensors[2] = output(f, "out_sf", sf->tensor.dtype, is_true(f, "use_tma_aligned_col_major_sf"));
  f->c = (struct kn_oracle_case){
      .op = f->request.op, .chain = f->chain, .tensors = f->tensors, .num_tensors = 3};
  if (f->request.num_scalars) {
    f->scalar = (struct kn_oracle_scalar){f->request.scalars[0].name, true,
                                          strtod(f->request.scalars[0].value, NULL)};
    f->c.scalars = &f->scalar;
    f->c.num_scalars = 1;
  }
}

/* Puts the recorded outputs in place of the oracle's and has them checked. */
static void check_recorded(struct fixture *f, const char *path) {
  struct kn_oracle_report report;
  for (int i = 1; i < 3; ++i) {
    const struct kn_golden_array *a = kn_golden_array(&f->golden, f->tensors[i].name);
    assert_int_equal(f->tensors[i].tensor.size_bytes, a->tensor.size_bytes);
    memcpy(f->tensors[i].tensor.data, a->tensor.data, a->tensor.size_bytes);
  }
  assert_int_equal(kn_oracle_check(&f->c, 0xA5, &report), KILN_OK);
  if (report.failed) fail_msg("%s: %s (%" PRIu64 ")", path, report.first, report.failed);
}

/* Routing: every array is a tensor as it is; outputs are made afresh, on what they held before. */
static void check_routing(const struct fixture *f, const char *path) {
  struct kn_oracle_tensor tensors[KN_GOLDEN_MAX];
  struct kn_oracle_scalar scalars[KN_GOLDEN_MAX];
  kiln_param params[KN_GOLDEN_MAX];
  struct kn_oracle_case c = {.op = f->request.op,
                             .chain = "",
                             .tensors = tensors,
                             .num_tensors = f->golden.num_arrays,
                             .scalars = scalars,
                             .num_scalars = f->request.num_scalars,
                             .params = params,
                             .num_params = f->request.num_params};
  char first[256];
  for (size_t i = 0; i < c.num_tensors; ++i) {
    const struct kn_golden_array *a = &f->golden.arrays[i];
    const struct kn_golden_array *in = kn_golden_input(&f->golden, a->name);
    tensors[i] = (struct kn_oracle_tensor){a->name, true, KILN_IN, a->tensor, NULL};
    if (!a->is_output) continue;
    tensors[i].role = in ? KILN_INOUT : KILN_OUT;
    tensors[i].tensor.data = calloc(1, a->tensor.size_bytes + 1);
    assert_non_null(tensors[i].tensor.data);
    if (in) memcpy(tensors[i].tensor.data, in->tensor.data, in->tensor.size_bytes);
  }
  for (size_t i = 0; i < c.num_scalars; ++i) {
    const struct kn_golden_param *scalar = &f->request.scalars[i];
    scalars[i] = (struct kn_oracle_scalar){scalar->name, true, strtod(scalar->value, NULL)};
  }
  for (size_t i = 0; i < c.num_params; ++i) {
    params[i] = (kiln_param){f->request.params[i].name, f->request.params[i].value};
  }
  if (kn_oracle_run(&c) != KILN_OK) fail_msg("%s: the oracle has no answer", path);
  for (size_t i = 0; i < c.num_tensors; ++i) {
    if (tensors[i].role == KILN_IN) continue;
    if (!kn_golden_equal(&f->golden.arrays[i], &tensors[i].tensor, first, sizeof first)) {
      fail_msg("%s: %s", path, first);
    }
    free(tensors[i].tensor.data);
  }
}

static void check_file(const char *path, const void *bytes, size_t size) {
  struct fixture f;
  struct kn_golden_request routing = {.num_params = 0};
  char first[256];
  if (!kn_golden_parse(bytes, size, &f.golden)) fail_msg("%s is malformed", path);
  if (!kn_golden_request(&f.golden, &f.request)) fail_msg("%s is not served", path);
  if (kn_golden_routing_request(&f.golden, &routing)) {
    check_routing(&f, path);
    return;
  }
  setup(&f);
  if (strncmp(f.request.op, "swiglu", 6) == 0) {
    check_recorded(&f, path);
  } else {
    assert_int_equal(kn_oracle_run(&f.c), KILN_OK);
    for (int i = 1; i < 3; ++i) {
      const struct kn_golden_array *a = kn_golden_array(&f.golden, f.tensors[i].name);
      if (!kn_golden_equal(a, &f.tensors[i].tensor, first, sizeof first)) {
        fail_msg("%s: %s", path, first);
      }
    }
  }
  free(f.tensors[1].tensor.data);
  free(f.tensors[2].tensor.data);
}

static void test_files(void **state) {
  static char bytes[MAX_FILE];
  DIR *folder = opendir(KILN_TEST_DATA "/golden");
  const struct dirent *entry;
  size_t count = 0;
  (void)state;
  assert_non_null(folder);
  while ((entry = readdir(folder)) != NULL) {
    char path[TEXT];
    size_t size;
    FILE *file;
    if (!strstr(entry->d_name, ".golden")) continue;
    (void)snprintf(path, sizeof path, KILN_TEST_DATA "/golden/%.200s", entry->d_name);
    file = fopen(path, "rb");
    assert_non_null(file);
    size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    check_file(path, bytes, size);
    ++count;
  }
  (void)closedir(folder);
  assert_int_equal(count, 157);
}

static void test_malformed(void **state) {
  static const char *const bad[] = {"",
                                    "case",
                                    "case op",
                                    "case op\n",
                                    "param a b\n\n",
                                    "case op\nparam a\n\n",
                                    "case op\nin x f99 1\n\n\1\1\1\1",
                                    "case op\nin x f32 1\n\n\1\1\1",
                                    "case op\nin x f32 1\n\n\1\1\1\1\1",
                                    "case op\nin x f32 -1\n\n",
                                    "case op\nin x f32\n\n",
                                    "case op\nfrob\n\n",
                                    "case op\nin x u8 2000000000 2000000000 2000000000\n\n"};
  struct kn_golden golden;
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    if (kn_golden_parse(bad[i], strlen(bad[i]), &golden)) fail_msg("taken: %s", bad[i]);
  }
  assert_true(kn_golden_parse("case op\nin x f32 1\n\n\1\1\1\1", 24, &golden));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_files),
                                     cmocka_unit_test(test_malformed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
