// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/gelu.cuh"

namespace kiln::stage {

// max(x, 0)^2.
template <class C, class V> KILN_DEVICE V relu2(C&, V values) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
#pragma unroll
    for (int i = 0; i < V::COUNT; ++i) values.v[part][i] = kiln::relu2(values.v[part][i]);
  }
  return values;
}

}  // namespace kiln::stage
