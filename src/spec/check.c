/* SPDX-License-Identifier: MIT */
#include "spec/check.h"

#include <string.h>

#include "base/dtype.h"
#include "base/text.h"
#include "spec/field.h"
#include "spec/value.h"

/* What an expression may name besides params and dtypes. */
enum {
  WITH_DIMS = 1,     /* run-time sizes */
  WITH_SMS = 2,      /* num_sms */
  WITH_SIZES = 4,    /* size() of a tensor */
  WITH_ARGS = 8,     /* tensors and scalars, as a whole value */
  WITH_SCALARS = 16, /* values of integer scalars */
  WITH_PRESENT = 32  /* present() */
};

/* An argument of a launch: fits nothing but a stage's value. */
enum { VALUE_ARGUMENT = 0 };

enum { MAX_DIMS = 16, MAX_KNOWN = 4 * KN_SPEC_MAX_ENTRIES + MAX_DIMS + 1 + KN_NUM_DTYPES };

struct checker {
  struct kn_spec *spec;
  struct kn_reader reader;
  const char *dims[MAX_DIMS]; /* run-time sizes */
  struct kn_mark dim_marks[MAX_DIMS];
  size_t num_dims;
  kiln_status status; /* of the visit of names that is under way */
};

/* Where an expression stands: its key, and what it may name. */
struct place {
  const char *what;
  int scope;
};

static bool is_dim(const struct checker *c, const char *name) {
  for (size_t i = 0; i < c->num_dims; i++) {
    if (strcmp(c->dims[i], name) == 0) return true;
  }
  return false;
}

/* The word of a word param that is spelled `name`, or NULL. */
static const struct kn_value *find_word(const struct kn_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->num_params; i++) {
    const struct kn_param_spec *param = &spec->params[i];
    for (size_t k = 0; param->type == KN_VALUE_WORD && k < param->num_one_of; k++) {
      if (strcmp(param->one_of[k]->constant.word, name) == 0) return &param->one_of[k]->constant;
    }
  }
  return NULL;
}

/* ---- names and types of an expression -------------------------------------------------------- */

static const char *type_name(int type) {
  static const char *const names[] = {
      [VALUE_ARGUMENT] = "a tensor or scalar",
      [KN_VALUE_INT] = "an integer",
      [KN_VALUE_BOOL] = "a bool",
      [KN_VALUE_DTYPE] = "a dtype",
      [KN_VALUE_WORD] = "a word",
  };
  return names[type];
}

static kiln_status unknown_name(const struct checker *c, const struct kn_expr *expr,
                                const struct place *place) {
  const struct kn_spec *spec = c->spec;
  const char *known[MAX_KNOWN], *listed;
  size_t count = 0;

  for (size_t i = 0; i < spec->num_params; i++) known[count++] = spec->params[i].name;
  for (size_t i = 0; i < c->num_dims && (place->scope & WITH_DIMS); i++) {
    known[count++] = c->dims[i];
  }
  if (place->scope & WITH_SMS) known[count++] = "num_sms";
  if (expr->op == KN_EXPR_SIZE || (place->scope & WITH_ARGS)) {
    for (size_t i = 0; i < spec->num_tensors; i++) known[count++] = spec->tensors[i].name;
  }
  for (size_t i = 0; i < spec->num_scalars && (place->scope & (WITH_ARGS | WITH_SCALARS)); i++) {
    known[count++] = spec->scalars[i].name;
  }
  known[count] = "dtypes";
  listed = kn_spell(c->reader.arena, known, count + 1);
  for (size_t i = 0; i < KN_NUM_DTYPES; i++) known[count++] = kn_dtype_words[i];
  for (size_t i = 0; i < spec->num_params; i++) {
    const struct kn_param_spec *param = &spec->params[i];
    for (size_t k = 0; param->type == KN_VALUE_WORD && k < param->num_one_of; k++) {
      if (count < MAX_KNOWN) known[count++] = param->one_of[k]->constant.word;
    }
  }
  return kn_fail_mark(expr->mark, "%s names '%s'%s; known here are %s", place->what,
                      kn_shown(c->reader.arena, expr->name),
                      kn_suggest(c->reader.arena, expr->name, known, count), listed);
}

