/* SPDX-License-Identifier: MIT */
/* The suites of `kiln bench`: the cases that have bars in tests/bench/bars.json. */
#include "cli/bench.h"

#define COL "use_tma_aligned_col_major_sf=true"
#define PACKED "round_sf=true " COL " use_packed_ue8m0=true"

#define PER_TOKEN(hidden, params) \
  { "core", "per_token_cast", "hidden=" #hidden " " params, "num_tokens=8064", false }
#define PER_TOKEN_SMALL(tokens, n)                                                      \
  {                                                                                     \
    "core", "per_token_cast", "hidden=7168 in_dtype=bf16 fmt=e4m3 num_per_channels=" n, \
        "num_tokens=" #tokens, true                                                     \
  }
#define SWIGLU(hidden, params)                                                             \
  {                                                                                        \
    "core", "swiglu_forward_and_per_channel_cast_and_transpose", "hidden=" #hidden params, \
        "num_tokens=8064", false                                                           \
  }
#define TRANSPOSE(hidden, dtype) \
  { "core", "transpose", "dtype=" dtype, "num_rows=8192 num_cols=" #hidden, false }

#define HIDDEN(hidden)                                                                        \
  PER_TOKEN(hidden, "in_dtype=bf16 fmt=e4m3 num_per_channels=128"),                           \
      PER_TOKEN(hidden, "in_dtype=bf16 fmt=e4m3 num_per_channels=128 " COL),                  \
      PER_TOKEN(hidden, "in_dtype=bf16 fmt=e4m3 num_per_channels=128 " PACKED),               \
      PER_TOKEN(hidden, "in_dtype=bf16 fmt=e4m3 num_per_channels=hidden"),                    \
      PER_TOKEN(hidden, "in_dtype=bf16 fmt=e4m3 num_per_channels=hidden " COL),               \
      PER_TOKEN(hidden, "in_dtype=bf16 fmt=e4m3 num_per_channels=hidden " PACKED),            \
      PER_TOKEN(hidden, "in_dtype=bf16 fmt=e2m1 num_per_channels=32"),                        \
      PER_TOKEN(hidden, "in_dtype=bf16 fmt=e2m1 num_per_channels=32 " PACKED),                \
      PER_TOKEN(hidden, "in_dtype=bf16 fmt=e5m6 num_per_channels=hidden"),                    \
      PER_TOKEN(hidden, "in_dtype=f32 fmt=e4m3 num_per_channels=128"), SWIGLU(hidden, ""),    \
      SWIGLU(hidden, " num_per_tokens=32"), SWIGLU(hidden, " without_transpose=true"),        \
      SWIGLU(hidden, " num_per_tokens=32 without_transpose=true"), TRANSPOSE(hidden, "bf16"), \
      TRANSPOSE(hidden, "e4m3"), TRANSPOSE(hidden, "f32")

#define QUANT(hidden, op, params) \
  { "quant", op, "hidden=" #hidden " " params, "num_tokens=8064", false }
#define QUANT_ROWS(hidden, op, params, more) \
  { "quant", op, "hidden=" #hidden " " params, "num_expanded_tokens=8064" more, false }
#define CHANNEL "in_dtype=bf16 fmt=e4m3"
#define SWIGLU_TOKEN "in_dtype=bf16 num_per_channels="
#define NORM "present.weight=true num_per_channels="
#define BACK "cast_back_and_per_channel_cast_and_transpose"
/* From quantised pairs, and back to numbers. */
#define QUANT_PAIRS(hidden)                                                            \
  QUANT(hidden, "per_token_cast",                                                      \
        "in_dtype=e4m3 fmt=e4m3 num_per_channels=128 present.x_sf=true"),              \
      QUANT(hidden, "per_token_cast",                                                  \
            "in_dtype=e2m1 fmt=e4m3 num_per_channels=128 present.x_sf=true "           \
            "x_num_per_channels=32"),                                                  \
      QUANT(hidden, "cast_back",                                                       \
            "in_dtype=e4m3 fmt=bf16 num_per_tokens=1 "                                 \
            "num_per_channels=128"),                                                   \
      QUANT(hidden, "cast_back",                                                       \
            "in_dtype=e2m1 fmt=bf16 num_per_tokens=1 "                                 \
            "num_per_channels=32"),                                                    \
      QUANT(hidden, "cast_back_e5m6", "fmt=bf16 num_per_channels=" #hidden),           \
      QUANT_ROWS(hidden, "per_channel_cast_fused",                                     \
                 "in_dtype=e4m3 fmt=e4m3 present.x_sf=true present.pos_to_token=true", \
                 " num_tokens=8064"),                                                  \
      QUANT(hidden, BACK, "in_dtype=e4m3 fmt=e4m3"),                                   \
      QUANT(hidden, BACK, "in_dtype=e4m3 fmt=e4m3 without_transpose=true")
#define QUANT_HIDDEN(hidden)                                                                     \
  QUANT(hidden, "per_block_cast", "in_dtype=bf16 fmt=e4m3"),                                     \
      QUANT(hidden, "per_block_cast", "in_dtype=bf16 fmt=e4m3 " PACKED),                         \
      QUANT(hidden, "per_block_cast",                                                            \
            "in_dtype=bf16 fmt=e4m3 num_per_tokens=32 num_per_channels=32"),                     \
      QUANT(hidden, "per_block_cast", "in_dtype=f32 fmt=e4m3"),                                  \
      QUANT(hidden, "per_block_cast",                                                            \
            "in_dtype=bf16 fmt=e2m1 num_per_tokens=32 num_per_channels=32"),                     \
      QUANT(hidden, "per_channel_cast", CHANNEL),                                                \
      QUANT(hidden, "per_channel_cast_and_transpose", "fmt=e4m3"),                               \
      QUANT(hidden, "per_channel_cast_and_transpose", "fmt=e4m3 num_per_tokens=32"),             \
      QUANT_ROWS(hidden, "per_channel_cast_fused", CHANNEL, ""),                                 \
      QUANT_ROWS(hidden, "per_channel_cast_fused", CHANNEL " present.pos_to_token=true",         \
                 " num_tokens=8064"),                                                            \
      QUANT_ROWS(hidden, "swiglu_forward_and_per_token_cast", SWIGLU_TOKEN "128", ""),           \
      QUANT_ROWS(hidden, "swiglu_forward_and_per_token_cast", SWIGLU_TOKEN "128 " PACKED, ""),   \
      QUANT_ROWS(hidden, "swiglu_forward_and_per_token_cast", SWIGLU_TOKEN "hidden", ""),        \
      QUANT_ROWS(hidden, "swiglu_forward_and_per_token_cast", SWIGLU_TOKEN "128 math=fast", ""), \
      QUANT_ROWS(hidden, "swiglu_forward_and_per_token_cast", SWIGLU_TOKEN "hidden math=fast",   \
                 ""),                                                                            \
      QUANT_ROWS(hidden, "swiglu_backward_and_per_token_cast", "num_per_channels=128",           \
                 " num_tokens=1008 num_topk=8"),                                                 \
      QUANT(hidden, "residual_rmsnorm_and_per_token_cast", NORM "128"),                          \
      QUANT(hidden, "residual_rmsnorm_and_per_token_cast", NORM "hidden"),                       \
      QUANT(hidden, "rmsnorm_and_per_token_cast_to_e2m1", NORM "16"),                            \
      QUANT(hidden, "geglu_and_per_token_cast", "num_per_channels=128"),                         \
      QUANT(hidden, "silu_and_mul_and_per_block_cast", "in_dtype=bf16"),                         \
      QUANT(hidden, "silu_and_mul_and_per_block_cast", "in_dtype=bf16 math=fast"),               \
      QUANT(hidden, "silu_and_mul_and_per_block_cast", "in_dtype=bf16 math=fast " PACKED),       \
      QUANT(hidden, "per_token_cast_to_e5m6", "in_dtype=bf16 num_per_channels=hidden"),          \
      QUANT(hidden, "per_token_cast_to_e5m6", "in_dtype=bf16 num_per_channels=128"),             \
      QUANT(hidden, "per_token_cast_to_e5m6", "in_dtype=bf16 num_per_channels=512")

/* As many tokens as a step of decoding has. */
#define QUANT_FEW(tokens)                                                                      \
  {"quant", "per_token_cast", "hidden=7168 in_dtype=bf16 fmt=e2m1 num_per_channels=32",        \
   "num_tokens=" #tokens, true},                                                               \
      {"quant", "per_block_cast", "hidden=7168 in_dtype=bf16 fmt=e4m3", "num_tokens=" #tokens, \
       true},                                                                                  \
      {"quant", "per_channel_cast", "hidden=7168 " CHANNEL, "num_tokens=" #tokens, true},      \
      {"quant", "swiglu_forward_and_per_token_cast", "hidden=7168 " SWIGLU_TOKEN "128",        \
       "num_expanded_tokens=" #tokens, true},                                                  \
      {"quant", "swiglu_backward_and_per_token_cast", "hidden=7168 num_per_channels=128",      \
       "num_expanded_tokens=" #tokens " num_tokens=" #tokens " num_topk=1", true},             \
  {                                                                                            \
    "quant", "residual_rmsnorm_and_per_token_cast", "hidden=7168 " NORM "128",                 \
        "num_tokens=" #tokens, true                                                            \
  }

/* Slots without padding: every row of the expert-major layout has one. */
#define EXPAND(hidden, op, params)                         \
  {                                                        \
    "moe", op, "num_topk=8 hidden=" #hidden " " params,    \
        "num_tokens=4096 num_expanded_tokens=32768", false \
  }
#define EXPAND_HIDDEN(hidden)                                                       \
  EXPAND(hidden, "expand_to_fused", "dtype=bf16"),                                  \
      EXPAND(hidden, "expand_to_fused_with_sf", "dtype=e4m3 num_per_channels=128"), \
      EXPAND(hidden, "expand_to_fused_with_sf",                                     \
             "dtype=e4m3 num_per_channels=128 " COL " use_packed_ue8m0=true"),      \
      EXPAND(hidden, "reduce_fused", "dtype=bf16 out_dtype=bf16 present.topk_weights=true")

#define ROUTE(tokens, op, params, more) \
  { "moe", op, params, "num_tokens=" #tokens more, true }
#define SLOTS(op, params, more) ROUTE(32768, op, "num_topk=8 " params, more)
#define TOP2_SUM "num_experts=256 num_topk=8 num_groups=8 num_topk_groups=4 scoring_func=sigmoid"
#define ONE_RANK " num_shared_experts=0 num_ep_ranks=1 ep_rank=0 num_tp_ranks=1 tp_rank=0"
#define GATES(tokens)                                 \
  ROUTE(tokens, "top2_sum_gate", TOP2_SUM, ONE_RANK), \
      ROUTE(tokens, "topk_gate", "num_experts=256 num_topk=8", "")

const struct bench_case bench_cases[] = {
    HIDDEN(7168),
    HIDDEN(4096),
    HIDDEN(2048),
    PER_TOKEN_SMALL(1, "128"),
    PER_TOKEN_SMALL(16, "128"),
    PER_TOKEN_SMALL(128, "128"),
    PER_TOKEN_SMALL(1, "hidden"),
    PER_TOKEN_SMALL(16, "hidden"),
    PER_TOKEN_SMALL(128, "hidden"),
    QUANT_HIDDEN(7168),
    QUANT_HIDDEN(4096),
    QUANT_HIDDEN(2048),
    QUANT_PAIRS(7168),
    QUANT_PAIRS(4096),
    QUANT_PAIRS(2048),
    QUANT_FEW(1),
    QUANT_FEW(16),
    QUANT_FEW(128),
    EXPAND_HIDDEN(7168),
    EXPAND_HIDDEN(4096),
    EXPAND_HIDDEN(2048),
    SLOTS("group_count", "num_groups=256", ""),
    SLOTS("aux_fi", "num_experts=256", " num_aux_topk=8"),
    SLOTS("mask_indices_by_tp", "", " n=256 num_ep_ranks=32 num_tp_ranks=4 tp_rank=1"),
    SLOTS("normalize_weight", "", ""),
    SLOTS("inplace_unique_group_indices", "num_groups=8", ""),
    GATES(32),
    GATES(4096),
    GATES(32768),
    ROUTE(4096, "get_fused_mapping", "num_experts=256 num_topk=8",
          " num_expanded_tokens=65280 alignment=128"),
    ROUTE(32768, "get_fused_mapping", "num_experts=256 num_topk=8",
          " num_expanded_tokens=294656 alignment=128"),
};
const size_t bench_num_cases = sizeof bench_cases / sizeof *bench_cases;
