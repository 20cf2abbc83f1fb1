// SPDX-License-Identifier: MIT
// What gates share: gate and up are clamped, and what was clamped may be counted.
#pragma once
#include "kiln/clamp.cuh"
#include "kiln/counters.cuh"

namespace kiln {

template <class C, class V> KILN_DEVICE void clamp_gates(C&, V&, none, none) {
  static_assert(V::PARTS == 2, "gate and up");
}
template <class C, class V> KILN_DEVICE void clamp_gates(C&, V& values, f32 most, none) {
  static_assert(V::PARTS == 2, "gate and up");
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) {
    values.v[0][i] = at_most(values.v[0][i], most);
    values.v[1][i] = at_most(at_least(values.v[1][i], -most), most);
  }
}
// Counts gate above, up above, up below.
template <class C, class V> KILN_DEVICE void clamp_gates(C& c, V& values, f32 most, i64* counters) {
  c.counts.to = counters;
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) {
    if (!c.is_counted(i)) continue;
    c.counts.n[0] += values.v[0][i] > most;
    c.counts.n[1] += values.v[1][i] > most;
    c.counts.n[2] += values.v[1][i] < -most;
  }
  clamp_gates(c, values, most, none{});
}

}  // namespace kiln
