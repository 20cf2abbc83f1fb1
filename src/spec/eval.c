/* SPDX-License-Identifier: MIT */
/* Evaluating expressions, in checked 64-bit integers or in doubles. */
#include <float.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "spec/expr.h"

/* What is being evaluated; the root has the text for messages. */
struct evaluation {
  const struct kn_expr *root;
  const struct kn_env *env;
};

enum fault { FAULT_NONE, FAULT_OVERFLOW, FAULT_DIVISOR };

static bool add(int64_t a, int64_t b, int64_t *out) {
  if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) return false;
  *out = a + b;
  return true;
}

static bool subtract(int64_t a, int64_t b, int64_t *out) {
  if ((b < 0 && a > INT64_MAX + b) || (b > 0 && a < INT64_MIN + b)) return false;
  *out = a - b;
  return true;
}

static bool multiply(int64_t a, int64_t b, int64_t *out) {
  bool overflows = false;
  if (a > 0 && b > 0) overflows = a > INT64_MAX / b;
  if (a > 0 && b < 0) overflows = b < INT64_MIN / a;
  if (a < 0 && b > 0) overflows = a < INT64_MIN / b;
  if (a < 0 && b < 0) overflows = a < INT64_MAX / b;
  if (overflows) return false;
  *out = a * b;
  return true;
}

/* For b > 0. */
static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}

static bool divides(enum kn_expr_op op) {
  return op == KN_EXPR_DIV || op == KN_EXPR_MOD || op == KN_EXPR_CEIL_DIV || op == KN_EXPR_ALIGN;
}

static enum fault arithmetic(enum kn_expr_op op, int64_t a, int64_t b, int64_t *out) {
  bool fits = true;
  if (divides(op) && b <= 0) return FAULT_DIVISOR;
  switch (op) {
    case KN_EXPR_ADD:
      fits = add(a, b, out);
      break;
    case KN_EXPR_SUB:
      fits = subtract(a, b, out);
      break;
    case KN_EXPR_MUL:
      fits = multiply(a, b, out);
      break;
    case KN_EXPR_DIV:
      *out = floor_div(a, b);
      break;
    case KN_EXPR_MOD:
      *out = a % b + (a % b < 0 ? b : 0);
      break;
    case KN_EXPR_CEIL_DIV:
      *out = ceil_div(a, b);
      break;
    case KN_EXPR_ALIGN:
      fits = multiply(ceil_div(a, b), b, out);
      break;
    case KN_EXPR_MIN:
      *out = a < b ? a : b;
      break;
    default: /* KN_EXPR_MAX */
      *out = a > b ? a : b;
      break;
  }
  return fits ? FAULT_NONE : FAULT_OVERFLOW;
}

static bool is_arithmetic(enum kn_expr_op op) {
  return op >= KN_EXPR_ADD && op <= KN_EXPR_MAX;
}

static bool compare(enum kn_expr_op op, int64_t a, int64_t b) {
  switch (op) {
    case KN_EXPR_LT:
      return a < b;
    case KN_EXPR_LE:
      return a <= b;
    case KN_EXPR_GT:
      return a > b;
    default: /* KN_EXPR_GE */
      return a >= b;
  }
}

static kiln_status fail_at(kiln_status status, const struct evaluation *e,
                           const struct kn_expr *expr, const char *what) {
  const struct kn_mark *mark = &expr->mark;
  return kn_fail_at(status, mark->file, mark->line, mark->column, "'%s' %s",
                    e->root->text ? e->root->text : "?", what);
}

static kiln_status report(enum fault fault, const struct evaluation *e,
                          const struct kn_expr *expr) {
  if (fault == FAULT_NONE) return KILN_OK;
  return fail_at(KILN_E_UNSUPPORTED, e, expr,
                 fault == FAULT_OVERFLOW ? "does not fit 64 bits"
                                         : "divides by a number that is not positive");
}

static kiln_status unknown(const struct evaluation *e, const struct kn_expr *expr) {
  const struct kn_mark *mark = &expr->mark;
  return kn_fail_at(KILN_E_SPEC, mark->file, mark->line, mark->column,
                    "'%s' in '%s' has no value here", expr->name,
                    e->root->text ? e->root->text : "?");
}

static bool value_of(const struct kn_env *env, const char *name, struct kn_value *out) {
  return env && env->value && env->value(env->user, name, out);
}

