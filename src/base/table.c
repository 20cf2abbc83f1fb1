/* SPDX-License-Identifier: MIT */
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

/* Linear probing in a power of two, at most half full; key == NULL is a free slot. */
struct kn_table_slot {
  uint64_t hash;
  void *key;
  size_t length;
  void *value;
};

uint64_t kn_table_hash(const void *key, size_t length) {
  const uint64_t multiplier = UINT64_C(0x9e3779b97f4a7c15);
  const unsigned char *bytes = key;
  uint64_t hash = (uint64_t)length * multiplier;
  uint64_t word;

  for (; length >= sizeof word; bytes += sizeof word, length -= sizeof word) {
    memcpy(&word, bytes, sizeof word);
    hash = (hash ^ word) * multiplier;
    hash ^= hash >> 29;
  }
  word = 0;
  if (length) memcpy(&word, bytes, length);
  hash = (hash ^ word) * multiplier;
  return hash ^ hash >> 32;
}

/* The slot that holds the key, or the free one where it belongs. */
static struct kn_table_slot *probe(const struct kn_table *table, uint64_t hash, const void *key,
                                   size_t length) {
  const size_t mask = table->capacity - 1;
  size_t i = (size_t)hash & mask;

  for (;; i = (i + 1) & mask) {
    struct kn_table_slot *slot = &table->slots[i];
    if (!slot->key) return slot;
    if (slot->hash == hash && slot->length == length &&
        (length == 0 || memcmp(slot->key, key, length) == 0)) {
      return slot;
    }
  }
}

void *kn_table_find(const struct kn_table *table, const void *key, size_t length) {
  if (table->count == 0) return NULL;
  return probe(table, kn_table_hash(key, length), key, length)->value;
}

static bool grow(struct kn_table *table) {
  struct kn_table bigger = {.capacity = table->capacity ? table->capacity * 2 : 16,
                            .count = table->count};
  size_t i;

  bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
  if (!bigger.slots) return false;
  for (i = 0; i < table->capacity; i++) {
    const struct kn_table_slot *slot = &table->slots[i];
    if (slot->key) *probe(&bigger, slot->hash, slot->key, slot->length) = *slot;
  }
  free(table->slots);
  *table = bigger;
  return true;
}

bool kn_table_set(struct kn_table *table, const void *key, size_t length, void *value) {
  const uint64_t hash = kn_table_hash(key, length);
  struct kn_table_slot *slot;

  if ((table->count + 1) * 2 > table->capacity && !grow(table)) return false;
  slot = probe(table, hash, key, length);
  if (!slot->key) {
    void *copy = malloc(length ? length : 1);
    if (!copy) return false;
    if (length) memcpy(copy, key, length);
    *slot = (struct kn_table_slot){.hash = hash, .key = copy, .length = length};
    table->count++;
  }
  slot->value = value;
  return true;
}

void kn_table_each(const struct kn_table *table, void (*visit)(void *value, void *user),
                   void *user) {
  size_t i;
  for (i = 0; i < table->capacity; i++) {
    if (table->slots[i].key) visit(table->slots[i].value, user);
  }
}

void kn_table_release(struct kn_table *table) {
  size_t i;
  for (i = 0; i < table->capacity; i++) free(table->slots[i].key);
  free(table->slots);
  *table = (struct kn_table){0};
}
