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
  assert_int_equal(spec->num_params, 10);
  assert_int_equal(spec->num_requires, 8);
  assert_string_equal(spec->requires[1].rule->text, "fmt == e2m1 -> hidden % 2 == 0");
  assert_int_equal(spec->requires[1].rule->mark.line, 16);

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

  assert_int_equal(spec->num_stages, 4);
  assert_string_equal(spec->chain[0].args[0].key, "data");
  assert_string_equal(spec->chain[0].args[0].values[0]->name, "x");
  arg = &spec->chain[2].args[1];
  assert_string_equal(arg->key, "sf_block");
  assert_int_equal(arg->num_values, 2);
  assert_string_equal(arg->values[1]->name, "num_per_channels");
  assert_int_equal(spec->num_examples, 7);
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
  assert_int_equal(tensor->shape[1]->mark.column, 91);
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
  assert_string_equal(spec->steps[0].threads->text, "min(256, 128 * size(dtype))");
  assert_string_equal(spec->steps[0].shared->text, "16384 * max(1, size(dtype) % 4)");
  assert_int_equal(spec->steps[0].num_variants, 2);
  assert_string_equal(spec->steps[0].variants[0].function, "transpose_full");
  assert_string_equal(spec->steps[0].variants[0].aligns[1].tensor, "out");
  assert_int_equal(spec->steps[0].variants[0].aligns[1].bytes, 16);
  assert_int_equal(spec->steps[0].variants[1].num_aligns, 0);
  kn_spec_free(spec);
}

/* A small spec around one line. */
static kiln_status parse_line(const char *line, struct kn_spec **out) {
  char text[8192];
  (void)snprintf(text, sizeof text,
                 "operator: op\n"
                 "tensors: {x: {role: inout, dtype: bf16, shape: [num_tokens, 64]}}\n"
                 "chain: [{load: x}]\n"
                 "%s\n",
                 line);
  return parse_text(text, out);
}

static void every_bad_spec_is_refused_at_its_place(void **state) {
  struct kn_text table = {0};
  size_t num_lines = 0;
  glob_t files = {0};
  (void)state;

  assert_int_equal(kn_file_read(KILN_TEST_DATA "/specs/bad/expected.txt", MAX_TEXT, &table), 0);
  for (char *line = table.data, *end; (end = strchr(line, '\n')); line = end + 1, num_lines++) {
    char *expected = strchr(line, ' '), path[1024], got[8192];
    struct kn_text text = {0};
    struct kn_spec *spec = NULL;
    const kiln_error *error = kn_error_last();

    *end = '\0';
    assert_non_null(expected);
    *expected++ = '\0';
    (void)snprintf(path, sizeof path, KILN_TEST_DATA "/specs/bad/%s.yaml", line);
    assert_int_equal(kn_file_read(path, MAX_TEXT, &text), KILN_OK);
    assert_int_equal(kn_spec_parse(path, text.data ? text.data : "", text.length, &spec),
                     KILN_E_SPEC);
    assert_null(spec);
    assert_string_equal(error->file, path);
    (void)snprintf(got, sizeof got, "%d:%d: %s", error->line, error->column, error->message);
    if (strcmp(got, expected) != 0) fail_msg("%s\n  wants %s\n  got   %s", line, expected, got);
    kn_text_release(&text);
  }
  kn_text_release(&table);
  assert_int_equal(glob(KILN_TEST_DATA "/specs/bad/*.yaml", 0, NULL, &files), 0);
  assert_int_equal(files.gl_pathc, num_lines); /* none is left out */
  globfree(&files);
}

/* What YAML readers disagree on, or turn into something else. The first few are good expressions.
 */
enum { NUM_EXPRESSIONS = 3 };
static const char *const awkward[] = {
    "--1",  "1/0",   "-0",    "1e-5",  "1e5",   "1E5",        "1.0",          "1.",
    ".5",   "-.5",   "010",   "0o10",  "0x10",  "0b11",       "00",           "09",
    "+1",   "1_000", "1,000", "1:30",  "yes",   "Yes",        "YES",          "no",
    "on",   "off",   "True",  "FALSE", "~",     "null",       "Null",         "NULL",
    ".inf", "-.inf", ".nan",  "NaN",   "''",    "\"1\"",      "'16'",         "- 1",
    "1 2",  "16k",   "=",     "<<",    "!!int", "2001-01-01", "\xef\xbc\x91",
};

