/* SPDX-License-Identifier: MIT */
/* The oracle against recorded results of the peer's references: casts to the bit, SwiGLU within
   the contract's tolerance, since exp is the host's here. */
#include "plan_help.h"

#include <dirent.h>
#include <inttypes.h>
#include <string.h>

#include "oracle/golden_request.h"
#include "oracle/oracle.h"

enum { MAX_FILE = 1 << 20, TEXT = 512 };

/* A case of a chain: the spec's plan tells the chain's text and the tensors. */
struct fixture {
  struct kn_golden golden;
  struct kn_golden_request request;
  struct kn_spec *spec;
  struct kn_plan *plan;
  struct kn_oracle_tensor tensors[KN_GOLDEN_MAX];
  struct kn_oracle_scalar scalars[KN_GOLDEN_MAX];
  kiln_param params[KN_GOLDEN_MAX];
  struct kn_oracle_case c;
};

static void plan_case(struct fixture *f, const char *path) {
  char name[TEXT], text[TEXT] = "";
  size_t used = 0;
  (void)snprintf(name, sizeof name, "quant/%s", f->request.op);
  for (size_t i = 0; i < f->request.num_params; ++i) {
    const struct kn_golden_param *param = &f->request.params[i];
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s", i ? " " : "", param->name,
                             param->value);
  }
  f->spec = shipped_spec(name);
  f->plan = make_plan(f->spec, "sm_90a", text);
  if (!f->plan) fail_msg("%s: %s", path, kn_error_last()->message);
}

/* Padding rows of scale factors included. */
static uint64_t bytes_of(const kiln_arg_info *info) {
  int64_t elements = 1;
  for (int axis = 0; axis < info->rank; ++axis) elements *= info->shape[axis];
  if (info->rank == 2 && info->strides[1] > info->strides[0])
    elements = info->shape[1] * info->strides[1];
  return (uint64_t)(elements * kiln_dtype_bits(info->dtype) / 8);
}

static void add_tensor(struct fixture *f, const kiln_arg_info *info, const char *path) {
  struct kn_oracle_tensor *t = &f->tensors[f->c.num_tensors++];
  const struct kn_golden_array *in = kn_golden_input(&f->golden, info->name);
  *t =
      (struct kn_oracle_tensor){info->name, true, info->role,
                                kiln_tensor_make(NULL, info->dtype, info->rank, info->shape), NULL};
  memcpy(t->tensor.strides, info->strides, sizeof t->tensor.strides);
  t->tensor.size_bytes = bytes_of(info);
  if (info->role != KILN_OUT) {
    if (!in || in->tensor.size_bytes != t->tensor.size_bytes) {
      fail_msg("%s: %s is not recorded in this size", path, info->name);
    }
    t->tensor.data = in->tensor.data;
    return;
  }
  t->tensor.data = malloc(t->tensor.size_bytes + 1);
  assert_non_null(t->tensor.data);
  memset(t->tensor.data, 0xA5, t->tensor.size_bytes);
}

static void setup(struct fixture *f, const char *path) {
  plan_case(f, path);
  f->c = (struct kn_oracle_case){.op = f->request.op,
                                 .chain = f->plan->chain_text,
                                 .tensors = f->tensors,
                                 .scalars = f->scalars,
                                 .num_scalars = f->request.num_scalars,
                                 .params = f->params,
                                 .num_params = f->request.num_params};
  for (size_t i = 0; i < f->request.num_params; ++i) {
    f->params[i] = (kiln_param){f->request.params[i].name, f->request.params[i].value};
  }
  for (size_t i = 0; i < f->spec->num_tensors; ++i) {
    kiln_arg_info info;
    kiln_arg_info_init(&info);
    assert_int_equal(kn_plan_arg_info(f->plan, i, f->request.dims, f->request.num_dims, &info),
                     KILN_OK);
    if (info.is_present) add_tensor(f, &info, path);
  }
  for (size_t i = 0; i < f->request.num_scalars; ++i) {
    f->scalars[i] = (struct kn_oracle_scalar){f->request.scalars[i].name, true,
                                              strtod(f->request.scalars[i].value, NULL)};
  }
}

static void teardown(struct fixture *f) {
  for (size_t i = 0; i < f->c.num_tensors; ++i) {
    if (f->tensors[i].role == KILN_OUT) free(f->tensors[i].tensor.data);
  }
  kn_plan_free(f->plan);
  kn_spec_free(f->spec);
}

/* Puts the recorded outputs in place of the oracle's and has them checked. */
static void check_recorded(struct fixture *f, const char *path) {
  struct kn_oracle_report report;
  for (size_t i = 0; i < f->c.num_tensors; ++i) {
    const struct kn_golden_array *a = kn_golden_array(&f->golden, f->tensors[i].name);
    if (f->tensors[i].role != KILN_OUT) continue;
    assert_int_equal(f->tensors[i].tensor.size_bytes, a->tensor.size_bytes);
    memcpy(f->tensors[i].tensor.data, a->tensor.data, a->tensor.size_bytes);
  }
  assert_int_equal(kn_oracle_check(&f->c, 0xA5, &report), KILN_OK);
  if (report.failed) fail_msg("%s: %s (%" PRIu64 ")", path, report.first, report.failed);
}

static void check_computed(const struct fixture *f, const char *path) {
  char first[256];
  assert_int_equal(kn_oracle_run(&f->c), KILN_OK);
  for (size_t i = 0; i < f->c.num_tensors; ++i) {
    if (f->tensors[i].role != KILN_OUT) continue;
    if (!kn_golden_equal(kn_golden_array(&f->golden, f->tensors[i].name), &f->tensors[i].tensor,
                         first, sizeof first)) {
      fail_msg("%s: %s", path, first);
    }
  }
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
  if (!kn_golden_parse(bytes, size, &f.golden)) fail_msg("%s is malformed", path);
  if (!kn_golden_request(&f.golden, &f.request)) fail_msg("%s is not served", path);
  if (kn_golden_routing_request(&f.golden, &routing)) {
    check_routing(&f, path);
    return;
  }
  setup(&f, path);
  if (strncmp(f.request.op, "swiglu", 6) == 0) {
    check_recorded(&f, path);
  } else {
    check_computed(&f, path);
  }
  teardown(&f);
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
  assert_true(count >= 165);
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