static kiln_status not_here(const struct kn_expr *expr, const struct place *place,
                            const char *kind) {
  return kn_fail_mark(expr->mark, "%s may not depend on '%s', which is %s", place->what, expr->name,
                      kind);
}

static kiln_status infer_name(const struct checker *c, const struct kn_expr *expr,
                              const struct place *place, int *out) {
  const struct kn_param_spec *param = kn_spec_param(c->spec, expr->name);
  const bool is_sms = strcmp(expr->name, "num_sms") == 0;
  const bool is_argument =
      kn_spec_tensor(c->spec, expr->name) || kn_spec_scalar(c->spec, expr->name);
  const struct kn_scalar_spec *scalar = kn_spec_scalar(c->spec, expr->name);
  const struct kn_value *word;

  *out = KN_VALUE_INT;
  if (scalar && scalar->type != KILN_F32 && !scalar->optional && (place->scope & WITH_SCALARS)) {
    return KILN_OK;
  }
  if (param) {
    *out = (int)param->type;
    return KILN_OK;
  }
  if (is_dim(c, expr->name)) {
    return place->scope & WITH_DIMS ? KILN_OK : not_here(expr, place, "a run-time size");
  }
  if (is_sms) return place->scope & WITH_SMS ? KILN_OK : not_here(expr, place, "known at launch");
  if (is_argument) {
    *out = VALUE_ARGUMENT;
    return place->scope & WITH_ARGS ? KILN_OK : not_here(expr, place, "a tensor or scalar");
  }
  word = find_word(c->spec, expr->name);
  if (word) {
    /* Nodes are constant for others only; they lie in the spec's arena. */
    struct kn_expr *node = (struct kn_expr *)expr;
    node->op = KN_EXPR_CONSTANT;
    node->constant = *word;
    node->name = NULL;
    *out = KN_VALUE_WORD;
    return KILN_OK;
  }
  return unknown_name(c, expr, place);
}

static kiln_status infer_size(const struct checker *c, const struct kn_expr *expr,
                              const struct place *place, int *out) {
  const struct kn_param_spec *param = kn_spec_param(c->spec, expr->name);
  *out = KN_VALUE_INT;
  if (kn_dtype_parse(expr->name) != KILN_DTYPE_NONE) return KILN_OK;
  if (param && param->type == KN_VALUE_DTYPE) return KILN_OK;
  if (param) {
    return kn_fail_mark(expr->mark, "size() of '%s'; allowed are dtypes and tensors", expr->name);
  }
  if (!kn_spec_tensor(c->spec, expr->name)) return unknown_name(c, expr, place);
  return place->scope & WITH_SIZES ? KILN_OK : not_here(expr, place, "a tensor");
}

static kiln_status infer_present(const struct checker *c, const struct kn_expr *expr,
                                 const struct place *place, int *out) {
  const struct kn_tensor_spec *tensor = kn_spec_tensor(c->spec, expr->name);
  const struct kn_scalar_spec *scalar = kn_spec_scalar(c->spec, expr->name);
  *out = KN_VALUE_BOOL;
  if (!(place->scope & WITH_PRESENT)) {
    return kn_fail_mark(expr->mark, "%s may not depend on present()", place->what);
  }
  if ((tensor && tensor->optional) || (scalar && scalar->optional)) return KILN_OK;
  return kn_fail_mark(expr->mark, "present() of '%s'; allowed are optional tensors and scalars",
                      expr->name);
}

static kiln_status infer(const struct checker *c, const struct kn_expr *expr,
                         const struct place *place, int *out);

