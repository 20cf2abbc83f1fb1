/* SPDX-License-Identifier: MIT */
/* quantize and store: scales and codes of a band, and where they lie. */
#include <float.h>
#include <math.h>

#include "oracle/chain.h"

/* ---- scale factors ---- */

/* One block: what its scale must be, and between which bounds a kernel's may lie. */
struct block {
  int64_t row, col;     /* in the grid of scale factors */
  int64_t first, count; /* columns */
  struct kn_oracle_scale nominal, low, high;
  bool is_nan;             /* e2m1 marks a block that has a NaN by its scale */
  float inv_low, inv_high; /* of the scale that counts for the codes */
  float divisor;           /* NVFP4, in place of these */
};

static float larger(float amax, float value) {
  float magnitude = fabsf(value);
  if (isnan(value)) return amax;
  if (isinf(value)) magnitude = FLT_MAX;
  return magnitude > amax ? magnitude : amax;
}

static void measure(const struct kn_oracle_chain *chain, struct block *b) {
  const struct kn_oracle_quantize *q = &chain->quantize;
  float nominal = 0, low = 0, high = 0;
  bool has_nan = false;
  for (int64_t i = 0; i < chain->rows; ++i) {
    const struct kn_oracle_values *v = &chain->values[i * chain->cols + b->first];
    for (int64_t j = 0; j < b->count; ++j) {
      nominal = larger(nominal, v[j].nominal);
      if (isnan(v[j].nominal)) has_nan = true;
      if (chain->exact) continue;
      low = larger(low, fabsf(v[j].low) < fabsf(v[j].high) ? v[j].low : v[j].high);
      high = larger(high, fabsf(v[j].low) < fabsf(v[j].high) ? v[j].high : v[j].low);
    }
  }
  b->is_nan = has_nan && q->to == KILN_E2M1;
  if (q->global) {
    const float unit = kn_oracle_get_float(q->global, 0);
    b->nominal.sf = nominal / 6 / unit;
    b->low.sf = chain->exact ? b->nominal.sf : low / 6 / unit;
    b->high.sf = chain->exact ? b->nominal.sf : high / 6 / unit;
    return;
  }
  b->nominal = b->low = b->high = kn_oracle_scale(q->to, nominal, q->round_sf, q->clamp_min);
  if (!chain->exact) {
    b->low = kn_oracle_scale(q->to, low, q->round_sf, q->clamp_min);
    b->high = kn_oracle_scale(q->to, high, q->round_sf, q->clamp_min);
  }
  b->inv_low = b->inv_high = b->nominal.sf_inv;
}

/* The word or byte of a block's scale. */
static uint32_t sf_get(const struct kn_oracle_chain *chain, const kiln_tensor *sf,
                       const struct block *b) {
  if (chain->quantize.layout != KN_ORACLE_PACKED) {
    return kn_oracle_get(sf, b->row * sf->strides[0] + b->col * sf->strides[1]);
  }
  return kn_oracle_get(sf, b->row * sf->strides[0] + b->col / 4 * sf->strides[1]) >>
             (b->col % 4 * 8) &
         0xFF;
}

static void sf_put(const struct kn_oracle_chain *chain, const struct block *b, uint32_t code) {
  const kiln_tensor *sf = chain->sf;
  if (chain->quantize.layout != KN_ORACLE_PACKED) {
    kn_oracle_put(sf, b->row * sf->strides[0] + b->col * sf->strides[1], code);
  } else {
    const int64_t offset = b->row * sf->strides[0] + b->col / 4 * sf->strides[1];
    const uint32_t word = b->col % 4 == 0 ? 0 : kn_oracle_get(sf, offset);
    kn_oracle_put(sf, offset, word | code << (b->col % 4 * 8));
  }
}

