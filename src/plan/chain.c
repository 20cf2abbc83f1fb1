/* SPDX-License-Identifier: MIT */
/*
 * Chains: typed stages, composed in spec order. Each stage is a row of `rules`: what must stand
 * before it, what it leaves, its arguments, and a function that writes its call.
 */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"
#include "plan/stage.h"

static const char *const state_names[] = {"nothing", "values", "quantised codes",
                                          "nothing any more"};

struct rule {
  const char *name;
  enum kn_chain_state needs, leaves;
  const char *args[9]; /* allowed keys; "" is the value of `- stage: value` */
  kiln_status (*add)(struct kn_composer *c, const struct kn_stage_spec *stage);
};

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

/* ---- stages ---- */

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

static kiln_status quantize_facts(struct kn_composer *c, const struct kn_stage_spec *stage,
                                  bool *round_sf) {
  struct kn_chain *chain = &c->p->chain;
  const struct kn_stage_arg *to = kn_find_stage_arg(stage, "to"),
                            *block = kn_find_stage_arg(stage, "sf_block");
  struct kn_value format, rows, cols;
  bool col_major = false, packed = false;
  if (!to) return kn_stage_fail(c, stage, "it needs a format: to");
  if (!block || block->num_values != 2) {
    return kn_stage_fail(c, stage,
                         "it needs the block that shares a scale: sf_block: [rows, columns]");
  }
  kiln_status status = kn_stage_value(c, to, 0, KN_VALUE_DTYPE, &format);
  if (status == KILN_OK) status = kn_stage_value(c, block, 0, KN_VALUE_INT, &rows);
  if (status == KILN_OK) status = kn_stage_value(c, block, 1, KN_VALUE_INT, &cols);
  if (status == KILN_OK) status = flag(c, stage, "round_sf", round_sf);
  if (status == KILN_OK) {
    status = flag(c, stage, "use_tma_aligned_col_major_sf", &col_major);
  }
  if (status == KILN_OK) status = flag(c, stage, "use_packed_ue8m0", &packed);
  if (status != KILN_OK) return status;
  chain->format = (kiln_dtype)format.number;
  chain->sf_rows = rows.number;
  chain->sf_cols = cols.number;
  chain->layout = packed ? KN_SF_PACKED_UE8M0 : col_major ? KN_SF_COL_MAJOR : KN_SF_ROW_MAJOR;
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

static kiln_status add_quantize(struct kn_composer *c, const struct kn_stage_spec *stage) {
  static const char *const layouts[] = {"row_major", "col_major", "packed_ue8m0"};
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const char *clamp = NULL, *clamp_name = NULL;
  bool round_sf = false;
  kiln_status status = quantize_facts(c, stage, &round_sf);
  if (status == KILN_OK) status = clamp_min(c, stage, &clamp, &clamp_name);
  if (status != KILN_OK) return status;
  chain->cols = c->columns;
  chain->parts = c->parts;
  c->loaded = c->next - 1;
  const char *format = kiln_dtype_name(chain->format);
  status = kn_stage_line(
      c, &c->p->store,
      kn_arena_printf(&plan->arena,
                      "auto v%d = stage::quantize<%s, SF_ROWS, SF_COLS, SF_LAYOUT, %s>(c, v, %s);",
                      c->next, format, round_sf ? "true" : "false", clamp));
  ++c->next;
  if (status != KILN_OK) return status;
  const char *text = kn_arena_printf(
      &plan->arena, "quantize to=%s rows=%" PRId64 " cols=%" PRId64 " round_sf=%d layout=%s%s%s",
      format, chain->sf_rows, chain->sf_cols, round_sf, layouts[chain->layout],
      clamp_name ? " clamp_min=" : "", clamp_name ? clamp_name : "");
  return kn_stage_line(c, &c->p->text, text);
}

static kiln_status add_transpose(struct kn_composer *c, const struct kn_stage_spec *stage) {
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

/* The stored tensors must have the shape that the chain gives. Where a conditional transpose was
   left out, the spec's shape is that of the transposed result, so its axes change places. */
static kiln_status check_stored(struct kn_composer *c, const struct kn_stage_spec *stage,
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
  if (chain->sf < 0) return KILN_OK;
  struct kn_plan_tensor *sf = &plan->tensors[chain->sf];
  kiln_dtype want = chain->layout == KN_SF_PACKED_UE8M0 ? KILN_I32 : KILN_F32;
  if (sf->dtype != want || (sf->is_sf ? sf->sf_layout : KN_SF_ROW_MAJOR) != chain->layout) {
    return kn_stage_fail(c, stage,
                         "%s does not have the dtype and layout of the scale factors (%s, %s)",
                         sf->spec->name, kiln_dtype_name(want),
                         chain->layout == KN_SF_ROW_MAJOR ? "row-major" : "column-major");
  }
  return KILN_OK;
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

static kiln_status add_store(struct kn_composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const char *data = kn_stage_arg_name(stage, "data"), *sf = kn_stage_arg_name(stage, "sf");
  chain->data = kn_tensor_index(plan, data);
  chain->sf = kn_tensor_index(plan, sf);
  if (chain->data < 0 || plan->tensors[chain->data].spec->role == KILN_IN) {
    return kn_stage_fail(c, stage, "data must name an output tensor of the spec");
  }
  if (chain->sf < 0 || plan->tensors[chain->sf].spec->role == KILN_IN) {
    return kn_stage_fail(c, stage, "sf must name an output tensor of the spec");
  }
  kiln_status status = check_stored(c, stage, has_stage(plan->spec, "transpose"));
  if (status != KILN_OK) return status;
  const char *ld =
      chain->layout == KN_SF_ROW_MAJOR ? "i64(0)" : kn_arena_printf(&plan->arena, "a.%s_ld", sf);
  status = kn_stage_line(
      c, &c->p->store,
      kn_arena_printf(&plan->arena, "stage::store(c, v%d, a.%s, %s, a.%s, %s);", c->next - 1, data,
                      stride_text(c, &plan->tensors[chain->data]), sf, ld));
  if (status != KILN_OK) return status;
  return kn_stage_line(c, &c->p->text,
                       kn_arena_printf(&plan->arena, "store data=%s sf=%s", data, sf));
}

static const struct rule rules[] = {
    {"load",
     KN_CHAIN_NOTHING,
     KN_CHAIN_VALUES,
     {"", "data", "gather", "skip", "masked", "zero_skipped"},
     kn_add_load},
    {"round", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {""}, kn_add_round},
    {"silu", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {0}, kn_add_activation},
    {"gelu", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {0}, kn_add_activation},
    {"gelu_tanh", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {0}, kn_add_activation},
    {"relu2", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {0}, kn_add_activation},
    {"swiglu", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"clamp", "count", "math"}, kn_add_gate},
    {"geglu", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"clamp", "count"}, kn_add_gate},
    {"clamp", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"min", "max"}, kn_add_clamp},
    {"add_bias", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"bias"}, kn_add_bias},
    {"scale_by_weight", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"weights", "index"}, kn_add_weight},
    {"residual_add", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"in", "out"}, kn_add_residual},
    {"rmsnorm", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"weight", "eps"}, kn_add_rmsnorm},
    {"quantize",
     KN_CHAIN_VALUES,
     KN_CHAIN_CODES,
     {"to", "sf_block", "round_sf", "use_tma_aligned_col_major_sf", "use_packed_ue8m0",
      "clamp_min"},
     add_quantize},
    {"transpose", KN_CHAIN_CODES, KN_CHAIN_CODES, {0}, add_transpose},
    {"store", KN_CHAIN_CODES, KN_CHAIN_STORED, {"data", "sf"}, add_store},
};
enum { NUM_RULES = sizeof rules / sizeof *rules };

