/* SPDX-License-Identifier: MIT */
/* The routing operators through the public interface: every pattern of tiny cases against what the
   contract says, properties of larger ones, repeats, graphs, refusals. On a GPU, and on the SIMT
   harness with fewer repeats and smaller sizes. Skips with 77 where there is no driver. */
#include "routing.h"

/* ---- every pattern ---- */

/* Every topk_idx of so many tokens, slots and experts; on a GPU also larger ones. */
struct tiny {
  int64_t tokens, topk, experts;
  kiln_dtype dtype;
  bool is_large;
};
static const struct tiny tiny_cases[] = {{1, 1, 1, KILN_I64, false}, {2, 2, 2, KILN_I64, false},
                                         {3, 1, 3, KILN_I32, false}, {1, 3, 2, KILN_I32, false},
                                         {2, 2, 3, KILN_I32, true},  {3, 2, 2, KILN_I64, true}};
enum { NUM_TINY = sizeof tiny_cases / sizeof *tiny_cases };

static void every_mapping_of_tiny_cases_is_right(void **state) {
  (void)state;
  for (int i = 0; i < NUM_TINY; ++i) {
    const struct tiny *t = &tiny_cases[i];
    int64_t slots = t->tokens * t->topk, ids[8];
    if (t->is_large && session.is_harness) continue;
    for (int64_t alignment = session.is_harness ? 3 : 1; alignment <= 3; ++alignment) {
      /* One row fewer than the longest layout needs, so that the full ones do not fit. */
      int64_t rows = rows_bound(slots, t->experts, alignment) - 1;
      struct layout l = make_layout(t->tokens, t->topk, t->experts, alignment, rows);
      (void)pattern(0, slots, t->experts, t->dtype, ids);
      struct call c = begin_mapping(&l, t->dtype, ids);
      for (int64_t n = 0; n < num_patterns(slots, t->experts); ++n) {
        (void)pattern(n, slots, t->experts, t->dtype, ids);
        void *host = narrow(ids, (size_t)slots, t->dtype);
        upload(&c, "topk_idx", host);
        free(host);
        poison_mapping(&c);
        fill_layout(&l, ids);
        run(&c);
        expect_layout(&c, &l);
      }
      end(&c);
      free_layout(&l);
    }
  }
}

static void every_count_of_tiny_cases_is_right(void **state) {
  (void)state;
  for (int i = 0; i < NUM_TINY; ++i) {
    const struct tiny *t = &tiny_cases[i];
    int64_t slots = t->tokens * t->topk, ids[8];
    char params[96];
    if (t->is_large && session.is_harness) continue;
    (void)snprintf(params, sizeof params,
                   "num_groups=%d num_topk=%d index_dtype=%s present.error=true", (int)t->experts,
                   (int)t->topk, name_of(t->dtype));
    struct call c = begin("group_count", params);
    add(&c, "group_idx", t->dtype, t->tokens, t->topk, NULL);
    add(&c, "out", KILN_I32, -1, t->experts, NULL);
    add_error(&c);
    for (int64_t n = 0; n < num_patterns(slots, t->experts); ++n) {
      const int32_t word = OTHER_BIT;
      int32_t want[8] = {0};
      bool is_stray = pattern(n, slots, t->experts, t->dtype, ids);
      for (int64_t s = 0; s < slots; ++s) want[ids[s] < t->experts && ids[s] >= 0 ? ids[s] : 7]++;
      void *host = narrow(ids, (size_t)slots, t->dtype);
      upload(&c, "group_idx", host);
      free(host);
      upload(&c, "out", NULL);
      upload(&c, "error", &word);
      run(&c);
      expect(&c, "out", want);
      expect_error(&c, is_stray);
    }
    end(&c);
  }
}

