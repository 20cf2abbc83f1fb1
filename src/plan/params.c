/* SPDX-License-Identifier: MIT */
/* Request text -> values of params, tile entries and presence; requirements. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"
#include "plan/planner.h"

const char *kn_param_text(struct kn_arena *arena, const struct kn_value *value) {
  switch (value->type) {
    case KN_VALUE_BOOL:
      return value->number ? "true" : "false";
    case KN_VALUE_DTYPE:
      return kiln_dtype_name((kiln_dtype)value->number);
    case KN_VALUE_WORD:
      return value->word;
    case KN_VALUE_INT:
      break;
  }
  return kn_arena_printf(arena, "%" PRId64, value->number);
}

static const kiln_param *find_given(const kiln_param *given, size_t count, const char *name) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(given[i].name, name) == 0) return &given[i];
  }
  return NULL;
}

static bool same(const struct kn_value *a, const struct kn_value *b) {
  if (a->type != b->type) return false;
  return a->type == KN_VALUE_WORD ? strcmp(a->word, b->word) == 0 : a->number == b->number;
}

/* "16, 32 and hidden (7168)" */
static void append_one_of(struct kn_text *text, const struct kn_param_spec *param,
                          const struct kn_env *env) {
  for (size_t i = 0; i < param->num_one_of; ++i) {
    const struct kn_expr *item = param->one_of[i];
    struct kn_value value;
    kn_text_append(text, i == 0 ? "" : i + 1 == param->num_one_of ? " and " : ", ");
    if (item->op == KN_EXPR_NAME && item->name) kn_text_append(text, item->name);
    if (kn_expr_eval(item, env, &value) != KILN_OK) continue;
    struct kn_arena scratch = {0};
    const char *shown = kn_param_text(&scratch, &value);
    kn_text_printf(text, item->op == KN_EXPR_NAME ? " (%s)" : "%s", shown ? shown : "?");
    kn_arena_release(&scratch);
  }
}

static kiln_status check_one_of(const struct kn_plan *plan, size_t index) {
  const struct kn_param_spec *param = &plan->spec->params[index];
  const struct kn_value *value = &plan->params[index];
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  struct kn_text allowed = {0};
  struct kn_arena scratch = {0};
  if (param->num_one_of == 0) return KILN_OK;
  for (size_t i = 0; i < param->num_one_of; ++i) {
    struct kn_value candidate;
    if (kn_expr_eval(param->one_of[i], &env, &candidate) == KILN_OK && same(&candidate, value)) {
      kn_error_clear();
      return KILN_OK;
    }
  }
  append_one_of(&allowed, param, &env);
  const char *shown = kn_param_text(&scratch, value);
  kiln_status status =
      kn_fail(KILN_E_UNSUPPORTED, "%s: %s is %s; allowed %s %s", plan->spec->name, param->name,
              shown ? shown : "?", param->num_one_of == 1 ? "is" : "are",
              allowed.data ? allowed.data : "?");
  kn_text_release(&allowed);
  kn_arena_release(&scratch);
  return status;
}

static kiln_status unknown_param(const struct kn_planner *p, const char *name) {
  const struct kn_spec *spec = p->plan->spec;
  const char *names[KN_SPEC_MAX_ENTRIES] = {0};
  struct kn_text list = {0};
  size_t count = 0;
  for (size_t i = 0; i < spec->num_params && count < KN_SPEC_MAX_ENTRIES; ++i) {
    names[count++] = spec->params[i].name;
    kn_text_printf(&list, "%s%s", i ? ", " : "", spec->params[i].name);
  }
  const char *near = kn_did_you_mean(name, names, count);
  kiln_status status =
      near ? kn_fail(KILN_E_NOT_FOUND, "%s: there is no param '%s'; did you mean %s?", spec->name,
                     name, near)
           : kn_fail(KILN_E_NOT_FOUND, "%s: there is no param '%s'; it has %s", spec->name, name,
                     count ? list.data : "none");
  kn_text_release(&list);
  return status;
}

