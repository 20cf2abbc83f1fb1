/* SPDX-License-Identifier: MIT */
/* Launch arguments -> the bytes of kiln_args, grids and variants. On the path of every launch. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "plan/planner.h"

/* One launch being bound. `given` has, for each tensor and then each scalar, the caller's. */
struct binding {
  const struct kn_plan *plan;
  const kiln_arg *given[KN_MAX_ARGS];
  bool known[KN_MAX_DIMS]; /* which run-time sizes are solved */
  struct kn_bound *out;
};

static const char *op(const struct binding *b) {
  return b->plan->spec->name;
}

static kiln_status check_tensor_kind(const struct binding *b, const struct kn_plan_tensor *want,
                                     const kiln_arg *arg) {
  const char *name = want->spec->name;
  if (arg->is_scalar)
    return kn_fail(KILN_E_ARGUMENT, "%s: %s is a tensor, not a scalar", op(b), name);
  if (arg->tensor.dtype != want->dtype) {
    return kn_fail(KILN_E_ARGUMENT, "%s: %s is %s; this kernel was built for %s", op(b), name,
                   kiln_dtype_name(arg->tensor.dtype), kiln_dtype_name(want->dtype));
  }
  if (arg->tensor.rank != want->rank) {
    return kn_fail(KILN_E_ARGUMENT, "%s: %s has rank %d; allowed is %d", op(b), name,
                   arg->tensor.rank, want->rank);
  }
  for (int axis = 0; axis < want->rank; ++axis) {
    if (arg->tensor.shape[axis] < 0) {
      return kn_fail(KILN_E_ARGUMENT, "%s: axis %d of %s is %" PRId64 "; allowed is 0 and above",
                     op(b), axis, name, arg->tensor.shape[axis]);
    }
  }
  return KILN_OK;
}

/* Scalars: presence, and the range that the operator allows, judged after rounding to f32. */
static kiln_status check_scalar(const struct binding *b, const struct kn_plan_scalar *want,
                                const kiln_arg *arg) {
  const char *name = want->spec->name;
  if (!arg->is_scalar)
    return kn_fail(KILN_E_ARGUMENT, "%s: %s is a scalar, not a tensor", op(b), name);
  if (want->spec->type == KILN_F32) {
    float value = (float)arg->scalar;
    if (isnan(value)) return kn_fail(KILN_E_ARGUMENT, "%s: %s is not a number", op(b), name);
    if (want->has_min && (isinf(value) || value < want->min)) {
      return kn_fail(KILN_E_ARGUMENT, "%s: %s is %g; allowed are finite values from %g on", op(b),
                     name, arg->scalar, want->min);
    }
    return KILN_OK;
  }
  double low = want->spec->type == KILN_I32 ? INT32_MIN : -0x1p63;
  double high = want->spec->type == KILN_I32 ? INT32_MAX : 0x1p63 - 1024;
  if (!(arg->scalar >= low && arg->scalar <= high) || arg->scalar != floor(arg->scalar)) {
    return kn_fail(KILN_E_ARGUMENT, "%s: %s is %g; allowed are whole numbers of type %s", op(b),
                   name, arg->scalar, kiln_dtype_name(want->spec->type));
  }
  return KILN_OK;
}

/* The place of an argument's name: tensors in spec order, then scalars; -1 if there is none. */
static int place_of(const struct kn_plan *plan, const char *name) {
  const struct kn_spec *spec = plan->spec;
  for (size_t i = 0; i < spec->num_tensors; ++i) {
    if (strcmp(spec->tensors[i].name, name) == 0) return (int)i;
  }
  for (size_t i = 0; i < spec->num_scalars; ++i) {
    if (strcmp(spec->scalars[i].name, name) == 0) return (int)(spec->num_tensors + i);
  }
  return -1;
}

static bool is_present(const struct kn_plan *plan, size_t place) {
  size_t num_tensors = plan->spec->num_tensors;
  return place < num_tensors ? plan->tensors[place].present
                             : plan->scalars[place - num_tensors].present;
}

