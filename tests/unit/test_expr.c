/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "spec/expr.h"

enum { MAX_NESTING = 64, MAX_TEXT = 1024 };

static const struct {
  const char *name;
  struct kn_value value;
} values[] = {
    {"hidden", {KN_VALUE_INT, 7168, NULL}},     {"zero", {KN_VALUE_INT, 0, NULL}},
    {"most", {KN_VALUE_INT, INT64_MAX, NULL}},  {"least", {KN_VALUE_INT, INT64_MIN, NULL}},
    {"fmt", {KN_VALUE_DTYPE, KILN_E2M1, NULL}}, {"wide", {KN_VALUE_DTYPE, KILN_BF16, NULL}},
    {"scoring", {KN_VALUE_WORD, 0, "sigmoid"}}, {"sigmoid", {KN_VALUE_WORD, 0, "sigmoid"}},
    {"softmax", {KN_VALUE_WORD, 0, "softmax"}}, {"yea", {KN_VALUE_BOOL, 1, NULL}},
    {"nay", {KN_VALUE_BOOL, 0, NULL}},
};

static bool value_of(void *user, const char *name, struct kn_value *out) {
  (void)user;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    if (strcmp(values[i].name, name) != 0) continue;
    *out = values[i].value;
    return true;
  }
  return false;
}

/* A tensor of 24 bytes, and one of half a byte. */
static bool size_of(void *user, const char *name, double *out_bytes) {
  (void)user;
  *out_bytes = strcmp(name, "half") == 0 ? 0.5 : 24;
  return strcmp(name, "half") == 0 || strcmp(name, "out") == 0;
}

static bool present(void *user, const char *name, bool *out) {
  (void)user;
  *out = strcmp(name, "out") == 0;
  return *out || strcmp(name, "half") == 0;
}

static const struct kn_env env = {value_of, size_of, NULL, present};
static const struct kn_mark start = {"a.yaml", 3, 11};

struct fixture {
  struct kn_arena arena;
  const struct kn_expr *expr;
};

static kiln_status parse(struct fixture *f, const char *text) {
  *f = (struct fixture){0};
  return kn_expr_parse(&f->arena, text, start, &f->expr);
}

