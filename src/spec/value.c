/* SPDX-License-Identifier: MIT */
#include "spec/value.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "spec/field.h"

static bool parse_word(const struct kn_param_spec *param, const char *text, const char **out) {
  for (size_t i = 0; i < param->num_one_of; i++) {
    const char *word = param->one_of[i]->constant.word;
    if (strcmp(word, text) == 0) {
      *out = word;
      return true;
    }
  }
  return false;
}

static bool parse_int(const struct kn_param_spec *param, const char *text, int64_t *out) {
  return kn_parse_int(text, out) && (!param->has_min || *out >= param->min) &&
         (!param->has_max || *out <= param->max) && *out % param->multiple_of == 0;
}

bool kn_param_parse(const struct kn_param_spec *param, const char *text, struct kn_value *out) {
  struct kn_value value = {.type = param->type};
  bool fits = false;

  switch (param->type) {
    case KN_VALUE_INT:
      fits = parse_int(param, text, &value.number);
      break;
    case KN_VALUE_BOOL:
      value.number = strcmp(text, "true") == 0;
      fits = value.number || strcmp(text, "false") == 0;
      break;
    case KN_VALUE_DTYPE:
      value.number = kn_dtype_parse(text);
      fits = value.number != KILN_DTYPE_NONE;
      break;
    case KN_VALUE_WORD:
      fits = parse_word(param, text, &value.word);
      break;
  }
  if (fits) *out = value;
  return fits;
}

bool kn_param_lists(const struct kn_param_spec *param, const struct kn_value *value) {
  if (param->num_one_of == 0 || param->type == KN_VALUE_WORD) return true;
  for (size_t i = 0; i < param->num_one_of; i++) {
    const struct kn_expr *entry = param->one_of[i];
    if (entry->op == KN_EXPR_NAME || entry->constant.number == value->number) return true;
  }
  return false;
}

const char *kn_param_allowed(struct kn_arena *arena, const struct kn_param_spec *param) {
  const char *entries[KN_SPEC_MAX_ENTRIES];
  const char *text = "allowed is an integer";

  if (param->type == KN_VALUE_BOOL) return "allowed are true and false";
  if (param->num_one_of > 0) {
    for (size_t i = 0; i < param->num_one_of; i++) entries[i] = param->one_of[i]->text;
    text = kn_arena_printf(arena, "allowed %s %s", param->num_one_of > 1 ? "are" : "is",
                           kn_spell(arena, entries, param->num_one_of));
    return text ? text : "?";
  }
  if (param->type == KN_VALUE_DTYPE) return "allowed are dtypes such as bf16, e4m3 and i32";
  if (param->multiple_of != 1) {
    text = kn_arena_printf(arena, "allowed is a multiple of %lld", (long long)param->multiple_of);
  }
  if (text && param->has_min) {
    text = kn_arena_printf(arena, "%s of at least %lld", text, (long long)param->min);
  }
  if (text && param->has_max) {
    text = kn_arena_printf(arena, "%s%s at most %lld", text, param->has_min ? " and" : " of",
                           (long long)param->max);
  }
  return text ? text : "?";
}

kiln_status kn_spec_parse_value(const struct kn_spec *spec, const struct kn_param_spec *param,
                                const char *text, struct kn_value *out) {
  struct kn_arena arena = {0};
  kiln_status status = KILN_OK;
  if (kn_param_parse(param, text, out)) return KILN_OK;
  status = kn_fail(KILN_E_ARGUMENT, "%s: %s is '%s'; %s", spec->name, param->name,
                   kn_shown(&arena, text), kn_param_allowed(&arena, param));
  kn_arena_release(&arena);
  return status;
}