static kiln_status infer_operand(const struct checker *c, const struct kn_expr *expr,
                                 const struct place *place, int wanted) {
  int type = VALUE_ARGUMENT;
  const kiln_status status = infer(c, expr, place, &type);
  if (status != KILN_OK || type == wanted) return status;
  return kn_fail_mark(expr->mark, "%s has %s where %s is needed", place->what, type_name(type),
                      type_name(wanted));
}

static kiln_status infer_equal(const struct checker *c, const struct kn_expr *expr,
                               const struct place *place) {
  int left = VALUE_ARGUMENT, right = VALUE_ARGUMENT;
  kiln_status status = infer(c, expr->left, place, &left);
  if (status == KILN_OK) status = infer(c, expr->right, place, &right);
  if (status != KILN_OK) return status;
  if (left == right && left != VALUE_ARGUMENT) return KILN_OK;
  return kn_fail_mark(expr->mark, "%s compares %s with %s", place->what, type_name(left),
                      type_name(right));
}

static kiln_status infer(const struct checker *c, const struct kn_expr *expr,
                         const struct place *place, int *out) {
  int operands = KN_VALUE_INT;
  kiln_status status;

  switch (expr->op) {
    case KN_EXPR_CONSTANT:
      *out = (int)expr->constant.type;
      return KILN_OK;
    case KN_EXPR_NAME:
      return infer_name(c, expr, place, out);
    case KN_EXPR_SIZE:
      return infer_size(c, expr, place, out);
    case KN_EXPR_PRESENT:
      return infer_present(c, expr, place, out);
    case KN_EXPR_EQ:
    case KN_EXPR_NE:
      *out = KN_VALUE_BOOL;
      return infer_equal(c, expr, place);
    case KN_EXPR_NOT:
    case KN_EXPR_AND:
    case KN_EXPR_OR:
    case KN_EXPR_IMPLIES:
      *out = operands = KN_VALUE_BOOL;
      break;
    case KN_EXPR_LT:
    case KN_EXPR_LE:
    case KN_EXPR_GT:
    case KN_EXPR_GE:
      *out = KN_VALUE_BOOL;
      break;
    default:
      *out = KN_VALUE_INT;
      break;
  }
  status = infer_operand(c, expr->left, place, operands);
  if (status == KILN_OK && expr->right) status = infer_operand(c, expr->right, place, operands);
  return status;
}

static kiln_status check_expr(const struct checker *c, const struct kn_expr *expr, const char *what,
                              int scope, enum kn_value_type wanted) {
  const struct place place = {what, scope};
  return expr ? infer_operand(c, expr, &place, (int)wanted) : KILN_OK;
}

/* ---- params ---------------------------------------------------------------------------------- */

static kiln_status check_one_of(const struct checker *c, const struct kn_param_spec *param) {
  struct kn_value value = {0};
  for (size_t i = 0; i < param->num_one_of; i++) {
    const struct kn_expr *entry = param->one_of[i];
    if (entry->op == KN_EXPR_NAME) {
      const kiln_status status = check_expr(c, entry, "one_of", 0, KN_VALUE_INT);
      if (status != KILN_OK) return status;
      if (strcmp(entry->name, param->name) == 0) {
        return kn_fail_mark(entry->mark, "one_of of %s names the param itself", param->name);
      }
    } else if (!kn_param_parse(param, entry->text, &value)) {
      return kn_fail_mark(entry->mark,
                          "one_of of %s has %s, which min, max or multiple_of rule out",
                          param->name, entry->text);
    }
  }
  return KILN_OK;
}

static kiln_status check_params(const struct checker *c) {
  for (size_t i = 0; i < c->spec->num_params; i++) {
    const struct kn_param_spec *param = &c->spec->params[i];
    kiln_status status;
    if (param->has_min && param->has_max && param->min > param->max) {
      return kn_fail_mark(param->mark, "min of %s is above its max", param->name);
    }
    if (param->type == KN_VALUE_WORD && param->num_one_of == 0) {
      return kn_fail_mark(param->mark, "param '%s' of type word needs a key 'one_of'", param->name);
    }
    status = check_one_of(c, param);
    if (status != KILN_OK) return status;
  }
  return KILN_OK;
}

