/* SPDX-License-Identifier: MIT */
/* Binding launch arguments: the bytes of kiln_args, variants, grids, and every refusal. */
#include <math.h>

#include "plan_help.h"

static _Alignas(256) unsigned char x_memory[1 << 16], out_memory[1 << 16], sf_memory[1 << 14];

/* A launch of per_token_cast hidden=256 n=128 on 5 tokens, to be changed by a test. */
struct launch {
  struct kn_spec *spec;
  struct kn_plan *plan;
  kiln_arg args[4];
  size_t num_args;
  struct kn_bound bound;
};

static struct launch begin(const char *params, int64_t tokens) {
  struct launch l = {.spec = shipped_spec("quant/per_token_cast"), .num_args = 3};
  const int64_t x_shape[2] = {tokens, 256}, sf_shape[2] = {tokens, 2};
  l.plan = make_plan(l.spec, "sm_90a", params);
  if (!l.plan) fail_msg("%s", kn_error_last()->message);
  l.args[0] = (kiln_arg){.name = "x", .tensor = kiln_tensor_make(x_memory, KILN_BF16, 2, x_shape)};
  l.args[1] =
      (kiln_arg){.name = "out", .tensor = kiln_tensor_make(out_memory, KILN_E4M3, 2, x_shape)};
  l.args[2] =
      (kiln_arg){.name = "out_sf", .tensor = kiln_tensor_make(sf_memory, KILN_F32, 2, sf_shape)};
  return l;
}

static kiln_status bind(struct launch *l) {
  kn_error_clear();
  return kn_plan_bind(l->plan, l->args, l->num_args, 132, &l->bound);
}

static void end(struct launch *l) {
  kn_plan_free(l->plan);
  kn_spec_free(l->spec);
}

#define ROW_MAJOR "hidden=256 in_dtype=bf16 fmt=e4m3 num_per_channels=128"
#define COL_MAJOR ROW_MAJOR " use_tma_aligned_col_major_sf=true"

static void slots_hold_sizes_pointers_and_strides(void **state) {
  (void)state;
  struct launch l = begin(ROW_MAJOR, 5);
  l.args[0].tensor.strides[0] = 264;
  assert_int_equal(bind(&l), KILN_OK);
  assert_int_equal(l.bound.args[0], 5);
  assert_int_equal(l.bound.args[1], (uint64_t)(uintptr_t)x_memory);
  assert_int_equal(l.bound.args[2], 264);
  assert_int_equal(l.bound.args[3], (uint64_t)(uintptr_t)out_memory);
  assert_int_equal(l.bound.args[4], (uint64_t)(uintptr_t)sf_memory);
  assert_int_equal(l.bound.args[5], 0); /* sf_clamp_min is absent */
  assert_int_equal(l.bound.num_steps, 1);
  assert_int_equal(l.bound.steps[0].grid, 1); /* 5 rows of 16 threads in a block of 256 */
  end(&l);
}