static void awkward_scalars_are_refused(void **state) {
  static const struct {
    const char *before, *after;
  } contexts[] = {
      {"bytes: ", ""}, /* first: an expression */
      {"kiln: ", ""},
      {"params: {p: {type: ", "}}"},
      {"params: {p: {type: int, min: ", "}}"},
      {"params: {p: {type: int, default: ", "}}"},
      {"params: {p: {type: int, one_of: [8, ", "]}}"},
      {"params: {p: {type: bool, default: ", "}}"},
      {"params: {p: {type: dtype, default: ", "}}"},
      {"params: {p: {type: dtype, one_of: [", "]}}"},
      {"params: {p: {type: word, one_of: [", "]}}"},
      {"params: {p: {type: int}}\nexamples: [{p: ", "}]"},
      {"scalars: {s: {type: f32, optional: ", "}}"},
      {"scalars: {s: {type: ", "}}"},
      {"tile: {threads: ", "}"},
      {"params: {", ": {type: int}}"},
      {"require: [{rule: ", "}]"},
  };
  (void)state;
  assert_true(sizeof awkward / sizeof *awkward >= 40);
  for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++) {
    for (size_t i = c == 0 ? NUM_EXPRESSIONS : 0; i < sizeof awkward / sizeof *awkward; i++) {
      char line[256];
      struct kn_spec *spec = NULL;
      (void)snprintf(line, sizeof line, "%s%s%s", contexts[c].before, awkward[i],
                     contexts[c].after);
      if (parse_line(line, &spec) != KILN_E_SPEC) fail_msg("accepted: %s", line);
      assert_true(kn_error_last()->line >= 4);
      assert_true(kn_error_last()->column > 0);
    }
  }
}

static void plain_scalars_are_accepted(void **state) {
  static const char *const lines[] = {
      "kiln: 1",
      "params: {p: {type: int, min: -9223372036854775808, max: 9223372036854775807}}",
      "params: {p: {type: int, one_of: [-1, 0, 1], default: -1}}",
      "params:\n  p, q: {type: int, one_of: [16, q2]}\n  q2: {type: int}",
      "params:\n  p, q : {type: bool, default: true}",
      "params: {p: {type: dtype, default: ue8m0}}",
      "about: 'quotes: allowed'",
      "about: one line\n  that is folded",
      "scalars: {s: {type: i64, optional: false}}",
      "scalars: {}",
      "require: []",
      "tile: {threads: 0}\ntune: {threads: [0, 2147483647]}",
      "bytes: 2*num_tokens*size(bf16) +\n  size(x)",
      "workspace: 4*num_sms*num_tokens",
      "examples: []",
      "examples: [{}, {}]",
      "params: {p: {type: int, one_of: [16, p2]}, p2: {type: int}}\n"
      "examples: [{p: p2, p2: 7}]",
      "scalars: {s: {type: f32, optional: true}}\ntile: {threads: 1}\n"
      "examples: [{present.s: true, tile.threads: 64}]",
      "params: {p: {type: bool}}\nrequire: [not p or 1 < 2 and 2 <= 2 -> not 1 > 2, 2 >= 1]",
      "about: \"12\"",
      "about: 16 rows, e.g. of x",
      "# a comment: [ { \" \xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5",
      "...",
  };
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    struct kn_spec *spec = NULL;
    if (parse_line(lines[i], &spec) != KILN_OK) {
      fail_msg("%s: %d:%d: %s", lines[i], kn_error_last()->line, kn_error_last()->column,
               kn_error_last()->message);
    }
    kn_spec_free(spec);
  }
}

