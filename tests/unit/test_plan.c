/* SPDX-License-Identifier: MIT */
/* Planning: what a request comes to, and every way to be refused. */
#include "plan_help.h"

#define CAST "hidden=7168 in_dtype=bf16 fmt=e4m3 num_per_channels=128"

struct refusal {
  const char *params;
  kiln_status status;
  const char *message;
};

static void expect_refusals(const char *name, const struct refusal *cases, size_t count) {
  struct kn_spec *spec = shipped_spec(name);
  for (size_t i = 0; i < count; ++i) {
    struct kn_plan *plan = make_plan(spec, "sm_90a", cases[i].params);
    if (plan) fail_msg("'%s' was planned", cases[i].params);
    assert_string_equal(kn_error_last()->message, cases[i].message);
    assert_int_equal(kn_error_last()->status, cases[i].status);
  }
  kn_spec_free(spec);
}

static void a_request_is_refused_in_one_sentence(void **state) {
  (void)state;
  static const struct refusal cases[] = {
      {"hidden=7168 in_dtype=bf16 fmt=e4m3 num_per_channels=48", KILN_E_UNSUPPORTED,
       "per_token_cast: num_per_channels is 48; allowed are 16, 32, 64, 128 and hidden (7168)"},
      {"hidden=7168 in_dtype=bf16 fmt=e4m3", KILN_E_ARGUMENT,
       "per_token_cast: num_per_channels is not given"},
      {CAST " round_fs=true", KILN_E_NOT_FOUND,
       "per_token_cast: there is no param 'round_fs'; did you mean round_sf?"},
      {CAST " hidden=64", KILN_E_ARGUMENT, "per_token_cast: hidden is given twice"},
      {CAST " use_packed_ue8m0=true", KILN_E_UNSUPPORTED,
       "per_token_cast: use_packed_ue8m0 is true, round_sf is false, use_tma_aligned_col_major_sf "
       "is false; required is use_packed_ue8m0 -> round_sf and use_tma_aligned_col_major_sf"},
      {"hidden=577 in_dtype=bf16 fmt=e2m1 num_per_channels=hidden", KILN_E_UNSUPPORTED,
       "per_token_cast: fmt is e2m1, hidden is 577; required is fmt == e2m1 -> hidden % 2 == 0"},
      {"hidden=580 in_dtype=bf16 fmt=e5m6 num_per_channels=hidden", KILN_E_UNSUPPORTED,
       "per_token_cast: fmt is e5m6, hidden is 580; required is fmt == e5m6 -> hidden % 8 == 0"},
      {"hidden=576 in_dtype=bf16 fmt=e4m3 num_per_channels=128", KILN_E_UNSUPPORTED,
       "per_token_cast: hidden is 576, num_per_channels is 128; required is hidden % "
       "num_per_channels == 0"},
      {CAST " tile.threads=100", KILN_E_UNSUPPORTED,
       "per_token_cast: tile.threads is 100; allowed are multiples of 32 up to 1024"},
      {CAST " tile.threads=x", KILN_E_ARGUMENT,
       "per_token_cast: tile.threads is 'x'; allowed are integers from 1 to 1048576"},
      {CAST " present.x=false", KILN_E_UNSUPPORTED, "per_token_cast: x is not optional"},
      {CAST " present.y=true", KILN_E_NOT_FOUND,
       "per_token_cast: present.y names no tensor or scalar"},
  };
  expect_refusals("quant/per_token_cast", cases, sizeof cases / sizeof *cases);
}

static void a_tile_that_needs_too_much_shared_memory_is_refused(void **state) {
  (void)state;
  static const struct refusal cases[] = {
      {"hidden=7168 tile.tokens=512 tile.channels=128 tile.threads=1024", KILN_E_UNSUPPORTED,
       "swiglu_forward_and_per_channel_cast_and_transpose: its tile needs 280576 bytes of shared "
       "memory; sm_90a allows 232448"},
  };
  expect_refusals("quant/swiglu_forward_and_per_channel_cast_and_transpose", cases, 1);
}

