/* SPDX-License-Identifier: MIT */
/* swiglu_backward_and_per_token_cast. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "oracle/chain.h"

enum { FUNCTION_STEPS = 2, PRODUCT_STEPS = 4 }; /* ulp of 1 / (1 + exp), and of products with it */

struct backward {
  const struct kn_oracle_job *job;
  const kiln_tensor *x, *x_sf, *grad_out, *weight, *index, *position, *error; /* error: or NULL */
  const struct kn_oracle_tensor *out, *x_grad, *weight_grad;
  int64_t num_rows, hidden, block, num_slots;
  bool has_clamp;
  float clamp;
  double *sums, *magnitudes; /* of each row: of g * act, and of its absolute values */
};

/* What one pair of gate and up comes to, with bounds. */
struct gradient {
  struct kn_oracle_values act, gate, up;
};

static struct kn_oracle_values around(float value, float a, float b) {
  const float low = fminf(a, b), high = fmaxf(a, b);
  struct kn_oracle_values v = {value, low, high};
  v.low = fminf(low, kn_oracle_step(low, low < 0 ? PRODUCT_STEPS : -PRODUCT_STEPS));
  v.high = fmaxf(high, kn_oracle_step(high, high < 0 ? -PRODUCT_STEPS : PRODUCT_STEPS));
  if (isnan(value)) v.low = v.high = value;
  return v;
}

static struct kn_oracle_values zero(void) {
  return (struct kn_oracle_values){0, 0, 0};
}

/* dl for a given s. */
static float gate_of(float l, float r, float weighted, float s) {
  return weighted * s * r * fmaf(l, 1 - s, 1);
}

static struct gradient gradient(const struct backward *b, float l, float r, float weighted) {
  bool is_gate_clamped = false, is_up_clamped = false;
  struct gradient out;
  double e;
  float s, quotient, low, high;
  if (b->has_clamp) {
    is_gate_clamped = l > b->clamp;
    is_up_clamped = r > b->clamp || r < -b->clamp;
    if (is_gate_clamped) l = b->clamp;
    if (r > b->clamp) r = b->clamp;
    if (r < -b->clamp) r = -b->clamp;
  }
  e = exp(-(double)l);
  if (e > FLT_MAX) e = INFINITY;
  s = (float)(1 / (1 + e));
  quotient = (float)(l / (1 + e));
  low = kn_oracle_step(s, -FUNCTION_STEPS);
  high = kn_oracle_step(s, FUNCTION_STEPS);
  out.act = around(quotient * r, quotient * r, quotient * r);
  out.gate = around(gate_of(l, r, weighted, s), gate_of(l, r, weighted, low),
                    gate_of(l, r, weighted, high));
  out.up = around(weighted * s * l, weighted * s * l, weighted * s * l);
  if (l == -INFINITY) out.act = out.gate = zero();
  if (is_gate_clamped) out.gate = zero();
  if (is_up_clamped) out.up = zero();
  return out;
}

/* A row without a weight is 0 whatever it holds. */
static void drop(bool is_there, struct kn_oracle_values *v) {
  if (!is_there && v->nominal != 0) *v = zero();
}

/* As bf16: what a kernel wrote, if it lies within the bounds. */
static void put_bf16(const struct backward *b, const struct kn_oracle_tensor *out, int64_t offset,
                     const struct kn_oracle_values *v) {
  const kiln_tensor *written =
      b->job->written ? &b->job->written[out - b->job->c->tensors].tensor : NULL;
  uint32_t code = kn_oracle_encode(KILN_BF16, v->nominal);
  if (written) {
    const uint32_t is = kn_oracle_get(written, offset);
    const float value = kn_oracle_decode(KILN_BF16, is);
    const float low = kn_oracle_decode(KILN_BF16, kn_oracle_encode(KILN_BF16, v->low));
    const float high = kn_oracle_decode(KILN_BF16, kn_oracle_encode(KILN_BF16, v->high));
    if (isnan(v->nominal) ? isnan(value) : value >= low && value <= high && value != 0) code = is;
  }
  kn_oracle_put(&out->tensor, offset, code);
}

