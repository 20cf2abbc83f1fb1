/* SPDX-License-Identifier: MIT */
/* The expert-major layout, and rows to and from it. */
#include <math.h>
#include <stdlib.h>

#include "oracle/routing.h"

/* A row of codes; 0 where `from` is NULL. */
static void copy_row(const kiln_tensor *from, int64_t from_row, const kiln_tensor *to,
                     int64_t to_row) {
  for (int64_t c = 0; c < to->shape[1]; ++c) {
    const uint32_t code = from ? kn_oracle_get(from, kn_oracle_at(from, from_row, c)) : 0;
    kn_oracle_put(to, kn_oracle_at(to, to_row, c), code);
  }
}

/* Packed scale factors: bytes behind the last one of a row are 0. */
static void clean_row(const kiln_tensor *sf, int64_t row, int64_t num_scales) {
  const int64_t last = sf->shape[1] - 1;
  const int64_t at = kn_oracle_at(sf, row, last);
  if (sf->dtype != KILN_I32 || num_scales % 4 == 0) return;
  kn_oracle_put(sf, at, kn_oracle_get(sf, at) & ((1u << num_scales % 4 * 8) - 1));
}

/* With the default distance of columns the rows that fill them up are 0. */
static void pad_columns(const kiln_tensor *sf) {
  const int64_t rows = sf->shape[0], ld = (rows + 3) / 4 * 4;
  if (sf->strides[0] != 1 || sf->strides[1] != ld) return;
  for (int64_t c = 0; c < sf->shape[1]; ++c) {
    for (int64_t r = rows; r < ld; ++r) kn_oracle_put(sf, c * ld + r, 0);
  }
}

kiln_status kn_oracle_run_expand(const struct kn_oracle_job *job) {
  const struct kn_oracle_case *c = job->c;
  const struct kn_oracle_tensor *x = kn_oracle_tensor(c, "x"), *x_sf = kn_oracle_tensor(c, "x_sf"),
                                *slots = kn_oracle_tensor(c, "token_topk_to_pos"),
                                *experts = kn_oracle_tensor(c, "pos_to_expert"),
                                *out = kn_oracle_tensor(c, "expanded_x"),
                                *out_sf = kn_oracle_tensor(c, "expanded_x_sf");
  int64_t rows, num_scales = 0;
  if (!x || !slots || !experts || !out || !x_sf != !out_sf) return KILN_E_ARGUMENT;
  rows = out->tensor.shape[0];
  if (out_sf) {
    const int64_t width = kn_oracle_param(c, "num_per_channels", x->tensor.shape[1]);
    num_scales = width ? (x->tensor.shape[1] + width - 1) / width : 1;
    if (kn_oracle_param(c, "use_tma_aligned_col_major_sf", 0)) pad_columns(&out_sf->tensor);
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (kn_oracle_get_index(&experts->tensor, r) >= 0) continue;
    copy_row(NULL, 0, &out->tensor, r);
    if (out_sf) copy_row(NULL, 0, &out_sf->tensor, r);
  }
  for (int64_t t = 0; t < slots->tensor.shape[0]; ++t) {
    for (int64_t k = 0; k < slots->tensor.shape[1]; ++k) {
      const int64_t at = kn_oracle_at(&slots->tensor, t, k);
      const int64_t row = kn_oracle_take(c, kn_oracle_get_index(&slots->tensor, at), rows);
      if (row < 0) continue;
      copy_row(&x->tensor, t, &out->tensor, row);
      if (!out_sf) continue;
      copy_row(&x_sf->tensor, t, &out_sf->tensor, row);
      clean_row(&out_sf->tensor, row, num_scales);
    }
  }
  return KILN_OK;
}

/* The rows of a token's slots and their factors. */
enum { MAX_SLOTS = 64 };
struct slots {
  int64_t count, rows[MAX_SLOTS];
  float factors[MAX_SLOTS];
};

static void take_slots(const struct kn_oracle_case *c, int64_t t, int64_t num_rows,
                       struct slots *out) {
  const struct kn_oracle_tensor *rows = kn_oracle_tensor(c, "token_topk_to_pos"),
                                *weights = kn_oracle_tensor(c, "topk_weights"),
                                *x_sf = kn_oracle_tensor(c, "x_sf");
  out->count = rows->tensor.shape[1];
  for (int64_t k = 0; k < out->count; ++k) {
    const int64_t at = kn_oracle_at(&rows->tensor, t, k);
    out->rows[k] = kn_oracle_take(c, kn_oracle_get_index(&rows->tensor, at), num_rows);
    out->factors[k] = weights ? kn_oracle_get_float(&weights->tensor, at) : 1;
    if (x_sf && out->rows[k] >= 0) {
      out->factors[k] *= kn_oracle_get_float(&x_sf->tensor, out->rows[k]);
    }
  }
}

