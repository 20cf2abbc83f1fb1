/* SPDX-License-Identifier: MIT */
/* What a target fixes. Nothing here depends on a machine: SM count and clocks enter at launch. */
#ifndef KILN_PLAN_LIMITS_H
#define KILN_PLAN_LIMITS_H

#include <stddef.h>

struct kn_limits {
  const char *target; /* "sm_90a": NVRTC's --gpu-architecture */
  int compute;        /* 90, 100, 103 */
  int threads_per_block;
  int registers_per_sm;
  int shared_per_block; /* opt-in maximum, bytes */
};

/* The limits of a target name, or NULL. */
const struct kn_limits *kn_limits_find(const char *target);
/* All targets, in the order sm_90a, sm_100a, sm_100f, sm_103a. */
const struct kn_limits *kn_limits_all(size_t *out_count);

#endif
