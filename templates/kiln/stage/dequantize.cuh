// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/pair.cuh"

namespace kiln::stage {

// code * sf of blocks of ROWS x COLS; `rows` maps the chain's rows to those of the codes.
template <int ROWS, int COLS, class C, class V, class S, class R>
KILN_DEVICE V dequantize(C& c, V values, const S* sf, i64 row_stride, i64 column_stride, R rows) {
  ScaleGrid<ROWS, COLS, S, R> grid = {sf, row_stride, column_stride, rows};
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
    f32 scales[V::COUNT];
    c.read_scales(grid, part, scales);
#pragma unroll
    for (int i = 0; i < V::COUNT; ++i) values.v[part][i] = __fmul_rn(values.v[part][i], scales[i]);
  }
  return values;
}

}  // namespace kiln::stage
