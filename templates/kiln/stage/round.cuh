// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/convert.cuh"

namespace kiln::stage {

// Every value rounded to F and back.
template <class F, class C, class V> KILN_DEVICE V round(C&, V values) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
#pragma unroll
    for (int i = 0; i + 1 < V::COUNT; i += 2) {
      round_two(F{}, values.v[part][i], values.v[part][i + 1]);
    }
    if constexpr (V::COUNT % 2) {
      f32 none = 0.0f;
      round_two(F{}, values.v[part][V::COUNT - 1], none);
    }
  }
  return values;
}

}  // namespace kiln::stage
