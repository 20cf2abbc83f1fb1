/* SPDX-License-Identifier: MIT */
/* Operators that choose the best of a token's scores. */
#include <math.h>
#include <stdlib.h>

#include "oracle/routing.h"

bool kn_oracle_ranks_before(double a, double b) {
  if (isnan(a) || isnan(b)) return !isnan(a) && isnan(b);
  return a > b;
}

void kn_oracle_choose(const double *scores, int64_t count, const bool *excluded, int64_t num_chosen,
                      int64_t *out) {
  for (int64_t k = 0; k < num_chosen; ++k) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; ++i) {
      bool is_taken = excluded && excluded[i];
      for (int64_t j = 0; j < k; ++j) is_taken = is_taken || out[j] == i;
      if (is_taken) continue;
      if (best < 0 || kn_oracle_ranks_before(scores[i], scores[best])) best = i;
    }
    out[k] = best;
  }
}

double kn_oracle_group_score(const double *scores, int64_t size, int64_t best, bool in_f32) {
  int64_t chosen[2] = {-1, -1};
  double sum = 0;
  if (best > 2) best = 2;
  kn_oracle_choose(scores, size, NULL, best, chosen);
  for (int i = 0; i < 2 && chosen[i] >= 0; ++i) sum += scores[chosen[i]];
  return in_f32 ? (double)(float)sum : sum;
}

kiln_status kn_oracle_run_topk_gate(const struct kn_oracle_job *job) {
  const struct kn_oracle_tensor *in = kn_oracle_tensor(job->c, "scores"),
                                *out = kn_oracle_tensor(job->c, "topk_idx");
  double *scores;
  int64_t *chosen, experts, k;
  if (!in || !out) return KILN_E_ARGUMENT;
  experts = in->tensor.shape[1];
  k = out->tensor.shape[1];
  if (k > experts) return KILN_E_ARGUMENT;
  scores = calloc((size_t)experts + 1, sizeof *scores);
  chosen = calloc((size_t)k + 1, sizeof *chosen);
  for (int64_t t = 0; scores && chosen && t < in->tensor.shape[0]; ++t) {
    for (int64_t e = 0; e < experts; ++e) {
      scores[e] = (double)kn_oracle_get_float(&in->tensor, kn_oracle_at(&in->tensor, t, e));
    }
    kn_oracle_choose(scores, experts, NULL, k, chosen);
    for (int64_t i = 0; i < k; ++i) {
      kn_oracle_put_index(&out->tensor, kn_oracle_at(&out->tensor, t, i), chosen[i]);
    }
  }
  free(scores);
  free(chosen);
  return scores && chosen ? KILN_OK : KILN_E_MEMORY;
}

kiln_status kn_oracle_run_topk_groups(const struct kn_oracle_job *job) {
  enum { MAX_GROUPS = 64, MAX_SCORES = 2048 };
  const struct kn_oracle_tensor *in = kn_oracle_tensor(job->c, "scores"),
                                *out = kn_oracle_tensor(job->c, "topk_group_idx");
  const int64_t best = kn_oracle_param(job->c, "num_topk_sum", 2);
  double sums[MAX_GROUPS], scores[MAX_SCORES];
  int64_t chosen[MAX_GROUPS], groups, size, k;
  if (!in || !out) return KILN_E_ARGUMENT;
  groups = in->tensor.shape[1];
  size = in->tensor.shape[2];
  k = out->tensor.shape[1];
  if (groups > MAX_GROUPS || size > MAX_SCORES || k > groups || best > size) return KILN_E_ARGUMENT;
  for (int64_t t = 0; t < in->tensor.shape[0]; ++t) {
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t i = 0; i < size; ++i) {
        const int64_t *strides = in->tensor.strides;
        scores[i] = (double)kn_oracle_get_float(&in->tensor,
                                                t * strides[0] + g * strides[1] + i * strides[2]);
      }
      sums[g] = kn_oracle_group_score(scores, size, best, true);
    }
    kn_oracle_choose(sums, groups, NULL, k, chosen);
    for (int64_t i = 0; i < k; ++i) {
      kn_oracle_put_index(&out->tensor, kn_oracle_at(&out->tensor, t, i), chosen[i]);
    }
  }
  return KILN_OK;
}
