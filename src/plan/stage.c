/* SPDX-License-Identifier: MIT */
/* What the stages of a chain share: their arguments, and the lines that they add. */
#include "plan/stage.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"

kiln_status kn_stage_fail(const struct kn_composer *c, const struct kn_stage_spec *stage,
                          const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  char *sentence = NULL;
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length >= 0) sentence = malloc((size_t)length + 1);
  if (sentence) (void)vsnprintf(sentence, (size_t)length + 1, format, again);
  va_end(again);
  kiln_status status = kn_fail_at(KILN_E_UNSUPPORTED, stage->mark.file, stage->mark.line,
                                  stage->mark.column, "%s: stage %s: %s", c->p->plan->spec->name,
                                  stage->name, sentence ? sentence : "?");
  free(sentence);
  return status;
}

const struct kn_stage_arg *kn_find_stage_arg(const struct kn_stage_spec *stage, const char *key) {
  for (size_t i = 0; i < stage->num_args; ++i) {
    if (strcmp(stage->args[i].key, key) == 0) return &stage->args[i];
  }
  return NULL;
}

const char *kn_stage_arg_name(const struct kn_stage_spec *stage, const char *key) {
  const struct kn_stage_arg *arg = kn_find_stage_arg(stage, key);
  return arg && arg->values[0]->op == KN_EXPR_NAME ? arg->values[0]->name : NULL;
}

kiln_status kn_stage_value(const struct kn_composer *c, const struct kn_stage_arg *arg,
                           size_t index, enum kn_value_type type, struct kn_value *out) {
  static const char *const types[] = {"", "an integer", "a bool", "a dtype", "a word"};
  struct kn_scope scope = {.plan = c->p->plan};
  struct kn_env env = kn_scope_env(&scope);
  kiln_status status = kn_expr_eval(arg->values[index], &env, out);
  if (status == KILN_OK && out->type != type) {
    status = kn_fail_at(KILN_E_UNSUPPORTED, arg->mark.file, arg->mark.line, arg->mark.column,
                        "%s: %s must be %s", c->p->plan->spec->name, arg->key, types[type]);
  }
  return status;
}

int kn_tensor_index(const struct kn_plan *plan, const char *name) {
  for (size_t i = 0; name && i < plan->spec->num_tensors; ++i) {
    if (strcmp(plan->spec->tensors[i].name, name) == 0) return (int)i;
  }
  return -1;
}

int kn_scalar_index(const struct kn_plan *plan, const char *name) {
  for (size_t i = 0; name && i < plan->spec->num_scalars; ++i) {
    if (strcmp(plan->spec->scalars[i].name, name) == 0) return (int)i;
  }
  return -1;
}

kiln_status kn_stage_scalar_text(const struct kn_composer *c, const struct kn_stage_spec *stage,
                                 const char *name, const char **out, bool *out_present) {
  struct kn_plan *plan = c->p->plan;
  int index = kn_scalar_index(plan, name);
  if (name && index < 0) return kn_stage_fail(c, stage, "'%s' is no scalar of the spec", name);
  *out_present = index >= 0 && plan->scalars[index].present;
  *out = *out_present ? kn_arena_printf(&plan->arena, "a.%s", name) : "none{}";
  return *out ? KILN_OK : kn_plan_no_memory(plan);
}

kiln_status kn_stage_input(const struct kn_composer *c, const struct kn_stage_spec *stage,
                           const char *key, int rank, const kiln_dtype *dtypes, size_t num_dtypes,
                           int *out_index) {
  const struct kn_plan *plan = c->p->plan;
  const struct kn_stage_arg *arg = kn_find_stage_arg(stage, key);
  const char *name = kn_stage_arg_name(stage, key);
  const int index = kn_tensor_index(plan, name);
  struct kn_text list = {0};
  *out_index = -1;
  if (!arg) return KILN_OK;
  if (index < 0 || plan->tensors[index].spec->role == KILN_OUT) {
    return kn_stage_fail(c, stage, "'%s' is no input tensor of the spec", name ? name : "");
  }
  const struct kn_plan_tensor *tensor = &plan->tensors[index];
  if (!tensor->present) return KILN_OK;
  if (tensor->rank != rank) {
    return kn_stage_fail(c, stage, "%s has rank %d; allowed is %d", name, tensor->rank, rank);
  }
  for (int axis = 0; axis < rank; ++axis) {
    if (!tensor->stride_free[axis]) continue;
    return kn_stage_fail(c, stage, "%s must be contiguous: it takes no strides", name);
  }
  for (size_t i = 0; i < num_dtypes; ++i) {
    if (tensor->dtype == dtypes[i]) {
      *out_index = index;
      return KILN_OK;
    }
  }
  for (size_t i = 0; i < num_dtypes; ++i) {
    kn_text_printf(&list, "%s%s", i ? ", " : "", kiln_dtype_name(dtypes[i]));
  }
  const kiln_status status = kn_stage_fail(c, stage, "%s is %s; allowed: %s", name,
                                           kiln_dtype_name(tensor->dtype), list.data);
  kn_text_release(&list);
  return status;
}

