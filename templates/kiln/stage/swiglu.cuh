// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/clamp.cuh"
#include "kiln/silu.cuh"

namespace kiln::stage {

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
  kiln::silu(out.v[0]);
#pragma unroll
  for (int i = 0; i < N; ++i) out.v[0][i] = __fmul_rn(out.v[0][i], values.v[1][i]);
  return out;
}

}  // namespace kiln::stage
