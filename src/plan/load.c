/* SPDX-License-Identifier: MIT */
/* The first stage: which rows a chain reads, from where, and which it skips. */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "plan/stage.h"

static bool is_size(const struct kn_composer *c, const struct kn_expr *extent) {
  return extent->op == KN_EXPR_NAME && !kn_spec_param(c->p->plan->spec, extent->name);
}

/* The rows of a matrix: a run-time size by name. */
static kiln_status take_rows(struct kn_composer *c, const struct kn_stage_spec *stage,
                             const struct kn_plan_tensor *tensor) {
  struct kn_chain *chain = &c->p->chain;
  if (!is_size(c, tensor->shape[0])) {
    return kn_stage_fail(c, stage, "axis 0 of %s must be a run-time size by name",
                         tensor->spec->name);
  }
  chain->rows = tensor->shape[0];
  chain->rows_text = chain->rows->name;
  chain->rows_cuda = kn_arena_printf(&c->p->plan->arena, "a.%s", chain->rows->name);
  return chain->rows_cuda ? KILN_OK : kn_plan_no_memory(c->p->plan);
}

/* The rows of a batch of matrices, one after the other. */
static kiln_status take_batched_rows(struct kn_composer *c, const struct kn_stage_spec *stage,
                                     const struct kn_plan_tensor *tensor) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const char *batch = NULL, *each = NULL;
  kiln_status status = kn_stage_extent(c, stage, tensor, 0, &batch);
  if (status == KILN_OK) status = kn_stage_extent(c, stage, tensor, 1, &each);
  if (status != KILN_OK) return status;
  if (!is_size(c, tensor->shape[1])) {
    return kn_stage_fail(c, stage, "axis 1 of %s must be a run-time size by name",
                         tensor->spec->name);
  }
  chain->rows = kn_make_binary(plan, KN_EXPR_MUL, tensor->shape[0], tensor->shape[1]);
  chain->rows_text =
      kn_arena_printf(&plan->arena, "(%s) * %s", tensor->shape[0]->text, tensor->shape[1]->name);
  chain->rows_cuda = kn_arena_printf(&plan->arena, "%s * %s", batch, each);
  return chain->rows && chain->rows_text && chain->rows_cuda ? KILN_OK : kn_plan_no_memory(plan);
}

/* The stride of an axis as CUDA. */
static const char *stride_text(const struct kn_composer *c, const struct kn_plan_tensor *tensor,
                               int axis, int64_t contiguous) {
  struct kn_plan *plan = c->p->plan;
  return tensor->stride_free[axis]
             ? kn_arena_printf(&plan->arena, "a.%s_stride%d", tensor->spec->name, axis)
             : kn_arena_printf(&plan->arena, "i64(%" PRId64 ")", contiguous);
}

/* Where the rows of `x` come from as CUDA: a stride, or a map with `offset(row)`. */
static kiln_status rows_of(struct kn_composer *c, const struct kn_stage_spec *stage,
                           struct kn_plan_tensor *x, const char **out) {
  static const kiln_dtype i32 = KILN_I32;
  struct kn_plan *plan = c->p->plan;
  const char *stride = stride_text(c, x, x->rank - 2, c->columns);
  const int place = kn_tensor_index(plan, kn_stage_arg_name(stage, "gather"));
  int gather = -1;
  kiln_status status = kn_stage_input(c, stage, "gather", 1, &i32, 1, &gather);
  if (status == KILN_OK && !stride) status = kn_plan_no_memory(plan);
  if (status != KILN_OK) return status;
  if (x->rank == 3) {
    if (place >= 0) return kn_stage_fail(c, stage, "a batch of matrices cannot be gathered");
    if (!x->stride_free[0]) {
      return kn_stage_fail(c, stage, "axis 0 of %s must have a free stride", x->spec->name);
    }
    status = take_batched_rows(c, stage, x);
    *out = kn_arena_printf(&plan->arena, "batched_rows{a.%s, a.%s_stride0, %s}", x->shape[1]->name,
                           x->spec->name, stride);
  } else if (gather >= 0) {
    const char *tokens = NULL;
    status = kn_stage_extent(c, stage, x, 0, &tokens);
    if (status == KILN_OK) status = take_rows(c, stage, &plan->tensors[gather]);
    *out = kn_arena_printf(&plan->arena, "gathered_rows{a.%s, %s, %s}",
                           plan->spec->tensors[gather].name, tokens, stride);
    c->source = kn_arena_printf(&plan->arena, "gathered_rows{a.%s, %s, 1}",
                                plan->spec->tensors[gather].name, tokens);
  } else {
    /* Without its map the matrix itself has the rows that the map would give. */
    if (place >= 0) x->shape[0] = plan->tensors[place].shape[0];
    status = take_rows(c, stage, x);
    *out = stride;
    c->source = "own_rows{}";
  }
  return status != KILN_OK || *out ? status : kn_plan_no_memory(plan);
}

