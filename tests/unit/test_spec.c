/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "spec/spec.h"

enum { MAX_TEXT = 512 * 1024 };

static kiln_status parse_text(const char *text, struct kn_spec **out) {
  return kn_spec_parse("a.yaml", text, strlen(text), out);
}

static struct kn_spec *load(const char *path) {
  char full[1024];
  struct kn_text text = {0};
  struct kn_spec *spec = NULL;
  (void)snprintf(full, sizeof full, "%s/%s", KILN_SOURCE_DIR, path);
  if (kn_file_read(full, MAX_TEXT, &text) != KILN_OK ||
      kn_spec_parse(path, text.data, text.length, &spec) != KILN_OK) {
    fail_msg("%s:%d:%d: %s", path, kn_error_last()->line, kn_error_last()->column,
             kn_error_last()->message);
  }
  kn_text_release(&text);
  return spec;
}

static void every_shipped_spec_is_read(void **state) {
  glob_t files = {0};
  (void)state;
  assert_int_equal(glob(KILN_SOURCE_DIR "/specs/*/*.yaml", 0, NULL, &files), 0);
  assert_true(files.gl_pathc >= 5);
  for (size_t i = 0; i < files.gl_pathc; i++) {
    const char *path = files.gl_pathv[i] + strlen(KILN_SOURCE_DIR) + 1;
    char *json;
    struct kn_spec *spec;
    if (strncmp(path, "specs/models/", 13) == 0 || strncmp(path, "specs/tuned/", 12) == 0) continue;
    spec = load(path);
    json = kn_spec_json(spec);
    assert_non_null(json);
    free(json);
    kn_spec_free(spec);
  }
  globfree(&files);
}

static void per_token_cast_has_all_its_parts(void **state) {
  struct kn_spec *spec = load("specs/quant/per_token_cast.yaml");
  const struct kn_param_spec *param;
  const struct kn_tensor_spec *tensor;
  const struct kn_stage_arg *arg;
  (void)state;

  assert_string_equal(spec->name, "per_token_cast");
  assert_string_equal(spec->file, "specs/quant/per_token_cast.yaml");
  assert_int_equal(spec->mark.line, 2);
  assert_int_equal(spec->num_params, 7);
  assert_int_equal(spec->num_requires, 4);
  assert_string_equal(spec->requires[1].rule->text, "fmt == e2m1 -> hidden % 2 == 0");
  assert_int_equal(spec->requires[1].rule->mark.line, 12);

  param = kn_spec_param(spec, "num_per_channels");
  assert_int_equal(param->type, KN_VALUE_INT);
  assert_int_equal(param->multiple_of, 1);
  assert_int_equal(param->num_one_of, 5);
  assert_int_equal(param->one_of[3]->constant.number, 128);
  assert_int_equal(param->one_of[4]->op, KN_EXPR_NAME);
  assert_string_equal(param->one_of[4]->name, "hidden");
  param = kn_spec_param(spec, "use_tma_aligned_col_major_sf");
  assert_int_equal(param->type, KN_VALUE_BOOL);
  assert_true(param->has_default);
  assert_int_equal(param->default_value.number, 0);
  assert_int_equal(param->mark.line, 9);
  assert_int_equal(param->mark.column, 13);

  tensor = kn_spec_tensor(spec, "x");
  assert_int_equal(tensor->role, KILN_IN);
  assert_int_equal(tensor->rank, 2);
  assert_string_equal(tensor->dtype->name, "in_dtype");
  assert_true(tensor->stride_any[0]);
  assert_null(tensor->strides[0]);
  assert_false(tensor->stride_any[1]);
  assert_int_equal(tensor->strides[1]->constant.number, 1);
  tensor = kn_spec_tensor(spec, "out");
  assert_false(tensor->stride_any[0]);
  assert_null(tensor->strides[0]);
  tensor = kn_spec_tensor(spec, "out_sf");
  assert_string_equal(tensor->sf_of, "out");
  assert_null(tensor->dtype);
  assert_int_equal(tensor->block[0]->constant.number, 1);
  assert_string_equal(tensor->block[1]->name, "num_per_channels");

  assert_true(kn_spec_scalar(spec, "sf_clamp_min")->optional);
  assert_int_equal(kn_spec_scalar(spec, "sf_clamp_min")->type, KILN_F32);
  assert_null(kn_spec_scalar(spec, "x"));
  assert_null(kn_spec_tensor(spec, "y"));
  assert_null(kn_spec_param(spec, "x"));

  assert_int_equal(spec->num_stages, 3);
  assert_string_equal(spec->chain[0].args[0].key, "");
  assert_string_equal(spec->chain[0].args[0].values[0]->name, "x");
  arg = &spec->chain[1].args[1];
  assert_string_equal(arg->key, "sf_block");
  assert_int_equal(arg->num_values, 2);
  assert_string_equal(arg->values[1]->name, "num_per_channels");
  assert_int_equal(spec->num_examples, 5);
  assert_string_equal(spec->examples[1].values[3].value, "hidden");
  kn_spec_free(spec);
}

