/* SPDX-License-Identifier: MIT */
/* Loading, the text of a chain, and the walk over bands of rows. */
#include "oracle/chain.h"

#include <stdlib.h>

int64_t kn_oracle_source(const struct kn_oracle_chain *chain, int64_t row) {
  if (!chain->gather) return row;
  row = (int32_t)kn_oracle_get(chain->gather, row * chain->gather->strides[0]);
  return row < 0 || row >= chain->in->shape[0] ? -1 : row;
}

/* Where a row of the chain begins in the matrix; -1 where it has none and is all zeros. */
static int64_t row_offset(const struct kn_oracle_chain *chain, int64_t row) {
  const kiln_tensor *x = chain->in;
  if (x->rank == 3) return row / x->shape[1] * x->strides[0] + row % x->shape[1] * x->strides[1];
  row = kn_oracle_source(chain, row);
  return row < 0 ? -1 : row * x->strides[0];
}

static bool is_skipped(const struct kn_oracle_chain *chain, int64_t row) {
  const kiln_tensor *skip = chain->skip, *masked = chain->masked, *valid = chain->valid;
  if (skip && (int32_t)kn_oracle_get(skip, row * skip->strides[0]) < 0) return true;
  if (valid && row >= (int32_t)kn_oracle_get(valid, 0)) return true;
  if (!masked) return false;
  const int64_t each = chain->in->shape[1];
  return row % each >= (int32_t)kn_oracle_get(masked, row / each * masked->strides[0]);
}

static void check_map(const struct kn_oracle_chain *chain, int64_t row) {
  const kiln_tensor *map = chain->gather;
  if (!map || chain->is_skipped) return;
  row = (int32_t)kn_oracle_get(map, row * map->strides[0]);
  kn_oracle_check_index(chain->error, row, chain->in->shape[0]);
}

static void run_load(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  const kiln_tensor *x = chain->in;
  const int last = x->rank - 1;
  (void)stage;
  chain->cols = x->shape[last];
  chain->exact = true;
  chain->is_skipped = is_skipped(chain, chain->first);
  for (int64_t i = 0; i < chain->rows; ++i) {
    check_map(chain, chain->first + i);
    const int64_t base = chain->is_skipped ? -1 : row_offset(chain, chain->first + i);
    for (int64_t j = 0; j < chain->cols; ++j) {
      const float value =
          base < 0 ? 0 : kn_oracle_decode(x->dtype, kn_oracle_get(x, base + j * x->strides[last]));
      chain->values[i * chain->cols + j] = (struct kn_oracle_values){value, value, value};
    }
  }
}

/* ---- the text ---- */

enum { WORD = 64, LINE = 256 };

/* The value of `key=value` in a line ("" for the word without =); false if there is none. */
static bool argument(const char *line, const char *key, char *out) {
  const size_t length = strlen(key);
  const char *at = strchr(line, ' ');
  while (at) {
    const char *word = at + 1, *end = strchr(word, ' ');
    const size_t size = end ? (size_t)(end - word) : strlen(word);
    const bool plain = memchr(word, '=', size) == NULL;
    const size_t skip = length > 0 ? length + 1 : 0;
    if (size < WORD &&
        (length > 0 ? !plain && strncmp(word, key, length) == 0 && word[length] == '=' : plain)) {
      memcpy(out, word + skip, size - skip);
      out[size - skip] = '\0';
      return true;
    }
    at = end;
  }
  return false;
}

struct parser {
  const struct kn_oracle_job *job;
  struct kn_oracle_chain *chain;
  const char *line;
};

static const kiln_tensor *tensor_of(const struct parser *p, const char *key, int rank,
                                    const kiln_tensor **written) {
  char name[WORD];
  const struct kn_oracle_tensor *found;
  if (!argument(p->line, key, name)) return NULL;
  found = kn_oracle_tensor(p->job->c, name);
  if (!found || found->tensor.rank != rank) return NULL;
  if (written && p->job->written) {
    *written = &p->job->written[found - p->job->c->tensors].tensor;
  }
  return &found->tensor;
}