kiln_status kn_stage_counters(const struct kn_composer *c, const struct kn_stage_spec *stage,
                              const char *key, kiln_dtype dtype, int64_t extent, int *out_index) {
  const struct kn_plan *plan = c->p->plan;
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t have = 0;
  kiln_status status = kn_stage_input(c, stage, key, 1, &dtype, 1, out_index);
  if (status != KILN_OK || *out_index < 0) return status;
  const struct kn_plan_tensor *tensor = &plan->tensors[*out_index];
  if (tensor->spec->role == KILN_INOUT &&
      kn_expr_eval_int(tensor->shape[0], &env, &have) == KILN_OK && have == extent) {
    return KILN_OK;
  }
  if (extent == 1) {
    return kn_stage_fail(c, stage, "%s must be an inout tensor of one element", tensor->spec->name);
  }
  return kn_stage_fail(c, stage, "%s must be an inout tensor of %" PRId64 " elements",
                       tensor->spec->name, extent);
}

kiln_status kn_stage_error(const struct kn_composer *c, const struct kn_stage_spec *stage,
                           struct kn_lines *lines, const char *index, const char *range,
                           const char **out) {
  struct kn_plan *plan = c->p->plan;
  int error = -1;
  kiln_status status = kn_stage_counters(c, stage, "error", KILN_I32, 1, &error);
  *out = "";
  if (status != KILN_OK || error < 0) return status;
  const char *name = plan->spec->tensors[error].name;
  *out = kn_arena_printf(&plan->arena, " error=%s", name);
  if (!*out || !index || !range) return kn_plan_no_memory(plan);
  return kn_stage_line(
      c, lines, kn_arena_printf(&plan->arena, "check_index(c, %s, %s, a.%s);", index, range, name));
}

bool kn_stage_is_absent(const struct kn_composer *c, const struct kn_stage_spec *stage,
                        const char *key) {
  const int index = kn_tensor_index(c->p->plan, kn_stage_arg_name(stage, key));
  return index >= 0 && !c->p->plan->tensors[index].present;
}

kiln_status kn_stage_block(const struct kn_composer *c, const struct kn_stage_spec *stage,
                           const char *key, int64_t out[2]) {
  const struct kn_stage_arg *arg = kn_find_stage_arg(stage, key);
  if (!arg || arg->num_values != 2) {
    return kn_stage_fail(c, stage, "it needs the block that shares a scale: %s: [rows, columns]",
                         key);
  }
  for (int axis = 0; axis < 2; ++axis) {
    struct kn_value value;
    kiln_status status = kn_stage_value(c, arg, (size_t)axis, KN_VALUE_INT, &value);
    if (status != KILN_OK) return status;
    if (value.number < 1 || value.number > 1 << 30) {
      return kn_stage_fail(c, stage, "%s has %" PRId64 "; allowed are numbers from 1 to %d", key,
                           value.number, 1 << 30);
    }
    out[axis] = value.number;
  }
  return KILN_OK;
}

/* Run-time sizes at which the rows of a grid must be those of its matrix's blocks: around the edges
   of usual blocks, each size another number. */
static bool has_rows(const struct kn_composer *c, const struct kn_expr *is,
                     const struct kn_expr *rows, int64_t each) {
  static const int64_t samples[] = {0, 1, 31, 32, 33, 127, 128, 129, 4096, 1000003};
  const struct kn_plan *plan = c->p->plan;
  int64_t dims[KN_MAX_DIMS];
  for (size_t k = 0; k < sizeof samples / sizeof *samples; ++k) {
    struct kn_scope scope = {.plan = plan, .dims = dims};
    struct kn_env env = kn_scope_env(&scope);
    int64_t have = 0, want = 0;
    for (size_t i = 0; i < plan->num_dims; ++i) dims[i] = samples[k] + 389 * (int64_t)i;
    if (kn_expr_eval_int(is, &env, &have) != KILN_OK ||
        kn_expr_eval_int(rows, &env, &want) != KILN_OK || have != (want + each - 1) / each) {
      return false;
    }
  }
  return true;
}

