/* SPDX-License-Identifier: MIT */
/* store: where codes and scale factors go, or values. */
#include <inttypes.h>
#include <string.h>

#include "plan/stage.h"

/* The stored matrix must have the shape that the chain gives. Where a conditional transpose was
   left out, the spec's shape is that of the transposed result, so its axes change places. */
static kiln_status check_data(struct kn_composer *c, const struct kn_stage_spec *stage,
                              bool had_transpose) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  struct kn_plan_tensor *data = &plan->tensors[chain->data];
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t columns = 0;
  if (data->dtype != chain->format) {
    return kn_stage_fail(c, stage, "%s is %s, the codes are %s", data->spec->name,
                         kiln_dtype_name(data->dtype), kiln_dtype_name(chain->format));
  }
  if (data->rank != 2) return kn_stage_fail(c, stage, "%s must have rank 2", data->spec->name);
  if (had_transpose && !chain->transposed) {
    const struct kn_expr *first = data->shape[0];
    data->shape[0] = data->shape[1];
    data->shape[1] = first;
  }
  if (!kn_stage_is_rows(c, data->shape[chain->transposed ? 1 : 0])) {
    return kn_stage_fail(c, stage, "axis %d of %s must be the chain's rows, %s",
                         chain->transposed ? 1 : 0, data->spec->name, chain->rows_text);
  }
  int axis = chain->transposed ? 0 : 1;
  if (kn_expr_eval_int(data->shape[axis], &env, &columns) != KILN_OK || columns != chain->cols) {
    return kn_stage_fail(c, stage, "axis %d of %s must have the chain's %" PRId64 " columns", axis,
                         data->spec->name, chain->cols);
  }
  if (data->stride_free[1]) {
    return kn_stage_fail(c, stage, "the last axis of %s must have stride 1", data->spec->name);
  }
  return KILN_OK;
}

static kiln_status check_sf(struct kn_composer *c, const struct kn_stage_spec *stage) {
  const struct kn_chain *chain = &c->p->chain;
  const struct kn_plan_tensor *sf = &c->p->plan->tensors[chain->sf];
  const int64_t block[2] = {chain->sf_rows, chain->sf_cols};
  kiln_dtype want = chain->sf_dtype;
  if (sf->dtype != want || (sf->is_sf ? sf->sf_layout : KN_SF_ROW_MAJOR) != chain->layout ||
      (!sf->is_sf && (sf->stride_free[0] || sf->stride_free[1]))) {
    return kn_stage_fail(c, stage,
                         "%s does not have the dtype and layout of the scale factors (%s, %s)",
                         sf->spec->name, kiln_dtype_name(want),
                         chain->layout == KN_SF_ROW_MAJOR ? "row-major" : "column-major");
  }
  return kn_stage_check_grid(c, stage, sf, chain->rows, chain->cols, block);
}

static bool has_stage(const struct kn_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->num_stages; ++i) {
    if (strcmp(spec->chain[i].name, name) == 0) return true;
  }
  return false;
}

/* The row stride of a stored tensor as CUDA. */
static const char *stride_text(const struct kn_composer *c, const struct kn_plan_tensor *tensor) {
  struct kn_plan *plan = c->p->plan;
  if (tensor->stride_free[0]) {
    return kn_arena_printf(&plan->arena, "a.%s_stride0", tensor->spec->name);
  }
  if (!c->p->chain.transposed) {
    return kn_arena_printf(&plan->arena, "i64(%" PRId64 ")", c->p->chain.cols);
  }
  return "chain_num_rows(a)";
}

/* An output that an argument names; -1 without the argument. */
static kiln_status output(const struct kn_composer *c, const struct kn_stage_spec *stage,
                          const char *key, int *out) {
  const struct kn_plan *plan = c->p->plan;
  *out = -1;
  if (!kn_find_stage_arg(stage, key)) return KILN_OK;
  *out = kn_tensor_index(plan, kn_stage_arg_name(stage, key));
  if (*out >= 0 && plan->tensors[*out].spec->role != KILN_IN && plan->tensors[*out].present) {
    return KILN_OK;
  }
  return kn_stage_fail(c, stage, "%s must name an output tensor of the spec", key);
}

/* What can be stored of what the chain holds. */
static kiln_status check_outputs(struct kn_composer *c, const struct kn_stage_spec *stage) {
  const struct kn_chain *chain = &c->p->chain;
  const bool holds_values = c->state == KN_CHAIN_VALUES;
  if (chain->data < 0 && chain->sf < 0) {
    return kn_stage_fail(c, stage, "it needs an output: data, sf or both");
  }
  if (chain->sf >= 0 && !chain->computes_sf) {
    return kn_stage_fail(c, stage, "the chain computes no scale factors to store");
  }
  if (chain->data < 0 && chain->transposed) {
    return kn_stage_fail(c, stage, "it needs an output for the transposed codes: data");
  }
  if (holds_values && chain->format != KILN_F32 && chain->format != KILN_F16 &&
      chain->format != KILN_BF16) {
    return kn_stage_fail(c, stage, "%s is %s; values are stored as f32, f16 or bf16",
                         kn_stage_arg_name(stage, "data"), kiln_dtype_name(chain->format));
  }
  return KILN_OK;
}

kiln_status kn_add_store(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const bool holds_values = c->state == KN_CHAIN_VALUES;
  const char *data = kn_stage_arg_name(stage, "data"), *sf = kn_stage_arg_name(stage, "sf");
  kiln_status status = output(c, stage, "data", &chain->data);
  if (status == KILN_OK) status = output(c, stage, "sf", &chain->sf);
  if (status != KILN_OK) return status;
  if (holds_values) {
    c->loaded = c->next - 1;
    if (chain->data >= 0) chain->format = plan->tensors[chain->data].dtype;
  }
  chain->cols = c->columns;
  chain->parts = c->parts;
  status = check_outputs(c, stage);
  if (status == KILN_OK && chain->data >= 0) {
    status = check_data(c, stage, has_stage(plan->spec, "transpose"));
  }
  if (status == KILN_OK && chain->sf >= 0) status = check_sf(c, stage);
  if (status != KILN_OK) return status;
  const char *to_data = chain->data < 0
                            ? "none{}, i64(0)"
                            : kn_arena_printf(&plan->arena, "a.%s, %s", data,
                                              stride_text(c, &plan->tensors[chain->data]));
  const char *to_sf = chain->sf < 0 ? "none{}, i64(0)"
                      : chain->layout == KN_SF_ROW_MAJOR
                          ? kn_arena_printf(&plan->arena, "a.%s, i64(0)", sf)
                          : kn_arena_printf(&plan->arena, "a.%s, a.%s_ld", sf, sf);
  if (!to_data || !to_sf) return kn_plan_no_memory(plan);
  const char *what = holds_values ? "v" : kn_arena_printf(&plan->arena, "v%d", c->next - 1);
  status = kn_stage_line(
      c, &c->p->store,
      kn_arena_printf(&plan->arena, "stage::store(c, %s, %s, %s);", what, to_data, to_sf));
  if (status != KILN_OK) return status;
  return kn_stage_line(c, &c->p->text,
                       kn_arena_printf(&plan->arena, "store%s%s%s%s",
                                       chain->data < 0 ? "" : " data=", chain->data < 0 ? "" : data,
                                       chain->sf < 0 ? "" : " sf=", chain->sf < 0 ? "" : sf));
}
