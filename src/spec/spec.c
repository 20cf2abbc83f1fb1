/* SPDX-License-Identifier: MIT */
/* The schema of specs: tables, and readers for what a table cannot say. */
#include "spec/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "spec/check.h"
#include "spec/field.h"
#include "spec/node.h"
#include "spec/value.h"

enum { MAX_STAGE_VALUES = 4, MAX_ALIGN = 256 };

/* ---- params -------------------------------------------------------------------------------- */

static kiln_status wrong_one_of(const struct kn_reader *reader, const struct kn_param_spec *param,
                                const struct kn_node *node) {
  static const char *const allowed[] = {
      [KN_VALUE_INT] = "integers and names of int params",
      [KN_VALUE_BOOL] = "none, since a bool is true or false",
      [KN_VALUE_DTYPE] = "dtypes such as bf16, e4m3 and i32",
      [KN_VALUE_WORD] = "words",
  };
  const bool is_scalar = node->kind == KN_NODE_SCALAR;
  return kn_fail_mark(node->mark, "one_of of %s has an entry '%s'%s; allowed are %s", param->name,
                      is_scalar ? kn_shown(reader->arena, node->text) : "[..]",
                      is_scalar && param->type == KN_VALUE_DTYPE
                          ? kn_suggest(reader->arena, node->text, kn_dtype_words, KN_NUM_DTYPES)
                          : "",
                      allowed[param->type]);
}

/* A word as a constant. */
static kiln_status read_word_entry(const struct kn_reader *reader, const struct kn_node *node,
                                   const struct kn_expr **out) {
  struct kn_expr *entry;
  const kiln_status status = kn_check_name(reader, node->mark, "one_of", node->text);
  if (status != KILN_OK) return status;
  entry = kn_arena_alloc(reader->arena, 1, sizeof *entry);
  if (!entry) return kn_fail_memory();
  entry->op = KN_EXPR_CONSTANT;
  entry->constant = (struct kn_value){.type = KN_VALUE_WORD, .word = node->text};
  entry->mark = node->mark;
  entry->text = node->text;
  *out = entry;
  return KILN_OK;
}

static kiln_status read_one_of_entry(const struct kn_reader *reader,
                                     const struct kn_param_spec *param, const struct kn_node *node,
                                     const struct kn_expr **out) {
  const bool is_int = param->type == KN_VALUE_INT;
  bool is_constant;
  int64_t number;
  kiln_status status;

  if (param->type == KN_VALUE_BOOL || node->kind != KN_NODE_SCALAR || !node->is_plain) {
    return wrong_one_of(reader, param, node);
  }
  if (param->type == KN_VALUE_WORD) return read_word_entry(reader, node, out);
  status = kn_scalar_expr(reader, node, "one_of", out);
  if (status != KILN_OK) return status;
  is_constant = (*out)->op == KN_EXPR_CONSTANT && (*out)->constant.type == param->type;
  if (is_constant && (!is_int || kn_parse_int((*out)->text, &number))) return KILN_OK;
  return is_int && (*out)->op == KN_EXPR_NAME ? KILN_OK : wrong_one_of(reader, param, node);
}

static kiln_status read_one_of(const struct kn_reader *reader, const struct kn_field *field,
                               const struct kn_node *node, void *object) {
  struct kn_param_spec *param = object;
  const struct kn_expr **entries;
  size_t count = 0;
  kiln_status status = kn_check_sequence(node, field->key, 1, KN_SPEC_MAX_ENTRIES);
  if (status != KILN_OK) return status;

  entries = kn_arena_alloc(reader->arena, node->count, sizeof(const struct kn_expr *));
  if (!entries) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next, count++) {
    status = read_one_of_entry(reader, param, child, &entries[count]);
    if (status != KILN_OK) return status;
    for (size_t i = 0; i < count; i++) {
      if (strcmp(entries[i]->text, entries[count]->text) == 0) {
        return kn_fail_mark(child->mark, "one_of has '%s' twice", entries[i]->text);
      }
    }
  }
  param->one_of = entries;
  param->num_one_of = count;
  return KILN_OK;
}

