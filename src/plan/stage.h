/* SPDX-License-Identifier: MIT */
/* What the stages of a chain share while they are composed. */
#ifndef KILN_PLAN_STAGE_H
#define KILN_PLAN_STAGE_H

#include "base/attributes.h"
#include "plan/planner.h"

/* What a chain holds between two stages. */
enum kn_chain_state {
  KN_CHAIN_NOTHING,
  KN_CHAIN_RAW, /* codes that were loaded */
  KN_CHAIN_VALUES,
  KN_CHAIN_CODES,
  KN_CHAIN_STORED
};

struct kn_composer {
  struct kn_planner *p;
  enum kn_chain_state state;
  int parts;              /* of the values held: 2 before swiglu */
  int64_t columns;        /* of one part */
  struct kn_lines *lines; /* of the function that the next stage is in */
  int row_first;          /* the variable that the row's function begins with */
  int next;               /* number of the next variable */
  int loaded;             /* of the variable that is quantised or stored */
  bool is_raw;            /* what was loaded are codes */
  const char *source;     /* the matrix's row of a row of the chain as CUDA */
};

kiln_status kn_stage_fail(const struct kn_composer *c, const struct kn_stage_spec *stage,
                          const char *format, ...) KN_PRINTF(3, 4);

/* An argument of a stage, or NULL where the stage does not have it. */
const struct kn_stage_arg *kn_find_stage_arg(const struct kn_stage_spec *stage, const char *key);
/* The name that an argument is, or NULL where the stage does not have it. */
const char *kn_stage_arg_name(const struct kn_stage_spec *stage, const char *key);
kiln_status kn_stage_value(const struct kn_composer *c, const struct kn_stage_arg *arg,
                           size_t index, enum kn_value_type type, struct kn_value *out);
/* -1 if there is none */
int kn_tensor_index(const struct kn_plan *plan, const char *name);
int kn_scalar_index(const struct kn_plan *plan, const char *name);
/* A scalar argument as CUDA: `a.name`, or `none{}` where it is absent. */
kiln_status kn_stage_scalar_text(const struct kn_composer *c, const struct kn_stage_spec *stage,
                                 const char *name, const char **out, bool *out_present);
/* An input tensor that an argument names, of one of `num_dtypes` dtypes and of the rank given;
 *out_index is -1 where the argument is not there or the tensor is absent. */
kiln_status kn_stage_input(const struct kn_composer *c, const struct kn_stage_spec *stage,
                           const char *key, int rank, const kiln_dtype *dtypes, size_t num_dtypes,
                           int *out_index);
/* The same for one of `extent` elements that a kernel reads and writes. */
kiln_status kn_stage_counters(const struct kn_composer *c, const struct kn_stage_spec *stage,
                              const char *key, kiln_dtype dtype, int64_t extent, int *out_index);
/* What argument `error` adds to a stage with an index tensor, read as `index` in CUDA and below
   `range`: a line that notes what is out of range, and *out its text; both may be absent. */
kiln_status kn_stage_error(const struct kn_composer *c, const struct kn_stage_spec *stage,
                           struct kn_lines *lines, const char *index, const char *range,
                           const char **out);
/* Whether an argument names an optional tensor that is absent. */
bool kn_stage_is_absent(const struct kn_composer *c, const struct kn_stage_spec *stage,
                        const char *key);
/* Whether an extent is the number of the chain's rows. */
bool kn_stage_is_rows(const struct kn_composer *c, const struct kn_expr *extent);
/* An extent as CUDA: a number or `a.NAME`. */
kiln_status kn_stage_extent(const struct kn_composer *c, const struct kn_stage_spec *stage,
                            const struct kn_plan_tensor *tensor, int axis, const char **out);

kiln_status kn_stage_line(const struct kn_composer *c, struct kn_lines *lines, const char *line);
/* A stage that turns values into values: `auto vN = stage::NAME<TYPES>(c, vN-1ARGUMENTS);` */
kiln_status kn_stage_call(struct kn_composer *c, struct kn_lines *lines, const char *name,
                          const char *types, const char *arguments);

/* The block of rows and columns, both from 1 on, that an argument gives. */
kiln_status kn_stage_block(const struct kn_composer *c, const struct kn_stage_spec *stage,
                           const char *key, int64_t out[2]);
/* Refuses a tensor that is no grid of scale factors of blocks of `block` of `rows` x `cols`. */
kiln_status kn_stage_check_grid(const struct kn_composer *c, const struct kn_stage_spec *stage,
                                const struct kn_plan_tensor *sf, const struct kn_expr *rows,
                                int64_t cols, const int64_t block[2]);
/* Scale factors that argument `sf` names, an input: *out gets `a.NAME, ROW STRIDE, COLUMN STRIDE`
   as CUDA. */
kiln_status kn_stage_given_sf(const struct kn_composer *c, const struct kn_stage_spec *stage,
                              const struct kn_expr *rows, int64_t cols, const int64_t block[2],
                              const char **out);

/* load.c: the scale factors of the loaded codes as CUDA, and which row of them is a chain's. */
kiln_status kn_loaded_sf(struct kn_composer *c, const struct kn_stage_spec *stage,
                         const int64_t block[2], const char **out);
kiln_status kn_add_load(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_dequantize(struct kn_composer *c, const struct kn_stage_spec *stage);
/* quantize.c */
kiln_status kn_add_quantize(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_requantize(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_transpose(struct kn_composer *c, const struct kn_stage_spec *stage);
/* store.c */
kiln_status kn_add_store(struct kn_composer *c, const struct kn_stage_spec *stage);
/* rowwise.c */
kiln_status kn_add_residual(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_rmsnorm(struct kn_composer *c, const struct kn_stage_spec *stage);
/* element.c: stages that work on values one by one. */
kiln_status kn_add_gate(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_round(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_activation(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_clamp(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_bias(struct kn_composer *c, const struct kn_stage_spec *stage);
kiln_status kn_add_weight(struct kn_composer *c, const struct kn_stage_spec *stage);

#endif
