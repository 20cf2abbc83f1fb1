// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/types.cuh"

namespace kiln::stage {

// x + b, with b one number a column.
template <class C, class V, class T> KILN_DEVICE V add_bias(C& c, V values, const T* bias) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
    f32 b[V::COUNT];
    c.read_columns(bias, part, b);
#pragma unroll
    for (int i = 0; i < V::COUNT; ++i) values.v[part][i] = __fadd_rn(values.v[part][i], b[i]);
  }
  return values;
}

}  // namespace kiln::stage