/* ---- composition ---- */

static kiln_status unknown_stage(const struct kn_composer *c, const struct kn_stage_spec *stage) {
  const char *names[NUM_RULES];
  struct kn_text list = {0};
  for (size_t i = 0; i < NUM_RULES; ++i) {
    names[i] = rules[i].name;
    kn_text_printf(&list, "%s%s", i ? ", " : "", rules[i].name);
  }
  const char *near = kn_did_you_mean(stage->name, names, NUM_RULES);
  kiln_status status =
      near ? kn_stage_fail(c, stage, "there is no such stage; did you mean %s?", near)
           : kn_stage_fail(c, stage, "there is no such stage; there are %s",
                           list.data ? list.data : "none");
  kn_text_release(&list);
  return status;
}

static kiln_status check_args(const struct kn_composer *c, const struct kn_stage_spec *stage,
                              const struct rule *rule) {
  for (size_t i = 0; i < stage->num_args; ++i) {
    const char *key = stage->args[i].key;
    size_t count = 0;
    bool known = strcmp(key, "unless") == 0 || strcmp(key, "when") == 0;
    for (; rule->args[count]; ++count) known = known || strcmp(key, rule->args[count]) == 0;
    if (known) continue;
    if (!*key) return kn_stage_fail(c, stage, "it takes no value");
    const char *near = kn_did_you_mean(key, rule->args, count);
    return near ? kn_stage_fail(c, stage, "it has no argument '%s'; did you mean %s?", key, near)
                : kn_stage_fail(c, stage, "it has no argument '%s'", key);
  }
  return KILN_OK;
}