static void calls_in_flow_lists_stay_whole(void **state) {
  struct kn_spec *spec = load("specs/quant/swiglu_forward_and_per_channel_cast_and_transpose.yaml");
  const struct kn_tensor_spec *tensor = kn_spec_tensor(spec, "out_sf");
  (void)state;
  assert_int_equal(tensor->rank, 2);
  assert_string_equal(tensor->shape[0]->text, "ceil_div(num_tokens, num_per_tokens)");
  assert_string_equal(tensor->shape[1]->text, "hidden");
  assert_int_equal(tensor->shape[1]->mark.column, 82);
  assert_int_equal(spec->num_tile, 4);
  assert_string_equal(spec->tile[1].name, "channels");
  assert_int_equal(spec->tile[1].value, 64);
  assert_int_equal(spec->tile[1].num_candidates, 3);
  assert_int_equal(spec->tile[1].candidates[2], 128);
  assert_int_equal(spec->tile[0].num_candidates, 0);
  kn_spec_free(spec);
}

static void a_template_has_steps_and_variants(void **state) {
  struct kn_spec *spec = load("specs/transpose/transpose.yaml");
  (void)state;
  assert_string_equal(spec->template_name, "transpose.cu");
  assert_int_equal(spec->num_steps, 1);
  assert_string_equal(spec->steps[0].name, "main");
  assert_int_equal(spec->steps[0].threads->constant.number, 256);
  assert_string_equal(spec->steps[0].shared->text, "128 * 128 * 4");
  assert_int_equal(spec->steps[0].num_variants, 2);
  assert_string_equal(spec->steps[0].variants[0].function, "transpose_full");
  assert_string_equal(spec->steps[0].variants[0].aligns[1].tensor, "out");
  assert_int_equal(spec->steps[0].variants[0].aligns[1].bytes, 16);
  assert_int_equal(spec->steps[0].variants[1].num_aligns, 0);
  kn_spec_free(spec);
}

static void free_accepts_null(void **state) {
  (void)state;
  kn_spec_free(NULL);
}

static void the_output_is_untouched_on_failure(void **state) {
  struct kn_spec sentinel = {0}, *spec = &sentinel;
  (void)state;
  assert_int_equal(parse_text("operator: 7x", &spec), KILN_E_SPEC);
  assert_ptr_equal(spec, &sentinel);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_shipped_spec_is_read),
      cmocka_unit_test(per_token_cast_has_all_its_parts),
      cmocka_unit_test(calls_in_flow_lists_stay_whole),
      cmocka_unit_test(a_template_has_steps_and_variants),
      cmocka_unit_test(free_accepts_null),
      cmocka_unit_test(the_output_is_untouched_on_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