/* Bytes of an element of a dtype or a dtype param, else whatever the environment knows. */
static bool size_of(const struct kn_env *env, const char *name, double *out) {
  kiln_dtype dtype = kn_dtype_parse(name);
  struct kn_value value = {0};

  if (dtype == KILN_DTYPE_NONE && value_of(env, name, &value) && value.type == KN_VALUE_DTYPE) {
    dtype = (kiln_dtype)value.number;
  }
  if (dtype != KILN_DTYPE_NONE) {
    *out = (double)kn_dtype_bytes(dtype, 8) / 8;
    return true;
  }
  return env && env->size && env->size(env->user, name, out);
}

static bool size_as_int(const struct kn_env *env, const char *name, int64_t *out, bool *is_known) {
  double bytes = 0;
  *is_known = size_of(env, name, &bytes);
  if (!*is_known || !(bytes >= 0 && bytes < 9007199254740992.0)) return false;
  *out = (int64_t)bytes;
  return (double)*out == bytes;
}

static kiln_status eval(const struct evaluation *e, const struct kn_expr *expr,
                        struct kn_value *out);

static kiln_status eval_as(const struct evaluation *e, const struct kn_expr *expr,
                           enum kn_value_type type, int64_t *out) {
  struct kn_value value = {0};
  const kiln_status status = eval(e, expr, &value);
  if (status != KILN_OK) return status;
  if (value.type != type) {
    return fail_at(KILN_E_SPEC, e, expr,
                   type == KN_VALUE_INT ? "needs an integer here" : "needs true or false here");
  }
  *out = value.number;
  return KILN_OK;
}

static kiln_status eval_size(const struct evaluation *e, const struct kn_expr *expr,
                             struct kn_value *out) {
  bool is_known;
  out->type = KN_VALUE_INT;
  if (size_as_int(e->env, expr->name, &out->number, &is_known)) return KILN_OK;
  if (!is_known) return unknown(e, expr);
  return fail_at(KILN_E_UNSUPPORTED, e, expr, "is no whole number of bytes");
}

static kiln_status eval_equal(const struct evaluation *e, const struct kn_expr *expr, bool *out) {
  struct kn_value a = {0}, b = {0};
  kiln_status status = eval(e, expr->left, &a);
  if (status == KILN_OK) status = eval(e, expr->right, &b);
  if (status != KILN_OK) return status;
  if (a.type != b.type) return fail_at(KILN_E_SPEC, e, expr, "compares values of different types");
  *out = a.type == KN_VALUE_WORD ? strcmp(a.word, b.word) == 0 : a.number == b.number;
  return KILN_OK;
}

/* and, or, -> and not; the right side only where the left does not decide. */
static kiln_status eval_logic(const struct evaluation *e, const struct kn_expr *expr,
                              int64_t *out) {
  int64_t left = 0;
  const kiln_status status = eval_as(e, expr->left, KN_VALUE_BOOL, &left);
  if (status != KILN_OK) return status;
  switch (expr->op) {
    case KN_EXPR_NOT:
      *out = !left;
      return KILN_OK;
    case KN_EXPR_AND:
      *out = 0;
      return left ? eval_as(e, expr->right, KN_VALUE_BOOL, out) : KILN_OK;
    case KN_EXPR_OR:
      *out = 1;
      return left ? KILN_OK : eval_as(e, expr->right, KN_VALUE_BOOL, out);
    default: /* KN_EXPR_IMPLIES */
      *out = 1;
      return left ? eval_as(e, expr->right, KN_VALUE_BOOL, out) : KILN_OK;
  }
}

static kiln_status eval_numbers(const struct evaluation *e, const struct kn_expr *expr,
                                struct kn_value *out) {
  const bool is_negate = expr->op == KN_EXPR_NEGATE;
  int64_t a = 0, b = 0;
  kiln_status status = eval_as(e, expr->left, KN_VALUE_INT, &a);
  if (status == KILN_OK && !is_negate) status = eval_as(e, expr->right, KN_VALUE_INT, &b);
  if (status != KILN_OK) return status;

  out->type = KN_VALUE_INT;
  if (is_negate) return report(arithmetic(KN_EXPR_SUB, 0, a, &out->number), e, expr);
  if (is_arithmetic(expr->op)) {
    return report(arithmetic(expr->op, a, b, &out->number), e, expr);
  }
  out->type = KN_VALUE_BOOL;
  out->number = compare(expr->op, a, b);
  return KILN_OK;
}

