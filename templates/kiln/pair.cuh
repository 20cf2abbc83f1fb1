// SPDX-License-Identifier: MIT
// Scale factors that are given: of the blocks of a loaded matrix of codes, or of the result.
#pragma once
#include "kiln/rows.cuh"

namespace kiln {

// Row r of the chain is row r of the matrix that has the scale factors.
struct own_rows {
  KILN_DEVICE i64 offset(i64 row) const { return row; }
};

// A power of two from its exponent byte; 0 is 2^-127, a subnormal, and 255 NaN (OCP MX, E8M0).
KILN_DEVICE f32 from_ue8m0(u32 exponent) {
  u32 bits = exponent == 0 ? 0x00400000u : exponent << 23;
  return __uint_as_float(exponent == 255 ? 0x7fc00000u : bits);
}

// The scale factor of block column `column`: f32, or a byte of a word of four exponents.
KILN_DEVICE f32 scale_factor(const f32* row, i64 stride, int column) { return row[column * stride]; }
KILN_DEVICE f32 scale_factor(const i32* row, i64 stride, int column) {
  return from_ue8m0(u32(row[column / 4 * stride]) >> column % 4 * 8 & 0xff);
}

// Scale factors in any layout, one for ROWS x COLS values. `rows` tells which row of the matrix that
// has them a row of the chain comes from.
template <int ROWS, int COLS, class S, class R> struct ScaleGrid {
  static constexpr int BLOCK_COLS = COLS;
  const S* sf;
  i64 row_stride, column_stride;  // in elements
  R rows;

  // Of a value's block; 0 where the row comes from nowhere.
  KILN_DEVICE f32 at(i64 row, int column) const {
    i64 from = rows.offset(row);
    return from < 0 ? 0.0f : scale_factor(sf + from / ROWS * row_stride, column_stride, column / COLS);
  }
};

// The scale factors of N consecutive values of a row, 0 where they are not `inside`. ALIGNED divides their
// first column, so that as many of them at a time share a block.
template <int ALIGNED, int N, class G>
KILN_DEVICE void read_grid(const G& grid, bool inside, i64 row, int column, f32 (&out)[N]) {
  constexpr int RUN = common_divisor(common_divisor(ALIGNED, N), G::BLOCK_COLS);
#pragma unroll
  for (int i = 0; i < N; i += RUN) {
    f32 scale = inside ? grid.at(row, column + i) : 0.0f;
#pragma unroll
    for (int k = 0; k < RUN; ++k) out[i + k] = scale;
  }
}

}  // namespace kiln