/* Params, tensors and scalars share one space of names. */
static kiln_status check_names(const struct checker *c) {
  const struct kn_spec *spec = c->spec;
  for (size_t i = 0; i < spec->num_tensors; i++) {
    const struct kn_tensor_spec *tensor = &spec->tensors[i];
    if (!kn_spec_param(spec, tensor->name)) continue;
    return kn_fail_mark(tensor->mark, "'%s' is a param already", tensor->name);
  }
  for (size_t i = 0; i < spec->num_scalars; i++) {
    const struct kn_scalar_spec *scalar = &spec->scalars[i];
    if (!kn_spec_param(spec, scalar->name) && !kn_spec_tensor(spec, scalar->name)) continue;
    return kn_fail_mark(scalar->mark, "'%s' is a param or tensor already", scalar->name);
  }
  for (size_t i = 0; i < spec->num_params; i++) {
    const struct kn_param_spec *param = &spec->params[i];
    for (size_t k = 0; param->type == KN_VALUE_WORD && k < param->num_one_of; k++) {
      const struct kn_expr *word = param->one_of[k];
      if (!kn_spec_param(spec, word->text) && !kn_spec_tensor(spec, word->text) &&
          !kn_spec_scalar(spec, word->text)) {
        continue;
      }
      return kn_fail_mark(word->mark, "word '%s' is the name of a param, tensor or scalar",
                          word->text);
    }
  }
  return KILN_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void add_dim(void *user, const char *name, struct kn_mark mark) {
  struct checker *c = user;
  if (c->status != KILN_OK || is_dim(c, name) || kn_spec_param(c->spec, name) ||
      find_word(c->spec, name)) {
    return;
  }
  if (kn_spec_tensor(c->spec, name) || kn_spec_scalar(c->spec, name)) {
    c->status =
        kn_fail_mark(mark, "shape may not depend on '%s', which is a tensor or scalar", name);
  } else if (c->num_dims == MAX_DIMS) {
    c->status = kn_fail_mark(mark, "more than %d run-time sizes", MAX_DIMS);
  } else {
    c->status = kn_check_name(&c->reader, mark, "a run-time size", name);
    c->dim_marks[c->num_dims] = mark;
    c->dims[c->num_dims++] = name;
  }
}

static kiln_status find_dims(struct checker *c) {
  for (size_t i = 0; i < c->spec->num_tensors; i++) {
    const struct kn_tensor_spec *tensor = &c->spec->tensors[i];
    for (int axis = 0; axis < tensor->rank; axis++) {
      kn_expr_each_name(tensor->shape[axis], add_dim, c);
    }
  }
  return c->status;
}

static kiln_status check_sf(const struct checker *c, const struct kn_tensor_spec *tensor) {
  const struct kn_tensor_spec *target = kn_spec_tensor(c->spec, tensor->sf_of);
  const char *names[KN_SPEC_MAX_ENTRIES];
  kiln_status status;

  if (tensor->dtype || tensor->rank) {
    return kn_fail_mark(tensor->mark, "tensor '%s' has sf_of, from which dtype and shape follow",
                        tensor->name);
  }
  if (tensor->strides[0] || tensor->strides[1] || tensor->stride_any[0] != tensor->stride_any[1] ||
      (tensor->stride_any[0] && tensor->role != KILN_IN)) {
    return kn_fail_mark(tensor->mark,
                        "strides of '%s' follow from sf_of; allowed is [any, any] of an input",
                        tensor->name);
  }
  if (!tensor->block[0]) {
    return kn_fail_mark(tensor->mark, "tensor '%s' has sf_of and needs a key 'block'",
                        tensor->name);
  }
  for (size_t i = 0; i < c->spec->num_tensors; i++) names[i] = c->spec->tensors[i].name;
  if (!target) {
    return kn_fail_mark(tensor->mark, "sf_of of '%s' is '%s'%s; allowed is the name of a tensor",
                        tensor->name, tensor->sf_of,
                        kn_suggest(c->reader.arena, tensor->sf_of, names, c->spec->num_tensors));
  }
  if (target->sf_of || target->rank != 2) {
    return kn_fail_mark(tensor->mark, "sf_of of '%s' is '%s'; allowed is a tensor of rank 2",
                        tensor->name, tensor->sf_of);
  }
  status = check_expr(c, tensor->block[0], "block", 0, KN_VALUE_INT);
  return status == KILN_OK ? check_expr(c, tensor->block[1], "block", 0, KN_VALUE_INT) : status;
}

/* Where run-time sizes and scalars may stand: what a launch checks. */
enum { AT_LAUNCH = WITH_DIMS | WITH_SCALARS };

static kiln_status check_tensor(const struct checker *c, const struct kn_tensor_spec *tensor) {
  kiln_status status = check_expr(c, tensor->range, "range", AT_LAUNCH, KN_VALUE_INT);
  if (status != KILN_OK) return status;
  if (tensor->sf_of) return check_sf(c, tensor);
  if (tensor->block[0]) {
    return kn_fail_mark(tensor->mark, "tensor '%s' has block, which goes with sf_of", tensor->name);
  }
  if (!tensor->dtype || !tensor->rank) {
    return kn_fail_mark(tensor->mark, "tensor '%s' needs a key '%s'", tensor->name,
                        tensor->dtype ? "shape" : "dtype");
  }
  status = check_expr(c, tensor->dtype, "dtype", 0, KN_VALUE_DTYPE);
  for (int axis = 0; axis < tensor->rank && status == KILN_OK; axis++) {
    status = check_expr(c, tensor->shape[axis], "shape", WITH_DIMS, KN_VALUE_INT);
    if (status == KILN_OK) {
      status = check_expr(c, tensor->strides[axis], "strides", WITH_DIMS, KN_VALUE_INT);
    }
  }
  return status;
}

/* A range may name the scalars that stand before it. */
static kiln_status check_scalars(const struct checker *c) {
  for (size_t i = 0; i < c->spec->num_scalars; i++) {
    const struct kn_scalar_spec *scalar = &c->spec->scalars[i];
    for (int end = 0; end < 2 && scalar->range[0]; end++) {
      const kiln_status status =
          check_expr(c, scalar->range[end], "range", AT_LAUNCH, KN_VALUE_INT);
      if (status != KILN_OK) return status;
    }
    if (scalar->range[0] && scalar->type == KILN_F32) {
      return kn_fail_mark(scalar->mark, "range is for scalars of type i32 and i64");
    }
  }
  return KILN_OK;
}

/* Whether a size can be read off: `name`, or something linear in it. */
static bool reveals(const struct kn_expr *expr, const char *name) {
  switch (expr->op) {
    case KN_EXPR_NAME:
      return strcmp(expr->name, name) == 0;
    case KN_EXPR_NEGATE:
      return reveals(expr->left, name);
    case KN_EXPR_ADD:
    case KN_EXPR_SUB:
    case KN_EXPR_MUL:
      return reveals(expr->left, name) || reveals(expr->right, name);
    default:
      return false;
  }
}

static bool is_revealed(const struct kn_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->num_tensors; i++) {
    for (int axis = 0; axis < spec->tensors[i].rank; axis++) {
      if (reveals(spec->tensors[i].shape[axis], name)) return true;
    }
  }
  return false;
}

