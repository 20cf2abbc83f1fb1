/* SPDX-License-Identifier: MIT */
/* spec + request + limits -> plan. */
#include "plan/plan.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"
#include "plan/planner.h"
#include "plan/stage.h"

kiln_status kn_plan_no_memory(const struct kn_plan *plan) {
  return kn_fail(KILN_E_MEMORY, "%s: out of memory while planning", plan->spec->name);
}

/* ---- names and expressions ---- */

static bool scope_value(void *user, const char *name, struct kn_value *out) {
  const struct kn_scope *scope = user;
  const struct kn_plan *plan = scope->plan;
  for (size_t i = 0; i < plan->spec->num_params; ++i) {
    if (strcmp(plan->spec->params[i].name, name) != 0) continue;
    *out = plan->params[i];
    return true;
  }
  for (size_t i = 0; scope->dims && i < plan->num_dims; ++i) {
    if (strcmp(plan->dims[i], name) != 0) continue;
    *out = (struct kn_value){.type = KN_VALUE_INT, .number = scope->dims[i]};
    return true;
  }
  for (size_t i = 0; scope->scalar && i < plan->spec->num_scalars; ++i) {
    if (strcmp(plan->spec->scalars[i].name, name) != 0) continue;
    *out = (struct kn_value){.type = KN_VALUE_INT};
    return scope->scalar(scope->user, i, &out->number);
  }
  if (scope->num_sms && strcmp(name, "num_sms") == 0) {
    *out = (struct kn_value){.type = KN_VALUE_INT, .number = scope->num_sms};
    return true;
  }
  kiln_dtype dtype = kn_dtype_parse(name);
  *out = (struct kn_value){.type = KN_VALUE_DTYPE, .number = dtype};
  return dtype != KILN_DTYPE_NONE;
}

static bool scope_size(void *user, const char *name, double *out_bytes) {
  const struct kn_scope *scope = user;
  const struct kn_plan *plan = scope->plan;
  struct kn_value value;
  if (scope_value(user, name, &value)) {
    *out_bytes = kiln_dtype_bits((kiln_dtype)value.number) / 8.0;
    return value.type == KN_VALUE_DTYPE;
  }
  struct kn_env env = kn_scope_env(scope);
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    const struct kn_plan_tensor *tensor = &plan->tensors[i];
    if (strcmp(tensor->spec->name, name) != 0) continue;
    double count = tensor->present ? 1 : 0;
    for (int axis = 0; axis < tensor->rank; ++axis) {
      int64_t extent = 0;
      if (kn_expr_eval_int(tensor->shape[axis], &env, &extent) != KILN_OK) return false;
      count *= (double)extent;
    }
    *out_bytes = count * kiln_dtype_bits(tensor->dtype) / 8.0;
    return true;
  }
  return false;
}

static bool scope_present(void *user, const char *name, bool *out) {
  const struct kn_scope *scope = user;
  const struct kn_plan *plan = scope->plan;
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    if (strcmp(plan->spec->tensors[i].name, name) != 0) continue;
    *out = plan->tensors[i].present;
    return true;
  }
  for (size_t i = 0; i < plan->spec->num_scalars; ++i) {
    if (strcmp(plan->spec->scalars[i].name, name) != 0) continue;
    *out = plan->scalars[i].present;
    return true;
  }
  return false;
}

struct kn_env kn_scope_env(const struct kn_scope *scope) {
  return (struct kn_env){scope_value, scope_size, (void *)(uintptr_t)scope, scope_present};
}

kiln_status kn_make_expr(struct kn_plan *plan, const char *text, const struct kn_expr **out) {
  if (!text) return kn_plan_no_memory(plan);
  return kn_expr_parse(&plan->arena, text, (struct kn_mark){0}, out);
}