/* An optional tensor that tells which rows are skipped, NULL where there is none. */
static kiln_status skip_tensor(struct kn_composer *c, const struct kn_stage_spec *stage,
                               const char *key, const struct kn_plan_tensor **out) {
  static const kiln_dtype i32 = KILN_I32;
  int index = -1;
  kiln_status status = kn_stage_input(c, stage, key, 1, &i32, 1, &index);
  *out = index < 0 ? NULL : &c->p->plan->tensors[index];
  return status;
}

/* Rows are skipped where `condition` holds. */
static kiln_status add_skip(struct kn_composer *c, bool zeroes, const char *condition) {
  if (!condition) return kn_plan_no_memory(c->p->plan);
  c->p->chain.skips = true;
  return kn_stage_line(c, &c->p->early,
                       kn_arena_printf(&c->p->plan->arena, "c.template skip<%s>(%s);",
                                       zeroes ? "true" : "false", condition));
}

static kiln_status check_skips(const struct kn_composer *c, const struct kn_stage_spec *stage,
                               const struct kn_plan_tensor *x, const struct kn_plan_tensor *skip,
                               const struct kn_plan_tensor *masked,
                               const struct kn_plan_tensor *valid) {
  struct kn_scope scope = {.plan = c->p->plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t extent = 0;
  if (skip && !kn_stage_is_rows(c, skip->shape[0])) {
    return kn_stage_fail(c, stage, "%s must have as many elements as the chain has rows",
                         skip->spec->name);
  }
  if (masked && x->rank != 3) {
    return kn_stage_fail(c, stage, "%s counts rows of a batch: %s must have rank 3",
                         masked->spec->name, x->spec->name);
  }
  if (masked && !kn_expr_same(masked->shape[0], x->shape[0])) {
    return kn_stage_fail(c, stage, "%s must have as many elements as axis 0 of %s",
                         masked->spec->name, x->spec->name);
  }
  if (valid && (kn_expr_eval_int(valid->shape[0], &env, &extent) != KILN_OK || extent != 1)) {
    return kn_stage_fail(c, stage, "%s must have 1 element", valid->spec->name);
  }
  return KILN_OK;
}

/* Rows that are not computed: those whose index is negative, those of a matrix beyond its count,
   those beyond the number of rows that a launch before this one left in memory. */
static kiln_status add_skips(struct kn_composer *c, const struct kn_stage_spec *stage,
                             const struct kn_plan_tensor *x, const char **out_text) {
  struct kn_arena *arena = &c->p->plan->arena;
  struct kn_chain *chain = &c->p->chain;
  const struct kn_stage_arg *zero = kn_find_stage_arg(stage, "zero_skipped");
  const struct kn_plan_tensor *skip = NULL, *masked = NULL, *valid = NULL;
  struct kn_value zeroes = {.number = 1};
  kiln_status status = skip_tensor(c, stage, "skip", &skip);
  if (status == KILN_OK) status = skip_tensor(c, stage, "masked", &masked);
  if (status == KILN_OK) status = skip_tensor(c, stage, "valid", &valid);
  if (status == KILN_OK && zero) status = kn_stage_value(c, zero, 0, KN_VALUE_BOOL, &zeroes);
  if (status == KILN_OK) status = check_skips(c, stage, x, skip, masked, valid);
  const bool zeroed = zeroes.number != 0;
  if (skip && status == KILN_OK) {
    status =
        add_skip(c, zeroed, kn_arena_printf(arena, "c.row_value(a.%s, 0) < 0", skip->spec->name));
  }
  if (masked && status == KILN_OK) {
    status = add_skip(c, zeroed,
                      kn_arena_printf(arena, "is_beyond(c.row, a.%s, a.%s, chain_num_rows(a))",
                                      x->shape[1]->name, masked->spec->name));
  }
  if (valid && status == KILN_OK) {
    status = add_skip(
        c, zeroed,
        kn_arena_printf(arena, "is_beyond(c.row, a.%s, chain_num_rows(a))", valid->spec->name));
  }
  if (status != KILN_OK) return status;
  chain->keeps_skipped = chain->skips && !zeroed;
  *out_text =
      kn_arena_printf(arena, "%s%s%s%s%s%s%s", skip ? " skip=" : "", skip ? skip->spec->name : "",
                      masked ? " masked=" : "", masked ? masked->spec->name : "",
                      valid ? " valid=" : "", valid ? valid->spec->name : "",
                      !chain->skips          ? ""
                      : chain->keeps_skipped ? " zero_skipped=0"
                                             : " zero_skipped=1");
  return *out_text ? KILN_OK : kn_plan_no_memory(c->p->plan);
}

static kiln_status check_loaded(struct kn_composer *c, const struct kn_stage_spec *stage,
                                const struct kn_plan_tensor *x) {
  struct kn_scope scope = {.plan = c->p->plan};
  struct kn_env env = kn_scope_env(&scope);
  const char *name = x->spec->name;
  if (x->rank != 2 && x->rank != 3) {
    return kn_stage_fail(c, stage, "%s has rank %d; allowed are 2 and 3", name, x->rank);
  }
  c->is_raw = x->dtype == KILN_E4M3 || x->dtype == KILN_E5M2 || x->dtype == KILN_E2M1 ||
              x->dtype == KILN_E5M6;
  if (x->dtype != KILN_F32 && x->dtype != KILN_F16 && x->dtype != KILN_BF16 && !c->is_raw) {
    return kn_stage_fail(c, stage,
                         "%s is %s; allowed are f32, f16, bf16, and as codes e4m3, e5m2, e2m1 and "
                         "e5m6",
                         name, kiln_dtype_name(x->dtype));
  }
  if (c->is_raw && x->rank == 3) {
    return kn_stage_fail(c, stage, "a batch of matrices must be of f32, f16 or bf16, not %s",
                         kiln_dtype_name(x->dtype));
  }
  if (kn_expr_eval_int(x->shape[x->rank - 1], &env, &c->columns) != KILN_OK || c->columns < 1 ||
      c->columns > 1 << 29) {
    return kn_stage_fail(c, stage, "the columns of %s must be fixed by params, 1 to %d", name,
                         1 << 29);
  }
  if (c->columns % kn_dtype_pack(x->dtype)) {
    return kn_stage_fail(c, stage, "a row of %" PRId64 " %s codes does not fill whole groups of %d",
                         c->columns, kiln_dtype_name(x->dtype), kn_dtype_pack(x->dtype));
  }
  return KILN_OK;
}

/* What is out of range in the map of rows, but for rows that are skipped, may be noted. */
static kiln_status check_map(struct kn_composer *c, const struct kn_stage_spec *stage,
                             const struct kn_plan_tensor *x, const char **out_text) {
  const char *gather = kn_stage_arg_name(stage, "gather"), *range = NULL;
  if (!gather) return kn_stage_fail(c, stage, "error needs a map of rows: gather");
  if (kn_stage_is_absent(c, stage, "gather")) return KILN_OK;
  kiln_status status = kn_stage_extent(c, stage, x, 0, &range);
  if (status != KILN_OK) return status;
  return kn_stage_error(c, stage, &c->p->early,
                        kn_arena_printf(&c->p->plan->arena, "c.row_value(a.%s, -1)", gather), range,
                        out_text);
}

kiln_status kn_add_load(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const char *name = kn_stage_arg_name(stage, kn_find_stage_arg(stage, "data") ? "data" : "");
  const char *gather = kn_stage_arg_name(stage, "gather"), *rows = NULL, *skips = NULL, *error = "";
  int index = kn_tensor_index(plan, name);
  if (index < 0 || plan->tensors[index].spec->role == KILN_OUT) {
    return kn_stage_fail(c, stage, "'%s' is no input tensor of the spec", name ? name : "");
  }
  struct kn_plan_tensor *x = &plan->tensors[index];
  kiln_status status = check_loaded(c, stage, x);
  if (status == KILN_OK) status = rows_of(c, stage, x, &rows);
  if (status == KILN_OK) status = add_skips(c, stage, x, &skips);
  if (status == KILN_OK && kn_find_stage_arg(stage, "error")) {
    status = check_map(c, stage, x, &error);
  }
  if (status != KILN_OK) return status;
  chain->load = index;
  chain->is_bf16 = x->dtype == KILN_BF16;
  chain->keeps_zero = true;
  c->next = 1;
  c->lines = &c->p->load;
  status = kn_stage_line(
      c, &c->p->load,
      kn_arena_printf(&plan->arena, "auto v0 = stage::load<PARTS>(c, a.%s, %s);", name, rows));
  if (status != KILN_OK) return status;
  const bool is_gathered = gather && plan->tensors[kn_tensor_index(plan, gather)].present;
  return kn_stage_line(
      c, &c->p->text,
      kn_arena_printf(&plan->arena, "load %s%s%s%s%s", name, is_gathered ? " gather=" : "",
                      is_gathered ? gather : "", skips, error));
}

/* The scale factors lie by rows of the matrix that was loaded, which a map may gather. */
kiln_status kn_loaded_sf(struct kn_composer *c, const struct kn_stage_spec *stage,
                         const int64_t block[2], const char **out) {
  struct kn_plan *plan = c->p->plan;
  const struct kn_plan_tensor *x = &plan->tensors[c->p->chain.load];
  const char *sf = NULL;
  const int index = kn_tensor_index(plan, kn_stage_arg_name(stage, "sf"));
  if (index >= 0 && plan->tensors[index].spec->sf_of) {
    /* Without its map the matrix has the rows that the map would give: load says so. */
    plan->tensors[index].shape[0] =
        kn_make_binary(plan, KN_EXPR_CEIL_DIV, x->shape[0], kn_make_int(plan, block[0]));
    if (!plan->tensors[index].shape[0]) return kn_plan_no_memory(plan);
  }
  kiln_status status = kn_stage_given_sf(c, stage, x->shape[0], c->columns, block, &sf);
  if (status != KILN_OK) return status;
  *out = kn_arena_printf(&plan->arena, "%s, %s", sf, c->source);
  return *out ? KILN_OK : kn_plan_no_memory(plan);
}

kiln_status kn_add_dequantize(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  const char *sf = NULL;
  int64_t block[2] = {0, 0};
  kiln_status status = kn_stage_block(c, stage, "block", block);
  if (status == KILN_OK) status = kn_loaded_sf(c, stage, block, &sf);
  if (status != KILN_OK) return status;
  status =
      kn_stage_call(c, c->lines, stage->name,
                    kn_arena_printf(&plan->arena, "<%" PRId64 ", %" PRId64 ">", block[0], block[1]),
                    kn_arena_printf(&plan->arena, ", %s", sf));
  if (status != KILN_OK) return status;
  return kn_stage_line(
      c, &c->p->text,
      kn_arena_printf(&plan->arena, "dequantize sf=%s rows=%" PRId64 " cols=%" PRId64,
                      kn_stage_arg_name(stage, "sf"), block[0], block[1]));
}
