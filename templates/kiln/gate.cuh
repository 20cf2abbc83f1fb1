// SPDX-License-Identifier: MIT
// What gates share: gate and up are clamped, and what was clamped may be counted.
#pragma once
#include "kiln/clamp.cuh"

namespace kiln {

// How many of a thread's values were clamped: gate above, up above, up below.
struct Counts {
  i64* to = nullptr;
  i32 n[3] = {0, 0, 0};
};

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

// Adds the counts of a block's threads to the counters: integers, so that the order does not matter.
template <int WARPS> KILN_DEVICE void add_counts(const Counts& counts, u32* warp_counts) {
  int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    i32 n = counts.n[k];
#pragma unroll
    for (int other = 16; other > 0; other /= 2) n += __shfl_xor_sync(0xffffffffu, n, other);
    if (lane == 0) warp_counts[warp * 3 + k] = u32(n);
  }
  __syncthreads();
  if (threadIdx.x >= 3) return;
  u64 sum = 0;
  for (int w = 0; w < WARPS; ++w) sum += warp_counts[w * 3 + int(threadIdx.x)];
  if (sum > 0) atomicAdd(reinterpret_cast<u64*>(counts.to) + threadIdx.x, sum);
}

}  // namespace kiln
