/* SPDX-License-Identifier: MIT */
/* A spec as JSON, for `kiln show` and for callers of kiln_operator_text. */
#include "base/dtype.h"
#include "base/text.h"
#include "spec/spec.h"

/* `"key":`, after a comma unless it is the first of its object. */
static void key(struct kn_text *t, const char *name) {
  if (t->length > 0 && t->data[t->length - 1] != '{') kn_text_append(t, ",");
  kn_text_json_string(t, name);
  kn_text_append(t, ":");
}

static void comma(struct kn_text *t, size_t index) {
  if (index > 0) kn_text_append(t, ",");
}

static void string_member(struct kn_text *t, const char *name, const char *value) {
  key(t, name);
  if (value) {
    kn_text_json_string(t, value);
  } else {
    kn_text_append(t, "null");
  }
}

static void bool_member(struct kn_text *t, const char *name, bool value) {
  key(t, name);
  kn_text_append(t, value ? "true" : "false");
}

static void int_member(struct kn_text *t, const char *name, int64_t value) {
  key(t, name);
  kn_text_printf(t, "%lld", (long long)value);
}

static const char *dtype_name(int64_t dtype) {
  static const char *const names[] = {
#define KILN_X(name, value, bits, text) [value] = (text),
      KILN_DTYPE_TABLE(KILN_X)
#undef KILN_X
  };
  return names[dtype];
}

static void value_member(struct kn_text *t, const char *name, const struct kn_value *value) {
  switch (value->type) {
    case KN_VALUE_INT:
      int_member(t, name, value->number);
      break;
    case KN_VALUE_BOOL:
      bool_member(t, name, value->number != 0);
      break;
    case KN_VALUE_DTYPE:
      string_member(t, name, dtype_name(value->number));
      break;
    case KN_VALUE_WORD:
      string_member(t, name, value->word);
      break;
  }
}

static void append_params(struct kn_text *t, const struct kn_spec *spec) {
  static const char *const types[] = {[KN_VALUE_INT] = "int",
                                      [KN_VALUE_BOOL] = "bool",
                                      [KN_VALUE_DTYPE] = "dtype",
                                      [KN_VALUE_WORD] = "word"};
  key(t, "params");
  kn_text_append(t, "[");
  for (size_t i = 0; i < spec->num_params; i++) {
    const struct kn_param_spec *param = &spec->params[i];
    comma(t, i);
    kn_text_append(t, "{");
    string_member(t, "name", param->name);
    string_member(t, "type", types[param->type]);
    if (param->has_min) int_member(t, "min", param->min);
    if (param->has_max) int_member(t, "max", param->max);
    if (param->multiple_of != 1) int_member(t, "multiple_of", param->multiple_of);
    if (param->num_one_of > 0) {
      key(t, "one_of");
      kn_text_append(t, "[");
      for (size_t k = 0; k < param->num_one_of; k++) {
        comma(t, k);
        kn_text_json_string(t, param->one_of[k]->text);
      }
      kn_text_append(t, "]");
    }
    if (param->has_default) value_member(t, "default", &param->default_value);
    if (param->num_sweep > 0) {
      key(t, "sweep");
      kn_text_append(t, "[");
      for (size_t k = 0; k < param->num_sweep; k++) {
        comma(t, k);
        kn_text_printf(t, "%lld", (long long)param->sweep[k]);
      }
      kn_text_append(t, "]");
    }
    kn_text_append(t, "}");
  }
  kn_text_append(t, "]");
}

static void append_scalars(struct kn_text *t, const struct kn_spec *spec) {
  key(t, "scalars");
  kn_text_append(t, "[");
  for (size_t i = 0; i < spec->num_scalars; i++) {
    const struct kn_scalar_spec *scalar = &spec->scalars[i];
    comma(t, i);
    kn_text_append(t, "{");
    string_member(t, "name", scalar->name);
    string_member(t, "type", dtype_name(scalar->type));
    bool_member(t, "optional", scalar->optional);
    if (scalar->range[0]) {
      key(t, "range");
      kn_text_append(t, "[");
      kn_text_json_string(t, scalar->range[0]->text);
      comma(t, 1);
      kn_text_json_string(t, scalar->range[1]->text);
      kn_text_append(t, "]");
    }
    kn_text_append(t, "}");
  }
  kn_text_append(t, "]");
}

/* Strides of `rank` axes, unless they are those of a contiguous tensor. */
static void append_strides(struct kn_text *t, const struct kn_tensor_spec *tensor, int rank) {
  bool is_contiguous = true;
  for (int axis = 0; axis < rank; axis++) {
    if (tensor->stride_any[axis] || tensor->strides[axis]) is_contiguous = false;
  }
  if (is_contiguous) return;
  key(t, "strides");
  kn_text_append(t, "[");
  for (int axis = 0; axis < rank; axis++) {
    comma(t, (size_t)axis);
    kn_text_json_string(t, tensor->strides[axis] ? tensor->strides[axis]->text : "any");
  }
  kn_text_append(t, "]");
}

static void append_shape(struct kn_text *t, const struct kn_tensor_spec *tensor) {
  key(t, "shape");
  kn_text_append(t, "[");
  for (int axis = 0; axis < tensor->rank; axis++) {
    comma(t, (size_t)axis);
    kn_text_json_string(t, tensor->shape[axis]->text);
  }
  kn_text_append(t, "]");
  append_strides(t, tensor, tensor->rank);
}

