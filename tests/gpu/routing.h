/* SPDX-License-Identifier: MIT */
/* What the tests of routing share: kernels by text, calls whose memory the test owns, a fixed-seed
   generator, and the layout of get_fused_mapping as the contract tells it. */
#ifndef KILN_TESTS_GPU_ROUTING_H
#define KILN_TESTS_GPU_ROUTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs those above. */
#include <cmocka.h>
#include <kiln/kiln.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/device.h"

enum { MAX_ARGS = 16, POISON = 0xA5 };

/* The device and the context of all tests. */
struct session {
  kiln *k;
  struct cli_device *device;
  bool is_harness; /* no GPU: launches are slow, and each runs under three schedules anyway */
};
static struct session session;

/* ---- kernels ---- */

static inline kiln_status try_kernel(const char *op, const char *params, kiln_kernel **out) {
  kiln_param items[MAX_ARGS];
  kiln_request request;
  char text[512];
  size_t count = 0;
  *out = NULL;
  assert_true(snprintf(text, sizeof text, "%s", params) < (int)sizeof text);
  for (char *word = strtok(text, " "); word && count < MAX_ARGS; word = strtok(NULL, " ")) {
    char *equals = strchr(word, '=');
    assert_non_null(equals);
    *equals = '\0';
    items[count++] = (kiln_param){word, equals + 1};
  }
  kiln_request_init(&request);
  request.op = op;
  request.params = items;
  request.num_params = count;
  return kiln_get(session.k, &request, out);
}

static inline kiln_kernel *kernel_of(const char *op, const char *params) {
  kiln_kernel *kernel;
  if (try_kernel(op, params, &kernel) != KILN_OK) {
    fail_msg("%s %s: %s", op, params, kiln_last_error()->message);
  }
  return kernel;
}

/* ---- calls ---- */

/* The arguments of a launch. Outputs start as poison. */
struct call {
  kiln_kernel *kernel;
  kiln_arg args[MAX_ARGS];
  size_t bytes[MAX_ARGS], num_args;
  bool is_borrowed[MAX_ARGS]; /* its memory belongs to another call */
  kiln_launch_options options;
};

static inline struct call begin(const char *op, const char *params) {
  struct call c = {.kernel = kernel_of(op, params)};
  kiln_launch_options_init(&c.options);
  return c;
}

static inline kiln_arg *arg_of(struct call *c, const char *name) {
  for (size_t i = 0; i < c->num_args; ++i) {
    if (strcmp(c->args[i].name, name) == 0) return &c->args[i];
  }
  fail_msg("no argument %s", name);
  return NULL;
}

static inline size_t bytes_of(struct call *c, const char *name) {
  return c->bytes[arg_of(c, name) - c->args];
}

static inline void upload(struct call *c, const char *name, const void *host) {
  void *data = arg_of(c, name)->tensor.data;
  size_t bytes = bytes_of(c, name);
  if (bytes == 0) return;
  assert_true(host ? cli_device_upload(session.device, data, host, bytes)
                   : cli_device_fill(session.device, data, POISON, bytes));
  assert_true(cli_device_wait(session.device));
}

/* A contiguous matrix, or with rows < 0 a vector of `columns`; poison where `host` is NULL. */
static inline void add(struct call *c, const char *name, kiln_dtype dtype, int64_t rows,
                       int64_t columns, const void *host) {
  const int64_t shape[2] = {rows < 0 ? columns : rows, columns};
  size_t count = (size_t)(rows < 0 ? columns : rows * columns), at = c->num_args++;
  assert_true(at < MAX_ARGS);
  c->bytes[at] = count * (size_t)kiln_dtype_bits(dtype) / 8;
  void *data = cli_device_alloc(session.device, c->bytes[at]);
  assert_non_null(data);
  c->args[at] =
      (kiln_arg){.name = name, .tensor = kiln_tensor_make(data, dtype, rows < 0 ? 1 : 2, shape)};
  upload(c, name, host);
}

