/* SPDX-License-Identifier: MIT */
#include "spec/field.h"

#include <string.h>

#include "base/dtype.h"
#include "base/text.h"
#include "spec/spec.h"

enum { MAX_KEYS = 32, MAX_LINE = 160 };

const char *const kn_dtype_words[KN_NUM_DTYPES] = {
#define KILN_X(name, value, bits, text) text,
    KILN_DTYPE_TABLE(KILN_X)
#undef KILN_X
};

static void *member(void *object, size_t offset) {
  return (char *)object + offset;
}

const char *kn_spell(struct kn_arena *arena, const char *const *words, size_t count) {
  const char *text = "";
  for (size_t i = 0; i < count; i++) {
    const char *separator = i == 0 ? "" : i + 1 == count ? " and " : ", ";
    text = kn_arena_printf(arena, "%s%s%s", text, separator, words[i]);
    if (!text) return "?";
  }
  return text;
}

const char *kn_suggest(struct kn_arena *arena, const char *word, const char *const *candidates,
                       size_t count) {
  const char *near = kn_did_you_mean(word, candidates, count);
  const char *text = near ? kn_arena_printf(arena, " (did you mean '%s'?)", near) : "";
  return text ? text : "";
}

bool kn_parse_int(const char *text, int64_t *out) {
  const bool is_negative = *text == '-';
  const char *c = text + is_negative;
  int64_t value = 0;

  if (*c < '0' || *c > '9' || (*c == '0' && (c[1] || is_negative))) return false;
  for (; *c; c++) {
    const int digit = *c - '0';
    if (digit < 0 || digit > 9) return false;
    if (value < (INT64_MIN + digit) / 10) return false;
    value = value * 10 - digit; /* negative, so that INT64_MIN fits */
  }
  if (!is_negative && value == INT64_MIN) return false;
  *out = is_negative ? value : -value;
  return true;
}

/* ---- scalars ------------------------------------------------------------------------------- */

/* What some YAML readers take for a boolean or for nothing. */
static bool is_yaml_word(const char *text) {
  static const char *const words[] = {"yes", "no", "on", "off", "true", "false", "null", "~"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcasecmp(text, words[i]) == 0) return true;
  }
  return false;
}

const char *kn_ambiguity(const struct kn_node *node) {
  const char *text = node->text;
  const char *digits = text + (*text == '-' || *text == '+');

  if (!node->is_plain) return " (quotes make it text)";
  if (strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0) return " (a value is needed)";
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return "";
  if (is_yaml_word(text)) return " (the only booleans are true and false)";
  if (*digits == '.') return " (no floats)";
  if (*digits < '0' || *digits > '9') return "";
  if (strchr(text, '_')) return " (no separators in numbers)";
  if (digits[0] == '0' && digits[1] && strspn(digits, "0123456789") == strlen(digits)) {
    return " (octal to some readers)";
  }
  if (digits[0] == '0' && digits[1] && strchr("xXoObB", digits[1])) return " (decimal only)";
  if (strpbrk(text, ".eE")) return " (no floats)";
  if (strchr(text, ':')) return " (sexagesimal to some readers)";
  return *text == '+' ? " (no plus sign)" : "";
}

static kiln_status wrong(const struct kn_reader *reader, const struct kn_node *node,
                         const char *what, const char *allowed) {
  static const char *const kinds[] = {"a value", "a list", "a mapping"};
  if (node->kind != KN_NODE_SCALAR) {
    return kn_fail_mark(node->mark, "%s is %s; %s", what, kinds[node->kind], allowed);
  }
  if (node->is_plain && !node->text[0]) {
    return kn_fail_mark(node->mark, "%s is empty; %s", what, allowed);
  }
  return kn_fail_mark(node->mark, "%s is '%s'%s; %s", what, kn_shown(reader->arena, node->text),
                      kn_ambiguity(node), allowed);
}

kiln_status kn_scalar_int(const struct kn_reader *reader, const struct kn_node *node,
                          const char *what, const struct kn_range *range, int64_t *out) {
  int64_t value = 0;
  if (node->kind != KN_NODE_SCALAR || !node->is_plain || !kn_parse_int(node->text, &value)) {
    return wrong(reader, node, what, "allowed is an integer in decimal digits");
  }
  if (range && value != range->min && range->min == range->max) {
    return kn_fail_mark(node->mark, "%s is %lld; allowed is %lld", what, (long long)value,
                        (long long)range->min);
  }
  if (range && (value < range->min || value > range->max)) {
    return kn_fail_mark(node->mark, "%s is %lld; allowed is %lld to %lld", what, (long long)value,
                        (long long)range->min, (long long)range->max);
  }
  *out = value;
  return KILN_OK;
}

