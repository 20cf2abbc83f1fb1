/* SPDX-License-Identifier: MIT */
/* Memory with one owner: specs, plans and sources live in an arena and go with one call. */
#ifndef KILN_BASE_ARENA_H
#define KILN_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "base/attributes.h"

struct kn_arena_block;
struct kn_arena {
  struct kn_arena_block *blocks; /* {0} is an empty arena */
};

/* `size` zeroed bytes aligned for anything, or NULL when out of memory or on overflow of
   count * size. Freed with the arena. */
void *kn_arena_alloc(struct kn_arena *arena, size_t count, size_t size);
char *kn_arena_strdup(struct kn_arena *arena, const char *text);
char *kn_arena_strndup(struct kn_arena *arena, const char *text, size_t length);
char *kn_arena_printf(struct kn_arena *arena, const char *format, ...) KN_PRINTF(2, 3);
void kn_arena_release(struct kn_arena *arena);

#endif