static inline void add_scalar(struct call *c, const char *name, double value) {
  c->args[c->num_args++] = (kiln_arg){.name = name, .is_scalar = 1, .scalar = value};
}

/* An argument that another call has, under a name of its own. */
static inline void borrow(struct call *c, const char *name, struct call *from, const char *theirs) {
  c->args[c->num_args] = *arg_of(from, theirs);
  c->args[c->num_args].name = name;
  c->bytes[c->num_args] = bytes_of(from, theirs);
  c->is_borrowed[c->num_args++] = true;
}

/* The error word: a bit of somebody else is in it, which must stay. */
enum { OTHER_BIT = 0x40 };
static inline void add_error(struct call *c) {
  const int32_t word = OTHER_BIT;
  add(c, "error", KILN_I32, -1, 1, &word);
}

static inline void add_workspace(struct call *c) {
  assert_int_equal(kiln_workspace_bytes(c->kernel, c->args, c->num_args, &c->options,
                                        &c->options.workspace_bytes),
                   KILN_OK);
  cli_device_free(session.device, c->options.workspace);
  c->options.workspace = NULL;
  if (c->options.workspace_bytes == 0) return;
  c->options.workspace = cli_device_alloc(session.device, c->options.workspace_bytes);
  assert_true(
      cli_device_fill(session.device, c->options.workspace, POISON, c->options.workspace_bytes));
}

static inline bool launch(void *user) {
  struct call *c = user;
  return kiln_launch(c->kernel, c->args, c->num_args, &c->options,
                     cli_device_stream(session.device)) == KILN_OK;
}

static inline void run(struct call *c) {
  if (!launch(c)) fail_msg("%s", kiln_last_error()->message);
  assert_true(cli_device_wait(session.device));
}

/* What an argument holds now, released by free. */
static inline void *fetch(struct call *c, const char *name) {
  size_t bytes = bytes_of(c, name);
  void *host = malloc(bytes + 1);
  assert_non_null(host);
  if (bytes) {
    assert_true(cli_device_download(session.device, host, arg_of(c, name)->tensor.data, bytes));
    assert_true(cli_device_wait(session.device));
  }
  return host;
}

static inline void expect(struct call *c, const char *name, const void *want) {
  void *got = fetch(c, name);
  assert_memory_equal(got, want, bytes_of(c, name));
  free(got);
}

/* Poisons outputs and launches, again and again: the same bits every time. */
static inline void expect_repeats(struct call *c, const char *const *outputs, size_t count) {
  void *first[MAX_ARGS];
  const int times = session.is_harness ? 3 : 100;
  for (int i = 0; i < times; ++i) {
    for (size_t j = 0; j < count; ++j) upload(c, outputs[j], NULL);
    run(c);
    for (size_t j = 0; j < count; ++j) {
      if (i == 0) {
        first[j] = fetch(c, outputs[j]);
      } else {
        expect(c, outputs[j], first[j]);
      }
    }
  }
  for (size_t j = 0; j < count; ++j) free(first[j]);
}

/* A refusal is one sentence about the operator, which is `words` where the test knows them. */
static inline void expect_refused(kiln_status got, kiln_status want, const char *op,
                                  const char *words) {
  const char *message = kiln_last_error()->message;
  assert_int_equal(got, want);
  if (!strstr(message, op) || !strstr(message, words) || strchr(message, '\n')) {
    fail_msg("%s is refused with '%s'", op, message);
  }
}

static inline void expect_error(struct call *c, bool is_flagged) {
  const int32_t want = OTHER_BIT | (is_flagged ? 1 : 0);
  expect(c, "error", &want);
}

static inline void end(struct call *c) {
  for (size_t i = 0; i < c->num_args; ++i) {
    if (c->args[i].is_scalar || c->is_borrowed[i]) continue;
    cli_device_free(session.device, c->args[i].tensor.data);
  }
  cli_device_free(session.device, c->options.workspace);
  kiln_kernel_unref(c->kernel);
}