kiln_status kn_scalar_expr(const struct kn_reader *reader, const struct kn_node *node,
                           const char *what, const struct kn_expr **out) {
  if (node->kind != KN_NODE_SCALAR || !node->is_plain || !node->text[0]) {
    return wrong(reader, node, what, "allowed is an expression");
  }
  return kn_expr_parse(reader->arena, node->source, node->mark, out);
}

/* [a-z_][a-z0-9_]*, at most KN_SPEC_MAX_NAME bytes. */
static bool is_identifier(const char *text) {
  const char *c = text;
  if (*c >= '0' && *c <= '9') return false;
  while ((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_') c++;
  return *c == '\0' && c != text && c - text <= KN_SPEC_MAX_NAME;
}

kiln_status kn_check_identifier(const struct kn_reader *reader, struct kn_mark mark,
                                const char *what, const char *name) {
  if (!is_identifier(name)) {
    return kn_fail_mark(mark,
                        "%s is '%s'; allowed are lower-case letters, digits and _, beginning with "
                        "no digit, at most %d bytes",
                        what, kn_shown(reader->arena, name), KN_SPEC_MAX_NAME);
  }
  if (is_yaml_word(name)) {
    return kn_fail_mark(mark, "%s is '%s', which some YAML readers take for no text", what, name);
  }
  return KILN_OK;
}

static bool is_one_of(const char *name, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(name, words[i]) == 0) return true;
  }
  return false;
}

kiln_status kn_check_name(const struct kn_reader *reader, struct kn_mark mark, const char *what,
                          const char *name) {
  static const char *const ours[] = {"and", "or",  "not",  "ceil_div", "align",
                                     "min", "max", "size", "num_sms",  "any",
                                     "inf", "nan", "tile", "present"};
  static const char *const theirs[] = {
      "alignas",  "alignof",  "asm",      "auto",     "break",     "case",      "catch",
      "char",     "class",    "concept",  "const",    "consteval", "constexpr", "constinit",
      "continue", "decltype", "default",  "delete",   "do",        "double",    "else",
      "enum",     "explicit", "export",   "extern",   "float",     "for",       "friend",
      "goto",     "if",       "inline",   "int",      "long",      "mutable",   "namespace",
      "new",      "noexcept", "nullptr",  "operator", "private",   "protected", "public",
      "register", "requires", "return",   "short",    "signed",    "sizeof",    "static",
      "struct",   "switch",   "template", "this",     "throw",     "try",       "typedef",
      "typeid",   "typename", "union",    "unsigned", "using",     "virtual",   "void",
      "volatile", "while",    "xor",      "compl",    "bitand",    "bitor"};
  const kiln_status status = kn_check_identifier(reader, mark, what, name);
  if (status != KILN_OK) return status;
  if (kn_dtype_parse(name) != KILN_DTYPE_NONE) {
    return kn_fail_mark(mark, "%s is '%s', which is a dtype; choose another name", what, name);
  }
  if (is_one_of(name, ours, sizeof ours / sizeof *ours)) {
    return kn_fail_mark(mark, "%s is '%s', which is reserved; choose another name", what, name);
  }
  if (is_one_of(name, theirs, sizeof theirs / sizeof *theirs)) {
    return kn_fail_mark(mark, "%s is '%s', which is a word of C++; choose another name", what,
                        name);
  }
  return KILN_OK;
}

kiln_status kn_read_name(const struct kn_reader *reader, const struct kn_field *field,
                         const struct kn_node *node, void *object) {
  if (node->kind != KN_NODE_SCALAR || !node->is_plain || !node->text[0]) {
    return wrong(reader, node, field->key, "allowed is a name");
  }
  *(const char **)member(object, field->offset) = node->text;
  return kn_check_identifier(reader, node->mark, field->key, node->text);
}

/* Whether a plain scalar would be a number, a boolean or nothing to other readers. */
static bool is_no_text(const struct kn_node *node) {
  int64_t number;
  return kn_parse_int(node->text, &number) ||
         (!strchr(node->text, ' ') && (is_yaml_word(node->text) || kn_ambiguity(node)[0]));
}

