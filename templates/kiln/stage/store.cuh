// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/types.cuh"

namespace kiln::stage {

template <class T> KILN_DEVICE u8* bytes_of(T* p) { return reinterpret_cast<u8*>(p); }
KILN_DEVICE none bytes_of(none) { return {}; }

// Codes to `data` with the given row stride in elements, scale factors to `sf`, each where there is one;
// `ld` is the distance of scale columns where they are column-major.
template <class C, class Q, class D, class S>
KILN_DEVICE void store(C& c, const Q& q, D data, i64 stride, S sf, i64 ld) {
  c.store(q, bytes_of(data), stride, sf, ld);
}

// Values, rounded to what T holds.
template <class C, int N, class T>
KILN_DEVICE void store(C& c, const Values<1, N>& values, T* data, i64 stride, none, i64) {
  c.store_values(data, stride, values.v[0]);
}

}  // namespace kiln::stage