/* What a/fmt_max = sf says about fmt_max/a. */
static void bound_inverse(const struct kn_oracle_chain *chain, float sf, struct block *b) {
  const float fmt_max = kn_oracle_fmt_max(chain->quantize.to);
  b->inv_low = INFINITY;
  b->inv_high = 0;
  for (int step = -4; step <= 4; ++step) {
    const float a = kn_oracle_step(sf * fmt_max, step);
    if (a / fmt_max != sf) continue;
    b->inv_low = fminf(b->inv_low, fmt_max / a);
    b->inv_high = fmaxf(b->inv_high, fmt_max / a);
  }
  if (b->inv_high == 0) b->inv_low = b->inv_high = fmt_max / (sf * fmt_max);
}

/* NVFP4: the code of the block's scale, which is an e4m3, and what the codes are quotients by. */
static uint32_t e4m3_sf_code(const struct kn_oracle_chain *chain, struct block *b) {
  uint32_t code = kn_oracle_encode(KILN_E4M3, b->nominal.sf);
  if (chain->written_sf && !chain->exact && !b->is_nan) {
    const uint32_t is = sf_get(chain, chain->written_sf, b);
    if (is >= kn_oracle_encode(KILN_E4M3, b->low.sf) &&
        is <= kn_oracle_encode(KILN_E4M3, b->high.sf)) {
      code = is;
    }
  }
  b->divisor = kn_oracle_decode(KILN_E4M3, code) * kn_oracle_get_float(chain->quantize.global, 0);
  return b->is_nan ? 0x7F : code;
}

/* A value times its block's inverse scale, or divided by it. */
static float scaled_by(const struct kn_oracle_chain *chain, const struct block *b, float value,
                       float inv) {
  if (!chain->quantize.global) return value * inv;
  return b->divisor == 0 ? 0 : value / b->divisor;
}

/* The code of the block's scale: the one written if it lies within the tolerance. */
static uint32_t sf_code(const struct kn_oracle_chain *chain, struct block *b) {
  const bool packed = chain->quantize.layout == KN_ORACLE_PACKED;
  uint32_t nominal = packed ? (uint32_t)b->nominal.ue8m0 : kn_oracle_bits(b->nominal.sf);
  uint32_t code;
  float sf;
  if (chain->quantize.global) return e4m3_sf_code(chain, b);
  if (b->is_nan) nominal = packed ? 255 : 0x7FC00000;
  if (!chain->written_sf || chain->exact || b->is_nan) return nominal;
  code = sf_get(chain, chain->written_sf, b);
  sf = packed ? kn_oracle_decode(KILN_UE8M0, code) : kn_oracle_float(code);
  if (chain->quantize.round_sf) {
    if (!(sf >= b->low.sf && sf <= b->high.sf) || (kn_oracle_bits(sf) & 0x7FFFFF)) return nominal;
    b->inv_low = b->inv_high = 1 / sf;
    return code;
  }
  if (!(sf >= fminf(b->low.sf, kn_oracle_step(b->nominal.sf, -4)) &&
        sf <= fmaxf(b->high.sf, kn_oracle_step(b->nominal.sf, 4)))) {
    return nominal;
  }
  bound_inverse(chain, sf, b);
  return code;
}

/* Scale factors that are given: the product with 1 / sf, whatever they are. */
static void take_given(const struct kn_oracle_chain *chain, struct block *b) {
  b->nominal.sf_inv = 1 / kn_oracle_given_sf(chain->quantize.sf, b->row, b->col);
  b->inv_low = b->inv_high = b->nominal.sf_inv;
}

/* ---- codes that are moved to other blocks ---- */

static void report(const struct kn_oracle_chain *chain) {
  const kiln_tensor *error = chain->quantize.error;
  if (error) kn_oracle_put(error, 0, kn_oracle_get(error, 0) | 1);
}

/* The scale factor of the block that a value comes from, as a power of two: its exponent. */
static int exponent_of(const struct kn_oracle_chain *chain, int64_t row, int64_t col,
                       bool *is_power) {
  const struct kn_oracle_quantize *q = &chain->quantize;
  const uint32_t bits =
      kn_oracle_bits(kn_oracle_given_sf(q->from, row / q->from_rows, col / q->from_cols));
  const int exponent = (int)(bits >> 23 & 255);
  *is_power = exponent >= 1 && exponent <= 254 && bits == (uint32_t)exponent << 23;
  return exponent < 1 ? 1 : exponent > 254 ? 254 : exponent;
}

