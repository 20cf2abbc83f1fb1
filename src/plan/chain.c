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

static const char *const state_names[] = {"nothing", "codes without their scale factors", "values",
                                          "quantised codes", "nothing any more"};

struct rule {
  const char *name;
  enum kn_chain_state needs, leaves; /* load leaves what it finds, store takes values or codes */
  const char *args[12];              /* allowed keys; "" is the value of `- stage: value` */
  kiln_status (*add)(struct kn_composer *c, const struct kn_stage_spec *stage);
};

static const struct rule rules[] = {
    {"load",
     KN_CHAIN_NOTHING,
     KN_CHAIN_VALUES,
     {"", "data", "gather", "skip", "masked", "valid", "zero_skipped", "error"},
     kn_add_load},
    {"dequantize", KN_CHAIN_RAW, KN_CHAIN_VALUES, {"sf", "block"}, kn_add_dequantize},
    {"round", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {""}, kn_add_round},
    {"silu", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {0}, kn_add_activation},
    {"gelu", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {0}, kn_add_activation},
    {"gelu_tanh", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {0}, kn_add_activation},
    {"relu2", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {0}, kn_add_activation},
    {"swiglu", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"clamp", "count", "math"}, kn_add_gate},
    {"geglu", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"clamp", "count"}, kn_add_gate},
    {"clamp", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"min", "max"}, kn_add_clamp},
    {"add_bias", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"bias"}, kn_add_bias},
    {"scale_by_weight",
     KN_CHAIN_VALUES,
     KN_CHAIN_VALUES,
     {"weights", "index", "error"},
     kn_add_weight},
    {"residual_add", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"in", "out"}, kn_add_residual},
    {"rmsnorm", KN_CHAIN_VALUES, KN_CHAIN_VALUES, {"weight", "eps"}, kn_add_rmsnorm},
    {"quantize",
     KN_CHAIN_VALUES,
     KN_CHAIN_CODES,
     {"to", "sf_block", "round_sf", "use_tma_aligned_col_major_sf", "use_packed_ue8m0", "clamp_min",
      "sf", "preset", "global", "nonfinite"},
     kn_add_quantize},
    {"requantize",
     KN_CHAIN_RAW,
     KN_CHAIN_CODES,
     {"to", "sf_block", "use_tma_aligned_col_major_sf", "use_packed_ue8m0", "sf", "block", "error"},
     kn_add_requantize},
    {"transpose", KN_CHAIN_CODES, KN_CHAIN_CODES, {0}, kn_add_transpose},
    {"store", KN_CHAIN_CODES, KN_CHAIN_STORED, {"data", "sf"}, kn_add_store},
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
  if (rule->needs == KN_CHAIN_RAW && kn_stage_is_absent(c, stage, "sf")) return KILN_OK;
  const bool stores_values = rule->leaves == KN_CHAIN_STORED && c->state == KN_CHAIN_VALUES;
  if (c->state != rule->needs && !stores_values) {
    return kn_stage_fail(c, stage, "it needs %s%s, but the chain holds %s here",
                         state_names[rule->needs],
                         rule->needs == KN_CHAIN_NOTHING ? " before it (it comes first)" : "",
                         state_names[c->state]);
  }
  status = rule->add(c, stage);
  if (status == KILN_OK) {
    const bool is_raw = rule->needs == KN_CHAIN_NOTHING && c->is_raw;
    c->state = is_raw ? KN_CHAIN_RAW : rule->leaves;
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
