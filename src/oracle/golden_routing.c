/* SPDX-License-Identifier: MIT */
/* Golden cases of mixture-of-experts routing as requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/golden_request.h"

enum { MAX_ENTRIES = 12 };

/* A param or run-time size that is an extent of an array. */
struct extent {
  const char *name, *array; /* NULL: of num_shared_experts */
  int axis;
};

/* An operator: which extents and dtypes of arrays are params and which extents are run-time sizes,
   which of the case's params are handed on and which are scalars. Arrays are named as Kiln's
   tensors are. */
struct routing {
  const char *op;
  struct extent params[MAX_ENTRIES], dims[MAX_ENTRIES];
  struct {
    const char *name, *array;
  } dtypes[MAX_ENTRIES];
  const char *handed_on[MAX_ENTRIES], *scalars[MAX_ENTRIES], *optional[MAX_ENTRIES];
};

static const struct routing operators[] = {
    {.op = "normalize_weight",
     .params = {{"num_topk", "topk_weights", 1}},
     .dims = {{"num_tokens", "topk_weights", 0}}},
    {.op = "mask_indices_by_tp",
     .params = {{"num_topk", "indices", 1}},
     .dims = {{"num_tokens", "indices", 0}},
     .scalars = {"n", "num_ep_ranks", "tp_rank", "num_tp_ranks"}},
    {.op = "group_count",
     .params = {{"num_topk", "group_idx", 1}},
     .dims = {{"num_tokens", "group_idx", 0}},
     .handed_on = {"num_groups"}},
    {.op = "aux_fi",
     .params = {{"num_topk", "topk_idx", 1}},
     .dims = {{"num_tokens", "topk_idx", 0}},
     .handed_on = {"num_experts"},
     .scalars = {"num_aux_topk"}},
    {.op = "topk_gate",
     .params = {{"num_experts", "scores", 1}},
     .dims = {{"num_tokens", "scores", 0}},
     .handed_on = {"num_topk"}},
    {.op = "topk_sum_and_topk_group_idx",
     .params = {{"num_groups", "scores", 1}, {"group_size", "scores", 2}},
     .dims = {{"num_tokens", "scores", 0}},
     .handed_on = {"num_topk_sum", "num_topk_groups"}},
    {.op = "top2_sum_gate",
     .params = {{"num_experts", "logits", 1}},
     .dims = {{"num_tokens", "logits", 0},
              {"num_physical", "to_physical_map", 1},
              {"num_shared_experts", NULL, 0}},
     .handed_on = {"num_topk", "num_groups", "num_topk_groups", "scoring_func",
                   "use_shared_as_routed"},
     .scalars = {"routed_scaling_factor", "ep_rank", "num_ep_ranks", "tp_rank", "num_tp_ranks"},
     .optional = {"mask", "fix_routing_mask", "unmapped_topk_idx", "to_physical_map",
                  "logical_count"}},
    {.op = "get_fused_mapping",
     .params = {{"num_topk", "topk_idx", 1}},
     .dims = {{"num_tokens", "topk_idx", 0}, {"num_expanded_tokens", "pos_to_expert", 0}},
     .handed_on = {"num_experts"},
     .scalars = {"alignment"}},
    {.op = "expand_to_fused",
     .params = {{"hidden", "x", 1}, {"num_topk", "token_topk_to_pos", 1}},
     .dims = {{"num_tokens", "x", 0}, {"num_expanded_tokens", "pos_to_expert", 0}},
     .dtypes = {{"dtype", "x"}}},
    {.op = "expand_to_fused_with_sf",
     .params = {{"hidden", "x", 1}, {"num_topk", "token_topk_to_pos", 1}},
     .dims = {{"num_tokens", "x", 0}, {"num_expanded_tokens", "pos_to_expert", 0}},
     .dtypes = {{"dtype", "x"}},
     .handed_on = {"num_per_channels", "use_tma_aligned_col_major_sf", "use_packed_ue8m0"}},
    {.op = "reduce_fused",
     .params = {{"hidden", "x", 1}, {"num_topk", "token_topk_to_pos", 1}},
     .dims = {{"num_tokens", "token_topk_to_pos", 0}, {"num_expanded_tokens", "x", 0}},
     .dtypes = {{"dtype", "x"}, {"out_dtype", "out"}},
     .optional = {"topk_weights", "x_sf", "sf"}},
    {.op = "inplace_unique_group_indices",
     .params = {{"num_topk", "group_indices", 1}},
     .dims = {{"num_tokens", "group_indices", 0}},
     .handed_on = {"num_groups"}},
};
enum { NUM_OPERATORS = sizeof operators / sizeof *operators };

