/* SPDX-License-Identifier: MIT */
/* The gates through the public interface, beside test_routing.c: what they choose among numbers,
   ties, NaN and infinities, where experts go on every rank, repeats, refusals. */
#include "routing.h"

/* ---- numbers ---- */

enum { MAX_EXPERTS = 2048 };

/* NaN below every number, -inf included; equal ones, and NaN among themselves, by index. */
static bool ranks_before(const float *rank, int64_t a, int64_t b) {
  if (isnan(rank[a]) != isnan(rank[b])) return isnan(rank[b]);
  if (!isnan(rank[a]) && rank[a] != rank[b]) return rank[a] > rank[b];
  return a < b;
}

/* The `count` best of those that are not `out`, best first. */
static void choose(const float *rank, int64_t size, const bool *out, int64_t count,
                   int64_t *chosen) {
  static bool is_taken[MAX_EXPERTS];
  for (int64_t e = 0; e < size; ++e) is_taken[e] = out && out[e];
  for (int64_t k = 0; k < count; ++k) {
    int64_t best = -1;
    for (int64_t e = 0; e < size; ++e) {
      if (is_taken[e]) continue;
      if (best < 0 || ranks_before(rank, e, best)) best = e;
    }
    chosen[k] = best;
    is_taken[best] = true;
  }
}

enum row { NUMBERS, TIES, EQUAL, ALL_NAN, ALL_LOWEST, MIXED, ONE_NUMBER, NUM_ROWS };

/* Whole numbers, so that sums of two and of a bias are exact. */
static void fill_row(float *row, int64_t size, enum row kind, uint64_t *random) {
  static const float special[] = {NAN, -INFINITY, INFINITY, 0.0f, -1, 1};
  int64_t lone = draw(random, size);
  for (int64_t e = 0; e < size; ++e) {
    if (kind == NUMBERS) row[e] = (float)(draw(random, 20001) - 10000);
    if (kind == TIES) row[e] = (float)draw(random, 3);
    if (kind == EQUAL) row[e] = 1;
    if (kind == ALL_NAN || kind == ONE_NUMBER) row[e] = NAN;
    if (kind == ALL_LOWEST) row[e] = -INFINITY;
    if (kind == MIXED) row[e] = special[draw(random, 6)];
  }
  if (kind == ONE_NUMBER) row[lone] = -INFINITY;
}

static float *make_rows(int64_t tokens, int64_t size, uint64_t *random) {
  float *out = malloc((size_t)(tokens * size) * 4 + 4);
  assert_non_null(out);
  for (int64_t t = 0; t < tokens; ++t) {
    fill_row(out + t * size, size, (enum row)(t % NUM_ROWS), random);
  }
  return out;
}

/* ---- top-k ---- */

static void the_best_experts_are_distinct_and_in_order(void **state) {
  static const struct {
    int64_t experts, topk;
    kiln_dtype dtype;
  } cases[] = {{8, 4, KILN_I64},    {72, 6, KILN_I32},   {9, 3, KILN_I64},    {1, 1, KILN_I64},
               {9, 9, KILN_I32},    {33, 33, KILN_I64},  {256, 8, KILN_I32},  {1023, 8, KILN_I64},
               {1024, 8, KILN_I64}, {1025, 9, KILN_I32}, {2048, 32, KILN_I64}};
  const int64_t tokens = session.is_harness ? 2 * NUM_ROWS : 100 * NUM_ROWS;
  uint64_t random = seed_of(11);
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    int64_t experts = cases[i].experts, topk = cases[i].topk;
    float *scores = make_rows(tokens, experts, &random);
    int64_t *want = malloc((size_t)(tokens * topk) * 8);
    static const char *const out[] = {"topk_idx"};
    char params[96];
    for (int64_t t = 0; t < tokens; ++t) {
      choose(scores + t * experts, experts, NULL, topk, want + t * topk);
    }
    (void)snprintf(params, sizeof params, "num_experts=%d num_topk=%d index_dtype=%s", (int)experts,
                   (int)topk, name_of(cases[i].dtype));
    struct call c = begin("topk_gate", params);
    void *expected = narrow(want, (size_t)(tokens * topk), cases[i].dtype);
    add(&c, "scores", KILN_F32, tokens, experts, scores);
    add(&c, "topk_idx", cases[i].dtype, tokens, topk, NULL);
    expect_repeats(&c, out, 1);
    expect(&c, "topk_idx", expected);
    end(&c);
    free(expected);
    free(want);
    free(scores);
  }
}

