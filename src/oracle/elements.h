/* SPDX-License-Identifier: MIT */
/* What the oracle's files share: elements in memory, and steps between floats. */
#ifndef KILN_ORACLE_ELEMENTS_H
#define KILN_ORACLE_ELEMENTS_H

#include <string.h>

#include "oracle/oracle.h"

static inline uint32_t kn_oracle_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float kn_oracle_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The dtype of a name, KILN_DTYPE_NONE for none. */
kiln_dtype kn_oracle_dtype(const char *name);

/* The largest value of a format that quantize writes. */
float kn_oracle_fmt_max(kiln_dtype fmt);

/* `value` with its magnitude moved by `steps` ulp, without a change of sign; zero, infinities and
   NaN stay. */
float kn_oracle_step(float value, int steps);

/* The code of an element of at most 32 bits; `offset` counts elements from `data`. */
uint32_t kn_oracle_get(const kiln_tensor *tensor, int64_t offset);
void kn_oracle_put(const kiln_tensor *tensor, int64_t offset, uint32_t code);

/* An element of any width as it is stored. */
uint64_t kn_oracle_get_wide(const kiln_tensor *tensor, int64_t offset);
void kn_oracle_put_wide(const kiln_tensor *tensor, int64_t offset, uint64_t bits);
/* An index: i32 or i64. */
int64_t kn_oracle_get_index(const kiln_tensor *tensor, int64_t offset);
void kn_oracle_put_index(const kiln_tensor *tensor, int64_t offset, int64_t index);
/* An element of a float dtype, and one to nearest even. */
float kn_oracle_get_float(const kiln_tensor *tensor, int64_t offset);
void kn_oracle_put_float(const kiln_tensor *tensor, int64_t offset, float value);
/* An index that is out of range sets bit 0 of the error word, if there is one. */
static inline void kn_oracle_check_index(const kiln_tensor *error, int64_t index, int64_t range) {
  if (error && index >= range) kn_oracle_put(error, 0, kn_oracle_get(error, 0) | 1);
}
/* Where an element of a matrix lies. */
static inline int64_t kn_oracle_at(const kiln_tensor *tensor, int64_t row, int64_t column) {
  return row * tensor->strides[0] + column * tensor->strides[1];
}

/* A tensor or scalar of a case by name, NULL if it is absent. */
const struct kn_oracle_tensor *kn_oracle_tensor(const struct kn_oracle_case *c, const char *name);
const struct kn_oracle_scalar *kn_oracle_scalar(const struct kn_oracle_case *c, const char *name);

/* A case being computed. Where `written` is given it has, for each of the case's tensors, what a
   kernel wrote; of it the run takes over what lies within the contract's tolerance, so that its own
   outputs afterwards differ only where the kernel is wrong. */
struct kn_oracle_job {
  const struct kn_oracle_case *c;
  const struct kn_oracle_tensor *written; /* or NULL */
};

kiln_status kn_oracle_run_job(const struct kn_oracle_job *job);
kiln_status kn_oracle_run_chain(const struct kn_oracle_job *job);
/* Puts a computed value; where it is a NaN, any that a kernel wrote there will do. */
void kn_oracle_put_result(const struct kn_oracle_job *job, const struct kn_oracle_tensor *out,
                          int64_t offset, float value);
/* The int value of a param of the case; `fallback` if it is not given. */
int64_t kn_oracle_param(const struct kn_oracle_case *c, const char *name, int64_t fallback);

typedef kiln_status kn_oracle_run_fn(const struct kn_oracle_job *job);
kn_oracle_run_fn kn_oracle_run_transpose, kn_oracle_run_copy; /* transpose.c */
kn_oracle_run_fn kn_oracle_run_swiglu_backward;               /* swiglu_backward.c */
kn_oracle_run_fn kn_oracle_run_normalize_weight, kn_oracle_run_mask_indices_by_tp,
    kn_oracle_run_group_count, kn_oracle_run_aux_fi, kn_oracle_run_unique; /* slots.c */
kn_oracle_run_fn kn_oracle_run_topk_gate, kn_oracle_run_topk_groups;       /* topk.c */
kn_oracle_run_fn kn_oracle_run_gate;                                       /* gate.c */
kn_oracle_run_fn kn_oracle_run_expand, kn_oracle_run_reduce, kn_oracle_run_mapping,
    kn_oracle_run_gate_and_mapping; /* expand.c */

#endif