/* Rows do not depend on each other: all patterns are rows of one launch. */
static void every_row_of_groups_becomes_unique(void **state) {
  static const struct tiny cases[] = {
      {0, 4, 3, KILN_I64, false}, {0, 5, 2, KILN_I32, false}, {0, 1, 1, KILN_I64, false}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const struct tiny *t = &cases[i];
    int64_t rows = num_patterns(t->topk, t->experts);
    size_t slots = (size_t)(rows * t->topk);
    int64_t *ids = malloc(slots * 8), *want = malloc(slots * 8);
    char params[96];
    for (int64_t n = 0; n < rows; ++n) {
      int64_t *row = ids + n * t->topk, *out = want + n * t->topk;
      (void)pattern(n, t->topk, t->experts, t->dtype, row);
      for (int64_t k = 0; k < t->topk; ++k) {
        out[k] = row[k] < t->experts ? row[k] : -1;
        for (int64_t j = 0; j < k; ++j) out[k] = row[j] == row[k] ? -1 : out[k];
      }
    }
    (void)snprintf(params, sizeof params,
                   "num_groups=%d num_topk=%d index_dtype=%s present.error=true", (int)t->experts,
                   (int)t->topk, name_of(t->dtype));
    struct call c = begin("inplace_unique_group_indices", params);
    void *host = narrow(ids, slots, t->dtype), *expected = narrow(want, slots, t->dtype);
    add(&c, "group_indices", t->dtype, rows, t->topk, host);
    add_error(&c);
    run(&c);
    expect(&c, "group_indices", expected);
    expect_error(&c, true);
    end(&c);
    free(host);
    free(expected);
    free(ids);
    free(want);
  }
}

/* Step 9 of the contract's gate. */
static int64_t masked(int64_t e, int64_t n, int64_t num_ep, int64_t num_tp, int64_t tp_rank) {
  int64_t per_rank = n / num_ep, per_dp = per_rank * num_tp;
  if (e < 0 || e >= n) return -1;
  if (e / per_rank % num_tp != tp_rank) return -1;
  e -= tp_rank * per_rank;
  e -= e / per_dp * (per_dp - per_rank);
  return e < 0 ? -1 : e;
}

static void expect_masked(struct call *c, int64_t n, int64_t num_ep, int64_t num_tp, int64_t tp,
                          kiln_dtype dtype) {
  enum { SLOTS = 12 };
  int64_t ids[SLOTS], want[SLOTS];
  const int32_t word = OTHER_BIT;
  for (int64_t i = 0; i < SLOTS; ++i) {
    ids[i] = id_of(i % (n + 2), n, dtype);
    want[i] = masked(ids[i], n, num_ep, num_tp, tp);
  }
  void *host = narrow(ids, SLOTS, dtype), *expected = narrow(want, SLOTS, dtype);
  upload(c, "indices", host);
  upload(c, "masked_indices", NULL);
  upload(c, "error", &word);
  arg_of(c, "n")->scalar = (double)n;
  arg_of(c, "num_ep_ranks")->scalar = (double)num_ep;
  arg_of(c, "num_tp_ranks")->scalar = (double)num_tp;
  arg_of(c, "tp_rank")->scalar = (double)tp;
  run(c);
  expect(c, "masked_indices", expected);
  expect_error(c, true);
  free(host);
  free(expected);
}

/* Every id of every number of experts up to 7 on every rank. */
static void every_id_is_masked_on_every_rank(void **state) {
  static const kiln_dtype dtypes[] = {KILN_I64, KILN_I32};
  (void)state;
  for (int i = 0; i < 2; ++i) {
    char params[96];
    (void)snprintf(params, sizeof params, "num_topk=3 index_dtype=%s present.error=true",
                   name_of(dtypes[i]));
    struct call c = begin("mask_indices_by_tp", params);
    add(&c, "indices", dtypes[i], 4, 3, NULL);
    add(&c, "masked_indices", dtypes[i], 4, 3, NULL);
    add_error(&c);
    static const char *const scalars[] = {"n", "num_ep_ranks", "num_tp_ranks", "tp_rank"};
    for (int s = 0; s < 4; ++s) add_scalar(&c, scalars[s], 0);
    for (int64_t n = 1; n <= 7; ++n) {
      for (int64_t num_ep = 1; num_ep <= n; ++num_ep) {
        for (int64_t num_tp = 1; num_tp <= 3; ++num_tp) {
          for (int64_t tp = 0; tp < num_tp; ++tp) {
            expect_masked(&c, n, num_ep, num_tp, tp, dtypes[i]);
          }
        }
      }
    }
    end(&c);
  }
}

/* ---- properties of the mapping ---- */

/* What holds of any layout that has room for all: segments are aligned, follow each other, and each
   slot has one row of its own in its expert's, in ascending order and before the padding. */