const struct kn_expr *kn_make_int(struct kn_plan *plan, int64_t value) {
  struct kn_expr *expr = kn_arena_alloc(&plan->arena, 1, sizeof *expr);
  if (!expr) return NULL;
  expr->op = KN_EXPR_CONSTANT;
  expr->constant = (struct kn_value){.type = KN_VALUE_INT, .number = value};
  return expr;
}

const struct kn_expr *kn_make_binary(struct kn_plan *plan, enum kn_expr_op op,
                                     const struct kn_expr *left, const struct kn_expr *right) {
  struct kn_expr *expr = left && right ? kn_arena_alloc(&plan->arena, 1, sizeof *expr) : NULL;
  if (!expr) return NULL;
  expr->op = op;
  expr->left = left;
  expr->right = right;
  return expr;
}

/* ---- constants ---- */

static char *upper(struct kn_plan *plan, const char *prefix, const char *name) {
  char *text = kn_arena_printf(&plan->arena, "%s%s", prefix, name);
  for (char *c = text; c && *c; ++c) *c = (char)toupper((unsigned char)*c);
  return text;
}

kiln_status kn_add_constant(struct kn_planner *p, enum kn_constant_kind kind, const char *name,
                            const char *value) {
  if (!name || !value) return kn_plan_no_memory(p->plan);
  if (p->num_constants == KN_MAX_CONSTANTS) {
    return kn_fail(KILN_E_SPEC, "%s: more than %d constants", p->plan->spec->name,
                   KN_MAX_CONSTANTS);
  }
  for (size_t i = 0; i < p->num_constants; ++i) {
    if (strcmp(p->constants[i].name, name) != 0) continue;
    return kn_fail(KILN_E_SPEC, "%s: two names of the spec, or one and Kiln's own, become %s",
                   p->plan->spec->name, name);
  }
  p->constants[p->num_constants++] = (struct kn_plan_constant){kind, name, value};
  return KILN_OK;
}

kiln_status kn_add_int(struct kn_planner *p, const char *name, int64_t value) {
  return kn_add_constant(p, KN_CONSTANT_INT, name,
                         kn_arena_printf(&p->plan->arena, "%" PRId64, value));
}

kiln_status kn_add_bool(struct kn_planner *p, const char *name, bool value) {
  return kn_add_constant(p, KN_CONSTANT_BOOL, name, value ? "true" : "false");
}

int64_t kn_tile(struct kn_planner *p, const char *name, int64_t fallback) {
  for (size_t i = 0; i < p->num_tile; ++i) {
    if (strcmp(p->tile[i].name, name) == 0) return p->tile[i].value;
  }
  if (p->num_tile < KN_MAX_TILE) {
    p->tile[p->num_tile++] = (struct kn_tile_value){name, fallback, false};
  }
  return fallback;
}

/* A word becomes the index of its place in one_of; every word has a constant of its own. */
static kiln_status add_word(struct kn_planner *p, const struct kn_param_spec *param,
                            const struct kn_value *value) {
  struct kn_plan *plan = p->plan;
  char *name = upper(plan, "", param->name);
  if (!name) return kn_plan_no_memory(plan);
  for (size_t i = 0; i < param->num_one_of; ++i) {
    const char *word = param->one_of[i]->constant.word;
    char *own = kn_arena_printf(&plan->arena, "%s_%s", name, word);
    for (char *c = own; c && *c; ++c) *c = (char)toupper((unsigned char)*c);
    kiln_status status =
        kn_add_constant(p, KN_CONSTANT_INT, own, kn_arena_printf(&plan->arena, "%zu", i));
    if (status == KILN_OK && strcmp(word, value->word) == 0) {
      status = kn_add_constant(p, KN_CONSTANT_INT, name, own);
    }
    if (status != KILN_OK) return status;
  }
  return KILN_OK;
}

