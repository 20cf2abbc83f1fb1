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

/* The largest value of a format that quantize writes. */
float kn_oracle_fmt_max(kiln_dtype fmt);

/* `value` with its magnitude moved by `steps` ulp, without a change of sign; zero, infinities and
   NaN stay. */
float kn_oracle_step(float value, int steps);

/* The code of an element of at most 32 bits; `offset` counts elements from `data`. */
uint32_t kn_oracle_get(const kiln_tensor *tensor, int64_t offset);
void kn_oracle_put(const kiln_tensor *tensor, int64_t offset, uint32_t code);

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
kiln_status kn_oracle_run_transpose(const struct kn_oracle_case *c);
kiln_status kn_oracle_run_copy(const struct kn_oracle_case *c);

#endif