/* Blocks of one row have any width that divides it and keeps codes together which share bytes. */
static void a_scale_block_must_fit_the_row(void **state) {
  static const char text[] =
      "operator: op\n"
      "params:\n"
      "  hidden, m, n: {type: int, min: 1}\n"
      "  fmt: {type: dtype, one_of: [e4m3, e2m1, e5m6]}\n"
      "  norm: {type: bool, default: false}\n"
      "scalars: {eps: {type: f32}}\n"
      "tensors:\n"
      "  x: {role: in, dtype: bf16, shape: [num_tokens, hidden]}\n"
      "  out: {role: out, dtype: fmt, shape: [num_tokens, hidden]}\n"
      "chain: [{load: x}, {rmsnorm: {eps: eps, when: norm}}, {quantize: {to: fmt, sf_block: "
      "[m, n]}}, {store: {data: out}}]\n"
      "examples: [{hidden: 96, fmt: e4m3, m: 1, n: 24}]\n";
  static const struct {
    const char *params, *template_path, *message;
  } cases[] = {
      {"hidden=96 fmt=e4m3 m=1 n=32", "templates/group.cu", NULL},
      {"hidden=96 fmt=e4m3 m=1 n=24", "templates/row.cu", NULL},
      {"hidden=96 fmt=e4m3 m=1 n=24 norm=true", "templates/row.cu", NULL},
      {"hidden=98304 fmt=e4m3 m=1 n=6", "templates/row.cu", NULL},
      {"hidden=96 fmt=e4m3 m=1 n=36", NULL,
       "op: the scale block is (1, 36); allowed are (1, n) with n that divides the row (96), "
       "(32, 1), (128, 1), and not transposed or e5m6 {32, 128} x {32, 128}"},
      {"hidden=96 fmt=e4m3 m=2 n=24", NULL,
       "op: the scale block is (2, 24); allowed are (1, n) with n that divides the row (96), "
       "(32, 1), (128, 1), and not transposed or e5m6 {32, 128} x {32, 128}"},
      {"hidden=96 fmt=e4m3 m=1 n=36 norm=true", NULL,
       "op: rmsnorm comes with scale blocks of one row, (1, n) with n that divides the row (96), "
       "not of (1, 36)"},
      {"hidden=96 fmt=e4m3 m=32 n=32 norm=true", NULL,
       "op: rmsnorm comes with scale blocks of one row, (1, n) with n that divides the row (96), "
       "not of (32, 32)"},
      {"hidden=96 fmt=e2m1 m=1 n=3", NULL,
       "op: the scale block is (1, 3); allowed are multiples of 2, so that codes which share bytes "
       "share a scale factor"},
      {"hidden=96 fmt=e5m6 m=1 n=12", NULL,
       "op: the scale block is (1, 12); allowed are multiples of 8, so that codes which share "
       "bytes share a scale factor"},
      {"hidden=98304 fmt=e4m3 m=1 n=3", NULL,
       "op: its tile needs 262208 bytes of shared memory; sm_90a allows 232448"},
  };
  (void)state;
  struct kn_spec *spec = parse_spec("op.yaml", text);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    struct kn_plan *plan = make_plan(spec, "sm_90a", cases[i].params);
    if (cases[i].template_path) {
      if (!plan) fail_msg("'%s': %s", cases[i].params, kn_error_last()->message);
      assert_string_equal(plan->template_path, cases[i].template_path);
      kn_plan_free(plan);
      continue;
    }
    if (plan) fail_msg("'%s' was planned", cases[i].params);
    assert_string_equal(kn_error_last()->message, cases[i].message);
    assert_int_equal(kn_error_last()->status, KILN_E_UNSUPPORTED);
  }
  kn_spec_free(spec);
}