static kiln_status add_params(struct kn_planner *p) {
  struct kn_plan *plan = p->plan;
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < plan->spec->num_params && status == KILN_OK; ++i) {
    const struct kn_param_spec *param = &plan->spec->params[i];
    const struct kn_value *value = &plan->params[i];
    const char *text = kn_param_text(&plan->arena, value);
    switch (value->type) {
      case KN_VALUE_INT:
        status = kn_add_constant(p, KN_CONSTANT_I64, upper(plan, "", param->name), text);
        break;
      case KN_VALUE_BOOL:
        status = kn_add_constant(p, KN_CONSTANT_BOOL, upper(plan, "", param->name), text);
        break;
      case KN_VALUE_DTYPE:
        status = kn_add_constant(p, KN_CONSTANT_TYPE,
                                 kn_arena_printf(&plan->arena, "%s_t", param->name), text);
        break;
      case KN_VALUE_WORD:
        status = add_word(p, param, value);
        break;
    }
  }
  return status;
}

static kiln_status add_tile(struct kn_planner *p) {
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < p->num_tile && status == KILN_OK; ++i) {
    status = kn_add_int(p, upper(p->plan, "tile_", p->tile[i].name), p->tile[i].value);
  }
  return status;
}

static kiln_status add_presence(struct kn_planner *p) {
  struct kn_plan *plan = p->plan;
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < plan->spec->num_tensors && status == KILN_OK; ++i) {
    if (!plan->spec->tensors[i].optional) continue;
    status =
        kn_add_bool(p, upper(plan, "has_", plan->spec->tensors[i].name), plan->tensors[i].present);
  }
  for (size_t i = 0; i < plan->spec->num_scalars && status == KILN_OK; ++i) {
    if (!plan->spec->scalars[i].optional) continue;
    status =
        kn_add_bool(p, upper(plan, "has_", plan->spec->scalars[i].name), plan->scalars[i].present);
  }
  return status;
}

static kiln_status add_tensor_types(struct kn_planner *p) {
  struct kn_plan *plan = p->plan;
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < plan->spec->num_tensors && status == KILN_OK; ++i) {
    const struct kn_plan_tensor *tensor = &plan->tensors[i];
    status = kn_add_constant(p, KN_CONSTANT_TYPE,
                             kn_arena_printf(&plan->arena, "%s_t", tensor->spec->name),
                             kiln_dtype_name(tensor->dtype));
    if (status == KILN_OK && plan->spec->template_name) {
      status = kn_add_int(
          p, kn_arena_printf(&plan->arena, "%s", upper(plan, tensor->spec->name, "_rank")),
          tensor->rank);
    }
  }
  return status;
}

/* ---- tensors, run-time sizes, slots ---- */

static bool bool_param(const struct kn_plan *plan, const char *name) {
  for (size_t i = 0; i < plan->spec->num_params; ++i) {
    if (strcmp(plan->spec->params[i].name, name) == 0) {
      return plan->params[i].type == KN_VALUE_BOOL && plan->params[i].number;
    }
  }
  return false;
}

/* dtype, shape and strides of the scale factors of another tensor follow from the flags. */
static kiln_status plan_sf(struct kn_plan *plan, struct kn_plan_tensor *tensor) {
  const struct kn_tensor_spec *scaled = kn_spec_tensor(plan->spec, tensor->spec->sf_of);
  const char *own = kn_arena_printf(&plan->arena, "%s_use_packed_ue8m0", scaled->name);
  if (!own) return kn_plan_no_memory(plan);
  bool packed = bool_param(plan, kn_spec_param(plan->spec, own) ? own : "use_packed_ue8m0");
  tensor->is_sf = true;
  tensor->sf_layout = packed                                             ? KN_SF_PACKED_UE8M0
                      : bool_param(plan, "use_tma_aligned_col_major_sf") ? KN_SF_COL_MAJOR
                                                                         : KN_SF_ROW_MAJOR;
  tensor->dtype = packed ? KILN_I32 : KILN_F32;
  tensor->rank = 2;
  for (int axis = 0; axis < 2; ++axis) {
    tensor->shape[axis] =
        kn_make_binary(plan, KN_EXPR_CEIL_DIV, scaled->shape[axis], tensor->spec->block[axis]);
  }
  if (packed) {
    tensor->shape[1] =
        kn_make_binary(plan, KN_EXPR_CEIL_DIV, tensor->shape[1], kn_make_int(plan, 4));
  }
  tensor->stride_free[1] = tensor->sf_layout != KN_SF_ROW_MAJOR;
  if (tensor->spec->stride_any[0]) { /* an input in whatever layout: a matrix like others */
    tensor->is_sf = false;
    tensor->stride_free[0] = tensor->stride_free[1] = true;
  }
  return tensor->shape[0] && tensor->shape[1] ? KILN_OK : kn_plan_no_memory(plan);
}