static void expect_permutation(struct call *c, const struct layout *l, const int64_t *ids) {
  int32_t *slot_of = fetch(c, "pos_to_token_topk"), *token_of = fetch(c, "pos_to_token");
  int32_t *expert_of = fetch(c, "pos_to_expert"), *row_of = fetch(c, "token_topk_to_pos");
  int32_t *first = fetch(c, "expert_start"), *end_of = fetch(c, "expert_end");
  int64_t slots = l->tokens * l->topk, num_rows = 0, num_slots = 0;
  for (int64_t e = 0; e < l->experts; ++e) {
    assert_int_equal(first[e], e ? end_of[e - 1] : 0);
    assert_int_equal(first[e] % l->alignment, 0);
    for (int64_t row = first[e]; row < end_of[e]; ++row) {
      num_rows += slot_of[row] >= 0;
      assert_int_equal(expert_of[row], slot_of[row] >= 0 ? e : -1);
      if (row > first[e] && slot_of[row] >= 0) assert_true(slot_of[row] > slot_of[row - 1]);
      if (row > first[e] && slot_of[row] >= 0) assert_true(slot_of[row - 1] >= 0);
    }
  }
  assert_int_equal(end_of[l->experts - 1] % l->alignment, 0);
  for (int64_t row = end_of[l->experts - 1]; row < l->rows; ++row) {
    assert_int_equal(expert_of[row] & slot_of[row] & token_of[row], -1);
  }
  for (int64_t slot = 0; slot < slots; ++slot) {
    bool is_there = ids[slot] >= 0 && ids[slot] < l->experts;
    num_slots += is_there;
    assert_true(is_there ? row_of[slot] >= 0 && row_of[slot] < l->rows : row_of[slot] == -1);
    if (!is_there) continue;
    assert_int_equal(slot_of[row_of[slot]], slot);
    assert_int_equal(token_of[row_of[slot]], slot / l->topk);
    assert_int_equal(expert_of[row_of[slot]], ids[slot]);
  }
  assert_int_equal(num_rows, num_slots);
  void *all[] = {slot_of, token_of, expert_of, row_of, first, end_of};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
}

enum spread { EVEN, CROWDED, SPARSE, NONE, STRAY, NUM_SPREADS };

static void fill_ids(int64_t *ids, int64_t count, int64_t range, kiln_dtype dtype,
                     enum spread spread, uint64_t *random) {
  int64_t favourite = draw(random, range);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = draw(random, range);
    if (spread == CROWDED && draw(random, 16)) ids[i] = favourite;
    if (spread == SPARSE && draw(random, 8)) ids[i] = -1 - draw(random, 3);
    if (spread == NONE) ids[i] = -1;
    if (spread == STRAY && draw(random, 4) == 0) ids[i] = id_of(range + 1, range, dtype);
  }
}

/* One layout, for several numbers of blocks. */
static void expect_mapping(struct layout *l, kiln_dtype dtype, const int64_t *ids, bool has_room) {
  static const int32_t num_sms[] = {0, 1, 3, 1000};
  fill_layout(l, ids);
  struct call c = begin_mapping(l, dtype, ids);
  for (size_t i = 0; i < sizeof num_sms / sizeof *num_sms; ++i) {
    if (session.is_harness && i > (l->tokens * l->topk > 2048 ? 2 : 0)) break;
    c.options.num_sms = num_sms[i];
    add_workspace(&c);
    poison_mapping(&c);
    run(&c);
    expect_layout(&c, l);
    if (has_room && i == 0) expect_permutation(&c, l, ids);
  }
  end(&c);
}

static void a_mapping_is_a_permutation_into_aligned_segments(void **state) {
  static const struct {
    int64_t experts, topk, most_tokens;
    kiln_dtype dtype;
  } kernels[] = {{13, 6, 500, KILN_I64},  {256, 8, 400, KILN_I32}, {1023, 1, 40, KILN_I64},
                 {1025, 9, 40, KILN_I32}, {1, 32, 90, KILN_I64},   {2048, 2, 20, KILN_I32}};
  static const int64_t alignments[] = {1, 16, 128, 100};
  uint64_t random = seed_of(1);
  (void)state;
  const int rounds = session.is_harness ? 3 : 60;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i) {
    for (int round = 0; round < rounds; ++round) {
      int64_t topk = kernels[i].topk, experts = kernels[i].experts;
      int64_t tokens = round == 0 ? 0 : 1 + draw(&random, kernels[i].most_tokens);
      int64_t alignment = alignments[(size_t)draw(&random, 4)], slots = tokens * topk;
      int64_t bound = rows_bound(slots, experts, alignment);
      bool has_room = round % 4 != 1;
      int64_t rows = has_room ? bound + draw(&random, 300) : draw(&random, bound / 2 + 1);
      int64_t *ids = malloc((size_t)slots * 8 + 8);
      enum spread spread = (enum spread)draw(&random, NUM_SPREADS);
      fill_ids(ids, slots, experts, kernels[i].dtype, spread, &random);
      struct layout l = make_layout(tokens, topk, experts, alignment, rows);
      expect_mapping(&l, kernels[i].dtype, ids, has_room);
      free_layout(&l);
      free(ids);
    }
  }
}

