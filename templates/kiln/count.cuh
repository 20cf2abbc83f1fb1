// SPDX-License-Identifier: MIT
// How often each index below RANGE occurs. A block counts a part in shared memory and adds what it has
// to counts in global memory: sums of integers, so the order of the blocks does not matter.
#pragma once
#include "kiln/slots.cuh"

namespace kiln {

template <i64 RANGE> struct Counts {
  u32 of[RANGE];
};

// Counts the block's part of `total` indices into `counts`; every thread sees all of them at the end.
// FULL: vectors of 16 bytes.
template <bool FULL, int THREADS, i64 RANGE, class T>
KILN_DEVICE void count_part(const T* indices, i64 total, i32* error, Counts<RANGE>& counts) {
  constexpr int N = 16 / int(sizeof(T));
  for (i64 i = threadIdx.x; i < RANGE; i += THREADS) counts.of[i] = 0;
  __syncthreads();
  bool is_stray = false;
  i64 step = i64(gridDim.x) * THREADS * N;
  for (i64 at = (i64(blockIdx.x) * THREADS + threadIdx.x) * N; at < total; at += step) {
    T part[N];
    if (at + N <= total) {
      read_slots<FULL>(indices + at, part);
    } else {
      for (int i = 0; i < N; ++i) part[i] = at + i < total ? indices[at + i] : T(-1);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (is_within(part[i], RANGE, &is_stray)) atomicAdd(&counts.of[part[i]], 1u);
    }
  }
  flag_stray(error, is_stray);
  __syncthreads();
}

// Adds the block's counts to the grid's.
template <int THREADS, i64 RANGE>
KILN_DEVICE void add_counts(const Counts<RANGE>& counts, u32* all) {
  for (i64 i = threadIdx.x; i < RANGE; i += THREADS) {
    if (counts.of[i]) atomicAdd(&all[i], counts.of[i]);
  }
}

// One block clears what others add to.
template <int THREADS> KILN_DEVICE void clear_words(u32* p, i64 count) {
  for (i64 i = threadIdx.x; i < count; i += THREADS) p[i] = 0;
}

}  // namespace kiln
