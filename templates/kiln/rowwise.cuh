// SPDX-License-Identifier: MIT
// What group.cu and row.cu share: where the scale factors of a row's blocks go.
#pragma once
#include "kiln/columns.cuh"
#include "kiln/gate.cuh"
#include "kiln/pair.cuh"
#include "kiln/scale.cuh"

namespace kiln {

// The codes of a row that is skipped are 0, whatever a stage made of its zeros.
template <class F, int N> KILN_DEVICE Codes<F, N> zero_if(bool skipped, Codes<F, N> codes) {
#pragma unroll
  for (int i = 0; i < Codes<F, N>::WORDS; ++i) codes.w[i] = skipped ? 0 : codes.w[i];
  return codes;
}

// Writes a scale factor's bits: a word, or the byte of an e4m3.
template <class S> KILN_DEVICE void put_sf(S* sf, i64 index, u32 bits) {
  if constexpr (sizeof(S) == 1) {
    ptx::store_cs(reinterpret_cast<u8*>(sf) + index, u8(bits));
  } else {
    ptx::store_cs(reinterpret_cast<u32*>(sf) + index, bits);
  }
}

// Writes the scale factor of block column `column`, or a packed word of four of them.
template <SfLayout LAYOUT, class S>
KILN_DEVICE void store_sf(S* sf, i64 row, i64 column, i64 columns, i64 ld, u32 bits) {
  put_sf(sf, LAYOUT == SfLayout::ROW_MAJOR ? row * columns + column : column * ld + row, bits);
}

// The sum of N values by halves: in lanes and threads alike, so that the order of a row's sum is a
// binary tree over its columns, whatever the number of threads and values of each.
template <int N> KILN_DEVICE f32 tree_sum(f32 (&v)[N]) {
#pragma unroll
  for (int step = 1; step < N; step *= 2) {
#pragma unroll
    for (int i = 0; i < N; i += 2 * step) v[i] = __fadd_rn(v[i], v[i + step]);
  }
  return v[0];
}
KILN_DEVICE f32 warp_sum(f32 v) {
#pragma unroll
  for (int lane = 1; lane < 32; lane *= 2) {
    v = __fadd_rn(v, __shfl_xor_sync(0xffffffffu, v, lane));
  }
  return v;
}

}  // namespace kiln
