/* SPDX-License-Identifier: MIT */
/* Codes with scale factors that are given. */
#include "oracle/chain.h"

float kn_oracle_given_sf(const kiln_tensor *sf, int64_t block_row, int64_t block_col) {
  if (sf->dtype != KILN_I32) {
    return kn_oracle_get_float(sf, kn_oracle_at(sf, block_row, block_col));
  }
  const uint32_t word = kn_oracle_get(sf, kn_oracle_at(sf, block_row, block_col / 4));
  return kn_oracle_decode(KILN_UE8M0, word >> block_col % 4 * 8 & 255);
}

void kn_oracle_dequantize(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  for (int64_t i = 0; i < chain->rows; ++i) {
    const int64_t row = chain->is_skipped ? -1 : kn_oracle_source(chain, chain->first + i);
    for (int64_t j = 0; j < chain->cols; ++j) {
      const float sf = row < 0 ? 0
                               : kn_oracle_given_sf(stage->tensor, row / stage->block_rows,
                                                    j / stage->block_cols);
      struct kn_oracle_values *v = &chain->values[i * chain->cols + j];
      v->nominal = v->low = v->high = v->nominal * sf;
    }
  }
}
