/* SPDX-License-Identifier: MIT */
/* Growing text. After the first failed allocation every append is a no-op and `failed` stays set:
   check once at the end. */
#ifndef KILN_BASE_TEXT_H
#define KILN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"

struct kn_text {
  char *data; /* NUL-terminated once something was appended; {0} is empty text */
  size_t length, capacity;
  bool failed;
};

void kn_text_append(struct kn_text *text, const char *string);
void kn_text_append_n(struct kn_text *text, const void *data, size_t length);
void kn_text_printf(struct kn_text *text, const char *format, ...) KN_PRINTF(2, 3);
/* `string` as a quoted JSON string. */
void kn_text_json_string(struct kn_text *text, const char *string);
/* Hands the bytes over (free with free()), NULL if anything failed; never NULL for empty text. */
char *kn_text_take(struct kn_text *text);
void kn_text_release(struct kn_text *text);

/* The candidate nearest to `word` by edit distance if it is near enough to suggest, else NULL. */
const char *kn_did_you_mean(const char *word, const char *const *candidates, size_t count);

#endif