/* The largest exponent of the block goes down by 6, not below 1. */
static void move_scale(const struct kn_oracle_chain *chain, struct block *b) {
  int largest = 0;
  for (int64_t i = 0; i < chain->rows; ++i) {
    const int64_t row = kn_oracle_source(chain, chain->first + i);
    for (int64_t j = b->first; row >= 0 && j < b->first + b->count; ++j) {
      bool is_power;
      const int exponent = exponent_of(chain, row, j, &is_power);
      if (exponent > largest) largest = exponent;
      if (!is_power) report(chain);
    }
  }
  b->nominal.ue8m0 = largest - 6 > 1 ? largest - 6 : 1;
  b->nominal.sf = ldexpf(1, b->nominal.ue8m0 - 127);
}

static uint32_t moved_code(const struct kn_oracle_chain *chain, const struct block *b, int64_t i,
                           int64_t j) {
  const kiln_dtype to = chain->quantize.to;
  const int64_t row = kn_oracle_source(chain, chain->first + i);
  bool is_power;
  if (row < 0) return 0;
  const int power = exponent_of(chain, row, j, &is_power) - b->nominal.ue8m0;
  const double value = ldexp((double)chain->values[i * chain->cols + j].nominal, power);
  const uint32_t code = kn_oracle_encode(to, (float)value);
  if ((double)kn_oracle_decode(to, code) != value) report(chain);
  return code;
}

/* After the last row: with the default ld the rows that fill a column up are 0. */
static void finish(const struct kn_oracle_chain *chain) {
  const kiln_tensor *sf = chain->sf;
  const int64_t rows = sf ? sf->shape[0] : 0, ld = (rows + 3) / 4 * 4;
  if (!sf || chain->first + chain->rows < chain->num_rows) return;
  if (chain->quantize.layout == KN_ORACLE_ROW_MAJOR || sf->strides[1] != ld) return;
  for (int64_t c = 0; c < sf->shape[1]; ++c) {
    for (int64_t r = rows; r < ld; ++r) kn_oracle_put(sf, c * ld + r, 0);
  }
}

/* ---- codes ---- */

/* Codes in the order of what they stand for, -0 below +0. */
static int order_of(kiln_dtype dtype, uint32_t code) {
  const int sign = 1 << (kiln_dtype_bits(dtype) - 1);
  const int magnitude = (int)code & (sign - 1);
  return (int)code & sign ? ~magnitude : magnitude;
}

static uint32_t code_of(const struct kn_oracle_chain *chain, const struct block *b,
                        const struct kn_oracle_values *v, int64_t offset) {
  const kiln_dtype to = chain->quantize.to;
  const uint32_t nominal = kn_oracle_encode(to, scaled_by(chain, b, v->nominal, b->nominal.sf_inv));
  uint32_t code;
  float low, high;
  int order;
  if (!chain->written_data || chain->exact || isnan(v->nominal)) return nominal;
  code = kn_oracle_get(chain->written_data, offset);
  low = scaled_by(chain, b, v->low, v->low < 0 ? b->inv_high : b->inv_low);
  high = scaled_by(chain, b, v->high, v->high < 0 ? b->inv_low : b->inv_high);
  order = order_of(to, code);
  if (order < order_of(to, kn_oracle_encode(to, low)) ||
      order > order_of(to, kn_oracle_encode(to, high))) {
    return kn_oracle_encode(to, scaled_by(chain, b, v->nominal, b->inv_low));
  }
  return code;
}

static void store_block(const struct kn_oracle_chain *chain, const struct block *b) {
  const kiln_tensor *data = chain->data;
  for (int64_t i = 0; data && i < chain->rows; ++i) {
    for (int64_t j = b->first; j < b->first + b->count; ++j) {
      const int64_t row = chain->first + i;
      const int64_t offset = chain->transposed ? j * data->strides[0] + row * data->strides[1]
                                               : row * data->strides[0] + j * data->strides[1];
      const struct kn_oracle_values *v = &chain->values[i * chain->cols + j];
      const uint32_t code = chain->is_skipped      ? 0
                            : chain->quantize.from ? moved_code(chain, b, i, j)
                                                   : code_of(chain, b, v, offset);
      kn_oracle_put(data, offset, code);
    }
  }
}

