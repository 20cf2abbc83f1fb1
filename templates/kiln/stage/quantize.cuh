// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/scale.cuh"

namespace kiln::stage {

// Codes and scale factors of blocks of ROWS x COLS. How a block's amax comes together is the
// skeleton's business: its threads hold the block.
template <class F, int ROWS, int COLS, SfLayout LAYOUT, bool ROUND, class C, class V, class M>
KILN_DEVICE auto quantize(C& c, const V& values, M clamp_min) {
  static_assert(V::PARTS == 1, "a gate must come before quantize");
  static_assert(ROWS == C::SF_BLOCK_ROWS && COLS == C::SF_BLOCK_COLS, "the skeleton's block");
  return c.template quantize<F, LAYOUT, ROUND>(values.v[0], clamp_min);
}

}  // namespace kiln::stage
