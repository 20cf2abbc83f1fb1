/* SPDX-License-Identifier: MIT */
/* Golden cases of the quant family as requests. */
#include <stdio.h>
#include <string.h>

#include "oracle/elements.h"
#include "oracle/golden_request.h"

enum { MAX_NAMES = 8 };

/* An operator whose arrays are named as Kiln's tensors are. */
struct quant {
  const char *op;
  int64_t columns;                 /* of x for one of hidden */
  bool has_in_dtype;               /* a param that x tells */
  const char *x_fmt;               /* of codes, where the param x_fmt does not tell it */
  const char *optional[MAX_NAMES]; /* tensors */
  const char *scalars[MAX_NAMES];  /* optional ones */
};

static const struct quant operators[] = {
    {.op = "per_token_cast", .columns = 1, .has_in_dtype = true, .optional = {"x_sf"}},
    {.op = "per_token_cast_to_e5m6", .columns = 1, .has_in_dtype = true},
    {.op = "cast_back", .columns = 1, .has_in_dtype = true},
    {.op = "cast_back_e5m6", .columns = 1, .x_fmt = "e5m6"},
    {.op = "per_block_cast", .columns = 1, .has_in_dtype = true},
    {.op = "per_block_cast_lossless", .columns = 1, .x_fmt = "e2m1", .optional = {"error"}},
    {.op = "per_channel_cast", .columns = 1, .has_in_dtype = true},
    {.op = "per_channel_cast_fused",
     .columns = 1,
     .has_in_dtype = true,
     .x_fmt = "e4m3",
     .optional = {"x_sf", "pos_to_token"}},
    {.op = "per_channel_cast_and_transpose", .columns = 1},
    {.op = "swiglu_forward_and_per_token_cast",
     .columns = 2,
     .has_in_dtype = true,
     .optional = {"topk_weights", "pos_to_token_topk", "pos_to_expert", "clamped_count"},
     .scalars = {"swiglu_clamp_value"}},
    {.op = "swiglu_backward_and_per_token_cast",
     .columns = 2,
     .x_fmt = "e4m3",
     .scalars = {"swiglu_clamp_value"}},
    {.op = "swiglu_forward_and_per_channel_cast_and_transpose",
     .columns = 2,
     .scalars = {"swiglu_clamp_value"}},
};
enum { NUM_OPERATORS = sizeof operators / sizeof *operators };

static const char *value_of(const struct kn_golden *golden, const char *name) {
  return kn_golden_param(golden->params, golden->num_params, name);
}

static bool is_scalar(const struct quant *q, const char *name) {
  for (int i = 0; i < MAX_NAMES && q->scalars[i]; ++i) {
    if (strcmp(q->scalars[i], name) == 0) return true;
  }
  return false;
}

static void add_present(struct kn_golden_request *out, const char *name) {
  char param[KN_GOLDEN_WORD];
  (void)snprintf(param, sizeof param, "present.%.60s", name);
  kn_golden_add(out, param, "true");
}

static void add_scalar(struct kn_golden_request *out, const char *name, const char *value) {
  struct kn_golden_param *scalar = &out->scalars[out->num_scalars++];
  add_present(out, name);
  (void)snprintf(scalar->name, KN_GOLDEN_WORD, "%s", name);
  (void)snprintf(scalar->value, KN_GOLDEN_WORD, "%s", value);
}

/* A run-time size is axis `axis` of the array, or where there is none the rows of x. */
static void add_dim(const struct kn_golden *golden, const char *name, const char *array, int axis,
                    struct kn_golden_request *out) {
  const struct kn_golden_array *a = kn_golden_array(golden, array);
  const int64_t extent = a ? a->tensor.shape[axis] : kn_golden_array(golden, "x")->tensor.shape[0];
  out->dims[out->num_dims++] = (kiln_dim){name, extent};
}

/* A case hands on its own params, but for x_fmt, which is the dtype of x, and for num_per_tokens
   where that is 1, which may be none of Kiln's. */
static void hand_on(const struct kn_golden *golden, const struct quant *q,
                    struct kn_golden_request *out) {
  for (size_t i = 0; i < golden->num_params; ++i) {
    const struct kn_golden_param *param = &golden->params[i];
    if (strcmp(param->name, "x_fmt") == 0) continue;
    if (strcmp(param->name, "num_per_tokens") == 0 && strcmp(param->value, "1") == 0) continue;
    if (is_scalar(q, param->name)) {
      add_scalar(out, param->name, param->value);
    } else {
      kn_golden_add(out, param->name, strcmp(param->value, "fp32") == 0 ? "f32" : param->value);
    }
  }
}

/* Blocks of several tokens for an operator of one are not served. */
static bool serves(const struct kn_golden *golden, const struct quant *q, const kiln_tensor *x) {
  const char *rows = value_of(golden, "num_per_tokens");
  if (strncmp(q->op, "per_token", 9) == 0 && rows && strcmp(rows, "1") != 0) return false;
  return x->rank == 2;
}

/* What x holds: codes are bytes in the file. */
static kiln_dtype dtype_of_x(const struct kn_golden *golden, const struct quant *q,
                             const kiln_tensor *x) {
  const char *fmt = value_of(golden, "x_fmt");
  if (x->dtype != KILN_U8) return x->dtype;
  if (!fmt) fmt = q->x_fmt;
  return fmt ? kn_oracle_dtype(fmt) : KILN_DTYPE_NONE;
}

bool kn_golden_quant_request(const struct kn_golden *golden, struct kn_golden_request *out) {
  const struct kn_golden_array *x = kn_golden_array(golden, "x");
  for (int i = 0; i < NUM_OPERATORS; ++i) {
    const struct quant *q = &operators[i];
    if (strcmp(q->op, golden->op) != 0) continue;
    if (!x || !serves(golden, q, &x->tensor)) return false;
    out->op = q->op;
    const kiln_dtype dtype = dtype_of_x(golden, q, &x->tensor);
    if (!dtype) return false;
    int64_t columns = x->tensor.shape[1];
    if (x->tensor.dtype == KILN_U8) columns = columns * 8 / kiln_dtype_bits(dtype);
    kn_golden_add_int(out, "hidden", columns / q->columns);
    if (q->has_in_dtype) kn_golden_add(out, "in_dtype", kiln_dtype_name(dtype));
    hand_on(golden, q, out);
    for (int k = 0; k < MAX_NAMES && q->optional[k]; ++k) {
      if (kn_golden_array(golden, q->optional[k])) add_present(out, q->optional[k]);
    }
    const char *weights = kn_golden_array(golden, "weight") ? "weight" : "topk_weights";
    add_dim(golden, "num_tokens", weights, 0, out);
    add_dim(golden, "num_topk", weights, 1, out);
    add_dim(golden, "num_expanded_tokens", "pos_to_token", 0, out);
    return true;
  }
  return false;
}