/* reduce_fused; a residual, where the operator has one, is added to the sum of slots. */
kiln_status kn_oracle_run_reduce(const struct kn_oracle_job *job) {
  const struct kn_oracle_case *c = job->c;
  const struct kn_oracle_tensor *x = kn_oracle_tensor(c, "x"), *sf = kn_oracle_tensor(c, "sf"),
                                *residual = kn_oracle_tensor(c, "residual"),
                                *rows = kn_oracle_tensor(c, "token_topk_to_pos"),
                                *out = kn_oracle_tensor(c, "out");
  struct slots slots;
  if (!x || !rows || !out || rows->tensor.shape[1] > MAX_SLOTS) return KILN_E_ARGUMENT;
  for (int64_t t = 0; t < out->tensor.shape[0]; ++t) {
    take_slots(c, t, x->tensor.shape[0], &slots);
    for (int64_t h = 0; h < out->tensor.shape[1]; ++h) {
      float sum = 0;
      for (int64_t k = 0; k < slots.count; ++k) {
        if (slots.rows[k] < 0) continue;
        sum = fmaf(kn_oracle_get_float(&x->tensor, kn_oracle_at(&x->tensor, slots.rows[k], h)),
                   slots.factors[k], sum);
      }
      if (residual) {
        sum += kn_oracle_get_float(&residual->tensor, kn_oracle_at(&residual->tensor, t, h));
      }
      if (sf) sum *= kn_oracle_get_float(&sf->tensor, 0);
      kn_oracle_put_result(job, out, kn_oracle_at(&out->tensor, t, h), sum);
    }
  }
  return KILN_OK;
}

/* The tensors of get_fused_mapping. */
struct mapping {
  const struct kn_oracle_tensor *topk_idx, *pos_to_expert, *pos_to_token, *pos_to_token_topk,
      *token_topk_to_pos, *expert_start, *expert_end, *num_tokens_per_expert;
};

static bool find_mapping(const struct kn_oracle_case *c, struct mapping *m) {
  m->topk_idx = kn_oracle_tensor(c, "topk_idx");
  m->pos_to_expert = kn_oracle_tensor(c, "pos_to_expert");
  m->pos_to_token = kn_oracle_tensor(c, "pos_to_token");
  m->pos_to_token_topk = kn_oracle_tensor(c, "pos_to_token_topk");
  m->token_topk_to_pos = kn_oracle_tensor(c, "token_topk_to_pos");
  m->expert_start = kn_oracle_tensor(c, "expert_start");
  m->expert_end = kn_oracle_tensor(c, "expert_end");
  m->num_tokens_per_expert = kn_oracle_tensor(c, "num_tokens_per_expert");
  return m->topk_idx && m->pos_to_expert && m->pos_to_token && m->pos_to_token_topk &&
         m->token_topk_to_pos && m->expert_start && m->expert_end && m->num_tokens_per_expert;
}

/* Tells where each expert's rows are; in `next` the first of each. */
static void lay_out(const struct kn_oracle_case *c, const struct mapping *m, int64_t alignment,
                    int64_t *next) {
  const kiln_tensor *idx = &m->topk_idx->tensor;
  const int64_t experts = m->expert_start->tensor.shape[0];
  int64_t end = 0;
  for (int64_t i = 0; i < idx->shape[0] * idx->shape[1]; ++i) {
    const int64_t e = kn_oracle_take(c, kn_oracle_get_index(idx, i), experts);
    if (e >= 0) ++next[e];
  }
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t rows = (next[e] + alignment - 1) / alignment * alignment;
    next[e] = end;
    kn_oracle_put_index(&m->expert_start->tensor, e, end);
    end += rows;
    kn_oracle_put_index(&m->expert_end->tensor, e, end);
    kn_oracle_put_index(&m->num_tokens_per_expert->tensor, e, rows);
  }
  kn_oracle_flag(c, end > m->pos_to_expert->tensor.shape[0]);
}

static void put_rows(const struct mapping *m, int64_t row, int64_t expert, int64_t token,
                     int64_t slot) {
  kn_oracle_put_index(&m->pos_to_expert->tensor, row, expert);
  kn_oracle_put_index(&m->pos_to_token->tensor, row, token);
  kn_oracle_put_index(&m->pos_to_token_topk->tensor, row, slot);
}

kiln_status kn_oracle_run_mapping(const struct kn_oracle_job *job) {
  const struct kn_oracle_scalar *alignment = kn_oracle_scalar(job->c, "alignment");
  struct mapping m;
  int64_t *next, rows, experts;
  if (!find_mapping(job->c, &m) || !alignment) return KILN_E_ARGUMENT;
  rows = m.pos_to_expert->tensor.shape[0];
  experts = m.expert_start->tensor.shape[0];
  next = calloc((size_t)experts + 1, sizeof *next);
  if (!next) return KILN_E_MEMORY;
  lay_out(job->c, &m, (int64_t)alignment->value, next);
  for (int64_t r = 0; r < rows; ++r) put_rows(&m, r, -1, -1, -1);
  for (int64_t i = 0; i < m.topk_idx->tensor.shape[0] * m.topk_idx->tensor.shape[1]; ++i) {
    const int64_t e = kn_oracle_get_index(&m.topk_idx->tensor, i);
    const int64_t row = e >= 0 && e < experts ? next[e]++ : rows;
    kn_oracle_put_index(&m.token_topk_to_pos->tensor, i, row < rows ? row : -1);
    if (row < rows) put_rows(&m, row, e, i / m.topk_idx->tensor.shape[1], i);
  }
  free(next);
  return KILN_OK;
}

/* The map of the experts that were chosen: topk_idx is an output of the first and the input of the
   second. */
kiln_status kn_oracle_run_gate_and_mapping(const struct kn_oracle_job *job) {
  const kiln_status status = kn_oracle_run_topk_gate(job);
  return status == KILN_OK ? kn_oracle_run_mapping(job) : status;
}
