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
    for (int64_t alignment = 1; alignment <= 3; alignment += 2) {
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mapping_of_tiny_cases_is_right),
      cmocka_unit_test(every_count_of_tiny_cases_is_right),
      cmocka_unit_test(every_row_of_groups_becomes_unique),
      cmocka_unit_test(every_id_is_masked_on_every_rank),
  };
  kiln_options options;
  kiln_options_init(&options);
  if (kiln_open(&options, &session.k) != KILN_OK) {
    return kiln_last_error()->status == KILN_E_CUDA ? 77 : 1;
  }
  session.device = cli_device_open(0);
  if (!session.device) return 1;
  session.is_harness = strcmp(cli_device_name(session.device), "SIMT harness") == 0;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cli_device_close(session.device);
  kiln_close(session.k);
  return failed;
}
