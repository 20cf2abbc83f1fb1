/* SPDX-License-Identifier: MIT */
/* Any bytes as an expression, then every question that can be asked of it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "spec/expr.h"

static void require(bool condition) {
  if (!condition) abort();
}

/* Names by their first letter: numbers at the edges, bools, dtypes, words; `z` is unknown. */
static bool value_of(void *user, const char *name, struct kn_value *out) {
  (void)user;
  *out = (struct kn_value){.type = KN_VALUE_INT, .number = 7168};
  if (name[0] == 'm') out->number = INT64_MAX;
  if (name[0] == 'l') out->number = INT64_MIN;
  if (name[0] == 'o') out->number = 0;
  if (name[0] == 'b') *out = (struct kn_value){.type = KN_VALUE_BOOL, .number = 1};
  if (name[0] == 'd') *out = (struct kn_value){.type = KN_VALUE_DTYPE, .number = KILN_E2M1};
  if (name[0] == 'w') *out = (struct kn_value){.type = KN_VALUE_WORD, .word = name};
  return name[0] != 'z';
}

static bool size_of(void *user, const char *name, double *out_bytes) {
  (void)user;
  *out_bytes = name[0] == 'm' ? 1e300 : 24;
  return name[0] != 'z';
}

static bool present(void *user, const char *name, bool *out) {
  (void)user;
  *out = name[0] == 'b';
  return name[0] != 'z';
}

static bool is_unknown(void *user, const char *name) {
  (void)user;
  return name[0] == 'a';
}

static void count_name(void *user, const char *name, struct kn_mark mark) {
  require(name[0] && mark.line > 0 && mark.column > 0);
  ++*(size_t *)user;
}

static bool is_expected(kiln_status status) {
  return status == KILN_OK || status == KILN_E_SPEC || status == KILN_E_UNSUPPORTED;
}

static bool value_at(void *user, const char *name, struct kn_value *out) {
  if (!value_of(NULL, name, out)) return false;
  if (is_unknown(NULL, name)) out->number = *(int64_t *)user;
  return true;
}

/* A linear form must agree with evaluation wherever neither overflows. */
static void check_linear(const struct kn_expr *expr) {
  const struct kn_env env = {value_of, size_of, NULL, present};
  const char *name = NULL;
  int64_t scale = 0, offset = 0;
  if (!kn_expr_linear(expr, &env, is_unknown, NULL, &name, &scale, &offset)) return;
  require(name != NULL && scale > 0);
  for (int64_t at = 0; at < 3; at++) {
    const struct kn_env env_at = {value_at, size_of, &at, present};
    int64_t value = 0;
    const bool is_small = scale < INT32_MAX && offset < INT32_MAX && offset > INT32_MIN;
    if (is_small && kn_expr_eval_int(expr, &env_at, &value) == KILN_OK) {
      require(value == scale * at + offset);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const struct kn_env env = {value_of, size_of, NULL, present};
  const struct kn_mark mark = {"fuzz.yaml", 1, 1};
  struct kn_arena arena = {0};
  const struct kn_expr *expr = NULL;
  struct kn_value value = {0};
  size_t num_names = 0;
  int64_t number = 0;
  bool truth = false;
  double bytes = 0;
  kiln_status status;
  char *text = malloc(size + 1);

  require(text != NULL);
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  status = kn_expr_parse(&arena, text, mark, &expr);
  require(status == KILN_OK || status == KILN_E_SPEC);
  if (status == KILN_OK) {
    require(expr->text != NULL);
    require(is_expected(kn_expr_eval(expr, &env, &value)));
    require(is_expected(kn_expr_eval_int(expr, &env, &number)));
    require(is_expected(kn_expr_eval_bool(expr, &env, &truth)));
    require(is_expected(kn_expr_eval_number(expr, &env, &bytes)));
    check_linear(expr);
    kn_expr_each_name(expr, count_name, &num_names);
  }
  kn_arena_release(&arena);
  free(text);
  return 0;
}
