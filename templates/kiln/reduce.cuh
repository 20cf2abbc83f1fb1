// SPDX-License-Identifier: MIT
// A token's rows of the expert-major layout, weighted and added up in the order of its slots. A thread has
// 16 bytes of a row; it asks for those of up to IN_FLIGHT slots, and for what is added to their sum, before
// it adds.
#pragma once
#include "kiln/slots.cuh"

namespace kiln {

KILN_DEVICE void unpack_word(f32, u32 word, f32* out) { out[0] = __uint_as_float(word); }
KILN_DEVICE void unpack_word(bf16, u32 word, f32* out) { unpack_two(bf16{}, word, out[0], out[1]); }
KILN_DEVICE void unpack_word(e4m3, u32 word, f32* out) {
  unpack_two(f16{}, ptx::f16x2_from_e4m3x2(u16(word)), out[0], out[1]);
  unpack_two(f16{}, ptx::f16x2_from_e4m3x2(u16(word >> 16)), out[2], out[3]);
}

template <int N> KILN_DEVICE void pack(const f32 (&v)[N], Codes<f32, N>& out) {
#pragma unroll
  for (int i = 0; i < N; ++i) out.w[i] = __float_as_uint(v[i]);
}
template <class T, int N> KILN_DEVICE void pack(const f32 (&v)[N], Codes<T, N>& out) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    out.w[i / 2] = two_bits(T{}, v[i], i + 1 < N ? v[min_int(i + 1, N - 1)] : 0.0f);
  }
}
template <int N> KILN_DEVICE void pack(const f32 (&v)[N], Codes<e4m3, N>& out) { encode(v, out); }

// The sums of tokens' slots: elements of type X in rows of HIDDEN, K slots a token, and which of the
// operator's other inputs there are. `A` is its kiln_args.
template <class X, class OUT, i64 HIDDEN, int K, bool WEIGHTED, bool SCALED_BY_ROW, bool SCALED,
          bool WITH_RESIDUAL>
struct Reduction {
  static constexpr int THREADS = 256, IN_FLIGHT = K < 8 ? K : 8;
  static constexpr int PIECE = 16 / int(sizeof(X));  // elements of a thread
  static constexpr i64 PIECES = ceil_div(HIDDEN, PIECE);

  // N elements of a row as they are stored.
  template <int N> struct Raw {
    static constexpr int WORDS = (N * int(sizeof(X)) + 3) / 4;
    u32 words[WORDS];

    KILN_DEVICE void read(const X* p) {
      if constexpr (N == PIECE) {
        spread(ptx::load_cs(reinterpret_cast<const u32x4*>(p)), words);
      } else {
        using bits_t = typename access<sizeof(X)>::type;
        words[0] = ptx::load_cs(reinterpret_cast<const bits_t*>(p));
      }
    }
    KILN_DEVICE void unpack(f32 (&out)[N]) const {
      constexpr int IN_WORD = 4 / int(sizeof(X));
      f32 all[WORDS * IN_WORD];
#pragma unroll
      for (int i = 0; i < WORDS; ++i) unpack_word(X{}, words[i], &all[i * IN_WORD]);
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = all[i];
    }
  };

  // The rows of a token's slots, -1 where there is none, and what they are multiplied by.
  struct Slots {
    i32 rows[K];
    f32 factors[K];
  };

  template <bool FULL, class A>
  KILN_DEVICE static Slots slots_of(const A& a, i64 token, bool* is_stray) {
    Slots s;
    read_slots<FULL>(a.token_topk_to_pos + token * K, s.rows);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (!is_within(s.rows[k], a.num_expanded_tokens, is_stray)) s.rows[k] = -1;
      s.factors[k] = 1.0f;
    }
    if constexpr (WEIGHTED) read_slots<FULL>(a.topk_weights + token * K, s.factors);
    if constexpr (SCALED_BY_ROW) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const u32* sf_bits = reinterpret_cast<const u32*>(a.x_sf) + s.rows[k];
        f32 sf = s.rows[k] >= 0 ? __uint_as_float(ptx::load_cs(sf_bits)) : 0.0f;
        s.factors[k] = WEIGHTED ? __fmul_rn(s.factors[k], sf) : sf;
      }
    }
    return s;
  }

  // N columns of a token from `column` on.
  template <int N, class A>
  KILN_DEVICE static void reduce_columns(const A& a, const Slots& s, i64 token, i64 column) {
    f32 sums[N] = {}, residual[N];
    if constexpr (WITH_RESIDUAL) {
      read<N == PIECE>(a.residual + token * a.residual_stride0 + column, true, residual);
    }
#pragma unroll
    for (int first = 0; first < K; first += IN_FLIGHT) {
      Raw<N> raw[IN_FLIGHT];
#pragma unroll
      for (int i = 0; i < IN_FLIGHT; ++i) {
        int k = min_int(first + i, K - 1);
        if (first + i < K && s.rows[k] >= 0) raw[i].read(a.x + s.rows[k] * a.x_stride0 + column);
      }
#pragma unroll
      for (int i = 0; i < IN_FLIGHT; ++i) {
        int k = min_int(first + i, K - 1);
        if (first + i >= K || s.rows[k] < 0) continue;
        f32 values[N];
        raw[i].unpack(values);
#pragma unroll
        for (int j = 0; j < N; ++j) sums[j] = fmaf(values[j], s.factors[k], sums[j]);
      }
    }
    if constexpr (WITH_RESIDUAL) {
#pragma unroll
      for (int j = 0; j < N; ++j) sums[j] = __fadd_rn(sums[j], residual[j]);
    }
    if constexpr (SCALED) {
      f32 sf = a.sf[0];
#pragma unroll
      for (int j = 0; j < N; ++j) sums[j] = __fmul_rn(sums[j], sf);
    }
    Codes<OUT, N> codes;
    pack(sums, codes);
    write<N == PIECE>(reinterpret_cast<u8*>(a.out + token * HIDDEN + column), codes);
  }

  template <bool FULL, class A> KILN_DEVICE static void run(const A& a) {
    ptx::grid_launch_dependents();
    ptx::grid_dependency_wait();
    i64 at = i64(blockIdx.x) * THREADS + threadIdx.x;
    i64 token = at / PIECES, column = at % PIECES * PIECE;
    if (token >= a.num_tokens) return;
    bool is_stray = false;
    Slots s = slots_of<FULL>(a, token, &is_stray);
    if (column == 0) flag_stray(a.error, is_stray);
    if constexpr (FULL && HIDDEN % PIECE == 0) {
      reduce_columns<PIECE>(a, s, token, column);
    } else {
      for (i64 i = column; i < min(column + PIECE, HIDDEN); ++i) reduce_columns<1>(a, s, token, i);
    }
  }
};

}  // namespace kiln
