/* SPDX-License-Identifier: MIT */
#include "oracle/golden.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "oracle/elements.h"
#include "oracle/golden_request.h"

/* ---- reading ---- */

/* Takes the next word of a line; false if there is none or it is too long. */
static bool next_word(const char **at, const char *end, char *out) {
  size_t length = 0;
  while (*at < end && **at == ' ') ++*at;
  while (*at + length < end && (*at)[length] != ' ') ++length;
  if (length == 0 || length >= KN_GOLDEN_WORD) return false;
  memcpy(out, *at, length);
  out[length] = '\0';
  *at += length;
  return true;
}

static bool read_array(const char *at, const char *end, struct kn_golden_array *out) {
  char word[KN_GOLDEN_WORD];
  int64_t shape[KILN_MAX_RANK];
  int32_t rank = 0;
  uint64_t bytes;
  kiln_dtype dtype;
  if (!next_word(&at, end, out->name) || !next_word(&at, end, word)) return false;
  dtype = kn_oracle_dtype(word);
  while (next_word(&at, end, word)) {
    if (rank == KILN_MAX_RANK) return false;
    shape[rank] = strtoll(word, NULL, 10);
    if (shape[rank] < 0 || shape[rank] > INT32_MAX) return false;
    ++rank;
  }
  if (!dtype || rank == 0) return false;
  bytes = (uint64_t)kiln_dtype_bits(dtype) / 8;
  for (int32_t axis = 0; axis < rank; ++axis) {
    if (shape[axis] && bytes > UINT32_MAX / (uint64_t)shape[axis]) return false;
    bytes *= (uint64_t)shape[axis];
  }
  out->tensor = kiln_tensor_make(NULL, dtype, rank, shape);
  out->tensor.size_bytes = bytes;
  return true;
}

static bool read_line(const char *at, const char *end, struct kn_golden *out) {
  char kind[KN_GOLDEN_WORD];
  if (!next_word(&at, end, kind)) return false;
  if (strcmp(kind, "case") == 0) return next_word(&at, end, out->op);
  if (strcmp(kind, "param") == 0) {
    struct kn_golden_param *param = &out->params[out->num_params];
    if (out->num_params == KN_GOLDEN_MAX) return false;
    if (!next_word(&at, end, param->name) || !next_word(&at, end, param->value)) return false;
    ++out->num_params;
    return true;
  }
  if (strcmp(kind, "in") != 0 && strcmp(kind, "out") != 0) return false;
  if (out->num_arrays == KN_GOLDEN_MAX) return false;
  out->arrays[out->num_arrays].is_output = strcmp(kind, "out") == 0;
  return read_array(at, end, &out->arrays[out->num_arrays++]);
}

bool kn_golden_parse(const void *bytes, size_t size, struct kn_golden *out) {
  const char *at = bytes, *const end = at + size;
  *out = (struct kn_golden){.num_params = 0};
  for (;;) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    if (!newline) return false;
    if (newline == at) break;
    if (!read_line(at, newline, out)) return false;
    at = newline + 1;
  }
  ++at;
  for (size_t i = 0; i < out->num_arrays; ++i) {
    kiln_tensor *tensor = &out->arrays[i].tensor;
    if ((uint64_t)(end - at) < tensor->size_bytes) return false;
    memcpy(&tensor->data, &at, sizeof at); /* a tensor's data is not const, but only read here */
    at += tensor->size_bytes;
  }
  return out->op[0] != '\0' && at == end;
}

const struct kn_golden_array *kn_golden_array(const struct kn_golden *golden, const char *name) {
  for (size_t i = 0; i < golden->num_arrays; ++i) {
    if (strcmp(golden->arrays[i].name, name) == 0) return &golden->arrays[i];
  }
  return NULL;
}

const struct kn_golden_array *kn_golden_input(const struct kn_golden *golden, const char *name) {
  char changed[KN_GOLDEN_WORD + 4];
  const struct kn_golden_array *array = kn_golden_array(golden, name);
  if (array && !array->is_output) return array;
  (void)snprintf(changed, sizeof changed, "%s_in", name);
  return kn_golden_array(golden, changed);
}

