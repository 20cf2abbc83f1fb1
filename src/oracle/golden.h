/* SPDX-License-Identifier: MIT */
/*
 * Golden cases: recorded inputs and outputs. A file is text lines, an empty line, then the arrays
 * in the order of their lines, little-endian and contiguous:
 *   case OP
 *   param NAME VALUE
 *   in NAME DTYPE SHAPE ..
 *   out NAME DTYPE SHAPE ..
 * Codes are u8; scale factors are logical, [block rows, block columns] f32 or packed i32 words.
 */
#ifndef KILN_ORACLE_GOLDEN_H
#define KILN_ORACLE_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

enum { KN_GOLDEN_WORD = 72, KN_GOLDEN_MAX = 16 };

struct kn_golden_param {
  char name[KN_GOLDEN_WORD], value[KN_GOLDEN_WORD];
};

struct kn_golden_array {
  char name[KN_GOLDEN_WORD];
  bool is_output;
  kiln_tensor tensor; /* contiguous; data points into the file's bytes */
};

struct kn_golden {
  char op[KN_GOLDEN_WORD];
  struct kn_golden_param params[KN_GOLDEN_MAX];
  size_t num_params;
  struct kn_golden_array arrays[KN_GOLDEN_MAX];
  size_t num_arrays;
};

/* Reads a file's bytes, which must outlive `out`. False if they are malformed. */
bool kn_golden_parse(const void *bytes, size_t size, struct kn_golden *out);

/* A case as a request to Kiln: operator, params, scalars and run-time sizes under Kiln's names. */
struct kn_golden_request {
  const char *op;
  struct kn_golden_param params[KN_GOLDEN_MAX];
  size_t num_params;
  struct kn_golden_param scalars[KN_GOLDEN_MAX];
  size_t num_scalars;
  kiln_dim dims[KN_GOLDEN_MAX];
  size_t num_dims;
};
/* False if no operator of Kiln serves the case. */
bool kn_golden_request(const struct kn_golden *golden, struct kn_golden_request *out);

const struct kn_golden_array *kn_golden_array(const struct kn_golden *golden, const char *name);
/* The recorded input that an argument begins with: NAME, or NAME_in of one that is changed. */
const struct kn_golden_array *kn_golden_input(const struct kn_golden *golden, const char *name);
/* The value of a param, or NULL. */
const char *kn_golden_param(const struct kn_golden_param *params, size_t count, const char *name);

/* Whether `tensor`, in any layout, holds the array's elements; else writes the first difference to
   `first`, as kn_oracle_report has it. Codes are compared byte by byte, routing weights to 1e-6. */
bool kn_golden_equal(const struct kn_golden_array *want, const kiln_tensor *tensor, char *first,
                     size_t capacity);

#endif
