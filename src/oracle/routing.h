/* SPDX-License-Identifier: MIT */
/* What the oracles of mixture-of-experts routing share. */
#ifndef KILN_ORACLE_ROUTING_H
#define KILN_ORACLE_ROUTING_H

#include "oracle/elements.h"

/* Sets the bit of the case's error word, where there is one. */
void kn_oracle_flag(const struct kn_oracle_case *c, bool is_stray);
/* `index` if it lies below `range`, else -1; one that is too large is an error. */
int64_t kn_oracle_take(const struct kn_oracle_case *c, int64_t index, int64_t range);

/* Which experts of a model lie on which rank. */
struct kn_oracle_parallel {
  int64_t per_rank; /* experts */
  int64_t num_ep_ranks, num_tp_ranks, tp_rank;
};
/* Takes the ranks from the case's scalars; per_rank is left. */
bool kn_oracle_parallel(const struct kn_oracle_case *c, struct kn_oracle_parallel *out);
/* Step 9 of top2_sum_gate for an expert of at least 0. */
int64_t kn_oracle_mask_by_tp(const struct kn_oracle_parallel *p, int64_t e);

#endif
