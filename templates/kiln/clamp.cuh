// SPDX-License-Identifier: MIT
// min and max that keep NaN: compare and select.
#pragma once
#include "kiln/types.cuh"

namespace kiln {

KILN_DEVICE f32 at_most(f32 x, f32 high) { return x > high ? high : x; }
KILN_DEVICE f32 at_least(f32 x, f32 low) { return x < low ? low : x; }
KILN_DEVICE f32 at_most(f32 x, none) { return x; }
KILN_DEVICE f32 at_least(f32 x, none) { return x; }

}  // namespace kiln
