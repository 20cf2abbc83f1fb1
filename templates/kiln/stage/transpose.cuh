// SPDX-License-Identifier: MIT
#pragma once
#include "kiln/types.cuh"

namespace kiln::stage {

// Turns a tile of codes, so that store writes rows of channels.
template <class C, class Q> KILN_DEVICE auto transpose(C& c, const Q& q) { return c.transpose(q); }

}  // namespace kiln::stage
