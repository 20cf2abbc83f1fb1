#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
constexpr i64 HIDDEN = 2048;
using in_dtype_t = bf16;
using fmt_t = e4m3;
constexpr i64 NUM_PER_CHANNELS = 128;
constexpr int MATH_EXACT = 0;
constexpr int MATH = MATH_EXACT;
constexpr int MATH_FAST = 1;
constexpr bool ZERO_SKIPPED = true;
constexpr bool ROUND_SF = true;
constexpr bool USE_TMA_ALIGNED_COL_MAJOR_SF = true;
constexpr bool USE_PACKED_UE8M0 = true;
using code_t = e4m3;
constexpr int COLS = 2048;
constexpr int PARTS = 2;
constexpr int VALUES = 16;
constexpr int SF_ROWS = 1;
constexpr int SF_COLS = 128;
constexpr SfLayout SF_LAYOUT = SfLayout::PACKED_UE8M0;
constexpr bool TRANSPOSED = false;
constexpr bool BF16_VALUES = false;
constexpr bool KEEPS_ZERO = true;
constexpr bool KEEPS_SKIPPED = false;
constexpr bool COUNTS = true;
constexpr bool COUNTS_NONFINITE = false;
constexpr bool COMPUTES_SF = true;
constexpr bool HAS_FULL = true;
constexpr bool IS_TALL = true;
constexpr int TILE_VALUES = 16;
constexpr int TILE_THREADS = 512;
constexpr int TILE_BLOCKS_PER_SM = 2;
constexpr bool HAS_TOPK_WEIGHTS = true;
constexpr bool HAS_POS_TO_TOKEN_TOPK = true;
constexpr bool HAS_POS_TO_EXPERT = true;
constexpr bool HAS_CLAMPED_COUNT = true;
constexpr bool HAS_NONFINITE_COUNT = false;
constexpr bool HAS_NUM_VALID_ROWS = false;
constexpr bool HAS_ERROR = false;
constexpr bool HAS_SWIGLU_CLAMP_VALUE = true;
constexpr bool HAS_SF_CLAMP_MIN = false;
using x_t = bf16;
using topk_weights_t = f32;
using pos_to_token_topk_t = i32;
using pos_to_expert_t = i32;
using clamped_count_t = i64;
using out_t = e4m3;
using out_sf_t = i32;
using nonfinite_count_t = i64;
using num_valid_rows_t = i32;
using error_t = i32;
struct kiln_args {
  i64 num_expanded_tokens;
  i64 num_tokens;
  i64 num_topk;
  const x_t* x;
  i64 x_stride0;
  const topk_weights_t* topk_weights;
  const pos_to_token_topk_t* pos_to_token_topk;
  const pos_to_expert_t* pos_to_expert;
  clamped_count_t* clamped_count;
  out_t* out;
  out_sf_t* out_sf;
  i64 out_sf_ld;
  nonfinite_count_t* nonfinite_count;
  const num_valid_rows_t* num_valid_rows;
  error_t* error;
  alignas(8) f32 swiglu_clamp_value;
  alignas(8) f32 sf_clamp_min;
};
static_assert(sizeof(kiln_args) == 136, "host and device agree on kiln_args");
KILN_DEVICE i64 chain_num_rows(const kiln_args& a) {
  return a.num_expanded_tokens;
}
template <class C> KILN_DEVICE auto chain_load(const kiln_args& a, C& c) {
  c.template skip<true>(c.row_value(a.pos_to_expert, 0) < 0);
  i32 i2 = c.row_value(a.pos_to_token_topk, -1);
  auto v0 = stage::load<PARTS>(c, a.x, a.x_stride0);
  auto w2 = stage::find_weight(a.topk_weights, a.num_tokens * a.num_topk, i2);
  auto v1 = stage::swiglu<false>(c, v0, a.swiglu_clamp_value, a.clamped_count);
  auto v2 = stage::scale_by_weight(c, v1, w2);
  return v2;
}
template <class C, class V> KILN_DEVICE void chain_store(const kiln_args& a, C& c, const V& v) {
  auto v3 = stage::quantize<e4m3, SF_ROWS, SF_COLS, SF_LAYOUT, true>(c, v, none{});
  stage::store(c, v3, a.out, i64(2048), a.out_sf, a.out_sf_ld);
}
}  // namespace kiln