static void a_size_may_be_shown_by_any_linear_form(void **state) {
  static const char *const shapes[] = {"a", "2*a", "a*2", "3 + a", "a - 3", "8 - -a", "2*(a + 1)"};
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    struct kn_spec *spec = NULL;
    char text[256];
    (void)snprintf(
        text, sizeof text,
        "operator: op\nchain: [load]\ntensors: {x: {role: in, dtype: u8, shape: [%s]}}\n",
        shapes[i]);
    assert_int_equal(parse_text(text, &spec), KILN_OK);
    kn_spec_free(spec);
  }
}

static void nothing_at_all_is_refused(void **state) {
  struct kn_spec *spec = NULL;
  (void)state;
  assert_int_equal(kn_spec_parse(NULL, NULL, 0, &spec), KILN_E_SPEC);
  assert_string_equal(kn_error_last()->message, "the spec is empty");
}

static void lines_may_end_in_any_way(void **state) {
  static const char *const ends[] = {"\n", "\r\n", "\r"};
  (void)state;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    struct kn_spec *spec = NULL;
    char text[512];
    (void)snprintf(text, sizeof text,
                   "---%soperator: op%stensors:%s  x: {role: in, dtype: bf16, shape: [num_tokens, "
                   "%s  ceil_div(7, %s  2)]}%schain: [load]%sbytes: num_tokens +%s   ?%s",
                   ends[i], ends[i], ends[i], ends[i], ends[i], ends[i], ends[i], ends[i], ends[i]);
    assert_int_equal(parse_text(text, &spec), KILN_E_SPEC);
    assert_string_equal(kn_error_last()->message, "'?' does not belong in an expression");
    assert_int_equal(kn_error_last()->line, 9);
    assert_int_equal(kn_error_last()->column, 4);
  }
}

static void a_flow_step_keeps_its_calls(void **state) {
  static const char text[] =
      "operator: op\n"
      "tensors: {x: {role: in, dtype: u8, shape: [n]}}\n"
      "template: a.cu\n"
      "launch: [{grid: ceil_div(n, 2) * max(1, min(n, 2)), shared: align(3, 2), threads: 1,\n"
      "  variants: [{function: f, when: min(n, 4) == 4 and max(n, 2) > 3}]}]\n";
  struct kn_spec *spec = NULL;
  (void)state;
  assert_int_equal(parse_text(text, &spec), KILN_OK);
  assert_string_equal(spec->steps->grid->text, "ceil_div(n, 2) * max(1, min(n, 2))");
  assert_string_equal(spec->steps->shared->text, "align(3, 2)");
  assert_string_equal(spec->steps->variants->when->text, "min(n, 4) == 4 and max(n, 2) > 3");
  kn_spec_free(spec);
}

static void words_are_values(void **state) {
  static const char line[] =
      "params:\n"
      "  scoring: {type: word, one_of: [sigmoid, softmax, sqrt_softplus], default: softmax}\n"
      "  groups: {type: int, min: 1}\n"
      "require:\n"
      "  - scoring == sigmoid -> groups % 2 == 0\n"
      "  - {rule: softmax != scoring, why: not yet}";
  struct kn_spec *spec = NULL;
  const struct kn_expr *rule;
  const struct kn_param_spec *param;
  (void)state;

  assert_int_equal(parse_line(line, &spec), KILN_OK);
  param = kn_spec_param(spec, "scoring");
  assert_int_equal(param->type, KN_VALUE_WORD);
  assert_int_equal(param->num_one_of, 3);
  assert_string_equal(param->one_of[2]->constant.word, "sqrt_softplus");
  assert_string_equal(param->default_value.word, "softmax");
  rule = spec->requires[0].rule;
  assert_int_equal(rule->op, KN_EXPR_IMPLIES);
  assert_int_equal(rule->left->right->op, KN_EXPR_CONSTANT);
  assert_int_equal(rule->left->right->constant.type, KN_VALUE_WORD);
  assert_string_equal(rule->left->right->constant.word, "sigmoid");
  assert_string_equal(spec->requires[1].why, "not yet");
  kn_spec_free(spec);

  spec = NULL;
  assert_int_equal(parse_line("params: {scoring: {type: word, one_of: [sigmoid, softmax]}}\n"
                              "require: [scoring == sigmiod]",
                              &spec),
                   KILN_E_SPEC);
  assert_non_null(strstr(kn_error_last()->message, "(did you mean 'sigmoid'?)"));
}

