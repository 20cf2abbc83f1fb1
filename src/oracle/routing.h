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

/* Whether a score ranks before another: NaN behind all numbers. */
bool kn_oracle_ranks_before(double a, double b);
/* The indices of the `num_chosen` best scores that are not excluded (NULL: none is), best first,
   ties to the smaller index; -1 where none is left. */
void kn_oracle_choose(const double *scores, int64_t count, const bool *excluded, int64_t num_chosen,
                      int64_t *out);
/* The sum of the one or two best scores of a group, rounded to f32 or not. */
double kn_oracle_group_score(const double *scores, int64_t size, int64_t best, bool in_f32);

#endif