static kiln_status plan_tensor(struct kn_plan *plan, struct kn_plan_tensor *tensor) {
  const struct kn_tensor_spec *spec = tensor->spec;
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  struct kn_value dtype;
  if (spec->sf_of) return plan_sf(plan, tensor);
  kiln_status status = kn_expr_eval(spec->dtype, &env, &dtype);
  if (status != KILN_OK) return status;
  tensor->dtype = (kiln_dtype)dtype.number;
  tensor->rank = spec->rank;
  for (int axis = 0; axis < spec->rank; ++axis) {
    tensor->shape[axis] = spec->shape[axis];
    tensor->stride_free[axis] = spec->stride_any[axis];
  }
  return KILN_OK;
}

struct dim_list {
  struct kn_plan *plan;
  const char **names;
  size_t count;
  bool overflow;
};

static void add_dim(void *user, const char *name, struct kn_mark mark) {
  struct dim_list *list = user;
  (void)mark;
  if (kn_spec_param(list->plan->spec, name) || kn_dtype_parse(name)) return;
  for (size_t i = 0; i < list->count; ++i) {
    if (strcmp(list->names[i], name) == 0) return;
  }
  if (list->count == KN_MAX_DIMS) {
    list->overflow = true;
    return;
  }
  list->names[list->count++] = name;
}

static void find_present(void *user, const char *name, struct kn_mark mark) {
  struct kn_plan *plan = user;
  (void)mark;
  for (size_t i = 0; i < plan->num_dims; ++i) {
    if (strcmp(plan->dims[i], name) == 0) plan->dim_is_absent[i] = false;
  }
}

static kiln_status plan_dims(struct kn_plan *plan) {
  struct dim_list list = {.plan = plan};
  list.names = kn_arena_alloc(&plan->arena, KN_MAX_DIMS, sizeof *list.names);
  if (!list.names) return kn_plan_no_memory(plan);
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    const struct kn_tensor_spec *tensor = &plan->spec->tensors[i];
    for (int axis = 0; axis < tensor->rank && !tensor->sf_of; ++axis) {
      kn_expr_each_name(tensor->shape[axis], add_dim, &list);
    }
  }
  if (list.overflow) {
    return kn_fail(KILN_E_SPEC, "%s: more than %d run-time sizes", plan->spec->name, KN_MAX_DIMS);
  }
  plan->dims = list.names;
  plan->num_dims = list.count;
  return KILN_OK;
}

/* After a chain was planned, which may change a tensor's shape. */
static void find_absent_dims(struct kn_plan *plan) {
  for (size_t i = 0; i < plan->num_dims; ++i) plan->dim_is_absent[i] = true;
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    const struct kn_plan_tensor *tensor = &plan->tensors[i];
    for (int axis = 0; axis < tensor->rank && tensor->present; ++axis) {
      kn_expr_each_name(tensor->shape[axis], find_present, plan);
    }
  }
}

