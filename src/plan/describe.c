/* SPDX-License-Identifier: MIT */
/* What a kernel expects for given run-time sizes. */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "plan/planner.h"

static kiln_status take_dims(const struct kn_plan *plan, const kiln_dim *dims, size_t num_dims,
                             int64_t *out) {
  for (size_t i = 0; i < plan->num_dims; ++i) {
    bool found = plan->dim_is_absent[i];
    out[i] = 1;
    for (size_t j = 0; j < num_dims && !plan->dim_is_absent[i]; ++j) {
      if (!dims[j].name || strcmp(dims[j].name, plan->dims[i]) != 0) continue;
      if (dims[j].value < 0) {
        return kn_fail(KILN_E_ARGUMENT, "%s: %s is %" PRId64 "; allowed is 0 and above",
                       plan->spec->name, dims[j].name, dims[j].value);
      }
      out[i] = dims[j].value;
      found = true;
    }
    if (!found) {
      return kn_fail(KILN_E_ARGUMENT, "%s: the run-time size %s is not given", plan->spec->name,
                     plan->dims[i]);
    }
  }
  return KILN_OK;
}

/* Contiguous strides; column-major scale factors get the default ld, padding included. */
static void default_strides(const struct kn_plan_tensor *tensor, kiln_arg_info *info) {
  int64_t count = 1;
  for (int axis = tensor->rank - 1; axis >= 0; --axis) {
    info->strides[axis] = count;
    info->stride_is_free[axis] = tensor->stride_free[axis];
    count *= info->shape[axis];
  }
  if (tensor->is_sf && tensor->sf_layout != KN_SF_ROW_MAJOR) {
    info->strides[0] = 1;
    info->strides[1] = (info->shape[0] + 3) / 4 * 4;
    count = info->strides[1] * info->shape[1];
  }
  info->size_bytes = (uint64_t)kn_dtype_bytes(tensor->dtype, count);
}

/* Values of integer scalars that were given among the sizes. */
struct given {
  const struct kn_plan *plan;
  const kiln_dim *dims;
  size_t num_dims;
};

static bool scalar_value(void *user, size_t index, int64_t *out) {
  const struct given *given = user;
  for (size_t i = 0; i < given->num_dims; ++i) {
    const char *name = given->dims[i].name;
    if (!name || strcmp(name, given->plan->spec->scalars[index].name) != 0) continue;
    *out = given->dims[i].value;
    return true;
  }
  return false;
}

/* low to high where both can be told; without a message where not. */
static void find_range(const struct kn_env *env, const struct kn_expr *low,
                       const struct kn_expr *high, kiln_arg_info *info) {
  int64_t ends[2] = {0, 0};
  info->has_range = (!low || kn_expr_eval_int(low, env, &ends[0]) == KILN_OK) &&
                    kn_expr_eval_int(high, env, &ends[1]) == KILN_OK;
  info->low = ends[0];
  info->high = ends[1];
  if (!info->has_range) kn_error_clear();
}

static kiln_status tensor_info(const struct kn_plan *plan, size_t index, const kiln_dim *dims,
                               size_t num_dims, kiln_arg_info *info) {
  const struct kn_plan_tensor *tensor = &plan->tensors[index];
  int64_t sizes[KN_MAX_DIMS] = {0};
  kiln_status status = take_dims(plan, dims, num_dims, sizes);
  if (status != KILN_OK) return status;
  struct given given = {plan, dims, num_dims};
  struct kn_scope scope = {.plan = plan, .dims = sizes, .scalar = scalar_value, .user = &given};
  struct kn_env env = kn_scope_env(&scope);
  kiln_arg_info found = {.size = info->size,
                         .name = tensor->spec->name,
                         .is_present = tensor->present,
                         .role = tensor->spec->role,
                         .dtype = tensor->dtype,
                         .rank = tensor->rank};
  for (int axis = 0; axis < tensor->rank; ++axis) {
    status = kn_expr_eval_int(tensor->shape[axis], &env, &found.shape[axis]);
    if (status != KILN_OK) return status;
  }
  default_strides(tensor, &found);
  if (tensor->spec->range) {
    find_range(&env, NULL, tensor->spec->range, &found);
    --found.high;
  }
  *info = found;
  return KILN_OK;
}

kiln_status kn_plan_arg_info(const struct kn_plan *plan, size_t index, const kiln_dim *dims,
                             size_t num_dims, kiln_arg_info *info) {
  size_t num_tensors = plan->spec->num_tensors;
  if (index < num_tensors) return tensor_info(plan, index, dims, num_dims, info);
  if (index - num_tensors >= plan->spec->num_scalars) {
    return kn_fail(KILN_E_ARGUMENT, "%s: there is no argument number %zu", plan->spec->name, index);
  }
  const struct kn_plan_scalar *scalar = &plan->scalars[index - num_tensors];
  *info = (kiln_arg_info){.size = info->size,
                          .name = scalar->spec->name,
                          .is_scalar = 1,
                          .is_present = scalar->present,
                          .role = KILN_IN,
                          .dtype = scalar->spec->type};
  if (scalar->spec->range[0]) {
    int64_t sizes[KN_MAX_DIMS] = {0};
    struct given given = {plan, dims, num_dims};
    struct kn_scope scope = {.plan = plan, .dims = sizes, .scalar = scalar_value, .user = &given};
    struct kn_env env = kn_scope_env(&scope);
    kiln_status status = take_dims(plan, dims, num_dims, sizes);
    if (status != KILN_OK) return status;
    find_range(&env, scalar->spec->range[0], scalar->spec->range[1], info);
  }
  return KILN_OK;
}

struct size_search {
  const struct kn_spec *spec;
  bool found_scalar;
};

static void find_scalar(void *user, const char *name, struct kn_mark mark) {
  struct size_search *search = user;
  (void)mark;
  if (kn_spec_scalar(search->spec, name)) search->found_scalar = true;
}

static bool names_sizes_only(const struct kn_plan *plan, const struct kn_expr *rule) {
  struct size_search search = {plan->spec, false};
  kn_expr_each_name(rule, find_scalar, &search);
  return !search.found_scalar;
}

kiln_status kn_plan_bytes(const struct kn_plan *plan, const kiln_dim *dims, size_t num_dims,
                          uint64_t *out_bytes) {
  int64_t sizes[KN_MAX_DIMS] = {0};
  double bytes = 0;
  kiln_status status = take_dims(plan, dims, num_dims, sizes);
  if (status != KILN_OK) return status;
  struct kn_scope scope = {.plan = plan, .dims = sizes};
  struct kn_env env = kn_scope_env(&scope);
  for (size_t i = 0; i < plan->spec->num_requires; ++i) {
    if (!plan->rule_is_late[i] || !names_sizes_only(plan, plan->spec->requires[i].rule)) continue;
    status = kn_check_rule(&scope, &plan->spec->requires[i], KILN_E_ARGUMENT);
    if (status != KILN_OK) return status;
  }
  if (plan->bytes) status = kn_expr_eval_number(plan->bytes, &env, &bytes);
  if (status == KILN_OK) *out_bytes = (uint64_t)bytes;
  return status;
}