static const char *name_of(const struct kn_plan *plan, size_t place) {
  size_t num_tensors = plan->spec->num_tensors;
  return place < num_tensors ? plan->spec->tensors[place].name
                             : plan->spec->scalars[place - num_tensors].name;
}

/* Gives each argument its place and checks presence, kind, dtype and rank. */
static kiln_status place_arguments(struct binding *b, const kiln_arg *args, size_t num_args) {
  const struct kn_plan *plan = b->plan;
  size_t num_tensors = plan->spec->num_tensors;
  size_t num_places = num_tensors + plan->spec->num_scalars;
  for (size_t i = 0; i < num_args; ++i) {
    if (!args[i].name) return kn_fail(KILN_E_ARGUMENT, "%s: argument %zu has no name", op(b), i);
    int place = place_of(plan, args[i].name);
    if (place < 0) {
      return kn_fail(KILN_E_ARGUMENT, "%s: there is no argument '%s'", op(b), args[i].name);
    }
    if (b->given[place]) {
      return kn_fail(KILN_E_ARGUMENT, "%s: %s is given twice", op(b), args[i].name);
    }
    b->given[place] = &args[i];
  }
  for (size_t i = 0; i < num_places; ++i) {
    bool present = is_present(plan, i);
    if (present && !b->given[i]) {
      return kn_fail(KILN_E_ARGUMENT, "%s: %s is not given", op(b), name_of(plan, i));
    }
    if (!present && b->given[i]) {
      return kn_fail(KILN_E_ARGUMENT, "%s: %s is given, but this kernel was built without it",
                     op(b), name_of(plan, i));
    }
    if (!present) continue;
    kiln_status status = i < num_tensors
                             ? check_tensor_kind(b, &plan->tensors[i], b->given[i])
                             : check_scalar(b, &plan->scalars[i - num_tensors], b->given[i]);
    if (status != KILN_OK) return status;
  }
  return KILN_OK;
}

/* ---- shapes ---- */

static bool is_unsolved(void *user, const char *name) {
  const struct binding *b = user;
  for (size_t i = 0; i < b->plan->num_dims; ++i) {
    if (strcmp(b->plan->dims[i], name) == 0) return !b->known[i];
  }
  return false;
}

static void solve_axis(struct binding *b, const struct kn_env *env, const struct kn_expr *expr,
                       int64_t extent) {
  const char *name = NULL;
  int64_t scale = 0, offset = 0;
  if (!kn_expr_linear(expr, env, is_unsolved, b, &name, &scale, &offset)) return;
  if ((extent - offset) % scale || extent < offset) return; /* verified, and refused, below */
  for (size_t i = 0; i < b->plan->num_dims; ++i) {
    if (strcmp(b->plan->dims[i], name) != 0) continue;
    b->out->dims[i] = (extent - offset) / scale;
    b->known[i] = true;
  }
}

static kiln_status solve_dims(struct binding *b) {
  const struct kn_plan *plan = b->plan;
  struct kn_scope scope = {.plan = plan, .dims = b->out->dims};
  struct kn_env env = kn_scope_env(&scope);
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    const struct kn_plan_tensor *tensor = &plan->tensors[i];
    if (!tensor->present || tensor->is_sf) continue;
    for (int axis = 0; axis < tensor->rank; ++axis) {
      solve_axis(b, &env, tensor->shape[axis], b->given[i]->tensor.shape[axis]);
    }
  }
  for (size_t i = 0; i < plan->num_dims; ++i) {
    if (b->known[i]) continue;
    if (plan->dim_is_absent[i]) {
      b->out->dims[i] = 1;
      continue;
    }
    return kn_fail(KILN_E_ARGUMENT, "%s: no shape given tells %s", op(b), plan->dims[i]);
  }
  return KILN_OK;
}

