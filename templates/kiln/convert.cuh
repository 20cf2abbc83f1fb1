// SPDX-License-Identifier: MIT
// Between storage formats and f32, by the rules of contract 0: nearest even, saturating.
#pragma once
#include "kiln/ptx.cuh"

namespace kiln {

KILN_DEVICE f32 to_f32(f32 x) { return x; }
KILN_DEVICE f32 to_f32(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
KILN_DEVICE f32 to_f32(f16 x) { return ptx::f32_from_f16(x.bits); }

KILN_DEVICE void unpack_two(bf16, u32 word, f32& low, f32& high) {
  low = __uint_as_float(word << 16);
  high = __uint_as_float(word & 0xffff0000u);
}
KILN_DEVICE void unpack_two(f16, u32 word, f32& low, f32& high) {
  low = ptx::f32_from_f16(u16(word));
  high = ptx::f32_from_f16(u16(word >> 16));
}

// Elements in 32-bit words to f32: bf16 by a shift and a mask, a pair at a time.
template <class T, int N>
KILN_DEVICE void unpack(const u32 (&words)[N * int(sizeof(T)) / 4], f32 (&out)[N]) {
#pragma unroll
  for (int i = 0; i < N * int(sizeof(T)) / 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      out[i] = __uint_as_float(words[i]);
    } else {
      unpack_two(T{}, words[i], out[i * 2], out[i * 2 + 1]);
    }
  }
}

KILN_DEVICE bool is_nan(f32 x) { return x != x; }

template <class T> struct fmt_max;
template <> struct fmt_max<e4m3> {
  static constexpr f32 VALUE = 448.0f, CLAMP_MIN = 1e-4f;
};
template <> struct fmt_max<e5m2> {
  static constexpr f32 VALUE = 57344.0f, CLAMP_MIN = 1e-4f;
};
template <> struct fmt_max<e5m6> {
  static constexpr f32 VALUE = 65024.0f, CLAMP_MIN = 1e-4f;
};
template <> struct fmt_max<e2m1> {
  static constexpr f32 VALUE = 6.0f, CLAMP_MIN = 6 * 0x1p-126f;
};

// Formats without a conversion instruction take values of ordinary blocks only: |v| at most the
// largest code and one rounding. A thread that holds a NaN or an infinity makes its values so first:
// what NaN becomes is coded as the format's NaN, or where it has none as its largest code.
template <class F> struct stand_in;
template <> struct stand_in<e2m1> {
  static constexpr f32 NAN_VALUE = 6.0f;
};
template <> struct stand_in<e5m6> {
  static constexpr f32 NAN_VALUE = 130048.0f;  // the next binade's last step is 0x7ff
};
template <class F, int N> KILN_DEVICE void make_ordinary(f32 (&v)[N]) {
  constexpr f32 MOST = fmt_max<F>::VALUE;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    v[i] = is_nan(v[i]) ? stand_in<F>::NAN_VALUE : fminf(fmaxf(v[i], -MOST), MOST);
  }
}

// One code of e2m1 in the low four bits. One FMA adds 2^22 + 3 times the power of two below |v|: the
// sum's mantissa then counts steps of the format, nearest even, and its exponent supplies the rest of
// the code.
KILN_DEVICE u32 e2m1_code(f32 v) {
  f32 power = __uint_as_float(max(__float_as_uint(v) & 0x7f800000u, 0x3f800000u));
  u32 r = __float_as_uint(fmaf(power, 0x1p22f + 3.0f, fabsf(v)));
  return ((r + (r >> 22)) & 7) | (__float_as_uint(v) >> 28 & ~7u);
}

// Two codes of packed bf16 values in the low byte: the same addition with 2^6 + 3 in bf16.
KILN_DEVICE u32 e2m1_codes(u32 v) {
  u32 power = ptx::max_nan_bf16x2(v & 0x7f807f80u, 0x3f803f80u);
  u32 r = ptx::fma_bf16x2(power, 0x42864286u, ptx::abs_bf16x2(v));
  u32 t = r + (r >> 6 & 0x00070007u);
  u32 codes = (t & 0x00070007u) | (v >> 12 & ~0x00070007u);
  return (codes & 0xf) | (codes >> 12 & ~0xfu);
}

