// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/error.cuh"

namespace kiln::stage {

// A row's weight. Without one it is +0, against which a NaN or an infinity counts as 0.
struct Weight {
  f32 value;
  bool is_there;
};

KILN_DEVICE Weight find_weight(const f32* weights, i64 count, i32 index) {
  Weight w = {0.0f, index >= 0 && index < count};
  if (w.is_there) w.value = weights[index];
  return w;
}

// x * w.
template <class C, class V> KILN_DEVICE V scale_by_weight(C&, V values, Weight w) {
#pragma unroll
  for (int part = 0; part < V::PARTS; ++part) {
#pragma unroll
    for (int i = 0; i < V::COUNT; ++i) {
      f32 scaled = __fmul_rn(values.v[part][i], w.value);
      values.v[part][i] = w.is_there || scaled == 0.0f ? scaled : 0.0f;
    }
  }
  return values;
}

}  // namespace kiln::stage
