/* SPDX-License-Identifier: MIT */
/* What the files of the planner share while a plan is made. */
#ifndef KILN_PLAN_PLANNER_H
#define KILN_PLAN_PLANNER_H

#include "plan/plan.h"

enum { KN_MAX_TILE = 16, KN_MAX_CONSTANTS = 256, KN_MAX_LINES = 32, KN_MAX_COLUMN_TENSORS = 4 };

struct kn_tile_value {
  const char *name;
  int64_t value;
  bool given; /* by the spec or the request, not by the planner */
};

struct kn_lines {
  const char *lines[KN_MAX_LINES];
  size_t count;
};

/* What a chain comes to, as the skeletons need it. */
struct kn_chain {
  int parts;                         /* 2: gate and up halves */
  int64_t cols;                      /* logical columns */
  const struct kn_expr *rows;        /* run-time rows: a name, or a product */
  const char *rows_text, *rows_cuda; /* the same as text of an expression and of CUDA */
  int load, data, sf;                /* tensor indices; data or sf is -1 if it is not stored */
  kiln_dtype format;                 /* of what is stored: codes, or values */
  int64_t sf_rows, sf_cols;
  kiln_dtype sf_dtype; /* of the scale factors that are computed */
  bool has_global;     /* they are in units of a number */
  bool requantizes;    /* the loaded codes are moved to other blocks */
  bool computes_sf;    /* else each value is stored by itself: no scale is computed */
  enum kn_sf_layout layout;
  bool transposed;
  bool has_row_stage;        /* one that needs a row's sum */
  bool has_matrices;         /* besides the loaded one */
  bool counts;               /* a gate counts what it clamps */
  bool counts_nonfinite;     /* quantize counts what is NaN or infinite */
  bool skips, keeps_skipped; /* rows may be skipped; they are left as they were, not zeroed */
  bool is_bf16;              /* what is quantised are bf16 numbers */
  bool keeps_zero;           /* zeros, which stand for what is outside the matrix, stay zeros */
  int columns[KN_MAX_COLUMN_TENSORS]; /* tensors read by column, as a row's values are */
  int num_columns;
};

struct kn_planner {
  struct kn_plan *plan;
  struct kn_tile_value tile[KN_MAX_TILE];
  size_t num_tile;
  struct kn_plan_constant constants[KN_MAX_CONSTANTS];
  size_t num_constants;
  struct kn_lines early, after_load, load, row, store, text, headers; /* early: before the load */
  struct kn_chain chain;
};

/* Values of params (and of run-time sizes where `dims` is given, one per plan dim). */
struct kn_scope {
  const struct kn_plan *plan;
  const int64_t *dims;
  int64_t num_sms; /* 0: num_sms is no name here */
  /* The value of an integer scalar, false if it is not known; NULL: scalars are no names here. */
  bool (*scalar)(void *user, size_t index, int64_t *out);
  void *user;
};
struct kn_env kn_scope_env(const struct kn_scope *scope);

/* params.c */
kiln_status kn_plan_params(struct kn_planner *p, const kiln_param *given, size_t num_given);
/* Checks the requirements that name params only; notes which are left for launches. */
kiln_status kn_plan_check_requires(struct kn_plan *plan);
/* One requirement; `broken`, with the values of its names, where it does not hold. */
kiln_status kn_check_rule(const struct kn_scope *scope, const struct kn_require_spec *rule,
                          kiln_status broken);
/* How a param's value is written in a request; in `arena`. */
const char *kn_param_text(struct kn_arena *arena, const struct kn_value *value);

/* chain.c: composes the stages; fills chain, phases' lines and text. */
kiln_status kn_plan_chain(struct kn_planner *p);
/* skeleton.c: chooses the template, its constants, its step. */
kiln_status kn_plan_skeleton(struct kn_planner *p);

/* Adds a constant; `value` lives in the plan's arena or is a literal. */
kiln_status kn_add_constant(struct kn_planner *p, enum kn_constant_kind kind, const char *name,
                            const char *value);
kiln_status kn_add_int(struct kn_planner *p, const char *name, int64_t value);
kiln_status kn_add_bool(struct kn_planner *p, const char *name, bool value);
/* The tile entry `name`, or `fallback`, which is then recorded. */
int64_t kn_tile(struct kn_planner *p, const char *name, int64_t fallback);

/* An expression from text that the planner wrote; never fails but for memory. */
kiln_status kn_make_expr(struct kn_plan *plan, const char *text, const struct kn_expr **out);
const struct kn_expr *kn_make_int(struct kn_plan *plan, int64_t value);
const struct kn_expr *kn_make_binary(struct kn_plan *plan, enum kn_expr_op op,
                                     const struct kn_expr *left, const struct kn_expr *right);

kiln_status kn_plan_no_memory(const struct kn_plan *plan);

#endif