static void alignment_chooses_the_variant(void **state) {
  (void)state;
  static const struct {
    size_t x_offset, out_offset;
    int64_t stride;
    int variant;
  } cases[] = {{0, 0, 256, 0}, {2, 0, 256, 1}, {0, 1, 256, 1}, {0, 0, 257, 1}, {16, 16, 264, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    struct launch l = begin(ROW_MAJOR, 5);
    l.args[0].tensor.data = x_memory + cases[i].x_offset;
    l.args[0].tensor.strides[0] = cases[i].stride;
    l.args[1].tensor.data = out_memory + cases[i].out_offset;
    assert_int_equal(bind(&l), KILN_OK);
    assert_int_equal(l.bound.steps[0].variant, cases[i].variant);
    end(&l);
  }
}

static void no_tokens_need_no_launch(void **state) {
  (void)state;
  struct launch l = begin(ROW_MAJOR, 0);
  l.args[0].tensor.data = l.args[1].tensor.data = l.args[2].tensor.data = NULL;
  assert_int_equal(bind(&l), KILN_OK);
  assert_int_equal(l.bound.num_steps, 0);
  end(&l);
}

static void col_major(struct launch *l, int64_t ld) {
  l->args[2].tensor.strides[0] = 1;
  l->args[2].tensor.strides[1] = ld;
}

static void column_major_scales_take_a_distance_of_columns(void **state) {
  (void)state;
  struct launch l = begin(COL_MAJOR, 5);
  col_major(&l, 8);
  assert_int_equal(bind(&l), KILN_OK);
  assert_int_equal(l.bound.args[5], 8);
  l.args[2].tensor.size_bytes = 64;
  assert_int_equal(bind(&l), KILN_OK);
  l.args[2].tensor.size_bytes = 60;
  assert_int_equal(bind(&l), KILN_E_ARGUMENT);
  assert_string_equal(kn_error_last()->message,
                      "per_token_cast: out_sf has 60 bytes; this launch needs 64");
  end(&l);
}

/* Each case changes one thing and names the sentence. */
enum change {
  WRONG_DTYPE,
  WRONG_RANK,
  WRONG_SF_SHAPE,
  WRONG_HIDDEN,
  COLUMN_STRIDE,
  OUT_STRIDE,
  NEGATIVE_STRIDE,
  ODD_POINTER,
  NULL_POINTER,
  OVERLAP,
  MISSING,
  UNKNOWN,
  TWICE,
  SURPLUS_SCALAR,
  SCALAR_AS_TENSOR
};

static void change(struct launch *l, enum change what) {
  kiln_tensor *x = &l->args[0].tensor, *out = &l->args[1].tensor, *sf = &l->args[2].tensor;
  switch (what) {
    case WRONG_DTYPE:
      x->dtype = KILN_F16;
      break;
    case WRONG_RANK:
      x->rank = 1;
      break;
    case WRONG_SF_SHAPE:
      sf->shape[1] = 3;
      break;
    case WRONG_HIDDEN:
      x->shape[1] = 255;
      break;
    case COLUMN_STRIDE:
      x->strides[1] = 2;
      break;
    case OUT_STRIDE:
      out->strides[0] = 512;
      break;
    case NEGATIVE_STRIDE:
      x->strides[0] = -256;
      break;
    case ODD_POINTER:
      x->data = x_memory + 1;
      break;
    case NULL_POINTER:
      out->data = NULL;
      break;
    case OVERLAP:
      out->data = x_memory + 256;
      break;
    case MISSING:
      l->num_args = 2;
      break;
    case UNKNOWN:
      l->args[2].name = "sf";
      break;
    case TWICE:
      l->args[2].name = "out";
      break;
    case SURPLUS_SCALAR:
      l->args[3] = (kiln_arg){.name = "sf_clamp_min", .is_scalar = 1, .scalar = 1};
      l->num_args = 4;
      break;
    case SCALAR_AS_TENSOR:
      l->args[0].is_scalar = 1;
      break;
  }
}

static void a_wrong_argument_is_refused_in_one_sentence(void **state) {
  (void)state;
  static const struct {
    enum change change;
    const char *message;
  } cases[] = {
      {WRONG_DTYPE, "per_token_cast: x is f16; this kernel was built for bf16"},
      {WRONG_RANK, "per_token_cast: x has rank 1; allowed is 2"},
      {WRONG_SF_SHAPE, "per_token_cast: axis 1 of out_sf is 3; it must be 2"},
      {WRONG_HIDDEN, "per_token_cast: axis 1 of x is 255; it must be 256 (hidden)"},
      {COLUMN_STRIDE, "per_token_cast: axis 1 of x has stride 2; it must be 1"},
      {OUT_STRIDE, "per_token_cast: axis 0 of out has stride 512; it must be 256"},
      {NEGATIVE_STRIDE,
       "per_token_cast: axis 0 of x has stride -256; allowed are steps of 1 from 0 "
       "on"},
      {NULL_POINTER, "per_token_cast: out is NULL but not empty"},
      {OVERLAP, "per_token_cast: output out lies over x"},
      {MISSING, "per_token_cast: out_sf is not given"},
      {UNKNOWN, "per_token_cast: there is no argument 'sf'"},
      {TWICE, "per_token_cast: out is given twice"},
      {SURPLUS_SCALAR,
       "per_token_cast: sf_clamp_min is given, but this kernel was built without it"},
      {SCALAR_AS_TENSOR, "per_token_cast: x is a tensor, not a scalar"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    struct launch l = begin(ROW_MAJOR, 5);
    change(&l, cases[i].change);
    assert_int_equal(bind(&l), KILN_E_ARGUMENT);
    assert_string_equal(kn_error_last()->message, cases[i].message);
    end(&l);
  }
}

static void a_pointer_off_its_elements_is_refused(void **state) {
  (void)state;
  struct launch l = begin(ROW_MAJOR, 5);
  change(&l, ODD_POINTER);
  assert_int_equal(bind(&l), KILN_E_ARGUMENT);
  assert_non_null(
      strstr(kn_error_last()->message, "it must be aligned to its elements of 2 bytes"));
  end(&l);
}

static void the_distance_of_columns_is_checked(void **state) {
  static const int64_t wrong[] = {4, 6, 0, -8};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    struct launch l = begin(COL_MAJOR, 5);
    col_major(&l, wrong[i]);
    assert_int_equal(bind(&l), KILN_E_ARGUMENT);
    assert_non_null(
        strstr(kn_error_last()->message, "allowed are multiples of 4 from its 5 rows on"));
    end(&l);
  }
}

static void column_padding_has_blocks_of_its_own(void **state) {
  (void)state;
  /* 61 rows of 16 threads; 64 with the padding. */
  struct launch l = begin(COL_MAJOR " tile.threads=256", 61);
  col_major(&l, 64);
  assert_int_equal(bind(&l), KILN_OK);
  assert_int_equal(l.bound.steps[0].grid, 4);
  end(&l);
}

static void sf_clamp_min_has_a_least_value(void **state) {
  static const double wrong[] = {0, -1, 448 * 0x1p-127, 1e39};
  (void)state;
  struct launch l = begin(ROW_MAJOR " present.sf_clamp_min=true", 5);
  l.num_args = 4;
  l.args[3] = (kiln_arg){.name = "sf_clamp_min", .is_scalar = 1, .scalar = 448 * 0x1p-126};
  assert_int_equal(bind(&l), KILN_OK);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    l.args[3].scalar = wrong[i];
    assert_int_equal(bind(&l), KILN_E_ARGUMENT);
    assert_non_null(strstr(kn_error_last()->message, "allowed are finite values from"));
  }
  end(&l);
}

