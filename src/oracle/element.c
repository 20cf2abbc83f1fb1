/* SPDX-License-Identifier: MIT */
/* The stages that work on values one by one. */
#include <float.h>
#include <math.h>

#include "oracle/chain.h"

/* ulp that exp, erf and tanh may be off, and those that silu's three roundings may be off together
 */
enum { FUNCTION_STEPS = 2, SILU_STEPS = 4 };

/* Compare and select, so that NaN stays. */
static float at_most(float value, float most) {
  return value > most ? most : value;
}

static float at_least(float value, float least) {
  return value < least ? least : value;
}

static struct kn_oracle_values exactly(float value) {
  return (struct kn_oracle_values){value, value, value};
}

/* The bounds of `v` made wide enough for those of `other`. */
static void take_in(struct kn_oracle_values *v, const struct kn_oracle_values *other) {
  v->low = fminf(v->low, other->low);
  v->high = fmaxf(v->high, other->high);
}

/* A value, and what the kernel may make of numbers between `a` and `b` in its place. */
static struct kn_oracle_values between(float value, float a, float b) {
  struct kn_oracle_values v = {value, fminf(value, fminf(a, b)), fmaxf(value, fmaxf(a, b))};
  if (isnan(value)) v.low = v.high = value;
  return v;
}

typedef struct kn_oracle_values (*function)(float x);

/* A function that is monotonic between the bounds of what it is given, but for steps far smaller
   than they are. */
static void apply(struct kn_oracle_chain *chain, function f, bool is_exact) {
  for (int64_t i = 0; i < chain->rows * chain->cols; ++i) {
    const struct kn_oracle_values v = chain->values[i];
    struct kn_oracle_values out = f(v.nominal);
    if (!chain->exact && !isnan(v.nominal)) {
      const struct kn_oracle_values low = f(v.low), high = f(v.high);
      take_in(&out, &low);
      take_in(&out, &high);
    }
    chain->values[i] = out;
  }
  chain->exact = chain->exact && is_exact;
}

/* ---- functions ---- */

/* x / (1 + exp(-x)). The quotient is a value of fp32, and exp overflows where that does. */
static float silu_nominal(float x) {
  double e = exp(-(double)x);
  if (e > FLT_MAX) e = INFINITY;
  return x == -INFINITY ? 0 : (float)(x / (1 + e));
}

static struct kn_oracle_values silu(float x) {
  const float v = silu_nominal(x);
  return between(v, kn_oracle_step(v, -SILU_STEPS), kn_oracle_step(v, SILU_STEPS));
}

/* 0.5 * x * (1 + y), with y off by what the function may be off. */
static struct kn_oracle_values half_of(float x, float y) {
  const float half = 0.5f * x;
  return between(half * (1 + y), half * (1 + kn_oracle_step(y, -FUNCTION_STEPS)),
                 half * (1 + kn_oracle_step(y, FUNCTION_STEPS)));
}

static struct kn_oracle_values gelu(float x) {
  return half_of(x, (float)erf((double)(x * 0.70710678f)));
}

static struct kn_oracle_values gelu_tanh(float x) {
  const float cube = x * x * x;
  return half_of(x, (float)tanh((double)(0.79788456f * (x + 0.044715f * cube))));
}

static struct kn_oracle_values relu2(float x) {
  const float positive = x < 0 ? 0 : x;
  return exactly(positive * positive);
}

void kn_oracle_silu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  (void)stage;
  apply(chain, silu, false);
}

void kn_oracle_gelu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  (void)stage;
  apply(chain, gelu, false);
}

void kn_oracle_gelu_tanh(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  (void)stage;
  apply(chain, gelu_tanh, false);
}

void kn_oracle_relu2(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  (void)stage;
  apply(chain, relu2, true);
}

/* ---- gates ---- */

/* silu(l) * r; the bounds are those of the product. */
static struct kn_oracle_values swish(float l, float r) {
  const float quotient = silu_nominal(l), v = quotient * r;
  struct kn_oracle_values out =
      between(v, kn_oracle_step(v, -SILU_STEPS), kn_oracle_step(v, SILU_STEPS));
  if (quotient != 0 && fabsf(quotient) < FLT_MIN) { /* a step is no longer relative there */
    const struct kn_oracle_values near =
        between(v, kn_oracle_step(quotient, -1) * r, kn_oracle_step(quotient, 1) * r);
    take_in(&out, &near);
  }
  if (isnan(v)) out.low = out.high = v;
  return out;
}

/* The fast form is 1e-5 off at most, or where its divisor overflows below any scale that counts. */
static struct kn_oracle_values swish_fast(float l, float r) {
  const float v = silu_nominal(l) * r, slack = fabsf(v) * 1e-5f + fabsf(r) * 1e-35f;
  if (!isfinite(v)) return swish(l, r);
  return between(v, v - slack, v + slack);
}

static struct kn_oracle_values gelu_times(float l, float r) {
  const struct kn_oracle_values g = gelu(l);
  return between(g.nominal * r, g.low * r, g.high * r);
}

