/* SPDX-License-Identifier: MIT */
/* The stages that work on values, and the walk over bands of rows. */
#include "oracle/chain.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { SILU_STEPS = 4 }; /* ulp that exp, the division and the product may be off together */

static void run_load(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  const kiln_tensor *x = chain->in;
  (void)stage;
  chain->cols = x->shape[1];
  chain->exact = true;
  for (int64_t i = 0; i < chain->rows; ++i) {
    const int64_t base = (chain->first + i) * x->strides[0];
    for (int64_t j = 0; j < chain->cols; ++j) {
      const uint32_t code = kn_oracle_get(x, base + j * x->strides[1]);
      const float value = kn_oracle_decode(x->dtype, code);
      chain->values[i * chain->cols + j] = (struct kn_oracle_values){value, value, value};
    }
  }
}

/* Compare and select, so that NaN stays. */
static float at_most(float value, float most) {
  return value > most ? most : value;
}

static float at_least(float value, float least) {
  return value < least ? least : value;
}

static void order(struct kn_oracle_values *v) {
  if (v->low > v->high) {
    const float low = v->low;
    v->low = v->high;
    v->high = low;
  }
}

/* l / (1 + exp(-l)) * r. The quotient is a value of fp32, and exp overflows where that does. */
static struct kn_oracle_values gate(float l, float r) {
  struct kn_oracle_values v;
  double e = exp(-(double)l);
  float quotient, nearer, further;

  if (e > FLT_MAX) e = INFINITY;
  quotient = l == -INFINITY ? 0 : (float)(l / (1 + e));
  v.nominal = quotient * r;
  v.low = kn_oracle_step(v.nominal, -SILU_STEPS);
  v.high = kn_oracle_step(v.nominal, SILU_STEPS);
  order(&v);
  if (quotient != 0 && fabsf(quotient) < FLT_MIN) { /* a step is no longer relative there */
    nearer = kn_oracle_step(quotient, -1) * r;
    further = kn_oracle_step(quotient, 1) * r;
    v.low = fminf(v.low, fminf(nearer, further));
    v.high = fmaxf(v.high, fmaxf(nearer, further));
  }
  if (isnan(v.nominal)) v.low = v.high = v.nominal;
  return v;
}

static void run_swiglu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  const int64_t half = chain->cols / 2;
  for (int64_t i = 0; i < chain->rows; ++i) {
    const struct kn_oracle_values *from = &chain->values[i * chain->cols];
    struct kn_oracle_values *to = &chain->values[i * half];
    for (int64_t j = 0; j < half; ++j) {
      float l = from[j].nominal, r = from[half + j].nominal;
      if (stage->has_clamp) {
        l = at_most(l, stage->clamp);
        r = at_most(at_least(r, -stage->clamp), stage->clamp);
      }
      to[j] = gate(l, r);
    }
  }
  chain->cols = half;
  chain->exact = false;
}

static float round_to(kiln_dtype dtype, float value) {
  return kn_oracle_decode(dtype, kn_oracle_encode(dtype, value));
}

