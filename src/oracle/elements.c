/* SPDX-License-Identifier: MIT */
#include "oracle/elements.h"

#include <math.h>
#include <stdlib.h>

kiln_dtype kn_oracle_dtype(const char *name) {
#define KILN_X(dtype, value, bits, text) \
  if (strcmp(name, text) == 0) return dtype;
  KILN_DTYPE_TABLE(KILN_X)
#undef KILN_X
  return KILN_DTYPE_NONE;
}

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

uint64_t kn_oracle_get_wide(const kiln_tensor *tensor, int64_t offset) {
  uint64_t bits;
  if (kiln_dtype_bits(tensor->dtype) != 64) return kn_oracle_get(tensor, offset);
  memcpy(&bits, (const uint8_t *)tensor->data + 8 * offset, sizeof bits);
  return bits;
}

void kn_oracle_put_wide(const kiln_tensor *tensor, int64_t offset, uint64_t bits) {
  if (kiln_dtype_bits(tensor->dtype) != 64) {
    kn_oracle_put(tensor, offset, (uint32_t)bits);
  } else {
    memcpy((uint8_t *)tensor->data + 8 * offset, &bits, sizeof bits);
  }
}

int64_t kn_oracle_get_index(const kiln_tensor *tensor, int64_t offset) {
  const uint64_t bits = kn_oracle_get_wide(tensor, offset);
  return tensor->dtype == KILN_I64 ? (int64_t)bits : (int32_t)(uint32_t)bits;
}

void kn_oracle_put_index(const kiln_tensor *tensor, int64_t offset, int64_t index) {
  kn_oracle_put_wide(tensor, offset, (uint64_t)index);
}

float kn_oracle_get_float(const kiln_tensor *tensor, int64_t offset) {
  return kn_oracle_decode(tensor->dtype, kn_oracle_get(tensor, offset));
}

void kn_oracle_put_float(const kiln_tensor *tensor, int64_t offset, float value) {
  kn_oracle_put(tensor, offset, kn_oracle_encode(tensor->dtype, value));
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

void kn_oracle_put_result(const struct kn_oracle_job *job, const struct kn_oracle_tensor *out,
                          int64_t offset, float value) {
  if (isnan(value) && job->written) {
    const kiln_tensor *written = &job->written[out - job->c->tensors].tensor;
    const float is = kn_oracle_get_float(written, offset);
    if (isnan(is) && out->tensor.dtype != KILN_E4M3) {
      kn_oracle_put(&out->tensor, offset, kn_oracle_get(written, offset));
      return;
    }
  }
  kn_oracle_put_float(&out->tensor, offset, value);
}

int64_t kn_oracle_param(const struct kn_oracle_case *c, const char *name, int64_t fallback) {
  for (size_t i = 0; i < c->num_params; ++i) {
    const char *value = c->params[i].value;
    if (strcmp(c->params[i].name, name) != 0) continue;
    return strcmp(value, "true") == 0    ? 1
           : strcmp(value, "false") == 0 ? 0
                                         : strtoll(value, NULL, 10);
  }
  return fallback;
}