/* ---- there and back ---- */

/* Mapping, expand, reduce with weights of one, sharing memory as a model's layer does. */
struct trip {
  struct layout l;
  struct call mapping, expand, reduce;
  int64_t hidden;
};

static void pack_value(void *out, int64_t at, kiln_dtype dtype, float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (dtype == KILN_F32) {
    ((uint32_t *)out)[at] = bits;
  } else {
    ((uint16_t *)out)[at] = (uint16_t)(bits >> 16); /* small whole numbers: exact in bf16 */
  }
}

static struct trip begin_trip(int64_t tokens, int64_t topk, int64_t hidden, kiln_dtype dtype) {
  enum { EXPERTS = 13, ALIGNMENT = 16 };
  int64_t slots = tokens * topk, rows = rows_bound(slots, EXPERTS, ALIGNMENT);
  struct trip t = {.l = make_layout(tokens, topk, EXPERTS, ALIGNMENT, rows), .hidden = hidden};
  int64_t *ids = malloc((size_t)slots * 8 + 8);
  float *ones = malloc((size_t)slots * 4 + 4);
  char params[128];
  for (int64_t i = 0; i < slots; ++i) {
    ids[i] = -1;
    ones[i] = 1;
  }
  t.mapping = begin_mapping(&t.l, KILN_I64, ids);
  (void)snprintf(params, sizeof params, "hidden=%d dtype=%s num_topk=%d", (int)hidden,
                 name_of(dtype), (int)topk);
  t.expand = begin("expand_to_fused", params);
  add(&t.expand, "x", dtype, tokens, hidden, NULL);
  add(&t.expand, "expanded_x", dtype, rows, hidden, NULL);
  borrow(&t.expand, "token_topk_to_pos", &t.mapping, "token_topk_to_pos");
  borrow(&t.expand, "pos_to_expert", &t.mapping, "pos_to_expert");
  (void)snprintf(params, sizeof params,
                 "hidden=%d dtype=%s out_dtype=%s num_topk=%d present.topk_weights=true",
                 (int)hidden, name_of(dtype), name_of(dtype), (int)topk);
  t.reduce = begin("reduce_fused", params);
  borrow(&t.reduce, "x", &t.expand, "expanded_x");
  borrow(&t.reduce, "token_topk_to_pos", &t.mapping, "token_topk_to_pos");
  add(&t.reduce, "topk_weights", KILN_F32, tokens, topk, ones);
  add(&t.reduce, "out", dtype, tokens, hidden, NULL);
  free(ids);
  free(ones);
  return t;
}

static void end_trip(struct trip *t) {
  end(&t->reduce);
  end(&t->expand);
  end(&t->mapping);
  free_layout(&t->l);
}

static bool launch_trip(void *user) {
  struct trip *t = user;
  return launch(&t->mapping) && launch(&t->expand) && launch(&t->reduce);
}

/* New tokens and experts; then `travel` launches. Each token comes back as often as it has slots.
 */