struct mentions {
  const char *name;
  size_t count;
};

static void count_mention(void *user, const char *name, struct kn_mark mark) {
  struct mentions *mentions = user;
  (void)mark;
  mentions->count += strcmp(name, mentions->name) == 0;
}

static size_t count_mentions(const struct kn_spec *spec, const char *name) {
  struct mentions mentions = {.name = name};
  for (size_t i = 0; i < spec->num_tensors; i++) {
    const struct kn_tensor_spec *tensor = &spec->tensors[i];
    for (int axis = 0; axis < tensor->rank; axis++) {
      kn_expr_each_name(tensor->shape[axis], count_mention, &mentions);
      if (tensor->strides[axis]) {
        kn_expr_each_name(tensor->strides[axis], count_mention, &mentions);
      }
    }
  }
  for (size_t i = 0; i < spec->num_steps; i++) {
    kn_expr_each_name(spec->steps[i].grid, count_mention, &mentions);
  }
  if (spec->workspace) kn_expr_each_name(spec->workspace, count_mention, &mentions);
  if (spec->bytes) kn_expr_each_name(spec->bytes, count_mention, &mentions);
  return mentions.count;
}

static bool is_letter(char c) {
  return c >= 'a' && c <= 'z';
}

/* Whether a letter more or less, or two that swapped places, turn a into b. */
static bool is_slip(const char *a, const char *b) {
  const size_t a_length = strlen(a), b_length = strlen(b);
  size_t same = 0;

  if (a_length > b_length) return is_slip(b, a);
  if (a_length < 5) return false;
  while (same < a_length && a[same] == b[same]) same++;
  if (b_length == a_length + 1) return is_letter(b[same]) && strcmp(a + same, b + same + 1) == 0;
  return a_length == b_length && same + 1 < a_length && a[same] == b[same + 1] &&
         a[same + 1] == b[same] && strcmp(a + same + 2, b + same + 2) == 0;
}