static kiln_status check_shape(const struct binding *b, size_t index) {
  const struct kn_plan_tensor *want = &b->plan->tensors[index];
  const kiln_tensor *tensor = &b->given[index]->tensor;
  struct kn_scope scope = {.plan = b->plan, .dims = b->out->dims};
  struct kn_env env = kn_scope_env(&scope);
  for (int axis = 0; axis < want->rank; ++axis) {
    int64_t extent = 0;
    kiln_status status = kn_expr_eval_int(want->shape[axis], &env, &extent);
    if (status != KILN_OK) return status;
    if (tensor->shape[axis] == extent) continue;
    const char *text = want->shape[axis]->text;
    return kn_fail(KILN_E_ARGUMENT,
                   "%s: axis %d of %s is %" PRId64 "; it must be %" PRId64 "%s%s%s", op(b), axis,
                   want->spec->name, tensor->shape[axis], extent, text ? " (" : "",
                   text ? text : "", text ? ")" : "");
  }
  return KILN_OK;
}

static bool is_empty(const kiln_tensor *tensor) {
  for (int axis = 0; axis < tensor->rank; ++axis) {
    if (tensor->shape[axis] == 0) return true;
  }
  return false;
}

/* Elements between the first and one past the last; false if that overflows. */
static bool span_of(const kiln_tensor *tensor, int64_t *out) {
  int64_t span = 1;
  for (int axis = 0; axis < tensor->rank; ++axis) {
    int64_t steps = tensor->shape[axis] - 1, stride = tensor->strides[axis];
    if (steps > 0 && stride > (INT64_MAX / 16 - span) / steps) return false;
    span += steps > 0 ? steps * stride : 0;
  }
  *out = span;
  return true;
}

/* The stride that axis `axis` must have where it is not free. */
static kiln_status fixed_stride(const struct binding *b, const struct kn_plan_tensor *want,
                                const kiln_tensor *tensor, int axis, int64_t *out) {
  struct kn_scope scope = {.plan = b->plan, .dims = b->out->dims};
  struct kn_env env = kn_scope_env(&scope);
  if (want->is_sf && want->sf_layout != KN_SF_ROW_MAJOR) {
    *out = 1; /* axis 0 of a column-major matrix; axis 1 is free */
    return KILN_OK;
  }
  if (!want->is_sf && want->spec->strides[axis]) {
    return kn_expr_eval_int(want->spec->strides[axis], &env, out);
  }
  *out = 1;
  for (int i = axis + 1; i < tensor->rank; ++i) *out *= tensor->shape[i];
  return KILN_OK;
}

static kiln_status check_ld(const struct binding *b, const struct kn_plan_tensor *want,
                            const kiln_tensor *tensor) {
  int64_t ld = tensor->strides[1];
  if (ld % 4 == 0 && ld >= tensor->shape[0]) return KILN_OK;
  return kn_fail(KILN_E_ARGUMENT,
                 "%s: axis 1 of %s has stride %" PRId64
                 "; allowed are multiples of 4 from its %" PRId64 " rows on",
                 op(b), want->spec->name, ld, tensor->shape[0]);
}

static kiln_status check_strides(const struct binding *b, size_t index) {
  const struct kn_plan_tensor *want = &b->plan->tensors[index];
  const kiln_tensor *tensor = &b->given[index]->tensor;
  const char *name = want->spec->name;
  int pack = kn_dtype_pack(want->dtype);
  int64_t inner = 1;                    /* what one step of the axes inside may reach over */
  if (is_empty(tensor)) return KILN_OK; /* a contiguous one has strides of 0 */
  if (want->is_sf && want->stride_free[1]) {
    kiln_status status = check_ld(b, want, tensor);
    if (status != KILN_OK) return status;
  }
  for (int axis = want->rank - 1; axis >= 0; --axis) {
    int64_t stride = tensor->strides[axis], fixed = 0;
    if (tensor->shape[axis] <= 1 && !(want->stride_free[axis] && stride < 0)) continue;
    if (want->stride_free[axis]) {
      bool writes = want->spec->role != KILN_IN && !want->is_sf;
      int64_t low = writes ? inner : 0;
      if (stride < low || stride % pack) {
        return kn_fail(
            KILN_E_ARGUMENT,
            "%s: axis %d of %s has stride %" PRId64 "; allowed are %s%d from %" PRId64 " on", op(b),
            axis, name, stride, pack > 1 ? "multiples of " : "steps of ", pack, low);
      }
    } else {
      kiln_status status = fixed_stride(b, want, tensor, axis, &fixed);
      if (status != KILN_OK) return status;
      if (stride != fixed) {
        return kn_fail(KILN_E_ARGUMENT,
                       "%s: axis %d of %s has stride %" PRId64 "; it must be %" PRId64, op(b), axis,
                       name, stride, fixed);
      }
    }
    int64_t reach = stride;
    if (tensor->shape[axis] > 0 && stride > INT64_MAX / 16 / tensor->shape[axis]) {
      return kn_fail(KILN_E_ARGUMENT, "%s: axis %d of %s reaches beyond 64 bits", op(b), axis,
                     name);
    }
    reach *= tensor->shape[axis];
    if (reach > inner) inner = reach;
  }
  return KILN_OK;
}

