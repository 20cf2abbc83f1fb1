/* SPDX-License-Identifier: MIT */
/* Input data: each element is a pure function of seed and position. */
#include <math.h>

#include "oracle/elements.h"

static uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static uint64_t mix3(uint64_t seed, int64_t row, int64_t column) {
  return mix(mix(mix(seed) ^ (uint64_t)row) ^ (uint64_t)column);
}

/* Near normal: the sum of four uniform numbers, centred, with variance 1. */
static float normal(uint64_t random) {
  const int sum = (int)(random & 0xFFFF) + (int)(random >> 16 & 0xFFFF) +
                  (int)(random >> 32 & 0xFFFF) + (int)(random >> 48);
  return (float)(sum - 2 * 0xFFFF) * (1.7320508f / 65536);
}

/* What a tile of 32 x 32 elements is made of. */
enum kind {
  NORMAL,
  ZEROS,    /* of both signs */
  SOME_NAN, /* among normal data */
  LONE_NAN, /* hardly ever two in a block */
  ALL_NAN,
  SOME_INF,
  SUBNORMAL, /* of f32, bf16 and f16 */
  TIES,      /* multiples of 1/64 below a maximum that gives a power of two as scale */
  MAXIMA,    /* of the formats, and their neighbours */
  TINY,      /* around the smallest scales */
  HUGE_AMAX, /* near FLT_MAX */
  GATES,     /* where exp over- and underflows */
  NUM_KINDS
};

static float pick(const float *list, size_t count, uint64_t random) {
  const float value = list[(random >> 8) % count];
  return random & 1 ? -value : value;
}

static float edge(enum kind kind, uint64_t random) {
  static const float maxima[] = {448,  447,  57344, 65024, 6,       5,     464,   240, 65504,
                                 3.5f, 2.5f, 1.5f,  96,    0x1p-6f, 1e-4f, 61440, 480};
  static const float tiny[] = {1e-4f, 1e-5f, 0x1p-126f, 6 * 0x1p-126f, 7e-38f, 1e-30f, 4e-7f};
  static const float huge[] = {3.4e38f, 3.3895314e38f, 1e38f, 6e4f, 1e30f};
  static const float gates[] = {88, 89, 87.3f, 100, 104, 17, 20, 1e-3f};
  const float value = normal(random);
  switch (kind) {
    case ZEROS:
      return random & 1 ? -0.0f : 0.0f;
    case SOME_NAN:
      return random % 13 == 0 ? NAN : value;
    case LONE_NAN:
      return random % 1021 == 0 ? NAN : value;
    case ALL_NAN:
      return NAN;
    case SOME_INF:
      return random % 29 == 0 ? (random & 1 ? -INFINITY : INFINITY) : value;
    case SUBNORMAL:
      return ldexpf(value, random % 2 ? -130 : -18);
    case TIES:
      return random % 11 == 0 ? 448 : (float)((int)(random % 57344) - 28672) / 64;
    case MAXIMA:
      return pick(maxima, sizeof maxima / sizeof *maxima, random);
    case TINY:
      return pick(tiny, sizeof tiny / sizeof *tiny, random);
    case HUGE_AMAX:
      return pick(huge, sizeof huge / sizeof *huge, random);
    case GATES:
      return pick(gates, sizeof gates / sizeof *gates, random);
    default:
      return value;
  }
}

/* In every second band of rows all tiles are of one kind, so that blocks as wide as the matrix are
   of one kind too. */
static enum kind kind_of(uint64_t seed, int64_t row, int64_t column) {
  const uint64_t band = mix3(seed, row / 32, -1);
  const uint64_t random =
      band & 1 ? band >> 1 : mix3(seed, row / 32, column / 32 + ((int64_t)1 << 40));
  return (enum kind)(random % NUM_KINDS);
}

static float element(enum kn_fill fill, uint64_t seed, int64_t row, int64_t column) {
  const uint64_t random = mix3(seed, row, column);
  if (fill == KN_FILL_EDGES) return edge(kind_of(seed, row, column), random);
  return ldexpf(normal(random), (int)(mix3(~seed, row, column / 32) % 17) - 10);
}

/* A code, or where it is a NaN or an infinity one of a smaller exponent. */
static uint64_t finite_code(kiln_dtype dtype, uint32_t code) {
  const int bits = kiln_dtype_bits(dtype);
  code &= (1u << bits) - 1;
  return isfinite(kn_oracle_decode(dtype, code)) ? code : code ^ 1u << (bits - 2);
}

static uint64_t code(const kiln_tensor *tensor, enum kn_fill fill, uint64_t seed, int64_t row,
                     int64_t column) {
  switch (tensor->dtype) {
    case KILN_F32:
    case KILN_F16:
    case KILN_BF16:
      return kn_oracle_encode(tensor->dtype, element(fill, seed, row, column));
    case KILN_BOOL:
      return mix3(seed, row, column) & 1;
    case KILN_E4M3:
    case KILN_E5M2:
    case KILN_E5M6:
      return fill == KN_FILL_EDGES ? mix3(seed, row, column)
                                   : finite_code(tensor->dtype, (uint32_t)mix3(seed, row, column));
    default:
      return mix3(seed, row, column);
  }
}

/* Offsets of the rows along the last axis, one after the other; false behind the last one. */
struct rows {
  int64_t count, at, base;
};