static void run_round(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  for (int64_t i = 0; i < chain->rows * chain->cols; ++i) {
    struct kn_oracle_values *v = &chain->values[i];
    v->nominal = round_to(stage->dtype, v->nominal);
    v->low = chain->exact ? v->nominal : round_to(stage->dtype, v->low);
    v->high = chain->exact ? v->nominal : round_to(stage->dtype, v->high);
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

static kiln_dtype dtype_of(const char *name) {
#define KILN_X(dtype, value, bits, text) \
  if (strcmp(name, text) == 0) return dtype;
  KILN_DTYPE_TABLE(KILN_X)
#undef KILN_X
  return KILN_DTYPE_NONE;
}

struct parser {
  const struct kn_oracle_job *job;
  struct kn_oracle_chain *chain;
  const char *line;
};

static const kiln_tensor *tensor_of(const struct parser *p, const char *key,
                                    const kiln_tensor **written) {
  char name[WORD];
  const struct kn_oracle_tensor *found;
  if (!argument(p->line, key, name)) return NULL;
  found = kn_oracle_tensor(p->job->c, name);
  if (!found || found->tensor.rank != 2) return NULL;
  if (written && p->job->written) {
    *written = &p->job->written[found - p->job->c->tensors].tensor;
  }
  return &found->tensor;
}

static kiln_status parse_load(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = run_load;
  p->chain->in = tensor_of(p, "", NULL);
  if (!p->chain->in) return KILN_E_ARGUMENT;
  switch (p->chain->in->dtype) {
    case KILN_F32:
    case KILN_F16:
    case KILN_BF16:
      return KILN_OK;
    default:
      return KILN_E_UNSUPPORTED;
  }
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
  stage->run = run_swiglu;
  return scalar_of(p, "clamp", &stage->clamp, &stage->has_clamp);
}

static kiln_status parse_round(const struct parser *p, struct kn_oracle_stage *stage) {
  char word[WORD];
  stage->run = run_round;
  if (!argument(p->line, "to", word)) return KILN_E_UNSUPPORTED;
  stage->dtype = dtype_of(word);
  return stage->dtype ? KILN_OK : KILN_E_UNSUPPORTED;
}

static kiln_status parse_quantize(const struct parser *p, struct kn_oracle_stage *stage) {
  static const char *const layouts[] = {"row_major", "col_major", "packed_ue8m0"};
  struct kn_oracle_quantize *q = &p->chain->quantize;
  char to[WORD], rows[WORD], cols[WORD], rounds[WORD], layout[WORD];
  bool there = false;
  int i = 0;
  stage->run = NULL; /* part of store */
  q->clamp_min = -1;
  if (!argument(p->line, "to", to) || !argument(p->line, "rows", rows) ||
      !argument(p->line, "cols", cols) || !argument(p->line, "round_sf", rounds) ||
      !argument(p->line, "layout", layout)) {
    return KILN_E_UNSUPPORTED;
  }
  q->to = dtype_of(to);
  q->rows = strtoll(rows, NULL, 10);
  q->cols = strtoll(cols, NULL, 10);
  q->round_sf = strcmp(rounds, "1") == 0;
  while (i < 3 && strcmp(layouts[i], layout) != 0) ++i;
  q->layout = (enum kn_oracle_layout)i;
  if (!q->to || q->rows < 1 || q->cols < 1 || i == 3) return KILN_E_UNSUPPORTED;
  return scalar_of(p, "clamp_min", &q->clamp_min, &there);
}

static kiln_status parse_transpose(const struct parser *p, struct kn_oracle_stage *stage) {
  stage->run = NULL; /* part of store */
  p->chain->transposed = !p->chain->transposed;
  return KILN_OK;
}

static kiln_status parse_store(const struct parser *p, struct kn_oracle_stage *stage) {
  struct kn_oracle_chain *chain = p->chain;
  stage->run = kn_oracle_store;
  chain->data = tensor_of(p, "data", &chain->written_data);
  chain->sf = tensor_of(p, "sf", &chain->written_sf);
  return chain->data && chain->sf && chain->quantize.rows > 0 ? KILN_OK : KILN_E_ARGUMENT;
}

static const struct {
  const char *name;
  kiln_status (*parse)(const struct parser *p, struct kn_oracle_stage *stage);
} stages[] = {
    {"load", parse_load},         {"swiglu", parse_swiglu},       {"round", parse_round},
    {"quantize", parse_quantize}, {"transpose", parse_transpose}, {"store", parse_store},
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
  if (!out->in || !out->data) return KILN_E_UNSUPPORTED;
  out->num_rows = out->in->shape[0];
  return KILN_OK;
}

/* ---- the walk ---- */

kiln_status kn_oracle_run_chain(const struct kn_oracle_job *job) {
  struct kn_oracle_chain chain;
  kiln_status status = kn_oracle_parse(job, &chain);
  int64_t band, width;
  if (status != KILN_OK) return status;
  band = chain.quantize.rows < chain.num_rows ? chain.quantize.rows : chain.num_rows;
  width = chain.in->shape[1];
  if (band == 0 || width == 0) return KILN_OK;
  chain.values = calloc((size_t)band * (size_t)width, sizeof *chain.values);
  if (!chain.values) return KILN_E_MEMORY;
  for (chain.first = 0; chain.first < chain.num_rows; chain.first += band) {
    chain.rows = chain.num_rows - chain.first < band ? chain.num_rows - chain.first : band;
    for (int i = 0; i < chain.num_stages; ++i) {
      if (chain.stages[i].run) chain.stages[i].run(&chain, &chain.stages[i]);
    }
  }
  free(chain.values);
  return KILN_OK;
}