/* Bytes behind `data` that a launch may touch. Column-major scale factors are padded to whole
   columns. */
static kiln_status bytes_of(const struct binding *b, size_t index, int64_t *out) {
  const struct kn_plan_tensor *want = &b->plan->tensors[index];
  const kiln_tensor *tensor = &b->given[index]->tensor;
  int64_t span = 0;
  if (is_empty(tensor)) {
    *out = 0;
    return KILN_OK;
  }
  if (want->is_sf && want->sf_layout != KN_SF_ROW_MAJOR) {
    span = tensor->strides[1] > INT64_MAX / 16 / tensor->shape[1]
               ? -1
               : tensor->strides[1] * tensor->shape[1];
  } else if (!span_of(tensor, &span)) {
    span = -1;
  }
  if (span < 0) {
    return kn_fail(KILN_E_ARGUMENT, "%s: %s reaches beyond 64 bits", op(b), want->spec->name);
  }
  *out = kn_dtype_bytes(want->dtype, span);
  return KILN_OK;
}

static kiln_status check_memory(const struct binding *b, size_t index, int64_t bytes) {
  const struct kn_plan_tensor *want = &b->plan->tensors[index];
  const kiln_tensor *tensor = &b->given[index]->tensor;
  const char *name = want->spec->name;
  int bits = kiln_dtype_bits(want->dtype);
  uintptr_t element = bits >= 8 && bits % 8 == 0 ? (uintptr_t)bits / 8 : 1;
  if (want->dtype == KILN_E5M6) element = 4; /* three 32-bit words for eight values */
  if (bytes == 0) return KILN_OK;
  if (!tensor->data) {
    return kn_fail(KILN_E_ARGUMENT, "%s: %s is NULL but not empty", op(b), name);
  }
  if ((uintptr_t)tensor->data % element) {
    return kn_fail(KILN_E_ARGUMENT, "%s: %s is at %p; it must be aligned to its %s of %zu bytes",
                   op(b), name, tensor->data, want->dtype == KILN_E5M6 ? "words" : "elements",
                   (size_t)element);
  }
  if (tensor->size_bytes && tensor->size_bytes < (uint64_t)bytes) {
    return kn_fail(KILN_E_ARGUMENT, "%s: %s has %" PRIu64 " bytes; this launch needs %" PRId64,
                   op(b), name, tensor->size_bytes, bytes);
  }
  return KILN_OK;
}

/* An output must not lie over another argument. */
static kiln_status check_overlap(const struct binding *b, const int64_t *bytes) {
  size_t count = b->plan->spec->num_tensors;
  for (size_t i = 0; i < count; ++i) {
    if (!bytes[i] || b->plan->tensors[i].spec->role == KILN_IN) continue;
    uintptr_t begin = (uintptr_t)b->given[i]->tensor.data;
    for (size_t j = 0; j < count; ++j) {
      if (j == i || !bytes[j]) continue;
      uintptr_t other = (uintptr_t)b->given[j]->tensor.data;
      if (begin < other + (uintptr_t)bytes[j] && other < begin + (uintptr_t)bytes[i]) {
        return kn_fail(KILN_E_ARGUMENT, "%s: output %s lies over %s", op(b),
                       b->plan->tensors[i].spec->name, b->plan->tensors[j].spec->name);
      }
    }
  }
  return KILN_OK;
}

