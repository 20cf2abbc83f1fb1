/* SPDX-License-Identifier: MIT */
/*
 * A spec as read from YAML: one operator. Nothing is resolved yet; every value knows its place.
 *
 *   kiln: 1                            format version, may be left out (1)
 *   operator: NAME
 *   about: one line                    optional
 *   params:   {NAME: {type: int|bool|dtype|word, min:, max:, multiple_of:, one_of: [..], default:,
 *                     sweep: [int, ..]}}   sweep: what `kiln run --all` tries of an int
 *   require:  [expr, ..]               or {rule: expr, why: text}; one that names run-time sizes or
 *                                      scalars is checked at launch
 *   scalars:  {NAME: {type: f32|i32|i64, optional: bool, range: [expr, expr]}}   both included
 *   tensors:  {NAME: {role: in|out|inout, dtype:, shape: [expr, ..], strides: [any|1|expr, ..],
 *                     optional: bool, list: bool, sf_of: TENSOR, block: [expr, expr],
 *                     range: expr}}        range: elements are indices below it, or negative: none
 *   chain:    [stage | {stage: value} | {stage: {key: value, ..}}, ..]      or
 *   template: NAME.cu and launch: [{step:, threads:, grid:, shared:,
 *                  variants: [{function:, align: {TENSOR: bytes}, align_base: {TENSOR: bytes},
 *                              when: expr}]}]
 *   tile:     {NAME: int}              tune: {NAME: [int, ..]}
 *   workspace: expr                    bytes: expr
 *   examples: [{PARAM: value}]
 *
 * Several names may share one declaration: `use_a, use_b: {type: bool}`.
 */
#ifndef KILN_SPEC_SPEC_H
#define KILN_SPEC_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

#include "base/arena.h"
#include "spec/expr.h"

/* Limits against hostile files. */
enum {
  KN_SPEC_MAX_BYTES = 256 * 1024,
  KN_SPEC_MAX_DEPTH = 16,
  KN_SPEC_MAX_NODES = 16 * 1024,
  KN_SPEC_MAX_ENTRIES = 64, /* params, tensors, scalars, stages, steps, ... each */
  KN_SPEC_MAX_NAME = 96
};

struct kn_param_spec {
  const char *name;
  struct kn_mark mark;
  enum kn_value_type type;
  bool has_min, has_max, has_default;
  int64_t min, max;
  int64_t multiple_of;                 /* 1 if not given */
  const struct kn_expr *const *one_of; /* constants and names of int params; words as constants */
  size_t num_one_of;
  struct kn_value default_value;
  const int64_t *sweep;
  size_t num_sweep;
};

struct kn_require_spec {
  const struct kn_expr *rule;
  const char *why; /* or NULL */
};

struct kn_scalar_spec {
  const char *name;
  struct kn_mark mark;
  kiln_dtype type; /* KILN_F32, KILN_I32 or KILN_I64 */
  bool optional;
  const struct kn_expr *range[2]; /* of an integer: least and largest; or NULL */
};

struct kn_tensor_spec {
  const char *name;
  struct kn_mark mark;
  kiln_role role;
  bool optional;
  bool list;                   /* an array of tensors, one per layer */
  const struct kn_expr *dtype; /* a dtype constant or the name of a dtype param; NULL with sf_of */
  int rank;
  const struct kn_expr *shape[KILN_MAX_RANK];
  bool stride_any[KILN_MAX_RANK];
  const struct kn_expr *strides[KILN_MAX_RANK]; /* NULL: any, or (without `strides:`) contiguous */
  const char *sf_of; /* the tensor it scales: dtype, shape, strides follow from flags */
  const struct kn_expr *block[2]; /* rows, columns that share one scale */
  const struct kn_expr *range;    /* of indices; or NULL */
};

/* An argument of a stage: `key: expr` or `key: [expr, ..]`. `- load: x` has key "". */
struct kn_stage_arg {
  const char *key;
  struct kn_mark mark;
  const struct kn_expr *values[4];
  size_t num_values;
};

