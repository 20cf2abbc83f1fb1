/* SPDX-License-Identifier: MIT */
/*
 * spec + request + limits -> plan: everything that is compiled in, and how to launch it.
 * Binding: plan + launch arguments -> the bytes of kiln_args, grids and chosen variants.
 * Both are pure functions.
 */
#ifndef KILN_PLAN_PLAN_H
#define KILN_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

#include "base/arena.h"
#include "plan/limits.h"
#include "spec/spec.h"

enum { KN_MAX_ARGS = 96, KN_MAX_DIMS = 16, KN_MAX_STEPS = 8 };

enum kn_sf_layout { KN_SF_ROW_MAJOR = 0, KN_SF_COL_MAJOR, KN_SF_PACKED_UE8M0 };

struct kn_plan_tensor {
  const struct kn_tensor_spec *spec;
  bool present;
  kiln_dtype dtype;
  int rank;
  const struct kn_expr *shape[KILN_MAX_RANK]; /* over params and dims */
  bool stride_free[KILN_MAX_RANK];
  bool is_sf;
  enum kn_sf_layout sf_layout;
};

/* One 8-byte slot of `struct kiln_args`. Slots: first each run-time size, then for each tensor its
   pointer and its free strides, then each scalar, last the workspace of operators that have one,
   which a launch fills in. An absent tensor or scalar keeps its slots, 0. */
enum kn_slot_kind {
  KN_SLOT_DIM,
  KN_SLOT_TENSOR,
  KN_SLOT_STRIDE,
  KN_SLOT_SCALAR,
  KN_SLOT_WORKSPACE
};
struct kn_plan_slot {
  enum kn_slot_kind kind;
  const char *field;  /* num_tokens; x; x_stride0, out_sf_ld (column-major sf); sf_clamp_min */
  const char *c_type; /* "i64", "const x_t*", "f32" */
  int index;          /* of the dim, tensor or scalar */
  int axis;           /* KN_SLOT_STRIDE */
};

enum kn_constant_kind {
  KN_CONSTANT_INT,
  KN_CONSTANT_I64,
  KN_CONSTANT_BOOL,
  KN_CONSTANT_TYPE,
  KN_CONSTANT_LAYOUT,
  KN_CONSTANT_ROW_HELD
};
struct kn_plan_constant {
  enum kn_constant_kind kind;
  const char *name;  /* HIDDEN, ROUND_SF, in_dtype_t */
  const char *value; /* as CUDA text */
};

/* A generated function of a chain: chain_num_rows, chain_load or chain_store. In the latter two a
   stage is a line. */
struct kn_plan_phase {
  const char *signature; /* up to the opening brace */
  const char *const *lines;
  size_t num_lines;
};

struct kn_plan_variant {
  const char *function;
  const struct kn_align_spec *aligns;
  size_t num_aligns;
  const struct kn_expr *when; /* or NULL */
};

struct kn_plan_step {
  const char *name;
  int threads;
  int shared_bytes;
  const struct kn_expr *grid; /* over params, dims and num_sms */
  const struct kn_plan_variant *variants;
  size_t num_variants;
};

struct kn_plan_scalar {
  const struct kn_scalar_spec *spec;
  bool present;
  double min; /* refused below, and not finite values too, where has_min */
  bool has_min;
};

struct kn_plan {
  struct kn_arena arena;
  const struct kn_spec *spec; /* outlives the plan */
  const struct kn_limits *limits;
  struct kn_value *params; /* one per spec param */
  const char *const *dims; /* run-time sizes, in order of first mention */
  size_t num_dims;
  bool dim_is_absent[KN_MAX_DIMS];        /* only absent tensors have it: it is 1 */
  bool rule_is_late[KN_SPEC_MAX_ENTRIES]; /* of each requirement: it is checked at launch */
  struct kn_plan_tensor *tensors;         /* one per spec tensor */
  struct kn_plan_scalar *scalars;         /* one per spec scalar */
  const struct kn_plan_slot *slots;
  size_t num_slots;
  const struct kn_plan_constant *constants;
  size_t num_constants;
  const char *template_path;  /* "templates/channel.cu" */
  const char *const *headers; /* "kiln/stage/swiglu.cuh" that the stages of a chain need */
  size_t num_headers;
  const struct kn_plan_phase *phases;
  size_t num_phases;
  const struct kn_plan_step *steps;
  size_t num_steps;
  const struct kn_expr *workspace, *bytes;
  const char *row_held;   /* where a whole row waits, or NULL */
  const char *chain_text; /* KILN_TEXT_CHAIN; "" for templates */
  const char *canonical;  /* "op name=value ..." with every param, tile entry and presence */
};

/* Plans a request. KILN_E_NOT_FOUND, KILN_E_ARGUMENT, KILN_E_UNSUPPORTED as kiln_get says.
   The caller frees `*out` with kn_plan_free. */
kiln_status kn_plan_make(const struct kn_spec *spec, const struct kn_limits *limits,
                         const kiln_param *params, size_t num_params, struct kn_plan **out);
void kn_plan_free(struct kn_plan *plan);

/* Solves params from launch arguments: fills `out_params` (texts in `arena`) with `given` and what
   tensors add, presence included. KILN_E_ARGUMENT on a contradiction. */
kiln_status kn_plan_solve(const struct kn_spec *spec, struct kn_arena *arena,
                          const kiln_param *given, size_t num_given, const kiln_arg *args,
                          size_t num_args, kiln_param **out_params, size_t *out_num_params);

/* A launch, ready to go. */
struct kn_bound_step {
  int step, variant;
  int64_t grid; /* 0: nothing to launch */
  int threads, shared_bytes;
};
struct kn_bound {
  int64_t dims[KN_MAX_DIMS];
  uint64_t args[KN_MAX_ARGS]; /* kiln_args, num_slots * 8 bytes */
  struct kn_bound_step steps[KN_MAX_STEPS];
  int num_steps;
  uint64_t workspace_bytes;
};

/* Checks launch arguments against the plan and binds them; touches no memory behind a pointer.
   Allocates nothing. `num_sms` is what a grid expression sees. KILN_E_ARGUMENT with a sentence. */
kiln_status kn_plan_bind(const struct kn_plan *plan, const kiln_arg *args, size_t num_args,
                         int num_sms, struct kn_bound *out);

/* Describes argument `index` (tensors in spec order, then scalars) for given run-time sizes; `dims`
   may give values of integer scalars too, on which ranges depend. */
kiln_status kn_plan_arg_info(const struct kn_plan *plan, size_t index, const kiln_dim *dims,
                             size_t num_dims, kiln_arg_info *info);
kiln_status kn_plan_bytes(const struct kn_plan *plan, const kiln_dim *dims, size_t num_dims,
                          uint64_t *out_bytes);

#endif
