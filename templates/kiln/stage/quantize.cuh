// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/pair.cuh"
#include "kiln/scale.cuh"

namespace kiln::stage {

// Codes and scale factors of blocks of ROWS x COLS. How a block's amax comes together is the
// skeleton's business: its threads hold the block.
template <class F, int ROWS, int COLS, SfLayout LAYOUT, bool ROUND, class C, class V, class M>
KILN_DEVICE auto quantize(C& c, const V& values, M clamp_min) {
  static_assert(V::PARTS == 1, "a gate must come before quantize");
  static_assert(ROWS == C::SF_BLOCK_ROWS && COLS == C::SF_BLOCK_COLS, "the skeleton's block");
  return c.template quantize<F, LAYOUT, ROUND>(values.v[0], clamp_min);
}

// Counts the values that are quantised and NaN or infinite.
template <class C, class V> KILN_DEVICE void count_nonfinite(C& c, const V& values, i64* counter) {
  static_assert(V::PARTS == 1, "a gate must come before quantize");
  c.nonfinite.to = counter;
  c.count_nonfinite(values.v[0]);
}

// Codes by scale factors that are given: cvt(x * (1 / sf)).
template <class F, int ROWS, int COLS, class C, class V, class S>
KILN_DEVICE auto quantize_by(C& c, const V& values, const S* sf, i64 row_stride, i64 column_stride) {
  static_assert(V::PARTS == 1, "a gate must come before quantize");
  ScaleGrid<ROWS, COLS, S, own_rows> grid = {sf, row_stride, column_stride, {}};
  f32 scales[V::COUNT], scaled[V::COUNT];
  c.read_scales(grid, 0, scales);
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) {
    scaled[i] = __fmul_rn(values.v[0][i], __fdiv_rn(1.0f, scales[i]));
  }
  return c.template encode<F>(scaled);
}

// NVFP4: a block's scale is an e4m3, in units of one f32 for the whole matrix. Codes are quotients by the
// scale that e4m3 can hold, 0 where it has nothing left to divide by.
template <class F, bool IS_BF16, class C, class V>
KILN_DEVICE auto quantize_nvfp4(C& c, const V& values, const f32* global) {
  static_assert(V::PARTS == 1, "a gate must come before quantize");
  const f32 unit = *global;
  Amax amax = c.share(amax_of<F, IS_BF16>(values.v[0]));
  f32 sf = __fdiv_rn(__fdiv_rn(fminf(amax.value, F32_MAX), fmt_max<F>::VALUE), unit);
  u32 code = ptx::e4m3x2_from_f32(sf, 0.0f) & 0xff;
  f32 decoded, beyond, scaled[V::COUNT];
  unpack_two(e4m3{}, code, decoded, beyond);
  f32 divisor = __fmul_rn(decoded, unit);
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) scaled[i] = divisor == 0.0f ? 0.0f : __fdiv_rn(values.v[0][i], divisor);
  if (amax.has_nan) code = 0x7f;  // so that no NaN is lost
  return c.template encode<F>(scaled, Scale{__uint_as_float(code), 0.0f, 0});
}

}  // namespace kiln::stage
