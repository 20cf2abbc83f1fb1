/* SPDX-License-Identifier: MIT */
/* Reading YAML mappings into structs by constant tables of fields. */
#ifndef KILN_SPEC_FIELD_H
#define KILN_SPEC_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/node.h"

struct kn_spec;

struct kn_reader {
  struct kn_arena *arena;
  struct kn_spec *spec;
};

struct kn_field;
/* Reads `node` into `object`, at the field's offsets. */
typedef kiln_status kn_read_fn(const struct kn_reader *reader, const struct kn_field *field,
                               const struct kn_node *node, void *object);

struct kn_field {
  const char *key;
  kn_read_fn *read;
  bool required;
  size_t offset;  /* of the member */
  size_t extra;   /* of the member that says how many there are, or whether there is one; or 0 */
  const void *of; /* what `read` needs to know: words, a range, a schema */
};

/* A struct that is read from a mapping. Fields are read in the order of the table, which ends with
   a field without key. */
struct kn_schema {
  const char *what; /* "param" */
  const struct kn_field *fields;
  size_t size;
  size_t name, mark; /* offsets of `const char *name` and `struct kn_mark mark` */
};

/* Words and what they stand for; ends with a word without text. */
struct kn_word {
  const char *text;
  int value;
};

struct kn_range {
  int64_t min, max;
};

kiln_status kn_read_fields(const struct kn_reader *reader, const struct kn_schema *schema,
                           const struct kn_node *node, void *object);

kn_read_fn kn_read_name;  /* const char *: [a-z_][a-z0-9_]* */
kn_read_fn kn_read_line;  /* const char *: one line of text */
kn_read_fn kn_read_int;   /* int64_t, `extra` a bool or 0; of: kn_range or NULL */
kn_read_fn kn_read_bool;  /* bool */
kn_read_fn kn_read_word;  /* an enum; of: kn_word[] */
kn_read_fn kn_read_expr;  /* const struct kn_expr * */
kn_read_fn kn_read_named; /* pointer and count of structs, from {NAME: {..}}; of: kn_schema */
kn_read_fn kn_read_list;  /* pointer and count of structs, from [{..}, ..]; of: kn_schema */

/* The parts that those are made of; `what` begins messages ("min", "an example"). */
kiln_status kn_check_sequence(const struct kn_node *node, const char *what, size_t min, size_t max);
kiln_status kn_check_mapping(const struct kn_node *node, const char *what);
kiln_status kn_scalar_int(const struct kn_reader *reader, const struct kn_node *node,
                          const char *what, const struct kn_range *range, int64_t *out);
kiln_status kn_scalar_expr(const struct kn_reader *reader, const struct kn_node *node,
                           const char *what, const struct kn_expr **out);
/* [a-z_][a-z0-9_]*, at most KN_SPEC_MAX_NAME bytes, and not "yes" or "null". */
kiln_status kn_check_identifier(const struct kn_reader *reader, struct kn_mark mark,
                                const char *what, const char *name);
/* An identifier that an expression can say: not a keyword, a dtype or a word that YAML readers take
   for something else. */
kiln_status kn_check_name(const struct kn_reader *reader, struct kn_mark mark, const char *what,
                          const char *name);

/* Why a scalar is not what it looks like: " (octal to some readers)"; or "". */
const char *kn_ambiguity(const struct kn_node *node);
/* Whether `text` is a decimal integer of 64 bits without leading zeros or plus. */
bool kn_parse_int(const char *text, int64_t *out);
/* How dtypes are spelt, for suggestions. */
#define KILN_X(name, value, bits, text) KN_INDEX_##name,
enum { KILN_DTYPE_TABLE(KILN_X) KN_NUM_DTYPES };
#undef KILN_X
extern const char *const kn_dtype_words[KN_NUM_DTYPES];

/* "a, b and c"; "?" when out of memory. */
const char *kn_spell(struct kn_arena *arena, const char *const *words, size_t count);
/* " (did you mean 'x'?)", or "". */
const char *kn_suggest(struct kn_arena *arena, const char *word, const char *const *candidates,
                       size_t count);

#endif