kiln_status kn_stage_check_grid(const struct kn_composer *c, const struct kn_stage_spec *stage,
                                const struct kn_plan_tensor *sf, const struct kn_expr *rows,
                                int64_t cols, const int64_t block[2]) {
  struct kn_scope scope = {.plan = c->p->plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t want = (cols + block[1] - 1) / block[1], have = 0;
  if (sf->dtype == KILN_I32) want = (want + 3) / 4;
  if (sf->rank == 2 && kn_expr_eval_int(sf->shape[1], &env, &have) == KILN_OK && have == want &&
      has_rows(c, sf->shape[0], rows, block[0])) {
    return KILN_OK;
  }
  return kn_stage_fail(c, stage,
                       "%s must have one scale factor for each block of (%" PRId64 ", %" PRId64
                       "): %" PRId64 " columns%s, and as many rows as there are such blocks",
                       sf->spec->name, block[0], block[1], want,
                       sf->dtype == KILN_I32 ? " of four" : "");
}

kiln_status kn_stage_given_sf(const struct kn_composer *c, const struct kn_stage_spec *stage,
                              const struct kn_expr *rows, int64_t cols, const int64_t block[2],
                              const char **out) {
  struct kn_plan *plan = c->p->plan;
  const char *name = kn_stage_arg_name(stage, "sf");
  const int index = kn_tensor_index(plan, name);
  if (index < 0 || plan->tensors[index].spec->role != KILN_IN || !plan->tensors[index].present) {
    return kn_stage_fail(c, stage, "sf must name an input tensor of the spec");
  }
  const struct kn_plan_tensor *sf = &plan->tensors[index];
  if (sf->dtype != KILN_F32 && sf->dtype != KILN_I32) {
    return kn_stage_fail(c, stage, "%s is %s; allowed are f32, and i32 of packed exponents", name,
                         kiln_dtype_name(sf->dtype));
  }
  kiln_status status = kn_stage_check_grid(c, stage, sf, rows, cols, block);
  if (status != KILN_OK) return status;
  const bool is_col_major = sf->is_sf && sf->sf_layout != KN_SF_ROW_MAJOR;
  int64_t columns = (cols + block[1] - 1) / block[1];
  if (sf->dtype == KILN_I32) columns = (columns + 3) / 4;
  const char *row_stride =
      !sf->is_sf && sf->stride_free[0] ? kn_arena_printf(&plan->arena, "a.%s_stride0", name)
      : is_col_major                   ? "i64(1)"
                                       : kn_arena_printf(&plan->arena, "i64(%" PRId64 ")", columns);
  const char *column_stride = is_col_major ? kn_arena_printf(&plan->arena, "a.%s_ld", name)
                              : sf->stride_free[1]
                                  ? kn_arena_printf(&plan->arena, "a.%s_stride1", name)
                                  : "i64(1)";
  if (!row_stride || !column_stride) return kn_plan_no_memory(plan);
  *out = kn_arena_printf(&plan->arena, "a.%s, %s, %s", name, row_stride, column_stride);
  return *out ? KILN_OK : kn_plan_no_memory(plan);
}

bool kn_stage_is_rows(const struct kn_composer *c, const struct kn_expr *extent) {
  return kn_expr_same(extent, c->p->chain.rows);
}

kiln_status kn_stage_extent(const struct kn_composer *c, const struct kn_stage_spec *stage,
                            const struct kn_plan_tensor *tensor, int axis, const char **out) {
  struct kn_plan *plan = c->p->plan;
  const struct kn_expr *extent = tensor->shape[axis];
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t value = 0;
  if (extent->op == KN_EXPR_NAME && !kn_spec_param(plan->spec, extent->name)) {
    *out = kn_arena_printf(&plan->arena, "a.%s", extent->name);
  } else if (kn_expr_eval_int(extent, &env, &value) == KILN_OK) {
    *out = kn_arena_printf(&plan->arena, "i64(%" PRId64 ")", value);
  } else {
    return kn_stage_fail(c, stage, "axis %d of %s must be a run-time size by name, or fixed", axis,
                         tensor->spec->name);
  }
  return *out ? KILN_OK : kn_plan_no_memory(plan);
}

/* ---- lines ---- */

kiln_status kn_stage_line(const struct kn_composer *c, struct kn_lines *lines, const char *line) {
  if (!line) return kn_plan_no_memory(c->p->plan);
  if (lines->count == KN_MAX_LINES) {
    return kn_fail(KILN_E_SPEC, "%s: more than %d stages", c->p->plan->spec->name, KN_MAX_LINES);
  }
  lines->lines[lines->count++] = line;
  return KILN_OK;
}

kiln_status kn_stage_call(struct kn_composer *c, struct kn_lines *lines, const char *name,
                          const char *types, const char *arguments) {
  int previous = c->next - 1;
  const char *line = kn_arena_printf(&c->p->plan->arena, "auto v%d = stage::%s%s(c, v%d%s);",
                                     c->next, name, types, previous, arguments);
  ++c->next;
  return kn_stage_line(c, lines, line);
}
