// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/silu.cuh"

namespace kiln::stage {

// min and max that keep NaN: compare and select.
KILN_DEVICE f32 at_most(f32 x, f32 high) { return x > high ? high : x; }
KILN_DEVICE f32 at_least(f32 x, f32 low) { return x < low ? low : x; }

KILN_DEVICE void clamp_gate(f32&, f32&, none) {}
KILN_DEVICE void clamp_gate(f32& gate, f32& up, f32 c) {
  gate = at_most(gate, c);
  up = at_most(at_least(up, -c), c);
}

// silu(gate) * up: the first part gates the second.
template <class C, class V, class M> KILN_DEVICE auto swiglu(C&, V values, M clamp) {
  static_assert(V::PARTS == 2, "gate and up");
  constexpr int N = V::COUNT;
  Values<1, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    clamp_gate(values.v[0][i], values.v[1][i], clamp);
    out.v[0][i] = values.v[0][i];
  }
  silu(out.v[0]);
#pragma unroll
  for (int i = 0; i < N; ++i) out.v[0][i] = __fmul_rn(out.v[0][i], values.v[1][i]);
  return out;
}

}  // namespace kiln::stage
