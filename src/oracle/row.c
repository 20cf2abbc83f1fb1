/* SPDX-License-Identifier: MIT */
/* The stages that need a whole row, or add a second matrix. */
#include <float.h>
#include <math.h>

#include "oracle/chain.h"

enum { SUM_STEPS = 4 }; /* ulp that the sum, its root and the division may be off together */

static float round_to(kiln_dtype dtype, float value) {
  return kn_oracle_decode(dtype, kn_oracle_encode(dtype, value));
}

/* The sum that is stored: what a kernel wrote, if it lies within the bounds. */
static void store_sum(const struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage,
                      int64_t offset, struct kn_oracle_values *v) {
  const kiln_tensor *out = stage->index;
  float value = v->nominal;
  if (stage->written && !chain->exact && !isnan(value)) {
    const float is = kn_oracle_decode(out->dtype, kn_oracle_get(stage->written, offset));
    if (is >= v->low && is <= v->high) *v = (struct kn_oracle_values){is, is, is};
    value = v->nominal;
  }
  if (isnan(value) && stage->written) { /* any NaN will do */
    const uint32_t code = kn_oracle_get(stage->written, offset);
    if (isnan(kn_oracle_decode(out->dtype, code))) {
      kn_oracle_put(out, offset, code);
      return;
    }
  }
  kn_oracle_put(out, offset, kn_oracle_encode(out->dtype, value));
}

void kn_oracle_residual_add(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  const kiln_tensor *in = stage->tensor, *out = stage->index;
  for (int64_t i = 0; i < chain->rows; ++i) {
    const int64_t row = chain->first + i;
    for (int64_t j = 0; j < chain->cols; ++j) {
      struct kn_oracle_values *v = &chain->values[i * chain->cols + j];
      const float add =
          kn_oracle_decode(in->dtype, kn_oracle_get(in, row * in->strides[0] + j * in->strides[1]));
      v->nominal = round_to(in->dtype, v->nominal + add);
      v->low = round_to(in->dtype, v->low + add);
      v->high = round_to(in->dtype, v->high + add);
      if (out && !chain->is_skipped) {
        store_sum(chain, stage, row * out->strides[0] + j * out->strides[1], v);
      }
    }
  }
}

/* The product and its bounds: the root is off by `steps`, the products are not. */
static struct kn_oracle_values scaled(struct kn_oracle_values v, float root, int steps, float w) {
  const float roots[2] = {kn_oracle_step(root, -steps), kn_oracle_step(root, steps)};
  const float inputs[2] = {v.low, v.high};
  struct kn_oracle_values out = {v.nominal * root * w, INFINITY, -INFINITY};
  for (int k = 0; k < 4; ++k) {
    const float value = inputs[k / 2] * roots[k % 2] * w;
    out.low = fminf(out.low, value);
    out.high = fmaxf(out.high, value);
  }
  if (isnan(out.nominal)) out.low = out.high = out.nominal;
  return out;
}

void kn_oracle_rmsnorm(struct kn_oracle_chain *chain, const struct kn_oracle_stage *stage) {
  const kiln_tensor *weight = stage->tensor;
  const int steps = chain->exact ? SUM_STEPS : 2 * SUM_STEPS;
  for (int64_t i = 0; i < chain->rows; ++i) {
    struct kn_oracle_values *v = &chain->values[i * chain->cols];
    double sum = 0;
    float root;
    for (int64_t j = 0; j < chain->cols; ++j) sum += (double)(v[j].nominal * v[j].nominal);
    if (sum > FLT_MAX) sum = INFINITY;
    root = (float)(1 / sqrt((double)((float)sum / (float)chain->cols + stage->min)));
    for (int64_t j = 0; j < chain->cols; ++j) {
      const float w =
          weight ? kn_oracle_decode(weight->dtype, kn_oracle_get(weight, j * weight->strides[0]))
                 : 1;
      v[j] = scaled(v[j], root, steps, w);
    }
  }
  chain->exact = false;
}
