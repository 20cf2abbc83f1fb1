// SPDX-License-Identifier: MIT
// The error word: what a kernel met that it could not take as it was. Indices that are out of range count
// as -1, and say so there.
#pragma once
#include "kiln/types.cuh"

namespace kiln {

// Whether `index` names one of `range`; one too large is noted in *is_stray.
template <class T> KILN_DEVICE bool is_within(T index, i64 range, bool* is_stray) {
  *is_stray = *is_stray || index >= range;
  return index >= 0 && index < range;
}

// The error word, if there is one, gets its bit.
KILN_DEVICE void flag_stray(i32* error, bool is_stray) {
  if (error && is_stray) atomicOr(error, 1);
}

// For a row of a chain: one of its threads looks.
template <class C>
KILN_DEVICE void check_index(const C& c, i32 index, i64 range, i32* error) {
  flag_stray(error, c.leads_row() && index >= range);
}

}  // namespace kiln