kiln_status kn_read_line(const struct kn_reader *reader, const struct kn_field *field,
                         const struct kn_node *node, void *object) {
  if (node->kind != KN_NODE_SCALAR || !node->text[0] || strpbrk(node->text, "\n\r\t")) {
    return wrong(reader, node, field->key, "allowed is one line of text");
  }
  if (node->is_plain && is_no_text(node)) {
    return kn_fail_mark(node->mark,
                        "%s is '%s', which some YAML readers take for no text; quote it",
                        field->key, kn_shown(reader->arena, node->text));
  }
  if (strlen(node->text) > MAX_LINE) {
    return kn_fail_mark(node->mark, "%s has %zu bytes; allowed are %d", field->key,
                        strlen(node->text), MAX_LINE);
  }
  *(const char **)member(object, field->offset) = node->text;
  return KILN_OK;
}

kiln_status kn_read_int(const struct kn_reader *reader, const struct kn_field *field,
                        const struct kn_node *node, void *object) {
  const kiln_status status =
      kn_scalar_int(reader, node, field->key, field->of, member(object, field->offset));
  if (status == KILN_OK && field->extra) *(bool *)member(object, field->extra) = true;
  return status;
}

kiln_status kn_read_bool(const struct kn_reader *reader, const struct kn_field *field,
                         const struct kn_node *node, void *object) {
  const bool is_plain = node->kind == KN_NODE_SCALAR && node->is_plain;
  if (!is_plain || (strcmp(node->text, "true") != 0 && strcmp(node->text, "false") != 0)) {
    return wrong(reader, node, field->key, "allowed are true and false");
  }
  *(bool *)member(object, field->offset) = strcmp(node->text, "true") == 0;
  return KILN_OK;
}

kiln_status kn_read_word(const struct kn_reader *reader, const struct kn_field *field,
                         const struct kn_node *node, void *object) {
  const struct kn_word *words = field->of;
  const char *texts[MAX_KEYS], *allowed;
  size_t count = 0;

  for (; words[count].text; count++) texts[count] = words[count].text;
  for (size_t i = 0; i < count && node->kind == KN_NODE_SCALAR && node->is_plain; i++) {
    if (strcmp(node->text, texts[i]) != 0) continue;
    memcpy(member(object, field->offset), &words[i].value, sizeof words[i].value);
    return KILN_OK;
  }
  allowed = kn_arena_printf(reader->arena, "allowed are %s", kn_spell(reader->arena, texts, count));
  if (!allowed) return kn_fail_memory();
  if (node->kind != KN_NODE_SCALAR || !node->is_plain || !node->text[0]) {
    return wrong(reader, node, field->key, allowed);
  }
  return kn_fail_mark(node->mark, "%s is '%s'%s; %s", field->key,
                      kn_shown(reader->arena, node->text),
                      kn_suggest(reader->arena, node->text, texts, count), allowed);
}

kiln_status kn_read_expr(const struct kn_reader *reader, const struct kn_field *field,
                         const struct kn_node *node, void *object) {
  return kn_scalar_expr(reader, node, field->key, member(object, field->offset));
}

/* ---- collections --------------------------------------------------------------------------- */

kiln_status kn_check_mapping(const struct kn_node *node, const char *what) {
  if (node->kind == KN_NODE_MAPPING) return KILN_OK;
  return kn_fail_mark(node->mark, "%s is %s; allowed is a mapping", what,
                      node->kind == KN_NODE_SEQUENCE ? "a list" : "a plain value");
}

kiln_status kn_check_sequence(const struct kn_node *node, const char *what, size_t min,
                              size_t max) {
  if (node->kind != KN_NODE_SEQUENCE) {
    return kn_fail_mark(node->mark, "%s is %s; allowed is a list", what,
                        node->kind == KN_NODE_MAPPING ? "a mapping" : "a plain value");
  }
  if (node->count >= min && node->count <= max) return KILN_OK;
  if (min == max) {
    return kn_fail_mark(node->mark, "%s has %zu %s; allowed are %zu", what, node->count,
                        node->count == 1 ? "entry" : "entries", min);
  }
  return kn_fail_mark(node->mark, "%s has %zu %s; allowed are %zu to %zu", what, node->count,
                      node->count == 1 ? "entry" : "entries", min, max);
}

