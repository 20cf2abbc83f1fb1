/* SPDX-License-Identifier: MIT */
/* Any bytes as a spec: refused with a place and a sentence, or parsed and good for all uses. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "spec/spec.h"

static void require(bool condition) {
  if (!condition) abort();
}

/* Params take the smallest value that is allowed, sizes are 100. */
static bool value_of(void *user, const char *name, struct kn_value *out) {
  const struct kn_spec *spec = user;
  const struct kn_param_spec *param = kn_spec_param(spec, name);
  *out = (struct kn_value){.type = KN_VALUE_INT, .number = 100};
  if (!param) return true;
  if (param->has_default) {
    *out = param->default_value;
  } else if (param->num_one_of > 0 && param->one_of[0]->op == KN_EXPR_CONSTANT) {
    *out = param->one_of[0]->constant;
  } else {
    out->type = param->type;
    out->number = param->type == KN_VALUE_INT && param->has_min ? param->min : 1;
  }
  return true;
}

static bool size_of(void *user, const char *name, double *out_bytes) {
  *out_bytes = 1e6;
  return kn_spec_tensor(user, name) != NULL;
}

static bool present(void *user, const char *name, bool *out) {
  *out = kn_spec_tensor(user, name) != NULL;
  return true;
}

/* What the types of names allow can only fail for its numbers. */
static void evaluate(const struct kn_expr *expr, const struct kn_env *env) {
  struct kn_value value = {0};
  double number = 0;
  kiln_status status;
  if (!expr) return;
  status = kn_expr_eval(expr, env, &value);
  require(status == KILN_OK || status == KILN_E_UNSUPPORTED);
  if (value.type == KN_VALUE_INT) (void)kn_expr_eval_number(expr, env, &number);
}

static void evaluate_all(struct kn_spec *spec) {
  const struct kn_env env = {value_of, size_of, spec, present};
  for (size_t i = 0; i < spec->num_tensors; i++) {
    const struct kn_tensor_spec *tensor = &spec->tensors[i];
    require(tensor->sf_of || (tensor->dtype && tensor->rank > 0));
    evaluate(tensor->dtype, &env);
    for (int axis = 0; axis < tensor->rank; axis++) {
      evaluate(tensor->shape[axis], &env);
      evaluate(tensor->strides[axis], &env);
    }
    evaluate(tensor->block[0], &env);
    evaluate(tensor->block[1], &env);
    evaluate(tensor->range, &env);
  }
  for (size_t i = 0; i < spec->num_scalars; i++) {
    evaluate(spec->scalars[i].range[0], &env);
    evaluate(spec->scalars[i].range[1], &env);
  }
  for (size_t i = 0; i < spec->num_requires; i++) evaluate(spec->requires[i].rule, &env);
  for (size_t i = 0; i < spec->num_steps; i++) {
    const struct kn_step_spec *step = &spec->steps[i];
    evaluate(step->threads, &env);
    evaluate(step->grid, &env);
    evaluate(step->shared, &env);
    for (size_t k = 0; k < step->num_variants; k++) evaluate(step->variants[k].when, &env);
  }
  evaluate(spec->workspace, &env);
  evaluate(spec->bytes, &env);
}

static void parse_values(const struct kn_spec *spec) {
  static const char *const texts[] = {"", "0", "64", "-1", "true", "bf16", "hidden", "word"};
  for (size_t i = 0; i < spec->num_params; i++) {
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
      struct kn_value value = {0};
      const struct kn_param_spec *param = &spec->params[i];
      const kiln_status status = kn_spec_parse_value(spec, param, texts[k], &value);
      require(status == KILN_OK ? value.type == param->type : status == KILN_E_ARGUMENT);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct kn_spec *spec = NULL;
  const kiln_status status = kn_spec_parse("fuzz.yaml", (const char *)data, size, &spec);
  char *json;

  if (status != KILN_OK) {
    const kiln_error *error = kn_error_last();
    require(status == KILN_E_SPEC && error->status == status && !spec);
    require(error->line > 0 && error->column > 0 && error->message[0]);
    return 0;
  }
  json = kn_spec_json(spec);
  require(json != NULL && json[0] == '{');
  free(json);
  evaluate_all(spec);
  parse_values(spec);
  kn_spec_free(spec);
  return 0;
}
