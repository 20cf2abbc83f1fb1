/* SPDX-License-Identifier: MIT */
/* quantize: the format, the block and the layout of its scale factors; and the turning of codes. */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "plan/stage.h"

/* A flag of quantize: its own argument, else the bool param of that name, else false. */
static kiln_status flag(const struct kn_composer *c, const struct kn_stage_spec *stage,
                        const char *name, bool *out) {
  const struct kn_plan *plan = c->p->plan;
  const struct kn_stage_arg *arg = kn_find_stage_arg(stage, name);
  struct kn_value value;
  *out = false;
  if (arg) {
    kiln_status status = kn_stage_value(c, arg, 0, KN_VALUE_BOOL, &value);
    if (status == KILN_OK) *out = value.number != 0;
    return status;
  }
  for (size_t i = 0; i < plan->spec->num_params; ++i) {
    if (strcmp(plan->spec->params[i].name, name) == 0) *out = plan->params[i].number != 0;
  }
  return KILN_OK;
}

/* The scalar that bounds amax from below, and what may be given for it: contract 0. */
static kiln_status clamp_min(struct kn_composer *c, const struct kn_stage_spec *stage,
                             const char **out_text, const char **out_name) {
  static const double two_to_minus_126 = 0x1p-126;
  struct kn_plan *plan = c->p->plan;
  const char *name = kn_stage_arg_name(stage, "clamp_min");
  bool present = false;
  if (!name && kn_scalar_index(plan, "sf_clamp_min") >= 0) name = "sf_clamp_min";
  kiln_status status = kn_stage_scalar_text(c, stage, name, out_text, &present);
  if (status != KILN_OK) return status;
  *out_name = present ? name : NULL;
  if (present) {
    kiln_dtype format = c->p->chain.format;
    double most = format == KILN_E4M3   ? 448
                  : format == KILN_E5M2 ? 57344
                  : format == KILN_E5M6 ? 65024
                                        : 6;
    struct kn_plan_scalar *scalar = &plan->scalars[kn_scalar_index(plan, name)];
    scalar->has_min = true;
    scalar->min = most * two_to_minus_126;
  }
  return KILN_OK;
}

/* What a preset stands for: contract 1. */
static const struct preset {
  const char *name;
  kiln_dtype format;
  int64_t cols;
  bool has_global; /* scale factors are e4m3 in units of a number; else powers of two, packed */
} presets[] = {{"mxfp8", KILN_E4M3, 32, false},
               {"mxfp4", KILN_E2M1, 32, false},
               {"nvfp4", KILN_E2M1, 16, true}};
enum { NUM_PRESETS = sizeof presets / sizeof *presets };

/* The preset that a stage names, NULL where it names none. */
static kiln_status find_preset(const struct kn_composer *c, const struct kn_stage_spec *stage,
                               const struct preset **out) {
  static const char *const fixed[] = {
      "to", "sf_block", "round_sf", "use_tma_aligned_col_major_sf", "use_packed_ue8m0", "sf"};
  const char *name = kn_stage_arg_name(stage, "preset");
  *out = NULL;
  if (!kn_find_stage_arg(stage, "preset")) return KILN_OK;
  for (int i = 0; name && i < NUM_PRESETS; ++i) {
    if (strcmp(name, presets[i].name) == 0) *out = &presets[i];
  }
  if (!*out) {
    return kn_stage_fail(c, stage, "preset is %s; allowed are mxfp8, mxfp4 and nvfp4",
                         name ? name : "no word");
  }
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; ++i) {
    if (!kn_find_stage_arg(stage, fixed[i])) continue;
    return kn_stage_fail(c, stage, "%s says already what '%s' is", name, fixed[i]);
  }
  if ((*out)->has_global && kn_find_stage_arg(stage, "clamp_min")) {
    return kn_stage_fail(c, stage, "%s bounds no scale factor from below: it has no clamp_min",
                         name);
  }
  return KILN_OK;
}