/* A group's score: its best one or two added up; NaN if one of them is, since NaN is chosen last.
 */
static float group_score(const float *rank, int64_t size, int64_t count) {
  int64_t best[2];
  choose(rank, size, NULL, count, best);
  return count == 1 ? rank[best[0]] : rank[best[0]] + rank[best[1]];
}

static void the_best_groups_are_distinct_and_in_order(void **state) {
  static const struct {
    int64_t groups, size, sum, topk;
  } cases[] = {{8, 32, 2, 4}, {4, 64, 2, 4}, {12, 6, 1, 5}, {33, 1, 1, 8}, {64, 2, 2, 64}};
  const int64_t tokens = 3 * NUM_ROWS;
  uint64_t random = seed_of(12);
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    int64_t groups = cases[i].groups, size = cases[i].size, topk = cases[i].topk;
    float *scores = make_rows(tokens, groups * size, &random), sums[64];
    int64_t *want = malloc((size_t)(tokens * topk) * 8);
    const int64_t shape[3] = {tokens, groups, size};
    char params[96];
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t g = 0; g < groups; ++g) {
        sums[g] = group_score(scores + (t * groups + g) * size, size, cases[i].sum);
      }
      choose(sums, groups, NULL, topk, want + t * topk);
    }
    (void)snprintf(params, sizeof params,
                   "num_groups=%d group_size=%d num_topk_sum=%d num_topk_groups=%d", (int)groups,
                   (int)size, (int)cases[i].sum, (int)topk);
    struct call c = begin("topk_sum_and_topk_group_idx", params);
    add(&c, "scores", KILN_F32, tokens, groups * size, scores);
    kiln_tensor *tensor = &arg_of(&c, "scores")->tensor;
    *tensor = kiln_tensor_make(tensor->data, KILN_F32, 3, shape);
    add(&c, "topk_group_idx", KILN_I64, tokens, topk, NULL);
    run(&c);
    expect(&c, "topk_group_idx", want);
    end(&c);
    free(want);
    free(scores);
  }
}

/* ---- the whole gate ---- */

/* Everything that top2_sum_gate can do, small: E experts in G groups of which TOPK_GROUPS are kept,
   fixed and masked tokens, shared experts, replicas. A softmax ranks by its logits, so that the
   choice is known to the bit. */
enum {
  EXPERTS = 12,
  GROUPS = 4,
  SIZE = EXPERTS / GROUPS,
  TOPK_GROUPS = 2,
  TOPK = 3,
  SHARED = 2,
  SLOTS = TOPK + SHARED,
  REPLICAS = 4,
  ALL = EXPERTS + SHARED,
  PHYSICAL = EXPERTS + REPLICAS - 1,
  TOKENS = 4 * NUM_ROWS
};

struct gate {
  float logits[TOKENS * EXPERTS], bias[EXPERTS];
  uint8_t mask[TOKENS], fix[TOKENS];
  int64_t fixed[TOKENS * TOPK];
  int32_t map[ALL * REPLICAS], count[ALL];
  int64_t num_ep, ep_rank, num_tp, tp_rank;
};

static void fill_gate(struct gate *g, uint64_t seed) {
  uint64_t random = seed_of(seed);
  float *rows = make_rows(TOKENS, EXPERTS, &random);
  memcpy(g->logits, rows, sizeof g->logits);
  free(rows);
  for (int e = 0; e < EXPERTS; ++e) g->bias[e] = (float)(draw(&random, 5) - 2);
  for (int t = 0; t < TOKENS; ++t) {
    g->mask[t] = (uint8_t)(draw(&random, 5) != 0);
    g->fix[t] = (uint8_t)(draw(&random, 4) == 0);
    for (int k = 0; k < TOPK; ++k) g->fixed[t * TOPK + k] = draw(&random, EXPERTS + 2) - 1;
  }
  for (int e = 0; e < ALL; ++e) {
    g->count[e] = (int32_t)(draw(&random, REPLICAS + 2) - 1); /* -1 and 0: nowhere */
    for (int r = 0; r < REPLICAS; ++r) {
      g->map[e * REPLICAS + r] = (int32_t)(draw(&random, PHYSICAL + 2) - 2);
    }
  }
}