static void expect_trip(struct trip *t, bool (*travel)(void *user), void *user, uint64_t *random) {
  kiln_dtype dtype = arg_of(&t->expand, "x")->tensor.dtype;
  size_t size = dtype == KILN_F32 ? 4 : 2, row_bytes = (size_t)t->hidden * size;
  int64_t tokens = t->l.tokens, slots = tokens * t->l.topk;
  int64_t *ids = malloc((size_t)slots * 8 + 8);
  uint8_t *x = calloc((size_t)tokens + 1, row_bytes), *out = calloc((size_t)tokens + 1, row_bytes);
  uint8_t *expanded = calloc((size_t)t->l.rows + 1, row_bytes);
  fill_ids(ids, slots, t->l.experts, KILN_I64, (enum spread)draw(random, NUM_SPREADS), random);
  fill_layout(&t->l, ids);
  for (int64_t token = 0; token < tokens; ++token) {
    int64_t times = 0;
    for (int64_t k = 0; k < t->l.topk; ++k) {
      times += t->l.token_topk_to_pos[token * t->l.topk + k] >= 0;
    }
    for (int64_t i = token * t->hidden; i < (token + 1) * t->hidden; ++i) {
      float value = (float)(draw(random, 15) - 7);
      pack_value(x, i, dtype, value);
      pack_value(out, i, dtype, value * (float)times + 0.0f); /* never -0 */
    }
  }
  for (int64_t row = 0; row < t->l.rows; ++row) {
    int64_t from = t->l.pos_to_token[row];
    if (from < 0) continue;
    memcpy(expanded + (size_t)row * row_bytes, x + (size_t)from * row_bytes, row_bytes);
  }
  upload(&t->mapping, "topk_idx", ids);
  upload(&t->expand, "x", x);
  poison_mapping(&t->mapping);
  upload(&t->expand, "expanded_x", NULL);
  upload(&t->reduce, "out", NULL);
  assert_true(travel(user));
  assert_true(cli_device_wait(session.device));
  expect_layout(&t->mapping, &t->l);
  expect(&t->expand, "expanded_x", expanded);
  expect(&t->reduce, "out", out);
  free(ids);
  free(x);
  free(out);
  free(expanded);
}

static void what_is_expanded_and_reduced_comes_back(void **state) {
  static const struct {
    int64_t tokens, topk, hidden;
    kiln_dtype dtype;
  } cases[] = {{0, 6, 72, KILN_BF16},
               {1, 1, 576, KILN_F32},
               {33, 6, 72, KILN_BF16},
               {60, 32, 8, KILN_F32},
               {9, 9, 577, KILN_BF16}};
  uint64_t random = seed_of(2);
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    struct trip t = begin_trip(cases[i].tokens, cases[i].topk, cases[i].hidden, cases[i].dtype);
    for (int round = 0; round < (session.is_harness ? 2 : 50); ++round) {
      expect_trip(&t, launch_trip, &t, &random);
    }
    end_trip(&t);
  }
}

/* A column-major matrix of words: [words][ld] in memory. */
static void as_columns(kiln_tensor *tensor, int64_t rows, int64_t words_of_row, int64_t ld) {
  tensor->shape[0] = rows;
  tensor->shape[1] = words_of_row;
  tensor->strides[0] = 1;
  tensor->strides[1] = ld;
}

/* Five scale factors a row, in columns: f32, or bytes in two words, the last three bytes unused and
   full of garbage. Rows without a token, the row of padding and unused bytes become 0. */
static void expect_expanded_sf(bool is_packed, uint64_t *random) {
  enum { TOKENS = 7, TOPK = 3, HIDDEN = 640, BLOCKS = 5, ROWS = 31, LD_IN = 12, LD = 32 };
  static uint8_t x[TOKENS * HIDDEN], expanded[ROWS * HIDDEN];
  static uint32_t sf[BLOCKS * LD_IN], expanded_sf[BLOCKS * LD];
  const int64_t num_words = is_packed ? 2 : BLOCKS;
  const kiln_dtype dtype = is_packed ? KILN_I32 : KILN_F32;
  int64_t ids[TOKENS * TOPK];
  char params[160];
  struct layout l = make_layout(TOKENS, TOPK, 5, 3, ROWS);
  fill_ids(ids, TOKENS * TOPK, 5, KILN_I64, STRAY, random);
  fill_layout(&l, ids);
  for (int i = 0; i < TOKENS * HIDDEN; ++i) x[i] = (uint8_t)draw(random, 256);
  for (int i = 0; i < BLOCKS * LD_IN; ++i) sf[i] = (uint32_t)draw(random, INT64_C(1) << 31);
  memset(expanded, 0, sizeof expanded);
  memset(expanded_sf, 0, sizeof expanded_sf);
  for (int row = 0; row < ROWS; ++row) {
    int32_t token = l.pos_to_token[row];
    if (token < 0) continue;
    memcpy(expanded + row * HIDDEN, x + token * HIDDEN, HIDDEN);
    for (int64_t w = 0; w < num_words; ++w) {
      uint32_t word = sf[w * LD_IN + token];
      expanded_sf[w * LD + row] = is_packed && w == 1 ? word & 0xff : word;
    }
  }
  (void)snprintf(params, sizeof params,
                 "hidden=640 dtype=e4m3 num_topk=3 num_per_channels=128 "
                 "use_tma_aligned_col_major_sf=true use_packed_ue8m0=%s",
                 is_packed ? "true" : "false");
  struct call c = begin("expand_to_fused_with_sf", params);
  add(&c, "x", KILN_E4M3, TOKENS, HIDDEN, x);
  add(&c, "x_sf", dtype, num_words, LD_IN, sf);
  as_columns(&arg_of(&c, "x_sf")->tensor, TOKENS, num_words, LD_IN);
  add(&c, "token_topk_to_pos", KILN_I32, TOKENS, TOPK, l.token_topk_to_pos);
  add(&c, "pos_to_expert", KILN_I32, -1, ROWS, l.pos_to_expert);
  add(&c, "expanded_x", KILN_E4M3, ROWS, HIDDEN, NULL);
  add(&c, "expanded_x_sf", dtype, num_words, LD, NULL);
  as_columns(&arg_of(&c, "expanded_x_sf")->tensor, ROWS, num_words, LD);
  run(&c);
  expect(&c, "expanded_x", expanded);
  expect(&c, "expanded_x_sf", expanded_sf);
  end(&c);
  free_layout(&l);
}