struct kn_stage_spec {
  const char *name;
  struct kn_mark mark;
  const struct kn_stage_arg *args;
  size_t num_args;
};

struct kn_align_spec {
  const char *tensor;
  struct kn_mark mark;
  int64_t bytes; /* of the pointer and of every stride but those of 1 element */
  bool is_base;  /* of the pointer only */
};

struct kn_variant_spec {
  const char *function;
  struct kn_mark mark;
  const struct kn_align_spec *aligns;
  size_t num_aligns;
  const struct kn_expr *when; /* or NULL */
};

struct kn_step_spec {
  const char *name;
  struct kn_mark mark;
  const struct kn_expr *threads, *grid, *shared; /* shared may be NULL: 0 */
  const struct kn_variant_spec *variants;        /* the first that fits is launched */
  size_t num_variants;
};

struct kn_tile_spec {
  const char *name;
  struct kn_mark mark;
  int64_t value;
  const int64_t *candidates; /* from `tune:` */
  size_t num_candidates;
};

struct kn_assignment {
  const char *name;
  struct kn_mark mark;
  const char *value; /* as text: "7168", "bf16", "true" */
};

struct kn_example_spec {
  struct kn_mark mark;
  const struct kn_assignment *values;
  size_t num_values;
};

struct kn_spec {
  struct kn_arena arena;
  const char *file;
  const char *name;
  struct kn_mark mark;
  const char *about; /* or NULL */
  const struct kn_param_spec *params;
  size_t num_params;
  const struct kn_require_spec *requires;
  size_t num_requires;
  const struct kn_scalar_spec *scalars;
  size_t num_scalars;
  const struct kn_tensor_spec *tensors;
  size_t num_tensors;
  const struct kn_stage_spec *chain; /* or template_name */
  size_t num_stages;
  const char *template_name;
  struct kn_mark template_mark;
  const struct kn_step_spec *steps;
  size_t num_steps;
  const struct kn_tile_spec *tile;
  size_t num_tile;
  const struct kn_expr *workspace, *bytes; /* or NULL */
  const struct kn_example_spec *examples;
  size_t num_examples;
};

/* Parses one spec. `file` is used in messages and copied. On success the caller releases `*out`
   with kn_spec_free. KILN_E_SPEC with file, line and column. Names and types in expressions are
   checked. Params, words and dtypes may stand in all of them; run-time sizes, which are the other
   names in shapes, in shapes, strides, requirements, ranges, grid, when, workspace and bytes;
   integer scalars that are not optional in requirements and ranges; present() of an optional tensor
   or scalar in requirements; num_sms in grid, when and workspace; size() of a tensor in workspace
   and bytes; tensors and scalars in stages. */
kiln_status kn_spec_parse(const char *file, const char *text, size_t length, struct kn_spec **out);
void kn_spec_free(struct kn_spec *spec);

const struct kn_param_spec *kn_spec_param(const struct kn_spec *spec, const char *name);
const struct kn_tensor_spec *kn_spec_tensor(const struct kn_spec *spec, const char *name);
const struct kn_scalar_spec *kn_spec_scalar(const struct kn_spec *spec, const char *name);

/* Parses a param's value from request text and checks type, range and multiple_of (not one_of,
   which may depend on other params). KILN_E_ARGUMENT: "op: hidden is 'x'; allowed is ...". */
kiln_status kn_spec_parse_value(const struct kn_spec *spec, const struct kn_param_spec *param,
                                const char *text, struct kn_value *out);

/* The spec as JSON, as kiln_operator_text gives it (KILN_TEXT_SPEC). NULL when out of memory.
   Keys: operator, about, file, template (NULL for chains), params [{name, type, min, max,
   multiple_of, one_of, default, sweep}], scalars [{name, type, optional, range}], tensors [{name,
   role, dtype, shape, strides, optional, list, sf_of, block, range}], require [text], chain [text],
   tile {name: value}, tune {name: [values]}, bytes, workspace, examples [{name: value}].
   Expressions as text. */
char *kn_spec_json(const struct kn_spec *spec);

#endif