/* A chain around the stages given, on x [T, hidden] -> out, out_sf. */
static const char *chain_spec(char *text, size_t capacity, const char *chain) {
  (void)snprintf(text, capacity,
                 "operator: op\n"
                 "params: {hidden: {type: int, min: 1}, flag: {type: bool, default: false}}\n"
                 "tensors:\n"
                 "  x: {role: in, dtype: bf16, shape: [num_tokens, hidden], strides: [any, 1]}\n"
                 "  out: {role: out, dtype: e4m3, shape: [num_tokens, hidden]}\n"
                 "  out_sf: {role: out, sf_of: out, block: [1, hidden]}\n"
                 "  b: {role: in, dtype: i32, shape: [hidden]}\n"
                 "  less: {role: in, dtype: f32, shape: [63]}\n"
                 "  w: {role: in, dtype: f32, shape: [num_routed, 8]}\n"
                 "  n: {role: in, dtype: i64, shape: [3]}\n"
                 "  routed: {role: out, dtype: e4m3, shape: [num_routed, hidden]}\n"
                 "  q: {role: in, dtype: e2m1, shape: [num_tokens, hidden]}\n"
                 "  q_sf: {role: in, sf_of: q, block: [32, 16], strides: [any, any]}\n"
                 "  word: {role: inout, dtype: i32, shape: [2]}\n"
                 "  out_bf16: {role: out, dtype: bf16, shape: [num_tokens, hidden]}\n"
                 "  blocks: {role: out, sf_of: out, block: [2, 16]}\n"
                 "chain: %s\nexamples: [{hidden: 64}]\n",
                 chain);
  return text;
}