/* ---- numbers ---- */

static inline uint64_t seed_of(uint64_t seed) {
  return seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
}
/* A number below `range`. */
static inline int64_t draw(uint64_t *state, int64_t range) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)((*state >> 33) % (uint64_t)range);
}

/* Indices of either type, kept as 64 bits by the tests: `narrow` has them as the kernel wants. */
static inline void *narrow(const int64_t *ids, size_t count, kiln_dtype dtype) {
  void *out = malloc(count * 8 + 1);
  assert_non_null(out);
  for (size_t i = 0; i < count; ++i) {
    if (dtype == KILN_I32) {
      ((int32_t *)out)[i] = (int32_t)ids[i];
    } else {
      ((int64_t *)out)[i] = ids[i];
    }
  }
  return out;
}

static inline const char *name_of(kiln_dtype dtype) {
  return kiln_dtype_name(dtype);
}

/* The ids that an exhaustive test tries: -1, every valid one, and one too large; in 64 bits that
   one would be valid if somebody cut it to 32. */
static inline int64_t id_of(int64_t digit, int64_t range, kiln_dtype dtype) {
  if (digit <= range) return digit - 1;
  return dtype == KILN_I32 ? range : INT64_C(1) << 32;
}

/* Pattern `number` of `count` slots: its digits to the base range + 2. */
static inline bool pattern(int64_t number, int64_t count, int64_t range, kiln_dtype dtype,
                           int64_t *ids) {
  bool is_stray = false;
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = id_of(number % (range + 2), range, dtype);
    is_stray = is_stray || ids[i] >= range;
    number /= range + 2;
  }
  return is_stray;
}

static inline int64_t num_patterns(int64_t count, int64_t range) {
  int64_t n = 1;
  for (int64_t i = 0; i < count; ++i) n *= range + 2;
  return n;
}

/* ---- the expert-major layout ---- */

struct layout {
  int64_t tokens, topk, experts, alignment, rows;
  int32_t *pos_to_expert, *pos_to_token, *pos_to_token_topk, *token_topk_to_pos;
  int32_t *start, *end, *counts;
  bool is_flagged;
};

static inline int32_t *words(int64_t count) {
  int32_t *out = malloc((size_t)count * 4 + 4);
  assert_non_null(out);
  for (int64_t i = 0; i < count; ++i) out[i] = -1;
  return out;
}

/* Rows that always suffice, as the contract bounds them. */
static inline int64_t rows_bound(int64_t slots, int64_t experts, int64_t alignment) {
  return (slots + (alignment - 1) * experts) / alignment * alignment;
}

static inline struct layout make_layout(int64_t tokens, int64_t topk, int64_t experts,
                                        int64_t alignment, int64_t rows) {
  return (struct layout){.tokens = tokens,
                         .topk = topk,
                         .experts = experts,
                         .alignment = alignment,
                         .rows = rows,
                         .pos_to_expert = words(rows),
                         .pos_to_token = words(rows),
                         .pos_to_token_topk = words(rows),
                         .token_topk_to_pos = words(tokens * topk),
                         .start = words(experts),
                         .end = words(experts),
                         .counts = words(experts)};
}

static inline void free_layout(struct layout *l) {
  int32_t *all[] = {
      l->pos_to_expert, l->pos_to_token, l->pos_to_token_topk, l->token_topk_to_pos, l->start,
      l->end,           l->counts};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
}