/* tile.NAME=value: a positive integer. */
static kiln_status set_tile(struct kn_planner *p, const char *name, const char *text) {
  const struct kn_spec *spec = p->plan->spec;
  char *end = NULL;
  long value = strtol(text, &end, 10);
  if (!*text || *end || value < 1 || value > 1 << 20) {
    return kn_fail(KILN_E_ARGUMENT, "%s: tile.%s is '%s'; allowed are integers from 1 to %d",
                   spec->name, name, text, 1 << 20);
  }
  for (size_t i = 0; i < p->num_tile; ++i) {
    if (strcmp(p->tile[i].name, name) != 0) continue;
    p->tile[i].value = value;
    return KILN_OK;
  }
  if (p->num_tile == KN_MAX_TILE) {
    return kn_fail(KILN_E_ARGUMENT, "%s: tile.%s is one entry too many", spec->name, name);
  }
  p->tile[p->num_tile++] = (struct kn_tile_value){name, value, true};
  return KILN_OK;
}

static kiln_status set_present(struct kn_planner *p, const char *name, const char *text) {
  struct kn_plan *plan = p->plan;
  bool value = strcmp(text, "true") == 0, *present = NULL, optional = false;
  if (!value && strcmp(text, "false") != 0) {
    return kn_fail(KILN_E_ARGUMENT, "%s: present.%s is '%s'; allowed are true and false",
                   plan->spec->name, name, text);
  }
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    if (strcmp(plan->spec->tensors[i].name, name) != 0) continue;
    present = &plan->tensors[i].present;
    optional = plan->spec->tensors[i].optional;
  }
  for (size_t i = 0; i < plan->spec->num_scalars; ++i) {
    if (strcmp(plan->spec->scalars[i].name, name) != 0) continue;
    present = &plan->scalars[i].present;
    optional = plan->spec->scalars[i].optional;
  }
  if (!present) {
    return kn_fail(KILN_E_NOT_FOUND, "%s: present.%s names no tensor or scalar", plan->spec->name,
                   name);
  }
  if (!optional && !value) {
    return kn_fail(KILN_E_UNSUPPORTED, "%s: %s is not optional", plan->spec->name, name);
  }
  *present = value;
  return KILN_OK;
}

static kiln_status set_other(struct kn_planner *p, const kiln_param *given) {
  if (strncmp(given->name, "tile.", 5) == 0) return set_tile(p, given->name + 5, given->value);
  if (strncmp(given->name, "present.", 8) == 0) {
    return set_present(p, given->name + 8, given->value);
  }
  if (kn_spec_param(p->plan->spec, given->name)) return KILN_OK;
  return unknown_param(p, given->name);
}

/* The value of one param: its text, the text of the int param that it names, or its default. */
static kiln_status value_of(struct kn_plan *plan, const struct kn_param_spec *param,
                            const kiln_param *given, size_t num_given, struct kn_value *out) {
  const kiln_param *own = find_given(given, num_given, param->name);
  if (!own) {
    if (param->has_default) {
      *out = param->default_value;
      return KILN_OK;
    }
    return kn_fail(KILN_E_ARGUMENT, "%s: %s is not given", plan->spec->name, param->name);
  }
  const struct kn_param_spec *other =
      param->type == KN_VALUE_INT ? kn_spec_param(plan->spec, own->value) : NULL;
  if (!other || other == param || other->type != KN_VALUE_INT) {
    return kn_spec_parse_value(plan->spec, param, own->value, out);
  }
  const kiln_param *named = find_given(given, num_given, other->name);
  if (named) return kn_spec_parse_value(plan->spec, param, named->value, out);
  if (!other->has_default) {
    return kn_fail(KILN_E_ARGUMENT, "%s: %s is not given", plan->spec->name, other->name);
  }
  *out = other->default_value;
  return KILN_OK;
}