/* Scalars that are no finite number: one sentence each, for every type and with or without a range.
 */
static void scalars_that_are_not_finite_are_refused(void **state) {
  static const struct {
    double value;
    const char *message;
  } cases[] = {
      {NAN, "per_token_cast: sf_clamp_min is not a number"},
      {-NAN, "per_token_cast: sf_clamp_min is not a number"},
      {INFINITY,
       "per_token_cast: sf_clamp_min is inf; allowed are finite values from 5.26621e-36 on"},
      {-INFINITY,
       "per_token_cast: sf_clamp_min is -inf; allowed are finite values from 5.26621e-36 on"},
  };
  (void)state;
  struct launch l = begin(ROW_MAJOR " present.sf_clamp_min=true", 5);
  l.num_args = 4;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    l.args[3] = (kiln_arg){.name = "sf_clamp_min", .is_scalar = 1, .scalar = cases[i].value};
    assert_int_equal(bind(&l), KILN_E_ARGUMENT);
    assert_string_equal(kn_error_last()->message, cases[i].message);
    assert_int_equal(l.bound.num_steps, 0); /* nothing to launch */
  }
  end(&l);
}

/* An operator with a template of its own knows the least value too: of e4m3, which it writes. */
static void sf_clamp_min_has_a_least_value_without_a_chain(void **state) {
  static const double wrong[] = {0, -1, 448 * 0x1p-127, NAN, INFINITY};
  (void)state;
  struct kn_spec *spec = shipped_spec("quant/swiglu_backward_and_per_token_cast");
  struct kn_plan *plan =
      make_plan(spec, "sm_90a", "hidden=128 num_per_channels=128 present.sf_clamp_min=true");
  const int64_t rows[2] = {5, 128}, twice[2] = {5, 256}, sf[2] = {5, 2}, slots[2] = {5, 1};
  kiln_arg args[] = {
      {.name = "x", .tensor = kiln_tensor_make(x_memory, KILN_E4M3, 2, twice)},
      {.name = "x_sf", .tensor = kiln_tensor_make(x_memory + 2048, KILN_F32, 2, sf)},
      {.name = "grad_out", .tensor = kiln_tensor_make(x_memory + 4096, KILN_BF16, 2, rows)},
      {.name = "weight", .tensor = kiln_tensor_make(x_memory + 8192, KILN_F32, 2, slots)},
      {.name = "pos_to_token_topk", .tensor = kiln_tensor_make(x_memory + 9216, KILN_I32, 1, rows)},
      {.name = "token_topk_to_pos",
       .tensor = kiln_tensor_make(x_memory + 9728, KILN_I32, 2, slots)},
      {.name = "out", .tensor = kiln_tensor_make(out_memory, KILN_BF16, 2, rows)},
      {.name = "x_grad_fp8", .tensor = kiln_tensor_make(out_memory + 2048, KILN_E4M3, 2, twice)},
      {.name = "x_grad_fp8_sf", .tensor = kiln_tensor_make(sf_memory, KILN_F32, 2, sf)},
      {.name = "x_grad", .tensor = kiln_tensor_make(out_memory + 8192, KILN_BF16, 2, twice)},
      {.name = "weight_grad", .tensor = kiln_tensor_make(sf_memory + 1024, KILN_F32, 2, slots)},
      {.name = "sf_clamp_min", .is_scalar = 1, .scalar = 448 * 0x1p-126}};
  const size_t count = sizeof args / sizeof *args;
  struct kn_bound bound;
  if (!plan) fail_msg("%s", kn_error_last()->message);
  kn_error_clear();
  if (kn_plan_bind(plan, args, count, 132, &bound) != KILN_OK) {
    fail_msg("%s", kn_error_last()->message);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    args[count - 1].scalar = wrong[i];
    assert_int_equal(kn_plan_bind(plan, args, count, 132, &bound), KILN_E_ARGUMENT);
    assert_non_null(
        strstr(kn_error_last()->message, "swiglu_backward_and_per_token_cast: sf_clamp_min is "));
  }
  kn_plan_free(plan);
  kn_spec_free(spec);
}