static kiln_status plan_slots(struct kn_plan *plan) {
  struct kn_plan_slot *slots = kn_arena_alloc(&plan->arena, KN_MAX_ARGS, sizeof *slots);
  size_t count = 0, most = plan->num_dims + plan->spec->num_scalars + 1;
  if (!slots) return kn_plan_no_memory(plan);
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) most += 1 + (size_t)plan->tensors[i].rank;
  if (most > KN_MAX_ARGS) {
    return kn_fail(KILN_E_SPEC,
                   "%s: its tensors, strides and scalars may need %zu slots of at "
                   "most %d",
                   plan->spec->name, most, KN_MAX_ARGS);
  }
  for (size_t i = 0; i < plan->num_dims; ++i) {
    slots[count++] = (struct kn_plan_slot){KN_SLOT_DIM, plan->dims[i], "i64", (int)i, 0};
  }
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    const struct kn_plan_tensor *tensor = &plan->tensors[i];
    const char *name = tensor->spec->name;
    const char *type = kn_arena_printf(
        &plan->arena, tensor->spec->role == KILN_IN ? "const %s_t*" : "%s_t*", name);
    slots[count++] = (struct kn_plan_slot){KN_SLOT_TENSOR, name, type, (int)i, 0};
    for (int axis = 0; axis < tensor->rank; ++axis) {
      if (!tensor->stride_free[axis]) continue;
      const char *field = tensor->is_sf ? kn_arena_printf(&plan->arena, "%s_ld", name)
                                        : kn_arena_printf(&plan->arena, "%s_stride%d", name, axis);
      slots[count++] = (struct kn_plan_slot){KN_SLOT_STRIDE, field, "i64", (int)i, axis};
    }
  }
  for (size_t i = 0; i < plan->spec->num_scalars; ++i) {
    const struct kn_scalar_spec *scalar = &plan->spec->scalars[i];
    slots[count++] = (struct kn_plan_slot){KN_SLOT_SCALAR, scalar->name,
                                           kiln_dtype_name(scalar->type), (int)i, 0};
  }
  if (plan->workspace) {
    slots[count++] = (struct kn_plan_slot){KN_SLOT_WORKSPACE, "workspace", "u8*", 0, 0};
  }
  for (size_t i = 0; i < count; ++i) {
    if (!slots[i].field || !slots[i].c_type) return kn_plan_no_memory(plan);
  }
  plan->slots = slots;
  plan->num_slots = count;
  return KILN_OK;
}

/* ---- operators that name a template ---- */

static kiln_status launch_number(const struct kn_planner *p, const struct kn_expr *expr,
                                 int64_t low, int64_t high, const char *what, int *out) {
  struct kn_scope scope = {.plan = p->plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t value = 0;
  kiln_status status = kn_expr_eval_int(expr, &env, &value);
  if (status != KILN_OK) return status;
  if (value < low || value > high) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: a block of it needs %" PRId64 " %s; %s allows %" PRId64 " to %" PRId64,
                   p->plan->spec->name, value, what, p->plan->limits->target, low, high);
  }
  *out = (int)value;
  return KILN_OK;
}

static kiln_status plan_step(struct kn_planner *p, const struct kn_step_spec *spec,
                             struct kn_plan_step *step) {
  struct kn_plan *plan = p->plan;
  struct kn_plan_variant *variants =
      kn_arena_alloc(&plan->arena, spec->num_variants, sizeof *variants);
  if (!variants) return kn_plan_no_memory(plan);
  for (size_t i = 0; i < spec->num_variants; ++i) {
    const struct kn_variant_spec *from = &spec->variants[i];
    variants[i] =
        (struct kn_plan_variant){from->function, from->aligns, from->num_aligns, from->when};
  }
  *step = (struct kn_plan_step){.name = spec->name ? spec->name : plan->spec->name,
                                .grid = spec->grid,
                                .variants = variants,
                                .num_variants = spec->num_variants};
  kiln_status status = launch_number(p, spec->threads, 32, plan->limits->threads_per_block,
                                     "threads", &step->threads);
  if (status == KILN_OK && spec->shared) {
    status = launch_number(p, spec->shared, 0, plan->limits->shared_per_block,
                           "bytes of shared memory", &step->shared_bytes);
  }
  return status;
}

