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
#define QUANT_HIDDEN(hidden)                                                 \
  QUANT(hidden, "per_block_cast", "in_dtype=bf16 fmt=e4m3"),                 \
      QUANT(hidden, "per_block_cast", "in_dtype=bf16 fmt=e4m3 " PACKED),     \
      QUANT(hidden, "per_block_cast",                                        \
            "in_dtype=bf16 fmt=e4m3 num_per_tokens=32 num_per_channels=32"), \
      QUANT(hidden, "per_block_cast", "in_dtype=f32 fmt=e4m3"),              \
      QUANT(hidden, "per_block_cast",                                        \
            "in_dtype=bf16 fmt=e2m1 num_per_tokens=32 num_per_channels=32")

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
};
const size_t bench_num_cases = sizeof bench_cases / sizeof *bench_cases;