static kiln_status preset_facts(struct kn_composer *c, const struct kn_stage_spec *stage,
                                const struct preset *preset, bool *round_sf) {
  struct kn_chain *chain = &c->p->chain;
  chain->format = preset->format;
  chain->sf_rows = 1;
  chain->sf_cols = preset->cols;
  chain->layout = preset->has_global ? KN_SF_ROW_MAJOR : KN_SF_PACKED_UE8M0;
  chain->sf_dtype = preset->has_global ? KILN_E4M3 : KILN_I32;
  chain->has_global = preset->has_global;
  *round_sf = !preset->has_global;
  if (c->columns % preset->cols == 0) return KILN_OK;
  return kn_stage_fail(c, stage,
                       "a row of %" PRId64 " values does not fill whole blocks of %" PRId64,
                       c->columns, preset->cols);
}

static kiln_status quantize_facts(struct kn_composer *c, const struct kn_stage_spec *stage,
                                  bool *round_sf) {
  struct kn_chain *chain = &c->p->chain;
  const struct kn_stage_arg *to = kn_find_stage_arg(stage, "to");
  struct kn_value format;
  int64_t block[2] = {0, 0};
  bool col_major = false, packed = false;
  if (!to) return kn_stage_fail(c, stage, "it needs a format: to");
  kiln_status status = kn_stage_value(c, to, 0, KN_VALUE_DTYPE, &format);
  if (status == KILN_OK) status = kn_stage_block(c, stage, "sf_block", block);
  if (status == KILN_OK && !*round_sf) status = flag(c, stage, "round_sf", round_sf);
  if (status == KILN_OK) {
    status = flag(c, stage, "use_tma_aligned_col_major_sf", &col_major);
  }
  if (status == KILN_OK) status = flag(c, stage, "use_packed_ue8m0", &packed);
  if (status != KILN_OK) return status;
  chain->format = (kiln_dtype)format.number;
  chain->sf_rows = block[0];
  chain->sf_cols = block[1];
  chain->layout = packed ? KN_SF_PACKED_UE8M0 : col_major ? KN_SF_COL_MAJOR : KN_SF_ROW_MAJOR;
  chain->sf_dtype = packed ? KILN_I32 : KILN_F32;
  if (chain->format != KILN_E4M3 && chain->format != KILN_E5M2 && chain->format != KILN_E2M1 &&
      chain->format != KILN_E5M6) {
    return kn_stage_fail(c, stage, "to is %s; allowed are e4m3, e5m2, e2m1 and e5m6",
                         kiln_dtype_name(chain->format));
  }
  if (packed && !(col_major && *round_sf)) {
    return kn_stage_fail(
        c, stage,
        "use_packed_ue8m0 needs round_sf and use_tma_aligned_col_major_sf: packed scale "
        "factors are powers of two, and column-major as output");
  }
  int pack = kn_dtype_pack(chain->format);
  if (c->columns % pack) {
    return kn_stage_fail(c, stage,
                         "a row of %" PRId64 " %s values does not fill whole groups of %d",
                         c->columns, kiln_dtype_name(chain->format), pack);
  }
  return KILN_OK;
}

/* What is quantised and no finite number may be counted; *out gets the argument's text. */
static kiln_status count_nonfinite(struct kn_composer *c, const struct kn_stage_spec *stage,
                                   const char **out) {
  struct kn_plan *plan = c->p->plan;
  int index = -1;
  kiln_status status = kn_stage_counters(c, stage, "nonfinite", KILN_I64, 1, &index);
  *out = "";
  if (status != KILN_OK || index < 0) return status;
  const char *name = plan->spec->tensors[index].name;
  c->p->chain.counts_nonfinite = true;
  *out = kn_arena_printf(&plan->arena, " nonfinite=%s", name);
  if (!*out) return kn_plan_no_memory(plan);
  return kn_stage_line(c, &c->p->store,
                       kn_arena_printf(&plan->arena, "stage::count_nonfinite(c, v, a.%s);", name));
}