/* ---- values of requests --------------------------------------------------------------------- */

static void values_are_parsed_and_checked(void **state) {
  static const struct {
    const char *param, *text;
    int64_t number;
  } good[] = {
      {"hidden", "64", 64},
      {"hidden", "8", 8},
      {"hidden", "4096", 4096},
      {"block", "128", 128},
      {"block", "48", 48}, /* one_of is the planner's */
      {"flag", "true", 1},
      {"flag", "false", 0},
      {"fmt", "e4m3", KILN_E4M3},
      {"fmt", "f32", KILN_F32},
      {"any_dtype", "i64", KILN_I64},
  };
  static const struct {
    const char *param, *text, *message;
  } bad[] = {
      {"hidden", "", "op: hidden is ''; allowed is a multiple of 8 of at least 8 and at most 4096"},
      {"hidden", "0",
       "op: hidden is '0'; allowed is a multiple of 8 of at least 8 and at most 4096"},
      {"hidden", "4104",
       "op: hidden is '4104'; allowed is a multiple of 8 of at least 8 and at most 4096"},
      {"hidden", "12",
       "op: hidden is '12'; allowed is a multiple of 8 of at least 8 and at most 4096"},
      {"hidden", "064",
       "op: hidden is '064'; allowed is a multiple of 8 of at least 8 and at most 4096"},
      {"hidden", "64 ",
       "op: hidden is '64 '; allowed is a multiple of 8 of at least 8 and at most 4096"},
      {"block", "hidden", "op: block is 'hidden'; allowed are 16, 32 and hidden"},
      {"flag", "yes", "op: flag is 'yes'; allowed are true and false"},
      {"flag", "1", "op: flag is '1'; allowed are true and false"},
      {"fmt", "E4M3", "op: fmt is 'E4M3'; allowed are e4m3 and e5m2"},
      {"any_dtype", "fp8", "op: any_dtype is 'fp8'; allowed are dtypes such as bf16, e4m3 and i32"},
      {"scoring", "tanh", "op: scoring is 'tanh'; allowed are sigmoid and softmax"},
      {"free", "x\n", "op: free is 'x?'; allowed is an integer"},
      {"least", "9223372036854775808",
       "op: least is '9223372036854775808'; allowed is an integer of at least 1"},
      {"most", "6", "op: most is '6'; allowed is an integer of at most 5"},
      {"single", "6", NULL},
  };
  struct kn_spec *spec = NULL;
  struct kn_value value = {0};
  (void)state;

  assert_int_equal(parse_line("params:\n"
                              "  hidden: {type: int, min: 8, max: 4096, multiple_of: 8}\n"
                              "  block: {type: int, one_of: [16, 32, hidden]}\n"
                              "  single: {type: int, one_of: [16]}\n"
                              "  flag: {type: bool}\n"
                              "  fmt: {type: dtype, one_of: [e4m3, e5m2]}\n"
                              "  any_dtype: {type: dtype}\n"
                              "  scoring: {type: word, one_of: [sigmoid, softmax]}\n"
                              "  free: {type: int}\n"
                              "  least: {type: int, min: 1}\n"
                              "  most: {type: int, max: 5}",
                              &spec),
                   KILN_OK);
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    const struct kn_param_spec *param = kn_spec_param(spec, good[i].param);
    assert_int_equal(kn_spec_parse_value(spec, param, good[i].text, &value), KILN_OK);
    assert_int_equal(value.type, param->type);
    assert_int_equal(value.number, good[i].number);
  }
  assert_int_equal(kn_spec_parse_value(spec, kn_spec_param(spec, "scoring"), "sigmoid", &value),
                   KILN_OK);
  assert_string_equal(value.word, "sigmoid");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const struct kn_param_spec *param = kn_spec_param(spec, bad[i].param);
    const kiln_status status = kn_spec_parse_value(spec, param, bad[i].text, &value);
    if (!bad[i].message) continue;
    assert_int_equal(status, KILN_E_ARGUMENT);
    assert_string_equal(kn_error_last()->message, bad[i].message);
    assert_string_equal(value.word, "sigmoid");
  }
  kn_spec_free(spec);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void append_repeated(struct kn_text *text, const char *part, int count) {
  for (int i = 0; i < count; i++) kn_text_append(text, part);
}

