/* SPDX-License-Identifier: MIT */
#include "oracle/elements.h"

#include <math.h>

float kn_oracle_step(float value, int steps) {
  const uint32_t bits = kn_oracle_bits(value);
  int64_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude == 0 || magnitude >= 0x7F800000) return value;
  magnitude += steps;
  if (magnitude < 0) magnitude = 0;
  if (magnitude > 0x7F800000) magnitude = 0x7F800000;
  return kn_oracle_float((bits & 0x80000000) | (uint32_t)magnitude);
}

/* e5m6: eight codes are the bits of three words, from the highest of the first one down. */
static uint32_t get_e5m6(const uint8_t *group, int index) {
  uint32_t words[3];
  const int first = index * 12 / 32, shift = 64 - 12 - index * 12 % 32;
  uint64_t pair;
  memcpy(words, group, sizeof words);
  pair = (uint64_t)words[first] << 32 | (first < 2 ? words[first + 1] : 0);
  return (uint32_t)(pair >> shift) & 0xFFF;
}

static void put_e5m6(uint8_t *group, int index, uint32_t code) {
  uint32_t words[3];
  const int first = index * 12 / 32, shift = 64 - 12 - index * 12 % 32;
  uint64_t pair;
  memcpy(words, group, sizeof words);
  pair = (uint64_t)words[first] << 32 | (first < 2 ? words[first + 1] : 0);
  pair = (pair & ~((uint64_t)0xFFF << shift)) | (uint64_t)(code & 0xFFF) << shift;
  words[first] = (uint32_t)(pair >> 32);
  if (first < 2) words[first + 1] = (uint32_t)pair;
  memcpy(group, words, sizeof words);
}

uint32_t kn_oracle_get(const kiln_tensor *tensor, int64_t offset) {
  const uint8_t *data = tensor->data;
  uint16_t half;
  uint32_t word;
  switch (kiln_dtype_bits(tensor->dtype)) {
    case 4:
      return data[offset / 2] >> (offset % 2 * 4) & 15;
    case 8:
      return data[offset];
    case 12:
      return get_e5m6(data + offset / 8 * 12, (int)(offset % 8));
    case 16:
      memcpy(&half, data + 2 * offset, sizeof half);
      return half;
    default:
      memcpy(&word, data + 4 * offset, sizeof word);
      return word;
  }
}

void kn_oracle_put(const kiln_tensor *tensor, int64_t offset, uint32_t code) {
  uint8_t *data = tensor->data;
  const uint16_t half = (uint16_t)code;
  switch (kiln_dtype_bits(tensor->dtype)) {
    case 4:
      data[offset / 2] = (uint8_t)(offset % 2 ? (data[offset / 2] & 0x0F) | (code & 15) << 4
                                              : (data[offset / 2] & 0xF0) | (code & 15));
      break;
    case 8:
      data[offset] = (uint8_t)code;
      break;
    case 12:
      put_e5m6(data + offset / 8 * 12, (int)(offset % 8), code);
      break;
    case 16:
      memcpy(data + 2 * offset, &half, sizeof half);
      break;
    default:
      memcpy(data + 4 * offset, &code, sizeof code);
  }
}

const struct kn_oracle_tensor *kn_oracle_tensor(const struct kn_oracle_case *c, const char *name) {
  for (size_t i = 0; i < c->num_tensors; ++i) {
    if (c->tensors[i].present && strcmp(c->tensors[i].name, name) == 0) return &c->tensors[i];
  }
  return NULL;
}

const struct kn_oracle_scalar *kn_oracle_scalar(const struct kn_oracle_case *c, const char *name) {
  for (size_t i = 0; i < c->num_scalars; ++i) {
    if (c->scalars[i].present && strcmp(c->scalars[i].name, name) == 0) return &c->scalars[i];
  }
  return NULL;
}
