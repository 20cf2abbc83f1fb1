/* SPDX-License-Identifier: MIT */
/*
 * top2_sum_gate. Scores stand on exp and log1p, which a kernel may have a few ulp off: where
 * experts or groups rank closer than that, any order will do, and the one that a kernel has chosen
 * is taken over.
 */
#include <math.h>
#include <stdlib.h>

#include "oracle/routing.h"

enum { MAX_EXPERTS = 2048, MAX_GROUPS = 64, MAX_SLOTS = 32 };
enum scoring { SIGMOID, SQRT_SOFTPLUS, SOFTMAX };

struct gate {
  const struct kn_oracle_job *job;
  const struct kn_oracle_case *c;
  const struct kn_oracle_tensor *logits, *bias, *mask, *fix, *unmapped, *map, *count, *topk_idx,
      *topk_weights;
  struct kn_oracle_parallel parallel;
  enum scoring scoring;
  int64_t experts, topk, shared, groups, topk_groups, physical, ep_rank;
  bool renormalize;
  double factor;

  /* of the token at hand */
  float logit[MAX_EXPERTS], score[MAX_EXPERTS], rank[MAX_EXPERTS];
  bool is_out[MAX_EXPERTS]; /* its group is not kept */
  int64_t chosen[MAX_SLOTS];
};

static bool find_tensors(struct gate *g) {
  const struct kn_oracle_case *c = g->c;
  g->logits = kn_oracle_tensor(c, "logits");
  g->bias = kn_oracle_tensor(c, "bias");
  g->mask = kn_oracle_tensor(c, "mask");
  g->fix = kn_oracle_tensor(c, "fix_routing_mask");
  g->unmapped = kn_oracle_tensor(c, "unmapped_topk_idx");
  g->map = kn_oracle_tensor(c, "to_physical_map");
  g->count = kn_oracle_tensor(c, "logical_count");
  g->topk_idx = kn_oracle_tensor(c, "topk_idx");
  g->topk_weights = kn_oracle_tensor(c, "topk_weights");
  return g->logits && g->bias && g->topk_idx && g->topk_weights && !g->map == !g->count &&
         (!g->fix || g->unmapped);
}

static enum scoring scoring_of(const struct kn_oracle_case *c) {
  for (size_t i = 0; i < c->num_params; ++i) {
    if (strcmp(c->params[i].name, "scoring_func") != 0) continue;
    if (strcmp(c->params[i].value, "softmax") == 0) return SOFTMAX;
    if (strcmp(c->params[i].value, "sqrtsoftplus") == 0) return SQRT_SOFTPLUS;
  }
  return SIGMOID;
}

static bool find(struct gate *g) {
  const struct kn_oracle_scalar *factor = kn_oracle_scalar(g->c, "routed_scaling_factor"),
                                *ep_rank = kn_oracle_scalar(g->c, "ep_rank");
  if (!find_tensors(g) || !kn_oracle_parallel(g->c, &g->parallel) || !factor || !ep_rank) {
    return false;
  }
  g->factor = factor->value;
  g->ep_rank = (int64_t)ep_rank->value;
  g->scoring = scoring_of(g->c);
  g->renormalize = kn_oracle_param(g->c, "renormalize", 1);
  g->experts = g->logits->tensor.shape[1];
  g->topk = kn_oracle_param(g->c, "num_topk", 0);
  g->shared = g->topk_idx->tensor.shape[1] - g->topk;
  g->groups = kn_oracle_param(g->c, "num_groups", 0);
  g->topk_groups = kn_oracle_param(g->c, "num_topk_groups", 0);
  g->physical = g->map ? g->map->tensor.shape[1] : 1;
  g->parallel.per_rank = (g->experts + g->physical - 1) / g->parallel.num_ep_ranks;
  return g->experts <= MAX_EXPERTS && g->groups <= MAX_GROUPS && g->topk >= 1 && g->shared >= 0 &&
         g->topk + g->shared <= MAX_SLOTS && g->parallel.per_rank >= 1;
}

/* ---- scores ---- */

/* In the steps of the contract, each rounded to f32; exp and log1p are right but for half an ulp.
 */
static float score_of(enum scoring scoring, float x) {
  if (scoring == SIGMOID) return 1 / (1 + (float)exp(-(double)x));
  return (float)sqrt(x > 20 ? (double)x : log1p(exp((double)x)));
}

static void softmax(struct gate *g) {
  float largest = -INFINITY;
  bool is_number = false;
  double sum = 0;
  for (int64_t e = 0; e < g->experts; ++e) {
    is_number = is_number || !isnan(g->logit[e]);
    if (g->logit[e] > largest) largest = g->logit[e];
  }
  if (!is_number) largest = NAN;
  for (int64_t e = 0; e < g->experts; ++e) sum += exp((double)(g->logit[e] - largest));
  for (int64_t e = 0; e < g->experts; ++e) {
    g->score[e] = (float)(exp((double)(g->logit[e] - largest)) / sum);
  }
}