static void assert_refused(struct kn_text *text, const char *message) {
  struct kn_spec *spec = NULL;
  assert_false(text->failed);
  assert_int_equal(kn_spec_parse("a.yaml", text->data, text->length, &spec), KILN_E_SPEC);
  assert_string_equal(kn_error_last()->message, message);
  kn_text_release(text);
}

static void hostile_sizes_are_refused(void **state) {
  struct kn_text text = {0};
  (void)state;

  append_repeated(&text, "# 1 MB of nothing, sixty-four characters in each line of the file\n",
                  16384);
  assert_refused(&text, "the spec has 1081344 bytes; allowed are 262144");

  kn_text_append(&text, "operator: op\nparams:\n");
  for (int i = 0; i < 65; i++) kn_text_printf(&text, "  p%d: {type: int}\n", i);
  assert_refused(&text, "more than 64 entries");

  kn_text_append(&text, "operator: op\nparams:\n");
  for (int i = 0; i < 33; i++) kn_text_printf(&text, "  p%d, q%d: {type: int}\n", i, i);
  assert_refused(&text, "more than 64 entries");

  kn_text_append(&text, "require: [");
  append_repeated(&text, "a,", 65);
  kn_text_append(&text, "]");
  assert_refused(&text, "more than 64 entries");

  kn_text_append(&text, "about: '");
  append_repeated(&text, "a", 2049);
  kn_text_append(&text, "'");
  assert_refused(&text, "a value of 2049 bytes; allowed are 2048");

  kn_text_append(&text, "a: [");
  for (int i = 0; i < 5; i++) {
    kn_text_append(&text, "[");
    for (int k = 0; k < 64; k++) {
      kn_text_append(&text, "[");
      append_repeated(&text, "1,", 64);
      kn_text_append(&text, "],");
    }
    kn_text_append(&text, "],");
  }
  kn_text_append(&text, "]");
  assert_refused(&text, "the spec has more than 16384 values");

  kn_text_append(&text, "operator: op\nchain: [load]\ntensors:\n");
  for (int i = 0; i < 5; i++) {
    kn_text_printf(&text, "  x%d: {role: in, dtype: u8, shape: [a%d, b%d, c%d, d%d]}\n", i, i, i, i,
                   i);
  }
  assert_refused(&text, "more than 16 run-time sizes");
}