static kiln_status read_ints(const struct kn_reader *reader, const struct kn_node *node,
                             const struct kn_range *range, const int64_t **out, size_t *out_count) {
  int64_t *values;
  size_t count = 0;
  kiln_status status = kn_check_sequence(node, node->key, 1, KN_SPEC_MAX_ENTRIES);
  if (status != KILN_OK) return status;

  values = kn_arena_alloc(reader->arena, node->count, sizeof *values);
  if (!values) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next, count++) {
    status = kn_scalar_int(reader, child, node->key, range, &values[count]);
    if (status != KILN_OK) return status;
    for (size_t i = 0; i < count; i++) {
      if (values[i] != values[count]) continue;
      return kn_fail_mark(child->mark, "%s has %lld twice", node->key, (long long)values[i]);
    }
  }
  *out = values;
  *out_count = count;
  return KILN_OK;
}

static kiln_status read_sweep(const struct kn_reader *reader, const struct kn_field *field,
                              const struct kn_node *node, void *object) {
  struct kn_param_spec *param = object;
  const struct kn_range range = {param->has_min ? param->min : INT64_MIN,
                                 param->has_max ? param->max : INT64_MAX};
  if (param->type != KN_VALUE_INT || param->num_one_of) {
    return kn_fail_mark(node->mark, "%s is for params of type int without one_of", field->key);
  }
  return read_ints(reader, node, &range, &param->sweep, &param->num_sweep);
}

static kiln_status read_default(const struct kn_reader *reader, const struct kn_field *field,
                                const struct kn_node *node, void *object) {
  struct kn_param_spec *param = object;
  (void)field;
  if (node->kind != KN_NODE_SCALAR || !node->is_plain ||
      !kn_param_parse(param, node->text, &param->default_value) ||
      !kn_param_lists(param, &param->default_value)) {
    const bool is_scalar = node->kind == KN_NODE_SCALAR;
    return kn_fail_mark(node->mark, "the default of %s is '%s'%s; %s", param->name,
                        is_scalar ? kn_shown(reader->arena, node->text) : "[..]",
                        is_scalar ? kn_ambiguity(node) : "",
                        kn_param_allowed(reader->arena, param));
  }
  param->has_default = true;
  return KILN_OK;
}

static kiln_status read_param_type(const struct kn_reader *reader, const struct kn_field *field,
                                   const struct kn_node *node, void *object) {
  struct kn_param_spec *param = object;
  param->multiple_of = 1;
  return kn_read_word(reader, field, node, object);
}

/* min, max, multiple_of */
static kiln_status read_bound(const struct kn_reader *reader, const struct kn_field *field,
                              const struct kn_node *node, void *object) {
  const struct kn_param_spec *param = object;
  if (param->type != KN_VALUE_INT) {
    return kn_fail_mark(node->mark, "%s is for params of type int", field->key);
  }
  return kn_read_int(reader, field, node, object);
}

static const struct kn_word param_types[] = {{"int", KN_VALUE_INT},
                                             {"bool", KN_VALUE_BOOL},
                                             {"dtype", KN_VALUE_DTYPE},
                                             {"word", KN_VALUE_WORD},
                                             {0}};
static const struct kn_range positive = {1, INT32_MAX};

#define PARAM(member) offsetof(struct kn_param_spec, member)
static const struct kn_field param_fields[] = {
    {"type", read_param_type, true, PARAM(type), 0, param_types},
    {"min", read_bound, false, PARAM(min), PARAM(has_min), NULL},
    {"max", read_bound, false, PARAM(max), PARAM(has_max), NULL},
    {"multiple_of", read_bound, false, PARAM(multiple_of), 0, &positive},
    {"one_of", read_one_of, false, 0, 0, NULL},
    {"default", read_default, false, 0, 0, NULL},
    {"sweep", read_sweep, false, 0, 0, NULL},
    {0}};
static const struct kn_schema param_schema = {"param", param_fields, sizeof(struct kn_param_spec),
                                              PARAM(name), PARAM(mark)};

/* ---- require, scalars, tensors -------------------------------------------------------------- */