static void a_stage_list_that_cannot_work_is_refused_with_the_reason(void **state) {
  (void)state;
  static const struct {
    const char *chain, *message;
  } cases[] = {
      {"[{load: x}, {quantise: {to: e4m3, sf_block: [1, hidden]}}, {store: {data: out, sf: "
       "out_sf}}]",
       "op: stage quantise: there is no such stage; did you mean quantize?"},
      {"[{round: bf16}, {load: x}]",
       "op: stage round: it needs values, but the chain holds nothing here"},
      {"[{load: x}, transpose, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage transpose: it needs quantised codes, but the chain holds values here"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage quantize: the chain ends here with quantised codes; it must end in store"},
      {"[{load: out}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage load: 'out' is no input tensor of the spec"},
      {"[{load: x}, {swiglu: {clip: flag}}]",
       "op: stage swiglu: it has no argument 'clip'; did you mean clamp?"},
      {"[{load: x}, {quantize: {to: e4m3}}]",
       "op: stage quantize: it needs the block that shares a scale: sf_block: [rows, columns]"},
      {"[{load: x}, {quantize: {to: f32, sf_block: [1, hidden]}}]",
       "op: stage quantize: to is f32; allowed are e4m3, e5m2, e2m1 and e5m6"},
      {"[{load: x}, {round: i32}]",
       "op: stage round: it rounds to bf16, f16, e4m3 or e5m2, not to i32"},
      {"[{load: {data: x, gather: less}}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage load: less is f32; allowed: i32"},
      {"[{load: {data: x, gather: b}}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage load: axis 0 of b must be a run-time size by name"},
      {"[{load: {data: x, skip: b}}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage load: b must have as many elements as the chain has rows"},
      {"[{load: {data: x, masked: b}}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage load: b counts rows of a batch: x must have rank 3"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [1, hidden]}}, {store: {data: routed, sf: "
       "out_sf}}]",
       "op: stage store: axis 0 of routed must be the chain's rows, num_tokens"},
      {"[{load: q}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage quantize: it needs values, but the chain holds codes without their scale factors "
       "here"},
      {"[{load: x}, {dequantize: {sf: q_sf, block: [32, 16]}}]",
       "op: stage dequantize: it needs codes without their scale factors, but the chain holds "
       "values here"},
      {"[{load: q}, {dequantize: {sf: q_sf}}]",
       "op: stage dequantize: it needs the block that shares a scale: block: [rows, columns]"},
      {"[{load: q}, {dequantize: {sf: q_sf, block: [0, 16]}}]",
       "op: stage dequantize: block has 0; allowed are numbers from 1 to 1073741824"},
      {"[{load: q}, {dequantize: {sf: w, block: [32, 16]}}]",
       "op: stage dequantize: w must have one scale factor for each block of (32, 16): 4 columns, "
       "and as many rows as there are such blocks"},
      {"[{load: q}, {dequantize: {sf: q_sf, block: [32, 32]}}]",
       "op: stage dequantize: q_sf must have one scale factor for each block of (32, 32): 2 "
       "columns, and as many rows as there are such blocks"},
      {"[{load: q}, {dequantize: {sf: x, block: [1, 1]}}]",
       "op: stage dequantize: x is bf16; allowed are f32, and i32 of packed exponents"},
      {"[{load: q}, {dequantize: {sf: out_sf, block: [1, hidden]}}]",
       "op: stage dequantize: sf must name an input tensor of the spec"},
      {"[{load: {data: x, valid: b}}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage load: b must have 1 element"},
      {"[{load: {data: x, error: b}}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage load: error needs a map of rows: gather"},
      {"[{load: {data: x, valid: less}}, {quantize: {to: e4m3, sf_block: [1, hidden]}}]",
       "op: stage load: less is f32; allowed: i32"},
      {"[{load: x}, {store: {data: out}}]",
       "op: stage store: out is e4m3; values are stored as f32, f16 or bf16"},
      {"[{load: x}, {store: {data: out_bf16, sf: out_sf}}]",
       "op: stage store: the chain computes no scale factors to store"},
      {"[{load: x}, store]", "op: stage store: it needs an output: data, sf or both"},
      {"[{load: x}, {store: {data: x}}]",
       "op: stage store: data must name an output tensor of the "
       "spec"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [32, 16], sf: q_sf, clamp_min: flag}}]",
       "op: stage quantize: clamp_min bounds scale factors that are computed, not given"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [32, 16], sf: q_sf}}, {store: {data: out, sf: "
       "out_sf}}]",
       "op: stage store: the chain computes no scale factors to store"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [1, hidden]}}, transpose, {store: {sf: "
       "out_sf}}]",
       "op: stage store: it needs an output for the transposed codes: data"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [1, hidden]}}, {store: {data: out, sf: "
       "blocks}}]",
       "op: stage store: blocks must have one scale factor for each block of (1, 64): 1 columns, "
       "and as many rows as there are such blocks"},
      {"[{load: x}, {requantize: {to: e4m3, sf_block: [32, 32], sf: q_sf, block: [32, 16]}}]",
       "op: stage requantize: it needs codes without their scale factors, but the chain holds "
       "values here"},
      {"[{load: q}, {requantize: {to: e5m2, sf_block: [32, 32], sf: q_sf, block: [32, 16]}}]",
       "op: stage requantize: it moves e2m1 to e4m3, not e2m1 to e5m2"},
      {"[{load: q}, {requantize: {to: e4m3, sf_block: [1, 32], sf: q_sf, block: [32, 16]}}]",
       "op: stage requantize: sf_block is (1, 32); allowed are multiples of block, (32, 16)"},
      {"[{load: q}, {requantize: {to: e4m3, sf_block: [32, 32], sf: q_sf, block: [32, 16], error: "
       "word}}]",
       "op: stage requantize: word must be an inout tensor of one element"},
      {"[{load: x}, {quantize: {preset: mxfp6}}]",
       "op: stage quantize: preset is mxfp6; allowed are mxfp8, mxfp4 and nvfp4"},
      {"[{load: x}, {quantize: {preset: mxfp8, sf_block: [1, 16]}}]",
       "op: stage quantize: mxfp8 says already what 'sf_block' is"},
      {"[{load: x}, {quantize: {preset: nvfp4}}]",
       "op: stage quantize: nvfp4 needs the unit of its scale factors: global, one f32"},
      {"[{load: x}, {quantize: {preset: nvfp4, global: less}}]",
       "op: stage quantize: nvfp4 needs the unit of its scale factors: global, one f32"},
      {"[{load: x}, {quantize: {preset: mxfp4, global: less}}]",
       "op: stage quantize: global is the unit of nvfp4's scale factors, of no others"},
      {"[{load: x}, {swiglu: {count: b}}]", "op: stage swiglu: b is i32; allowed: i64"},
      {"[{load: x}, {swiglu: {count: n}}]",
       "op: stage swiglu: n must be an inout tensor of 3 elements"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [1, hidden], nonfinite: b}}]",
       "op: stage quantize: b is i32; allowed: i64"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [1, hidden], nonfinite: n}}]",
       "op: stage quantize: n must be an inout tensor of one element"},
      {"[{load: x}, {quantize: {to: e4m3, sf_block: [1, hidden], nonfinite: flag}}]",
       "op: stage quantize: 'flag' is no input tensor of the spec"},
      {"[{load: x}, {swiglu: {math: flag}}]", "op: math must be a word"},
      {"[{load: x}, {geglu: {math: flag}}]", "op: stage geglu: it has no argument 'math'"},
      {"[{load: x}, residual_add]", "op: stage residual_add: it needs a tensor: in"},
      {"[{load: x}, {residual_add: {in: out}}]",
       "op: stage residual_add: out is e4m3; allowed: f32, f16, bf16"},
      {"[{load: x}, {residual_add: {in: w}}]",
       "op: stage residual_add: w must be a matrix of the chain's rows and 64 columns, which have "
       "stride 1"},
      {"[{load: x}, {residual_add: {in: x, out: x}}]",
       "op: stage residual_add: out must name an output tensor of the dtype of in, bf16"},
      {"[{load: x}, rmsnorm]", "op: stage rmsnorm: it needs a scalar: eps"},
      {"[{load: x}, {silu: {clamp: flag}}]", "op: stage silu: it has no argument 'clamp'"},
      {"[{load: x}, geglu, swiglu]", "op: stage swiglu: only one gate can stand in a chain"},
      {"[{load: x}, {clamp: {max: flag}}]", "op: stage clamp: 'flag' is no scalar of the spec"},
      {"[{load: x}, clamp]", "op: stage clamp: it needs a scalar: min, max or both"},
      {"[{load: x}, add_bias]", "op: stage add_bias: it needs a tensor: bias"},
      {"[{load: x}, {add_bias: {bias: out}}]",
       "op: stage add_bias: 'out' is no input tensor of the spec"},
      {"[{load: x}, {add_bias: {bias: x}}]", "op: stage add_bias: x has rank 2; allowed is 1"},
      {"[{load: x}, {add_bias: {bias: b}}]",
       "op: stage add_bias: b is i32; allowed: f32, f16, bf16"},
      {"[{load: x}, {add_bias: {bias: less}}]",
       "op: stage add_bias: less must have the chain's 64 columns"},
      {"[{load: x}, {scale_by_weight: {weights: w}}]",
       "op: stage scale_by_weight: it needs two tensors, weights and index: both or none"},
      {"[{load: x}, {scale_by_weight: {weights: w, index: b}}]",
       "op: stage scale_by_weight: b must have as many elements as the chain has rows"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[2048];
    struct kn_spec *spec = parse_spec("op.yaml", chain_spec(text, sizeof text, cases[i].chain));
    struct kn_plan *plan = make_plan(spec, "sm_90a", "hidden=64");
    if (plan) fail_msg("'%s' was planned", cases[i].chain);
    assert_string_equal(kn_error_last()->message, cases[i].message);
    assert_int_equal(kn_error_last()->line, 17); /* the place in the spec */
    kn_spec_free(spec);
  }
}