/* Step 4: the experts of a token's slots, -1 where a fixed one is none. */
static void route(const struct gate *g, int64_t t, int64_t *chosen) {
  const float *row = g->logits + t * EXPERTS;
  float rank[EXPERTS], sums[GROUPS];
  bool is_out[EXPERTS];
  int64_t kept[TOPK_GROUPS];
  if (g->fix[t]) {
    for (int k = 0; k < TOPK; ++k) {
      chosen[k] = g->fixed[t * TOPK + k] < EXPERTS ? g->fixed[t * TOPK + k] : -1;
    }
    return;
  }
  for (int e = 0; e < EXPERTS; ++e) rank[e] = row[e] + g->bias[e];
  for (int i = 0; i < GROUPS; ++i) sums[i] = group_score(rank + i * SIZE, SIZE, 2);
  choose(sums, GROUPS, NULL, TOPK_GROUPS, kept);
  for (int e = 0; e < EXPERTS; ++e) is_out[e] = kept[0] != e / SIZE && kept[1] != e / SIZE;
  choose(rank, EXPERTS, is_out, TOPK, chosen);
}

/* Steps 8 and 9. */
static int64_t destination(const struct gate *g, int64_t t, int64_t e) {
  int64_t per_rank = PHYSICAL / g->num_ep, per_dp = per_rank * g->num_tp;
  if (e < 0 || g->count[e] <= 0) return -1;
  e = g->map[e * REPLICAS + (g->ep_rank + t * 23333) % g->count[e]];
  if (e < 0) return -1;
  if (e / per_rank % g->num_tp != g->tp_rank) return -1;
  e -= g->tp_rank * per_rank;
  e -= e / per_dp * (per_dp - per_rank);
  return e < 0 ? -1 : e;
}

static struct call begin_gate(const struct gate *g) {
  static const char params[] =
      "num_experts=12 num_topk=3 num_groups=4 num_topk_groups=2 scoring_func=softmax "
      "use_shared_as_routed=true present.mask=true present.fix_routing_mask=true "
      "present.unmapped_topk_idx=true present.to_physical_map=true present.logical_count=true "
      "present.error=true";
  struct call c = begin("top2_sum_gate", params);
  add(&c, "logits", KILN_F32, TOKENS, EXPERTS, g->logits);
  add(&c, "bias", KILN_F32, -1, EXPERTS, g->bias);
  add(&c, "mask", KILN_BOOL, -1, TOKENS, g->mask);
  add(&c, "fix_routing_mask", KILN_BOOL, -1, TOKENS, g->fix);
  add(&c, "unmapped_topk_idx", KILN_I64, TOKENS, TOPK, g->fixed);
  add(&c, "to_physical_map", KILN_I32, ALL, REPLICAS, g->map);
  add(&c, "logical_count", KILN_I32, -1, ALL, g->count);
  add(&c, "topk_idx", KILN_I64, TOKENS, SLOTS, NULL);
  add(&c, "topk_weights", KILN_F32, TOKENS, SLOTS, NULL);
  add_error(&c);
  add_scalar(&c, "routed_scaling_factor", 2.5);
  add_scalar(&c, "num_ep_ranks", 1);
  add_scalar(&c, "ep_rank", 0);
  add_scalar(&c, "num_tp_ranks", 1);
  add_scalar(&c, "tp_rank", 0);
  return c;
}

