/* SPDX-License-Identifier: MIT */
#include "spec/node.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/error.h"
#include "spec/spec.h"

enum { MAX_SCALAR = 2048, MAX_SHOWN = 40, MAX_MESSAGE = 4096 };

struct loader {
  struct kn_arena *arena;
  const char *file, *text;
  size_t length;
  size_t character, byte; /* the same place twice: libyaml counts characters */
  size_t num_nodes;
  yaml_parser_t parser;
};

kiln_status kn_fail_mark(struct kn_mark mark, const char *format, ...) {
  char message[MAX_MESSAGE];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return kn_fail_at(KILN_E_SPEC, mark.file, mark.line, mark.column, "%s", message);
}

kiln_status kn_fail_memory(void) {
  return kn_fail(KILN_E_MEMORY, "out of memory while reading a spec");
}

const char *kn_shown(struct kn_arena *arena, const char *text) {
  const size_t length = strlen(text);
  size_t shown = length < MAX_SHOWN ? length : MAX_SHOWN;
  char *copy;

  while (shown < length && shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80) shown--;
  copy = kn_arena_printf(arena, "%.*s%s", (int)shown, text, shown < length ? "..." : "");
  if (!copy) return "?";
  for (char *c = copy; *c; c++) {
    const unsigned char byte = (unsigned char)c[0], second = (unsigned char)c[1];
    if (byte < ' ' || byte == 0x7f) *c = '?';
    if (byte == 0xc2 && second < 0xa0) c[0] = c[1] = '?'; /* a C1 control */
  }
  return copy;
}

/* ---- the bytes ---------------------------------------------------------------------------- */

