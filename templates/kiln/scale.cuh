// SPDX-License-Identifier: MIT
// Scale factors, by contract 0.
#pragma once
#include "kiln/convert.cuh"

namespace kiln {

// The largest magnitude of a block, NaN left out.
struct Amax {
  f32 value;
  bool has_nan;  // of the block; told for e2m1 only, whose codes have none
  bool
      is_ordinary;  // no NaN or infinity among this thread's values; told where codes are made by hand
};

constexpr f32 F32_MAX = 3.402823466e38f;

// Pairs of values that are bf16 numbers.
template <int N> KILN_DEVICE void pack_bf16(const f32 (&v)[N], u32 (&out)[N / 2]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    out[i] = __float_as_uint(v[i * 2]) >> 16 | (__float_as_uint(v[i * 2 + 1]) & 0xffff0000u);
  }
}

// The largest magnitude, NaN left out or taken in; IS_BF16 says that the values are bf16 numbers.
template <bool IS_BF16, int N> KILN_DEVICE f32 max_of(const f32 (&v)[N]) {
  f32 largest = 0.0f;
  if constexpr (IS_BF16 && N % 2 == 0) {
    u32 packed[N / 2], two = 0;
    pack_bf16(v, packed);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) two = ptx::max_bf16x2(two, ptx::abs_bf16x2(packed[i]));
    return fmaxf(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
  }
#pragma unroll
  for (int i = 0; i < N; ++i) largest = fmaxf(largest, fabsf(v[i]));
  return largest;
}
template <bool IS_BF16, int N> KILN_DEVICE f32 max_nan_of(const f32 (&v)[N]) {
  f32 largest = 0.0f;
  if constexpr (IS_BF16 && N % 2 == 0) {
    u32 packed[N / 2], two = 0;
    pack_bf16(v, packed);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) two = ptx::max_nan_bf16x2(two, ptx::abs_bf16x2(packed[i]));
    return ptx::max_nan(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
  }
#pragma unroll
  for (int i = 0; i < N; ++i) largest = ptx::max_nan(largest, fabsf(v[i]));
  return largest;
}

// The amax of values that become codes of F. e2m1 takes both maxima, which costs less than registers
// for a second look; e5m6 has these and looks again where `max.NaN` tells of a NaN.
template <class F, bool IS_BF16, int N> KILN_DEVICE Amax amax_of(const f32 (&v)[N]) {
  if constexpr (format<F>::BITS == 8) {
    return Amax{max_of<IS_BF16>(v), false, true};
  } else {
    f32 largest = max_nan_of<IS_BF16>(v);
    Amax amax = {largest, is_nan(largest), largest <= F32_MAX};
    if (format<F>::BITS == 4 || amax.has_nan) amax.value = max_of<IS_BF16>(v);
    return amax;
  }
}

struct Scale {
  f32 sf, inv;
  u32 ue8m0;  // exponent byte of a rounded sf
};

template <class F> KILN_DEVICE f32 clamp_min_of(none) { return fmt_max<F>::CLAMP_MIN; }
template <class F> KILN_DEVICE f32 clamp_min_of(f32 given) { return given; }

// a / fmt_max: the product with the reciprocal, corrected once. The bits of an IEEE division for
// every a from the format's own clamp_min to F32_MAX, checked for all of them on an H200. Below,
// where a given sf_clamp_min may lead, the remainder can be subnormal, so it is divided.
template <class F> KILN_DEVICE f32 divide_by_max(f32 a, none) {
  constexpr f32 MOST = fmt_max<F>::VALUE, INVERSE = 1.0f / MOST;
  f32 q = __fmul_rn(a, INVERSE);
  return fmaf(fmaf(-q, MOST, a), INVERSE, q);
}
template <class F> KILN_DEVICE f32 divide_by_max(f32 a, f32) {
  return __fdiv_rn(a, fmt_max<F>::VALUE);
}

// fmt_max / a with the bits of an IEEE division: the approximate reciprocal, corrected once
// (checked for all a below 2^126 on an H200); larger ones are scaled by a power of two on the way
// in and out.
template <class F> KILN_DEVICE f32 divide_max_by(f32 a) {
  constexpr f32 MOST = fmt_max<F>::VALUE;
  f32 power = a < 0x1p126f ? 1.0f : 0.25f;
  a = __fmul_rn(a, power);
  f32 y = ptx::rcp_approx(a);
  f32 q = __fmul_rn(MOST, y);
  q = fmaf(fmaf(-a, q, MOST), y, q);
  return __fmul_rn(q, power);
}

// The scale of a block. The power of two comes from the bits of the IEEE quotient: one ulp off
// would double it.
template <class F, bool ROUND, class M> KILN_DEVICE Scale make_scale(Amax amax, M clamp_min) {
  f32 a = fmaxf(fminf(amax.value, F32_MAX), clamp_min_of<F>(clamp_min));
  Scale s;
  s.sf = divide_by_max<F>(a, clamp_min);
  if constexpr (ROUND) {
    s.ue8m0 = ((__float_as_uint(s.sf) - 1) >> 23) + 1;
    s.sf = __uint_as_float(s.ue8m0 << 23);
    s.inv = __uint_as_float((254 - s.ue8m0) << 23);
  } else {
    s.ue8m0 = 0;
    s.inv = divide_max_by<F>(a);
  }
  if (format<F>::BITS == 4 && amax.has_nan) {
    s.sf = __uint_as_float(0x7fc00000u);
    s.ue8m0 = 255;
  }
  return s;
}

template <int N> KILN_DEVICE void scale(const f32 (&v)[N], f32 inv, f32 (&out)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = ptx::mul(v[i], inv);
}

// code = cvt(x * sf_inv): one fp32 multiplication, which nothing may contract. e2m1 from bf16 takes the
// signs from these; where sf_inv is a power of two the product is exact, and two are coded at a time.
template <class F, bool ROUND, bool IS_BF16, int N>
KILN_DEVICE void scale_and_encode(const f32 (&v)[N], f32 inv, const Amax& amax, Codes<F, N>& out) {
  if constexpr (format<F>::BITS == 4 && IS_BF16 && N % 8 == 0 && !ptx::HAS_E2M1) {
    u32 packed[N / 2];
    pack_bf16(v, packed);
    if (!amax.is_ordinary) {
      // What codes as 7: infinity where that saturates, else what the scale makes the largest code of.
      f32 most =
          ROUND ? __uint_as_float(0x7f800000u) : fminf(__fdiv_rn(fmt_max<F>::VALUE, inv), F32_MAX);
#pragma unroll
      for (int i = 0; i < N / 2; ++i) packed[i] = ptx::make_ordinary_bf16x2(packed[i], most);
    }
    if constexpr (ROUND) {
      encode_shifted(packed, inv, out);
    } else {
      encode_scaled(packed, inv, out);
    }
  } else {
    f32 scaled[N];
#pragma unroll
    for (int i = 0; i < N; ++i) scaled[i] = ptx::mul(v[i], inv);
    if constexpr (format<F>::BITS != 8) {
      if (!amax.is_ordinary) make_ordinary<F>(scaled);
    }
    encode(scaled, out);
  }
}

}  // namespace kiln
