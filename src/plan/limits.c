/* SPDX-License-Identifier: MIT */
#include "plan/limits.h"

#include <string.h>

/* CUDA C++ Programming Guide, technical specifications per compute capability: the same for 9.0,
   10.0 and 10.3. */
#define COMMON .threads_per_block = 1024, .registers_per_sm = 65536, .shared_per_block = 232448

static const struct kn_limits limits[] = {
    {.target = "sm_90a", .compute = 90, COMMON},
    {.target = "sm_100a", .compute = 100, COMMON},
    {.target = "sm_100f", .compute = 100, COMMON},
    {.target = "sm_103a", .compute = 103, COMMON},
};

const struct kn_limits *kn_limits_all(size_t *out_count) {
  *out_count = sizeof limits / sizeof *limits;
  return limits;
}

const struct kn_limits *kn_limits_find(const char *target) {
  for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
    if (strcmp(limits[i].target, target) == 0) return &limits[i];
  }
  return NULL;
}