static const kiln_tensor *input_of(const struct parser *p, const char *key, int rank) {
  char name[WORD];
  const struct kn_oracle_tensor *found;
  if (!argument(p->line, key, name)) return NULL;
  found = kn_oracle_tensor(p->job->c, name);
  return found && found->tensor.rank == rank ? &found->tensor : NULL;
}

static kiln_status parse_load(const struct parser *p, struct kn_oracle_stage *stage) {
  char zero[WORD];
  struct kn_oracle_chain *chain = p->chain;
  stage->run = run_load;
  chain->in = input_of(p, "", 2);
  if (!chain->in) chain->in = input_of(p, "", 3);
  chain->gather = input_of(p, "gather", 1);
  chain->skip = input_of(p, "skip", 1);
  chain->masked = input_of(p, "masked", 1);
  chain->valid = input_of(p, "valid", 1);
  chain->error = input_of(p, "error", 1);
  chain->zero_skipped = argument(p->line, "zero_skipped", zero) && strcmp(zero, "1") == 0;
  if (!chain->in) return KILN_E_ARGUMENT;
  chain->num_rows = chain->gather          ? chain->gather->shape[0]
                    : chain->in->rank == 3 ? chain->in->shape[0] * chain->in->shape[1]
                                           : chain->in->shape[0];
  switch (chain->in->dtype) {
    case KILN_F32:
    case KILN_F16:
    case KILN_BF16:
    case KILN_E4M3:
    case KILN_E5M2:
    case KILN_E2M1:
    case KILN_E5M6:
      return KILN_OK;
    default:
      return KILN_E_UNSUPPORTED;
  }
}

static bool block_of(const struct parser *p, const char *row_key, const char *col_key,
                     int64_t *rows, int64_t *cols) {
  char row_text[WORD], col_text[WORD];
  if (!argument(p->line, row_key, row_text) || !argument(p->line, col_key, col_text)) return false;
  *rows = strtoll(row_text, NULL, 10);
  *cols = strtoll(col_text, NULL, 10);
  return *rows >= 1 && *cols >= 1;
}

static kiln_status parse_dequantize(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = kn_oracle_dequantize;
  stage->tensor = input_of(p, "sf", 2);
  if (!stage->tensor) return KILN_E_ARGUMENT;
  return block_of(p, "rows", "cols", &stage->block_rows, &stage->block_cols) ? KILN_OK
                                                                             : KILN_E_UNSUPPORTED;
}

static kiln_status scalar_of(const struct parser *p, const char *key, float *out, bool *out_there) {
  char name[WORD];
  const struct kn_oracle_scalar *scalar;
  *out_there = argument(p->line, key, name);
  if (!*out_there) return KILN_OK;
  scalar = kn_oracle_scalar(p->job->c, name);
  if (!scalar) return KILN_E_ARGUMENT;
  *out = (float)scalar->value;
  return KILN_OK;
}

static kiln_status parse_swiglu(const struct parser *p, struct kn_oracle_stage *stage) {
  char math[WORD];
  stage->run = kn_oracle_swiglu;
  stage->is_fast = argument(p->line, "math", math) && strcmp(math, "fast") == 0;
  stage->tensor = input_of(p, "count", 1);
  return scalar_of(p, "clamp", &stage->max, &stage->has_max);
}

static kiln_status parse_geglu(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = kn_oracle_geglu;
  stage->tensor = input_of(p, "count", 1);
  return scalar_of(p, "clamp", &stage->max, &stage->has_max);
}

static kiln_status parse_silu(const struct parser *p, struct kn_oracle_stage *stage) {
  (void)p;
  stage->run = kn_oracle_silu;
  return KILN_OK;
}

static kiln_status parse_gelu(const struct parser *p, struct kn_oracle_stage *stage) {
  (void)p;
  stage->run = kn_oracle_gelu;
  return KILN_OK;
}

static kiln_status parse_gelu_tanh(const struct parser *p, struct kn_oracle_stage *stage) {
  (void)p;
  stage->run = kn_oracle_gelu_tanh;
  return KILN_OK;
}

static kiln_status parse_relu2(const struct parser *p, struct kn_oracle_stage *stage) {
  (void)p;
  stage->run = kn_oracle_relu2;
  return KILN_OK;
}

