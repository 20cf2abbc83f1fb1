// SPDX-License-Identifier: MIT
// A token's rows of the expert-major layout, weighted and added up in the order of its slots. A thread has
// 16 bytes of a row; it asks for those of up to IN_FLIGHT slots before it adds.
//
// needs: kiln/slots.cuh
namespace kiln {

constexpr int THREADS = 256, K = int(NUM_TOPK), IN_FLIGHT = K < 8 ? K : 8;
constexpr int PIECE = 16 / int(sizeof(x_t));  // elements of a thread
constexpr i64 PIECES = ceil_div(HIDDEN, PIECE);

KILN_DEVICE void unpack_word(f32, u32 word, f32* out) { out[0] = __uint_as_float(word); }
KILN_DEVICE void unpack_word(bf16, u32 word, f32* out) { unpack_two(bf16{}, word, out[0], out[1]); }
KILN_DEVICE void unpack_word(e4m3, u32 word, f32* out) {
  unpack_two(f16{}, ptx::f16x2_from_e4m3x2(u16(word)), out[0], out[1]);
  unpack_two(f16{}, ptx::f16x2_from_e4m3x2(u16(word >> 16)), out[2], out[3]);
}

// N elements of a row as they are stored.
template <int N> struct Raw {
  static constexpr int WORDS = (N * int(sizeof(x_t)) + 3) / 4;
  u32 words[WORDS];

  KILN_DEVICE void read(const x_t* p) {
    if constexpr (N == PIECE) {
      spread(ptx::load_cs(reinterpret_cast<const u32x4*>(p)), words);
    } else {
      using bits_t = typename access<sizeof(x_t)>::type;
      words[0] = ptx::load_cs(reinterpret_cast<const bits_t*>(p));
    }
  }
  KILN_DEVICE void unpack(f32 (&out)[N]) const {
    constexpr int IN_WORD = 4 / int(sizeof(x_t));
    f32 all[WORDS * IN_WORD];
#pragma unroll
    for (int i = 0; i < WORDS; ++i) unpack_word(x_t{}, words[i], &all[i * IN_WORD]);
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = all[i];
  }
};

template <int N> KILN_DEVICE void pack(const f32 (&v)[N], Codes<f32, N>& out) {
#pragma unroll
  for (int i = 0; i < N; ++i) out.w[i] = __float_as_uint(v[i]);
}
template <int N> KILN_DEVICE void pack(const f32 (&v)[N], Codes<bf16, N>& out) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    out.w[i / 2] = ptx::bf16x2_from_f32(v[i], i + 1 < N ? v[min_int(i + 1, N - 1)] : 0.0f);
  }
}
template <int N> KILN_DEVICE void pack(const f32 (&v)[N], Codes<e4m3, N>& out) { encode(v, out); }

// The rows of a token's slots, -1 where there is none, and what they are multiplied by.
struct Slots {
  i32 rows[K];
  f32 factors[K];
};

template <bool FULL, class A> KILN_DEVICE Slots slots_of(const A& a, i64 token, bool* is_stray) {
  Slots s;
  read_slots<FULL>(a.token_topk_to_pos + token * K, s.rows);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (!is_within(s.rows[k], a.num_expanded_tokens, is_stray)) s.rows[k] = -1;
    s.factors[k] = 1.0f;
  }
  if constexpr (HAS_TOPK_WEIGHTS) read_slots<FULL>(a.topk_weights + token * K, s.factors);
  if constexpr (HAS_X_SF) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const u32* sf_bits = reinterpret_cast<const u32*>(a.x_sf) + s.rows[k];
      f32 sf = s.rows[k] >= 0 ? __uint_as_float(ptx::load_cs(sf_bits)) : 0.0f;
      s.factors[k] = HAS_TOPK_WEIGHTS ? __fmul_rn(s.factors[k], sf) : sf;
    }
  }
  return s;
}

// N columns of a token from `column` on.
template <int N, class A>
KILN_DEVICE void reduce_columns(const A& a, const Slots& s, i64 token, i64 column) {
  f32 sums[N] = {};
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
  if constexpr (HAS_SF) {
    f32 sf = a.sf[0];
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] = __fmul_rn(sums[j], sf);
  }
  Codes<out_t, N> codes;
  pack(sums, codes);
  write<N == PIECE>(reinterpret_cast<u8*>(a.out + token * HIDDEN + column), codes);
}

template <bool FULL> KILN_DEVICE void reduce(const kiln_args& a) {
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

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    reduce_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::reduce<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    reduce_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::reduce<false>(a);
}
