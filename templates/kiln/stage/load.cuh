// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/rows.cuh"

namespace kiln::stage {

// The thread's values of a matrix; with two parts, those of both halves of the row. `rows` is the row
// stride, or a map of rows.
template <int PARTS, class C, class T, class R> KILN_DEVICE auto load(C& c, const T* x, R rows) {
  Values<PARTS, C::COUNT> values;
#pragma unroll
  for (int part = 0; part < PARTS; ++part) c.read(x, rows, part, values.v[part]);
  return values;
}

}  // namespace kiln::stage
