/* SPDX-License-Identifier: MIT */
/*
 * The operators in plain C on host memory, written from the contract alone. Chains are interpreted
 * stage by stage from their text (KILN_TEXT_CHAIN); other operators have one file each.
 *
 * Chain text, one stage a line, arguments in this order, absent optional ones left out:
 *   load x gather=pos_to_token skip=pos_to_expert masked=masked_m valid=num_valid_rows
 *        zero_skipped=1 error=error
 *   dequantize sf=x_sf rows=1 cols=128
 *   round to=bf16
 *   silu | gelu | gelu_tanh | relu2
 *   swiglu clamp=swiglu_clamp_value count=clamped_count math=fast       geglu likewise
 *   clamp min=low max=high
 *   add_bias bias=bias
 *   scale_by_weight weights=topk_weights index=pos_to_token_topk error=error
 *   residual_add in=residual out=residual
 *   rmsnorm weight=weight eps=eps
 *   quantize to=e4m3 rows=128 cols=1 round_sf=0 layout=row_major clamp_min=sf_clamp_min sf=given
 *            nonfinite=nonfinite_count            with or without the two before it
 *   requantize to=e4m3 rows=1 cols=128 layout=row_major sf=x_sf from_rows=1 from_cols=32
 *              error=error
 *   transpose
 *   store data=out sf=out_sf                         either alone; values have no sf
 * layout is row_major, col_major or packed_ue8m0.
 */
#ifndef KILN_ORACLE_ORACLE_H
#define KILN_ORACLE_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

struct kn_oracle_tensor {
  const char *name;
  bool present;
  kiln_role role;
  kiln_tensor tensor; /* data is host memory; size_bytes is the buffer's size, padding included */
  const void *before; /* inout tensors in kn_oracle_check: what the buffer held before the launch */
};

struct kn_oracle_scalar {
  const char *name;
  bool present;
  double value;
};

struct kn_oracle_case {
  const char *op;
  const char *chain; /* "" where the operator is no chain */
  struct kn_oracle_tensor *tensors;
  size_t num_tensors;
  const struct kn_oracle_scalar *scalars;
  size_t num_scalars;
  const kiln_param *params;
  size_t num_params;
};

/* Computes the outputs into their tensors' memory. KILN_E_UNSUPPORTED for an unknown operator or
   stage, KILN_E_ARGUMENT for a case that the contract excludes. */
kiln_status kn_oracle_run(const struct kn_oracle_case *c);

struct kn_oracle_report {
  uint64_t compared; /* elements looked at, sf and padding included */
  uint64_t failed;
  char first[256]; /* "out[3, 17]: 0x7e, want 0x7d"; "" if none failed */
};

/* Compares the outputs that lie in the case's tensors with what they must be: to the bit, or where
   the contract names a tolerance (expf, ...) within it, codes given the sf that was written. Bytes
   of a row beyond the matrix must still hold `poison`. */
kiln_status kn_oracle_check(const struct kn_oracle_case *c, uint8_t poison,
                            struct kn_oracle_report *report);

/* Kinds of input data. */
enum kn_fill {
  KN_FILL_NORMAL = 0, /* normal with scales that vary by block */
  KN_FILL_EDGES,      /* zero blocks, NaN, infinities, subnormals, ties, format maxima, tiny and
                         huge amax, mixed with normal data */
  KN_NUM_FILLS
};
/* Fills an input tensor, deterministically from `seed`. */
void kn_oracle_fill(const kiln_tensor *tensor, enum kn_fill kind, uint64_t seed);
/* Fills a tensor of indices below `range`: some -1 among them, and with edges other negative ones
   and ones out of range, far and near. */
void kn_oracle_fill_indices(const kiln_tensor *tensor, enum kn_fill kind, uint64_t seed,
                            int64_t range);

/* Fills an error word: bit 0 is clear, so that a kernel has to set it, others are what nobody may
   change. */
void kn_oracle_fill_error(const kiln_tensor *tensor, uint64_t seed);

/* Where both a token_topk_to_pos and a pos_to_expert are among the inputs, fills them anew so that
   they say the same: no two slots go to one row, and rows without a slot have a negative expert. */
void kn_oracle_fill_maps(const struct kn_oracle_tensor *tensors, size_t count, enum kn_fill kind,
                         uint64_t seed);

/* Conversions of contract 0, exposed for the vectors. Codes in the low bits. */
uint32_t kn_oracle_encode(kiln_dtype dtype, float value);
float kn_oracle_decode(kiln_dtype dtype, uint32_t code);

struct kn_oracle_scale {
  float sf, sf_inv;
  int ue8m0; /* the exponent byte of a rounded sf, -1 if not rounded */
};
/* The scale of a block from its amax (NaN already left out). clamp_min < 0: the format's own. */
struct kn_oracle_scale kn_oracle_scale(kiln_dtype fmt, float amax, bool round_sf, float clamp_min);

#endif