static const struct kn_field require_fields[] = {
    {"rule", kn_read_expr, true, offsetof(struct kn_require_spec, rule), 0, NULL},
    {"why", kn_read_line, false, offsetof(struct kn_require_spec, why), 0, NULL},
    {0}};
static const struct kn_schema require_schema = {"a requirement", require_fields,
                                                sizeof(struct kn_require_spec), 0, 0};

static kiln_status read_require(const struct kn_reader *reader, const struct kn_field *field,
                                const struct kn_node *node, void *object) {
  struct kn_spec *spec = object;
  struct kn_require_spec *requires;
  size_t count = 0;
  kiln_status status = kn_check_sequence(node, field->key, 0, KN_SPEC_MAX_ENTRIES);
  if (status != KILN_OK) return status;

  requires = kn_arena_alloc(reader->arena, node->count, sizeof *requires);
  if (!requires) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next, count++) {
    status = child->kind == KN_NODE_MAPPING
                 ? kn_read_fields(reader, &require_schema, child, &requires[count])
                 : kn_scalar_expr(reader, child, "a requirement", &requires[count].rule);
    if (status != KILN_OK) return status;
  }
  spec->requires = requires;
  spec->num_requires = count;
  return KILN_OK;
}

static const struct kn_word scalar_types[] = {
    {"f32", KILN_F32}, {"i32", KILN_I32}, {"i64", KILN_I64}, {0}};

static kiln_status read_scalar_range(const struct kn_reader *reader, const struct kn_field *field,
                                     const struct kn_node *node, void *object);

#define SCALAR(member) offsetof(struct kn_scalar_spec, member)
static const struct kn_field scalar_fields[] = {
    {"type", kn_read_word, true, SCALAR(type), 0, scalar_types},
    {"optional", kn_read_bool, false, SCALAR(optional), 0, NULL},
    {"range", read_scalar_range, false, 0, 0, NULL},
    {0}};
static const struct kn_schema scalar_schema = {
    "scalar", scalar_fields, sizeof(struct kn_scalar_spec), SCALAR(name), SCALAR(mark)};

/* A list of expressions of one size into `out`. */
static kiln_status read_exprs(const struct kn_reader *reader, const struct kn_node *node,
                              const char *what, size_t min, size_t max,
                              const struct kn_expr **out) {
  kiln_status status = kn_check_sequence(node, what, min, max);
  for (const struct kn_node *child = node->first; child && status == KILN_OK; child = child->next) {
    status = kn_scalar_expr(reader, child, what, out++);
  }
  return status;
}

static kiln_status read_scalar_range(const struct kn_reader *reader, const struct kn_field *field,
                                     const struct kn_node *node, void *object) {
  struct kn_scalar_spec *scalar = object;
  return read_exprs(reader, node, field->key, 2, 2, scalar->range);
}

static kiln_status read_shape(const struct kn_reader *reader, const struct kn_field *field,
                              const struct kn_node *node, void *object) {
  struct kn_tensor_spec *tensor = object;
  const kiln_status status = read_exprs(reader, node, field->key, 1, KILN_MAX_RANK, tensor->shape);
  if (status == KILN_OK) tensor->rank = (int)node->count;
  return status;
}

static kiln_status read_strides(const struct kn_reader *reader, const struct kn_field *field,
                                const struct kn_node *node, void *object) {
  struct kn_tensor_spec *tensor = object;
  const size_t rank = tensor->sf_of ? 2 : (size_t)tensor->rank;
  size_t axis = 0;
  kiln_status status;

  if (rank == 0) return kn_fail_mark(node->mark, "strides without a shape");
  status = kn_check_sequence(node, field->key, rank, rank);
  for (const struct kn_node *child = node->first; child && status == KILN_OK; child = child->next) {
    const bool is_any =
        child->kind == KN_NODE_SCALAR && child->is_plain && strcmp(child->text, "any") == 0;
    tensor->stride_any[axis] = is_any;
    if (!is_any) status = kn_scalar_expr(reader, child, field->key, &tensor->strides[axis]);
    axis++;
  }
  return status;
}