/* The weight of each slot, in double, or NaN where the row has no number to scale by. */
static void weigh(const struct gate *g, int64_t t, const int64_t *chosen, double *weights) {
  double largest = -INFINITY, score[TOPK], sum = 0, chosen_sum = 1e-20;
  bool is_number = false;
  for (int e = 0; e < EXPERTS; ++e) {
    is_number = is_number || !isnan(g->logits[t * EXPERTS + e]);
    if (g->logits[t * EXPERTS + e] > largest) largest = g->logits[t * EXPERTS + e];
  }
  if (!is_number) largest = NAN;
  for (int e = 0; e < EXPERTS; ++e) sum += exp(g->logits[t * EXPERTS + e] - largest);
  for (int k = 0; k < TOPK; ++k) {
    score[k] = chosen[k] < 0 ? 0 : exp(g->logits[t * EXPERTS + chosen[k]] - largest) / sum;
    chosen_sum += score[k];
  }
  for (int k = 0; k < TOPK; ++k) weights[k] = score[k] / chosen_sum * 2.5;
  for (int k = TOPK; k < SLOTS; ++k) weights[k] = 1;
}

static void expect_gate(struct call *c, const struct gate *g) {
  int64_t *index = fetch(c, "topk_idx"), *unmapped = fetch(c, "unmapped_topk_idx");
  float *weight = fetch(c, "topk_weights");
  bool is_stray = false;
  for (int64_t t = 0; t < TOKENS; ++t) {
    int64_t chosen[SLOTS] = {-1, -1, -1, -1, -1};
    double weights[SLOTS] = {0};
    if (g->mask[t]) {
      route(g, t, chosen);
      weigh(g, t, chosen, weights);
      for (int j = 0; j < SHARED; ++j) chosen[TOPK + j] = EXPERTS + j;
      for (int k = 0; k < TOPK; ++k) {
        is_stray = is_stray || (g->fix[t] && g->fixed[t * TOPK + k] >= EXPERTS);
      }
    }
    for (int64_t k = 0; k < SLOTS; ++k) {
      double got = weight[t * SLOTS + k];
      assert_int_equal(index[t * SLOTS + k], destination(g, t, chosen[k]));
      if (k < TOPK) assert_int_equal(unmapped[t * TOPK + k], chosen[k]);
      assert_true(isnan(weights[k]) ? isnan(got)
                                    : fabs(got - weights[k]) <= 1e-6 * fmax(1, weights[k]));
    }
  }
  expect_error(c, is_stray);
  free(index);
  free(unmapped);
  free(weight);
}

static void run_gate(struct call *c, const struct gate *g) {
  const int32_t word = OTHER_BIT;
  upload(c, "unmapped_topk_idx", g->fixed);
  upload(c, "topk_idx", NULL);
  upload(c, "topk_weights", NULL);
  upload(c, "error", &word);
  arg_of(c, "num_ep_ranks")->scalar = (double)g->num_ep;
  arg_of(c, "ep_rank")->scalar = (double)g->ep_rank;
  arg_of(c, "num_tp_ranks")->scalar = (double)g->num_tp;
  arg_of(c, "tp_rank")->scalar = (double)g->tp_rank;
  run(c);
  expect_gate(c, g);
}

/* Every rank of every way to share out the physical experts over up to 3 tensor-parallel ranks. */
static void the_gate_is_right_on_every_rank(void **state) {
  static struct gate g;
  (void)state;
  for (uint64_t seed = 0; seed < (session.is_harness ? 1 : 20); ++seed) {
    fill_gate(&g, 20 + seed);
    struct call c = begin_gate(&g);
    for (g.num_ep = 1; g.num_ep <= PHYSICAL; g.num_ep += session.is_harness ? 3 : 1) {
      for (g.ep_rank = 0; g.ep_rank < g.num_ep; ++g.ep_rank) {
        for (g.num_tp = 1; g.num_tp <= 3; ++g.num_tp) {
          for (g.tp_rank = 0; g.tp_rank < g.num_tp; ++g.tp_rank) {
            if (session.is_harness && (g.ep_rank + g.num_tp + g.tp_rank) % 4) continue;
            run_gate(&c, &g);
          }
        }
      }
    }
    end(&c);
  }
}

/* Scores and weights whose logits lie at the ends of what exp can take: all slots distinct, no
   weight but a number, and the same bits each time. */