static void scale_factors_go_along_and_padding_is_zero(void **state) {
  uint64_t random = seed_of(6);
  (void)state;
  for (int round = 0; round < (session.is_harness ? 2 : 50); ++round) {
    expect_expanded_sf(false, &random);
    expect_expanded_sf(true, &random);
  }
}

static bool replay(void *user) {
  return cli_graph_launch(session.device, user);
}

/* Few slots take one step, many take two: both are captured once and replayed with other experts.
 */
static void a_captured_mapping_follows_its_inputs(void **state) {
  static const int64_t tokens[] = {33, 400};
  uint64_t random = seed_of(3);
  (void)state;
  for (int i = 0; i < 2; ++i) {
    struct trip t = begin_trip(tokens[i], 6, 72, KILN_BF16);
    cli_graph *graph = cli_graph_capture(session.device, launch_trip, &t);
    assert_non_null(graph);
    for (int round = 0; round < (session.is_harness ? 3 : 50); ++round) {
      expect_trip(&t, replay, graph, &random);
    }
    cli_graph_free(session.device, graph);
    end_trip(&t);
  }
}

/* ---- repeats ---- */

static void repeats_have_the_same_bits(void **state) {
  static const char *const maps[] = {"pos_to_token_topk", "token_topk_to_pos", "expert_start"};
  static const char *const out[] = {"out"};
  enum { TOKENS = 700, TOPK = 8, EXPERTS = 256, SLOTS = TOKENS * TOPK };
  static int64_t ids[SLOTS];
  uint64_t random = seed_of(4);
  (void)state;
  fill_ids(ids, SLOTS, EXPERTS, KILN_I64, CROWDED, &random);
  struct layout l = make_layout(TOKENS, TOPK, EXPERTS, 128, rows_bound(SLOTS, EXPERTS, 128));
  struct call mapping = begin_mapping(&l, KILN_I64, ids);
  expect_repeats(&mapping, maps, 3);
  end(&mapping);
  free_layout(&l);

  struct call count = begin("group_count", "num_groups=256 num_topk=8");
  add(&count, "group_idx", KILN_I64, TOKENS, TOPK, ids);
  add(&count, "out", KILN_I32, -1, EXPERTS, NULL);
  expect_repeats(&count, out, 1);
  end(&count);

  struct call fi = begin("aux_fi", "num_experts=256 num_topk=8");
  add(&fi, "topk_idx", KILN_I64, TOKENS, TOPK, ids);
  add(&fi, "out", KILN_F32, -1, EXPERTS, NULL);
  add_scalar(&fi, "num_aux_topk", TOPK);
  add_workspace(&fi);
  expect_repeats(&fi, out, 1);
  end(&fi);
}