static void append_tensors(struct kn_text *t, const struct kn_spec *spec) {
  static const char *const roles[] = {[KILN_IN] = "in", [KILN_OUT] = "out", [KILN_INOUT] = "inout"};
  key(t, "tensors");
  kn_text_append(t, "[");
  for (size_t i = 0; i < spec->num_tensors; i++) {
    const struct kn_tensor_spec *tensor = &spec->tensors[i];
    comma(t, i);
    kn_text_append(t, "{");
    string_member(t, "name", tensor->name);
    string_member(t, "role", roles[tensor->role]);
    if (tensor->sf_of) {
      string_member(t, "sf_of", tensor->sf_of);
      key(t, "block");
      kn_text_append(t, "[");
      kn_text_json_string(t, tensor->block[0]->text);
      comma(t, 1);
      kn_text_json_string(t, tensor->block[1]->text);
      kn_text_append(t, "]");
      append_strides(t, tensor, 2);
    } else {
      string_member(t, "dtype", tensor->dtype->text);
      append_shape(t, tensor);
    }
    bool_member(t, "optional", tensor->optional);
    bool_member(t, "list", tensor->list);
    if (tensor->range) string_member(t, "range", tensor->range->text);
    kn_text_append(t, "}");
  }
  kn_text_append(t, "]");
}

static void append_stage(struct kn_text *line, const struct kn_stage_spec *stage) {
  const bool is_single = stage->num_args == 1 && !stage->args[0].key[0];
  kn_text_append(line, stage->name);
  if (stage->num_args > 0) kn_text_append(line, is_single ? ": " : ": {");
  for (size_t i = 0; i < stage->num_args; i++) {
    const struct kn_stage_arg *arg = &stage->args[i];
    if (i > 0) kn_text_append(line, ", ");
    if (!is_single) kn_text_printf(line, "%s: ", arg->key);
    if (arg->num_values != 1) kn_text_append(line, "[");
    for (size_t k = 0; k < arg->num_values; k++) {
      kn_text_printf(line, "%s%s", k > 0 ? ", " : "", arg->values[k]->text);
    }
    if (arg->num_values != 1) kn_text_append(line, "]");
  }
  if (stage->num_args > 0 && !is_single) kn_text_append(line, "}");
}

static void append_chain(struct kn_text *t, const struct kn_spec *spec) {
  key(t, "chain");
  kn_text_append(t, "[");
  for (size_t i = 0; i < spec->num_stages; i++) {
    struct kn_text line = {0};
    append_stage(&line, &spec->chain[i]);
    comma(t, i);
    if (line.data && !line.failed) {
      kn_text_json_string(t, line.data);
    } else {
      t->failed = true;
    }
    kn_text_release(&line);
  }
  kn_text_append(t, "]");
}

static void append_tile(struct kn_text *t, const struct kn_spec *spec) {
  key(t, "tile");
  kn_text_append(t, "{");
  for (size_t i = 0; i < spec->num_tile; i++) {
    int_member(t, spec->tile[i].name, spec->tile[i].value);
  }
  kn_text_append(t, "}");
  key(t, "tune");
  kn_text_append(t, "{");
  for (size_t i = 0; i < spec->num_tile; i++) {
    const struct kn_tile_spec *tile = &spec->tile[i];
    if (tile->num_candidates == 0) continue;
    key(t, tile->name);
    kn_text_append(t, "[");
    for (size_t k = 0; k < tile->num_candidates; k++) {
      comma(t, k);
      kn_text_printf(t, "%lld", (long long)tile->candidates[k]);
    }
    kn_text_append(t, "]");
  }
  kn_text_append(t, "}");
}

static void append_examples(struct kn_text *t, const struct kn_spec *spec) {
  key(t, "examples");
  kn_text_append(t, "[");
  for (size_t i = 0; i < spec->num_examples; i++) {
    const struct kn_example_spec *example = &spec->examples[i];
    comma(t, i);
    kn_text_append(t, "{");
    for (size_t k = 0; k < example->num_values; k++) {
      string_member(t, example->values[k].name, example->values[k].value);
    }
    kn_text_append(t, "}");
  }
  kn_text_append(t, "]");
}

char *kn_spec_json(const struct kn_spec *spec) {
  struct kn_text t = {0};
  kn_text_append(&t, "{");
  string_member(&t, "operator", spec->name);
  string_member(&t, "about", spec->about);
  string_member(&t, "file", spec->file);
  string_member(&t, "template", spec->template_name);
  append_params(&t, spec);
  append_scalars(&t, spec);
  append_tensors(&t, spec);
  key(&t, "require");
  kn_text_append(&t, "[");
  for (size_t i = 0; i < spec->num_requires; i++) {
    comma(&t, i);
    kn_text_json_string(&t, spec->requires[i].rule->text);
  }
  kn_text_append(&t, "]");
  append_chain(&t, spec);
  append_tile(&t, spec);
  string_member(&t, "bytes", spec->bytes ? spec->bytes->text : NULL);
  string_member(&t, "workspace", spec->workspace ? spec->workspace->text : NULL);
  append_examples(&t, spec);
  kn_text_append(&t, "}");
  return kn_text_take(&t);
}
