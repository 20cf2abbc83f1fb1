/* SPDX-License-Identifier: MIT */
/* Stages that work on values one by one. */
#include <inttypes.h>
#include <string.h>

#include "plan/stage.h"

/* The call, and the stage's line of the chain's text. */
static kiln_status add(struct kn_composer *c, const struct kn_stage_spec *stage, const char *types,
                       const char *arguments, const char *text) {
  c->p->chain.is_bf16 = false;
  if (!types || !arguments || !text) return kn_plan_no_memory(c->p->plan);
  kiln_status status = kn_stage_call(c, c->lines, stage->name, types, arguments);
  return status == KILN_OK ? kn_stage_line(c, &c->p->text, text) : status;
}

kiln_status kn_add_activation(struct kn_composer *c, const struct kn_stage_spec *stage) {
  return add(c, stage, "", "", stage->name);
}

/* What a gate clamps may be counted: three numbers, added to. */
static kiln_status count_text(struct kn_composer *c, const struct kn_stage_spec *stage,
                              bool is_clamped, const char **out, const char **out_name) {
  int index = -1;
  kiln_status status = kn_stage_counters(c, stage, "count", KILN_I64, 3, &index);
  *out = "none{}";
  *out_name = NULL;
  if (status != KILN_OK || index < 0) return status;
  *out_name = c->p->plan->spec->tensors[index].name;
  if (!is_clamped) return kn_stage_fail(c, stage, "%s needs a clamp", *out_name);
  c->p->chain.counts = true;
  *out = kn_arena_printf(&c->p->plan->arena, "a.%s", *out_name);
  return *out ? KILN_OK : kn_plan_no_memory(c->p->plan);
}

/* `math: exact` or `fast`, as a word or the param that has it. */
static kiln_status is_fast(const struct kn_composer *c, const struct kn_stage_spec *stage,
                           bool *out) {
  const struct kn_stage_arg *arg = kn_find_stage_arg(stage, "math");
  struct kn_value value;
  *out = false;
  if (!arg) return KILN_OK;
  kiln_status status = kn_stage_value(c, arg, 0, KN_VALUE_WORD, &value);
  if (status != KILN_OK) return status;
  *out = strcmp(value.word, "fast") == 0;
  if (*out || strcmp(value.word, "exact") == 0) return KILN_OK;
  return kn_stage_fail(c, stage, "math is %s; allowed are exact and fast", value.word);
}

kiln_status kn_add_gate(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  const char *clamp = NULL, *count = NULL, *count_name = NULL;
  const bool has_math = strcmp(stage->name, "swiglu") == 0;
  bool present = false, fast = false;
  const char *name = kn_stage_arg_name(stage, "clamp");
  if (c->parts == 2) return kn_stage_fail(c, stage, "only one gate can stand in a chain");
  if (c->p->chain.has_row_stage) return kn_stage_fail(c, stage, "it must stand before rmsnorm");
  if (c->columns % 2) {
    return kn_stage_fail(c, stage,
                         "the loaded row has %" PRId64 " columns; gate and up need an even number",
                         c->columns);
  }
  kiln_status status = kn_stage_scalar_text(c, stage, name, &clamp, &present);
  if (status == KILN_OK) status = count_text(c, stage, present, &count, &count_name);
  if (status == KILN_OK) status = is_fast(c, stage, &fast);
  if (status != KILN_OK) return status;
  c->columns /= 2;
  c->parts = 2;
  return add(c, stage,
             !has_math ? ""
             : fast    ? "<true>"
                       : "<false>",
             kn_arena_printf(&plan->arena, ", %s, %s", clamp, count),
             kn_arena_printf(&plan->arena, "%s%s%s%s%s%s", stage->name, present ? " clamp=" : "",
                             present ? name : "", count_name ? " count=" : "",
                             count_name ? count_name : "", fast ? " math=fast" : ""));
}

kiln_status kn_add_round(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  const struct kn_stage_arg *arg = kn_find_stage_arg(stage, "");
  struct kn_value value;
  if (!arg) return kn_stage_fail(c, stage, "it needs a dtype, as in `round: bf16`");
  kiln_status status = kn_stage_value(c, arg, 0, KN_VALUE_DTYPE, &value);
  if (status != KILN_OK) return status;
  kiln_dtype dtype = (kiln_dtype)value.number;
  if (dtype != KILN_BF16 && dtype != KILN_F16 && dtype != KILN_E4M3 && dtype != KILN_E5M2) {
    return kn_stage_fail(c, stage, "it rounds to bf16, f16, e4m3 or e5m2, not to %s",
                         kiln_dtype_name(dtype));
  }
  status = add(c, stage, kn_arena_printf(&plan->arena, "<%s>", kiln_dtype_name(dtype)), "",
               kn_arena_printf(&plan->arena, "round to=%s", kiln_dtype_name(dtype)));
  c->p->chain.is_bf16 = dtype == KILN_BF16;
  return status;
}