static kiln_status read_block(const struct kn_reader *reader, const struct kn_field *field,
                              const struct kn_node *node, void *object) {
  struct kn_tensor_spec *tensor = object;
  return read_exprs(reader, node, field->key, 2, 2, tensor->block);
}

static const struct kn_word roles[] = {
    {"in", KILN_IN}, {"out", KILN_OUT}, {"inout", KILN_INOUT}, {0}};

#define TENSOR(member) offsetof(struct kn_tensor_spec, member)
static const struct kn_field tensor_fields[] = {
    {"role", kn_read_word, true, TENSOR(role), 0, roles},
    {"dtype", kn_read_expr, false, TENSOR(dtype), 0, NULL},
    {"shape", read_shape, false, 0, 0, NULL},
    {"sf_of", kn_read_name, false, TENSOR(sf_of), 0, NULL},
    {"strides", read_strides, false, 0, 0, NULL},
    {"optional", kn_read_bool, false, TENSOR(optional), 0, NULL},
    {"list", kn_read_bool, false, TENSOR(list), 0, NULL},
    {"block", read_block, false, 0, 0, NULL},
    {"range", kn_read_expr, false, TENSOR(range), 0, NULL},
    {0}};
static const struct kn_schema tensor_schema = {
    "tensor", tensor_fields, sizeof(struct kn_tensor_spec), TENSOR(name), TENSOR(mark)};

/* ---- chain ---------------------------------------------------------------------------------- */

static kiln_status read_stage_arg(const struct kn_reader *reader, const struct kn_node *node,
                                  const char *key, struct kn_stage_arg *arg) {
  arg->key = key;
  arg->mark = node->mark;
  arg->num_values = 1;
  if (node->kind != KN_NODE_SEQUENCE) return kn_scalar_expr(reader, node, key, &arg->values[0]);
  arg->num_values = node->count; /* at most MAX_STAGE_VALUES, as read_exprs checks */
  return read_exprs(reader, node, key, 1, MAX_STAGE_VALUES, arg->values);
}

static kiln_status read_stage_args(const struct kn_reader *reader, const struct kn_node *node,
                                   struct kn_stage_spec *stage) {
  const bool is_mapping = node->kind == KN_NODE_MAPPING;
  struct kn_stage_arg *args;
  kiln_status status;

  if (node->kind == KN_NODE_SEQUENCE) {
    return kn_fail_mark(node->mark, "stage %s has a list; allowed is one value or {key: value}",
                        stage->name);
  }
  stage->num_args = is_mapping ? node->count : 1;
  args = kn_arena_alloc(reader->arena, stage->num_args, sizeof *args);
  if (!args) return kn_fail_memory();
  stage->args = args;
  if (!is_mapping) {
    args->mark = node->mark;
    args->key = "";
    args->num_values = 1;
    return kn_scalar_expr(reader, node, stage->name, &args->values[0]);
  }
  for (const struct kn_node *child = node->first; child; child = child->next) {
    status = kn_check_identifier(reader, child->key_mark, "a stage's key", child->key);
    if (status == KILN_OK) status = read_stage_arg(reader, child, child->key, args++);
    if (status != KILN_OK) return status;
  }
  return KILN_OK;
}

static kiln_status read_stage(const struct kn_reader *reader, const struct kn_node *node,
                              struct kn_stage_spec *stage) {
  const struct kn_node *args = NULL;
  kiln_status status;

  stage->mark = node->mark;
  stage->name = node->text;
  if (node->kind == KN_NODE_MAPPING && node->count == 1) {
    args = node->first;
    stage->name = args->key;
    stage->mark = args->key_mark;
  } else if (node->kind != KN_NODE_SCALAR || !node->is_plain) {
    return kn_fail_mark(node->mark, "a stage is a name, {name: value} or {name: {key: value}}");
  }
  status = kn_check_identifier(reader, stage->mark, "a stage", stage->name);
  return status == KILN_OK && args ? read_stage_args(reader, args, stage) : status;
}