static void extreme_logits_give_distinct_experts_and_finite_weights(void **state) {
  static const float logits[] = {-17, -100, 89, 1e4f, -1e4f, 0, -INFINITY, 20.5f};
  static const char *const out[] = {"topk_idx", "topk_weights"};
  static const char *const functions[] = {"sigmoid", "sqrtsoftplus"};
  enum { E = 8, K = 8, ROWS = 9 };
  float rows[ROWS * E], bias[E] = {0};
  (void)state;
  for (int t = 0; t < ROWS; ++t) {
    for (int e = 0; e < E; ++e) rows[t * E + e] = t < E ? logits[t] : logits[e];
  }
  for (int f = 0; f < 2; ++f) {
    char params[96];
    (void)snprintf(params, sizeof params, "num_experts=8 num_topk=8 scoring_func=%s", functions[f]);
    struct call c = begin("top2_sum_gate", params);
    add(&c, "logits", KILN_F32, ROWS, E, rows);
    add(&c, "bias", KILN_F32, -1, E, bias);
    add(&c, "topk_idx", KILN_I64, ROWS, K, NULL);
    add(&c, "topk_weights", KILN_F32, ROWS, K, NULL);
    add_scalar(&c, "routed_scaling_factor", 1);
    add_scalar(&c, "num_ep_ranks", 1);
    add_scalar(&c, "ep_rank", 0);
    add_scalar(&c, "num_tp_ranks", 1);
    add_scalar(&c, "tp_rank", 0);
    expect_repeats(&c, out, 2);
    int64_t *index = fetch(&c, "topk_idx");
    float *weight = fetch(&c, "topk_weights");
    for (int t = 0; t < ROWS; ++t) {
      unsigned seen = 0;
      for (int k = 0; k < K; ++k) {
        seen |= 1u << index[t * K + k];
        assert_true(isfinite(weight[t * K + k]) && weight[t * K + k] >= 0);
        if (t < E) assert_int_equal(index[t * K + k], k); /* all equal: the smaller index first */
      }
      assert_int_equal(seen, 0xff);
    }
    end(&c);
    free(index);
    free(weight);
  }
}

/* ---- refusals ---- */

static void a_gate_that_cannot_be_is_refused_in_one_sentence(void **state) {
  static const struct {
    const char *op, *params, *words;
  } cases[] = {
      {"topk_gate", "num_experts=4 num_topk=5", "distinct"},
      {"topk_gate", "num_experts=2049 num_topk=5", "2048"},
      {"topk_gate", "num_experts=256 num_topk=65", "64"},
      {"topk_sum_and_topk_group_idx", "num_groups=8 group_size=1 num_topk_groups=2",
       "num_topk_sum"},
      {"topk_sum_and_topk_group_idx", "num_groups=65 group_size=2 num_topk_groups=2", "64"},
      {"topk_sum_and_topk_group_idx", "num_groups=4 group_size=2 num_topk_groups=5", "distinct"},
      {"top2_sum_gate",
       "num_experts=4 num_topk=3 num_groups=2 num_topk_groups=1 scoring_func=sigmoid", "hold"},
      {"top2_sum_gate", "num_experts=4 num_topk=5 scoring_func=sigmoid", "distinct"},
      {"top2_sum_gate", "num_experts=64 num_topk=33 scoring_func=sigmoid", "32"},
      {"top2_sum_gate",
       "num_experts=9 num_topk=2 num_groups=2 num_topk_groups=1 scoring_func=sigmoid",
       "num_experts"},
      {"top2_sum_gate", "num_experts=8 num_topk=2 scoring_func=tanh", "sqrtsoftplus"},
      {"top2_sum_gate",
       "num_experts=8 num_topk=2 scoring_func=sigmoid present.fix_routing_mask=true", "fixed"},
      {"top2_sum_gate",
       "num_experts=8 num_topk=2 scoring_func=sigmoid present.to_physical_map=true", "counts"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    kiln_kernel *kernel;
    kiln_status status = try_kernel(cases[i].op, cases[i].params, &kernel);
    assert_null(kernel);
    assert_true(status == KILN_E_UNSUPPORTED || status == KILN_E_ARGUMENT);
    expect_refused(status, status, cases[i].op, cases[i].words);
  }
}

static void a_rank_that_cannot_be_is_refused_and_nothing_written(void **state) {
  static const struct {
    int64_t num_ep, ep_rank, num_tp, tp_rank;
    const char *words;
  } cases[] = {{PHYSICAL + 1, 0, 1, 0, "num_ep_ranks"},
               {0, 0, 1, 0, "num_ep_ranks"},
               {2, 2, 1, 0, "ep_rank is 2"},
               {2, -1, 1, 0, "ep_rank is -1"},
               {1, 0, 0, 0, "num_tp_ranks"},
               {1, 0, 2, 2, "tp_rank is 2"}};
  static struct gate g;
  unsigned char poison[TOKENS * SLOTS * 8];
  (void)state;
  memset(poison, POISON, sizeof poison);
  fill_gate(&g, 19);
  struct call c = begin_gate(&g);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    arg_of(&c, "num_ep_ranks")->scalar = (double)cases[i].num_ep;
    arg_of(&c, "ep_rank")->scalar = (double)cases[i].ep_rank;
    arg_of(&c, "num_tp_ranks")->scalar = (double)cases[i].num_tp;
    arg_of(&c, "tp_rank")->scalar = (double)cases[i].tp_rank;
    assert_false(launch(&c));
    expect_refused(kiln_last_error()->status, KILN_E_ARGUMENT, "top2_sum_gate", cases[i].words);
  }
  expect(&c, "topk_idx", poison);
  expect(&c, "topk_weights", poison);
  expect(&c, "unmapped_topk_idx", g.fixed);
  expect_error(&c, false);
  end(&c);
}

