/* SPDX-License-Identifier: MIT */
/*
 * Chains: typed stages, composed in spec order. Each stage is a row of `rules`: what must stand
 * before it, what it leaves, its arguments, and a function that writes its call.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"
#include "plan/planner.h"

/* What a chain holds between two stages. */
enum state { NOTHING, VALUES, CODES, STORED };
static const char *const state_names[] = {"nothing", "values", "quantised codes",
                                          "nothing any more"};

struct composer {
  struct kn_planner *p;
  enum state state;
  int parts;       /* of the values held: 2 before swiglu */
  int64_t columns; /* of one part */
  int next;        /* number of the next variable */
};

struct rule {
  const char *name;
  enum state needs, leaves;
  const char *args[9]; /* allowed keys; "" is the value of `- stage: value` */
  kiln_status (*add)(struct composer *c, const struct kn_stage_spec *stage);
};

static kiln_status fail(const struct composer *c, const struct kn_stage_spec *stage,
                        const char *format, ...) KN_PRINTF(3, 4);
static kiln_status fail(const struct composer *c, const struct kn_stage_spec *stage,
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

/* ---- arguments ---- */

static const struct kn_stage_arg *find_arg(const struct kn_stage_spec *stage, const char *key) {
  for (size_t i = 0; i < stage->num_args; ++i) {
    if (strcmp(stage->args[i].key, key) == 0) return &stage->args[i];
  }
  return NULL;
}

/* The name that an argument is, or NULL where the stage does not have it. */
static const char *arg_name(const struct kn_stage_spec *stage, const char *key) {
  const struct kn_stage_arg *arg = find_arg(stage, key);
  return arg && arg->values[0]->op == KN_EXPR_NAME ? arg->values[0]->name : NULL;
}

static kiln_status arg_value(const struct composer *c, const struct kn_stage_arg *arg, size_t index,
                             enum kn_value_type type, struct kn_value *out) {
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

/* A flag of quantize: its own argument, else the bool param of that name, else false. */
static kiln_status flag(const struct composer *c, const struct kn_stage_spec *stage,
                        const char *name, bool *out) {
  const struct kn_plan *plan = c->p->plan;
  const struct kn_stage_arg *arg = find_arg(stage, name);
  struct kn_value value;
  *out = false;
  if (arg) {
    kiln_status status = arg_value(c, arg, 0, KN_VALUE_BOOL, &value);
    if (status == KILN_OK) *out = value.number != 0;
    return status;
  }
  for (size_t i = 0; i < plan->spec->num_params; ++i) {
    if (strcmp(plan->spec->params[i].name, name) == 0) *out = plan->params[i].number != 0;
  }
  return KILN_OK;
}

static int tensor_index(const struct kn_plan *plan, const char *name) {
  for (size_t i = 0; name && i < plan->spec->num_tensors; ++i) {
    if (strcmp(plan->spec->tensors[i].name, name) == 0) return (int)i;
  }
  return -1;
}

static int scalar_index(const struct kn_plan *plan, const char *name) {
  for (size_t i = 0; name && i < plan->spec->num_scalars; ++i) {
    if (strcmp(plan->spec->scalars[i].name, name) == 0) return (int)i;
  }
  return -1;
}

/* A scalar argument as CUDA: `a.name`, or `none{}` where it is absent. */
static kiln_status scalar_text(const struct composer *c, const struct kn_stage_spec *stage,
                               const char *name, const char **out, bool *out_present) {
  struct kn_plan *plan = c->p->plan;
  int index = scalar_index(plan, name);
  if (name && index < 0) return fail(c, stage, "'%s' is no scalar of the spec", name);
  *out_present = index >= 0 && plan->scalars[index].present;
  *out = *out_present ? kn_arena_printf(&plan->arena, "a.%s", name) : "none{}";
  return *out ? KILN_OK : kn_plan_no_memory(plan);
}

/* ---- lines ---- */

static kiln_status add_line(const struct composer *c, struct kn_lines *lines, const char *line) {
  if (!line) return kn_plan_no_memory(c->p->plan);
  if (lines->count == KN_MAX_LINES) {
    return kn_fail(KILN_E_SPEC, "%s: more than %d stages", c->p->plan->spec->name, KN_MAX_LINES);
  }
  lines->lines[lines->count++] = line;
  return KILN_OK;
}

/* An element stage: `auto vN = stage::NAME<TYPES>(c, vN-1ARGUMENTS);` */
static kiln_status add_call(struct composer *c, struct kn_lines *lines, const char *name,
                            const char *types, const char *arguments) {
  int previous = c->next - 1;
  const char *line = kn_arena_printf(&c->p->plan->arena, "auto v%d = stage::%s%s(c, v%d%s);",
                                     c->next, name, types, previous, arguments);
  ++c->next;
  return add_line(c, lines, line);
}

/* ---- stages ---- */

static kiln_status add_load(struct composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  const char *name = arg_name(stage, "");
  int index = tensor_index(plan, name);
  if (index < 0 || plan->tensors[index].spec->role == KILN_OUT) {
    return fail(c, stage, "'%s' is no input tensor of the spec", name ? name : "");
  }
  const struct kn_plan_tensor *x = &plan->tensors[index];
  if (x->rank != 2) return fail(c, stage, "%s has rank %d; allowed is 2", name, x->rank);
  if (x->shape[0]->op != KN_EXPR_NAME || kn_spec_param(plan->spec, x->shape[0]->name)) {
    return fail(c, stage, "axis 0 of %s must be a run-time size by name", name);
  }
  if (x->dtype != KILN_F32 && x->dtype != KILN_F16 && x->dtype != KILN_BF16) {
    return fail(c, stage, "%s is %s; allowed are f32, f16 and bf16", name,
                kiln_dtype_name(x->dtype));
  }
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  if (kn_expr_eval_int(x->shape[1], &env, &c->columns) != KILN_OK || c->columns < 1 ||
      c->columns > 1 << 29) {
    return fail(c, stage, "the columns of %s must be fixed by params, 1 to %d", name, 1 << 29);
  }
  c->p->chain.load = index;
  c->p->chain.is_bf16 = x->dtype == KILN_BF16;
  c->p->chain.rows = x->shape[0];
  const char *stride = x->stride_free[0]
                           ? kn_arena_printf(&plan->arena, "a.%s_stride0", name)
                           : kn_arena_printf(&plan->arena, "i64(%" PRId64 ")", c->columns);
  c->next = 1;
  kiln_status status = add_line(
      c, &c->p->load,
      kn_arena_printf(&plan->arena, "auto v0 = stage::load<PARTS>(c, a.%s, %s);", name, stride));
  if (status != KILN_OK) return status;
  return add_line(c, &c->p->text, kn_arena_printf(&plan->arena, "load %s", name));
}

static kiln_status add_swiglu(struct composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  const char *clamp = NULL;
  bool present = false;
  const char *name = arg_name(stage, "clamp");
  if (c->parts == 2) return fail(c, stage, "only one gate can stand in a chain");
  if (c->next != 1) return fail(c, stage, "it must follow load: the stages before it see one part");
  if (c->columns % 2) {
    return fail(c, stage, "the loaded row has %" PRId64 " columns; gate and up need an even number",
                c->columns);
  }
  kiln_status status = scalar_text(c, stage, name, &clamp, &present);
  if (status != KILN_OK) return status;
  c->columns /= 2;
  c->parts = 2;
  c->p->chain.is_bf16 = false;
  status = add_call(c, &c->p->load, "swiglu", "", kn_arena_printf(&plan->arena, ", %s", clamp));
  if (status != KILN_OK) return status;
  return add_line(c, &c->p->text,
                  present ? kn_arena_printf(&plan->arena, "swiglu clamp=%s", name) : "swiglu");
}

static kiln_status add_round(struct composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  const struct kn_stage_arg *arg = find_arg(stage, "");
  struct kn_value value;
  if (!arg) return fail(c, stage, "it needs a dtype, as in `round: bf16`");
  kiln_status status = arg_value(c, arg, 0, KN_VALUE_DTYPE, &value);
  if (status != KILN_OK) return status;
  kiln_dtype dtype = (kiln_dtype)value.number;
  if (dtype != KILN_BF16 && dtype != KILN_F16 && dtype != KILN_E4M3 && dtype != KILN_E5M2) {
    return fail(c, stage, "it rounds to bf16, f16, e4m3 or e5m2, not to %s",
                kiln_dtype_name(dtype));
  }
  c->p->chain.is_bf16 = dtype == KILN_BF16;
  status = add_call(c, &c->p->load, "round",
                    kn_arena_printf(&plan->arena, "<%s>", kiln_dtype_name(dtype)), "");
  if (status != KILN_OK) return status;
  return add_line(c, &c->p->text,
                  kn_arena_printf(&plan->arena, "round to=%s", kiln_dtype_name(dtype)));
}

/* The scalar that bounds amax from below, and what may be given for it: contract 0. */
static kiln_status clamp_min(struct composer *c, const struct kn_stage_spec *stage,
                             const char **out_text, const char **out_name) {
  static const double two_to_minus_126 = 0x1p-126;
  struct kn_plan *plan = c->p->plan;
  const char *name = arg_name(stage, "clamp_min");
  bool present = false;
  if (!name && scalar_index(plan, "sf_clamp_min") >= 0) name = "sf_clamp_min";
  kiln_status status = scalar_text(c, stage, name, out_text, &present);
  if (status != KILN_OK) return status;
  *out_name = present ? name : NULL;
  if (present) {
    kiln_dtype format = c->p->chain.format;
    double most = format == KILN_E4M3   ? 448
                  : format == KILN_E5M2 ? 57344
                  : format == KILN_E5M6 ? 65024
                                        : 6;
    struct kn_plan_scalar *scalar = &plan->scalars[scalar_index(plan, name)];
    scalar->has_min = true;
    scalar->min = most * two_to_minus_126;
  }
  return KILN_OK;
}

static kiln_status quantize_facts(struct composer *c, const struct kn_stage_spec *stage,
                                  bool *round_sf) {
  struct kn_chain *chain = &c->p->chain;
  const struct kn_stage_arg *to = find_arg(stage, "to"), *block = find_arg(stage, "sf_block");
  struct kn_value format, rows, cols;
  bool col_major = false, packed = false;
  if (!to) return fail(c, stage, "it needs a format: to");
  if (!block || block->num_values != 2) {
    return fail(c, stage, "it needs the block that shares a scale: sf_block: [rows, columns]");
  }
  kiln_status status = arg_value(c, to, 0, KN_VALUE_DTYPE, &format);
  if (status == KILN_OK) status = arg_value(c, block, 0, KN_VALUE_INT, &rows);
  if (status == KILN_OK) status = arg_value(c, block, 1, KN_VALUE_INT, &cols);
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
    return fail(c, stage, "to is %s; allowed are e4m3, e5m2, e2m1 and e5m6",
                kiln_dtype_name(chain->format));
  }
  if (packed && !(col_major && *round_sf)) {
    return fail(c, stage,
                "use_packed_ue8m0 needs round_sf and use_tma_aligned_col_major_sf: packed scale "
                "factors are powers of two, and column-major as output");
  }
  int pack = kn_dtype_pack(chain->format);
  if (c->columns % pack) {
    return fail(c, stage, "a row of %" PRId64 " %s values does not fill whole groups of %d",
                c->columns, kiln_dtype_name(chain->format), pack);
  }
  return KILN_OK;
}

static kiln_status add_quantize(struct composer *c, const struct kn_stage_spec *stage) {
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
  const char *format = kiln_dtype_name(chain->format);
  status = add_line(
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
  return add_line(c, &c->p->text, text);
}

static kiln_status add_transpose(struct composer *c, const struct kn_stage_spec *stage) {
  if (c->p->chain.transposed) return fail(c, stage, "the codes are transposed already");
  if (kiln_dtype_bits(c->p->chain.format) != 8) {
    return fail(c, stage, "only 8-bit codes can be transposed, not %s",
                kiln_dtype_name(c->p->chain.format));
  }
  c->p->chain.transposed = true;
  kiln_status status = add_call(c, &c->p->store, "transpose", "", "");
  if (status != KILN_OK) return status;
  return add_line(c, &c->p->text, "transpose");
}

/* The stored tensors must have the shape that the chain gives. Where a conditional transpose was
   left out, the spec's shape is that of the transposed result, so its axes change places. */
static kiln_status check_stored(struct composer *c, const struct kn_stage_spec *stage,
                                bool had_transpose) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  struct kn_plan_tensor *data = &plan->tensors[chain->data];
  struct kn_scope scope = {.plan = plan};
  struct kn_env env = kn_scope_env(&scope);
  int64_t columns = 0;
  if (data->dtype != chain->format) {
    return fail(c, stage, "%s is %s, the codes are %s", data->spec->name,
                kiln_dtype_name(data->dtype), kiln_dtype_name(chain->format));
  }
  if (data->rank != 2) return fail(c, stage, "%s must have rank 2", data->spec->name);
  if (had_transpose && !chain->transposed) {
    const struct kn_expr *first = data->shape[0];
    data->shape[0] = data->shape[1];
    data->shape[1] = first;
  }
  int axis = chain->transposed ? 0 : 1;
  if (kn_expr_eval_int(data->shape[axis], &env, &columns) != KILN_OK || columns != chain->cols) {
    return fail(c, stage, "axis %d of %s must have the chain's %" PRId64 " columns", axis,
                data->spec->name, chain->cols);
  }
  if (data->stride_free[1]) {
    return fail(c, stage, "the last axis of %s must have stride 1", data->spec->name);
  }
  if (chain->sf < 0) return KILN_OK;
  struct kn_plan_tensor *sf = &plan->tensors[chain->sf];
  kiln_dtype want = chain->layout == KN_SF_PACKED_UE8M0 ? KILN_I32 : KILN_F32;
  if (sf->dtype != want || (sf->is_sf ? sf->sf_layout : KN_SF_ROW_MAJOR) != chain->layout) {
    return fail(c, stage, "%s does not have the dtype and layout of the scale factors (%s, %s)",
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
static const char *stride_text(const struct composer *c, const struct kn_plan_tensor *tensor) {
  struct kn_plan *plan = c->p->plan;
  if (tensor->stride_free[0]) {
    return kn_arena_printf(&plan->arena, "a.%s_stride0", tensor->spec->name);
  }
  if (!c->p->chain.transposed) {
    return kn_arena_printf(&plan->arena, "i64(%" PRId64 ")", c->p->chain.cols);
  }
  return "chain_num_rows(a)";
}

static kiln_status add_store(struct composer *c, const struct kn_stage_spec *stage) {
  struct kn_plan *plan = c->p->plan;
  struct kn_chain *chain = &c->p->chain;
  const char *data = arg_name(stage, "data"), *sf = arg_name(stage, "sf");
  chain->data = tensor_index(plan, data);
  chain->sf = tensor_index(plan, sf);
  if (chain->data < 0 || plan->tensors[chain->data].spec->role == KILN_IN) {
    return fail(c, stage, "data must name an output tensor of the spec");
  }
  if (chain->sf < 0 || plan->tensors[chain->sf].spec->role == KILN_IN) {
    return fail(c, stage, "sf must name an output tensor of the spec");
  }
  kiln_status status = check_stored(c, stage, has_stage(plan->spec, "transpose"));
  if (status != KILN_OK) return status;
  const char *ld =
      chain->layout == KN_SF_ROW_MAJOR ? "i64(0)" : kn_arena_printf(&plan->arena, "a.%s_ld", sf);
  status = add_line(
      c, &c->p->store,
      kn_arena_printf(&plan->arena, "stage::store(c, v%d, a.%s, %s, a.%s, %s);", c->next - 1, data,
                      stride_text(c, &plan->tensors[chain->data]), sf, ld));
  if (status != KILN_OK) return status;
  return add_line(c, &c->p->text, kn_arena_printf(&plan->arena, "store data=%s sf=%s", data, sf));
}

static const struct rule rules[] = {
    {"load", NOTHING, VALUES, {""}, add_load},
    {"swiglu", VALUES, VALUES, {"clamp"}, add_swiglu},
    {"round", VALUES, VALUES, {""}, add_round},
    {"quantize",
     VALUES,
     CODES,
     {"to", "sf_block", "round_sf", "use_tma_aligned_col_major_sf", "use_packed_ue8m0",
      "clamp_min"},
     add_quantize},
    {"transpose", CODES, CODES, {0}, add_transpose},
    {"store", CODES, STORED, {"data", "sf"}, add_store},
};
enum { NUM_RULES = sizeof rules / sizeof *rules };

/* ---- composition ---- */

static kiln_status unknown_stage(const struct composer *c, const struct kn_stage_spec *stage) {
  const char *names[NUM_RULES];
  struct kn_text list = {0};
  for (size_t i = 0; i < NUM_RULES; ++i) {
    names[i] = rules[i].name;
    kn_text_printf(&list, "%s%s", i ? ", " : "", rules[i].name);
  }
  const char *near = kn_did_you_mean(stage->name, names, NUM_RULES);
  kiln_status status =
      near ? fail(c, stage, "there is no such stage; did you mean %s?", near)
           : fail(c, stage, "there is no such stage; there are %s", list.data ? list.data : "none");
  kn_text_release(&list);
  return status;
}

static kiln_status check_args(const struct composer *c, const struct kn_stage_spec *stage,
                              const struct rule *rule) {
  for (size_t i = 0; i < stage->num_args; ++i) {
    const char *key = stage->args[i].key;
    size_t count = 0;
    bool known = strcmp(key, "unless") == 0 || strcmp(key, "when") == 0;
    for (; rule->args[count]; ++count) known = known || strcmp(key, rule->args[count]) == 0;
    if (known) continue;
    if (!*key) return fail(c, stage, "it takes no value");
    const char *near = kn_did_you_mean(key, rule->args, count);
    return near ? fail(c, stage, "it has no argument '%s'; did you mean %s?", key, near)
                : fail(c, stage, "it has no argument '%s'", key);
  }
  return KILN_OK;
}

/* Whether `when` and `unless` leave the stage in. */
static kiln_status is_in(const struct composer *c, const struct kn_stage_spec *stage, bool *out) {
  const struct kn_stage_arg *when = find_arg(stage, "when"), *unless = find_arg(stage, "unless");
  struct kn_value value;
  kiln_status status = KILN_OK;
  *out = true;
  if (when) {
    status = arg_value(c, when, 0, KN_VALUE_BOOL, &value);
    if (status == KILN_OK && !value.number) *out = false;
  }
  if (unless && status == KILN_OK) {
    status = arg_value(c, unless, 0, KN_VALUE_BOOL, &value);
    if (status == KILN_OK && value.number) *out = false;
  }
  return status;
}

static kiln_status add_stage(struct composer *c, const struct kn_stage_spec *stage) {
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
    return fail(c, stage, "it needs %s%s, but the chain holds %s here", state_names[rule->needs],
                rule->needs == NOTHING ? " before it (it comes first)" : "", state_names[c->state]);
  }
  status = rule->add(c, stage);
  if (status == KILN_OK) {
    c->state = rule->leaves;
    status = add_line(c, &c->p->headers,
                      kn_arena_printf(&c->p->plan->arena, "kiln/stage/%s.cuh", stage->name));
  }
  return status;
}

static kiln_status keep_phase(struct composer *c, struct kn_plan_phase *phase,
                              const char *signature, const struct kn_lines *lines) {
  const char **kept = kn_arena_alloc(&c->p->plan->arena, lines->count + 1, sizeof *kept);
  if (!kept) return kn_plan_no_memory(c->p->plan);
  memcpy(kept, lines->lines, lines->count * sizeof *kept);
  *phase = (struct kn_plan_phase){signature, kept, lines->count};
  return KILN_OK;
}

static kiln_status keep(struct composer *c) {
  struct kn_plan *plan = c->p->plan;
  struct kn_plan_phase *phases = kn_arena_alloc(&plan->arena, 3, sizeof *phases);
  struct kn_lines rows = {0};
  struct kn_text text = {0};
  if (!phases) return kn_plan_no_memory(plan);
  kiln_status status =
      add_line(c, &c->p->load, kn_arena_printf(&plan->arena, "return v%zu;", c->p->load.count - 1));
  if (status == KILN_OK) {
    status =
        add_line(c, &rows, kn_arena_printf(&plan->arena, "return a.%s;", c->p->chain.rows->name));
  }
  if (status == KILN_OK) {
    status = keep_phase(c, &phases[0], "KILN_DEVICE i64 chain_num_rows(const kiln_args& a)", &rows);
  }
  if (status == KILN_OK) {
    status = keep_phase(c, &phases[1],
                        "template <class C> KILN_DEVICE auto chain_load(const kiln_args& a, C& c)",
                        &c->p->load);
  }
  if (status == KILN_OK) {
    status = keep_phase(c, &phases[2],
                        "template <class C, class V> KILN_DEVICE void chain_store(const kiln_args& "
                        "a, C& c, const V& v)",
                        &c->p->store);
  }
  if (status != KILN_OK) return status;
  for (size_t i = 0; i < c->p->text.count; ++i) {
    kn_text_printf(&text, "%s\n", c->p->text.lines[i]);
  }
  plan->phases = phases;
  plan->num_phases = 3;
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
  struct composer c = {.p = p, .state = NOTHING, .parts = 1};
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < spec->num_stages && status == KILN_OK; ++i) {
    status = add_stage(&c, &spec->chain[i]);
  }
  if (status != KILN_OK) return status;
  if (c.state != STORED) {
    const struct kn_stage_spec *last = &spec->chain[spec->num_stages - 1];
    return fail(&c, last, "the chain ends here with %s; it must end in store",
                state_names[c.state]);
  }
  return keep(&c);
}
