// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/types.cuh"

namespace kiln::stage {

// Codes to `data` with the given row stride in elements, scale factors to `sf`; `ld` is the distance
// of scale columns where they are column-major.
template <class C, class Q, class T, class S>
KILN_DEVICE void store(C& c, const Q& q, T* data, i64 stride, S* sf, i64 ld) {
  c.store(q, reinterpret_cast<u8*>(data), stride, sf, ld);
}

}  // namespace kiln::stage
