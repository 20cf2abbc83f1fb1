/* SPDX-License-Identifier: MIT */
/* YAML as a tree in which every value knows its place; a small, unambiguous part of YAML. */
#ifndef KILN_SPEC_NODE_H
#define KILN_SPEC_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include <kiln/kiln.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "spec/expr.h"

enum kn_node_kind { KN_NODE_SCALAR, KN_NODE_SEQUENCE, KN_NODE_MAPPING };

struct kn_node {
  enum kn_node_kind kind;
  struct kn_mark mark;
  const char *key; /* in a mapping: plain, not empty, unlike its siblings' */
  struct kn_mark key_mark;
  const struct kn_node *first, *next; /* first child; next sibling */
  size_t count;                       /* of children */
  bool is_plain;                      /* a scalar without quotes */
  const char *text;                   /* a scalar's value, folded to one line where it is plain */
  const char *source;                 /* a plain scalar as it stands in the file */
};

/*
 * Reads one document into `arena`. KILN_E_SPEC on invalid UTF-8, control characters, broken YAML,
 * a key given twice, several documents, aliases, anchors, tags, directives, and beyond the limits
 * of spec.h. Scalars of a flow collection that a comma inside parentheses has split
 * (`[min(a, b), c]`) are joined again.
 */
kiln_status kn_node_load(struct kn_arena *arena, const char *file, const char *text, size_t length,
                         const struct kn_node **out);

/* KILN_E_SPEC at a place. */
kiln_status kn_fail_mark(struct kn_mark mark, const char *format, ...) KN_PRINTF(2, 3);
/* KILN_E_MEMORY. */
kiln_status kn_fail_memory(void);

/* `text` as it fits into a message: cut, and without control characters. */
const char *kn_shown(struct kn_arena *arena, const char *text);

#endif