/* A misspelt param in a shape would be a run-time size of its own. */
static kiln_status check_slip(const struct checker *c, size_t dim) {
  const struct kn_spec *spec = c->spec;
  const char *name = c->dims[dim], *meant = NULL;

  if (count_mentions(spec, name) != 1) return KILN_OK;
  for (size_t i = 0; i < spec->num_params; i++) {
    if (is_slip(name, spec->params[i].name)) meant = spec->params[i].name;
  }
  for (size_t i = 0; i < c->num_dims; i++) {
    if (is_slip(name, c->dims[i])) meant = c->dims[i];
  }
  if (!meant) return KILN_OK;
  return kn_fail_mark(c->dim_marks[dim], "only this shape names '%s' (did you mean '%s'?)", name,
                      meant);
}

static kiln_status check_tensors(const struct checker *c) {
  for (size_t i = 0; i < c->spec->num_tensors; i++) {
    const kiln_status status = check_tensor(c, &c->spec->tensors[i]);
    if (status != KILN_OK) return status;
  }
  for (size_t i = 0; i < c->num_dims; i++) {
    const kiln_status status = check_slip(c, i);
    if (status != KILN_OK) return status;
    if (is_revealed(c->spec, c->dims[i])) continue;
    return kn_fail_mark(c->dim_marks[i],
                        "no shape gives '%s' away: one must have it as it is or as a multiple",
                        c->dims[i]);
  }
  return KILN_OK;
}

/* ---- chain and launch ------------------------------------------------------------------------ */

static kiln_status check_stages(const struct checker *c) {
  for (size_t i = 0; i < c->spec->num_stages; i++) {
    const struct kn_stage_spec *stage = &c->spec->chain[i];
    const struct place place = {stage->name, WITH_ARGS};
    for (size_t k = 0; k < stage->num_args; k++) {
      if (strcmp(stage->args[k].key, "preset") == 0) continue; /* a word that the stage knows */
      for (size_t v = 0; v < stage->args[k].num_values; v++) {
        int type = VALUE_ARGUMENT;
        const kiln_status status = infer(c, stage->args[k].values[v], &place, &type);
        if (status != KILN_OK) return status;
      }
    }
  }
  return KILN_OK;
}