static kiln_status eval(const struct evaluation *e, const struct kn_expr *expr,
                        struct kn_value *out) {
  bool equal = false;
  kiln_status status;

  switch (expr->op) {
    case KN_EXPR_CONSTANT:
      *out = expr->constant;
      return KILN_OK;
    case KN_EXPR_NAME:
      return value_of(e->env, expr->name, out) ? KILN_OK : unknown(e, expr);
    case KN_EXPR_SIZE:
      return eval_size(e, expr, out);
    case KN_EXPR_PRESENT:
      out->type = KN_VALUE_BOOL;
      if (!e->env || !e->env->present || !e->env->present(e->env->user, expr->name, &equal)) {
        return unknown(e, expr);
      }
      out->number = equal;
      return KILN_OK;
    case KN_EXPR_EQ:
    case KN_EXPR_NE:
      status = eval_equal(e, expr, &equal);
      *out = (struct kn_value){.type = KN_VALUE_BOOL, .number = equal == (expr->op == KN_EXPR_EQ)};
      return status;
    case KN_EXPR_NOT:
    case KN_EXPR_AND:
    case KN_EXPR_OR:
    case KN_EXPR_IMPLIES:
      out->type = KN_VALUE_BOOL;
      return eval_logic(e, expr, &out->number);
    default:
      return eval_numbers(e, expr, out);
  }
}

kiln_status kn_expr_eval(const struct kn_expr *expr, const struct kn_env *env,
                         struct kn_value *out) {
  const struct evaluation e = {expr, env};
  struct kn_value value = {0};
  const kiln_status status = eval(&e, expr, &value);
  if (status == KILN_OK) *out = value;
  return status;
}

kiln_status kn_expr_eval_int(const struct kn_expr *expr, const struct kn_env *env, int64_t *out) {
  const struct evaluation e = {expr, env};
  struct kn_value value = {0};
  const kiln_status status = eval(&e, expr, &value);
  if (status != KILN_OK) return status;
  if (value.type != KN_VALUE_INT && value.type != KN_VALUE_BOOL) {
    return fail_at(KILN_E_SPEC, &e, expr, "must be an integer");
  }
  *out = value.number;
  return KILN_OK;
}

kiln_status kn_expr_eval_bool(const struct kn_expr *expr, const struct kn_env *env, bool *out) {
  const struct evaluation e = {expr, env};
  struct kn_value value = {0};
  const kiln_status status = eval(&e, expr, &value);
  if (status != KILN_OK) return status;
  if (value.type != KN_VALUE_BOOL) return fail_at(KILN_E_SPEC, &e, expr, "must be true or false");
  *out = value.number != 0;
  return KILN_OK;
}

/* floor() without libm; a double of 2^52 or more is whole. */
static double floor_of(double x) {
  double whole;
  if (!(x > -4503599627370496.0 && x < 4503599627370496.0)) return x;
  whole = (double)(int64_t)x;
  return whole > x ? whole - 1 : whole;
}

static double number_arithmetic(enum kn_expr_op op, double a, double b) {
  switch (op) {
    case KN_EXPR_ADD:
      return a + b;
    case KN_EXPR_SUB:
      return a - b;
    case KN_EXPR_MUL:
      return a * b;
    case KN_EXPR_DIV:
      return floor_of(a / b);
    case KN_EXPR_MOD:
      return a - floor_of(a / b) * b;
    case KN_EXPR_CEIL_DIV:
      return -floor_of(-a / b);
    case KN_EXPR_ALIGN:
      return -floor_of(-a / b) * b;
    case KN_EXPR_MIN:
      return a < b ? a : b;
    default: /* KN_EXPR_MAX */
      return a > b ? a : b;
  }
}

static kiln_status number(const struct evaluation *e, const struct kn_expr *expr, double *out) {
  double a = 0, b = 0;
  int64_t whole = 0;
  kiln_status status;

  if (expr->op == KN_EXPR_SIZE) {
    return size_of(e->env, expr->name, out) ? KILN_OK : unknown(e, expr);
  }
  if (expr->op == KN_EXPR_NEGATE) {
    status = number(e, expr->left, &a);
    *out = 0 - a;
    return status;
  }
  if (!is_arithmetic(expr->op)) {
    status = eval_as(e, expr, KN_VALUE_INT, &whole);
    *out = (double)whole;
    return status;
  }
  status = number(e, expr->left, &a);
  if (status == KILN_OK) status = number(e, expr->right, &b);
  if (status != KILN_OK) return status;
  if (divides(expr->op) && !(b > 0)) return report(FAULT_DIVISOR, e, expr);
  *out = number_arithmetic(expr->op, a, b);
  if (!(*out >= -DBL_MAX && *out <= DBL_MAX)) return report(FAULT_OVERFLOW, e, expr);
  return KILN_OK;
}

