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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_residual_that_does_not_fit_is_refused),
      cmocka_unit_test(the_rows_of_a_residual_choose_the_variant),
      cmocka_unit_test(dtypes_that_do_not_go_together_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