kiln_status kn_read_fields(const struct kn_reader *reader, const struct kn_schema *schema,
                           const struct kn_node *node, void *object) {
  const char *keys[MAX_KEYS];
  size_t num_keys = 0;
  kiln_status status = kn_check_mapping(node, schema->what);
  if (status != KILN_OK) return status;

  for (; schema->fields[num_keys].key; num_keys++) keys[num_keys] = schema->fields[num_keys].key;
  for (const struct kn_node *child = node->first; child; child = child->next) {
    size_t i = 0;
    while (i < num_keys && strcmp(child->key, keys[i]) != 0) i++;
    if (i < num_keys) continue;
    return kn_fail_mark(child->key_mark, "%s has no key '%s'%s; allowed are %s", schema->what,
                        kn_shown(reader->arena, child->key),
                        kn_suggest(reader->arena, child->key, keys, num_keys),
                        kn_spell(reader->arena, keys, num_keys));
  }
  for (const struct kn_field *field = schema->fields; field->key; field++) {
    const struct kn_node *child = node->first;
    while (child && strcmp(child->key, field->key) != 0) child = child->next;
    if (child) {
      status = field->read(reader, field, child, object);
      if (status != KILN_OK) return status;
    } else if (field->required) {
      return kn_fail_mark(node->mark, "%s needs a key '%s'", schema->what, field->key);
    }
  }
  return KILN_OK;
}

/* The next name of a key like "a, b", which is cut where it ends. */
static char *next_name(char **rest, struct kn_mark *mark) {
  char *name = *rest, *end;
  if (!name) return NULL;
  while (*name == ' ') name++;
  mark->column += (int)(name - *rest);
  end = strchr(name, ',');
  *rest = end ? end + 1 : NULL;
  if (!end) end = name + strlen(name);
  while (end > name && (end[-1] == ' ' || end[-1] == ',')) end--;
  *end = '\0';
  return name;
}

struct named {
  const struct kn_schema *schema;
  char *objects;
  size_t count;
};

static kiln_status add_named(const struct kn_reader *reader, struct named *named, const char *name,
                             struct kn_mark mark, const struct kn_node *node) {
  const struct kn_schema *schema = named->schema;
  char *object = named->objects + named->count * schema->size;
  struct kn_schema described = *schema;
  const char *what = kn_arena_printf(reader->arena, "%s name", schema->what);
  kiln_status status;

  if (named->count >= KN_SPEC_MAX_ENTRIES) {
    return kn_fail_mark(mark, "more than %d entries", KN_SPEC_MAX_ENTRIES);
  }
  status = kn_check_name(reader, mark, what ? what : "a name", name);
  if (status != KILN_OK) return status;
  for (size_t i = 0; i < named->count; i++) {
    const char *other = *(const char **)member(named->objects + i * schema->size, schema->name);
    if (strcmp(name, other) == 0) return kn_fail_mark(mark, "'%s' is declared twice", name);
  }
  described.what = kn_arena_printf(reader->arena, "%s '%s'", schema->what, name);
  if (!described.what) return kn_fail_memory();
  *(const char **)member(object, schema->name) = name;
  *(struct kn_mark *)member(object, schema->mark) = mark;
  named->count++;
  return kn_read_fields(reader, &described, node, object);
}

kiln_status kn_read_named(const struct kn_reader *reader, const struct kn_field *field,
                          const struct kn_node *node, void *object) {
  struct named named = {.schema = field->of};
  kiln_status status = kn_check_mapping(node, field->key);
  if (status != KILN_OK) return status;

  named.objects = kn_arena_alloc(reader->arena, KN_SPEC_MAX_ENTRIES, named.schema->size);
  if (!named.objects) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next) {
    struct kn_mark mark = child->key_mark;
    char *names = kn_arena_strdup(reader->arena, child->key), *rest = names, *name;
    if (!names) return kn_fail_memory();
    while ((name = next_name(&rest, &mark))) {
      status = add_named(reader, &named, name, mark, child);
      if (status != KILN_OK) return status;
      if (rest) mark.column = child->key_mark.column + (int)(rest - names);
    }
  }
  memcpy(member(object, field->offset), &named.objects, sizeof named.objects);
  *(size_t *)member(object, field->extra) = named.count;
  return KILN_OK;
}

kiln_status kn_read_list(const struct kn_reader *reader, const struct kn_field *field,
                         const struct kn_node *node, void *object) {
  const struct kn_schema *schema = field->of;
  char *objects;
  size_t count = 0;
  kiln_status status = kn_check_sequence(node, field->key, 1, KN_SPEC_MAX_ENTRIES);
  if (status != KILN_OK) return status;

  objects = kn_arena_alloc(reader->arena, node->count, schema->size);
  if (!objects) return kn_fail_memory();
  for (const struct kn_node *child = node->first; child; child = child->next, count++) {
    char *item = objects + count * schema->size;
    *(struct kn_mark *)member(item, schema->mark) = child->mark;
    status = kn_read_fields(reader, schema, child, item);
    if (status != KILN_OK) return status;
  }
  memcpy(member(object, field->offset), &objects, sizeof objects);
  *(size_t *)member(object, field->extra) = count;
  return KILN_OK;
}
