// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/gate.cuh"
#include "kiln/silu.cuh"

namespace kiln::stage {

// silu(gate) * up: the first part gates the second.
template <bool FAST, class C, class V, class M, class N>
KILN_DEVICE auto swiglu(C& c, V values, M clamp, N counters) {
  Values<1, V::COUNT> out;
  clamp_gates(c, values, clamp, counters);
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) {
    out.v[0][i] = FAST ? silu_fast(values.v[0][i]) : values.v[0][i];
  }
  if constexpr (!FAST) kiln::silu(out.v[0]);
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) out.v[0][i] = __fmul_rn(out.v[0][i], values.v[1][i]);
  return out;
}

}  // namespace kiln::stage
