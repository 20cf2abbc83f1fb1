/* SPDX-License-Identifier: MIT */
#include "emit/emit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { MAX_HEADERS = 64, MAX_PATH_LENGTH = 128 };

/* Device headers already written, in order. */
struct closure {
  kn_source_fn find;
  void *user;
  const char *operator_name;
  char done[MAX_HEADERS][MAX_PATH_LENGTH];
  size_t num_done;
  struct kn_text *out;
};

static kiln_status add_header(struct closure *closure, const char *name, size_t length, int depth);

/* The name in a line `#include "name"`; its length, 0 if the line is no such thing. */
static size_t included(const char *line, size_t length, const char **out_name) {
  static const char directive[] = "#include \"";
  size_t head = sizeof directive - 1;
  if (length <= head || memcmp(line, directive, head) != 0) return 0;
  const char *end = memchr(line + head, '"', length - head);
  if (!end) return 0;
  *out_name = line + head;
  return (size_t)(end - *out_name);
}

static bool is_once(const char *line, size_t length) {
  static const char directive[] = "#pragma once";
  return length >= sizeof directive - 1 && memcmp(line, directive, sizeof directive - 1) == 0;
}

/* Visits the headers that a header's text includes. */
static kiln_status add_included(struct closure *closure, const char *text, int depth) {
  for (const char *line = text; *line;) {
    size_t length = strcspn(line, "\n");
    const char *name = NULL;
    size_t name_length = included(line, length, &name);
    kiln_status status = name_length ? add_header(closure, name, name_length, depth + 1) : KILN_OK;
    if (status != KILN_OK) return status;
    line += length + (line[length] == '\n');
  }
  return KILN_OK;
}

/* Appends a header's text; lines that only matter to an editor become empty. */
static void append_header(struct kn_text *out, const char *name, const char *text) {
  kn_text_printf(out, "#line 1 \"%s\"\n", name);
  for (const char *line = text; *line;) {
    size_t length = strcspn(line, "\n");
    const char *ignored = NULL;
    if (!included(line, length, &ignored) && !is_once(line, length)) {
      kn_text_append_n(out, line, length);
    }
    kn_text_append(out, "\n");
    line += length + (line[length] == '\n');
  }
}

static kiln_status add_header(struct closure *closure, const char *name, size_t length, int depth) {
  char path[MAX_PATH_LENGTH + 16];
  if (length >= MAX_PATH_LENGTH || depth > 16 || closure->num_done == MAX_HEADERS) {
    return kn_fail(KILN_E_SPEC, "%s: device headers nest too deep or are too many at '%.*s'",
                   closure->operator_name, (int)length, name);
  }
  for (size_t i = 0; i < closure->num_done; ++i) {
    if (strlen(closure->done[i]) == length && memcmp(closure->done[i], name, length) == 0) {
      return KILN_OK;
    }
  }
  (void)snprintf(path, sizeof path, "templates/%.*s", (int)length, name);
  const char *text = closure->find(closure->user, path);
  if (!text) {
    return kn_fail(KILN_E_SPEC, "%s: there is no device header '%s'", closure->operator_name, path);
  }
  /* Marked before its own includes: a header that includes itself in a circle is written once. */
  char *own = closure->done[closure->num_done++];
  memcpy(own, name, length);
  own[length] = '\0';
  kiln_status status = add_included(closure, text, depth);
  if (status == KILN_OK) append_header(closure->out, own, text);
  return status;
}

/* The headers that a template's `// needs:` lines name. */
static kiln_status add_needed(struct closure *closure, const char *text) {
  static const char directive[] = "// needs:";
  for (const char *line = text; *line;) {
    size_t length = strcspn(line, "\n");
    if (length > sizeof directive && memcmp(line, directive, sizeof directive - 1) == 0) {
      const char *end = line + length;
      for (const char *word = line + sizeof directive - 1; word < end;) {
        word += strspn(word, " ");
        size_t word_length = strcspn(word, " \n");
        kiln_status status = word_length ? add_header(closure, word, word_length, 0) : KILN_OK;
        if (status != KILN_OK) return status;
        word += word_length;
        if (*word == '\n') break;
      }
    }
    line += length + (line[length] == '\n');
  }
  return KILN_OK;
}