/* Codes by scale factors that are given: no value waits for another. */
static kiln_status quantize_by(struct kn_composer *c, const struct kn_stage_spec *stage,
                               const char *nonfinite) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const int64_t block[2] = {chain->sf_rows, chain->sf_cols};
  const char *format = kiln_dtype_name(chain->format), *sf = NULL;
  if (kn_find_stage_arg(stage, "clamp_min")) {
    return kn_stage_fail(c, stage, "clamp_min bounds scale factors that are computed, not given");
  }
  kiln_status status = kn_stage_given_sf(c, stage, chain->rows, c->columns, block, &sf);
  if (status != KILN_OK) return status;
  status = kn_stage_line(
      c, &c->p->store,
      kn_arena_printf(&plan->arena,
                      "auto v%d = stage::quantize_by<%s, %" PRId64 ", %" PRId64 ">(c, v, %s);",
                      c->next++, format, block[0], block[1], sf));
  if (status != KILN_OK) return status;
  return kn_stage_line(
      c, &c->p->text,
      kn_arena_printf(&plan->arena,
                      "quantize to=%s rows=%" PRId64 " cols=%" PRId64
                      " round_sf=0 layout=row_major sf=%s%s",
                      format, block[0], block[1], kn_stage_arg_name(stage, "sf"), nonfinite));
}

static kiln_status quantize_nvfp4(struct kn_composer *c, const struct kn_stage_spec *stage,
                                  const char *nonfinite) {
  static const kiln_dtype f32 = KILN_F32;
  struct kn_plan *plan = c->p->plan;
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t extent = 0;
  int global = -1;
  kiln_status status = kn_stage_input(c, stage, "global", 1, &f32, 1, &global);
  if (status != KILN_OK) return status;
  if (global < 0 || kn_expr_eval_int(plan->tensors[global].shape[0], &env, &extent) != KILN_OK ||
      extent != 1) {
    return kn_stage_fail(c, stage, "nvfp4 needs the unit of its scale factors: global, one f32");
  }
  const char *name = plan->tensors[global].spec->name;
  status = kn_stage_line(
      c, &c->p->store,
      kn_arena_printf(&plan->arena,
                      "auto v%d = stage::quantize_nvfp4<e2m1, BF16_VALUES>(c, v, a.%s);", c->next++,
                      name));
  if (status != KILN_OK) return status;
  return kn_stage_line(
      c, &c->p->text,
      kn_arena_printf(&plan->arena,
                      "quantize to=e2m1 rows=1 cols=16 round_sf=0 layout=row_major global=%s%s",
                      name, nonfinite));
}

kiln_status kn_add_quantize(struct kn_composer *c, const struct kn_stage_spec *stage) {
  static const char *const layouts[] = {"row_major", "col_major", "packed_ue8m0"};
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const char *clamp = NULL, *clamp_name = NULL, *nonfinite = NULL;
  bool round_sf = false;
  const struct preset *preset = NULL;
  kiln_status status = find_preset(c, stage, &preset);
  if (status == KILN_OK) {
    status =
        preset ? preset_facts(c, stage, preset, &round_sf) : quantize_facts(c, stage, &round_sf);
  }
  if (status == KILN_OK) status = count_nonfinite(c, stage, &nonfinite);
  if (status != KILN_OK) return status;
  c->loaded = c->next - 1;
  if (kn_find_stage_arg(stage, "sf")) return quantize_by(c, stage, nonfinite);
  chain->computes_sf = true;
  if (chain->has_global) return quantize_nvfp4(c, stage, nonfinite);
  if (kn_find_stage_arg(stage, "global")) {
    return kn_stage_fail(c, stage, "global is the unit of nvfp4's scale factors, of no others");
  }
  status = clamp_min(c, stage, &clamp, &clamp_name);
  if (status != KILN_OK) return status;
  const char *format = kiln_dtype_name(chain->format);
  status = kn_stage_line(
      c, &c->p->store,
      kn_arena_printf(&plan->arena,
                      "auto v%d = stage::quantize<%s, SF_ROWS, SF_COLS, SF_LAYOUT, %s>(c, v, %s);",
                      c->next, format, round_sf ? "true" : "false", clamp));
  ++c->next;
  if (status != KILN_OK) return status;
  const char *text = kn_arena_printf(
      &plan->arena, "quantize to=%s rows=%" PRId64 " cols=%" PRId64 " round_sf=%d layout=%s%s%s%s",
      format, chain->sf_rows, chain->sf_cols, round_sf, layouts[chain->layout],
      clamp_name ? " clamp_min=" : "", clamp_name ? clamp_name : "", nonfinite);
  return kn_stage_line(c, &c->p->text, text);
}