static kiln_status parse_clamp(const struct parser *p, struct kn_oracle_stage *stage) {
  kiln_status status = scalar_of(p, "min", &stage->min, &stage->has_min);
  stage->run = kn_oracle_clamp;
  if (status != KILN_OK) return status;
  return scalar_of(p, "max", &stage->max, &stage->has_max);
}

static kiln_status parse_add_bias(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = kn_oracle_add_bias;
  stage->tensor = input_of(p, "bias", 1);
  return stage->tensor ? KILN_OK : KILN_E_ARGUMENT;
}

static kiln_status parse_scale_by_weight(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = kn_oracle_scale_by_weight;
  stage->tensor = input_of(p, "weights", 2);
  stage->index = input_of(p, "index", 1);
  stage->error = input_of(p, "error", 1);
  return stage->tensor && stage->index ? KILN_OK : KILN_E_ARGUMENT;
}

static kiln_status parse_round(const struct parser *p, struct kn_oracle_stage *stage) {
  char word[WORD];
  stage->run = kn_oracle_round;
  if (!argument(p->line, "to", word)) return KILN_E_UNSUPPORTED;
  stage->dtype = kn_oracle_dtype(word);
  return stage->dtype ? KILN_OK : KILN_E_UNSUPPORTED;
}

static kiln_status parse_residual_add(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = kn_oracle_residual_add;
  stage->tensor = input_of(p, "in", 2);
  stage->index = tensor_of(p, "out", 2, &stage->written);
  return stage->tensor ? KILN_OK : KILN_E_ARGUMENT;
}

static kiln_status parse_rmsnorm(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = kn_oracle_rmsnorm;
  stage->tensor = input_of(p, "weight", 1);
  return scalar_of(p, "eps", &stage->min, &stage->has_min);
}

static bool layout_of(const struct parser *p, enum kn_oracle_layout *out) {
  static const char *const layouts[] = {"row_major", "col_major", "packed_ue8m0"};
  char layout[WORD];
  if (!argument(p->line, "layout", layout)) return false;
  for (int i = 0; i < 3; ++i) {
    *out = (enum kn_oracle_layout)i;
    if (strcmp(layouts[i], layout) == 0) return true;
  }
  return false;
}

static kiln_status parse_quantize(const struct parser *p, struct kn_oracle_stage *stage) {
  struct kn_oracle_quantize *q = &p->chain->quantize;
  char to[WORD], rounds[WORD];
  bool there = false;
  stage->run = NULL; /* part of store */
  q->clamp_min = -1;
  if (!argument(p->line, "to", to) || !block_of(p, "rows", "cols", &q->rows, &q->cols) ||
      !argument(p->line, "round_sf", rounds) || !layout_of(p, &q->layout)) {
    return KILN_E_UNSUPPORTED;
  }
  q->to = kn_oracle_dtype(to);
  q->sf = input_of(p, "sf", 2);
  q->global = input_of(p, "global", 1);
  q->nonfinite = tensor_of(p, "nonfinite", 1, &q->written_nonfinite);
  q->round_sf = strcmp(rounds, "1") == 0;
  if (!q->to) return KILN_E_UNSUPPORTED;
  return scalar_of(p, "clamp_min", &q->clamp_min, &there);
}

static kiln_status parse_requantize(const struct parser *p, struct kn_oracle_stage *stage) {
  struct kn_oracle_quantize *q = &p->chain->quantize;
  char to[WORD];
  stage->run = NULL; /* part of store */
  if (!argument(p->line, "to", to) || !block_of(p, "rows", "cols", &q->rows, &q->cols) ||
      !block_of(p, "from_rows", "from_cols", &q->from_rows, &q->from_cols) ||
      !layout_of(p, &q->layout)) {
    return KILN_E_UNSUPPORTED;
  }
  q->to = kn_oracle_dtype(to);
  q->from = input_of(p, "sf", 2);
  q->error = input_of(p, "error", 1);
  q->round_sf = true;
  return q->to && q->from ? KILN_OK : KILN_E_UNSUPPORTED;
}