/* A sum's order must not depend on anything: weights and rows of very different sizes. */
static void a_reduced_sum_has_the_same_bits(void **state) {
  static const char *const out[] = {"out"};
  enum { TOKENS = 40, TOPK = 9, ROWS = 200, HIDDEN = 72 };
  static float x[ROWS * HIDDEN], weights[TOKENS * TOPK], want[TOKENS * HIDDEN];
  static int32_t rows[TOKENS * TOPK];
  uint64_t random = seed_of(5);
  (void)state;
  for (int i = 0; i < ROWS * HIDDEN; ++i)
    x[i] = ldexpf((float)draw(&random, 99991), -(int)draw(&random, 40));
  for (int i = 0; i < TOKENS * TOPK; ++i) {
    weights[i] = ldexpf((float)draw(&random, 99991), -20);
    rows[i] = (int32_t)(draw(&random, ROWS + 20) - 20);
  }
  for (int i = 0; i < TOKENS * HIDDEN; ++i) {
    for (int k = 0; k < TOPK; ++k) {
      int slot = i / HIDDEN * TOPK + k;
      if (rows[slot] < 0) continue;
      want[i] = fmaf(x[rows[slot] * HIDDEN + i % HIDDEN], weights[slot], want[i]);
    }
  }
  struct call c = begin("reduce_fused",
                        "hidden=72 dtype=f32 out_dtype=f32 num_topk=9 present.topk_weights=true");
  add(&c, "x", KILN_F32, ROWS, HIDDEN, x);
  add(&c, "token_topk_to_pos", KILN_I32, TOKENS, TOPK, rows);
  add(&c, "topk_weights", KILN_F32, TOKENS, TOPK, weights);
  add(&c, "out", KILN_F32, TOKENS, HIDDEN, NULL);
  expect_repeats(&c, out, 1);
  expect(&c, "out", want);
  end(&c);
}

/* ---- refusals ---- */

static void a_mapping_is_refused_in_one_sentence(void **state) {
  static const double wrong[] = {0, -1, 0.5, NAN, INFINITY, 4e9};
  enum { TOKENS = 300, SLOTS = TOKENS * 8 };
  static const int64_t ids[SLOTS];
  static const char op[] = "get_fused_mapping";
  struct layout l = make_layout(TOKENS, 8, 256, 16, 100);
  struct call c = begin_mapping(&l, KILN_I64, ids);
  kiln_arg good[MAX_ARGS];
  kiln_kernel *none;
  (void)state;
  memcpy(good, c.args, sizeof good);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    arg_of(&c, "alignment")->scalar = wrong[i];
    assert_false(launch(&c));
    expect_refused(kiln_last_error()->status, KILN_E_ARGUMENT, op, "alignment");
  }
  memcpy(c.args, good, sizeof good);
  arg_of(&c, "topk_idx")->tensor.dtype = KILN_I32;
  assert_false(launch(&c));
  expect_refused(kiln_last_error()->status, KILN_E_ARGUMENT, op, "topk_idx is i32");
  memcpy(c.args, good, sizeof good);
  arg_of(&c, "expert_end")->tensor.shape[0] = 255;
  assert_false(launch(&c));
  expect_refused(kiln_last_error()->status, KILN_E_ARGUMENT, op, "axis 0 of expert_end is 255");
  memcpy(c.args, good, sizeof good);
  arg_of(&c, "pos_to_token")->tensor.data = arg_of(&c, "pos_to_expert")->tensor.data;
  assert_false(launch(&c));
  expect_refused(kiln_last_error()->status, KILN_E_ARGUMENT, op, "lies over");
  /* T*K beyond 2^31 - 1: rows are numbered in 32 bits. */
  memcpy(c.args, good, sizeof good);
  arg_of(&c, "topk_idx")->tensor.shape[0] = INT64_C(1) << 28;
  arg_of(&c, "token_topk_to_pos")->tensor.shape[0] = INT64_C(1) << 28;
  assert_false(launch(&c));
  expect_refused(kiln_last_error()->status, KILN_E_ARGUMENT, op, "");
  memcpy(c.args, good, sizeof good);
  c.options.workspace_bytes -= 1;
  assert_false(launch(&c));
  expect_refused(kiln_last_error()->status, KILN_E_ARGUMENT, op, "workspace");
  assert_true(cli_device_wait(session.device));

  unsigned char poison[SLOTS * 4];
  memset(poison, POISON, sizeof poison);
  expect(&c, "token_topk_to_pos", poison);
  expect(&c, "pos_to_expert", poison);
  expect(&c, "expert_start", poison);
  expect(&c, "num_tokens_per_expert", poison);
  expect_error(&c, false);
  end(&c);
  free_layout(&l);
  expect_refused(try_kernel(op, "num_experts=2049 num_topk=8", &none), KILN_E_ARGUMENT, op, "2048");
}