typedef struct kn_oracle_values (*gate_function)(float l, float r);

/* How many of a row's gates and ups are clamped: counters that are added to. */
static void count(const struct kn_oracle_stage *stage, float l, float r) {
  const bool is_over[3] = {l > stage->max, r > stage->max, r < -stage->max};
  for (int k = 0; k < 3 && stage->tensor; ++k) {
    const int64_t at = k * stage->tensor->strides[0];
    if (!is_over[k]) continue;
    kn_oracle_put_index(stage->tensor, at, kn_oracle_get_index(stage->tensor, at) + 1);
  }
}

static struct kn_oracle_values clamped_gate(const struct kn_oracle_stage *stage, gate_function gate,
                                            float l, float r) {
  if (stage->has_max) {
    l = at_most(l, stage->max);
    r = at_most(at_least(r, -stage->max), stage->max);
  }
  return gate(l, r);
}

static void run_gate(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage,
                     gate_function gate) {
  const int64_t half = chain->cols / 2;
  for (int64_t i = 0; i < chain->rows; ++i) {
    const struct kn_oracle_values *from = &chain->values[i * chain->cols];
    struct kn_oracle_values *to = &chain->values[i * half];
    for (int64_t j = 0; j < half; ++j) {
      const struct kn_oracle_values l = from[j], r = from[half + j];
      const float corners[4][2] = {
          {l.low, r.low}, {l.low, r.high}, {l.high, r.low}, {l.high, r.high}};
      struct kn_oracle_values out = clamped_gate(stage, gate, l.nominal, r.nominal);
      if (!chain->is_skipped) count(stage, l.nominal, r.nominal);
      for (int k = 0; k < 4 && !chain->exact && !isnan(out.nominal); ++k) {
        const struct kn_oracle_values v = clamped_gate(stage, gate, corners[k][0], corners[k][1]);
        take_in(&out, &v);
      }
      to[j] = out;
    }
  }
  chain->cols = half;
  chain->exact = false;
}

void kn_oracle_swiglu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  run_gate(chain, stage, stage->is_fast ? swish_fast : swish);
}

void kn_oracle_geglu(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  run_gate(chain, stage, gelu_times);
}

/* ---- the others: as exact as what they are given ---- */

static float round_to(kiln_dtype dtype, float value) {
  return kn_oracle_decode(dtype, kn_oracle_encode(dtype, value));
}

void kn_oracle_round(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  for (int64_t i = 0; i < chain->rows * chain->cols; ++i) {
    struct kn_oracle_values *v = &chain->values[i];
    v->nominal = round_to(stage->dtype, v->nominal);
    v->low = chain->exact ? v->nominal : round_to(stage->dtype, v->low);
    v->high = chain->exact ? v->nominal : round_to(stage->dtype, v->high);
  }
}

static float clamped(const struct kn_oracle_stage *stage, float value) {
  if (stage->has_min) value = at_least(value, stage->min);
  if (stage->has_max) value = at_most(value, stage->max);
  return value;
}

void kn_oracle_clamp(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  for (int64_t i = 0; i < chain->rows * chain->cols; ++i) {
    struct kn_oracle_values *v = &chain->values[i];
    *v = (struct kn_oracle_values){clamped(stage, v->nominal), clamped(stage, v->low),
                                   clamped(stage, v->high)};
  }
}

void kn_oracle_add_bias(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  const kiln_tensor *bias = stage->tensor;
  for (int64_t i = 0; i < chain->rows * chain->cols; ++i) {
    struct kn_oracle_values *v = &chain->values[i];
    const float b =
        kn_oracle_decode(bias->dtype, kn_oracle_get(bias, i % chain->cols * bias->strides[0]));
    *v = (struct kn_oracle_values){v->nominal + b, v->low + b, v->high + b};
  }
}

/* Times the row's weight; without one that is +0, against which what is not finite counts as 0. */
static struct kn_oracle_values weighted(struct kn_oracle_values v, bool is_there, float weight) {
  if (!is_there) return exactly(isfinite(v.nominal) ? v.nominal * 0.0f : 0.0f);
  return between(v.nominal * weight, v.low * weight, v.high * weight);
}

void kn_oracle_scale_by_weight(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  const kiln_tensor *weights = stage->tensor, *index = stage->index;
  for (int64_t i = 0; i < chain->rows; ++i) {
    const int32_t at = (int32_t)kn_oracle_get(index, (chain->first + i) * index->strides[0]);
    const int64_t range = weights->shape[0] * weights->shape[1];
    const bool is_there = at >= 0 && at < range;
    const float weight = is_there ? kn_oracle_float(kn_oracle_get(weights, at)) : 0;
    if (!chain->is_skipped) kn_oracle_check_index(stage->error, at, range);
    for (int64_t j = 0; j < chain->cols; ++j) {
      struct kn_oracle_values *v = &chain->values[i * chain->cols + j];
      *v = weighted(*v, is_there, weight);
    }
  }
}