static kiln_status read_chain(const struct kn_reader *reader, const struct kn_field *field,
                              const struct kn_node *node, void *object) {
  struct kn_spec *spec = object;
  struct kn_stage_spec *stages;
  size_t count = 0;
  kiln_status status = kn_check_sequence(node, field->key, 1, KN_SPEC_MAX_ENTRIES);
  if (status != KILN_OK) return status;

  stages = kn_arena_alloc(reader->arena, node->count, sizeof *stages);
  if (!stages) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next) {
    status = read_stage(reader, child, &stages[count++]);
    if (status != KILN_OK) return status;
  }
  spec->chain = stages;
  spec->num_stages = count;
  return KILN_OK;
}

/* ---- template and launch -------------------------------------------------------------------- */

static kiln_status read_template(const struct kn_reader *reader, const struct kn_field *field,
                                 const struct kn_node *node, void *object) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
  struct kn_spec *spec = object;
  const char *text = node->kind == KN_NODE_SCALAR ? node->text : "[..]";
  const size_t stem = strspn(text, allowed);
  if (stem == 0 || stem > KN_SPEC_MAX_NAME || strcmp(text + stem, ".cu") != 0) {
    return kn_fail_mark(node->mark, "%s is '%s'; allowed is a file name such as transpose.cu",
                        field->key, kn_shown(reader->arena, text));
  }
  spec->template_name = text;
  spec->template_mark = node->mark;
  return KILN_OK;
}

/* align and align_base, one after the other in one list. */
static kiln_status read_align(const struct kn_reader *reader, const struct kn_field *field,
                              const struct kn_node *node, void *object) {
  static const struct kn_range range = {1, MAX_ALIGN};
  struct kn_variant_spec *variant = object;
  struct kn_align_spec *aligns;
  size_t count = variant->num_aligns;
  kiln_status status = kn_check_mapping(node, field->key);
  if (status != KILN_OK) return status;

  aligns = kn_arena_alloc(reader->arena, count + node->count, sizeof *aligns);
  if (!aligns) return kn_fail_memory();
  if (count > 0) memcpy(aligns, variant->aligns, count * sizeof *aligns);
  for (const struct kn_node *child = node->first; child; child = child->next, count++) {
    aligns[count].tensor = child->key;
    aligns[count].mark = child->key_mark;
    aligns[count].is_base = field->of != NULL;
    status = kn_scalar_int(reader, child, field->key, &range, &aligns[count].bytes);
    if (status != KILN_OK) return status;
    if ((aligns[count].bytes & (aligns[count].bytes - 1)) != 0) {
      return kn_fail_mark(child->mark, "%s is %d; allowed are powers of two", field->key,
                          (int)aligns[count].bytes);
    }
  }
  variant->aligns = aligns;
  variant->num_aligns = count;
  return KILN_OK;
}

#define VARIANT(member) offsetof(struct kn_variant_spec, member)
static const struct kn_field variant_fields[] = {
    {"function", kn_read_name, true, VARIANT(function), 0, NULL},
    {"align", read_align, false, 0, 0, NULL},
    {"align_base", read_align, false, 0, 0, "base"},
    {"when", kn_read_expr, false, VARIANT(when), 0, NULL},
    {0}};
static const struct kn_schema variant_schema = {"a variant", variant_fields,
                                                sizeof(struct kn_variant_spec), 0, VARIANT(mark)};

#define STEP(member) offsetof(struct kn_step_spec, member)
static const struct kn_field step_fields[] = {
    {"step", kn_read_name, false, STEP(name), 0, NULL},
    {"threads", kn_read_expr, true, STEP(threads), 0, NULL},
    {"grid", kn_read_expr, true, STEP(grid), 0, NULL},
    {"shared", kn_read_expr, false, STEP(shared), 0, NULL},
    {"variants", kn_read_list, true, STEP(variants), STEP(num_variants), &variant_schema},
    {0}};
static const struct kn_schema step_schema = {"a step", step_fields, sizeof(struct kn_step_spec), 0,
                                             STEP(mark)};

