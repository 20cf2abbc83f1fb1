// SPDX-License-Identifier: MIT
// Activations but silu, in the order of operations that the contract has.
#pragma once
#include "kiln/types.cuh"

namespace kiln {

KILN_DEVICE f32 gelu(f32 x) {
  f32 e = erff(__fmul_rn(x, 0.70710678f));
  return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, e));
}

KILN_DEVICE f32 gelu_tanh(f32 x) {
  f32 cube = __fmul_rn(__fmul_rn(x, x), x);
  f32 t = tanhf(__fmul_rn(0.79788456f, __fadd_rn(x, __fmul_rn(0.044715f, cube))));
  return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, t));
}

KILN_DEVICE f32 relu2(f32 x) {
  f32 positive = x < 0.0f ? 0.0f : x;  // NaN stays
  return __fmul_rn(positive, positive);
}

}  // namespace kiln
