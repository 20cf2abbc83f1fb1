// SPDX-License-Identifier: MIT
// Numbers in global memory that a chain adds to: how many of its values are of some kind.
#pragma once
#include "kiln/types.cuh"

namespace kiln {

// What a thread counted of N kinds, and the counters that it is added to.
template <int N> struct Counters {
  i64* to = nullptr;
  i32 n[N] = {};
};

KILN_DEVICE bool is_nonfinite(f32 v) { return (__float_as_uint(v) & 0x7fffffffu) >= 0x7f800000u; }

// Counts those of N values that are NaN or infinite, where `c` says that they count.
template <class C, int N> KILN_DEVICE void see_nonfinite(C& c, const f32 (&v)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) c.nonfinite.n[0] += c.is_counted(i) && is_nonfinite(v[i]);
}

// Adds the counts of a warp's threads to a counter, where blocks have no barrier.
KILN_DEVICE void add_warp_counter(i32 n, i64* to) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) n += __shfl_xor_sync(0xffffffffu, n, other);
  if (threadIdx.x % 32 == 0 && n > 0) atomicAdd(reinterpret_cast<u64*>(to), u64(n));
}

// Adds the counts of a block's threads to the counters: integers, so that the order does not matter.
template <int WARPS, int N>
KILN_DEVICE void add_counters(const Counters<N>& counters, u32* warp_counts) {
  int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    i32 n = counters.n[k];
#pragma unroll
    for (int other = 16; other > 0; other /= 2) n += __shfl_xor_sync(0xffffffffu, n, other);
    if (lane == 0) warp_counts[warp * N + k] = u32(n);
  }
  __syncthreads();
  if (threadIdx.x >= N) return;
  u64 sum = 0;
  for (int w = 0; w < WARPS; ++w) sum += warp_counts[w * N + int(threadIdx.x)];
  if (sum > 0) atomicAdd(reinterpret_cast<u64*>(counters.to) + threadIdx.x, sum);
}

}  // namespace kiln
