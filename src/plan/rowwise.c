/* SPDX-License-Identifier: MIT */
/* Stages that work on whole rows, or move a second matrix besides the one that is loaded. */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "plan/stage.h"

enum { MAX_ROW = 1 << 20 }; /* columns of a row that is summed up */

/* A matrix with the chain's rows and columns as they are at this stage; strides may be free. */
static kiln_status matrix(const struct kn_composer *c, const struct kn_stage_spec *stage,
                          const char *key, int *out_index) {
  const struct kn_plan *plan = c->p->plan;
  const char *name = kn_stage_arg_name(stage, key);
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t columns = 0;
  *out_index = kn_tensor_index(plan, name);
  if (*out_index < 0) {
    return kn_stage_fail(c, stage, "'%s' is no tensor of the spec", name ? name : "");
  }
  const struct kn_plan_tensor *tensor = &plan->tensors[*out_index];
  if (!tensor->present) {
    *out_index = -1;
    return KILN_OK;
  }
  if (tensor->rank != 2 || !kn_stage_is_rows(c, tensor->shape[0]) ||
      kn_expr_eval_int(tensor->shape[1], &env, &columns) != KILN_OK || columns != c->columns ||
      tensor->stride_free[1]) {
    return kn_stage_fail(c, stage,
                         "%s must be a matrix of the chain's rows and %" PRId64
                         " columns, which have stride 1",
                         name, c->columns);
  }
  if (tensor->dtype != KILN_F32 && tensor->dtype != KILN_F16 && tensor->dtype != KILN_BF16) {
    return kn_stage_fail(c, stage, "%s is %s; allowed: f32, f16, bf16", name,
                         kiln_dtype_name(tensor->dtype));
  }
  return KILN_OK;
}

/* Accesses of the full-width function need a tensor aligned too. */
static kiln_status align(struct kn_composer *c, const struct kn_stage_spec *stage, int index) {
  struct kn_chain *chain = &c->p->chain;
  if (chain->num_columns == KN_MAX_COLUMN_TENSORS) {
    return kn_stage_fail(c, stage, "more than %d tensors of a chain are read besides its rows",
                         KN_MAX_COLUMN_TENSORS);
  }
  chain->columns[chain->num_columns++] = index;
  return KILN_OK;
}

static const char *stride_of(const struct kn_composer *c, const struct kn_plan_tensor *tensor) {
  struct kn_plan *plan = c->p->plan;
  return tensor->stride_free[0] ? kn_arena_printf(&plan->arena, "a.%s_stride0", tensor->spec->name)
                                : kn_arena_printf(&plan->arena, "i64(%" PRId64 ")", c->columns);
}

kiln_status kn_add_residual(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  int in = -1, out = -1;
  if (!kn_find_stage_arg(stage, "in")) return kn_stage_fail(c, stage, "it needs a tensor: in");
  kiln_status status = matrix(c, stage, "in", &in);
  if (status == KILN_OK && kn_find_stage_arg(stage, "out")) status = matrix(c, stage, "out", &out);
  if (status != KILN_OK || (in < 0 && out < 0)) return status;
  if (in < 0 || plan->tensors[in].spec->role == KILN_OUT) {
    return kn_stage_fail(c, stage, "in must name an input tensor that is present");
  }
  const struct kn_plan_tensor *from = &plan->tensors[in],
                              *to = out < 0 ? NULL : &plan->tensors[out];
  if (to && (to->spec->role == KILN_IN || to->dtype != from->dtype)) {
    return kn_stage_fail(c, stage, "out must name an output tensor of the dtype of in, %s",
                         kiln_dtype_name(from->dtype));
  }
  status = align(c, stage, in);
  if (status == KILN_OK && out >= 0 && out != in) status = align(c, stage, out);
  if (status != KILN_OK) return status;
  const char *stored =
      to ? kn_arena_printf(&plan->arena, "a.%s, %s", to->spec->name, stride_of(c, to))
         : "none{}, i64(0)";
  status = kn_stage_call(c, c->lines, stage->name, "",
                         kn_arena_printf(&plan->arena, ", a.%s, %s, %s", from->spec->name,
                                         stride_of(c, from), stored));
  c->p->chain.is_bf16 = from->dtype == KILN_BF16;
  c->p->chain.has_matrices = true;
  if (status != KILN_OK) return status;
  return kn_stage_line(c, &c->p->text,
                       kn_arena_printf(&plan->arena, "residual_add in=%s%s%s", from->spec->name,
                                       to ? " out=" : "", to ? to->spec->name : ""));
}

kiln_status kn_add_rmsnorm(struct kn_composer *c, const struct kn_stage_spec *stage) {
  static const kiln_dtype dtypes[] = {KILN_F32, KILN_F16, KILN_BF16};
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  const char *eps_name = kn_stage_arg_name(stage, "eps"), *eps = NULL, *weight = "none{}";
  bool has_eps = false;
  int64_t extent = 0;
  int index = -1;
  if (chain->has_row_stage) return kn_stage_fail(c, stage, "only one can stand in a chain");
  if (c->columns > MAX_ROW) {
    return kn_stage_fail(c, stage, "a row has %" PRId64 " columns; allowed are up to %d",
                         c->columns, MAX_ROW);
  }
  kiln_status status = kn_stage_input(c, stage, "weight", 1, dtypes, 3, &index);
  if (status == KILN_OK) status = kn_stage_scalar_text(c, stage, eps_name, &eps, &has_eps);
  if (status != KILN_OK) return status;
  if (!has_eps) return kn_stage_fail(c, stage, "it needs a scalar: eps");
  if (index >= 0) {
    const struct kn_plan_tensor *w = &plan->tensors[index];
    if (kn_expr_eval_int(w->shape[0], &env, &extent) != KILN_OK || extent != c->columns) {
      return kn_stage_fail(c, stage, "%s must have the chain's %" PRId64 " columns", w->spec->name,
                           c->columns);
    }
    weight = kn_arena_printf(&plan->arena, "a.%s", w->spec->name);
    status = align(c, stage, index);
    if (status != KILN_OK) return status;
  }
  chain->has_row_stage = true;
  chain->is_bf16 = false;
  c->row_first = c->next - 1; /* what chain_load returns and chain_row begins with */
  c->lines = &c->p->row;
  if (!weight) return kn_plan_no_memory(plan);
  status = kn_stage_call(c, c->lines, stage->name, "",
                         kn_arena_printf(&plan->arena, ", %s, %s", weight, eps));
  if (status != KILN_OK) return status;
  return kn_stage_line(
      c, &c->p->text,
      kn_arena_printf(&plan->arena, "rmsnorm%s%s eps=%s", index < 0 ? "" : " weight=",
                      index < 0 ? "" : plan->spec->tensors[index].name, eps_name));
}