static struct rows rows_of(const kiln_tensor *t) {
  struct rows rows = {t->rank > 0, -1, 0};
  for (int axis = 0; axis < t->rank - 1; ++axis) rows.count *= t->shape[axis];
  return rows;
}

static bool next_row(const kiln_tensor *t, struct rows *rows) {
  int64_t rest = ++rows->at;
  rows->base = 0;
  if (rows->at >= rows->count) return false;
  for (int axis = t->rank - 2; axis >= 0; --axis) {
    rows->base += rest % t->shape[axis] * t->strides[axis];
    rest /= t->shape[axis];
  }
  return true;
}

void kn_oracle_fill(const kiln_tensor *tensor, enum kn_fill fill, uint64_t seed) {
  const int last = tensor->rank - 1;
  for (struct rows rows = rows_of(tensor); next_row(tensor, &rows);) {
    for (int64_t j = 0; j < tensor->shape[last]; ++j) {
      kn_oracle_put_wide(tensor, rows.base + j * tensor->strides[last],
                         code(tensor, fill, seed, rows.at, j));
    }
  }
}

/* ---- indices ---- */

/* Something that is no index below `range`: near it, far from it, and for i64 what would be one if
   its high bits were lost. */
static int64_t stray(kiln_dtype dtype, int64_t range, uint64_t random) {
  switch (random % 6) {
    case 0:
      return range;
    case 1:
      return dtype == KILN_I64 ? INT64_MAX : INT32_MAX;
    case 2:
      return dtype == KILN_I64 ? INT64_MIN : INT32_MIN;
    case 3:
      return -2 - (int64_t)(random >> 8 & 0xFFFF);
    case 4:
      return dtype == KILN_I64 ? (int64_t)1 << 32 : range + 1;
    default:
      return range + (int64_t)(random >> 8 & 0xFFFF);
  }
}

/* Every eighth index is -1. With edges, rows of -1 only, rows of one index, and strays. */
static int64_t index_of(kiln_dtype dtype, enum kn_fill fill, uint64_t seed, int64_t row,
                        int64_t column, int64_t range) {
  const uint64_t random = mix3(seed, row, column), kind = mix3(~seed, row, 0) % 8;
  const int64_t same = (int64_t)(mix3(~seed, row, 1) % (uint64_t)(range > 0 ? range : 1));
  if (range <= 0) return -1;
  if (fill == KN_FILL_EDGES && kind == 0) return -1;
  if (fill == KN_FILL_EDGES && kind == 1) return same;
  if (fill == KN_FILL_EDGES && random % 5 == 0) return stray(dtype, range, random >> 3);
  return random % 8 == 1 ? -1 : (int64_t)((random >> 16) % (uint64_t)range);
}

void kn_oracle_fill_indices(const kiln_tensor *tensor, enum kn_fill fill, uint64_t seed,
                            int64_t range) {
  const int last = tensor->rank - 1;
  for (struct rows rows = rows_of(tensor); next_row(tensor, &rows);) {
    for (int64_t j = 0; j < tensor->shape[last]; ++j) {
      kn_oracle_put_index(tensor, rows.base + j * tensor->strides[last],
                          index_of(tensor->dtype, fill, seed, rows.at, j, range));
    }
  }
}

void kn_oracle_fill_error(const kiln_tensor *tensor, uint64_t seed) {
  kn_oracle_put(tensor, 0, (uint32_t)mix(seed) & ~1u);
}

/* ---- maps ---- */

static const kiln_tensor *input(const struct kn_oracle_tensor *tensors, size_t count,
                                const char *name) {
  for (size_t i = 0; i < count; ++i) {
    if (tensors[i].role == KILN_IN && strcmp(tensors[i].name, name) == 0) return &tensors[i].tensor;
  }
  return NULL;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

void kn_oracle_fill_maps(const struct kn_oracle_tensor *tensors, size_t count, enum kn_fill kind,
                         uint64_t seed) {
  const kiln_tensor *to_row = input(tensors, count, "token_topk_to_pos");
  const kiln_tensor *experts = input(tensors, count, "pos_to_expert");
  int64_t slots, rows, most, step;
  if (!to_row || !experts) return;
  slots = to_row->shape[0] * to_row->shape[1];
  rows = experts->shape[0];
  most = slots > rows ? slots : rows;
  if (most == 0) return;
  step = most / 2 + 1 + (int64_t)(mix(seed) % 64); /* slot i goes to row i * step */
  while (common_divisor(step, most) > 1) ++step;
  for (int64_t p = 0; p < rows; ++p) {
    const uint64_t random = mix3(seed, p, -2);
    kn_oracle_put_index(experts, p, kind == KN_FILL_EDGES ? -1 - (int64_t)(random % 99) : -1);
  }
  for (int64_t i = 0; i < slots; ++i) {
    const uint64_t random = mix3(seed, i, -3);
    const int64_t at = i / to_row->shape[1] * to_row->strides[0] + i % to_row->shape[1];
    int64_t row = i % most * (step % most) % most;
    if (random % 8 == 0) row = -1;
    if (random % 8 == 1 && kind == KN_FILL_EDGES) row = stray(KILN_I32, rows, random >> 3);
    kn_oracle_put_index(to_row, at, row);
    if (row >= 0 && row < rows) kn_oracle_put_index(experts, row, (int64_t)(random >> 8 & 255));
  }
}