static void take_scores(struct gate *g, int64_t t) {
  for (int64_t e = 0; e < g->experts; ++e) {
    g->logit[e] = kn_oracle_get_float(&g->logits->tensor, kn_oracle_at(&g->logits->tensor, t, e));
    if (g->scoring != SOFTMAX) g->score[e] = score_of(g->scoring, g->logit[e]);
  }
  if (g->scoring == SOFTMAX) softmax(g);
  for (int64_t e = 0; e < g->experts; ++e) {
    const float base = g->scoring == SOFTMAX ? g->logit[e] : g->score[e];
    g->rank[e] = base + kn_oracle_get_float(&g->bias->tensor, e);
  }
}

/* How far off a kernel's rank of an expert may be. */
static double slack_of(const struct gate *g, int64_t e) {
  if (g->scoring == SOFTMAX) return 0;
  return 0x1p-21 * fabs((double)g->score[e]) + 0x1p-23 * fabs((double)g->rank[e]) + 0x1p-126;
}

/* Whether a kernel may take expert b for one that ranks no lower than a. */
static bool may_precede(const struct gate *g, int64_t b, int64_t a) {
  const double slack = slack_of(g, a) + slack_of(g, b);
  if (isnan(g->rank[a]) || isnan(g->rank[b])) return isnan(g->rank[a]) && a == b;
  return a == b || (double)g->rank[b] >= (double)g->rank[a] - slack;
}

/* ---- what becomes of a slot ---- */

static int64_t destination(const struct gate *g, int64_t t, int64_t expert, bool *is_stray) {
  if (expert < 0) return -1;
  if (g->map) {
    const int64_t count = kn_oracle_get_index(&g->count->tensor, expert);
    const int64_t replica = count > 0 ? (g->ep_rank + t * 23333) % count : -1;
    *is_stray = *is_stray || replica >= g->physical;
    if (replica < 0 || replica >= g->physical) return -1;
    expert = kn_oracle_get_index(&g->map->tensor, kn_oracle_at(&g->map->tensor, expert, replica));
    if (expert < 0) return -1;
  }
  return kn_oracle_mask_by_tp(&g->parallel, expert);
}

static int64_t written_index(const struct gate *g, const struct kn_oracle_tensor *out, int64_t t,
                             int64_t k) {
  const kiln_tensor *written = &g->job->written[out - g->c->tensors].tensor;
  return kn_oracle_get_index(written, kn_oracle_at(written, t, k));
}

/* Whether a kernel's outputs of slot k are those of this expert. */
static bool is_written(const struct gate *g, int64_t t, int64_t k, int64_t expert) {
  bool is_stray = false;
  if (!g->job->written) return false;
  if (written_index(g, g->topk_idx, t, k) != destination(g, t, expert, &is_stray)) return false;
  return !g->unmapped || written_index(g, g->unmapped, t, k) == expert;
}

/* ---- choosing ---- */

static bool is_taken(const struct gate *g, int64_t k, int64_t expert) {
  for (int64_t i = 0; i < k; ++i) {
    if (g->chosen[i] == expert) return true;
  }
  return g->is_out[expert];
}

/* An expert that ranks equal by its very inputs gives way to the smaller index. */
static bool has_twin_before(const struct gate *g, int64_t k, int64_t expert) {
  for (int64_t e = 0; e < expert; ++e) {
    const float bias = kn_oracle_get_float(&g->bias->tensor, e);
    if (is_taken(g, k, e) || kn_oracle_bits(g->logit[e]) != kn_oracle_bits(g->logit[expert]))
      continue;
    if (kn_oracle_bits(bias) == kn_oracle_bits(kn_oracle_get_float(&g->bias->tensor, expert))) {
      return true;
    }
  }
  return false;
}

/* Chooses the experts among the groups that are kept; whether they are what a kernel wrote. */
static bool choose_experts(struct gate *g, int64_t t) {
  bool is_same = true;
  for (int64_t k = 0; k < g->topk; ++k) {
    int64_t best = -1;
    for (int64_t e = 0; e < g->experts; ++e) {
      if (is_taken(g, k, e)) continue;
      if (best < 0 || kn_oracle_ranks_before((double)g->rank[e], (double)g->rank[best])) best = e;
    }
    g->chosen[k] = best;
    if (is_written(g, t, k, best)) continue;
    for (int64_t e = 0; e < g->experts && g->job->written; ++e) {
      if (is_taken(g, k, e) || !may_precede(g, e, best) || has_twin_before(g, k, e)) continue;
      if (!is_written(g, t, k, e)) continue;
      g->chosen[k] = e;
      break;
    }
    is_same = is_same && is_written(g, t, k, g->chosen[k]);
  }
  return is_same;
}

/* Keeps some groups. */
static void keep(struct gate *g, const int64_t *groups) {
  const int64_t size = g->experts / g->groups;
  for (int64_t e = 0; e < g->experts; ++e) {
    g->is_out[e] = true;
    for (int64_t i = 0; i < g->topk_groups; ++i) {
      if (groups[i] == e / size) g->is_out[e] = false;
    }
  }
}