static kiln_status check_tensors(const struct binding *b) {
  int64_t bytes[KN_MAX_ARGS] = {0};
  for (size_t i = 0; i < b->plan->spec->num_tensors; ++i) {
    if (!b->plan->tensors[i].present) continue;
    kiln_status status = check_shape(b, i);
    if (status == KILN_OK) status = check_strides(b, i);
    if (status == KILN_OK) status = bytes_of(b, i, &bytes[i]);
    if (status == KILN_OK) status = check_memory(b, i, bytes[i]);
    if (status != KILN_OK) return status;
  }
  return check_overlap(b, bytes);
}

/* ---- requirements ---- */

static bool scalar_value(void *user, size_t index, int64_t *out) {
  const struct binding *b = user;
  const kiln_arg *arg = b->given[b->plan->spec->num_tensors + index];
  if (!arg) return false;
  *out = (int64_t)arg->scalar; /* place_arguments took whole numbers only */
  return true;
}

static kiln_status check_ranges(const struct binding *b, const struct kn_scope *scope) {
  const struct kn_env env = kn_scope_env(scope);
  for (size_t i = 0; i < b->plan->spec->num_scalars; ++i) {
    const struct kn_scalar_spec *scalar = &b->plan->spec->scalars[i];
    int64_t value = 0, low = 0, high = 0;
    if (!scalar->range[0] || !scalar_value((void *)(uintptr_t)b, i, &value)) continue;
    kiln_status status = kn_expr_eval_int(scalar->range[0], &env, &low);
    if (status == KILN_OK) status = kn_expr_eval_int(scalar->range[1], &env, &high);
    if (status != KILN_OK) return status;
    if (value >= low && value <= high) continue;
    return kn_fail(KILN_E_ARGUMENT,
                   "%s: %s is %" PRId64 "; allowed are %" PRId64 " (%s) to %" PRId64 " (%s)", op(b),
                   scalar->name, value, low, scalar->range[0]->text, high, scalar->range[1]->text);
  }
  return KILN_OK;
}

/* Ranges of scalars, and requirements that were left for the launch. */
static kiln_status check_requires(const struct binding *b) {
  const struct kn_plan *plan = b->plan;
  const struct kn_scope scope = {
      .plan = plan, .dims = b->out->dims, .scalar = scalar_value, .user = (void *)(uintptr_t)b};
  kiln_status status = check_ranges(b, &scope);
  for (size_t i = 0; i < plan->spec->num_requires && status == KILN_OK; ++i) {
    if (!plan->rule_is_late[i]) continue;
    status = kn_check_rule(&scope, &plan->spec->requires[i], KILN_E_ARGUMENT);
  }
  return status;
}

/* ---- packing and choosing ---- */

static void pack_scalar(const struct kn_scalar_spec *scalar, double value, uint64_t *slot) {
  float f32 = (float)value;
  int32_t i32 = scalar->type == KILN_I32 ? (int32_t)value : 0;
  int64_t i64 = scalar->type == KILN_I64 ? (int64_t)value : 0;
  *slot = 0;
  if (scalar->type == KILN_F32) memcpy(slot, &f32, sizeof f32);
  if (scalar->type == KILN_I32) memcpy(slot, &i32, sizeof i32);
  if (scalar->type == KILN_I64) memcpy(slot, &i64, sizeof i64);
}

static void pack(const struct binding *b) {
  const struct kn_plan *plan = b->plan;
  size_t num_tensors = plan->spec->num_tensors;
  for (size_t i = 0; i < plan->num_slots; ++i) {
    const struct kn_plan_slot *slot = &plan->slots[i];
    const kiln_arg *arg = NULL;
    uint64_t *out = &b->out->args[i];
    *out = 0;
    if (slot->kind == KN_SLOT_WORKSPACE) continue;
    if (slot->kind == KN_SLOT_DIM) {
      *out = (uint64_t)b->out->dims[slot->index];
      continue;
    }
    arg = b->given[slot->kind == KN_SLOT_SCALAR ? num_tensors + (size_t)slot->index
                                                : (size_t)slot->index];
    if (!arg) continue;
    if (slot->kind == KN_SLOT_TENSOR) *out = (uint64_t)(uintptr_t)arg->tensor.data;
    if (slot->kind == KN_SLOT_STRIDE) *out = (uint64_t)arg->tensor.strides[slot->axis];
    if (slot->kind == KN_SLOT_SCALAR) {
      pack_scalar(plan->scalars[slot->index].spec, arg->scalar, out);
    }
  }
}