static float pair(const struct backward *b, int64_t row, int64_t column) {
  const int64_t at = row * 2 * b->hidden + column;
  return kn_oracle_decode(KILN_E4M3, kn_oracle_get(b->x, at)) *
         kn_oracle_float(kn_oracle_get(b->x_sf, at / b->block));
}

static void run_row(const struct backward *b, struct kn_oracle_chain *chain, int64_t row) {
  const int32_t index = (int32_t)kn_oracle_get(b->index, row);
  const bool is_there = index >= 0 && index < b->num_slots;
  const float w = is_there ? kn_oracle_float(kn_oracle_get(b->weight, index)) : 0;
  kn_oracle_check_index(b->error, index, b->num_slots);
  b->sums[row] = b->magnitudes[row] = 0;
  for (int64_t j = 0; j < b->hidden; ++j) {
    const float g = kn_oracle_decode(KILN_BF16, kn_oracle_get(b->grad_out, row * b->hidden + j));
    struct gradient d = gradient(b, pair(b, row, j), pair(b, row, b->hidden + j), g * w);
    const double product = (double)(g * d.act.nominal);
    struct kn_oracle_values out = {d.act.nominal * w, fminf(d.act.low * w, d.act.high * w),
                                   fmaxf(d.act.low * w, d.act.high * w)};
    b->sums[row] += product;
    b->magnitudes[row] += fabs(product);
    drop(is_there, &out);
    drop(is_there, &d.gate);
    drop(is_there, &d.up);
    put_bf16(b, b->out, row * b->hidden + j, &out);
    put_bf16(b, b->x_grad, row * 2 * b->hidden + j, &d.gate);
    put_bf16(b, b->x_grad, (row * 2 + 1) * b->hidden + j, &d.up);
    chain->values[j] = d.gate;
    chain->values[b->hidden + j] = d.up;
  }
  chain->first = row;
  kn_oracle_store(chain, NULL);
}

static void run_weights(const struct backward *b) {
  const kiln_tensor *out = &b->weight_grad->tensor;
  const kiln_tensor *written =
      b->job->written ? &b->job->written[b->weight_grad - b->job->c->tensors].tensor : NULL;
  for (int64_t i = 0; i < b->num_slots; ++i) {
    const int32_t row = (int32_t)kn_oracle_get(b->position, i);
    const bool is_there = row >= 0 && row < b->num_rows;
    kn_oracle_check_index(b->error, row, b->num_rows);
    uint32_t bits = kn_oracle_bits(is_there ? (float)b->sums[row] : 0);
    if (written && is_there) {
      const float is = kn_oracle_float(kn_oracle_get(written, i));
      const double off = fabs(is - b->sums[row]);
      if (isfinite(b->sums[row]) ? off <= 1e-6 * b->magnitudes[row] : isnan(is) || isinf(is)) {
        bits = kn_oracle_bits(is);
      }
    }
    kn_oracle_put(out, i, bits);
  }
}

static const struct kn_oracle_tensor *find(const struct kn_oracle_job *job, const char *name,
                                           bool *all) {
  const struct kn_oracle_tensor *t = kn_oracle_tensor(job->c, name);
  *all = *all && t;
  return t;
}

static const kiln_tensor *tensor(const struct kn_oracle_job *job, const char *name, bool *all) {
  const struct kn_oracle_tensor *t = find(job, name, all);
  return t ? &t->tensor : NULL;
}

static bool flag(const struct kn_oracle_case *c, const char *name) {
  for (size_t i = 0; i < c->num_params; ++i) {
    if (strcmp(c->params[i].name, name) == 0) return strcmp(c->params[i].value, "true") == 0;
  }
  return false;
}

