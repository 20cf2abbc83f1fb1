// SPDX-License-Identifier: MIT
// Where a chain's rows lie in the matrix that is loaded, if not one stride apart from the first.
#pragma once
#include "kiln/error.cuh"

namespace kiln {

// a / b of numbers from 0 on, b above 0. Numbers of 64 bits, which are rare, take ten times as long.
KILN_DEVICE i64 divide(i64 a, i64 b) {
  if (((a | b) >> 32) == 0) return u32(a) / u32(b);
  return a / b;
}

// Row r of the chain is row index[r] of the matrix; all zeros where there is none.
struct gathered_rows {
  const i32* index;
  i64 count, stride;
  // In elements, or -1.
  KILN_DEVICE i64 offset(i64 row) const {
    i32 from = index[row];
    return from >= 0 && from < count ? from * stride : -1;
  }
};

// The rows of a batch of matrices, one after the other.
struct batched_rows {
  i64 rows_each, batch_stride, stride;
  KILN_DEVICE i64 offset(i64 row) const {
    i64 batch = divide(row, rows_each);
    return batch * batch_stride + (row - batch * rows_each) * stride;
  }
};

// Whether a row of a batch lies behind those of its matrix that count.
KILN_DEVICE bool is_beyond(i64 row, i64 rows_each, const i32* counts, i64 num_rows) {
  if (row >= num_rows) return false;
  i64 batch = divide(row, rows_each);
  return row - batch * rows_each >= counts[batch];
}
// Whether a row lies behind the first *count, of which there may be fewer than none or more than all.
KILN_DEVICE bool is_beyond(i64 row, const i32* count, i64 num_rows) {
  return row < num_rows && row >= *count;
}

}  // namespace kiln
