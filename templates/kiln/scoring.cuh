// SPDX-License-Identifier: MIT
// What a gate makes of a logit: three scoring functions, each to the accuracy of expf and log1pf.
#pragma once
#include "kiln/topk.cuh"

namespace kiln {

KILN_DEVICE f32 sigmoid(f32 x) { return __frcp_rn(__fadd_rn(1.0f, expf(-x))); }

// sqrt(log1p(exp(x))). Above 20 log1p(exp(x)) is x, below -20 it is exp(x): half the exponent there keeps
// all digits where exp(x) would be subnormal.
KILN_DEVICE f32 sqrt_softplus(f32 x) {
  if (x < -20.0f) return expf(0.5f * x);
  return __fsqrt_rn(x > 20.0f ? x : log1pf(expf(x)));
}

// A row's largest logit, NaN apart, and the sum of exp(x - largest). The order of the sum follows from the
// Spread alone.
struct Softmax {
  f32 largest, sum;

  KILN_DEVICE f32 score(f32 x) const { return __fdiv_rn(expf(__fsub_rn(x, largest)), sum); }
};

template <class S>
KILN_DEVICE Softmax softmax_of(const f32 (&logits)[S::VALUES], int lane) {
  u32 key = NAN_KEY;
#pragma unroll
  for (int j = 0; j < S::VALUES; ++j) {
    if (S::is_score(lane, j)) key = max(key, rank_key(logits[j]));
  }
  Softmax s = {score_of(__reduce_max_sync(WHOLE_WARP, key)), 0.0f};
#pragma unroll
  for (int j = 0; j < S::VALUES; ++j) {
    if (S::is_score(lane, j)) s.sum = __fadd_rn(s.sum, expf(__fsub_rn(logits[j], s.largest)));
  }
#pragma unroll
  for (int other = 16; other > 0; other /= 2) {
    s.sum = __fadd_rn(s.sum, __shfl_xor_sync(WHOLE_WARP, s.sum, other));
  }
  return s;
}

}  // namespace kiln
