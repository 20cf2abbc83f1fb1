/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `more` bytes and a NUL. */
static bool reserve(struct kn_text *text, size_t more) {
  size_t capacity = text->capacity ? text->capacity : 64;
  char *data;

  if (text->failed) return false;
  if (text->data && text->capacity - text->length > more) return true;
  if (more >= SIZE_MAX / 4 - text->length) {
    text->failed = true;
    return false;
  }
  while (capacity <= text->length + more) capacity *= 2;
  data = realloc(text->data, capacity);
  if (!data) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->capacity = capacity;
  return true;
}

void kn_text_append_n(struct kn_text *text, const void *data, size_t length) {
  if (!reserve(text, length)) return;
  if (length) memcpy(text->data + text->length, data, length);
  text->length += length;
  text->data[text->length] = '\0';
}

void kn_text_append(struct kn_text *text, const char *string) {
  kn_text_append_n(text, string, strlen(string));
}

void kn_text_printf(struct kn_text *text, const char *format, ...) {
  va_list args;
  int length;

  va_start(args, format);
  length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) {
    text->failed = true;
    return;
  }
  if (!reserve(text, (size_t)length)) return;
  va_start(args, format);
  (void)vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
  va_end(args);
  text->length += (size_t)length;
}

/* Bytes of the well-formed UTF-8 sequence at `s`, 0 if it is none. */
static size_t utf8_length(const unsigned char *s) {
  size_t length, i;
  uint32_t code;

  if (s[0] < 0x80) return 1;
  if (s[0] >= 0xc2 && s[0] < 0xe0) {
    length = 2;
  } else if (s[0] >= 0xe0 && s[0] < 0xf0) {
    length = 3;
  } else if (s[0] >= 0xf0 && s[0] < 0xf5) {
    length = 4;
  } else {
    return 0;
  }
  code = s[0] & (0xffu >> (length + 1));
  for (i = 1; i < length; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (s[i] & 0x3fu);
  }
  if (length == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return 0;
  if (length == 4 && (code < 0x10000 || code > 0x10ffff)) return 0;
  return length;
}

void kn_text_json_string(struct kn_text *text, const char *string) {
  const unsigned char *s = (const unsigned char *)string;

  kn_text_append_n(text, "\"", 1);
  while (*s) {
    const size_t length = utf8_length(s);
    if (length == 0) { /* JSON is UTF-8: a stray byte becomes the replacement character */
      kn_text_append(text, "\\ufffd");
      s++;
    } else if (*s == '"' || *s == '\\') {
      kn_text_printf(text, "\\%c", *s++);
    } else if (*s == '\n') {
      kn_text_append(text, "\\n");
      s++;
    } else if (*s < 0x20 || *s == 0x7f) {
      kn_text_printf(text, "\\u%04x", (unsigned)*s++);
    } else {
      kn_text_append_n(text, s, length);
      s += length;
    }
  }
  kn_text_append_n(text, "\"", 1);
}

char *kn_text_take(struct kn_text *text) {
  char *data;
  (void)reserve(text, 0);
  if (text->failed) {
    kn_text_release(text);
    return NULL;
  }
  data = text->data;
  data[text->length] = '\0';
  *text = (struct kn_text){0};
  return data;
}

void kn_text_release(struct kn_text *text) {
  free(text->data);
  *text = (struct kn_text){0};
}

enum { MAX_WORD = 96 };

static unsigned min2(unsigned a, unsigned b) {
  return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  unsigned rows[3][MAX_WORD + 1];
  unsigned *before = rows[0], *previous = rows[1], *current = rows[2];
  size_t i, j;

  for (j = 0; j <= b_length; j++) previous[j] = (unsigned)j;
  for (i = 1; i <= a_length; i++) {
    unsigned *oldest = before;
    current[0] = (unsigned)i;
    for (j = 1; j <= b_length; j++) {
      unsigned best = previous[j - 1] + (a[i - 1] != b[j - 1]);
      best = min2(best, min2(previous[j], current[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = min2(best, before[j - 2] + 1);
      }
      current[j] = best;
    }
    before = previous;
    previous = current;
    current = oldest;
  }
  return previous[b_length];
}

const char *kn_did_you_mean(const char *word, const char *const *candidates, size_t count) {
  const size_t length = strlen(word);
  const char *best = NULL;
  unsigned best_distance = 0;
  size_t i;

  if (length > MAX_WORD) return NULL;
  for (i = 0; i < count; i++) {
    const size_t candidate_length = strlen(candidates[i]);
    const size_t longer = candidate_length > length ? candidate_length : length;
    unsigned distance, allowed;

    if (candidate_length > MAX_WORD) continue;
    distance = edit_distance(word, length, candidates[i], candidate_length);
    allowed = longer < 3 ? 0 : (unsigned)(longer + 2) / 4 + (longer > 4);
    if (distance <= allowed && (!best || distance < best_distance)) {
      best = candidates[i];
      best_distance = distance;
    }
  }
  return best;
}
