// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/error.cuh"
#include "kiln/pair.cuh"
#include "kiln/scale.cuh"

namespace kiln::stage {

// The exponent of a scale factor, the nearest one where it is no power of two or has none.
KILN_DEVICE int exponent_of(f32 scale) {
  int exponent = int(__float_as_uint(scale) >> 23 & 0xff);
  return exponent < 1 ? 1 : exponent > 254 ? 254 : exponent;
}

// Codes of blocks of ROWS x COLS with powers of two as scale factors, to codes of the skeleton's blocks.
// The largest scale factor of a block moves down by 2^6, so that the others' codes, which shrink against
// it, find room in the small end of F (contract 1, per_block_cast_lossless). What finds none is rounded
// and reported, as is a scale factor that is no power of two.
template <class F, int ROWS, int COLS, class C, class V, class S, class R>
KILN_DEVICE auto requantize(C& c, const V& values, const S* sf, i64 row_stride, i64 column_stride, R rows,
                            i32* error) {
  constexpr int ROOM = 6, LEAST = -30;  // what is shrunk more than 2^LEAST is 0 as well
  constexpr int N = V::COUNT;
  ScaleGrid<ROWS, COLS, S, R> grid = {sf, row_stride, column_stride, rows};
  f32 scales[N], codes[N];
  bool is_lossy = false;
  int largest = 0;
  c.read_scales(grid, 0, scales);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    int exponent = exponent_of(scales[i]);
    if (!c.is_counted(i)) continue;
    is_lossy |= __float_as_uint(scales[i]) != u32(exponent) << 23;
    largest = exponent > largest ? exponent : largest;
  }
  largest = int(c.share(Amax{f32(largest), false, true}).value);
  int out = largest - ROOM > 1 ? largest - ROOM : 1;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    int power = exponent_of(scales[i]) - out;
    codes[i] = __fmul_rn(values.v[0][i], __uint_as_float(u32(127 + (power < LEAST ? LEAST : power)) << 23));
  }
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    f32 low = codes[i], high = i + 1 < N ? codes[min_int(i + 1, N - 1)] : 0.0f;
    f32 low_code = low, high_code = high;
    round_two(F{}, low_code, high_code);
    is_lossy |= low_code != low || high_code != high;
  }
  flag_stray(error, is_lossy);
  return c.template encode<F>(codes, Scale{__uint_as_float(u32(out) << 23), 0.0f, u32(out)});
}

}  // namespace kiln::stage
