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

// Two codes: of a byte each in the low half of the word, or e2m1 in its low byte. The bits of an e2m1
// magnitude on top of an f16's mantissa are 2^-14 times the value, also where they are a subnormal.
KILN_DEVICE void unpack_two(e4m3, u32 word, f32& low, f32& high) {
  unpack_two(f16{}, ptx::f16x2_from_e4m3x2(u16(word)), low, high);
}
KILN_DEVICE void unpack_two(e5m2, u32 word, f32& low, f32& high) {
  unpack_two(f16{}, ptx::f16x2_from_e5m2x2(u16(word)), low, high);
}
KILN_DEVICE void unpack_two(e2m1, u32 word, f32& low, f32& high) {
  u32 magnitudes = (word & 0x07) << 9 | (word & 0x70) << 21, signs = (word & 0x08) << 12 | (word & 0x80) << 24;
  unpack_two(f16{}, magnitudes | signs, low, high);
  low = __fmul_rn(low, 0x1p14f);
  high = __fmul_rn(high, 0x1p14f);
}

// Eight codes of e5m6 in three words, the first in the high bits of the first word: each is the top of
// an f16.
KILN_DEVICE void unpack_eight(const u32* w, f32* out) {
  u32 h[8] = {w[0] >> 20, w[0] >> 8, w[0] << 4 | w[1] >> 28, w[1] >> 16,
              w[1] >> 4,  w[1] << 8 | w[2] >> 24, w[2] >> 12, w[2]};
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = ptx::f32_from_f16(u16(h[i] << 4));
}

// N elements in 32-bit words to f32: bf16 by a shift and a mask, a pair at a time.
template <class T, int N> KILN_DEVICE void unpack(const u32* words, f32 (&out)[N]) {
  constexpr int BITS = format<T>::BITS;
  if constexpr (BITS == 32) {
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = __uint_as_float(words[i]);
  } else if constexpr (BITS == 12) {
#pragma unroll
    for (int i = 0; i < N / 8; ++i) unpack_eight(words + i * 3, out + i * 8);
  } else {
#pragma unroll
    for (int i = 0; i + 1 < N; i += 2) {
      unpack_two(T{}, words[i * BITS / 32] >> i * BITS % 32, out[i], out[i + 1]);
    }
    if constexpr (N % 2) {
      f32 beyond;
      unpack_two(T{}, words[(N - 1) * BITS / 32] >> (N - 1) * BITS % 32, out[N - 1], beyond);
    }
  }
}

KILN_DEVICE bool is_nan(f32 x) { return x != x; }

template <class T> struct fmt_max;
template <> struct fmt_max<e4m3> { static constexpr f32 VALUE = 448.0f, CLAMP_MIN = 1e-4f; };
template <> struct fmt_max<e5m2> { static constexpr f32 VALUE = 57344.0f, CLAMP_MIN = 1e-4f; };
template <> struct fmt_max<e5m6> { static constexpr f32 VALUE = 65024.0f, CLAMP_MIN = 1e-4f; };
template <> struct fmt_max<e2m1> { static constexpr f32 VALUE = 6.0f, CLAMP_MIN = 6 * 0x1p-126f; };

// Formats without a conversion instruction take values of ordinary blocks only: |v| at most the
// largest code and one rounding. A thread that holds a NaN or an infinity makes its values so first:
// NaN becomes the largest code, or with e5m6 what is coded as 0x7ff, the next binade's last step.
template <class F, int N> KILN_DEVICE void make_ordinary(f32 (&v)[N]) {
  constexpr f32 MOST = fmt_max<F>::VALUE;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    f32 saturated = fmaxf(fminf(v[i], MOST), -MOST);
    if (format<F>::BITS == 12 && is_nan(v[i])) saturated = 130048.0f;
    v[i] = saturated;
  }
}

// The magnitude's code of e2m1 on top of 2^23. The format's binades have steps of 1/2, 1 and 2. Adding
// 2^23, where the last place is 1, to |v| in units of a step rounds it to whole steps, nearest even.
// Offset so that each count of steps is the code in its own binade, the others' are larger there, so
// the code is the least.
KILN_DEVICE u32 e2m1_magnitude(f32 v) {
  f32 a = fabsf(v);
  f32 halves = fmaf(a, 2.0f, 0x1p23f);
  f32 ones = __fadd_rn(a, 0x1p23f + 2.0f);
  f32 twos = fmaf(a, 0.5f, 0x1p23f + 4.0f);
  return __float_as_uint(fminf(halves, fminf(ones, twos)));
}

