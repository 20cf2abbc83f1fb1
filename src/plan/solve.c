/* SPDX-License-Identifier: MIT */
/* Params from launch arguments. */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "plan/plan.h"

struct solver {
  const struct kn_spec *spec;
  struct kn_arena *arena;
  kiln_param *params;
  size_t num_params;
  bool is_output; /* of the tensor at hand */
};

static const char *find(const struct solver *s, const char *name) {
  for (size_t i = 0; i < s->num_params; ++i) {
    if (strcmp(s->params[i].name, name) == 0) return s->params[i].value;
  }
  return NULL;
}

/* Adds a solved param; one that is there already must be the same. An output only adds what is
   not known yet: its shape may depend on flags, and is checked at launch. */
static kiln_status add(struct solver *s, const char *name, const char *value, const char *from) {
  const char *known = find(s, name);
  if (!value) return kn_fail(KILN_E_MEMORY, "%s: out of memory", s->spec->name);
  if (!known) {
    s->params[s->num_params++] = (kiln_param){name, value};
    return KILN_OK;
  }
  if (s->is_output) return KILN_OK;
  const struct kn_param_spec *param = kn_spec_param(s->spec, name);
  struct kn_value old, new;
  if (param && kn_spec_param(s->spec, known)) return KILN_OK; /* names another param */
  if (param && kn_spec_parse_value(s->spec, param, known, &old) == KILN_OK &&
      kn_spec_parse_value(s->spec, param, value, &new) == KILN_OK && old.number == new.number) {
    return KILN_OK;
  }
  if (strcmp(known, value) == 0) return KILN_OK;
  return kn_fail(KILN_E_ARGUMENT, "%s: %s is %s, but %s says %s", s->spec->name, name, known, from,
                 value);
}

static bool is_int_param(void *user, const char *name) {
  const struct solver *s = user;
  const struct kn_param_spec *param = kn_spec_param(s->spec, name);
  return param && param->type == KN_VALUE_INT;
}

static bool no_value(void *user, const char *name, struct kn_value *out) {
  (void)user;
  (void)name;
  (void)out;
  return false;
}

static kiln_status solve_tensor(struct solver *s, const struct kn_tensor_spec *spec,
                                const kiln_tensor *tensor) {
  struct kn_env env = {.value = no_value};
  kiln_status status = KILN_OK;
  if (spec->dtype && spec->dtype->op == KN_EXPR_NAME && kn_spec_param(s->spec, spec->dtype->name)) {
    if (!kiln_dtype_bits(tensor->dtype)) {
      return kn_fail(KILN_E_ARGUMENT, "%s: %s has no dtype", s->spec->name, spec->name);
    }
    status = add(s, spec->dtype->name, kiln_dtype_name(tensor->dtype), spec->name);
  }
  for (int axis = 0; axis < spec->rank && axis < tensor->rank && status == KILN_OK; ++axis) {
    const char *name = NULL;
    int64_t scale = 0, offset = 0, extent = tensor->shape[axis];
    if (spec->sf_of ||
        !kn_expr_linear(spec->shape[axis], &env, is_int_param, s, &name, &scale, &offset))
      continue;
    if ((extent - offset) % scale && s->is_output) continue;
    if ((extent - offset) % scale) {
      return kn_fail(KILN_E_ARGUMENT, "%s: axis %d of %s is %" PRId64 "; it must be %s",
                     s->spec->name, axis, spec->name, extent,
                     spec->shape[axis]->text ? spec->shape[axis]->text : name);
    }
    status =
        add(s, name, kn_arena_printf(s->arena, "%" PRId64, (extent - offset) / scale), spec->name);
  }
  return status;
}

kiln_status kn_plan_solve(const struct kn_spec *spec, struct kn_arena *arena,
                          const kiln_param *given, size_t num_given, const kiln_arg *args,
                          size_t num_args, kiln_param **out_params, size_t *out_num_params) {
  struct solver s = {.spec = spec, .arena = arena};
  kiln_status status = KILN_OK;
  s.params = kn_arena_alloc(arena, num_given + spec->num_params + num_args + 1, sizeof *s.params);
  if (!s.params) return kn_fail(KILN_E_MEMORY, "%s: out of memory", spec->name);
  if (num_given) memcpy(s.params, given, num_given * sizeof *given);
  s.num_params = num_given;
  for (size_t i = 0; i < num_args; ++i) {
    if (!args[i].name) {
      return kn_fail(KILN_E_ARGUMENT, "%s: argument %zu has no name", spec->name, i);
    }
  }
  for (size_t pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < num_args && status == KILN_OK; ++i) {
      const struct kn_tensor_spec *tensor = kn_spec_tensor(spec, args[i].name);
      if (!tensor || args[i].is_scalar || (tensor->role == KILN_OUT) != (pass == 1)) continue;
      s.is_output = pass == 1;
      status = solve_tensor(&s, tensor, &args[i].tensor);
    }
  }
  s.is_output = false;
  for (size_t i = 0; i < num_args && status == KILN_OK; ++i) {
    const struct kn_tensor_spec *tensor = kn_spec_tensor(spec, args[i].name);
    const struct kn_scalar_spec *scalar = kn_spec_scalar(spec, args[i].name);
    if (status == KILN_OK && ((tensor && tensor->optional) || (scalar && scalar->optional))) {
      status = add(&s, kn_arena_printf(arena, "present.%s", args[i].name), "true", args[i].name);
    }
  }
  if (status != KILN_OK) return status;
  *out_params = s.params;
  *out_num_params = s.num_params;
  return KILN_OK;
}
