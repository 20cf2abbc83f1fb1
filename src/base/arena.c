/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024 };

struct kn_arena_block {
  struct kn_arena_block *next;
  size_t used, capacity;
  max_align_t data[];
};

static struct kn_arena_block *new_block(size_t capacity) {
  struct kn_arena_block *block;
  if (capacity > SIZE_MAX - sizeof *block) return NULL;
  block = calloc(1, sizeof *block + capacity);
  if (block) block->capacity = capacity;
  return block;
}

void *kn_arena_alloc(struct kn_arena *arena, size_t count, size_t size) {
  struct kn_arena_block *block = arena->blocks;
  const size_t align = sizeof(max_align_t);
  size_t bytes;
  char *memory;

  if (size != 0 && count > (SIZE_MAX / 2) / size) return NULL;
  bytes = (count * size + align - 1) / align * align;
  if (bytes == 0) bytes = align;

  if (!block || block->capacity - block->used < bytes) {
    const int is_large = bytes > BLOCK_BYTES / 4;
    struct kn_arena_block *fresh = new_block(is_large ? bytes : BLOCK_BYTES);
    if (!fresh) return NULL;
    if (is_large && block) { /* keep filling the block that is open */
      fresh->next = block->next;
      block->next = fresh;
    } else {
      fresh->next = block;
      arena->blocks = fresh;
    }
    block = fresh;
  }
  memory = (char *)block->data + block->used;
  block->used += bytes;
  return memory;
}

char *kn_arena_strndup(struct kn_arena *arena, const char *text, size_t length) {
  char *copy;
  if (length == SIZE_MAX) return NULL;
  copy = kn_arena_alloc(arena, length + 1, 1);
  if (copy && length) memcpy(copy, text, length);
  return copy;
}

char *kn_arena_strdup(struct kn_arena *arena, const char *text) {
  return kn_arena_strndup(arena, text, strlen(text));
}

char *kn_arena_printf(struct kn_arena *arena, const char *format, ...) {
  va_list args;
  char *text = NULL;
  int length;

  va_start(args, format);
  length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) return NULL;
  text = kn_arena_alloc(arena, (size_t)length + 1, 1);
  if (!text) return NULL;
  va_start(args, format);
  (void)vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}

void kn_arena_release(struct kn_arena *arena) {
  struct kn_arena_block *block = arena->blocks;
  while (block) {
    struct kn_arena_block *next = block->next;
    free(block);
    block = next;
  }
  arena->blocks = NULL;
}
