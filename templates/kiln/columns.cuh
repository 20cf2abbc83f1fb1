// SPDX-License-Identifier: MIT
// Numbers by column, which every row reads again: cached, unlike a matrix that streams by.
#pragma once
#include "kiln/access.cuh"

namespace kiln {

// Reads N elements at p as f32.
template <bool FULL, int N, class T> KILN_DEVICE void read_cached(const T* p, f32 (&out)[N]) {
  constexpr int WIDTH = access_width(N * int(sizeof(T)));
  if constexpr (FULL && WIDTH >= 4) {
    using vector_t = typename access<WIDTH>::type;
    u32 words[N * int(sizeof(T)) / 4];
#pragma unroll
    for (int i = 0; i < N * int(sizeof(T)) / WIDTH; ++i) {
      spread(reinterpret_cast<const vector_t*>(p)[i], &words[i * WIDTH / 4]);
    }
    unpack<T>(words, out);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = to_f32(p[i]);
  }
}

}  // namespace kiln
