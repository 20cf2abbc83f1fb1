/* SPDX-License-Identifier: MIT */
/* The scale of a block, as contract 0 has it. */
#include <math.h>

#include "oracle/elements.h"

float kn_oracle_fmt_max(kiln_dtype fmt) {
  switch (fmt) {
    case KILN_E4M3:
      return 448;
    case KILN_E5M2:
      return 57344;
    case KILN_E5M6:
      return 65024;
    default:
      return 6;
  }
}

struct kn_oracle_scale kn_oracle_scale(kiln_dtype fmt, float amax, bool round_sf, float clamp_min) {
  const float fmt_max = kn_oracle_fmt_max(fmt);
  struct kn_oracle_scale scale = {.ue8m0 = -1};
  float a;

  if (clamp_min < 0) clamp_min = fmt == KILN_E2M1 ? 6 * 0x1p-126f : 1e-4f;
  a = amax > clamp_min ? amax : clamp_min;
  scale.sf = a / fmt_max;
  scale.sf_inv = fmt_max / a;
  if (round_sf) {
    const int b = (int)((kn_oracle_bits(scale.sf) - 1) >> 23) + 1;
    scale.ue8m0 = b;
    scale.sf = ldexpf(1, b - 127);
    scale.sf_inv = ldexpf(1, 127 - b);
  }
  return scale;
}