static kiln_status parse_transpose(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = NULL; /* part of store */
  p->chain->transposed = !p->chain->transposed;
  return KILN_OK;
}

static kiln_status parse_store(const struct parser *p, struct kn_oracle_stage *stage) {
  struct kn_oracle_chain *chain = p->chain;
  stage->run = kn_oracle_store;
  chain->data = tensor_of(p, "data", 2, &chain->written_data);
  chain->sf = tensor_of(p, "sf", 2, &chain->written_sf);
  if (!chain->quantize.to) { /* values */
    stage->run = kn_oracle_store_values;
    chain->quantize.rows = 1;
  }
  return chain->data || chain->sf ? KILN_OK : KILN_E_ARGUMENT;
}

static const struct {
  const char *name;
  kiln_status (*parse)(const struct parser *p, struct kn_oracle_stage *stage);
} stages[] = {
    {"load", parse_load},
    {"dequantize", parse_dequantize},
    {"round", parse_round},
    {"silu", parse_silu},
    {"gelu", parse_gelu},
    {"gelu_tanh", parse_gelu_tanh},
    {"relu2", parse_relu2},
    {"swiglu", parse_swiglu},
    {"geglu", parse_geglu},
    {"clamp", parse_clamp},
    {"add_bias", parse_add_bias},
    {"scale_by_weight", parse_scale_by_weight},
    {"residual_add", parse_residual_add},
    {"rmsnorm", parse_rmsnorm},
    {"quantize", parse_quantize},
    {"requantize", parse_requantize},
    {"transpose", parse_transpose},
    {"store", parse_store},
};
enum { NUM_STAGES = sizeof stages / sizeof *stages };

static kiln_status parse_line(const struct parser *p, struct kn_oracle_stage *stage) {
  const size_t length = strcspn(p->line, " ");
  for (int i = 0; i < NUM_STAGES; ++i) {
    if (strlen(stages[i].name) == length && strncmp(p->line, stages[i].name, length) == 0) {
      return stages[i].parse(p, stage);
    }
  }
  return KILN_E_UNSUPPORTED;
}

kiln_status kn_oracle_parse(const struct kn_oracle_job *job, struct kn_oracle_chain *out) {
  const char *at = job->c->chain;
  *out = (struct kn_oracle_chain){.num_stages = 0};
  while (*at) {
    const size_t length = strcspn(at, "\n");
    char line[LINE];
    struct parser p = {job, out, line};
    kiln_status status;
    if (length >= LINE || out->num_stages == KN_ORACLE_MAX_STAGES) return KILN_E_UNSUPPORTED;
    memcpy(line, at, length);
    line[length] = '\0';
    status = parse_line(&p, &out->stages[out->num_stages++]);
    if (status != KILN_OK) return status;
    at += length + (at[length] == '\n');
  }
  if (!out->in || out->quantize.rows < 1) return KILN_E_UNSUPPORTED;
  return KILN_OK;
}

/* ---- the walk ---- */

kiln_status kn_oracle_run_chain(const struct kn_oracle_job *job) {
  struct kn_oracle_chain chain;
  kiln_status status = kn_oracle_parse(job, &chain);
  int64_t band, width;
  if (status != KILN_OK) return status;
  band = chain.quantize.rows < chain.num_rows ? chain.quantize.rows : chain.num_rows;
  if (chain.quantize.sf && band > 1) band = 1; /* no row waits for another, some may be skipped */
  width = chain.in->shape[chain.in->rank - 1];
  if (band == 0 || width == 0) return KILN_OK;
  chain.values = calloc((size_t)band * (size_t)width, sizeof *chain.values);
  if (!chain.values) return KILN_E_MEMORY;
  for (chain.first = 0; chain.first < chain.num_rows; chain.first += band) {
    chain.rows = chain.num_rows - chain.first < band ? chain.num_rows - chain.first : band;
    for (int i = 0; i < chain.num_stages; ++i) {
      if (chain.stages[i].run) chain.stages[i].run(&chain, &chain.stages[i]);
    }
  }
  kn_oracle_store_nonfinite(&chain);
  free(chain.values);
  return KILN_OK;
}