/* Shapes of text that cost other readers a lot: each must be answered at once. */
static void hostile_shapes_are_refused_quickly(void **state) {
  static const char *const parts[] = {"[",   "{",  "- ", "? ", "{? ",  "a: ",   "- - ", "[[],",
                                      "{a,", "'",  "\"", "\\", "&a ",  "*a ",   "! ",   "%A\n",
                                      "|\n", ">-", "# ", ": ", ", ",   "--- ",  "\n",   "...\n",
                                      "a\n", "a ", "\t", "(",  "x: [", "\"\\x", "((a,", "{a: f(b,"};
  (void)state;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    struct kn_text text = {0};
    struct kn_spec *spec = NULL;
    append_repeated(&text, parts[i], KN_SPEC_MAX_BYTES / (int)strlen(parts[i]));
    assert_int_equal(kn_spec_parse(NULL, text.data, text.length, &spec), KILN_E_SPEC);
    kn_text_release(&text);
  }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void the_spec_is_given_as_json(void **state) {
  static const char text[] =
      "operator: op\n"
      "about: say \"hi\"\n"
      "params:\n"
      "  n: {type: int, min: 1, max: 64, multiple_of: 2, one_of: [2, m], default: 2}\n"
      "  m: {type: int}\n"
      "  d: {type: dtype, default: bf16}\n"
      "  w: {type: word, one_of: [up, down], default: up}\n"
      "  f: {type: bool, default: true}\n"
      "scalars: {s: {type: f32, optional: true}}\n"
      "tensors:\n"
      "  x: {role: in, dtype: d, shape: [t, 2 * n], strides: [any, 1], optional: true}\n"
      "  y: {role: out, dtype: e4m3, shape: [t, n], list: true}\n"
      "  z: {role: out, sf_of: y, block: [1, n]}\n"
      "require: [{rule: f -> n   > 1, why: x}]\n"
      "chain: [{load: x}, swish, {cast: {to: e4m3, block: [1, n]}}]\n"
      "tile: {threads: 64, rows: 2}\n"
      "tune: {threads: [64, 128]}\n"
      "bytes: t*n\n"
      "workspace: 4*t\n"
      "examples: [{m: 8}, {n: m, m: 8, tile.rows: 4}]\n";
  static const char expected[] =
      "{\"operator\":\"op\",\"about\":\"say \\\"hi\\\"\",\"file\":\"a.yaml\",\"template\":null,"
      "\"params\":["
      "{\"name\":\"n\",\"type\":\"int\",\"min\":1,\"max\":64,\"multiple_of\":2,"
      "\"one_of\":[\"2\",\"m\"],\"default\":2},"
      "{\"name\":\"m\",\"type\":\"int\"},"
      "{\"name\":\"d\",\"type\":\"dtype\",\"default\":\"bf16\"},"
      "{\"name\":\"w\",\"type\":\"word\",\"one_of\":[\"up\",\"down\"],\"default\":\"up\"},"
      "{\"name\":\"f\",\"type\":\"bool\",\"default\":true}],"
      "\"scalars\":[{\"name\":\"s\",\"type\":\"f32\",\"optional\":true}],"
      "\"tensors\":["
      "{\"name\":\"x\",\"role\":\"in\",\"dtype\":\"d\",\"shape\":[\"t\",\"2 * n\"],"
      "\"strides\":[\"any\",\"1\"],\"optional\":true,\"list\":false},"
      "{\"name\":\"y\",\"role\":\"out\",\"dtype\":\"e4m3\",\"shape\":[\"t\",\"n\"],"
      "\"optional\":false,\"list\":true},"
      "{\"name\":\"z\",\"role\":\"out\",\"sf_of\":\"y\",\"block\":[\"1\",\"n\"],"
      "\"optional\":false,\"list\":false}],"
      "\"require\":[\"f -> n > 1\"],"
      "\"chain\":[\"load: x\",\"swish\",\"cast: {to: e4m3, block: [1, n]}\"],"
      "\"tile\":{\"threads\":64,\"rows\":2},\"tune\":{\"threads\":[64,128]},"
      "\"bytes\":\"t*n\",\"workspace\":\"4*t\","
      "\"examples\":[{\"m\":\"8\"},{\"n\":\"m\",\"m\":\"8\",\"tile.rows\":\"4\"}]}";
  struct kn_spec *spec = NULL;
  char *json;
  (void)state;
  if (parse_text(text, &spec) != KILN_OK) fail_msg("%s", kn_error_last()->message);
  json = kn_spec_json(spec);
  assert_string_equal(json, expected);
  free(json);
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
      cmocka_unit_test(every_bad_spec_is_refused_at_its_place),
      cmocka_unit_test(awkward_scalars_are_refused),
      cmocka_unit_test(plain_scalars_are_accepted),
      cmocka_unit_test(a_size_may_be_shown_by_any_linear_form),
      cmocka_unit_test(nothing_at_all_is_refused),
      cmocka_unit_test(lines_may_end_in_any_way),
      cmocka_unit_test(a_flow_step_keeps_its_calls),
      cmocka_unit_test(words_are_values),
      cmocka_unit_test(values_are_parsed_and_checked),
      cmocka_unit_test(hostile_sizes_are_refused),
      cmocka_unit_test(hostile_shapes_are_refused_quickly),
      cmocka_unit_test(the_spec_is_given_as_json),
      cmocka_unit_test(free_accepts_null),
      cmocka_unit_test(the_output_is_untouched_on_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