static kiln_status plan_template(struct kn_planner *p) {
  struct kn_plan *plan = p->plan;
  struct kn_plan_step *steps = kn_arena_alloc(&plan->arena, plan->spec->num_steps, sizeof *steps);
  if (!steps) return kn_plan_no_memory(plan);
  if (plan->spec->num_steps > KN_MAX_STEPS) {
    return kn_fail(KILN_E_SPEC, "%s: more than %d steps", plan->spec->name, KN_MAX_STEPS);
  }
  for (size_t i = 0; i < plan->spec->num_steps; ++i) {
    kiln_status status = plan_step(p, &plan->spec->steps[i], &steps[i]);
    if (status != KILN_OK) return status;
  }
  plan->steps = steps;
  plan->num_steps = plan->spec->num_steps;
  plan->chain_text = "";
  plan->template_path = kn_arena_printf(&plan->arena, "templates/%s", plan->spec->template_name);
  return plan->template_path ? KILN_OK : kn_plan_no_memory(plan);
}

/* ---- all together ---- */

static kiln_status plan_canonical(struct kn_planner *p) {
  struct kn_plan *plan = p->plan;
  struct kn_text text = {0};
  kn_text_append(&text, plan->spec->name);
  for (size_t i = 0; i < plan->spec->num_params; ++i) {
    kn_text_printf(&text, " %s=%s", plan->spec->params[i].name,
                   kn_param_text(&plan->arena, &plan->params[i]));
  }
  for (size_t i = 0; i < p->num_tile; ++i) {
    kn_text_printf(&text, " tile.%s=%" PRId64, p->tile[i].name, p->tile[i].value);
  }
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    if (!plan->spec->tensors[i].optional || !plan->tensors[i].present) continue;
    kn_text_printf(&text, " present.%s=true", plan->spec->tensors[i].name);
  }
  for (size_t i = 0; i < plan->spec->num_scalars; ++i) {
    if (!plan->spec->scalars[i].optional || !plan->scalars[i].present) continue;
    kn_text_printf(&text, " present.%s=true", plan->spec->scalars[i].name);
  }
  plan->canonical = text.failed ? NULL : kn_arena_strdup(&plan->arena, text.data);
  kn_text_release(&text);
  return plan->canonical ? KILN_OK : kn_plan_no_memory(plan);
}

static kiln_status keep_constants(struct kn_planner *p) {
  struct kn_plan *plan = p->plan;
  struct kn_plan_constant *constants =
      kn_arena_alloc(&plan->arena, p->num_constants + 1, sizeof *constants);
  if (!constants) return kn_plan_no_memory(plan);
  memcpy(constants, p->constants, p->num_constants * sizeof *constants);
  plan->constants = constants;
  plan->num_constants = p->num_constants;
  return KILN_OK;
}

static kiln_status begin(struct kn_planner *p) {
  struct kn_plan *plan = p->plan;
  const struct kn_spec *spec = plan->spec;
  plan->params = kn_arena_alloc(&plan->arena, spec->num_params + 1, sizeof *plan->params);
  plan->tensors = kn_arena_alloc(&plan->arena, spec->num_tensors + 1, sizeof *plan->tensors);
  plan->scalars = kn_arena_alloc(&plan->arena, spec->num_scalars + 1, sizeof *plan->scalars);
  if (!plan->params || !plan->tensors || !plan->scalars) return kn_plan_no_memory(plan);
  for (size_t i = 0; i < spec->num_tensors; ++i) {
    plan->tensors[i].spec = &spec->tensors[i];
    plan->tensors[i].present = !spec->tensors[i].optional;
  }
  for (size_t i = 0; i < spec->num_scalars; ++i) {
    plan->scalars[i].spec = &spec->scalars[i];
    plan->scalars[i].present = !spec->scalars[i].optional;
  }
  for (size_t i = 0; i < spec->num_tile && p->num_tile < KN_MAX_TILE; ++i) {
    p->tile[p->num_tile++] = (struct kn_tile_value){spec->tile[i].name, spec->tile[i].value, true};
  }
  plan->workspace = spec->workspace;
  plan->bytes = spec->bytes;
  return KILN_OK;
}

