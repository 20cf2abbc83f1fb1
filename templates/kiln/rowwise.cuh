// SPDX-License-Identifier: MIT
// What group.cu and row.cu share: quantised values of one row, and where their scale factor goes.
#pragma once
#include "kiln/access.cuh"
#include "kiln/scale.cuh"

namespace kiln {

template <class F, SfLayout L, int N> struct Quantized {
  static constexpr SfLayout LAYOUT = L;
  Codes<F, N> codes;
  Scale scale;
};

template <class F, SfLayout LAYOUT, bool ROUND, int N, class M>
KILN_DEVICE Quantized<F, LAYOUT, N> quantize_block(const f32 (&v)[N], Amax amax, M clamp_min) {
  Quantized<F, LAYOUT, N> q;
  q.scale = make_scale<F, ROUND>(amax, clamp_min);
  scale_and_encode(v, q.scale.inv, q.codes);
  return q;
}

// Writes the scale factor of block column `column`, or a packed word of four of them.
template <SfLayout LAYOUT, class S>
KILN_DEVICE void store_sf(S* sf, i64 row, i64 column, i64 columns, i64 ld, u32 bits) {
  i64 at = LAYOUT == SfLayout::ROW_MAJOR ? row * columns + column : column * ld + row;
  ptx::store_cs(reinterpret_cast<u32*>(sf) + at, bits);
}

}  // namespace kiln
