// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/convert.cuh"

namespace kiln::stage {

// Values as what T holds.
template <int N> KILN_DEVICE void round_values(f32, f32 (&)[N]) {}
template <class T, int N> KILN_DEVICE void round_values(T, f32 (&v)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    f32 unpaired = 0.0f;
    round_two(T{}, v[i], i + 1 < N ? v[min_int(i + 1, N - 1)] : unpaired);
  }
}

template <class C, class V>
KILN_DEVICE void keep_residual(C&, none, i64, int, const V&) {}
template <class C, class T, class V>
KILN_DEVICE void keep_residual(C& c, T* out, i64 stride, int part, const V& v) {
  c.write_matrix(out, stride, part, v);
}

// A row that is read again finds the sum that the first reading stored, perhaps in the place of `in`.
template <class C, class V> KILN_DEVICE bool find_residual(C&, none, i64, int, V&) { return false; }
template <class C, class T, class V>
KILN_DEVICE bool find_residual(C& c, const T* out, i64 stride, int part, V& v) {
  if (!c.is_again) return false;
  c.read(out, stride, part, v);
  return true;
}

// x + in, rounded to the dtype of `in`, stored to `out` if there is one.
template <class C, class V, class T, class O>
KILN_DEVICE V residual_add(C& c, V values, const T* in, i64 stride, O out, i64 out_stride) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
    if (find_residual(c, out, out_stride, part, values.v[part])) continue;
    f32 r[V::COUNT];
    c.read(in, stride, part, r);
#pragma unroll
    for (int i = 0; i < V::COUNT; ++i) values.v[part][i] = __fadd_rn(values.v[part][i], r[i]);
    round_values(T{}, values.v[part]);
    keep_residual(c, out, out_stride, part, values.v[part]);
  }
  return values;
}

}  // namespace kiln::stage