// The same for two bf16 values times a power of two, in bytes 0 and 2; here 7 saturates.
// `powers` are { 2 * power, power, power / 2 }.
KILN_DEVICE u32 e2m1_magnitudes(u32 v, const u32 (&powers)[3]) {
  u32 a = ptx::abs_bf16x2(v);
  u32 halves = ptx::fma_bf16x2(a, powers[0], 0x43004300u);  // 128
  u32 ones = ptx::fma_bf16x2(a, powers[1], 0x43024302u);
  u32 twos = ptx::fma_bf16x2(a, powers[2], 0x43044304u);
  return ptx::min_bf16x2(ptx::min_bf16x2(halves, ones), ptx::min_bf16x2(twos, 0x43074307u));
}

// Four codes of e2m1 in bytes 0 and 2, from four magnitudes and four bytes with the signs on top.
KILN_DEVICE u32 e2m1_join(u32 magnitudes, u32 signs) {
  u32 codes = magnitudes | (signs >> 4 & 0x08080808u);
  return codes + (codes >> 4);
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

// Eight codes of e2m1, the even channel in the low nibble, from |v| and a word of the signs.
KILN_DEVICE u32 e2m1_word(const f32* v, u32 signs) {
  u32 w = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) w += e2m1_magnitude(v[k]) << k * 4;
  return (w - (0x4b000000u + (0x4b000000u << 4))) | signs;  // 2^23 has no other bits left
}

template <int N> KILN_DEVICE void encode(const f32 (&v)[N], Codes<e2m1, N>& out) {
#pragma unroll
  for (int i = 0; i < N; i += 8) {
    f32 x[8];
    u32 signs = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      x[k] = i + k < N ? v[min_int(i + k, N - 1)] : 0.0f;
      signs |= (__float_as_uint(x[k]) & 0x80000000u) >> (28 - k * 4);
    }
    out.w[i / 8] = ptx::HAS_E2M1 ? ptx::e2m1x8_from_f32(x) : e2m1_word(x, signs);
  }
}

// Eight signs of packed bf16 values on top of eight nibbles.
KILN_DEVICE u32 e2m1_signs(const u32* v) {
  return ptx::byte_permute(e2m1_join(0, ptx::byte_permute(v[0], v[1], 0x7531)),
                           e2m1_join(0, ptx::byte_permute(v[2], v[3], 0x7531)), 0x6420);
}

// Packed bf16 values times any scale, all ordinary.
template <int N>
KILN_DEVICE void encode_scaled(const u32 (&v)[N / 2], f32 scale, Codes<e2m1, N>& out) {
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
    f32 a[8];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      unpack_two(bf16{}, ptx::abs_bf16x2(v[i * 4 + k]), a[k * 2], a[k * 2 + 1]);
      a[k * 2] = __fmul_rn(a[k * 2], scale);
      a[k * 2 + 1] = __fmul_rn(a[k * 2 + 1], scale);
    }
    out.w[i] = e2m1_word(a, e2m1_signs(&v[i * 4]));
  }
}

// Packed bf16 values times a power of two, two at a time; infinities saturate.
template <int N>
KILN_DEVICE void encode_shifted(const u32 (&v)[N / 2], f32 power, Codes<e2m1, N>& out) {
  u32 powers[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    u32 bits = __float_as_uint(__fmul_rn(power, i == 0 ? 2.0f : i == 1 ? 1.0f : 0.5f));
    powers[i] = bits | bits >> 16;
  }
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
    u32 four[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      u32 a = v[i * 4 + k * 2], b = v[i * 4 + k * 2 + 1];
      u32 magnitudes =
          ptx::byte_permute(e2m1_magnitudes(a, powers), e2m1_magnitudes(b, powers), 0x6420);
      four[k] = e2m1_join(magnitudes, ptx::byte_permute(a, b, 0x7531));
    }
    out.w[i] = ptx::byte_permute(four[0], four[1], 0x6420);
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

// Codes of values that no scale of their own block brought into range.
template <class F, int N> KILN_DEVICE void encode_any(const f32 (&v)[N], Codes<F, N>& out) {
  f32 in_range[N];
#pragma unroll
  for (int i = 0; i < N; ++i) in_range[i] = v[i];
  if constexpr (format<F>::BITS != 8) make_ordinary<F>(in_range);
  encode(in_range, out);
}

// Two values rounded to F and back, as `stage: round` has it.
KILN_DEVICE void round_two(bf16, f32& a, f32& b) {
  unpack_two(bf16{}, ptx::bf16x2_from_f32(a, b), a, b);
}
KILN_DEVICE void round_two(f16, f32& a, f32& b) {
  unpack_two(f16{}, ptx::f16x2_from_f32(a, b), a, b);
}
KILN_DEVICE void round_two(e4m3, f32& a, f32& b) {
  unpack_two(e4m3{}, ptx::e4m3x2_from_f32(a, b), a, b);
}
KILN_DEVICE void round_two(e5m2, f32& a, f32& b) {
  unpack_two(e5m2{}, ptx::e5m2x2_from_f32(a, b), a, b);
}

}  // namespace kiln