/* A step that is alone needs no name. */
static kiln_status read_launch(const struct kn_reader *reader, const struct kn_field *field,
                               const struct kn_node *node, void *object) {
  struct kn_spec *spec = object;
  const kiln_status status = kn_read_list(reader, field, node, object);
  if (status == KILN_OK && spec->num_steps == 1 && !spec->steps->name) {
    ((struct kn_step_spec *)spec->steps)->name = "main"; /* constant for others only */
  }
  return status;
}

/* ---- tile, tune, examples ------------------------------------------------------------------- */

static const struct kn_range tile_range = {0, INT32_MAX};

static kiln_status read_tile(const struct kn_reader *reader, const struct kn_field *field,
                             const struct kn_node *node, void *object) {
  struct kn_spec *spec = object;
  struct kn_tile_spec *tile;
  size_t count = 0;
  kiln_status status = kn_check_mapping(node, field->key);
  if (status != KILN_OK) return status;

  tile = kn_arena_alloc(reader->arena, node->count, sizeof *tile);
  if (!tile) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next, count++) {
    status = kn_check_identifier(reader, child->key_mark, "a tile entry", child->key);
    if (status == KILN_OK) {
      status = kn_scalar_int(reader, child, child->key, &tile_range, &tile[count].value);
    }
    if (status != KILN_OK) return status;
    tile[count].name = child->key;
    tile[count].mark = child->key_mark;
  }
  spec->tile = tile;
  spec->num_tile = count;
  return KILN_OK;
}

static kiln_status find_tile(const struct kn_reader *reader, struct kn_mark mark, const char *name,
                             size_t *out_index) {
  const struct kn_spec *spec = reader->spec;
  const char *names[KN_SPEC_MAX_ENTRIES];
  for (size_t i = 0; i < spec->num_tile; i++) {
    names[i] = spec->tile[i].name;
    if (strcmp(names[i], name) != 0) continue;
    *out_index = i;
    return KILN_OK;
  }
  return kn_fail_mark(mark, "tile has no entry '%s'%s", kn_shown(reader->arena, name),
                      kn_suggest(reader->arena, name, names, spec->num_tile));
}

static kiln_status read_tune(const struct kn_reader *reader, const struct kn_field *field,
                             const struct kn_node *node, void *object) {
  struct kn_spec *spec = object;
  struct kn_tile_spec *tile;
  kiln_status status = kn_check_mapping(node, field->key);
  if (status != KILN_OK) return status;

  /* A copy, since what the spec already points to is constant. */
  tile = kn_arena_alloc(reader->arena, spec->num_tile, sizeof *tile);
  if (!tile) return kn_fail_memory();
  if (spec->num_tile > 0) memcpy(tile, spec->tile, spec->num_tile * sizeof *tile);
  for (const struct kn_node *child = node->first; child; child = child->next) {
    size_t index = 0;
    status = find_tile(reader, child->key_mark, child->key, &index);
    if (status == KILN_OK) {
      status = read_ints(reader, child, &tile_range, &tile[index].candidates,
                         &tile[index].num_candidates);
    }
    if (status != KILN_OK) return status;
  }
  spec->tile = tile;
  return KILN_OK;
}

static kiln_status read_example(const struct kn_reader *reader, const struct kn_node *node,
                                struct kn_example_spec *example) {
  struct kn_assignment *values;
  size_t count = 0;
  kiln_status status = kn_check_mapping(node, "an example");
  if (status != KILN_OK) return status;

  values = kn_arena_alloc(reader->arena, node->count, sizeof *values);
  if (!values) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next, count++) {
    if (child->kind != KN_NODE_SCALAR || !child->is_plain || !child->text[0]) {
      return kn_fail_mark(child->mark, "an example's value must be a plain value");
    }
    values[count] = (struct kn_assignment){child->key, child->key_mark, child->text};
  }
  example->mark = node->mark;
  example->values = values;
  example->num_values = count;
  return KILN_OK;
}

static kiln_status read_examples(const struct kn_reader *reader, const struct kn_field *field,
                                 const struct kn_node *node, void *object) {
  struct kn_spec *spec = object;
  struct kn_example_spec *examples;
  size_t count = 0;
  kiln_status status = kn_check_sequence(node, field->key, 0, KN_SPEC_MAX_ENTRIES);
  if (status != KILN_OK) return status;

  examples = kn_arena_alloc(reader->arena, node->count, sizeof *examples);
  if (!examples) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next) {
    status = read_example(reader, child, &examples[count++]);
    if (status != KILN_OK) return status;
  }
  spec->examples = examples;
  spec->num_examples = count;
  return KILN_OK;
}

