/* SPDX-License-Identifier: MIT */
/*
 * Chains, interpreted a band of rows at a time: a band has as many rows as share a scale. Values
 * are kept with the bounds between which a kernel's may lie; the three are the same until a stage
 * computes something to an accuracy instead of to the bit.
 */
#ifndef KILN_ORACLE_CHAIN_H
#define KILN_ORACLE_CHAIN_H

#include "oracle/elements.h"

struct kn_oracle_values {
  float nominal, low, high;
};

enum kn_oracle_layout { KN_ORACLE_ROW_MAJOR, KN_ORACLE_COL_MAJOR, KN_ORACLE_PACKED };

struct kn_oracle_quantize {
  kiln_dtype to;
  int64_t rows, cols; /* of a block */
  bool round_sf;
  enum kn_oracle_layout layout;
  float clamp_min;           /* negative: the format's own */
  const kiln_tensor *sf;     /* scale factors that are given, or NULL */
  const kiln_tensor *global; /* NVFP4: the unit of the scale factors, which are e4m3; or NULL */
  /* Codes that are moved to other blocks: their scale factors and blocks, and the error word. */
  const kiln_tensor *from, *error;
  int64_t from_rows, from_cols;
  /* What counts values that are NaN or infinite, and what a kernel made of it; NULL if absent. */
  const kiln_tensor *nonfinite, *written_nonfinite;
};

struct kn_oracle_chain;
struct kn_oracle_stage {
  void (*run)(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
  kiln_dtype dtype;      /* round */
  bool has_min, has_max; /* of clamp; the gates have one bound */
  float min, max;
  bool is_fast;                      /* swiglu */
  const kiln_tensor *written;        /* what a kernel wrote to `index` */
  const kiln_tensor *tensor, *index; /* bias; weights and their index; a gate's counters;
                                        what is added and the sum; weights of a norm; scale
                                        factors of codes */
  const kiln_tensor *error;          /* of scale_by_weight */
  int64_t block_rows, block_cols;    /* that share one of these */
};

enum { KN_ORACLE_MAX_STAGES = 32 };

struct kn_oracle_chain {
  struct kn_oracle_stage stages[KN_ORACLE_MAX_STAGES];
  int num_stages;
  struct kn_oracle_quantize quantize;
  bool transposed;
  const kiln_tensor *in, *data, *sf;
  const kiln_tensor *written_data, *written_sf; /* or NULL: see kn_oracle_job */
  int64_t num_rows;
  const kiln_tensor *gather, *skip, *masked, *valid,
      *error; /* of load; NULL where they are absent */
  bool zero_skipped;

  int64_t first, rows;             /* the band */
  int64_t cols;                    /* of the values held */
  struct kn_oracle_values *values; /* [rows][cols] */
  bool exact;                      /* no stage so far had a tolerance */
  bool is_skipped;                 /* the band, which then is one row */
  /* Values so far that are NaN or infinite: as computed, and between which numbers a kernel's. */
  int64_t nonfinite, least_nonfinite, most_nonfinite;
};

/* Reads the chain's text. */
kiln_status kn_oracle_parse(const struct kn_oracle_job *job, struct kn_oracle_chain *out);

/* Stages that work on values one by one (element.c). */
void kn_oracle_round(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_silu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_gelu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_gelu_tanh(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_relu2(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_swiglu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_geglu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_clamp(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_add_bias(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_scale_by_weight(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);

/* Scale factors that are given, f32 or words of four exponents: that of a block (pair.c). */
float kn_oracle_given_sf(const kiln_tensor *sf, int64_t block_row, int64_t block_col);
void kn_oracle_dequantize(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
/* The matrix's row that a row of the chain is, -1 where it has none and is all zeros. */
int64_t kn_oracle_source(const struct kn_oracle_chain *chain, int64_t row);

/* Stages of whole rows, and of a second matrix (row.c). */
void kn_oracle_residual_add(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
void kn_oracle_rmsnorm(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);

/* Quantises and stores the band; writes the padding of its scale factors. */
void kn_oracle_store(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);
/* After the last band: adds what was counted. */
void kn_oracle_store_nonfinite(const struct kn_oracle_chain *chain);
/* Rounds and stores the band's values. */
void kn_oracle_store_values(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage);

#endif