static void rows_are_skipped_where_a_scale_block_has_one(void **state) {
  static const char *const blocks[] = {"[32, 32]", "[128, 1]"};
  (void)state;
  for (size_t i = 0; i < 2; ++i) {
    char text[1024], message[128];
    (void)snprintf(text, sizeof text,
                   "operator: op\n"
                   "params: {hidden: {type: int, min: 1}}\n"
                   "tensors:\n"
                   "  x: {role: in, dtype: bf16, shape: [num_tokens, hidden]}\n"
                   "  n: {role: in, dtype: i32, shape: [1]}\n"
                   "  out: {role: out, dtype: e4m3, shape: [num_tokens, hidden]}\n"
                   "chain: [{load: {data: x, valid: n}}, {quantize: {to: e4m3, sf_block: %s}}, "
                   "{store: {data: out}}]\nexamples: [{hidden: 64}]\n",
                   blocks[i]);
    (void)snprintf(message, sizeof message,
                   "op: rows are skipped where scale blocks are of one row, not of %d",
                   i ? 128 : 32);
    struct kn_spec *spec = parse_spec("op.yaml", text);
    assert_null(make_plan(spec, "sm_90a", "hidden=64"));
    assert_string_equal(kn_error_last()->message, message);
    kn_spec_free(spec);
  }
}