/* Whether `when` and `unless` leave the stage in. */
static kiln_status is_in(const struct kn_composer *c, const struct kn_stage_spec *stage,
                         bool *out) {
  const struct kn_stage_arg *when = kn_find_stage_arg(stage, "when"),
                            *unless = kn_find_stage_arg(stage, "unless");
  struct kn_value value;
  kiln_status status = KILN_OK;
  *out = true;
  if (when) {
    status = kn_stage_value(c, when, 0, KN_VALUE_BOOL, &value);
    if (status == KILN_OK && !value.number) *out = false;
  }
  if (unless && status == KILN_OK) {
    status = kn_stage_value(c, unless, 0, KN_VALUE_BOOL, &value);
    if (status == KILN_OK && value.number) *out = false;
  }
  return status;
}

static kiln_status add_stage(struct kn_composer *c, const struct kn_stage_spec *stage) {
  const struct rule *rule = NULL;
  bool in = true;
  for (size_t i = 0; i < NUM_RULES && !rule; ++i) {
    if (strcmp(rules[i].name, stage->name) == 0) rule = &rules[i];
  }
  if (!rule) return unknown_stage(c, stage);
  kiln_status status = check_args(c, stage, rule);
  if (status == KILN_OK) status = is_in(c, stage, &in);
  if (status != KILN_OK || !in) return status;
  if (c->state != rule->needs) {
    return kn_stage_fail(c, stage, "it needs %s%s, but the chain holds %s here",
                         state_names[rule->needs],
                         rule->needs == KN_CHAIN_NOTHING ? " before it (it comes first)" : "",
                         state_names[c->state]);
  }
  status = rule->add(c, stage);
  if (status == KILN_OK) {
    c->state = rule->leaves;
    status = kn_stage_line(c, &c->p->headers,
                           kn_arena_printf(&c->p->plan->arena, "kiln/stage/%s.cuh", stage->name));
  }
  return status;
}

static kiln_status keep_phase(struct kn_composer *c, struct kn_plan_phase *phase,
                              const char *signature, const struct kn_lines *lines) {
  const char **kept = kn_arena_alloc(&c->p->plan->arena, lines->count + 1, sizeof *kept);
  if (!kept) return kn_plan_no_memory(c->p->plan);
  memcpy(kept, lines->lines, lines->count * sizeof *kept);
  *phase = (struct kn_plan_phase){signature, kept, lines->count};
  return KILN_OK;
}

