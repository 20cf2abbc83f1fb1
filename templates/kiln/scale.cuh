// SPDX-License-Identifier: MIT
// Scale factors, by contract 0.
#pragma once
#include "kiln/convert.cuh"

namespace kiln {

// The largest magnitude of a block, NaN left out, and whether there was one. Only e2m1, whose codes
// have no NaN, asks for the flag.
struct Amax {
  f32 value;
  bool has_nan;
};

constexpr f32 F32_MAX = 3.402823466e38f;

// amax over values that become codes of F. Where NaN must be told, `max.NaN` tells it at no cost, and
// the rare block that has one looks again.
template <class F, int N> KILN_DEVICE Amax amax_of(const f32 (&v)[N]) {
  f32 largest = 0.0f;
  bool has_nan = false;
  if constexpr (format<F>::BITS == 4) {
#pragma unroll
    for (int i = 0; i < N; ++i) largest = ptx::max_nan(largest, fabsf(v[i]));
    has_nan = is_nan(largest);
  }
  if (format<F>::BITS != 4 || has_nan) {
    largest = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) largest = fmaxf(largest, fabsf(v[i]));
  }
  return {largest, has_nan};
}

struct Scale {
  f32 sf, inv;
  u32 ue8m0;  // exponent byte of a rounded sf
};

template <class F> KILN_DEVICE f32 clamp_min_of(none) { return fmt_max<F>::CLAMP_MIN; }
template <class F> KILN_DEVICE f32 clamp_min_of(f32 given) { return given; }

// a / fmt_max: the product with the reciprocal, corrected once. The bits of an IEEE division for every
// a from the format's own clamp_min to F32_MAX, checked for all of them on an H200; below, where
// sf_clamp_min may lead, the remainder can be subnormal, so it is divided.
template <class F> KILN_DEVICE f32 divide_by(f32 a) {
  constexpr f32 MOST = fmt_max<F>::VALUE;
  constexpr f32 INVERSE = 1.0f / MOST;
  if (a < fmt_max<F>::CLAMP_MIN) return __fdiv_rn(a, MOST);
  f32 q = __fmul_rn(a, INVERSE);
  return fmaf(fmaf(-q, MOST, a), INVERSE, q);
}

// The scale of a block. The power of two comes from the bits of the IEEE quotient: one ulp off would
// double it.
template <class F, bool ROUND, class M> KILN_DEVICE Scale make_scale(Amax amax, M clamp_min) {
  constexpr f32 MOST = fmt_max<F>::VALUE;
  f32 a = fmaxf(fminf(amax.value, F32_MAX), clamp_min_of<F>(clamp_min));
  Scale s;
  s.sf = divide_by<F>(a);
  if constexpr (ROUND) {
    s.ue8m0 = ((__float_as_uint(s.sf) - 1) >> 23) + 1;
    s.sf = __uint_as_float(s.ue8m0 << 23);
    s.inv = __uint_as_float((254 - s.ue8m0) << 23);
  } else {
    s.ue8m0 = 0;
    s.inv = __fdiv_rn(MOST, a);
  }
  if (format<F>::BITS == 4 && amax.has_nan) {
    s.sf = __uint_as_float(0x7fc00000u);
    s.ue8m0 = 255;
  }
  return s;
}

// code = cvt(x * sf_inv): one fp32 multiplication, which nothing may contract.
template <class F, int N>
KILN_DEVICE void scale_and_encode(const f32 (&v)[N], f32 inv, Codes<F, N>& out) {
  f32 scaled[N];
#pragma unroll
  for (int i = 0; i < N; ++i) scaled[i] = ptx::mul(v[i], inv);
  encode(scaled, out);
}

}  // namespace kiln
