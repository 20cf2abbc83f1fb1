// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/convert.cuh"

namespace kiln::stage {

// Every value rounded to F and back.
template <class F, class C, class V> KILN_DEVICE V round(C&, V values) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
#pragma unroll
    for (int i = 0; i < V::COUNT; ++i) values.v[part][i] = round_to(F{}, values.v[part][i]);
  }
  return values;
}

}  // namespace kiln::stage
