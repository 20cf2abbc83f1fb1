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

/* Rows that are not computed: those whose index is negative, those of a matrix beyond its count. */
static kiln_status add_skips(struct kn_composer *c, const struct kn_stage_spec *stage,
                             const struct kn_plan_tensor *x, const char **out_text) {
  static const kiln_dtype i32 = KILN_I32;
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const struct kn_stage_arg *zero = kn_find_stage_arg(stage, "zero_skipped");
  struct kn_value zeroes = {.number = 1};
  int skip = -1, masked = -1;
  kiln_status status = kn_stage_input(c, stage, "skip", 1, &i32, 1, &skip);
  if (status == KILN_OK) status = kn_stage_input(c, stage, "masked", 1, &i32, 1, &masked);
  if (status == KILN_OK && zero) status = kn_stage_value(c, zero, 0, KN_VALUE_BOOL, &zeroes);
  if (status != KILN_OK) return status;
  const char *skip_name = skip < 0 ? NULL : plan->spec->tensors[skip].name;
  const char *masked_name = masked < 0 ? NULL : plan->spec->tensors[masked].name;
  const char *flag = zeroes.number ? "true" : "false";
  if (skip >= 0) {
    if (!kn_stage_is_rows(c, plan->tensors[skip].shape[0])) {
      return kn_stage_fail(c, stage, "%s must have as many elements as the chain has rows",
                           skip_name);
    }
    status = kn_stage_line(
        c, &c->p->early,
        kn_arena_printf(&plan->arena, "c.template skip<%s>(c.row_value(a.%s, 0) < 0);", flag,
                        skip_name));
  }
  if (masked >= 0 && status == KILN_OK) {
    if (x->rank != 3) {
      return kn_stage_fail(c, stage, "%s counts rows of a batch: %s must have rank 3", masked_name,
                           x->spec->name);
    }
    if (!kn_expr_same(plan->tensors[masked].shape[0], x->shape[0])) {
      return kn_stage_fail(c, stage, "%s must have as many elements as axis 0 of %s", masked_name,
                           x->spec->name);
    }
    status = kn_stage_line(
        c, &c->p->early,
        kn_arena_printf(&plan->arena,
                        "c.template skip<%s>(is_beyond(c.row, a.%s, a.%s, chain_num_rows(a)));",
                        flag, x->shape[1]->name, masked_name));
  }
  chain->skips = skip >= 0 || masked >= 0;
  chain->keeps_skipped = chain->skips && !zeroes.number;
  *out_text = kn_arena_printf(&plan->arena, "%s%s%s%s%s", skip_name ? " skip=" : "",
                              skip_name ? skip_name : "", masked_name ? " masked=" : "",
                              masked_name ? masked_name : "",
                              !chain->skips          ? ""
                              : chain->keeps_skipped ? " zero_skipped=0"
                                                     : " zero_skipped=1");
  return status != KILN_OK || *out_text ? status : kn_plan_no_memory(plan);
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

kiln_status kn_add_load(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const char *name = kn_stage_arg_name(stage, kn_find_stage_arg(stage, "data") ? "data" : "");
  const char *gather = kn_stage_arg_name(stage, "gather"), *rows = NULL, *skips = NULL;
  int index = kn_tensor_index(plan, name);
  if (index < 0 || plan->tensors[index].spec->role == KILN_OUT) {
    return kn_stage_fail(c, stage, "'%s' is no input tensor of the spec", name ? name : "");
  }
  struct kn_plan_tensor *x = &plan->tensors[index];
  kiln_status status = check_loaded(c, stage, x);
  if (status == KILN_OK) status = rows_of(c, stage, x, &rows);
  if (status == KILN_OK) status = add_skips(c, stage, x, &skips);
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
      kn_arena_printf(&plan->arena, "load %s%s%s%s", name, is_gathered ? " gather=" : "",
                      is_gathered ? gather : "", skips));
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