kiln_status kn_plan_params(struct kn_planner *p, const kiln_param *given, size_t num_given) {
  struct kn_plan *plan = p->plan;
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < num_given && status == KILN_OK; ++i) {
    if (!given[i].name || !given[i].value) {
      return kn_fail(KILN_E_ARGUMENT, "%s: param %zu has no name or no value", plan->spec->name, i);
    }
    if (find_given(given, i, given[i].name)) {
      return kn_fail(KILN_E_ARGUMENT, "%s: %s is given twice", plan->spec->name, given[i].name);
    }
    status = set_other(p, &given[i]);
  }
  for (size_t i = 0; i < plan->spec->num_params && status == KILN_OK; ++i) {
    status = value_of(plan, &plan->spec->params[i], given, num_given, &plan->params[i]);
    if (status == KILN_OK && plan->params[i].type == KN_VALUE_WORD) {
      plan->params[i].word = kn_arena_strdup(&plan->arena, plan->params[i].word);
    }
  }
  for (size_t i = 0; i < plan->spec->num_params && status == KILN_OK; ++i) {
    status = check_one_of(plan, i);
  }
  return status;
}

struct name_list {
  const struct kn_scope *scope;
  struct kn_text text;
};

static void append_value(void *user, const char *name, struct kn_mark mark) {
  struct name_list *list = user;
  struct kn_env env = kn_scope_env(list->scope);
  struct kn_value value;
  struct kn_arena scratch = {0};
  (void)mark;
  if (kn_dtype_parse(name) || !env.value(env.user, name, &value)) return;
  const char *shown = kn_param_text(&scratch, &value);
  struct kn_text entry = {0};
  kn_text_printf(&entry, "%s is %s", name, shown ? shown : "?");
  if (entry.data && (!list->text.data || !strstr(list->text.data, entry.data))) {
    kn_text_printf(&list->text, "%s%s", list->text.length ? ", " : "", entry.data);
  }
  kn_text_release(&entry);
  kn_arena_release(&scratch);
}

kiln_status kn_check_rule(const struct kn_scope *scope, const struct kn_require_spec *rule,
                          kiln_status broken) {
  struct kn_env env = kn_scope_env(scope);
  bool holds = false;
  kiln_status status = kn_expr_eval_bool(rule->rule, &env, &holds);
  if (status != KILN_OK || holds) return status;
  struct name_list values = {.scope = scope};
  kn_expr_each_name(rule->rule, append_value, &values);
  status = kn_fail(broken, "%s: %s; required is %s%s%s", scope->plan->spec->name,
                   values.text.data ? values.text.data : "a rule fails",
                   rule->rule->text ? rule->rule->text : "a rule of the spec",
                   rule->why ? ": " : "", rule->why ? rule->why : "");
  kn_text_release(&values.text);
  return status;
}

struct late_search {
  const struct kn_spec *spec;
  bool found;
};

/* A name that is neither a param nor a dtype is a run-time size or a scalar. */
static void find_late(void *user, const char *name, struct kn_mark mark) {
  struct late_search *search = user;
  (void)mark;
  if (!kn_spec_param(search->spec, name) && !kn_dtype_parse(name)) search->found = true;
}

kiln_status kn_plan_check_requires(struct kn_plan *plan) {
  const struct kn_scope scope = {.plan = plan};
  for (size_t i = 0; i < plan->spec->num_requires; ++i) {
    const struct kn_require_spec *rule = &plan->spec->requires[i];
    struct late_search search = {plan->spec, false};
    kn_expr_each_name(rule->rule, find_late, &search);
    plan->rule_is_late[i] = search.found;
    if (search.found) continue;
    kiln_status status = kn_check_rule(&scope, rule, KILN_E_UNSUPPORTED);
    if (status != KILN_OK) return status;
  }
  return KILN_OK;
}
