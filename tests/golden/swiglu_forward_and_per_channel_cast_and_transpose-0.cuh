#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
constexpr i64 HIDDEN = 7168;
constexpr i64 NUM_PER_TOKENS = 128;
constexpr bool ROUND_SF = false;
constexpr bool WITHOUT_TRANSPOSE = false;
using code_t = e4m3;
constexpr int COLS = 7168;
constexpr int PARTS = 2;
constexpr int VALUES = 8;
constexpr int SF_ROWS = 128;
constexpr int SF_COLS = 1;
constexpr SfLayout SF_LAYOUT = SfLayout::ROW_MAJOR;
constexpr bool TRANSPOSED = true;
constexpr bool BF16_VALUES = true;
constexpr bool KEEPS_ZERO = true;
constexpr bool KEEPS_SKIPPED = false;
constexpr bool COUNTS = false;
constexpr bool COUNTS_NONFINITE = false;
constexpr bool COMPUTES_SF = true;
constexpr bool HAS_FULL = true;
using input_t = bf16;
constexpr int TILE_TOKENS = 128;
constexpr int TILE_CHANNELS = 64;
constexpr int TILE_THREADS = 256;
constexpr int TILE_BLOCKS_PER_SM = 5;
constexpr bool HAS_NONFINITE_COUNT = false;
constexpr bool HAS_SWIGLU_CLAMP_VALUE = false;
constexpr bool HAS_SF_CLAMP_MIN = false;
using x_t = bf16;
using out_t = e4m3;
using out_sf_t = f32;
using nonfinite_count_t = i64;
struct kiln_args {
  i64 num_tokens;
  const x_t* x;
  i64 x_stride0;
  out_t* out;
  i64 out_stride0;
  out_sf_t* out_sf;
  nonfinite_count_t* nonfinite_count;
  alignas(8) f32 swiglu_clamp_value;
  alignas(8) f32 sf_clamp_min;
};
static_assert(sizeof(kiln_args) == 72, "host and device agree on kiln_args");
KILN_DEVICE i64 chain_num_rows(const kiln_args& a) {
  return a.num_tokens;
}
template <class C> KILN_DEVICE auto chain_load(const kiln_args& a, C& c) {
  auto v0 = stage::load<PARTS>(c, a.x, a.x_stride0);
  auto v1 = stage::swiglu<false>(c, v0, none{}, none{});
  auto v2 = stage::round<bf16>(c, v1);
  return v2;
}
template <class C, class V> KILN_DEVICE void chain_store(const kiln_args& a, C& c, const V& v) {
  auto v3 = stage::quantize<e4m3, SF_ROWS, SF_COLS, SF_LAYOUT, false>(c, v, none{});
  auto v4 = stage::transpose(c, v3);
  stage::store(c, v4, a.out, a.out_stride0, a.out_sf, i64(0));
}
}  // namespace kiln
