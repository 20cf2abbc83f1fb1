// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/gelu.cuh"

namespace kiln::stage {

// gelu by its tanh approximation.
template <class C, class V> KILN_DEVICE V gelu_tanh(C&, V values) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
#pragma unroll
    for (int i = 0; i < V::COUNT; ++i) values.v[part][i] = kiln::gelu_tanh(values.v[part][i]);
  }
  return values;
}

}  // namespace kiln::stage