/* ---- sizes of a GPU ---- */

/* t*23333 leaves 32 bits at token 92,037: the last tokens show which replica they got. */
static void late_tokens_get_the_right_replica(void **state) {
  enum { LATE = 200003, E = 4, D = 3 };
  int32_t map[E * D], count[E];
  float bias[E] = {0};
  (void)state;
  if (session.is_harness) skip();
  for (int i = 0; i < E * D; ++i) map[i] = i % D; /* the replica itself */
  for (int e = 0; e < E; ++e) count[e] = D;
  struct call c = begin("top2_sum_gate",
                        "num_experts=4 num_topk=2 scoring_func=sigmoid "
                        "present.to_physical_map=true present.logical_count=true");
  add(&c, "logits", KILN_F32, LATE, E, NULL);
  add(&c, "bias", KILN_F32, -1, E, bias);
  add(&c, "to_physical_map", KILN_I32, E, D, map);
  add(&c, "logical_count", KILN_I32, -1, E, count);
  add(&c, "topk_idx", KILN_I64, LATE, 2, NULL);
  add(&c, "topk_weights", KILN_F32, LATE, 2, NULL);
  add_scalar(&c, "routed_scaling_factor", 1);
  add_scalar(&c, "num_ep_ranks", 2);
  add_scalar(&c, "ep_rank", 1);
  add_scalar(&c, "num_tp_ranks", 1);
  add_scalar(&c, "tp_rank", 0);
  run(&c);
  int64_t *index = fetch(&c, "topk_idx");
  for (int64_t i = 0; i < 2 * (int64_t)LATE; ++i) {
    assert_int_equal(index[i], (1 + i / 2 * 23333) % D);
  }
  free(index);
  end(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_best_experts_are_distinct_and_in_order),
      cmocka_unit_test(the_best_groups_are_distinct_and_in_order),
      cmocka_unit_test(the_gate_is_right_on_every_rank),
      cmocka_unit_test(extreme_logits_give_distinct_experts_and_finite_weights),
      cmocka_unit_test(a_gate_that_cannot_be_is_refused_in_one_sentence),
      cmocka_unit_test(a_rank_that_cannot_be_is_refused_and_nothing_written),
      cmocka_unit_test(late_tokens_get_the_right_replica),
  };
  if (!open_session()) return no_session();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  close_session();
  return failed;
}