/* Bytes of the character at `s`, 0 where it is invalid UTF-8 or no character of a spec. */
static size_t character_length(const unsigned char *s, size_t left) {
  static const struct {
    unsigned char lead_min, lead_max, second_min, second_max;
    size_t length;
  } forms[] = {
      {0xc2, 0xc2, 0xa0, 0xbf, 2}, /* no C1 control */
      {0xc3, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
      {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
      {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
  };
  if (*s < 0x80) return (*s >= ' ' && *s != 0x7f) || *s == '\t' || *s == '\n' || *s == '\r';
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const size_t length = forms[i].length;
    if (*s < forms[i].lead_min || *s > forms[i].lead_max) continue;
    if (left < length || s[1] < forms[i].second_min || s[1] > forms[i].second_max) return 0;
    for (size_t k = 2; k < length; k++) {
      if (s[k] < 0x80 || s[k] > 0xbf) return 0;
    }
    if (length == 3 && (memcmp(s, "\xe2\x80\xa8", 3) == 0 || memcmp(s, "\xe2\x80\xa9", 3) == 0 ||
                        memcmp(s, "\xef\xbb\xbf", 3) == 0)) {
      return 0; /* line breaks for some readers, and the byte order mark */
    }
    return length;
  }
  return 0;
}

static kiln_status check_text(const char *file, const char *text, size_t length) {
  const unsigned char *s = (const unsigned char *)text;
  struct kn_mark mark = {file, 1, 1};
  size_t i = 0;

  if (length > KN_SPEC_MAX_BYTES) {
    return kn_fail_mark(mark, "the spec has %zu bytes; allowed are %d", length, KN_SPEC_MAX_BYTES);
  }
  while (i < length) {
    const size_t step = character_length(s + i, length - i);
    const bool is_break = s[i] == '\n' || (s[i] == '\r' && !(i + 1 < length && s[i + 1] == '\n'));
    if (step == 0 && s[i] < 0x80) {
      return kn_fail_mark(mark, "control character 0x%02x; allowed is plain text", s[i]);
    }
    if (step == 0) {
      return kn_fail_mark(mark, "byte 0x%02x begins no character of plain UTF-8 text", s[i]);
    }
    mark.column = is_break ? 1 : mark.column + 1;
    mark.line += is_break;
    i += step;
  }
  return KILN_OK;
}

/* ---- events -------------------------------------------------------------------------------- */

static struct kn_mark mark_at(const struct loader *l, const yaml_mark_t *mark) {
  return (struct kn_mark){l->file, (int)mark->line + 1, (int)mark->column + 1};
}

static kiln_status next_event(struct loader *l, yaml_event_t *event) {
  const yaml_parser_t *p = &l->parser;
  if (yaml_parser_parse(&l->parser, event)) return KILN_OK;
  if (p->error == YAML_MEMORY_ERROR) return kn_fail_memory();
  return kn_fail_mark(mark_at(l, &p->problem_mark), "invalid YAML: %s%s%s",
                      p->context ? p->context : "", p->context ? ", " : "",
                      p->problem ? p->problem : "unreadable");
}

static kiln_status refuse_extras(const struct loader *l, const yaml_event_t *event,
                                 const yaml_char_t *anchor, const yaml_char_t *tag) {
  const struct kn_mark mark = mark_at(l, &event->start_mark);
  if (anchor) return kn_fail_mark(mark, "anchors are not allowed; write the value out");
  if (tag) return kn_fail_mark(mark, "tags are not allowed; types follow from the keys");
  return KILN_OK;
}

/* The byte at which character `index` begins; asked for in ascending order. */
static size_t byte_at(struct loader *l, size_t index) {
  while (l->character < index && l->byte < l->length) {
    l->byte++;
    while (l->byte < l->length && ((unsigned char)l->text[l->byte] & 0xc0) == 0x80) l->byte++;
    l->character++;
  }
  return l->byte;
}

/* A node while it is being built. */
struct building {
  struct kn_node node; /* first: the tree points to it */
  struct building *first, *next;
  size_t begin, end; /* bytes of a plain scalar */
  bool is_flow;
};

static kiln_status new_node(struct loader *l, const yaml_event_t *event, struct building **out) {
  struct building *b;
  const struct kn_mark mark = mark_at(l, &event->start_mark);
  if (++l->num_nodes > KN_SPEC_MAX_NODES) {
    return kn_fail_mark(mark, "the spec has more than %d values", KN_SPEC_MAX_NODES);
  }
  b = kn_arena_alloc(l->arena, 1, sizeof *b);
  if (!b) return kn_fail_memory();
  b->node.mark = mark;
  *out = b;
  return KILN_OK;
}

static kiln_status load_scalar(struct loader *l, const yaml_event_t *event, struct building *b) {
  const char *value = (const char *)event->data.scalar.value;
  const size_t length = event->data.scalar.length;
  const kiln_status status =
      refuse_extras(l, event, event->data.scalar.anchor, event->data.scalar.tag);
  if (status != KILN_OK) return status;

  if (length > MAX_SCALAR) {
    return kn_fail_mark(b->node.mark, "a value of %zu bytes; allowed are %d", length, MAX_SCALAR);
  }
  if (memchr(value, '\0', length)) return kn_fail_mark(b->node.mark, "a value with a NUL byte");
  b->node.kind = KN_NODE_SCALAR;
  b->node.text = kn_arena_strndup(l->arena, value, length);
  if (!b->node.text) return kn_fail_memory();
  b->node.source = b->node.text;
  b->node.is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  if (b->node.is_plain && length > 0) {
    b->begin = byte_at(l, event->start_mark.index);
    b->end = byte_at(l, event->end_mark.index);
    b->node.source = kn_arena_strndup(l->arena, l->text + b->begin, b->end - b->begin);
    if (!b->node.source) return kn_fail_memory();
  }
  return KILN_OK;
}

/* Opening parentheses that `b`, a plain scalar, leaves open. */
static int open_parentheses(const struct building *b) {
  int open = 0;
  if (b->node.kind != KN_NODE_SCALAR || !b->node.is_plain) return 0;
  for (const char *c = b->node.source; *c; c++) open += (*c == '(') - (*c == ')');
  return open;
}

/* `[min(a, b), c]` and `{grid: min(a, b)}` come apart at the comma inside the parentheses. */
static kiln_status join_pieces(struct loader *l, struct building *parent) {
  const bool is_mapping = parent->node.kind == KN_NODE_MAPPING;
  for (struct building *b = parent->first; b; b = b->next) {
    while (open_parentheses(b) > 0 && b->next && b->next->node.kind == KN_NODE_SCALAR &&
           b->next->node.is_plain) {
      struct building *piece = b->next;
      if (is_mapping && piece->node.text[0]) break;
      b->end = piece->end;
      b->next = piece->next;
      parent->node.count--;
      b->node.text = kn_arena_strndup(l->arena, l->text + b->begin, b->end - b->begin);
      if (!b->node.text) return kn_fail_memory();
      b->node.source = b->node.text;
    }
  }
  return KILN_OK;
}

static kiln_status refuse_repeated_keys(struct loader *l, const struct building *parent) {
  for (const struct building *b = parent->first; b; b = b->next) {
    for (const struct building *earlier = parent->first; earlier != b; earlier = earlier->next) {
      if (strcmp(earlier->node.key, b->node.key) != 0) continue;
      return kn_fail_mark(b->node.key_mark, "key '%s' is given twice, first in line %d",
                          kn_shown(l->arena, b->node.key), earlier->node.key_mark.line);
    }
  }
  return KILN_OK;
}

static kiln_status load_key(struct loader *l, const yaml_event_t *event, const char **out_key,
                            size_t *out_end) {
  const struct kn_mark mark = mark_at(l, &event->start_mark);
  struct building key = {0};
  kiln_status status;

  if (event->type != YAML_SCALAR_EVENT) {
    return kn_fail_mark(mark, "a key must be a name, not a list, a mapping or an alias");
  }
  key.node.mark = mark;
  status = load_scalar(l, event, &key);
  if (status != KILN_OK) return status;
  if (!key.node.is_plain) return kn_fail_mark(mark, "keys are written without quotes");
  if (!key.node.text[0]) return kn_fail_mark(mark, "a key is missing");
  *out_key = key.node.text;
  *out_end = key.end;
  return KILN_OK;
}

static kiln_status load_value(struct loader *l, const yaml_event_t *event, int depth,
                              struct building **out);

/* One child, whose first event (the key's, in a mapping) is `event`. */
static kiln_status load_child(struct loader *l, const yaml_event_t *event, int depth,
                              bool is_mapping, struct building **out) {
  const struct kn_mark key_mark = mark_at(l, &event->start_mark);
  const char *key = NULL;
  yaml_event_t value;
  size_t key_end = 0;
  kiln_status status;

  if (!is_mapping) return load_value(l, event, depth, out);
  status = load_key(l, event, &key, &key_end);
  if (status == KILN_OK) status = next_event(l, &value);
  if (status != KILN_OK) return status;
  status = load_value(l, &value, depth, out);
  yaml_event_delete(&value);
  if (status != KILN_OK) return status;
  (*out)->node.key = key;
  (*out)->node.key_mark = key_mark;
  if ((*out)->end == 0) (*out)->end = key_end; /* an empty value: the key may be a piece */
  return KILN_OK;
}

static kiln_status load_children(struct loader *l, int depth, struct building *parent) {
  const bool is_mapping = parent->node.kind == KN_NODE_MAPPING;
  const yaml_event_type_t end = is_mapping ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
  struct building **tail = &parent->first;
  kiln_status status;

  for (;;) {
    yaml_event_t event;
    bool is_end;

    status = next_event(l, &event);
    if (status != KILN_OK) return status;
    is_end = event.type == end;
    if (!is_end && parent->node.count >= KN_SPEC_MAX_ENTRIES) {
      status =
          kn_fail_mark(mark_at(l, &event.start_mark), "more than %d entries", KN_SPEC_MAX_ENTRIES);
    } else if (!is_end) {
      status = load_child(l, &event, depth, is_mapping, tail);
    }
    yaml_event_delete(&event);
    if (status != KILN_OK) return status;
    if (is_end) break;
    tail = &(*tail)->next;
    parent->node.count++;
  }
  if (parent->is_flow) status = join_pieces(l, parent);
  if (status == KILN_OK && is_mapping) status = refuse_repeated_keys(l, parent);
  if (status != KILN_OK) return status;

  parent->node.first = parent->first ? &parent->first->node : NULL;
  for (struct building *b = parent->first; b; b = b->next) {
    b->node.next = b->next ? &b->next->node : NULL;
  }
  return KILN_OK;
}

static kiln_status load_value(struct loader *l, const yaml_event_t *event, int depth,
                              struct building **out) {
  struct building *b = NULL;
  const yaml_char_t *anchor, *tag;
  kiln_status status;

  if (event->type == YAML_ALIAS_EVENT) {
    return kn_fail_mark(mark_at(l, &event->start_mark),
                        "aliases are not allowed; write the value out");
  }
  status = new_node(l, event, &b);
  if (status != KILN_OK || !b) return status;
  if (event->type == YAML_SCALAR_EVENT) {
    status = load_scalar(l, event, b);
  } else {
    const bool is_mapping = event->type == YAML_MAPPING_START_EVENT;
    if (depth >= KN_SPEC_MAX_DEPTH) {
      return kn_fail_mark(b->node.mark, "nested deeper than %d", KN_SPEC_MAX_DEPTH);
    }
    b->node.kind = is_mapping ? KN_NODE_MAPPING : KN_NODE_SEQUENCE;
    b->is_flow = is_mapping ? event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                            : event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    anchor = is_mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    tag = is_mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    status = refuse_extras(l, event, anchor, tag);
    if (status == KILN_OK) status = load_children(l, depth + 1, b);
  }
  if (status == KILN_OK) *out = b;
  return status;
}

/* The next event must have the type; what it holds is not needed. */
static kiln_status expect_event(struct loader *l, yaml_event_type_t type, const char *otherwise) {
  yaml_event_t event;
  kiln_status status = next_event(l, &event);
  if (status != KILN_OK) return status;
  if (event.type != type) {
    status = kn_fail_mark(mark_at(l, &event.start_mark), "%s", otherwise);
  } else if (type == YAML_DOCUMENT_START_EVENT &&
             (event.data.document_start.version_directive ||
              event.data.document_start.tag_directives.start !=
                  event.data.document_start.tag_directives.end)) {
    status = kn_fail_mark(mark_at(l, &event.start_mark), "YAML directives are not allowed");
  }
  yaml_event_delete(&event);
  return status;
}

static kiln_status load_document(struct loader *l, const struct kn_node **out) {
  struct building *root = NULL;
  yaml_event_t event;
  kiln_status status;

  status = expect_event(l, YAML_STREAM_START_EVENT, "no YAML");
  if (status == KILN_OK) status = expect_event(l, YAML_DOCUMENT_START_EVENT, "the spec is empty");
  if (status == KILN_OK) status = next_event(l, &event);
  if (status != KILN_OK) return status;
  status = load_value(l, &event, 0, &root);
  yaml_event_delete(&event);
  if (status == KILN_OK) status = expect_event(l, YAML_DOCUMENT_END_EVENT, "no end of document");
  if (status == KILN_OK) {
    status = expect_event(l, YAML_STREAM_END_EVENT, "a second document; a file holds one spec");
  }
  if (status == KILN_OK) *out = &root->node;
  return status;
}

kiln_status kn_node_load(struct kn_arena *arena, const char *file, const char *text, size_t length,
                         const struct kn_node **out) {
  struct loader l = {.arena = arena, .file = file, .text = text, .length = length};
  kiln_status status = check_text(file, text, length);
  if (status != KILN_OK) return status;
  if (!yaml_parser_initialize(&l.parser)) return kn_fail_memory();
  yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&l.parser, (const unsigned char *)(length ? text : ""), length);
  status = load_document(&l, out);
  yaml_parser_delete(&l.parser);
  return status;
}
