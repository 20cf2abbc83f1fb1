/* SPDX-License-Identifier: MIT */
/* Operators that only move elements. */
#include "oracle/elements.h"

static void move(const kiln_tensor *from, int64_t from_offset, const kiln_tensor *to,
                 int64_t to_offset) {
  const size_t bytes = (size_t)kiln_dtype_bits(from->dtype) / 8;
  memcpy((uint8_t *)to->data + (uint64_t)to_offset * bytes,
         (const uint8_t *)from->data + (uint64_t)from_offset * bytes, bytes);
}

kiln_status kn_oracle_run_transpose(const struct kn_oracle_job *job) {
  const struct kn_oracle_case *c = job->c;
  const struct kn_oracle_tensor *in = kn_oracle_tensor(c, "x"), *out = kn_oracle_tensor(c, "out");
  const kiln_tensor *x, *y;
  int64_t batches;
  int axis;

  if (!in || !out) return KILN_E_ARGUMENT;
  x = &in->tensor;
  y = &out->tensor;
  axis = x->rank - 2;
  if (axis < 0 || axis > 1 || y->rank != x->rank || x->dtype != y->dtype) return KILN_E_ARGUMENT;
  if (kiln_dtype_bits(x->dtype) % 8 != 0) return KILN_E_ARGUMENT;
  batches = axis == 1 ? x->shape[0] : 1;
  if (axis == 1 && y->shape[0] != batches) return KILN_E_ARGUMENT;
  if (x->shape[axis] != y->shape[axis + 1] || x->shape[axis + 1] != y->shape[axis]) {
    return KILN_E_ARGUMENT;
  }
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t x_base = axis == 1 ? b * x->strides[0] : 0;
    const int64_t y_base = axis == 1 ? b * y->strides[0] : 0;
    for (int64_t i = 0; i < x->shape[axis]; ++i) {
      for (int64_t j = 0; j < x->shape[axis + 1]; ++j) {
        move(x, x_base + i * x->strides[axis] + j * x->strides[axis + 1], y,
             y_base + j * y->strides[axis] + i * y->strides[axis + 1]);
      }
    }
  }
  return KILN_OK;
}

kiln_status kn_oracle_run_copy(const struct kn_oracle_job *job) {
  const struct kn_oracle_case *c = job->c;
  const struct kn_oracle_tensor *in = kn_oracle_tensor(c, "x"), *out = kn_oracle_tensor(c, "out");
  if (!in || !out) return KILN_E_ARGUMENT;
  if (in->tensor.rank != 1 || out->tensor.rank != 1 || in->tensor.dtype != out->tensor.dtype ||
      kiln_dtype_bits(in->tensor.dtype) % 8 != 0 || in->tensor.shape[0] != out->tensor.shape[0]) {
    return KILN_E_ARGUMENT;
  }
  for (int64_t i = 0; i < in->tensor.shape[0]; ++i) {
    move(&in->tensor, i * in->tensor.strides[0], &out->tensor, i * out->tensor.strides[0]);
  }
  return KILN_OK;
}