// One code of e5m6 in the low twelve bits, by the same addition with 2^17 + 62.
KILN_DEVICE u32 e5m6_code(f32 v) {
  f32 power = __uint_as_float(max(__float_as_uint(v) & 0x7f800000u, 0x38800000u));  // 2^-14
  u32 r = __float_as_uint(fmaf(power, 0x1p17f + 62.0f, fabsf(v)));
  return ((r + (r >> 17)) & 0x7ff) | (__float_as_uint(v) >> 20 & ~0x7ffu);
}

// N codes as 32-bit words in memory order.
template <class F, int N> struct Codes {
  static constexpr int BYTES = N * format<F>::BITS / 8;
  static constexpr int WORDS = (BYTES + 3) / 4;
  u32 w[WORDS];
};

KILN_DEVICE u16 two_codes(e4m3, f32 low, f32 high) { return ptx::e4m3x2_from_f32(low, high); }
KILN_DEVICE u16 two_codes(e5m2, f32 low, f32 high) { return ptx::e5m2x2_from_f32(low, high); }

// 8-bit formats: four codes a word, two a conversion. NaN becomes 0x7f.
template <class F, int N> KILN_DEVICE void encode(const f32 (&v)[N], Codes<F, N>& out) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    u32 low = two_codes(F{}, v[i], i + 1 < N ? v[min_int(i + 1, N - 1)] : 0.0f);
    u32 high = 0;
    if (i + 2 < N) {
      high = two_codes(F{}, v[min_int(i + 2, N - 1)], i + 3 < N ? v[min_int(i + 3, N - 1)] : 0.0f);
    }
    out.w[i / 4] = low | high << 16;
  }
}

// e2m1: eight codes a word, the even channel in the low nibble.
template <int N> KILN_DEVICE void encode(const f32 (&v)[N], Codes<e2m1, N>& out) {
#pragma unroll
  for (int i = 0; i < (N + 7) / 8; ++i) out.w[i] = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) out.w[i / 8] |= e2m1_code(v[i]) << i % 8 * 4;
}

template <int N> KILN_DEVICE void encode_packed(const u32 (&v)[N / 2], Codes<e2m1, N>& out) {
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
    u32 low = ptx::byte_permute(e2m1_codes(v[i * 4]), e2m1_codes(v[i * 4 + 1]), 0x0040);
    u32 high = ptx::byte_permute(e2m1_codes(v[i * 4 + 2]), e2m1_codes(v[i * 4 + 3]), 0x0040);
    out.w[i] = ptx::byte_permute(low, high, 0x5410);
  }
}

// e5m6: eight codes h0..h7 in three words, the first in the high bits of the first word.
template <int N> KILN_DEVICE void encode(const f32 (&v)[N], Codes<e5m6, N>& out) {
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
    u32 h[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) h[k] = e5m6_code(v[i * 8 + k]);
    out.w[i * 3] = h[0] << 20 | h[1] << 8 | h[2] >> 4;
    out.w[i * 3 + 1] = h[2] << 28 | h[3] << 16 | h[4] << 4 | h[5] >> 8;
    out.w[i * 3 + 2] = h[5] << 24 | h[6] << 12 | h[7];
  }
}

// Two values rounded to F and back, as `stage: round` has it.
KILN_DEVICE void round_two(bf16, f32& a, f32& b) {
  unpack_two(bf16{}, ptx::bf16x2_from_f32(a, b), a, b);
}
KILN_DEVICE void round_two(f16, f32& a, f32& b) {
  unpack_two(f16{}, ptx::f16x2_from_f32(a, b), a, b);
}
KILN_DEVICE void round_two(e4m3, f32& a, f32& b) {
  unpack_two(f16{}, ptx::f16x2_from_e4m3x2(ptx::e4m3x2_from_f32(a, b)), a, b);
}
KILN_DEVICE void round_two(e5m2, f32& a, f32& b) {
  unpack_two(f16{}, ptx::f16x2_from_e5m2x2(ptx::e5m2x2_from_f32(a, b)), a, b);
}

}  // namespace kiln
