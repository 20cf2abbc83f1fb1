// SPDX-License-Identifier: MIT
// silu(x) = x / (1 + exp(-x)) with the bits of expf and an IEEE division, and a fast form.
#pragma once
#include "kiln/ptx.cuh"

namespace kiln {

// What holds for every x: -inf gives 0, NaN stays.
__device__ __noinline__ f32 silu_any(f32 x) {
  f32 q = __fdiv_rn(x, __fadd_rn(1.0f, expf(-x)));
  return x == -__uint_as_float(0x7f800000u) ? 0.0f : q;
}

// For |x| <= 86, where the divisor has a normal reciprocal: one correction of x * rcp(d) gives the
// IEEE quotient (true of every bf16 x, checked on an H200). It loses the sign of a zero, which the
// quotient has from x.
KILN_DEVICE f32 silu_near(f32 x) {
  f32 d = __fadd_rn(1.0f, expf(-x));
  f32 y = ptx::rcp_approx(d);
  f32 q = __fmul_rn(x, y);
  q = fmaf(fmaf(-d, q, x), y, q);
  return __uint_as_float(__float_as_uint(q) | (__float_as_uint(x) & 0x80000000u));
}

// Within 1e-5: approximate exp and division, so -inf must be told apart from what overflows.
KILN_DEVICE f32 silu_fast(f32 x) {
  f32 e = ptx::ex2_approx(__fmul_rn(x, -1.44269504f));
  f32 q = __fmul_rn(x, ptx::rcp_approx(__fadd_rn(1.0f, e)));
  return x == -__uint_as_float(0x7f800000u) ? 0.0f : q;
}

template <int N> KILN_DEVICE void silu(f32 (&x)[N]) {
  f32 largest = 0.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) largest = ptx::max_nan(largest, fabsf(x[i]));
  if (largest <= 86.0f) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = silu_near(x[i]);
  } else {
    // One call that values take turns at: compiles faster than a call for each.
#pragma unroll 1
    for (int turn = 0; turn < N; ++turn) {
      f32 last = silu_any(x[0]);
#pragma unroll
      for (int i = 0; i + 1 < N; ++i) x[i] = x[i + 1];
      x[N - 1] = last;
    }
  }
}

}  // namespace kiln