static struct kn_bound bound_of_own;

/* Binds an operator of one f32, one i32 and one i64 scalar. */
static kiln_status bind_scalars(double f, double i, double j) {
  static const char text[] =
      "operator: own\n"
      "scalars: {f: {type: f32}, i: {type: i32}, j: {type: i64}}\n"
      "tensors: {x: {role: out, dtype: u8, shape: [num_bytes]}}\n"
      "template: own.cu\n"
      "launch: [{threads: 32, grid: 1, variants: [{function: own}]}]\n"
      "examples: [{}]\n";
  const int64_t shape[1] = {16};
  const kiln_arg args[] = {{.name = "x", .tensor = kiln_tensor_make(x_memory, KILN_U8, 1, shape)},
                           {.name = "f", .is_scalar = 1, .scalar = f},
                           {.name = "i", .is_scalar = 1, .scalar = i},
                           {.name = "j", .is_scalar = 1, .scalar = j}};
  struct kn_spec *spec = parse_spec("own.yaml", text);
  struct kn_plan *plan = make_plan(spec, "sm_90a", "");
  if (!plan) fail_msg("%s", kn_error_last()->message);
  kn_error_clear();
  kiln_status status = kn_plan_bind(plan, args, 4, 132, &bound_of_own);
  kn_plan_free(plan);
  kn_spec_free(spec);
  return status;
}

static void a_scalar_of_any_type_must_be_a_number(void **state) {
  static const double values[] = {NAN, INFINITY, -INFINITY};
  (void)state;
  assert_int_equal(bind_scalars(1, 2, 3), KILN_OK);
  assert_int_equal(bind_scalars(NAN, 2, 3), KILN_E_ARGUMENT);
  assert_string_equal(kn_error_last()->message, "own: f is not a number");
  for (size_t k = 0; k < 3; ++k) {
    assert_int_equal(bind_scalars(1, values[k], 3), KILN_E_ARGUMENT);
    assert_non_null(strstr(kn_error_last()->message, "own: i is "));
    assert_non_null(strstr(kn_error_last()->message, "allowed are whole numbers of type i32"));
    assert_int_equal(bind_scalars(1, 2, values[k]), KILN_E_ARGUMENT);
    assert_non_null(strstr(kn_error_last()->message, "own: j is "));
    assert_non_null(strstr(kn_error_last()->message, "allowed are whole numbers of type i64"));
  }
  assert_int_equal(bind_scalars(1, 2147483648.0, 3), KILN_E_ARGUMENT);
  assert_int_equal(bind_scalars(1, 2, 0x1p63), KILN_E_ARGUMENT);
  assert_int_equal(bind_scalars(1, 0.5, 3), KILN_E_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_hold_sizes_pointers_and_strides),
      cmocka_unit_test(alignment_chooses_the_variant),
      cmocka_unit_test(no_tokens_need_no_launch),
      cmocka_unit_test(column_major_scales_take_a_distance_of_columns),
      cmocka_unit_test(a_wrong_argument_is_refused_in_one_sentence),
      cmocka_unit_test(a_pointer_off_its_elements_is_refused),
      cmocka_unit_test(the_distance_of_columns_is_checked),
      cmocka_unit_test(column_padding_has_blocks_of_its_own),
      cmocka_unit_test(sf_clamp_min_has_a_least_value),
      cmocka_unit_test(sf_clamp_min_has_a_least_value_without_a_chain),
      cmocka_unit_test(scalars_that_are_not_finite_are_refused),
      cmocka_unit_test(a_scalar_of_any_type_must_be_a_number),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
