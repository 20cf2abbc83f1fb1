/* SPDX-License-Identifier: MIT */
/* Launches of fused routing operators that are refused, and the sentence that says why. */
#include "plan_help.h"

enum { MAX_ARGS = 16, ARG_BYTES = 1 << 14 };

static _Alignas(256) unsigned char memory[MAX_ARGS][ARG_BYTES];

/* A launch with every argument as the operator wants it, to be changed by a test. */
struct launch {
  struct kn_spec *spec;
  struct kn_plan *plan;
  kiln_arg args[MAX_ARGS];
  size_t num_args;
  struct kn_bound bound;
};

static struct launch begin(const char *name, const char *params, const kiln_dim *dims,
                           size_t num_dims) {
  struct launch l = {.spec = shipped_spec(name)};
  l.plan = make_plan(l.spec, "sm_90a", params);
  if (!l.plan) fail_msg("%s", kn_error_last()->message);
  for (size_t i = 0; i < l.spec->num_tensors + l.spec->num_scalars; ++i) {
    kiln_arg_info info;
    kiln_arg *arg = &l.args[l.num_args];
    kiln_arg_info_init(&info);
    assert_int_equal(kn_plan_arg_info(l.plan, i, dims, num_dims, &info), KILN_OK);
    if (!info.is_present) continue;
    arg->name = info.name;
    arg->is_scalar = info.is_scalar;
    arg->scalar = 1;
    if (!info.is_scalar) {
      arg->tensor = kiln_tensor_make(memory[l.num_args], info.dtype, info.rank, info.shape);
    }
    ++l.num_args;
  }
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

static kiln_arg *argument(struct launch *l, const char *name) {
  for (size_t i = 0; i < l->num_args; ++i) {
    if (strcmp(l->args[i].name, name) == 0) return &l->args[i];
  }
  fail_msg("there is no %s", name);
  return NULL;
}

static void expect_refusal(struct launch *l, const char *message) {
  assert_int_equal(bind(l), KILN_E_ARGUMENT);
  assert_string_equal(kn_error_last()->message, message);
}

/* ---- reduce_fused_and_residual_add ---- */

#define ADD "reduce_fused_and_residual_add"

static struct launch begin_add(void) {
  static const kiln_dim dims[] = {{"num_tokens", 5}, {"num_expanded_tokens", 9}};
  return begin("moe/" ADD,
               "hidden=64 dtype=bf16 residual_dtype=f32 out_dtype=f32 num_topk=2 "
               "present.topk_weights=true",
               dims, 2);
}

static void a_residual_that_does_not_fit_is_refused(void **state) {
  (void)state;
  struct launch l = begin_add();
  kiln_tensor *residual = &argument(&l, "residual")->tensor;
  const kiln_tensor good = *residual;
  assert_int_equal(bind(&l), KILN_OK);
  residual->dtype = KILN_BF16;
  expect_refusal(&l, ADD ": residual is bf16; this kernel was built for f32");
  *residual = good;
  residual->shape[0] = 4;
  expect_refusal(&l, ADD ": axis 0 of residual is 4; it must be 5 (num_tokens)");
  *residual = good;
  residual->shape[1] = 63;
  expect_refusal(&l, ADD ": axis 1 of residual is 63; it must be 64 (hidden)");
  *residual = good;
  residual->strides[1] = 2;
  expect_refusal(&l, ADD ": axis 1 of residual has stride 2; it must be 1");
  *residual = good;
  residual->strides[0] = -64;
  expect_refusal(&l, ADD ": axis 0 of residual has stride -64; allowed are steps of 1 from 0 on");
  *residual = good;
  residual->data = argument(&l, "out")->tensor.data;
  expect_refusal(&l, ADD ": output out lies over residual");
  end(&l);
}

/* Rows may be further apart; where they are not aligned, elements are taken one by one. */
static void the_rows_of_a_residual_choose_the_variant(void **state) {
  (void)state;
  static const struct {
    int64_t stride;
    int variant;
  } cases[] = {{64, 0}, {68, 0}, {65, 1}, {66, 1}};
  struct launch l = begin_add();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    argument(&l, "residual")->tensor.strides[0] = cases[i].stride;
    assert_int_equal(bind(&l), KILN_OK);
    assert_int_equal(l.bound.steps[0].variant, cases[i].variant);
  }
  end(&l);
}

