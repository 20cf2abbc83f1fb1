// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/silu.cuh"

namespace kiln::stage {

// x / (1 + exp(-x)).
template <class C, class V> KILN_DEVICE V silu(C&, V values) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) kiln::silu(values.v[part]);
  return values;
}

}  // namespace kiln::stage
