#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
constexpr i64 HIDDEN = 7168;
using in_dtype_t = e4m3;
using fmt_t = bf16;
constexpr i64 NUM_PER_CHANNELS = 128;
constexpr bool USE_PACKED_UE8M0 = false;
using code_t = bf16;
constexpr int COLS = 7168;
constexpr int PARTS = 1;
constexpr int VALUES = 16;
constexpr int SF_ROWS = 1;
constexpr int SF_COLS = 16;
constexpr SfLayout SF_LAYOUT = SfLayout::ROW_MAJOR;
constexpr bool TRANSPOSED = false;
constexpr bool BF16_VALUES = false;
constexpr bool KEEPS_ZERO = true;
constexpr bool KEEPS_SKIPPED = false;
constexpr bool COUNTS = false;
constexpr bool COUNTS_NONFINITE = false;
constexpr bool COMPUTES_SF = false;
constexpr bool HAS_FULL = true;
constexpr bool IS_TALL = false;
constexpr int TILE_VALUES = 16;
constexpr int TILE_THREADS = 448;
constexpr int TILE_BLOCKS_PER_SM = 3;
constexpr bool HAS_NUM_VALID_ROWS = false;
using x_t = e4m3;
using x_sf_t = f32;
using out_t = bf16;
using num_valid_rows_t = i32;
struct kiln_args {
  i64 num_tokens;
  const x_t* x;
  i64 x_stride0;
  const x_sf_t* x_sf;
  i64 x_sf_stride0;
  i64 x_sf_stride1;
  out_t* out;
  const num_valid_rows_t* num_valid_rows;
};
static_assert(sizeof(kiln_args) == 64, "host and device agree on kiln_args");
KILN_DEVICE i64 chain_num_rows(const kiln_args& a) {
  return a.num_tokens;
}
template <class C> KILN_DEVICE auto chain_load(const kiln_args& a, C& c) {
  auto v0 = stage::load<PARTS>(c, a.x, a.x_stride0);
  auto v1 = stage::dequantize<1, 128>(c, v0, a.x_sf, a.x_sf_stride0, a.x_sf_stride1, own_rows{});
  return v1;
}
template <class C, class V> KILN_DEVICE void chain_store(const kiln_args& a, C& c, const V& v) {
  stage::store(c, v, a.out, i64(7168), none{}, i64(0));
}
}  // namespace kiln
