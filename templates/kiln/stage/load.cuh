// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/types.cuh"

namespace kiln::stage {

// The thread's values of a row-strided matrix; with two parts, those of both halves of the row.
template <int PARTS, class C, class T> KILN_DEVICE auto load(C& c, const T* x, i64 stride) {
  Values<PARTS, C::COUNT> values;
#pragma unroll
  for (int part = 0; part < PARTS; ++part) c.read(x, stride, part, values.v[part]);
  return values;
}

}  // namespace kiln::stage