static void expressions_evaluate_to_their_value(void **state) {
  static const struct {
    const char *text;
    enum kn_value_type type;
    int64_t number;
  } cases[] = {
      {"1", KN_VALUE_INT, 1},
      {"0", KN_VALUE_INT, 0},
      {"-5", KN_VALUE_INT, -5},
      {"9223372036854775807", KN_VALUE_INT, INT64_MAX},
      {"1 + 2*3", KN_VALUE_INT, 7},
      {"(1 + 2)*3", KN_VALUE_INT, 9},
      {"10 - 4 - 3", KN_VALUE_INT, 3},
      {"100/10/5", KN_VALUE_INT, 2},
      {"7/2", KN_VALUE_INT, 3},
      {"-7/2", KN_VALUE_INT, -4}, /* floors */
      {"-7 % 2", KN_VALUE_INT, 1},
      {"-8 % 2", KN_VALUE_INT, 0},
      {"least / 1", KN_VALUE_INT, INT64_MIN},
      {"least % 10", KN_VALUE_INT, 2},
      {"ceil_div(7, 2)", KN_VALUE_INT, 4},
      {"ceil_div(8, 2)", KN_VALUE_INT, 4},
      {"ceil_div(-7, 2)", KN_VALUE_INT, -3},
      {"ceil_div(most, 2)", KN_VALUE_INT, INT64_MAX / 2 + 1},
      {"align(13, 4)", KN_VALUE_INT, 16},
      {"align(0, 4)", KN_VALUE_INT, 0},
      {"min(2, max(5, 1))", KN_VALUE_INT, 2},
      {"2*hidden", KN_VALUE_INT, 14336},
      {"--5", KN_VALUE_INT, 5},
      {"-(2 + 3)", KN_VALUE_INT, -5},
      {"- hidden", KN_VALUE_INT, -7168},
      {"least + most", KN_VALUE_INT, -1},
      {"most * -1", KN_VALUE_INT, -INT64_MAX},
      {"size(bf16)", KN_VALUE_INT, 2},
      {"size(wide)", KN_VALUE_INT, 2},
      {"size(out)", KN_VALUE_INT, 24},
      {"true", KN_VALUE_BOOL, 1},
      {"not true", KN_VALUE_BOOL, 0},
      {"not not true", KN_VALUE_BOOL, 1},
      {"not 1 == 2", KN_VALUE_BOOL, 1},
      {"1 == 1 and 2 == 2", KN_VALUE_BOOL, 1},
      {"false and true or true", KN_VALUE_BOOL, 1},
      {"true or true and false", KN_VALUE_BOOL, 1},
      {"true -> false", KN_VALUE_BOOL, 0},
      {"false -> false", KN_VALUE_BOOL, 1},
      {"false -> false -> false", KN_VALUE_BOOL, 1}, /* to the right: false -> (..) */
      {"yea or nay -> nay", KN_VALUE_BOOL, 0},
      {"1 < 2", KN_VALUE_BOOL, 1},
      {"2 <= 1", KN_VALUE_BOOL, 0},
      {"2 > 1", KN_VALUE_BOOL, 1},
      {"1 >= 2", KN_VALUE_BOOL, 0},
      {"1 != 2", KN_VALUE_BOOL, 1},
      {"yea == true", KN_VALUE_BOOL, 1},
      {"fmt == e2m1", KN_VALUE_BOOL, 1},
      {"fmt != e2m1", KN_VALUE_BOOL, 0},
      {"fmt == e5m6", KN_VALUE_BOOL, 0},
      {"scoring == sigmoid", KN_VALUE_BOOL, 1},
      {"scoring == softmax", KN_VALUE_BOOL, 0},
      {"fmt", KN_VALUE_DTYPE, KILN_E2M1},
      {"f32", KN_VALUE_DTYPE, KILN_F32},
      /* the right side counts only where the left does not decide */
      {"zero == 0 or hidden % zero == 0", KN_VALUE_BOOL, 1},
      {"zero != 0 and hidden % zero == 0", KN_VALUE_BOOL, 0},
      {"zero != 0 -> hidden % zero == 0", KN_VALUE_BOOL, 1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fixture f;
    struct kn_value value = {0};
    if (parse(&f, cases[i].text) != KILN_OK || kn_expr_eval(f.expr, &env, &value) != KILN_OK) {
      fail_msg("%s: %s", cases[i].text, kn_error_last()->message);
    }
    if (value.type != cases[i].type || value.number != cases[i].number) {
      fail_msg("%s is %lld of type %d", cases[i].text, (long long)value.number, (int)value.type);
    }
    kn_arena_release(&f.arena);
  }
}

/* Columns count from 11, where the text begins. */
static void faults_are_reported_at_their_column(void **state) {
  static const struct {
    const char *text;
    int column;
    const char *message;
  } cases[] = {
      {"", 11, "the expression ends where a value is expected"},
      {"1 +", 14, "the expression ends where a value is expected"},
      {"1 2", 13, "'2' stands where an operator or the end is expected"},
      {"(1", 13, "the expression ends where ')' is expected"},
      {"1)", 12, "')' stands where an operator or the end is expected"},
      {"* 2", 11, "'*' stands where a value is expected"},
      {"a + not b", 15, "'not' stands where a value is expected"},
      {"1 < 2 < 3", 17, "comparisons do not chain; join two with 'and'"},
      {"cel_div(1, 2)", 11,
       "there is no function 'cel_div' (did you mean 'ceil_div'?); functions are ceil_div, align, "
       "min, max, size and present"},
      {"min", 11, "'min' is a function and needs its arguments in parentheses"},
      {"min(1)", 16, "')' stands where ',' is expected"},
      {"max(1, 2, 3)", 19, "',' stands where ')' is expected"},
      {"present(1)", 19, "'1' stands where a tensor or scalar is expected"},
      {"size(1)", 16, "'1' stands where a dtype or a tensor is expected"},
      {"010", 11, "'010' is no integer; write decimal digits without a leading zero"},
      {"0x10", 11, "'0x10' is no integer; write decimal digits without a leading zero"},
      {"1_000", 11, "'1_000' is no integer; write decimal digits without a leading zero"},
      {"1.0", 11, "'1.0' is no integer; write decimal digits without a leading zero"},
      {"2 * 1e-5", 15, "'1e-5' is no integer; write decimal digits without a leading zero"},
      {"9223372036854775808", 11, "'9223372036854775808' does not fit 64 bits"},
      {"a && b", 13, "'&&' is no operator; write and"},
      {"a = b", 13, "'=' is no operator; write =="},
      {"2 ** 3", 13, "'**' is no operator; write a product"},
      {"a // b", 13, "'//' is no operator; write /"},
      {"a ? b", 13, "'?' does not belong in an expression"},
      {"a \xc3\xa9", 13, "byte 0xc3 does not belong in an expression"},
      {"+1", 11, "'+' stands where a value is expected"},
      {"~", 11, "'~' does not belong in an expression"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fixture f;
    assert_int_equal(parse(&f, cases[i].text), KILN_E_SPEC);
    assert_null(f.expr);
    assert_string_equal(kn_error_last()->message, cases[i].message);
    assert_string_equal(kn_error_last()->file, "a.yaml");
    assert_int_equal(kn_error_last()->line, 3);
    assert_int_equal(kn_error_last()->column, cases[i].column);
    kn_arena_release(&f.arena);
  }
}

static void an_expression_over_several_lines_knows_its_lines(void **state) {
  struct fixture f;
  (void)state;
  assert_int_equal(parse(&f, "1 +\n    2 +\r\n  ?"), KILN_E_SPEC);
  assert_int_equal(kn_error_last()->line, 5);
  assert_int_equal(kn_error_last()->column, 3);
  kn_arena_release(&f.arena);

  assert_int_equal(parse(&f, " hidden +\n    2 "), KILN_OK);
  assert_string_equal(f.expr->text, "hidden + 2");
  kn_arena_release(&f.arena);
}

static void evaluation_refuses_what_has_no_value(void **state) {
  static const struct {
    const char *text;
    kiln_status status;
    const char *message;
  } cases[] = {
      {"most + 1", KILN_E_UNSUPPORTED, "'most + 1' does not fit 64 bits"},
      {"least - 1", KILN_E_UNSUPPORTED, "'least - 1' does not fit 64 bits"},
      {"0 - least", KILN_E_UNSUPPORTED, "'0 - least' does not fit 64 bits"},
      {"-least", KILN_E_UNSUPPORTED, "'-least' does not fit 64 bits"},
      {"least * -1", KILN_E_UNSUPPORTED, "'least * -1' does not fit 64 bits"},
      {"-1 * least", KILN_E_UNSUPPORTED, "'-1 * least' does not fit 64 bits"},
      {"most * 2", KILN_E_UNSUPPORTED, "'most * 2' does not fit 64 bits"},
      {"least * 2", KILN_E_UNSUPPORTED, "'least * 2' does not fit 64 bits"},
      {"-3037000500 * 3037000500", KILN_E_UNSUPPORTED,
       "'-3037000500 * 3037000500' does not fit 64 bits"},
      {"-3037000500 * -3037000500", KILN_E_UNSUPPORTED,
       "'-3037000500 * -3037000500' does not fit 64 bits"},
      {"align(most, 2)", KILN_E_UNSUPPORTED, "'align(most, 2)' does not fit 64 bits"},
      {"1 / zero", KILN_E_UNSUPPORTED, "'1 / zero' divides by a number that is not positive"},
      {"1 % -2", KILN_E_UNSUPPORTED, "'1 % -2' divides by a number that is not positive"},
      {"align(1, zero)", KILN_E_UNSUPPORTED,
       "'align(1, zero)' divides by a number that is not positive"},
      {"size(e2m1)", KILN_E_UNSUPPORTED, "'size(e2m1)' is no whole number of bytes"},
      {"hiden + 1", KILN_E_SPEC, "'hiden' in 'hiden + 1' has no value here"},
      {"size(nothing)", KILN_E_SPEC, "'nothing' in 'size(nothing)' has no value here"},
      {"fmt + 1", KILN_E_SPEC, "'fmt + 1' needs an integer here"},
      {"yea + 1", KILN_E_SPEC, "'yea + 1' needs an integer here"},
      {"1 and yea", KILN_E_SPEC, "'1 and yea' needs true or false here"},
      {"fmt == 1", KILN_E_SPEC, "'fmt == 1' compares values of different types"},
      {"fmt < e4m3", KILN_E_SPEC, "'fmt < e4m3' needs an integer here"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fixture f;
    struct kn_value value = {.number = 77};
    assert_int_equal(parse(&f, cases[i].text), KILN_OK);
    assert_int_equal(kn_expr_eval(f.expr, &env, &value), cases[i].status);
    assert_string_equal(kn_error_last()->message, cases[i].message);
    assert_int_equal(value.number, 77);
    kn_arena_release(&f.arena);
  }
}

static void a_result_must_have_the_type_asked_for(void **state) {
  struct fixture f;
  int64_t number = 7;
  bool truth = true;
  double bytes = 7;
  (void)state;

  assert_int_equal(parse(&f, "fmt"), KILN_OK);
  assert_int_equal(kn_expr_eval_int(f.expr, &env, &number), KILN_E_SPEC);
  assert_int_equal(kn_expr_eval_bool(f.expr, &env, &truth), KILN_E_SPEC);
  assert_int_equal(kn_expr_eval_number(f.expr, &env, &bytes), KILN_E_SPEC);
  assert_int_equal(number, 7);
  assert_true(truth);
  kn_arena_release(&f.arena);

  assert_int_equal(parse(&f, "nay"), KILN_OK);
  assert_int_equal(kn_expr_eval_bool(f.expr, &env, &truth), KILN_OK);
  assert_int_equal(kn_expr_eval_int(f.expr, &env, &number), KILN_OK);
  assert_false(truth);
  assert_int_equal(number, 0);
  kn_arena_release(&f.arena);
}

static void bytes_are_evaluated_in_doubles(void **state) {
  static const struct {
    const char *text;
    double value;
  } cases[] = {
      {"3*size(e2m1)", 1.5},
      {"8*size(e5m6)", 12},
      {"hidden*(size(wide) + size(fmt)) + size(out)", 7168 * 2.5 + 24},
      {"size(half)/2", 0}, /* floors */
      {"-1/2", -1},
      {"7 % 4", 3},
      {"-7 % 4", 1},
      {"ceil_div(7, 4)", 2},
      {"ceil_div(-7, 4)", -1},
      {"align(13, 8)", 16},
      {"min(3, 5) + max(3, 5)", 8},
      {"-(3)", -3},
      {"-hidden - 1", -7169},
      {"most*4", 4.0 * 9223372036854775807.0},
  };
  struct fixture f;
  double value = 7;
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(parse(&f, cases[i].text), KILN_OK);
    assert_int_equal(kn_expr_eval_number(f.expr, &env, &value), KILN_OK);
    if (value != cases[i].value) fail_msg("%s is %f", cases[i].text, value);
    kn_arena_release(&f.arena);
  }
  assert_int_equal(parse(&f, "1/zero"), KILN_OK);
  assert_int_equal(kn_expr_eval_number(f.expr, &env, &value), KILN_E_UNSUPPORTED);
  kn_arena_release(&f.arena);
}

static void a_double_that_overflows_is_refused(void **state) {
  struct fixture f;
  double value = 7;
  char text[MAX_TEXT] = "most";
  (void)state;
  for (int i = 0; i < 60; i++) (void)strcat(text, "*most");
  assert_int_equal(parse(&f, text), KILN_OK);
  assert_int_equal(kn_expr_eval_number(f.expr, &env, &value), KILN_E_UNSUPPORTED);
  assert_true(value == 7);
  kn_arena_release(&f.arena);
}

static bool is_hidden(void *user, const char *name) {
  (void)user;
  return strcmp(name, "rows") == 0 || strcmp(name, "columns") == 0;
}

static void linear_forms_are_found(void **state) {
  static const struct {
    const char *text;
    bool is_linear;
    int64_t scale, offset;
  } cases[] = {
      {"rows", true, 1, 0},
      {"2*rows", true, 2, 0},
      {"rows*2", true, 2, 0},
      {"rows + 8", true, 1, 8},
      {"8 + rows", true, 1, 8},
      {"rows - 8", true, 1, -8},
      {"2*(rows + 1)", true, 2, 2},
      {"2*(3*rows - 1) + 5", true, 6, 3},
      {"rows + rows", true, 2, 0},
      {"3*rows - rows", true, 2, 0},
      {"hidden*rows + hidden", true, 7168, 7168},
      {"rows*ceil_div(7, 2)", true, 4, 0},
      {"rows*size(wide)", true, 2, 0},
      {"10 - -rows", true, 1, 10},
      {"rows*0", false, 0, 0},
      {"rows - rows", false, 0, 0},
      {"-rows", false, 0, 0},
      {"8 - rows", false, 0, 0},
      {"hidden", false, 0, 0},
      {"rows + columns", false, 0, 0},
      {"rows*columns", false, 0, 0},
      {"rows*rows", false, 0, 0},
      {"rows/2", false, 0, 0},
      {"ceil_div(rows, 2)", false, 0, 0},
      {"max(rows, 2)", false, 0, 0},
      {"rows*most*most", false, 0, 0},
      {"rows + unheard_of", false, 0, 0},
      {"rows + 1/zero", false, 0, 0},
      {"rows*fmt", false, 0, 0},
      {"rows*size(e2m1)", false, 0, 0},
      {"rows == 1", false, 0, 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fixture f;
    const char *name = NULL;
    int64_t scale = 0, offset = 0;
    assert_int_equal(parse(&f, cases[i].text), KILN_OK);
    kn_error_clear();
    if (kn_expr_linear(f.expr, &env, is_hidden, NULL, &name, &scale, &offset) !=
            cases[i].is_linear ||
        scale != cases[i].scale || offset != cases[i].offset) {
      fail_msg("%s is %lld, %lld", cases[i].text, (long long)scale, (long long)offset);
    }
    if (cases[i].is_linear) assert_string_equal(name, "rows");
    assert_int_equal(kn_error_last()->status, KILN_OK); /* a question, not a fault */
    kn_arena_release(&f.arena);
  }
}

static void append_name(void *user, const char *name, struct kn_mark mark) {
  char *names = user;
  assert_int_equal(mark.line, 3);
  (void)strcat(strcat(names, name), " ");
}

static void every_name_is_visited(void **state) {
  struct fixture f;
  char names[64] = "";
  (void)state;
  assert_int_equal(parse(&f, "a*b + min(c, -size(d)) + size(bf16) + 1"), KILN_OK);
  kn_expr_each_name(f.expr, append_name, names);
  assert_string_equal(names, "a b c d ");
  kn_arena_release(&f.arena);
}

/* `open` n times, then "1", then `close` n times. */
static kiln_status parse_nested(const char *open, const char *close, int n) {
  struct fixture f;
  kiln_status status;
  char text[MAX_TEXT] = "";
  for (int i = 0; i < n; i++) (void)strcat(text, open);
  (void)strcat(text, "1");
  for (int i = 0; i < n; i++) (void)strcat(text, close);
  status = parse(&f, text);
  kn_arena_release(&f.arena);
  return status;
}

static void depth_and_length_are_bounded(void **state) {
  static const char *const forms[][2] = {
      {"(", ")"}, {"-", ""}, {"not ", ""}, {"max(1,", ")"}, {"1->", ""}, {"1+", ""}, {"1*(", ")"},
  };
  struct fixture f;
  char text[MAX_TEXT + 2];
  (void)state;

  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    assert_int_equal(parse_nested(forms[i][0], forms[i][1], MAX_NESTING / 2 - 1), KILN_OK);
    assert_int_equal(parse_nested(forms[i][0], forms[i][1], MAX_NESTING + 1), KILN_E_SPEC);
    assert_string_equal(kn_error_last()->message, "the expression is nested deeper than 64");
  }
  memset(text, ' ', sizeof text);
  text[0] = '1';
  text[MAX_TEXT] = '\0';
  assert_int_equal(parse(&f, text), KILN_OK);
  kn_arena_release(&f.arena);
  text[MAX_TEXT] = ' ';
  text[MAX_TEXT + 1] = '\0';
  assert_int_equal(parse(&f, text), KILN_E_SPEC);
  assert_string_equal(kn_error_last()->message, "the expression has more than 1024 bytes");
  kn_arena_release(&f.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(expressions_evaluate_to_their_value),
      cmocka_unit_test(faults_are_reported_at_their_column),
      cmocka_unit_test(an_expression_over_several_lines_knows_its_lines),
      cmocka_unit_test(evaluation_refuses_what_has_no_value),
      cmocka_unit_test(a_result_must_have_the_type_asked_for),
      cmocka_unit_test(bytes_are_evaluated_in_doubles),
      cmocka_unit_test(a_double_that_overflows_is_refused),
      cmocka_unit_test(linear_forms_are_found),
      cmocka_unit_test(every_name_is_visited),
      cmocka_unit_test(depth_and_length_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
