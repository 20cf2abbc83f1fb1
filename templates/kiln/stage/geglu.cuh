// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/clamp.cuh"
#include "kiln/gelu.cuh"

namespace kiln::stage {

// gelu(gate) * up: the first part gates the second.
template <class C, class V, class M> KILN_DEVICE auto geglu(C&, V values, M clamp) {
  static_assert(V::PARTS == 2, "gate and up");
  Values<1, V::COUNT> out;
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) {
    clamp_gate(values.v[0][i], values.v[1][i], clamp);
    out.v[0][i] = __fmul_rn(kiln::gelu(values.v[0][i]), values.v[1][i]);
  }
  return out;
}

}  // namespace kiln::stage
