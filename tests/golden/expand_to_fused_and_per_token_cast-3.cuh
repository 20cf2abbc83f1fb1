#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
constexpr i64 HIDDEN = 7168;
using in_dtype_t = bf16;
using fmt_t = e2m1;
constexpr i64 NUM_PER_CHANNELS = 32;
constexpr bool ROUND_SF = false;
constexpr bool USE_TMA_ALIGNED_COL_MAJOR_SF = false;
constexpr bool USE_PACKED_UE8M0 = false;
using code_t = e2m1;
constexpr int COLS = 7168;
constexpr int PARTS = 1;
constexpr int VALUES = 32;
constexpr int SF_ROWS = 1;
constexpr int SF_COLS = 32;
constexpr SfLayout SF_LAYOUT = SfLayout::ROW_MAJOR;
constexpr bool TRANSPOSED = false;
constexpr bool BF16_VALUES = true;
constexpr bool KEEPS_ZERO = true;
constexpr bool KEEPS_SKIPPED = false;
constexpr bool COUNTS = false;
constexpr bool COUNTS_NONFINITE = false;
constexpr bool COMPUTES_SF = true;
constexpr bool HAS_FULL = true;
constexpr bool IS_TALL = false;
constexpr int TILE_VALUES = 32;
constexpr int TILE_THREADS = 64;
constexpr int TILE_BLOCKS_PER_SM = 18;
constexpr bool HAS_NONFINITE_COUNT = false;
constexpr bool HAS_NUM_VALID_ROWS = false;
constexpr bool HAS_ERROR = false;
constexpr bool HAS_SF_CLAMP_MIN = false;
using x_t = bf16;
using pos_to_token_t = i32;
using pos_to_expert_t = i32;
using out_t = e2m1;
using out_sf_t = f32;
using nonfinite_count_t = i64;
using num_valid_rows_t = i32;
using error_t = i32;
struct kiln_args {
  i64 num_tokens;
  i64 num_expanded_tokens;
  const x_t* x;
  i64 x_stride0;
  const pos_to_token_t* pos_to_token;
  const pos_to_expert_t* pos_to_expert;
  out_t* out;
  out_sf_t* out_sf;
  nonfinite_count_t* nonfinite_count;
  const num_valid_rows_t* num_valid_rows;
  error_t* error;
  alignas(8) f32 sf_clamp_min;
};
static_assert(sizeof(kiln_args) == 96, "host and device agree on kiln_args");
KILN_DEVICE i64 chain_num_rows(const kiln_args& a) {
  return a.num_expanded_tokens;
}
template <class C> KILN_DEVICE auto chain_load(const kiln_args& a, C& c) {
  c.template skip<true>(c.row_value(a.pos_to_expert, 0) < 0);
  auto v0 = stage::load<PARTS>(c, a.x, gathered_rows{a.pos_to_token, a.num_tokens, a.x_stride0});
  return v0;
}
template <class C, class V> KILN_DEVICE void chain_store(const kiln_args& a, C& c, const V& v) {
  auto v1 = stage::quantize<e2m1, SF_ROWS, SF_COLS, SF_LAYOUT, false>(c, v, none{});
  stage::store(c, v1, a.out, i64(7168), a.out_sf, i64(0));
}
}  // namespace kiln