static kiln_status check_variants(const struct checker *c, const struct kn_step_spec *step) {
  const char *names[KN_SPEC_MAX_ENTRIES];
  for (size_t i = 0; i < c->spec->num_tensors; i++) names[i] = c->spec->tensors[i].name;
  for (size_t i = 0; i < step->num_variants; i++) {
    const struct kn_variant_spec *variant = &step->variants[i];
    const kiln_status status =
        check_expr(c, variant->when, "when", WITH_DIMS | WITH_SMS, KN_VALUE_BOOL);
    if (status != KILN_OK) return status;
    for (size_t k = 0; k < variant->num_aligns; k++) {
      const struct kn_align_spec *align = &variant->aligns[k];
      if (kn_spec_tensor(c->spec, align->tensor)) continue;
      return kn_fail_mark(align->mark, "align names '%s'%s; allowed are tensors",
                          kn_shown(c->reader.arena, align->tensor),
                          kn_suggest(c->reader.arena, align->tensor, names, c->spec->num_tensors));
    }
    if (i + 1 < step->num_variants && variant->num_aligns == 0 && !variant->when) {
      return kn_fail_mark(step->variants[i + 1].mark,
                          "this variant is never launched: '%s' before it always fits",
                          variant->function);
    }
  }
  return KILN_OK;
}

static kiln_status check_steps(const struct checker *c) {
  const struct kn_spec *spec = c->spec;
  for (size_t i = 0; i < spec->num_steps; i++) {
    const struct kn_step_spec *step = &spec->steps[i];
    kiln_status status = check_expr(c, step->threads, "threads", 0, KN_VALUE_INT);
    if (status == KILN_OK) {
      status = check_expr(c, step->grid, "grid", WITH_DIMS | WITH_SMS, KN_VALUE_INT);
    }
    if (status == KILN_OK) status = check_expr(c, step->shared, "shared", 0, KN_VALUE_INT);
    if (status == KILN_OK) status = check_variants(c, step);
    if (status != KILN_OK) return status;
    if (!step->name) {
      return kn_fail_mark(step->mark, "each of several steps needs a key 'step', its name");
    }
    for (size_t k = 0; k < i; k++) {
      if (strcmp(spec->steps[k].name, step->name) == 0) {
        return kn_fail_mark(step->mark, "step '%s' is declared twice", step->name);
      }
    }
  }
  return KILN_OK;
}

static kiln_status check_form(struct checker *c) {
  const struct kn_spec *spec = c->spec;
  if (spec->num_tensors == 0) return kn_fail_mark(spec->mark, "a spec needs at least one tensor");
  if (!spec->template_name && !spec->chain) {
    return kn_fail_mark(spec->mark, "%s needs a chain or a template", spec->name);
  }
  if (spec->template_name && spec->chain) {
    return kn_fail_mark(spec->template_mark, "%s has a chain and a template; allowed is one",
                        spec->name);
  }
  if (spec->template_name && !spec->steps) {
    return kn_fail_mark(spec->template_mark, "a template needs a key 'launch'");
  }
  if (spec->chain && spec->steps) {
    return kn_fail_mark(spec->steps[0].mark, "a chain has no launch; it follows from the stages");
  }
  return KILN_OK;
}

/* ---- examples -------------------------------------------------------------------------------- */

static kiln_status unknown_assignment(const struct checker *c, const struct kn_assignment *a) {
  const char *names[KN_SPEC_MAX_ENTRIES];
  for (size_t i = 0; i < c->spec->num_params; i++) names[i] = c->spec->params[i].name;
  return kn_fail_mark(a->mark,
                      "an example gives '%s'%s; allowed are params, tile.NAME and "
                      "present.NAME",
                      kn_shown(c->reader.arena, a->name),
                      kn_suggest(c->reader.arena, a->name, names, c->spec->num_params));
}

static bool is_tile(const struct kn_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->num_tile; i++) {
    if (strcmp(spec->tile[i].name, name) == 0) return true;
  }
  return false;
}

static bool is_optional(const struct kn_spec *spec, const char *name) {
  const struct kn_tensor_spec *tensor = kn_spec_tensor(spec, name);
  const struct kn_scalar_spec *scalar = kn_spec_scalar(spec, name);
  return (tensor && tensor->optional) || (scalar && scalar->optional);
}