/* Contract 0 for operators that are no chain: sf_clamp_min is at least fmt_max * 2^-126, of the
   format with the largest range that they write. A chain's quantize has said so itself. */
static void bound_sf_clamp_min(struct kn_plan *plan) {
  static const struct {
    kiln_dtype dtype;
    double max;
  } formats[] = {{KILN_E4M3, 448}, {KILN_E5M2, 57344}, {KILN_E5M6, 65024}, {KILN_E2M1, 6}};
  int index = kn_scalar_index(plan, "sf_clamp_min");
  if (index < 0 || !plan->scalars[index].present || plan->scalars[index].has_min) return;
  for (size_t i = 0; i < plan->spec->num_tensors; ++i) {
    const struct kn_plan_tensor *tensor = &plan->tensors[i];
    for (size_t f = 0; f < sizeof formats / sizeof *formats; ++f) {
      double least = formats[f].max * 0x1p-126;
      if (tensor->spec->role == KILN_IN || tensor->dtype != formats[f].dtype) continue;
      plan->scalars[index].has_min = true;
      if (plan->scalars[index].min < least) plan->scalars[index].min = least;
    }
  }
}

static kiln_status make(struct kn_planner *p, const kiln_param *params, size_t num_params) {
  struct kn_plan *plan = p->plan;
  kiln_status status = begin(p);
  if (status == KILN_OK) status = kn_plan_params(p, params, num_params);
  if (status == KILN_OK) status = kn_plan_check_requires(plan);
  for (size_t i = 0; i < plan->spec->num_tensors && status == KILN_OK; ++i) {
    status = plan_tensor(plan, &plan->tensors[i]);
  }
  if (status == KILN_OK) status = plan_dims(plan);
  if (status == KILN_OK) {
    status = kn_add_int(p, "TARGET", plan->limits->compute);
  }
  if (status == KILN_OK) status = add_params(p);
  if (status == KILN_OK && plan->spec->chain) {
    status = kn_plan_chain(p); /* may swap the axes of a stored tensor */
    if (status == KILN_OK) status = kn_plan_skeleton(p);
  } else if (status == KILN_OK) {
    status = plan_template(p);
    bound_sf_clamp_min(plan);
  }
  if (status == KILN_OK) find_absent_dims(plan);
  if (status == KILN_OK) status = add_tile(p);
  if (status == KILN_OK) status = add_presence(p);
  if (status == KILN_OK) status = add_tensor_types(p);
  if (status == KILN_OK) status = plan_slots(plan);
  if (status == KILN_OK) status = keep_constants(p);
  if (status == KILN_OK) status = plan_canonical(p);
  return status;
}

kiln_status kn_plan_make(const struct kn_spec *spec, const struct kn_limits *limits,
                         const kiln_param *params, size_t num_params, struct kn_plan **out) {
  struct kn_plan *plan = calloc(1, sizeof *plan);
  struct kn_planner *p = calloc(1, sizeof *p);
  kiln_status status;
  if (!plan || !p) {
    status = kn_fail(KILN_E_MEMORY, "%s: out of memory while planning", spec->name);
  } else {
    plan->spec = spec;
    plan->limits = limits;
    p->plan = plan;
    status = make(p, params, num_params);
  }
  free(p);
  if (status != KILN_OK) {
    kn_plan_free(plan);
    return status;
  }
  *out = plan;
  return KILN_OK;
}

void kn_plan_free(struct kn_plan *plan) {
  if (!plan) return;
  kn_arena_release(&plan->arena);
  free(plan);
}