/* Groups by rank; the last that is kept may be any that ranks as high but for the slack. */
static void choose_in_groups(struct gate *g, int64_t t) {
  const int64_t size = g->experts / g->groups;
  double sums[MAX_GROUPS], slack[MAX_GROUPS], ranks[MAX_EXPERTS];
  int64_t order[MAX_GROUPS], kept[MAX_GROUPS];
  const int64_t last = g->topk_groups - 1;
  for (int64_t i = 0; i < g->groups; ++i) {
    slack[i] = 0;
    for (int64_t e = 0; e < size; ++e) {
      ranks[e] = (double)g->rank[i * size + e];
      slack[i] = fmax(slack[i], 2 * slack_of(g, i * size + e));
    }
    sums[i] = kn_oracle_group_score(ranks, size, 2, true);
    if (g->scoring != SOFTMAX) slack[i] += 0x1p-23 * fabs(sums[i]);
  }
  kn_oracle_choose(sums, g->groups, NULL, g->groups, order);
  for (int64_t other = last; other < g->groups; ++other) {
    for (int64_t out = last; out >= 0; --out) { /* `other` in the place of one that is kept */
      const double gap = sums[order[out]] - sums[order[other]];
      if (other != last && !(gap <= slack[order[out]] + slack[order[other]])) break;
      memcpy(kept, order, sizeof kept);
      kept[out] = order[other];
      keep(g, kept);
      if (choose_experts(g, t)) return;
      if (other == last) break;
    }
  }
  keep(g, order);
  (void)choose_experts(g, t);
}

static void choose(struct gate *g, int64_t t) {
  memset(g->is_out, 0, sizeof g->is_out);
  if (g->groups == g->topk_groups) {
    (void)choose_experts(g, t);
  } else {
    choose_in_groups(g, t);
  }
}

static void take_fixed(struct gate *g, int64_t t) {
  for (int64_t k = 0; k < g->topk; ++k) {
    const int64_t at = kn_oracle_at(&g->unmapped->tensor, t, k);
    g->chosen[k] = kn_oracle_take(g->c, kn_oracle_get_index(&g->unmapped->tensor, at), g->experts);
  }
}

/* ---- outputs ---- */

static void put_weight(const struct gate *g, int64_t t, int64_t k, double weight) {
  const int64_t at = kn_oracle_at(&g->topk_weights->tensor, t, k);
  if (g->job->written) {
    const kiln_tensor *written = &g->job->written[g->topk_weights - g->c->tensors].tensor;
    const double is = (double)kn_oracle_get_float(written, at);
    if (fabs(is - weight) <= 1e-6 * fmax(1, fabs(weight))) weight = is;
  }
  kn_oracle_put_result(g->job, g->topk_weights, at, (float)weight);
}

static void put_slot(const struct gate *g, int64_t t, int64_t k, int64_t expert, double weight) {
  bool is_stray = false;
  const int64_t to = destination(g, t, expert, &is_stray);
  kn_oracle_flag(g->c, is_stray);
  kn_oracle_put_index(&g->topk_idx->tensor, kn_oracle_at(&g->topk_idx->tensor, t, k), to);
  put_weight(g, t, k, weight);
  if (!g->unmapped || k >= g->topk) return;
  kn_oracle_put_index(&g->unmapped->tensor, kn_oracle_at(&g->unmapped->tensor, t, k), expert);
}

static void put_token(const struct gate *g, int64_t t) {
  double sum = 0;
  for (int64_t k = 0; k < g->topk; ++k) {
    if (g->chosen[k] >= 0) sum += (double)g->score[g->chosen[k]];
  }
  for (int64_t k = 0; k < g->topk; ++k) {
    double weight = g->chosen[k] >= 0 ? (double)g->score[g->chosen[k]] : 0;
    if (g->renormalize) weight /= 1e-20 + sum;
    put_slot(g, t, k, g->chosen[k], weight * g->factor);
  }
  for (int64_t j = 0; j < g->shared; ++j) put_slot(g, t, g->topk + j, g->experts + j, 1);
}

static bool is_set(const struct kn_oracle_tensor *mask, int64_t t) {
  return mask && kn_oracle_get(&mask->tensor, t) != 0;
}

kiln_status kn_oracle_run_gate(const struct kn_oracle_job *job) {
  struct gate *g = calloc(1, sizeof *g);
  kiln_status status = KILN_OK;
  if (!g) return KILN_E_MEMORY;
  g->job = job;
  g->c = job->c;
  if (!find(g)) status = KILN_E_ARGUMENT;
  for (int64_t t = 0; status == KILN_OK && t < g->logits->tensor.shape[0]; ++t) {
    if (g->mask && !is_set(g->mask, t)) {
      for (int64_t k = 0; k < g->topk + g->shared; ++k) put_slot(g, t, k, -1, 0);
      continue;
    }
    take_scores(g, t);
    if (is_set(g->fix, t)) {
      take_fixed(g, t);
    } else {
      choose(g, t);
    }
    put_token(g, t);
  }
  free(g);
  return status;
}