static void ranks_that_do_not_share_out_are_refused(void **state) {
  static const struct {
    double n, num_ep, num_tp, tp;
    const char *words;
  } wrong[] = {{4, 5, 1, 0, "num_ep_ranks is 5"},
               {4, 0, 1, 0, "num_ep_ranks is 0"},
               {0, 1, 1, 0, "n is 0"},
               {4, 2, 0, 0, "num_tp_ranks is 0"},
               {4, 2, 2, 2, "tp_rank is 2"},
               {4, 2, 2, -1, "tp_rank is -1"}};
  unsigned char poison[3 * 8];
  (void)state;
  memset(poison, POISON, sizeof poison);
  struct call c = begin("mask_indices_by_tp", "num_topk=3");
  add(&c, "indices", KILN_I64, 1, 3, NULL);
  add(&c, "masked_indices", KILN_I64, 1, 3, NULL);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    c.num_args = 2;
    add_scalar(&c, "n", wrong[i].n);
    add_scalar(&c, "num_ep_ranks", wrong[i].num_ep);
    add_scalar(&c, "num_tp_ranks", wrong[i].num_tp);
    add_scalar(&c, "tp_rank", wrong[i].tp);
    assert_false(launch(&c));
    expect_refused(kiln_last_error()->status, KILN_E_ARGUMENT, "mask_indices_by_tp",
                   wrong[i].words);
  }
  expect(&c, "masked_indices", poison);
  end(&c);
}

/* ---- sizes of a GPU ---- */

/* Counts whose products with E, and T*num_aux_topk, do not fit 32 bits. */
static void counts_beyond_32_bits_of_product_are_right(void **state) {
  const int64_t tokens = 9000000, experts = 256;
  (void)state;
  if (session.is_harness) skip();
  struct call c = begin("aux_fi", "num_experts=256 num_topk=1 index_dtype=i32");
  add(&c, "topk_idx", KILN_I32, tokens, 1, NULL);
  add(&c, "out", KILN_F32, -1, experts, NULL);
  add_scalar(&c, "num_aux_topk", 1000);
  add_workspace(&c);
  assert_true(cli_device_fill(session.device, arg_of(&c, "topk_idx")->tensor.data, 0,
                              (uint64_t)tokens * 4));
  run(&c);
  float want[256] = {(float)(tokens * experts) / (float)(tokens * 1000)};
  expect(&c, "out", want);
  end(&c);

  struct call count = begin("group_count", "num_groups=3 num_topk=1 index_dtype=i32");
  add(&count, "group_idx", KILN_I32, tokens, 1, NULL);
  add(&count, "out", KILN_I32, -1, 3, NULL);
  assert_true(cli_device_fill(session.device, arg_of(&count, "group_idx")->tensor.data, 0,
                              (uint64_t)tokens * 4));
  run(&count);
  const int32_t counts[3] = {(int32_t)tokens, 0, 0};
  expect(&count, "out", counts);
  end(&count);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mapping_of_tiny_cases_is_right),
      cmocka_unit_test(every_count_of_tiny_cases_is_right),
      cmocka_unit_test(every_row_of_groups_becomes_unique),
      cmocka_unit_test(every_id_is_masked_on_every_rank),
      cmocka_unit_test(a_mapping_is_a_permutation_into_aligned_segments),
      cmocka_unit_test(what_is_expanded_and_reduced_comes_back),
      cmocka_unit_test(scale_factors_go_along_and_padding_is_zero),
      cmocka_unit_test(a_captured_mapping_follows_its_inputs),
      cmocka_unit_test(repeats_have_the_same_bits),
      cmocka_unit_test(a_reduced_sum_has_the_same_bits),
      cmocka_unit_test(a_mapping_is_refused_in_one_sentence),
      cmocka_unit_test(ranks_that_do_not_share_out_are_refused),
      cmocka_unit_test(counts_beyond_32_bits_of_product_are_right),
  };
  if (!open_session()) return no_session();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  close_session();
  return failed;
}