static bool is_aligned(const struct binding *b, const struct kn_align_spec *align) {
  int place = place_of(b->plan, align->tensor);
  const kiln_arg *arg = place < 0 ? NULL : b->given[place];
  if (!arg) return true;
  const kiln_tensor *tensor = &arg->tensor;
  if ((uintptr_t)tensor->data % (uintptr_t)align->bytes) return false;
  if (align->is_base) return true;
  for (int axis = 0; axis < tensor->rank; ++axis) {
    bool last = axis == tensor->rank - 1;
    if (last || tensor->shape[axis] <= 1) continue;
    int64_t bits = tensor->strides[axis] * kiln_dtype_bits(tensor->dtype);
    if (bits % (align->bytes * 8)) return false;
  }
  return true;
}

static kiln_status choose(const struct binding *b, const struct kn_plan_step *step,
                          const struct kn_env *env, int *out) {
  for (size_t i = 0; i < step->num_variants; ++i) {
    const struct kn_plan_variant *variant = &step->variants[i];
    bool fits = true;
    for (size_t j = 0; j < variant->num_aligns && fits; ++j) {
      fits = is_aligned(b, &variant->aligns[j]);
    }
    if (fits && variant->when) {
      kiln_status status = kn_expr_eval_bool(variant->when, env, &fits);
      if (status != KILN_OK) return status;
    }
    if (!fits) continue;
    *out = (int)i;
    return KILN_OK;
  }
  return kn_fail(KILN_E_ARGUMENT, "%s: no variant of step %s fits these arguments", op(b),
                 step->name);
}

static kiln_status choose_steps(const struct binding *b, int num_sms) {
  const struct kn_plan *plan = b->plan;
  struct kn_scope scope = {.plan = plan, .dims = b->out->dims, .num_sms = num_sms};
  struct kn_env env = kn_scope_env(&scope);
  b->out->num_steps = 0;
  for (size_t i = 0; i < plan->num_steps; ++i) {
    struct kn_bound_step bound = {.step = (int)i,
                                  .threads = plan->steps[i].threads,
                                  .shared_bytes = plan->steps[i].shared_bytes};
    kiln_status status = kn_expr_eval_int(plan->steps[i].grid, &env, &bound.grid);
    if (status != KILN_OK) return status;
    if (bound.grid > INT32_MAX) {
      return kn_fail(KILN_E_ARGUMENT, "%s: step %s needs %" PRId64 " blocks; allowed are %d", op(b),
                     plan->steps[i].name, bound.grid, INT32_MAX);
    }
    if (bound.grid <= 0) continue;
    status = choose(b, &plan->steps[i], &env, &bound.variant);
    if (status != KILN_OK) return status;
    b->out->steps[b->out->num_steps++] = bound;
  }
  b->out->workspace_bytes = 0;
  if (!plan->workspace) return KILN_OK;
  int64_t bytes = 0;
  kiln_status status = kn_expr_eval_int(plan->workspace, &env, &bytes);
  b->out->workspace_bytes = bytes > 0 ? (uint64_t)bytes : 0;
  return status;
}

kiln_status kn_plan_bind(const struct kn_plan *plan, const kiln_arg *args, size_t num_args,
                         int num_sms, struct kn_bound *out) {
  struct binding b = {.plan = plan, .out = out};
  kiln_status status = place_arguments(&b, args, num_args);
  if (status == KILN_OK) status = solve_dims(&b);
  if (status == KILN_OK) status = check_requires(&b);
  if (status == KILN_OK) status = check_tensors(&b);
  if (status == KILN_OK) status = choose_steps(&b, num_sms);
  if (status == KILN_OK) pack(&b);
  return status;
}