kiln_status kn_expr_eval_number(const struct kn_expr *expr, const struct kn_env *env, double *out) {
  const struct evaluation e = {expr, env};
  double value = 0;
  const kiln_status status = number(&e, expr, &value);
  if (status == KILN_OK) *out = value;
  return status;
}

/* scale * name + offset; name is NULL where scale is 0. */
struct linear {
  const char *name;
  int64_t scale, offset;
};

struct linear_search {
  const struct kn_env *env;
  bool (*is_unknown)(void *user, const char *name);
  void *user;
};

static bool linear_name(const struct linear_search *s, const char *name, struct linear *out) {
  struct kn_value value = {0};
  if (s->is_unknown(s->user, name)) {
    *out = (struct linear){name, 1, 0};
    return true;
  }
  if (!value_of(s->env, name, &value) || value.type != KN_VALUE_INT) return false;
  *out = (struct linear){NULL, 0, value.number};
  return true;
}

static bool linear_sum(enum kn_expr_op op, struct linear a, struct linear b, struct linear *out) {
  if (a.name && b.name && strcmp(a.name, b.name) != 0) return false;
  out->name = a.name ? a.name : b.name;
  return arithmetic(op, a.scale, b.scale, &out->scale) == FAULT_NONE &&
         arithmetic(op, a.offset, b.offset, &out->offset) == FAULT_NONE;
}

static bool linear_form(const struct linear_search *s, const struct kn_expr *expr,
                        struct linear *out) {
  struct linear a = {0}, b = {0};
  bool is_known;

  *out = (struct linear){0};
  if (expr->op == KN_EXPR_CONSTANT) {
    out->offset = expr->constant.number;
    return expr->constant.type == KN_VALUE_INT;
  }
  if (expr->op == KN_EXPR_NAME) return linear_name(s, expr->name, out);
  if (expr->op == KN_EXPR_SIZE) return size_as_int(s->env, expr->name, &out->offset, &is_known);
  if (expr->op == KN_EXPR_NEGATE) {
    return linear_form(s, expr->left, &b) && linear_sum(KN_EXPR_SUB, a, b, out);
  }
  if (!is_arithmetic(expr->op)) return false;
  if (!linear_form(s, expr->left, &a) || !linear_form(s, expr->right, &b)) return false;
  if (expr->op == KN_EXPR_ADD || expr->op == KN_EXPR_SUB) return linear_sum(expr->op, a, b, out);
  if (expr->op == KN_EXPR_MUL && !(a.name && b.name)) {
    const struct linear factor = a.name ? b : a, form = a.name ? a : b;
    out->name = form.name;
    return multiply(form.scale, factor.offset, &out->scale) &&
           multiply(form.offset, factor.offset, &out->offset);
  }
  return !a.name && !b.name && arithmetic(expr->op, a.offset, b.offset, &out->offset) == FAULT_NONE;
}

bool kn_expr_linear(const struct kn_expr *expr, const struct kn_env *env,
                    bool (*is_unknown)(void *user, const char *name), void *user,
                    const char **out_name, int64_t *out_scale, int64_t *out_offset) {
  const struct linear_search search = {env, is_unknown, user};
  struct linear form;
  if (!linear_form(&search, expr, &form) || !form.name || form.scale <= 0) return false;
  *out_name = form.name;
  *out_scale = form.scale;
  *out_offset = form.offset;
  return true;
}

bool kn_expr_same(const struct kn_expr *a, const struct kn_expr *b) {
  if (!a || !b) return a == b;
  if (a->op != b->op) return false;
  if (a->op == KN_EXPR_NAME || a->op == KN_EXPR_SIZE) return strcmp(a->name, b->name) == 0;
  if (a->op == KN_EXPR_CONSTANT) {
    return a->constant.type == b->constant.type && a->constant.number == b->constant.number &&
           a->constant.type != KN_VALUE_WORD;
  }
  return kn_expr_same(a->left, b->left) && kn_expr_same(a->right, b->right);
}

void kn_expr_each_name(const struct kn_expr *expr,
                       void (*visit)(void *user, const char *name, struct kn_mark mark),
                       void *user) {
  const bool is_dtype = expr->op == KN_EXPR_SIZE && kn_dtype_parse(expr->name) != KILN_DTYPE_NONE;
  if (expr->name && !is_dtype && expr->op != KN_EXPR_PRESENT) visit(user, expr->name, expr->mark);
  if (expr->left) kn_expr_each_name(expr->left, visit, user);
  if (expr->right) kn_expr_each_name(expr->right, visit, user);
}