/* Experts in order, each one's slots in order of t*K+k from the row where it begins. */
static inline void fill_layout(struct layout *l, const int64_t *ids) {
  int64_t row = 0, slots = l->tokens * l->topk;
  for (int64_t i = 0; i < l->rows; ++i) {
    l->pos_to_expert[i] = l->pos_to_token[i] = l->pos_to_token_topk[i] = -1;
  }
  l->is_flagged = false;
  for (int64_t slot = 0; slot < slots; ++slot) {
    l->token_topk_to_pos[slot] = -1;
    l->is_flagged = l->is_flagged || ids[slot] >= l->experts;
  }
  for (int64_t e = 0; e < l->experts; ++e) {
    int64_t count = 0;
    for (int64_t slot = 0; slot < slots; ++slot) {
      if (ids[slot] != e) continue;
      int64_t at = row + count++;
      if (at >= l->rows) continue;
      l->token_topk_to_pos[slot] = (int32_t)at;
      l->pos_to_expert[at] = (int32_t)e;
      l->pos_to_token[at] = (int32_t)(slot / l->topk);
      l->pos_to_token_topk[at] = (int32_t)slot;
    }
    int64_t all = (count + l->alignment - 1) / l->alignment * l->alignment;
    l->start[e] = (int32_t)row;
    l->end[e] = (int32_t)(row + all);
    l->counts[e] = (int32_t)all;
    row += all;
  }
  l->is_flagged = l->is_flagged || row > l->rows;
}

/* A call of get_fused_mapping for a layout's sizes, all outputs poisoned. */
static inline struct call begin_mapping(const struct layout *l, kiln_dtype dtype,
                                        const int64_t *ids) {
  char params[128];
  (void)snprintf(params, sizeof params,
                 "num_experts=%d num_topk=%d index_dtype=%s present.error=true", (int)l->experts,
                 (int)l->topk, name_of(dtype));
  struct call c = begin("get_fused_mapping", params);
  void *host = narrow(ids, (size_t)(l->tokens * l->topk), dtype);
  add(&c, "topk_idx", dtype, l->tokens, l->topk, host);
  free(host);
  add(&c, "pos_to_expert", KILN_I32, -1, l->rows, NULL);
  add(&c, "pos_to_token", KILN_I32, -1, l->rows, NULL);
  add(&c, "pos_to_token_topk", KILN_I32, -1, l->rows, NULL);
  add(&c, "token_topk_to_pos", KILN_I32, l->tokens, l->topk, NULL);
  add(&c, "expert_start", KILN_I32, -1, l->experts, NULL);
  add(&c, "expert_end", KILN_I32, -1, l->experts, NULL);
  add(&c, "num_tokens_per_expert", KILN_I32, -1, l->experts, NULL);
  add_error(&c);
  add_scalar(&c, "alignment", (double)l->alignment);
  add_workspace(&c);
  return c;
}

static inline void poison_mapping(struct call *c) {
  static const char *const outputs[] = {"pos_to_expert",        "pos_to_token", "pos_to_token_topk",
                                        "token_topk_to_pos",    "expert_start", "expert_end",
                                        "num_tokens_per_expert"};
  const int32_t word = OTHER_BIT;
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; ++i) upload(c, outputs[i], NULL);
  upload(c, "error", &word);
}

static inline void expect_layout(struct call *c, const struct layout *l) {
  expect(c, "pos_to_expert", l->pos_to_expert);
  expect(c, "pos_to_token", l->pos_to_token);
  expect(c, "pos_to_token_topk", l->pos_to_token_topk);
  expect(c, "token_topk_to_pos", l->token_topk_to_pos);
  expect(c, "expert_start", l->start);
  expect(c, "expert_end", l->end);
  expect(c, "num_tokens_per_expert", l->counts);
  expect_error(c, l->is_flagged);
}

/* ---- the program ---- */

static inline bool open_session(void) {
  kiln_options options;
  kiln_options_init(&options);
  if (kiln_open(&options, &session.k) != KILN_OK) return false;
  session.device = cli_device_open(0);
  if (!session.device) return false;
  session.is_harness = strcmp(cli_device_name(session.device), "SIMT harness") == 0;
  return true;
}

/* For main where the session does not open: 77, skipped, if there is no driver. */
static inline int no_session(void) {
  return kiln_last_error()->status == KILN_E_CUDA ? 77 : 1;
}

static inline void close_session(void) {
  cli_device_close(session.device);
  kiln_close(session.k);
}

#endif
