// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/clamp.cuh"

namespace kiln::stage {

// Values between two bounds, of which one may be absent.
template <class C, class V, class L, class H> KILN_DEVICE V clamp(C&, V values, L low, H high) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
#pragma unroll
    for (int i = 0; i < V::COUNT; ++i) {
      values.v[part][i] = at_most(at_least(values.v[part][i], low), high);
    }
  }
  return values;
}

}  // namespace kiln::stage
