/* SPDX-License-Identifier: MIT */
/* A hash table from byte strings to pointers. Not synchronised. */
#ifndef KILN_BASE_TABLE_H
#define KILN_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kn_table_slot;
struct kn_table {
  struct kn_table_slot *slots; /* {0} is an empty table */
  size_t capacity, count;
};

/* A fast hash for in-memory tables, not stable across versions, never written to disk. */
uint64_t kn_table_hash(const void *key, size_t length);
/* The value of a key, or NULL. */
void *kn_table_find(const struct kn_table *table, const void *key, size_t length);
/* Adds or replaces; the key is copied. False when out of memory. */
bool kn_table_set(struct kn_table *table, const void *key, size_t length, void *value);
/* Calls `visit` for each value, in no particular order. */
void kn_table_each(const struct kn_table *table, void (*visit)(void *value, void *user),
                   void *user);
void kn_table_release(struct kn_table *table);

#endif