/* Shared experts are recorded also where they are not used. */
static int64_t num_shared(const struct kn_golden *golden) {
  const struct kn_golden_array *idx = kn_golden_array(golden, "topk_idx");
  const char *topk = kn_golden_param(golden->params, golden->num_params, "num_topk");
  return idx && topk ? idx->tensor.shape[1] - strtoll(topk, NULL, 10) : 0;
}

static int64_t extent_of(const struct kn_golden *golden, const struct extent *extent) {
  if (!extent->array) return num_shared(golden);
  const struct kn_golden_array *array = kn_golden_array(golden, extent->array);
  return array ? array->tensor.shape[extent->axis] : -1;
}

static const char *value_of(const struct kn_golden *golden, const char *name) {
  return kn_golden_param(golden->params, golden->num_params, name);
}

static void take(const struct kn_golden *golden, const struct routing *r,
                 struct kn_golden_request *out) {
  for (int i = 0; i < MAX_ENTRIES && r->params[i].name; ++i) {
    kn_golden_add_int(out, r->params[i].name, extent_of(golden, &r->params[i]));
  }
  for (int i = 0; i < MAX_ENTRIES && r->dims[i].name; ++i) {
    const int64_t extent = extent_of(golden, &r->dims[i]);
    out->dims[out->num_dims++] = (kiln_dim){r->dims[i].name, extent < 0 ? 1 : extent};
  }
  for (int i = 0; i < MAX_ENTRIES && r->dtypes[i].name; ++i) {
    const struct kn_golden_array *array = kn_golden_array(golden, r->dtypes[i].array);
    if (array) kn_golden_add(out, r->dtypes[i].name, kiln_dtype_name(array->tensor.dtype));
  }
  for (int i = 0; i < MAX_ENTRIES && r->handed_on[i]; ++i) {
    const char *value = value_of(golden, r->handed_on[i]);
    if (value) kn_golden_add(out, r->handed_on[i], value);
  }
  for (int i = 0; i < MAX_ENTRIES && r->scalars[i]; ++i) {
    const char *value = value_of(golden, r->scalars[i]);
    struct kn_golden_param *scalar = &out->scalars[out->num_scalars];
    if (!value) continue;
    ++out->num_scalars;
    (void)snprintf(scalar->name, sizeof scalar->name, "%s", r->scalars[i]);
    (void)snprintf(scalar->value, sizeof scalar->value, "%s", value);
  }
  for (int i = 0; i < MAX_ENTRIES && r->optional[i]; ++i) {
    char name[KN_GOLDEN_WORD];
    if (!kn_golden_array(golden, r->optional[i])) continue;
    (void)snprintf(name, sizeof name, "present.%.50s", r->optional[i]);
    kn_golden_add(out, name, "true");
  }
}

bool kn_golden_routing_request(const struct kn_golden *golden, struct kn_golden_request *out) {
  for (int i = 0; i < NUM_OPERATORS; ++i) {
    if (strcmp(operators[i].op, golden->op) != 0) continue;
    out->op = operators[i].op;
    take(golden, &operators[i], out);
    return true;
  }
  return false;
}
