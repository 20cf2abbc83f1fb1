// SPDX-License-Identifier: MIT
// Rows of tokens copied to their rows of the expanded layout, and zeros where no token goes. A thread
// has 16 bytes of a token's row, which it reads once and writes to every slot.
#pragma once
#include "kiln/slots.cuh"

namespace kiln {

// 16 bytes of a row, as far as it goes.
template <i64 HIDDEN, class T> struct Piece {
  static constexpr int SIZE = int(sizeof(T)), COUNT = 16 / SIZE;
  static constexpr i64 IN_ROW = ceil_div(HIDDEN, COUNT);
  static constexpr bool IS_WHOLE = HIDDEN % COUNT == 0;  // every piece of a row
  using bits_t = typename access<SIZE>::type;
  bits_t part[COUNT];
  u32x4 whole;

  template <bool FULL> KILN_DEVICE void read(const T* row, i64 column) {
    if constexpr (FULL && IS_WHOLE) {
      whole = ptx::load_cs(reinterpret_cast<const u32x4*>(row + column));
    } else {
      const bits_t* from = reinterpret_cast<const bits_t*>(row) + column;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        if (column + i < HIDDEN) part[i] = ptx::load_cs(from + i);
      }
    }
  }
  KILN_DEVICE void clear() {
    whole = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < COUNT; ++i) part[i] = 0;
  }
  template <bool FULL> KILN_DEVICE void write(T* row, i64 column) const {
    if constexpr (FULL && IS_WHOLE) {
      ptx::store_cs(reinterpret_cast<u32x4*>(row + column), whole);
    } else {
      bits_t* to = reinterpret_cast<bits_t*>(row) + column;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        if (column + i < HIDDEN) ptx::store_cs(to + i, part[i]);
      }
    }
  }
};

// Calls put(row) for each row of the expanded layout that a token goes to.
template <bool FULL, int K, class F>
KILN_DEVICE void each_position(const i32* token_topk_to_pos, i64 token, i64 num_rows, bool* is_stray,
                               F put) {
  i32 positions[K];
  read_slots<FULL>(token_topk_to_pos + token * K, positions);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (is_within(positions[k], num_rows, is_stray)) put(i64(positions[k]));
  }
}

// The part of thread `at` of those that copy rows.
template <bool FULL, i64 HIDDEN, int K, class A, class T>
KILN_DEVICE void expand_piece(const A& a, const T* x, i64 x_stride, T* out, i64 at) {
  using P = Piece<HIDDEN, T>;
  i64 token = at / P::IN_ROW, column = at % P::IN_ROW * P::COUNT;
  if (token >= a.num_tokens) return;
  bool is_stray = false;
  P piece;
  piece.template read<FULL>(x + token * x_stride, column);
  each_position<FULL, K>(a.token_topk_to_pos, token, a.num_expanded_tokens, &is_stray,
                         [&](i64 row) { piece.template write<FULL>(out + row * HIDDEN, column); });
  if (column == 0) flag_stray(a.error, is_stray);
}

// Calls clear(row) in all threads of the block for those of 32 rows from `first` on that no token has.
template <class F>
KILN_DEVICE void each_empty_row(const i32* pos_to_expert, i64 first, i64 num_rows, F clear) {
  i64 own = first + threadIdx.x % 32;
  const u32* experts = reinterpret_cast<const u32*>(pos_to_expert);
  bool is_empty = own < num_rows && i32(ptx::load_cs(experts + own)) < 0;
  u32 empty = __ballot_sync(0xffffffffu, is_empty);
  while (empty) {
    int bit = __ffs(int(empty)) - 1;
    empty &= empty - 1;
    clear(first + bit);
  }
}

template <bool FULL, i64 HIDDEN, int THREADS, class T> KILN_DEVICE void clear_row(T* row) {
  using P = Piece<HIDDEN, T>;
  P zeros;
  zeros.clear();
  for (i64 i = threadIdx.x; i < P::IN_ROW; i += THREADS) {
    zeros.template write<FULL>(row, i * P::COUNT);
  }
}

}  // namespace kiln
