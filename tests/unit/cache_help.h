/* SPDX-License-Identifier: MIT */
/* A cache of its own for each test, entries for it, and what it logged. */
#ifndef KILN_TESTS_CACHE_HELP_H
#define KILN_TESTS_CACHE_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "cache/cache.h"

static const char target[] = "sm_90a", id[] = "00112233";
static char root[64];
static struct kn_text log_lines;

static inline void log_line(void *user, const char *message) {
  (void)user;
  kn_text_printf(&log_lines, "%s\n", message);
}

static inline struct kn_cache *open_cache(const char *roots) {
  struct kn_cache *cache = NULL;
  kn_text_release(&log_lines);
  kn_text_append(&log_lines, "");
  assert_int_equal(kn_cache_open(roots, false, log_line, NULL, &cache), KILN_OK);
  return cache;
}

static inline kn_cache_counters counters(const struct kn_cache *cache) {
  kn_cache_counters c;
  kn_cache_get_counters(cache, &c);
  return c;
}

static inline struct kn_key make_key(const char *source) {
  struct kn_key key;
  kn_key_begin(&key);
  kn_key_add(&key, "target", target);
  kn_key_add(&key, "source", source);
  assert_int_equal(kn_key_end(&key), KILN_OK);
  return key;
}

enum { CUBIN_BYTES = 5000 };
static char cubin[CUBIN_BYTES];

static inline struct kn_entry make_entry(const struct kn_key *key) {
  static char facts[] = "{\"registers\": 32}", source[] = "__global__ void f() {}";
  struct kn_entry entry = {{key->text.data, facts, cubin, source},
                           {key->text.length, sizeof facts - 1, sizeof cubin, sizeof source - 1}};
  return entry;
}

static inline bool store(struct kn_cache *cache, const struct kn_key *key) {
  const struct kn_entry entry = make_entry(key);
  return kn_cache_store(cache, target, key, id, &entry);
}

/* Loads and compares all that was asked for. */
static inline bool load(struct kn_cache *cache, const struct kn_key *key, const char *nvrtc_id,
                        bool with_source) {
  const struct kn_entry want = make_entry(key);
  struct kn_entry got;
  int i;
  if (!kn_cache_load(cache, target, key, nvrtc_id, with_source, &got)) return false;
  for (i = 0; i < KN_NUM_SECTIONS; i++) {
    if (i == KN_SECTION_SOURCE && !with_source) {
      assert_null(got.data[i]);
      continue;
    }
    assert_int_equal(got.length[i], want.length[i]);
    assert_memory_equal(got.data[i], want.data[i], want.length[i]);
  }
  kn_entry_release(&got);
  return true;
}

static inline const char *entry_path(const struct kn_key *key) {
  static char path[256];
  (void)snprintf(path, sizeof path, "%s/v1/%s/%.2s/%s-%s.kiln", root, target, key->hex, key->hex,
                 id);
  return path;
}

static inline kiln_status count_file(const char *path, void *user) {
  (void)path;
  ++*(int *)user;
  return KILN_OK;
}

static inline int num_files(const char *path) {
  int count = 0;
  assert_int_equal(kn_file_walk(path, "", count_file, &count), KILN_OK);
  return count;
}

static inline void write_bytes(const char *path, const void *data, size_t length) {
  const int fd = open(path, O_WRONLY | O_TRUNC);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, data, length), (ssize_t)length);
  assert_int_equal(close(fd), 0);
}

static inline int set_up(void **state) {
  size_t i;
  (void)state;
  (void)snprintf(root, sizeof root, "/tmp/kiln-cache-XXXXXX");
  for (i = 0; i < sizeof cubin; i++) cubin[i] = (char)(i * 7 + i / 256);
  return mkdtemp(root) ? 0 : -1;
}

static inline int tear_down(void **state) {
  char command[128];
  (void)state;
  kn_text_release(&log_lines);
  (void)snprintf(command, sizeof command, "chmod -R u+rwx '%s'; rm -rf '%s'", root, root);
  return system(command);
}

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
