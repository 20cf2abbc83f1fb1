/* SPDX-License-Identifier: MIT */
/*
 * Expressions of specs: shapes, requirements, launch and workspace sizes, bytes.
 *
 *   a + b  a - b  a * b  a / b  a % b  -a        integers; / and % floor, b > 0
 *   ceil_div(a, b)  align(a, b)  min(a, b)  max(a, b)
 *   a == b  a != b  a < b  a <= b  a > b  a >= b    give a bool; == and != also compare dtypes,
 * words not p   p and q   p or q   p -> q               (-> binds loosest, then or, and, not)
 *   size(x)                                      bytes of an element of dtype param x, or of tensor
 * x present(x)                                 whether optional tensor or scalar x is there
 * names, integers, true, false, dtype names
 */
#ifndef KILN_SPEC_EXPR_H
#define KILN_SPEC_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/kiln.h>

#include "base/arena.h"

/* A place in a file; file may be NULL for text that came from elsewhere. */
struct kn_mark {
  const char *file;
  int line, column;
};

enum kn_value_type { KN_VALUE_INT = 1, KN_VALUE_BOOL, KN_VALUE_DTYPE, KN_VALUE_WORD };

struct kn_value {
  enum kn_value_type type;
  int64_t number;   /* int; bool 0 or 1; kiln_dtype */
  const char *word; /* KN_VALUE_WORD only: a value of a param of type word */
};

enum kn_expr_op {
  KN_EXPR_CONSTANT,
  KN_EXPR_NAME,
  KN_EXPR_SIZE,
  KN_EXPR_PRESENT,
  KN_EXPR_NEGATE,
  KN_EXPR_NOT,
  KN_EXPR_ADD,
  KN_EXPR_SUB,
  KN_EXPR_MUL,
  KN_EXPR_DIV,
  KN_EXPR_MOD,
  KN_EXPR_CEIL_DIV,
  KN_EXPR_ALIGN,
  KN_EXPR_MIN,
  KN_EXPR_MAX,
  KN_EXPR_EQ,
  KN_EXPR_NE,
  KN_EXPR_LT,
  KN_EXPR_LE,
  KN_EXPR_GT,
  KN_EXPR_GE,
  KN_EXPR_AND,
  KN_EXPR_OR,
  KN_EXPR_IMPLIES
};

struct kn_expr {
  enum kn_expr_op op;
  struct kn_value constant; /* KN_EXPR_CONSTANT */
  const char *name;         /* KN_EXPR_NAME, KN_EXPR_SIZE, KN_EXPR_PRESENT */
  const struct kn_expr *left, *right;
  struct kn_mark mark;
  const char *text; /* the root only: source text, for messages */
};

/* What names stand for. All return false for an unknown name. `size` and `present` may be NULL. */
struct kn_env {
  bool (*value)(void *user, const char *name, struct kn_value *out);
  bool (*size)(void *user, const char *name, double *out_bytes);
  void *user;
  bool (*present)(void *user, const char *name, bool *out);
};

/* Parses `text`; nodes live in `arena`. `mark` is where the text begins. KILN_E_SPEC, with the
   column inside the text, on a syntax error, too deep nesting (64) or too long text (1024). */
kiln_status kn_expr_parse(struct kn_arena *arena, const char *text, struct kn_mark mark,
                          const struct kn_expr **out);

/* Evaluates in 64-bit integers. KILN_E_SPEC on an unknown name or mixed types,
   KILN_E_UNSUPPORTED on overflow or division by zero. */
kiln_status kn_expr_eval(const struct kn_expr *expr, const struct kn_env *env,
                         struct kn_value *out);
/* The same, and the result must be an integer (or a bool). */
kiln_status kn_expr_eval_int(const struct kn_expr *expr, const struct kn_env *env, int64_t *out);
kiln_status kn_expr_eval_bool(const struct kn_expr *expr, const struct kn_env *env, bool *out);
/* Evaluates `bytes:` in doubles, since size(e2m1) is 0.5. */
kiln_status kn_expr_eval_number(const struct kn_expr *expr, const struct kn_env *env, double *out);

/* Writes expr as scale * name + offset with constant integers and scale > 0 if it has that form
   and exactly one name in it that `is_unknown` accepts; other names are valued by `env`. */
bool kn_expr_linear(const struct kn_expr *expr, const struct kn_env *env,
                    bool (*is_unknown)(void *user, const char *name), void *user,
                    const char **out_name, int64_t *out_scale, int64_t *out_offset);

/* Whether two expressions are written alike. */
bool kn_expr_same(const struct kn_expr *a, const struct kn_expr *b);

/* Calls `visit` for every name in expr (those of size() included, those of present() not). */
void kn_expr_each_name(const struct kn_expr *expr,
                       void (*visit)(void *user, const char *name, struct kn_mark mark),
                       void *user);

#endif