static void dtypes_that_do_not_go_together_are_refused(void **state) {
  (void)state;
  struct kn_spec *spec = shipped_spec("moe/" ADD);
  static const struct {
    const char *params, *message;
  } cases[] = {
      {"hidden=64 dtype=bf16 residual_dtype=bf16 out_dtype=f32 num_topk=2",
       ADD ": out_dtype is f32, dtype is bf16, residual_dtype is bf16; required is out_dtype == "
           "dtype or out_dtype == residual_dtype or out_dtype == e4m3"},
      {"hidden=64 dtype=bf16 residual_dtype=bf16 out_dtype=bf16 num_topk=2 present.sf=true",
       ADD ": out_dtype is bf16; required is present(sf) -> out_dtype == e4m3: only "
           "codes have a scale"},
      {"hidden=64 dtype=bf16 residual_dtype=e4m3 out_dtype=bf16 num_topk=2",
       ADD ": residual_dtype is e4m3; allowed are bf16, f16 and f32"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    assert_null(make_plan(spec, "sm_90a", cases[i].params));
    assert_string_equal(kn_error_last()->message, cases[i].message);
    assert_int_equal(kn_error_last()->status, KILN_E_UNSUPPORTED);
  }
  kn_spec_free(spec);
}

/* ---- topk_gate_and_get_fused_mapping ---- */

#define MAP "topk_gate_and_get_fused_mapping"

static struct launch begin_map(int64_t num_tokens) {
  const kiln_dim dims[] = {{"num_tokens", num_tokens}, {"num_expanded_tokens", 100}};
  return begin("moe/" MAP, "num_experts=4 num_topk=2", dims, 2);
}

static void more_tokens_than_one_block_has_room_for_are_refused(void **state) {
  (void)state;
  struct launch l = begin_map(512);
  assert_int_equal(bind(&l), KILN_OK);
  assert_int_equal(l.bound.num_steps, 1);
  assert_int_equal(l.bound.steps[0].grid, 1);
  end(&l);
  l = begin_map(513);
  expect_refusal(&l, MAP
                 ": num_tokens is 513; required is num_tokens <= 512: one block has room "
                 "for so many; topk_gate and get_fused_mapping take more");
  end(&l);
}

/* Rows of padding and the experts' ends are written all the same. */
static void no_tokens_are_mapped_too(void **state) {
  (void)state;
  struct launch l = begin_map(0);
  assert_int_equal(bind(&l), KILN_OK);
  assert_int_equal(l.bound.num_steps, 1);
  end(&l);
}

static void maps_that_do_not_fit_are_refused(void **state) {
  (void)state;
  struct launch l = begin_map(5);
  kiln_tensor *idx = &argument(&l, "topk_idx")->tensor,
              *rows = &argument(&l, "pos_to_token")->tensor,
              *scores = &argument(&l, "scores")->tensor;
  const kiln_tensor good_idx = *idx, good_rows = *rows, good_scores = *scores;
  idx->dtype = KILN_I32;
  expect_refusal(&l, MAP ": topk_idx is i32; this kernel was built for i64");
  *idx = good_idx;
  idx->shape[1] = 3;
  expect_refusal(&l, MAP ": axis 1 of topk_idx is 3; it must be 2 (num_topk)");
  *idx = good_idx;
  rows->shape[0] = 99;
  expect_refusal(&l, MAP ": axis 0 of pos_to_token is 99; it must be 100 (num_expanded_tokens)");
  *rows = good_rows;
  scores->strides[0] = 5;
  expect_refusal(&l, MAP ": axis 0 of scores has stride 5; it must be 4");
  *scores = good_scores;
  argument(&l, "alignment")->scalar = 0;
  expect_refusal(&l, MAP
                 ": alignment is 0; allowed are 1 (1) to 536870910 (min(2147483647, "
                 "(2147483647 - num_tokens*num_topk)/num_experts + 1))");
  end(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_residual_that_does_not_fit_is_refused),
      cmocka_unit_test(the_rows_of_a_residual_choose_the_variant),
      cmocka_unit_test(dtypes_that_do_not_go_together_are_refused),
      cmocka_unit_test(more_tokens_than_one_block_has_room_for_are_refused),
      cmocka_unit_test(no_tokens_are_mapped_too),
      cmocka_unit_test(maps_that_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
