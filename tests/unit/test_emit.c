/* SPDX-License-Identifier: MIT */
/* Emitting: the generated part of every shipped example is committed; sources are self-contained,
   and compile for every target without local memory. KILN_ACCEPT=1 rewrites the golden files. */
#include <unistd.h>

#include "base/file.h"
#include "cuda/nvrtc.h"
#include "plan_help.h"

/* Plans an example of a spec as the spec gives it. */
static struct kn_plan *example_plan(const struct kn_spec *spec, size_t index, const char *target) {
  kiln_param params[32];
  const struct kn_example_spec *example = &spec->examples[index];
  struct kn_plan *plan = NULL;
  for (size_t i = 0; i < example->num_values; ++i) {
    params[i] = (kiln_param){example->values[i].name, example->values[i].value};
  }
  if (kn_plan_make(spec, kn_limits_find(target), params, example->num_values, &plan) != KILN_OK) {
    fail_msg("%s: %s", spec->name, kn_error_last()->message);
  }
  return plan;
}

/* Calls `check` for every example of every shipped spec. */
static void each_example(void (*check)(const struct kn_spec *spec, size_t example)) {
  for (size_t i = 0; i < kn_num_assets; ++i) {
    if (strncmp(kn_assets[i].path, "specs/", 6) != 0) continue;
    struct kn_spec *spec = parse_spec(kn_assets[i].path, kn_assets[i].data);
    for (size_t j = 0; j < spec->num_examples; ++j) check(spec, j);
    kn_spec_free(spec);
  }
}

static void check_golden(const struct kn_spec *spec, size_t example) {
  char path[512];
  struct kn_text made = {0}, golden = {0};
  struct kn_plan *plan = example_plan(spec, example, "sm_90a");
  assert_int_equal(kn_emit_generated(plan, &made), KILN_OK);
  (void)snprintf(path, sizeof path, "%s/tests/golden/%s-%zu.cuh", KILN_SOURCE_DIR, spec->name,
                 example);
  if (getenv("KILN_ACCEPT")) {
    assert_int_equal(kn_file_publish(path, made.data, made.length, 0644), KILN_OK);
  }
  assert_int_equal(kn_file_read(path, 1 << 20, &golden), KILN_OK);
  assert_string_equal(made.data, golden.data);
  kn_text_release(&made);
  kn_text_release(&golden);
  kn_plan_free(plan);
}

static void generated_parts_match_the_golden_files(void **state) {
  (void)state;
  each_example(check_golden);
}

static void check_self_contained(const struct kn_spec *spec, size_t example) {
  struct kn_text first = {0}, second = {0};
  struct kn_plan *plan = example_plan(spec, example, "sm_100a");
  assert_int_equal(kn_emit(plan, embedded_source, NULL, &first), KILN_OK);
  assert_int_equal(kn_emit(plan, embedded_source, NULL, &second), KILN_OK);
  assert_string_equal(first.data, second.data);
  assert_null(strstr(first.data, "#include"));
  assert_null(strstr(first.data, "#pragma once"));
  const char *types = strstr(first.data, "#line 1 \"kiln/types.cuh\"");
  assert_non_null(types);
  assert_null(strstr(types + 1, "#line 1 \"kiln/types.cuh\""));
  const char *text = embedded_source(NULL, plan->template_path);
  assert_string_equal(first.data + first.length - strlen(text), text);
  kn_text_release(&first);
  kn_text_release(&second);
  kn_plan_free(plan);
}

static void sources_are_self_contained(void **state) {
  (void)state;
  each_example(check_self_contained);
}

static struct kn_nvrtc *nvrtc;

static void check_compiles(const struct kn_spec *spec, size_t example) {
  size_t num_targets = 0;
  const struct kn_limits *targets = kn_limits_all(&num_targets);
  for (size_t i = 0; i < num_targets; ++i) {
    struct kn_text source = {0};
    struct kn_cubin cubin = {0};
    struct kn_function_facts facts[8];
    size_t count = 0;
    struct kn_plan *plan = example_plan(spec, example, targets[i].target);
    assert_int_equal(kn_emit(plan, embedded_source, NULL, &source), KILN_OK);
    if (kn_nvrtc_compile(nvrtc, "kiln.cu", source.data, targets[i].target, &cubin) != KILN_OK) {
      fail_msg("%s: %s\n%s", plan->canonical, kn_error_last()->message, kn_error_last()->log);
    }
    assert_int_equal(kn_cubin_facts(cubin.data, cubin.length, facts, 8, &count), KILN_OK);
    assert_true(count >= plan->steps[0].num_variants);
    for (size_t j = 0; j < count; ++j) {
      if (facts[j].stack_bytes) {
        fail_msg("%s for %s: %s has %d bytes of local memory", plan->canonical, targets[i].target,
                 facts[j].name, facts[j].stack_bytes);
      }
    }
    kn_cubin_release(&cubin);
    kn_text_release(&source);
    kn_plan_free(plan);
  }
}

static void every_example_compiles_for_every_target_without_spills(void **state) {
  (void)state;
  /* ./bootstrap brings NVRTC: without it this test has nothing to say, and fails. */
  assert_int_equal(kn_nvrtc_find(NULL, &nvrtc), KILN_OK);
  each_example(check_compiles);
  kn_nvrtc_free(nvrtc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(generated_parts_match_the_golden_files),
      cmocka_unit_test(sources_are_self_contained),
      cmocka_unit_test(every_example_compiles_for_every_target_without_spills),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