/* ---- the spec -------------------------------------------------------------------------------- */

static kiln_status read_format(const struct kn_reader *reader, const struct kn_field *field,
                               const struct kn_node *node, void *object) {
  static const struct kn_range range = {1, 1};
  int64_t format = 0;
  (void)object;
  return kn_scalar_int(reader, node, field->key, &range, &format);
}

static kiln_status read_operator(const struct kn_reader *reader, const struct kn_field *field,
                                 const struct kn_node *node, void *object) {
  struct kn_spec *spec = object;
  spec->mark = node->mark;
  return kn_read_name(reader, field, node, object);
}

#define SPEC(member) offsetof(struct kn_spec, member)
static const struct kn_field spec_fields[] = {
    {"kiln", read_format, false, 0, 0, NULL},
    {"operator", read_operator, true, SPEC(name), 0, NULL},
    {"about", kn_read_line, false, SPEC(about), 0, NULL},
    {"params", kn_read_named, false, SPEC(params), SPEC(num_params), &param_schema},
    {"require", read_require, false, 0, 0, NULL},
    {"scalars", kn_read_named, false, SPEC(scalars), SPEC(num_scalars), &scalar_schema},
    {"tensors", kn_read_named, true, SPEC(tensors), SPEC(num_tensors), &tensor_schema},
    {"chain", read_chain, false, 0, 0, NULL},
    {"template", read_template, false, 0, 0, NULL},
    {"launch", read_launch, false, SPEC(steps), SPEC(num_steps), &step_schema},
    {"tile", read_tile, false, 0, 0, NULL},
    {"tune", read_tune, false, 0, 0, NULL},
    {"workspace", kn_read_expr, false, SPEC(workspace), 0, NULL},
    {"bytes", kn_read_expr, false, SPEC(bytes), 0, NULL},
    {"examples", read_examples, false, 0, 0, NULL},
    {0}};
static const struct kn_schema spec_schema = {"a spec", spec_fields, sizeof(struct kn_spec), 0, 0};

kiln_status kn_spec_parse(const char *file, const char *text, size_t length, struct kn_spec **out) {
  struct kn_spec *spec = calloc(1, sizeof *spec);
  const struct kn_node *root = NULL;
  struct kn_reader reader = {0};
  kiln_status status;

  if (!spec) return kn_fail_memory();
  reader = (struct kn_reader){&spec->arena, spec};
  spec->file = kn_arena_strdup(&spec->arena, file ? file : "");
  status = spec->file ? KILN_OK : kn_fail_memory();
  if (status == KILN_OK) status = kn_node_load(&spec->arena, spec->file, text, length, &root);
  if (status == KILN_OK) status = kn_read_fields(&reader, &spec_schema, root, spec);
  if (status == KILN_OK) status = kn_spec_check(spec);
  if (status != KILN_OK) goto out;

  *out = spec;
  spec = NULL; /* handed over */
out:
  kn_spec_free(spec);
  return status;
}

void kn_spec_free(struct kn_spec *spec) {
  if (!spec) return;
  kn_arena_release(&spec->arena);
  free(spec);
}

const struct kn_param_spec *kn_spec_param(const struct kn_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->num_params; i++) {
    if (strcmp(spec->params[i].name, name) == 0) return &spec->params[i];
  }
  return NULL;
}

const struct kn_tensor_spec *kn_spec_tensor(const struct kn_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->num_tensors; i++) {
    if (strcmp(spec->tensors[i].name, name) == 0) return &spec->tensors[i];
  }
  return NULL;
}

const struct kn_scalar_spec *kn_spec_scalar(const struct kn_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->num_scalars; i++) {
    if (strcmp(spec->scalars[i].name, name) == 0) return &spec->scalars[i];
  }
  return NULL;
}
