/* SPDX-License-Identifier: MIT */
/*
 * What tensors of indices hold while `kiln bench` runs: every one names something, so that a launch
 * does all the work that its `bytes` count. Ids of experts, groups and tokens are uniform. A map
 * between slots and rows is the expert-major layout of such ids without padding: the rows of a
 * token lie far from each other, as they do in a model.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

enum { EXPERTS = 256 };

static uint64_t next(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

static int64_t dim(const kiln_dim *dims, size_t count, const char *name) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(dims[i].name, name) == 0) return dims[i].value;
  }
  return 0;
}

static void put(const kiln_arg_info *info, void *data, int64_t at, int64_t value) {
  if (info->dtype == KILN_I64) {
    ((int64_t *)data)[at] = value;
  } else {
    ((int32_t *)data)[at] = (int32_t)value;
  }
}

/* Slots ordered by expert: `by_slot` gets the row of each slot, otherwise the slot of each row.
   Those without the other get -1. */
static bool fill_map(const kiln_arg_info *info, void *data, int64_t slots, int64_t rows,
                     bool by_slot) {
  int64_t next_row[EXPERTS + 1] = {0};
  uint8_t *expert = malloc((size_t)slots + 1);
  uint64_t state = 1;
  if (!expert) return false;
  for (int64_t i = 0; i < slots; ++i) {
    expert[i] = (uint8_t)(next(&state) % EXPERTS);
    ++next_row[expert[i] + 1];
  }
  for (int e = 0; e < EXPERTS; ++e) next_row[e + 1] += next_row[e];
  for (int64_t row = slots; row < rows && !by_slot; ++row) put(info, data, row, -1);
  for (int64_t slot = 0; slot < slots; ++slot) {
    int64_t row = next_row[expert[slot]]++;
    if (by_slot) {
      put(info, data, slot, row < rows ? row : -1);
    } else if (row < rows) {
      put(info, data, row, slot);
    }
  }
  free(expert);
  return true;
}

bool bench_fill_indices(const kiln_arg_info *info, const kiln_dim *dims, size_t num_dims,
                        void **out) {
  const int64_t slots = dim(dims, num_dims, "num_tokens") *
                        (info->rank == 2 ? info->shape[1] : dim(dims, num_dims, "num_topk"));
  const int64_t rows = dim(dims, num_dims, "num_expanded_tokens");
  const bool by_slot = strcmp(info->name, "token_topk_to_pos") == 0;
  const bool by_row = strcmp(info->name, "pos_to_token_topk") == 0;
  const bool is_expert = strcmp(info->name, "pos_to_expert") == 0;
  uint64_t state = 1;
  *out = NULL;
  if (info->is_scalar || info->role == KILN_OUT) return true;
  if (info->dtype != KILN_I32 && info->dtype != KILN_I64) return true;
  if (!info->has_range && !is_expert) return true;
  *out = malloc((size_t)info->size_bytes + 1);
  if (!*out) return false;
  if (by_slot || by_row) return fill_map(info, *out, slots, rows, by_slot);
  const int64_t range = info->has_range ? info->high + 1 : EXPERTS;
  const int64_t count = (int64_t)info->size_bytes / (info->dtype == KILN_I64 ? 8 : 4);
  for (int64_t i = 0; i < count; ++i) {
    put(info, *out, i, range > 0 ? (int64_t)(next(&state) % (uint64_t)range) : -1);
  }
  return true;
}