static void swiglu_needs_an_even_row(void **state) {
  char text[2048];
  (void)state;
  struct kn_spec *spec =
      parse_spec("op.yaml", chain_spec(text, sizeof text, "[{load: x}, swiglu]"));
  assert_null(make_plan(spec, "sm_90a", "hidden=65"));
  assert_string_equal(
      kn_error_last()->message,
      "op: stage swiglu: the loaded row has 65 columns; gate and up need an even number");
  kn_spec_free(spec);
}

static void a_param_may_name_another(void **state) {
  (void)state;
  struct kn_spec *spec = shipped_spec("quant/per_token_cast");
  struct kn_plan *named =
      make_plan(spec, "sm_90a", "hidden=7168 in_dtype=bf16 fmt=e4m3 num_per_channels=hidden");
  struct kn_plan *given =
      make_plan(spec, "sm_90a", "hidden=7168 in_dtype=bf16 fmt=e4m3 num_per_channels=7168");
  assert_non_null(named);
  assert_non_null(given);
  assert_string_equal(named->canonical, given->canonical);
  assert_string_equal(named->template_path, "templates/row.cu");
  kn_plan_free(named);
  kn_plan_free(given);
  kn_spec_free(spec);
}

static void slots_follow_the_spec(void **state) {
  static const char *const fields[] = {
      "num_tokens",     "x",           "x_stride0",    "out",          "out_sf",
      "out_sf_ld",      "x_sf",        "x_sf_stride0", "x_sf_stride1", "nonfinite_count",
      "num_valid_rows", "sf_clamp_min"};
  (void)state;
  struct kn_spec *spec = shipped_spec("quant/per_token_cast");
  struct kn_plan *plan = make_plan(spec, "sm_100a", CAST " use_tma_aligned_col_major_sf=true");
  assert_non_null(plan);
  assert_int_equal(plan->num_slots, sizeof fields / sizeof *fields);
  for (size_t i = 0; i < plan->num_slots; ++i) assert_string_equal(plan->slots[i].field, fields[i]);
  assert_string_equal(plan->chain_text,
                      "load x\n"
                      "quantize to=e4m3 rows=1 cols=128 round_sf=0 layout=col_major\n"
                      "store data=out sf=out_sf\n");
  kn_plan_free(plan);
  kn_spec_free(spec);
}

