/* SPDX-License-Identifier: MIT */
/* Routing operators that look at each slot by itself: weights, masks, counts. */
#include <stdlib.h>

#include "oracle/routing.h"

void kn_oracle_flag(const struct kn_oracle_case *c, bool is_stray) {
  const struct kn_oracle_tensor *error = kn_oracle_tensor(c, "error");
  if (error && is_stray) kn_oracle_put(&error->tensor, 0, kn_oracle_get(&error->tensor, 0) | 1);
}

int64_t kn_oracle_take(const struct kn_oracle_case *c, int64_t index, int64_t range) {
  kn_oracle_flag(c, index >= range);
  return index < 0 || index >= range ? -1 : index;
}

static int64_t take(const struct kn_oracle_case *c, const kiln_tensor *t, int64_t row,
                    int64_t column, int64_t range) {
  return kn_oracle_take(c, kn_oracle_get_index(t, kn_oracle_at(t, row, column)), range);
}

bool kn_oracle_parallel(const struct kn_oracle_case *c, struct kn_oracle_parallel *out) {
  const struct kn_oracle_scalar *ep = kn_oracle_scalar(c, "num_ep_ranks"),
                                *tp = kn_oracle_scalar(c, "num_tp_ranks"),
                                *rank = kn_oracle_scalar(c, "tp_rank");
  if (!ep || !tp || !rank) return false;
  out->num_ep_ranks = (int64_t)ep->value;
  out->num_tp_ranks = (int64_t)tp->value;
  out->tp_rank = (int64_t)rank->value;
  return true;
}

int64_t kn_oracle_mask_by_tp(const struct kn_oracle_parallel *p, int64_t e) {
  const int64_t per_dp = p->per_rank * p->num_tp_ranks;
  if (e / p->per_rank % p->num_tp_ranks != p->tp_rank) return -1;
  e -= p->tp_rank * p->per_rank;
  e -= e / per_dp * (per_dp - p->per_rank);
  return e < 0 ? -1 : e;
}

kiln_status kn_oracle_run_normalize_weight(const struct kn_oracle_job *job) {
  const struct kn_oracle_tensor *in = kn_oracle_tensor(job->c, "topk_weights"),
                                *denominator = kn_oracle_tensor(job->c, "denominator"),
                                *out = kn_oracle_tensor(job->c, "normalized_weights");
  if (!in || !denominator || !out) return KILN_E_ARGUMENT;
  for (int64_t t = 0; t < in->tensor.shape[0]; ++t) {
    float sum = 0;
    for (int64_t k = 0; k < in->tensor.shape[1]; ++k) {
      sum += kn_oracle_get_float(&in->tensor, kn_oracle_at(&in->tensor, t, k));
    }
    sum = 1e-20f + sum;
    kn_oracle_put_result(job, denominator, t, sum);
    for (int64_t k = 0; k < in->tensor.shape[1]; ++k) {
      const float w = kn_oracle_get_float(&in->tensor, kn_oracle_at(&in->tensor, t, k));
      kn_oracle_put_result(job, out, kn_oracle_at(&out->tensor, t, k), w / sum);
    }
  }
  return KILN_OK;
}

kiln_status kn_oracle_run_mask_indices_by_tp(const struct kn_oracle_job *job) {
  const struct kn_oracle_tensor *in = kn_oracle_tensor(job->c, "indices"),
                                *out = kn_oracle_tensor(job->c, "masked_indices");
  struct kn_oracle_parallel p;
  int64_t n;
  if (!in || !out || !kn_oracle_parallel(job->c, &p)) return KILN_E_ARGUMENT;
  n = (int64_t)kn_oracle_scalar(job->c, "n")->value;
  p.per_rank = n / p.num_ep_ranks;
  for (int64_t t = 0; t < in->tensor.shape[0]; ++t) {
    for (int64_t k = 0; k < in->tensor.shape[1]; ++k) {
      const int64_t e = take(job->c, &in->tensor, t, k, n);
      kn_oracle_put_index(&out->tensor, kn_oracle_at(&out->tensor, t, k),
                          e < 0 ? -1 : kn_oracle_mask_by_tp(&p, e));
    }
  }
  return KILN_OK;
}

/* How often each index below `range` occurs, in a new array; NULL without memory. */
static int64_t *count(const struct kn_oracle_case *c, const kiln_tensor *t, int64_t range) {
  int64_t *counts = calloc((size_t)range + 1, sizeof *counts);
  for (int64_t i = 0; counts && i < t->shape[0]; ++i) {
    for (int64_t k = 0; k < t->shape[1]; ++k) {
      const int64_t index = take(c, t, i, k, range);
      if (index >= 0) ++counts[index];
    }
  }
  return counts;
}

kiln_status kn_oracle_run_group_count(const struct kn_oracle_job *job) {
  const struct kn_oracle_tensor *in = kn_oracle_tensor(job->c, "group_idx"),
                                *out = kn_oracle_tensor(job->c, "out");
  int64_t *counts;
  if (!in || !out) return KILN_E_ARGUMENT;
  counts = count(job->c, &in->tensor, out->tensor.shape[0]);
  if (!counts) return KILN_E_MEMORY;
  for (int64_t g = 0; g < out->tensor.shape[0]; ++g) {
    kn_oracle_put_index(&out->tensor, g, counts[g]);
  }
  free(counts);
  return KILN_OK;
}

kiln_status kn_oracle_run_aux_fi(const struct kn_oracle_job *job) {
  const struct kn_oracle_tensor *in = kn_oracle_tensor(job->c, "topk_idx"),
                                *out = kn_oracle_tensor(job->c, "out");
  const struct kn_oracle_scalar *aux = kn_oracle_scalar(job->c, "num_aux_topk");
  int64_t *counts, experts;
  if (!in || !out || !aux) return KILN_E_ARGUMENT;
  experts = out->tensor.shape[0];
  counts = count(job->c, &in->tensor, experts);
  if (!counts) return KILN_E_MEMORY;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t whole = in->tensor.shape[0] * (int64_t)aux->value;
    kn_oracle_put_float(&out->tensor, e,
                        whole ? (float)(counts[e] * experts) / (float)whole : 0.0f);
  }
  free(counts);
  return KILN_OK;
}

kiln_status kn_oracle_run_unique(const struct kn_oracle_job *job) {
  const struct kn_oracle_tensor *groups = kn_oracle_tensor(job->c, "group_indices");
  const int64_t range = kn_oracle_param(job->c, "num_groups", 0);
  if (!groups) return KILN_E_ARGUMENT;
  for (int64_t t = 0; t < groups->tensor.shape[0]; ++t) {
    const kiln_tensor *row = &groups->tensor;
    for (int64_t k = row->shape[1]; k-- > 0;) {
      const int64_t own = kn_oracle_get_index(row, kn_oracle_at(row, t, k));
      bool is_repeat = false;
      for (int64_t i = 0; i < k; ++i) {
        is_repeat = is_repeat || kn_oracle_get_index(row, kn_oracle_at(row, t, i)) == own;
      }
      kn_oracle_flag(job->c, own >= range);
      if (own >= range || (own >= 0 && is_repeat)) {
        kn_oracle_put_index(row, kn_oracle_at(row, t, k), -1);
      }
    }
  }
  return KILN_OK;
}
