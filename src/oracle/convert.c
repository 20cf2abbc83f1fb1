/* SPDX-License-Identifier: MIT */
/* Conversions of contract 0: nearest even in the format's own precision, subnormals included. */
#include <math.h>

#include "oracle/elements.h"

struct format {
  int exponent_bits, mantissa_bits, bias;
  uint32_t max_code; /* magnitude of the largest finite value, where larger ones saturate */
  uint32_t overflow; /* what is beyond it */
  uint32_t nan;      /* what NaN becomes, sign included */
};

static const struct format formats[] = {
    [KILN_F16] = {5, 10, 15, 0x7BFF, 0x7C00, 0x7FFF}, [KILN_E4M3] = {4, 3, 7, 0x7E, 0x7E, 0x7F},
    [KILN_E5M2] = {5, 2, 15, 0x7B, 0x7B, 0x7F},       [KILN_E2M1] = {2, 1, 1, 7, 7, 7},
    [KILN_E5M6] = {5, 6, 15, 0x7BF, 0x7BF, 0x7FF},
};
enum { NUM_FORMATS = sizeof formats / sizeof *formats };

static const struct format *find(kiln_dtype dtype) {
  if ((int)dtype < 0 || (int)dtype >= NUM_FORMATS) return NULL;
  return formats[dtype].exponent_bits ? &formats[dtype] : NULL;
}

/* value / 2^shift to the nearest whole number, ties to even. */
static uint32_t shift_nearest_even(uint32_t value, int shift) {
  uint32_t half, rest;
  if (shift > 31) return 0;
  half = 1u << (shift - 1);
  rest = value & ((half << 1) - 1);
  value >>= shift;
  return value + (rest > half || (rest == half && (value & 1)));
}

static uint32_t encode(const struct format *f, uint32_t bits) {
  const uint32_t sign = (bits >> 31) << (f->exponent_bits + f->mantissa_bits);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const int exponent = (int)(magnitude >> 23) - 127;
  const int drop = 23 - f->mantissa_bits;
  uint32_t code;

  if (magnitude > 0x7F800000) return f->nan;
  if (exponent == -127) return sign; /* far below half of any subnormal */
  if (exponent < 1 - f->bias) {
    const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
    code = shift_nearest_even(mantissa, drop + 1 - f->bias - exponent);
  } else {
    code = shift_nearest_even(magnitude, drop) - ((uint32_t)(127 - f->bias) << f->mantissa_bits);
  }
  return sign | (code > f->max_code ? f->overflow : code);
}

uint32_t kn_oracle_encode(kiln_dtype dtype, float value) {
  const uint32_t bits = kn_oracle_bits(value);
  const struct format *f = find(dtype);
  if (f) return encode(f, bits);
  if (dtype == KILN_BF16) {
    return isnan(value) ? 0x7FC0 : shift_nearest_even(bits, 16);
  }
  return bits;
}

static float decode_small(kiln_dtype dtype, const struct format *f, uint32_t code) {
  const uint32_t exponent_mask = (1u << f->exponent_bits) - 1;
  const uint32_t mantissa = code & ((1u << f->mantissa_bits) - 1);
  const uint32_t exponent = (code >> f->mantissa_bits) & exponent_mask;
  const bool negative = (code >> (f->exponent_bits + f->mantissa_bits)) & 1;
  float magnitude;

  if (dtype == KILN_E4M3) {
    if ((code & 0x7F) == 0x7F) return NAN;
  } else if (dtype != KILN_E2M1 && exponent == exponent_mask) {
    if (mantissa) return NAN;
    return negative ? -INFINITY : INFINITY;
  }
  if (exponent == 0) {
    magnitude = ldexpf((float)mantissa, 1 - f->bias - f->mantissa_bits);
  } else {
    magnitude = kn_oracle_float(((exponent + 127 - (uint32_t)f->bias) << 23) |
                                (mantissa << (23 - f->mantissa_bits)));
  }
  return negative ? -magnitude : magnitude;
}

float kn_oracle_decode(kiln_dtype dtype, uint32_t code) {
  const struct format *f = find(dtype);
  if (f) return decode_small(dtype, f, code);
  if (dtype == KILN_BF16) return kn_oracle_float(code << 16);
  if (dtype == KILN_UE8M0) {
    if (code == 255) return NAN;
    return kn_oracle_float(code == 0 ? 0x00400000 : code << 23);
  }
  return kn_oracle_float(code);
}