/* The quantising end of a chain, a row at a time. */
static bool begin(const struct backward *b, struct kn_oracle_chain *chain) {
  const struct kn_oracle_job *job = b->job;
  const struct kn_oracle_scalar *clamp_min = kn_oracle_scalar(job->c, "sf_clamp_min");
  const struct kn_oracle_tensor *nonfinite = kn_oracle_tensor(job->c, "nonfinite_count");
  bool all = true;
  const struct kn_oracle_tensor *data = find(job, "x_grad_fp8", &all);
  const struct kn_oracle_tensor *sf = find(job, "x_grad_fp8_sf", &all);
  if (!all) return false;
  *chain = (struct kn_oracle_chain){.num_stages = 0};
  chain->quantize =
      (struct kn_oracle_quantize){.to = KILN_E4M3,
                                  .rows = 1,
                                  .cols = b->block,
                                  .round_sf = flag(job->c, "round_sf"),
                                  .layout = KN_ORACLE_ROW_MAJOR,
                                  .clamp_min = clamp_min ? (float)clamp_min->value : -1};
  if (nonfinite) chain->quantize.nonfinite = &nonfinite->tensor;
  if (nonfinite && job->written) {
    chain->quantize.written_nonfinite = &job->written[nonfinite - job->c->tensors].tensor;
  }
  chain->data = &data->tensor;
  chain->sf = &sf->tensor;
  if (job->written) {
    chain->written_data = &job->written[data - job->c->tensors].tensor;
    chain->written_sf = &job->written[sf - job->c->tensors].tensor;
  }
  chain->num_rows = b->num_rows;
  chain->rows = 1;
  chain->cols = 2 * b->hidden;
  chain->values = calloc((size_t)chain->cols + 1, sizeof *chain->values);
  return chain->values != NULL;
}

kiln_status kn_oracle_run_swiglu_backward(const struct kn_oracle_job *job) {
  bool all = true;
  struct backward b = {.job = job,
                       .x = tensor(job, "x", &all),
                       .x_sf = tensor(job, "x_sf", &all),
                       .grad_out = tensor(job, "grad_out", &all),
                       .weight = tensor(job, "weight", &all),
                       .index = tensor(job, "pos_to_token_topk", &all),
                       .position = tensor(job, "token_topk_to_pos", &all),
                       .out = find(job, "out", &all),
                       .x_grad = find(job, "x_grad", &all),
                       .weight_grad = find(job, "weight_grad", &all)};
  const struct kn_oracle_scalar *clamp = kn_oracle_scalar(job->c, "swiglu_clamp_value");
  struct kn_oracle_chain chain;
  kiln_status status = KILN_OK;
  const struct kn_oracle_tensor *error = kn_oracle_tensor(job->c, "error");
  if (!all) return KILN_E_ARGUMENT;
  b.error = error ? &error->tensor : NULL;
  b.num_rows = b.x->shape[0];
  b.hidden = b.x->shape[1] / 2;
  b.block = b.x_sf->shape[1] > 0 ? b.x->shape[1] / b.x_sf->shape[1] : 1;
  b.num_slots = b.weight->shape[0] * b.weight->shape[1];
  b.has_clamp = clamp != NULL;
  b.clamp = clamp ? (float)clamp->value : 0;
  b.sums = calloc((size_t)b.num_rows + 1, sizeof *b.sums);
  b.magnitudes = calloc((size_t)b.num_rows + 1, sizeof *b.magnitudes);
  if (!b.sums || !b.magnitudes || !begin(&b, &chain)) {
    status = KILN_E_MEMORY;
  } else {
    for (int64_t row = 0; row < b.num_rows; ++row) run_row(&b, &chain, row);
    run_weights(&b);
    kn_oracle_store_nonfinite(&chain);
    free(chain.values);
  }
  free(b.sums);
  free(b.magnitudes);
  return status;
}