static void append_constant(struct kn_text *out, const struct kn_plan_constant *constant) {
  switch (constant->kind) {
    case KN_CONSTANT_INT:
      kn_text_append(out, "constexpr int ");
      break;
    case KN_CONSTANT_I64:
      kn_text_append(out, "constexpr i64 ");
      break;
    case KN_CONSTANT_BOOL:
      kn_text_append(out, "constexpr bool ");
      break;
    case KN_CONSTANT_LAYOUT:
      kn_text_append(out, "constexpr SfLayout ");
      break;
    case KN_CONSTANT_ROW_HELD:
      kn_text_append(out, "constexpr RowHeld ");
      break;
    case KN_CONSTANT_TYPE:
      kn_text_append(out, "using ");
      break;
  }
  kn_text_printf(out, "%s = %s;\n", constant->name, constant->value);
}

static void append_args(struct kn_text *out, const struct kn_plan *plan) {
  kn_text_append(out, "struct kiln_args {\n");
  for (size_t i = 0; i < plan->num_slots; ++i) {
    const struct kn_plan_slot *slot = &plan->slots[i];
    kn_text_printf(out, "  %s%s %s;\n", slot->kind == KN_SLOT_SCALAR ? "alignas(8) " : "",
                   slot->c_type, slot->field);
  }
  kn_text_printf(out,
                 "};\nstatic_assert(sizeof(kiln_args) == %zu, \"host and device agree on "
                 "kiln_args\");\n",
                 plan->num_slots * 8);
}

static void append_phase(struct kn_text *out, const struct kn_plan_phase *phase) {
  kn_text_printf(out, "%s {\n", phase->signature);
  for (size_t i = 0; i < phase->num_lines; ++i) kn_text_printf(out, "  %s\n", phase->lines[i]);
  kn_text_append(out, "}\n");
}

kiln_status kn_emit_generated(const struct kn_plan *plan, struct kn_text *out) {
  kn_text_append(out, "#line 1 \"kiln/generated\"\nnamespace kiln {\n");
  for (size_t i = 0; i < plan->num_constants; ++i) append_constant(out, &plan->constants[i]);
  append_args(out, plan);
  for (size_t i = 0; i < plan->num_phases; ++i) append_phase(out, &plan->phases[i]);
  kn_text_append(out, "}  // namespace kiln\n");
  return out->failed ? kn_fail(KILN_E_MEMORY, "%s: out of memory", plan->spec->name) : KILN_OK;
}

kiln_status kn_emit(const struct kn_plan *plan, kn_source_fn find, void *user,
                    struct kn_text *out) {
  struct closure closure = {
      .find = find, .user = user, .operator_name = plan->spec->name, .out = out};
  const char *text = find(user, plan->template_path);
  if (!text) {
    return kn_fail_at(KILN_E_SPEC, plan->spec->file, plan->spec->template_mark.line,
                      plan->spec->template_mark.column, "%s: there is no template '%s'",
                      plan->spec->name, plan->template_path);
  }
  kn_text_printf(out, "// kiln: %s, %s\n", plan->canonical, plan->limits->target);
  kiln_status status = add_header(&closure, "kiln/types.cuh", strlen("kiln/types.cuh"), 0);
  if (status == KILN_OK) status = add_needed(&closure, text);
  for (size_t i = 0; i < plan->num_headers && status == KILN_OK; ++i) {
    status = add_header(&closure, plan->headers[i], strlen(plan->headers[i]), 0);
  }
  if (status == KILN_OK) status = kn_emit_generated(plan, out);
  if (status != KILN_OK) return status;
  const char *name = strrchr(plan->template_path, '/');
  kn_text_printf(out, "#line 1 \"%s\"\n", name ? name + 1 : plan->template_path);
  kn_text_append(out, text);
  return out->failed ? kn_fail(KILN_E_MEMORY, "%s: out of memory", plan->spec->name) : KILN_OK;
}
