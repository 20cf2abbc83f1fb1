// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/types.cuh"

namespace kiln::stage {

template <class C, int N> KILN_DEVICE void scale_columns(C&, f32 (&)[N], none) {}
template <class C, int N, class T> KILN_DEVICE void scale_columns(C& c, f32 (&v)[N], const T* weight) {
  f32 w[N];
  c.read_columns(weight, 0, w);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = __fmul_rn(v[i], w[i]);
}

// (x * r) * w with r = 1 / sqrt(mean of squares + eps); the skeleton knows the mean.
template <class C, class V, class W> KILN_DEVICE V rmsnorm(C& c, V values, W weight, f32 eps) {
  static_assert(V::PARTS == 1, "a gate must come before rmsnorm");
  f32 r = __frsqrt_rn(__fadd_rn(c.mean_of_squares(), eps));
#pragma unroll
  for (int i = 0; i < V::COUNT; ++i) values.v[0][i] = __fmul_rn(values.v[0][i], r);
  scale_columns(c, values.v[0], weight);
  return values;
}

}  // namespace kiln::stage