/* The error word, `nullptr` where the stage has none or it is absent. */
static kiln_status error_text(struct kn_composer *c, const struct kn_stage_spec *stage,
                              const char **out, const char **out_name) {
  const struct kn_plan *plan = c->p->plan;
  int index = -1;
  kiln_status status = kn_stage_counters(c, stage, "error", KILN_I32, 1, &index);
  *out = "nullptr";
  *out_name = NULL;
  if (status != KILN_OK || index < 0) return status;
  *out_name = plan->spec->tensors[index].name;
  *out = kn_arena_printf(&c->p->plan->arena, "a.%s", *out_name);
  return *out ? KILN_OK : kn_plan_no_memory(plan);
}

/* What makes the move exact: e2m1 shrinks into e4m3, and blocks are not cut. */
static kiln_status check_requantize(const struct kn_composer *c, const struct kn_stage_spec *stage,
                                    const int64_t block[2]) {
  const struct kn_chain *chain = &c->p->chain;
  const kiln_dtype from = c->p->plan->tensors[chain->load].dtype;
  if (from != KILN_E2M1 || chain->format != KILN_E4M3) {
    return kn_stage_fail(c, stage, "it moves e2m1 to e4m3, not %s to %s", kiln_dtype_name(from),
                         kiln_dtype_name(chain->format));
  }
  if (chain->sf_rows % block[0] || chain->sf_cols % block[1]) {
    return kn_stage_fail(c, stage,
                         "sf_block is (%" PRId64 ", %" PRId64
                         "); allowed are multiples of block, (%" PRId64 ", %" PRId64 ")",
                         chain->sf_rows, chain->sf_cols, block[0], block[1]);
  }
  return KILN_OK;
}

kiln_status kn_add_requantize(struct kn_composer *c, const struct kn_stage_spec *stage) {
  static const char *const layouts[] = {"row_major", "col_major", "packed_ue8m0"};
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const char *sf = NULL, *error = NULL, *error_name = NULL;
  int64_t block[2] = {0, 0};
  bool round_sf = true; /* powers of two come in and go out */
  kiln_status status = quantize_facts(c, stage, &round_sf);
  if (status == KILN_OK) status = kn_stage_block(c, stage, "block", block);
  if (status == KILN_OK) status = check_requantize(c, stage, block);
  if (status == KILN_OK) status = kn_loaded_sf(c, stage, block, &sf);
  if (status == KILN_OK) status = error_text(c, stage, &error, &error_name);
  if (status != KILN_OK) return status;
  chain->computes_sf = chain->requantizes = true;
  c->loaded = c->next - 1;
  status = kn_stage_line(
      c, &c->p->store,
      kn_arena_printf(&plan->arena,
                      "auto v%d = stage::requantize<%s, %" PRId64 ", %" PRId64 ">(c, v, %s, %s);",
                      c->next++, kiln_dtype_name(chain->format), block[0], block[1], sf, error));
  if (status != KILN_OK) return status;
  return kn_stage_line(
      c, &c->p->text,
      kn_arena_printf(&plan->arena,
                      "requantize to=%s rows=%" PRId64 " cols=%" PRId64 " layout=%s sf=%s"
                      " from_rows=%" PRId64 " from_cols=%" PRId64 "%s%s",
                      kiln_dtype_name(chain->format), chain->sf_rows, chain->sf_cols,
                      layouts[chain->layout], kn_stage_arg_name(stage, "sf"), block[0], block[1],
                      error_name ? " error=" : "", error_name ? error_name : ""));
}

kiln_status kn_add_transpose(struct kn_composer *c, const struct kn_stage_spec *stage) {
  if (c->p->chain.transposed) return kn_stage_fail(c, stage, "the codes are transposed already");
  if (kiln_dtype_bits(c->p->chain.format) != 8) {
    return kn_stage_fail(c, stage, "only 8-bit codes can be transposed, not %s",
                         kiln_dtype_name(c->p->chain.format));
  }
  c->p->chain.transposed = true;
  kiln_status status = kn_stage_call(c, &c->p->store, "transpose", "", "");
  if (status != KILN_OK) return status;
  return kn_stage_line(c, &c->p->text, "transpose");
}