static void a_transpose_left_out_swaps_the_axes(void **state) {
  (void)state;
  struct kn_spec *spec = shipped_spec("quant/swiglu_forward_and_per_channel_cast_and_transpose");
  struct kn_plan *plan = make_plan(spec, "sm_90a", "hidden=256 without_transpose=true");
  const kiln_dim dim = {"num_tokens", 48};
  kiln_arg_info info;
  kiln_arg_info_init(&info);
  assert_non_null(plan);
  assert_int_equal(kn_plan_arg_info(plan, 1, &dim, 1, &info), KILN_OK);
  assert_string_equal(info.name, "out");
  assert_int_equal(info.shape[0], 48);
  assert_int_equal(info.shape[1], 256);
  kn_plan_free(plan);
  kn_spec_free(spec);
}

static void params_are_solved_from_tensors(void **state) {
  const int64_t x_shape[2] = {5, 512}, out_shape[2] = {256, 5};
  const kiln_arg args[] = {
      {.name = "x", .tensor = kiln_tensor_make(NULL, KILN_BF16, 2, x_shape)},
      {.name = "out", .tensor = kiln_tensor_make(NULL, KILN_E4M3, 2, out_shape)},
      {.name = "swiglu_clamp_value", .is_scalar = 1, .scalar = 7}};
  struct kn_arena arena = {0};
  kiln_param *params = NULL;
  size_t count = 0;
  const kiln_param wrong = {"hidden", "128"};
  (void)state;
  struct kn_spec *spec = shipped_spec("quant/swiglu_forward_and_per_channel_cast_and_transpose");
  assert_int_equal(kn_plan_solve(spec, &arena, NULL, 0, args, 3, &params, &count), KILN_OK);
  assert_int_equal(count, 2);
  assert_string_equal(params[0].name, "hidden");
  assert_string_equal(params[0].value, "256");
  assert_string_equal(params[1].name, "present.swiglu_clamp_value");
  assert_int_equal(kn_plan_solve(spec, &arena, &wrong, 1, args, 3, &params, &count),
                   KILN_E_ARGUMENT);
  assert_string_equal(
      kn_error_last()->message,
      "swiglu_forward_and_per_channel_cast_and_transpose: hidden is 128, but x says "
      "256");
  kn_arena_release(&arena);
  kn_spec_free(spec);
}

static void a_row_waits_where_it_fits(void **state) {
  static const struct {
    const char *params, *where;
  } cases[] = {
      {"hidden=7168 num_per_channels=hidden", "in registers"},
      {"hidden=7168 num_per_channels=128", "in registers"},
      {"hidden=32768 num_per_channels=hidden", "in registers"},
      {"hidden=40960 num_per_channels=128", "in shared memory"},
      {"hidden=65536 num_per_channels=hidden", "nowhere and is read again"},
  };
  (void)state;
  struct kn_spec *spec = shipped_spec("quant/residual_rmsnorm_and_per_token_cast");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    struct kn_plan *plan = make_plan(spec, "sm_90a", cases[i].params);
    assert_non_null(plan);
    assert_string_equal(plan->template_path, "templates/row.cu");
    assert_string_equal(plan->row_held, cases[i].where);
    kn_plan_free(plan);
  }
  kn_spec_free(spec);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_is_refused_in_one_sentence),
      cmocka_unit_test(a_tile_that_needs_too_much_shared_memory_is_refused),
      cmocka_unit_test(a_scale_block_must_fit_the_row),
      cmocka_unit_test(a_stage_list_that_cannot_work_is_refused_with_the_reason),
      cmocka_unit_test(rows_are_skipped_where_a_scale_block_has_one),
      cmocka_unit_test(swiglu_needs_an_even_row),
      cmocka_unit_test(a_param_may_name_another),
      cmocka_unit_test(slots_follow_the_spec),
      cmocka_unit_test(a_transpose_left_out_swaps_the_axes),
      cmocka_unit_test(params_are_solved_from_tensors),
      cmocka_unit_test(a_row_waits_where_it_fits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
