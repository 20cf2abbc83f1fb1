// SPDX-License-Identifier: MIT
// Rows of a few elements that one thread holds: the slots of a token.
#pragma once
#include "kiln/access.cuh"
#include "kiln/error.cuh"

namespace kiln {

// An element of 4 or 8 bytes from and to 32-bit words.
KILN_DEVICE void from_words(const u32* w, f32& v) { v = __uint_as_float(w[0]); }
KILN_DEVICE void from_words(const u32* w, i32& v) { v = i32(w[0]); }
KILN_DEVICE void from_words(const u32* w, i64& v) { v = i64(u64(w[1]) << 32 | w[0]); }
KILN_DEVICE void to_words(f32 v, u32* w) { w[0] = __float_as_uint(v); }
KILN_DEVICE void to_words(i32 v, u32* w) { w[0] = u32(v); }
KILN_DEVICE void to_words(i64 v, u32* w) {
  w[0] = u32(v);
  w[1] = u32(u64(v) >> 32);
}
KILN_DEVICE void gather(const u32* w, u32& v) { v = w[0]; }
KILN_DEVICE void gather(const u32* w, u32x2& v) { v = {w[0], w[1]}; }
KILN_DEVICE void gather(const u32* w, u32x4& v) { v = {w[0], w[1], w[2], w[3]}; }

// How wide an access to N elements of `size` bytes is.
template <bool FULL> KILN_DEVICE constexpr int slot_width(int n, int size) {
  return FULL ? access_width(n * size) : size;
}

// N consecutive elements at p. FULL: p is aligned to 16 bytes, or to all of them where they are fewer.
template <bool FULL, int N, class T> KILN_DEVICE void read_slots(const T* p, T (&out)[N]) {
  constexpr int SIZE = int(sizeof(T)), WIDTH = slot_width<FULL>(N, SIZE), COUNT = WIDTH / SIZE;
  using vector_t = typename access<WIDTH>::type;
#pragma unroll
  for (int i = 0; i < N / COUNT; ++i) {
    u32 words[WIDTH / 4];
    spread(ptx::load_cs(reinterpret_cast<const vector_t*>(p) + i), words);
#pragma unroll
    for (int j = 0; j < COUNT; ++j) from_words(&words[j * SIZE / 4], out[i * COUNT + j]);
  }
}

template <bool FULL, int N, class T> KILN_DEVICE void write_slots(T* p, const T (&v)[N]) {
  constexpr int SIZE = int(sizeof(T)), WIDTH = slot_width<FULL>(N, SIZE), COUNT = WIDTH / SIZE;
  using vector_t = typename access<WIDTH>::type;
#pragma unroll
  for (int i = 0; i < N / COUNT; ++i) {
    u32 words[WIDTH / 4];
    vector_t vector;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) to_words(v[i * COUNT + j], &words[j * SIZE / 4]);
    gather(words, vector);
    ptx::store_cs(reinterpret_cast<vector_t*>(p) + i, vector);
  }
}

// Where the experts of a model lie: per_rank on each rank of the expert-parallel groups, copied over
// the tensor-parallel ranks. Step 9 of the contract's gate in 32 bits: for an expert e >= 0,
// e = (dp * num_tp_ranks + tp) * per_rank + rest lies on rank tp, as number dp * per_rank + rest.
struct ParallelRanks {
  u32 per_rank, num_tp_ranks, tp_rank;

  KILN_DEVICE i32 local_expert(u32 e) const {
    u32 rank = e / per_rank;
    u32 group = rank / num_tp_ranks;
    if (rank - group * num_tp_ranks != tp_rank) return -1;
    return i32(group * per_rank + (e - rank * per_rank));
  }
};

}  // namespace kiln