/* From a row's sum on. */
static kiln_status keep_row(struct kn_composer *c, struct kn_plan_phase *phase) {
  struct kn_arena *arena = &c->p->plan->arena;
  const char *signature = kn_arena_printf(arena,
                                          "template <class C, class V> KILN_DEVICE auto "
                                          "chain_row(const kiln_args& a, C& c, const V& v%d)",
                                          c->row_first);
  if (!signature) return kn_plan_no_memory(c->p->plan);
  kiln_status status =
      kn_stage_line(c, &c->p->row, kn_arena_printf(arena, "return v%d;", c->loaded));
  return status == KILN_OK ? keep_phase(c, phase, signature, &c->p->row) : status;
}

static kiln_status keep(struct kn_composer *c) {
  struct kn_plan *plan = c->p->plan;
  struct kn_plan_phase *phases = kn_arena_alloc(&plan->arena, 4, sizeof *phases);
  struct kn_lines rows = {0};
  struct kn_text text = {0};
  if (!phases) return kn_plan_no_memory(plan);
  const bool has_row = c->p->chain.has_row_stage;
  struct kn_lines load = c->p->early;
  kiln_status status = kn_stage_line(c, &load, c->p->load.lines[0]);
  for (size_t i = 0; i < c->p->after_load.count && status == KILN_OK; ++i) {
    status = kn_stage_line(c, &load, c->p->after_load.lines[i]);
  }
  for (size_t i = 1; i < c->p->load.count && status == KILN_OK; ++i) {
    status = kn_stage_line(c, &load, c->p->load.lines[i]);
  }
  if (status == KILN_OK) {
    status = kn_stage_line(
        c, &load, kn_arena_printf(&plan->arena, "return v%d;", has_row ? c->row_first : c->loaded));
  }
  if (status == KILN_OK) {
    status =
        kn_stage_line(c, &rows, kn_arena_printf(&plan->arena, "return %s;", c->p->chain.rows_cuda));
  }
  if (status == KILN_OK) {
    status = keep_phase(c, &phases[0], "KILN_DEVICE i64 chain_num_rows(const kiln_args& a)", &rows);
  }
  if (status == KILN_OK) {
    status = keep_phase(c, &phases[1],
                        "template <class C> KILN_DEVICE auto chain_load(const kiln_args& a, C& c)",
                        &load);
  }
  if (status == KILN_OK) {
    status = keep_phase(c, &phases[has_row ? 3 : 2],
                        "template <class C, class V> KILN_DEVICE void chain_store(const kiln_args& "
                        "a, C& c, const V& v)",
                        &c->p->store);
  }
  if (status == KILN_OK && has_row) status = keep_row(c, &phases[2]);
  if (status != KILN_OK) return status;
  for (size_t i = 0; i < c->p->text.count; ++i) {
    kn_text_printf(&text, "%s\n", c->p->text.lines[i]);
  }
  plan->phases = phases;
  plan->num_phases = has_row ? 4 : 3;
  plan->chain_text = text.failed ? NULL : kn_arena_strdup(&plan->arena, text.data);
  kn_text_release(&text);
  const char **headers = kn_arena_alloc(&plan->arena, c->p->headers.count + 1, sizeof *headers);
  if (!plan->chain_text || !headers) return kn_plan_no_memory(plan);
  memcpy(headers, c->p->headers.lines, c->p->headers.count * sizeof *headers);
  plan->headers = headers;
  plan->num_headers = c->p->headers.count;
  return KILN_OK;
}

kiln_status kn_plan_chain(struct kn_planner *p) {
  const struct kn_spec *spec = p->plan->spec;
  struct kn_composer c = {.p = p, .state = KN_CHAIN_NOTHING, .parts = 1};
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < spec->num_stages && status == KILN_OK; ++i) {
    status = add_stage(&c, &spec->chain[i]);
  }
  if (status != KILN_OK) return status;
  if (c.state != KN_CHAIN_STORED) {
    const struct kn_stage_spec *last = &spec->chain[spec->num_stages - 1];
    return kn_stage_fail(&c, last, "the chain ends here with %s; it must end in store",
                         state_names[c.state]);
  }
  return keep(&c);
}