const char *kn_golden_param(const struct kn_golden_param *params, size_t count, const char *name) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(params[i].name, name) == 0) return params[i].value;
  }
  return NULL;
}

/* ---- as a request ---- */

void kn_golden_add(struct kn_golden_request *out, const char *name, const char *value) {
  struct kn_golden_param *param = &out->params[out->num_params];
  if (out->num_params == KN_GOLDEN_MAX) return;
  ++out->num_params;
  (void)snprintf(param->name, sizeof param->name, "%s", name);
  (void)snprintf(param->value, sizeof param->value, "%s", value);
}

void kn_golden_add_int(struct kn_golden_request *out, const char *name, int64_t value) {
  char text[32];
  (void)snprintf(text, sizeof text, "%" PRId64, value);
  kn_golden_add(out, name, text);
}

bool kn_golden_request(const struct kn_golden *golden, struct kn_golden_request *out) {
  *out = (struct kn_golden_request){.num_params = 0};
  return kn_golden_routing_request(golden, out) || kn_golden_quant_request(golden, out);
}

/* ---- comparing ---- */

/* A tensor of codes as one of bytes. */
static kiln_tensor as_bytes(const kiln_tensor *tensor) {
  kiln_tensor bytes = *tensor;
  const int bits = kiln_dtype_bits(tensor->dtype);
  const int last = tensor->rank - 1;
  bytes.dtype = KILN_U8;
  bytes.shape[last] = bytes.shape[last] * bits / 8;
  for (int axis = 0; axis < last; ++axis) bytes.strides[axis] = bytes.strides[axis] * bits / 8;
  return bytes;
}

static bool same_shape(const kiln_tensor *a, const kiln_tensor *b) {
  if (a->rank != b->rank || a->dtype != b->dtype) return false;
  for (int axis = 0; axis < a->rank; ++axis) {
    if (a->shape[axis] != b->shape[axis]) return false;
  }
  return true;
}

/* The next element; false behind the last one. */
static bool advance(const kiln_tensor *t, int64_t *place) {
  for (int axis = t->rank - 1; axis >= 0; --axis) {
    if (++place[axis] < t->shape[axis]) return true;
    place[axis] = 0;
  }
  return false;
}

static int64_t offset_of(const kiln_tensor *t, const int64_t *place) {
  int64_t offset = 0;
  for (int axis = 0; axis < t->rank; ++axis) offset += place[axis] * t->strides[axis];
  return offset;
}

/* Weights of a gate stand on exp, which nobody rounds correctly; their gradients on sums in another
   order. */
static bool are_equal(const char *name, uint64_t a, uint64_t b) {
  const float x = kn_oracle_float((uint32_t)a), y = kn_oracle_float((uint32_t)b);
  if (a == b) return true;
  if (strcmp(name, "weight_grad") == 0) return fabsf(x - y) <= 1e-5f * fmaxf(fabsf(y), 1);
  return strcmp(name, "topk_weights") == 0 && fabsf(x - y) <= 1e-6f;
}

bool kn_golden_equal(const struct kn_golden_array *want, const kiln_tensor *tensor, char *first,
                     size_t capacity) {
  const kiln_tensor *other = &want->tensor;
  const kiln_tensor is = other->dtype == KILN_U8 ? as_bytes(tensor) : *tensor;
  int64_t place[KILN_MAX_RANK] = {0};
  if (!same_shape(&is, other)) {
    (void)snprintf(first, capacity, "%s has another shape or dtype", want->name);
    return false;
  }
  if (other->size_bytes == 0) return true;
  do {
    const uint64_t a = kn_oracle_get_wide(&is, offset_of(&is, place));
    const uint64_t b = kn_oracle_get_wide(other, offset_of(other, place));
    if (are_equal(want->name, a, b)) continue;
    (void)snprintf(first, capacity, "%s[%" PRId64 ", %" PRId64 "]: 0x%" PRIx64 ", want 0x%" PRIx64,
                   want->name, place[0], is.rank > 1 ? place[1] : 0, a, b);
    return false;
  } while (advance(&is, place));
  return true;
}