static kiln_status check_assignment(const struct checker *c, const struct kn_assignment *a) {
  const struct kn_param_spec *param = kn_spec_param(c->spec, a->name);
  const struct kn_param_spec *other = kn_spec_param(c->spec, a->value);
  struct kn_value value = {0};
  int64_t number = 0;
  const char *allowed = NULL;

  if (param) {
    const bool is_param = param->type == KN_VALUE_INT && other && other->type == KN_VALUE_INT;
    if (is_param) return KILN_OK;
    if (kn_param_parse(param, a->value, &value) && kn_param_lists(param, &value)) return KILN_OK;
    allowed = kn_param_allowed(c->reader.arena, param);
  } else if (strncmp(a->name, "tile.", 5) == 0 && is_tile(c->spec, a->name + 5)) {
    if (kn_parse_int(a->value, &number) && number >= 0) return KILN_OK;
    allowed = "allowed is an integer of at least 0";
  } else if (strncmp(a->name, "present.", 8) == 0 && is_optional(c->spec, a->name + 8)) {
    if (strcmp(a->value, "true") == 0 || strcmp(a->value, "false") == 0) return KILN_OK;
    allowed = "allowed are true and false";
  } else {
    return unknown_assignment(c, a);
  }
  return kn_fail_mark(a->mark, "an example's %s is '%s'; %s", a->name,
                      kn_shown(c->reader.arena, a->value), allowed);
}

/* The first param without a default that the example leaves open, or NULL. */
static const char *missing_param(const struct kn_spec *spec,
                                 const struct kn_example_spec *example) {
  for (size_t i = 0; i < spec->num_params; i++) {
    const struct kn_param_spec *param = &spec->params[i];
    bool is_given = param->has_default;
    for (size_t k = 0; k < example->num_values; k++) {
      is_given = is_given || strcmp(example->values[k].name, param->name) == 0;
    }
    if (!is_given) return param->name;
  }
  return NULL;
}

static kiln_status check_examples(const struct checker *c) {
  for (size_t i = 0; i < c->spec->num_examples; i++) {
    const struct kn_example_spec *example = &c->spec->examples[i];
    for (size_t k = 0; k < example->num_values; k++) {
      const kiln_status status = check_assignment(c, &example->values[k]);
      if (status != KILN_OK) return status;
    }
    if (missing_param(c->spec, example)) {
      return kn_fail_mark(example->mark, "an example gives no '%s', which has no default",
                          missing_param(c->spec, example));
    }
  }
  return KILN_OK;
}

kiln_status kn_spec_check(struct kn_spec *spec) {
  struct checker c = {.spec = spec, .reader = {&spec->arena, spec}};
  kiln_status status = check_form(&c);
  if (status == KILN_OK) status = check_names(&c);
  if (status == KILN_OK) status = check_params(&c);
  if (status == KILN_OK) status = find_dims(&c);
  if (status == KILN_OK) status = check_tensors(&c);
  for (size_t i = 0; i < spec->num_requires && status == KILN_OK; i++) {
    status = check_expr(&c, spec->requires[i].rule, "a requirement", AT_LAUNCH | WITH_PRESENT,
                        KN_VALUE_BOOL);
  }
  if (status == KILN_OK) status = check_scalars(&c);
  if (status == KILN_OK) status = check_stages(&c);
  if (status == KILN_OK) status = check_steps(&c);
  if (status == KILN_OK) {
    status = check_expr(&c, spec->workspace, "workspace", WITH_DIMS | WITH_SMS | WITH_SIZES,
                        KN_VALUE_INT);
  }
  if (status == KILN_OK) {
    status = check_expr(&c, spec->bytes, "bytes", WITH_DIMS | WITH_SIZES, KN_VALUE_INT);
  }
  return status == KILN_OK ? check_examples(&c) : status;
}