kiln_status kn_add_clamp(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  const char *low = NULL, *high = NULL;
  const char *min = kn_stage_arg_name(stage, "min"), *max = kn_stage_arg_name(stage, "max");
  bool has_min = false, has_max = false;
  if (!min && !max) return kn_stage_fail(c, stage, "it needs a scalar: min, max or both");
  kiln_status status = kn_stage_scalar_text(c, stage, min, &low, &has_min);
  if (status == KILN_OK) status = kn_stage_scalar_text(c, stage, max, &high, &has_max);
  if (status != KILN_OK || (!has_min && !has_max)) return status;
  c->p->chain.keeps_zero = false;
  return add(c, stage, "", kn_arena_printf(&plan->arena, ", %s, %s", low, high),
             kn_arena_printf(&plan->arena, "clamp%s%s%s%s", has_min ? " min=" : "",
                             has_min ? min : "", has_max ? " max=" : "", has_max ? max : ""));
}

kiln_status kn_add_bias(struct kn_composer *c, const struct kn_stage_spec *stage) {
  static const kiln_dtype dtypes[] = {KILN_F32, KILN_F16, KILN_BF16};
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t extent = 0;
  int index = -1;
  kiln_status status = kn_stage_input(c, stage, "bias", 1, dtypes, 3, &index);
  if (status != KILN_OK || kn_stage_is_absent(c, stage, "bias")) return status;
  if (index < 0) return kn_stage_fail(c, stage, "it needs a tensor: bias");
  const struct kn_plan_tensor *bias = &plan->tensors[index];
  if (kn_expr_eval_int(bias->shape[0], &env, &extent) != KILN_OK || extent != c->columns) {
    return kn_stage_fail(c, stage, "%s must have the chain's %" PRId64 " columns", bias->spec->name,
                         c->columns);
  }
  if (chain->num_columns == KN_MAX_COLUMN_TENSORS) {
    return kn_stage_fail(c, stage, "more than %d tensors of a chain are read by column",
                         KN_MAX_COLUMN_TENSORS);
  }
  chain->columns[chain->num_columns++] = index;
  chain->keeps_zero = false;
  return add(c, stage, "", kn_arena_printf(&plan->arena, ", a.%s", bias->spec->name),
             kn_arena_printf(&plan->arena, "add_bias bias=%s", bias->spec->name));
}

/* The row's index is read first of all, its weight as soon as the row is on its way. */
kiln_status kn_add_weight(struct kn_composer *c, const struct kn_stage_spec *stage) {
  static const kiln_dtype weight_dtype = KILN_F32, index_dtype = KILN_I32;
  struct kn_plan *plan = c->p->plan;
  const char *slots = NULL, *tokens = NULL, *error = NULL;
  int weights = -1, index = -1;
  kiln_status status = kn_stage_input(c, stage, "weights", 2, &weight_dtype, 1, &weights);
  if (status == KILN_OK) status = kn_stage_input(c, stage, "index", 1, &index_dtype, 1, &index);
  if (status != KILN_OK) return status;
  if (kn_stage_is_absent(c, stage, "weights") && kn_stage_is_absent(c, stage, "index"))
    return KILN_OK;
  if (weights < 0 || index < 0) {
    return kn_stage_fail(c, stage, "it needs two tensors, weights and index: both or none");
  }
  const struct kn_plan_tensor *w = &plan->tensors[weights], *i = &plan->tensors[index];
  if (!kn_stage_is_rows(c, i->shape[0])) {
    return kn_stage_fail(c, stage, "%s must have as many elements as the chain has rows",
                         i->spec->name);
  }
  status = kn_stage_extent(c, stage, w, 0, &tokens);
  if (status == KILN_OK) status = kn_stage_extent(c, stage, w, 1, &slots);
  if (status != KILN_OK) return status;
  int id = c->next;
  bool in_row = c->lines == &c->p->row;
  status = kn_stage_line(
      c, in_row ? c->lines : &c->p->early,
      kn_arena_printf(&plan->arena, "i32 i%d = c.row_value(a.%s, -1);", id, i->spec->name));
  if (status == KILN_OK) {
    status = kn_stage_error(c, stage, in_row ? c->lines : &c->p->early,
                            kn_arena_printf(&plan->arena, "i%d", id),
                            kn_arena_printf(&plan->arena, "%s * %s", tokens, slots), &error);
  }
  if (status == KILN_OK) {
    status = kn_stage_line(
        c, in_row ? c->lines : &c->p->after_load,
        kn_arena_printf(&plan->arena, "auto w%d = stage::find_weight(a.%s, %s * %s, i%d);", id,
                        w->spec->name, tokens, slots, id));
  }
  if (status != KILN_OK) return status;
  return add(c, stage, "", kn_arena_printf(&plan->arena, ", w%d", id),
             kn_arena_printf(&plan->arena, "scale_by_weight weights=%s index=%s%s", w->spec->name,
                             i->spec->name, error));
}
