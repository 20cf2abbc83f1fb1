// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/gate.cuh"
#include "kiln/gelu.cuh"

namespace kiln::stage {

// gelu(gate) * up: the first part gates the second.
template <class C, class V, class M, class N>
KILN_DEVICE auto geglu(C& c, V values, M clamp, N counters) {
  Values<1, V::COUNT> out;
  clamp_gates(c, values, clamp, counters);
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) {
    out.v[0][i] = __fmul_rn(kiln::gelu(values.v[0][i]), values.v[1][i]);
  }
  return out;
}

}  // namespace kiln::stage