/* ---- values that are no finite numbers ---- */

static void count_nonfinite(struct kn_oracle_chain *chain) {
  if (!chain->quantize.nonfinite || chain->is_skipped) return;
  for (int64_t i = 0; i < chain->rows * chain->cols; ++i) {
    const struct kn_oracle_values *v = &chain->values[i];
    const bool is_low = !isfinite(v->low), is_high = !isfinite(v->high);
    const bool is_nan = isnan(v->nominal), is_nominal = !isfinite(v->nominal);
    chain->nonfinite += is_nominal;
    chain->least_nonfinite += is_nan || (is_nominal && is_low && is_high);
    chain->most_nonfinite += is_nominal || is_low || is_high;
  }
}

void kn_oracle_store_nonfinite(const struct kn_oracle_chain *chain) {
  const kiln_tensor *to = chain->quantize.nonfinite, *written = chain->quantize.written_nonfinite;
  uint64_t before, counted = (uint64_t)chain->nonfinite;
  if (!to) return;
  before = kn_oracle_get_wide(to, 0); /* wraps as the kernel's sum does */
  if (written) {
    const uint64_t is = kn_oracle_get_wide(written, 0) - before;
    if (is >= (uint64_t)chain->least_nonfinite && is <= (uint64_t)chain->most_nonfinite) {
      counted = is;
    }
  }
  kn_oracle_put_wide(to, 0, before + counted);
}

void kn_oracle_store(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  const int64_t width = chain->quantize.cols;
  struct block b = {.row = chain->first / chain->quantize.rows};
  (void)stage;
  count_nonfinite(chain);
  if (chain->is_skipped && !chain->zero_skipped) {
    finish(chain);
    return;
  }
  for (b.first = 0; b.first < chain->cols; b.first += width) {
    b.count = chain->cols - b.first < width ? chain->cols - b.first : width;
    b.col = b.first / width;
    if (chain->quantize.sf) {
      take_given(chain, &b);
    } else if (chain->quantize.from) {
      if (!chain->is_skipped) move_scale(chain, &b);
    } else if (!chain->is_skipped) {
      measure(chain, &b);
    }
    if (chain->sf) sf_put(chain, &b, chain->is_skipped ? 0 : sf_code(chain, &b));
    store_block(chain, &b);
  }
  finish(chain);
}

/* A value, or what a kernel wrote between its bounds; any NaN will do for one. */
static uint32_t value_of(const struct kn_oracle_chain *chain, const struct kn_oracle_values *v,
                         int64_t offset) {
  const kiln_dtype to = chain->data->dtype;
  if (chain->written_data && (isnan(v->nominal) || !chain->exact)) {
    const uint32_t code = kn_oracle_get(chain->written_data, offset);
    const float is = kn_oracle_decode(to, code);
    const float low = kn_oracle_decode(to, kn_oracle_encode(to, v->low));
    const float high = kn_oracle_decode(to, kn_oracle_encode(to, v->high));
    if (isnan(v->nominal) ? isnan(is) : is >= low && is <= high) return code;
  }
  return kn_oracle_encode(to, v->nominal);
}

void kn_oracle_store_values(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  (void)stage;
  if (chain->is_skipped && !chain->zero_skipped) return;
  for (int64_t i = 0; i < chain->rows; ++i) {
    for (int64_t j = 0; j < chain->cols; ++j) {
      const int64_t offset = kn_oracle_at(chain->data, chain->first + i, j);
      const struct kn_oracle_values *v = &chain->values[i * chain->cols + j];
      kn_oracle_put(chain->data, offset, chain->is_skipped ? 0 : value_of(chain, v, offset));
    }
  }
}
