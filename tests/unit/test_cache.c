/* SPDX-License-Identifier: MIT */
/* src/cache: keys, entries, damage, roots, races. */
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

static void log_line(void *user, const char *message) {
  (void)user;
  kn_text_printf(&log_lines, "%s\n", message);
}

static struct kn_cache *open_cache(const char *roots) {
  struct kn_cache *cache = NULL;
  kn_text_release(&log_lines);
  kn_text_append(&log_lines, "");
  assert_int_equal(kn_cache_open(roots, false, log_line, NULL, &cache), KILN_OK);
  return cache;
}

static kn_cache_counters counters(const struct kn_cache *cache) {
  kn_cache_counters c;
  kn_cache_get_counters(cache, &c);
  return c;
}

static struct kn_key make_key(const char *source) {
  struct kn_key key;
  kn_key_begin(&key);
  kn_key_add(&key, "target", target);
  kn_key_add(&key, "source", source);
  assert_int_equal(kn_key_end(&key), KILN_OK);
  return key;
}

enum { CUBIN_BYTES = 5000 };
static char cubin[CUBIN_BYTES];

static struct kn_entry make_entry(const struct kn_key *key) {
  static char facts[] = "{\"registers\": 32}", source[] = "__global__ void f() {}";
  struct kn_entry entry = {{key->text.data, facts, cubin, source},
                           {key->text.length, sizeof facts - 1, sizeof cubin, sizeof source - 1}};
  return entry;
}

static bool store(struct kn_cache *cache, const struct kn_key *key) {
  const struct kn_entry entry = make_entry(key);
  return kn_cache_store(cache, target, key, id, &entry);
}

/* Loads and compares all that was asked for. */
static bool load(struct kn_cache *cache, const struct kn_key *key, const char *nvrtc_id,
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

static const char *entry_path(const struct kn_key *key) {
  static char path[256];
  (void)snprintf(path, sizeof path, "%s/v1/%s/%.2s/%s-%s.kiln", root, target, key->hex, key->hex,
                 id);
  return path;
}

static kiln_status count_file(const char *path, void *user) {
  (void)path;
  ++*(int *)user;
  return KILN_OK;
}

static int num_files(const char *path) {
  int count = 0;
  assert_int_equal(kn_file_walk(path, "", count_file, &count), KILN_OK);
  return count;
}

static void write_bytes(const char *path, const void *data, size_t length) {
  const int fd = open(path, O_WRONLY | O_TRUNC);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, data, length), (ssize_t)length);
  assert_int_equal(close(fd), 0);
}

static int set_up(void **state) {
  size_t i;
  (void)state;
  (void)snprintf(root, sizeof root, "/tmp/kiln-cache-XXXXXX");
  for (i = 0; i < sizeof cubin; i++) cubin[i] = (char)(i * 7 + i / 256);
  return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state) {
  char command[128];
  (void)state;
  kn_text_release(&log_lines);
  (void)snprintf(command, sizeof command, "chmod -R u+rwx '%s'; rm -rf '%s'", root, root);
  return system(command);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void two_facts(struct kn_key *key, const char *a, const char *b) {
  kn_key_begin(key);
  kn_key_add(key, "x", a);
  kn_key_add(key, "x", b);
  assert_int_equal(kn_key_end(key), KILN_OK);
}

static void keys_do_not_run_together(void **state) {
  static const char *const pairs[][2] = {{"a|b", "c"},    {"a", "b|c"},     {"", "a|b|c"},
                                         {NULL, "a|b|c"}, {"a|b|c", NULL},  {"a|b|c", ""},
                                         {"", ""},        {NULL, NULL},     {NULL, ""},
                                         {"", NULL},      {"1:a\nx 1", ""}, {"a\nx 3:b|c", NULL}};
  enum { COUNT = sizeof pairs / sizeof *pairs };
  struct kn_key keys[COUNT];
  int i, j;
  (void)state;
  for (i = 0; i < COUNT; i++) two_facts(&keys[i], pairs[i][0], pairs[i][1]);
  for (i = 0; i < COUNT; i++) {
    for (j = 0; j < i; j++) assert_string_not_equal(keys[i].hex, keys[j].hex);
  }
  assert_string_equal(keys[0].text.data, "kiln-key 1\nx 3:a|b\nx 1:c\n");
  assert_string_equal(keys[8].text.data, "kiln-key 1\nx -\nx 0:\n");
  assert_int_equal(strlen(keys[0].hex), KN_DIGEST_HEX);
  for (i = 0; i < COUNT; i++) kn_key_release(&keys[i]);
}

/* ---- hits ------------------------------------------------------------------------------------ */

static void what_is_stored_is_loaded(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one"), other = make_key("two");
  struct stat info;
  char path[128];
  (void)state;

  assert_false(load(cache, &key, id, false));
  assert_true(store(cache, &key));
  assert_true(load(cache, &key, id, false));
  assert_true(load(cache, &key, id, true));
  assert_true(load(cache, &key, NULL, false));
  assert_false(load(cache, &key, "99999999", false)); /* of another NVRTC */
  assert_false(load(cache, &other, id, false));
  assert_int_equal(counters(cache).hits, 3);
  assert_int_equal(counters(cache).misses, 3);
  assert_int_equal(counters(cache).corrupt, 0);
  assert_string_equal(log_lines.data, "");
  assert_string_equal(kn_cache_root(cache), root);
  assert_int_equal(num_files(root), 1);

  assert_int_equal(stat(entry_path(&key), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0600);
  (void)snprintf(path, sizeof path, "%s/v1/%s/%.2s", root, target, key.hex);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0700);
  kn_key_release(&key);
  kn_key_release(&other);
  kn_cache_close(cache);
}

static void modes_do_not_depend_on_the_umask(void **state) {
  const mode_t before = umask(0);
  struct kn_cache *cache;
  struct kn_key key = make_key("one");
  char fresh[128], path[256];
  struct stat info;
  (void)state;
  (void)snprintf(fresh, sizeof fresh, "%s/made/here", root);
  cache = open_cache(fresh);
  assert_true(store(cache, &key));
  (void)umask(before);
  assert_int_equal(stat(fresh, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0700);
  (void)snprintf(path, sizeof path, "%s/v1/%s", fresh, target);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0700);
  kn_key_release(&key);
  kn_cache_close(cache);
}

static void the_newest_id_is_taken(void **state) {
  static const char *const ids[] = {"aaaaaaaa", "bbbbbbbb", "cccccccc"};
  static const int ages[] = {30, 10, 20};
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  struct kn_entry got;
  char path[256];
  int i;
  (void)state;
  for (i = 0; i < 3; i++) {
    struct kn_entry entry = make_entry(&key);
    struct timespec times[2] = {{1700000000 - ages[i], 0}, {1700000000 - ages[i], 0}};
    entry.data[KN_SECTION_FACTS] = (void *)(uintptr_t)ids[i];
    entry.length[KN_SECTION_FACTS] = 8;
    assert_true(kn_cache_store(cache, target, &key, ids[i], &entry));
    (void)snprintf(path, sizeof path, "%s/v1/%s/%.2s/%s-%s.kiln", root, target, key.hex, key.hex,
                   ids[i]);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
  }
  assert_true(kn_cache_load(cache, target, &key, NULL, false, &got));
  assert_string_equal((char *)got.data[KN_SECTION_FACTS], "bbbbbbbb");
  kn_entry_release(&got);

  (void)snprintf(path, sizeof path, "%s/v1/%s/%.2s/%s-%s.kiln", root, target, key.hex, key.hex,
                 ids[1]);
  assert_int_equal(truncate(path, 300), 0); /* the next best does then */
  assert_true(kn_cache_load(cache, target, &key, NULL, false, &got));
  kn_entry_release(&got);
  assert_int_equal(counters(cache).corrupt, 1);
  kn_key_release(&key);
  kn_cache_close(cache);
}

static void a_hit_is_quick(void **state) {
  enum { ROUNDS = 200 };
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  struct timespec start, end;
  double best = 1e9;
  int i;
  (void)state;
  assert_true(store(cache, &key));
  for (i = 0; i < ROUNDS; i++) {
    struct kn_entry got;
    double us;
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    assert_true(kn_cache_load(cache, target, &key, id, false, &got));
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    kn_entry_release(&got);
    us = (double)(end.tv_sec - start.tv_sec) * 1e6 + (double)(end.tv_nsec - start.tv_nsec) / 1e3;
    if (us < best) best = us;
  }
  printf("a hit of %d bytes took %.1f us\n", CUBIN_BYTES, best);
  assert_true(best < 300);
  kn_key_release(&key);
  kn_cache_close(cache);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* The entry is there but damaged: a counted miss, repaired by the next store. */
static void expect_damage(struct kn_cache *cache, const struct kn_key *key, bool with_source) {
  const kn_cache_counters before = counters(cache);
  assert_false(load(cache, key, id, with_source));
  assert_int_equal(counters(cache).misses, before.misses + 1);
  assert_int_equal(counters(cache).corrupt, before.corrupt + 1);
  assert_non_null(strstr(log_lines.data, entry_path(key)));
  assert_true(store(cache, key));
  assert_true(load(cache, key, id, true));
}

static void a_truncated_entry_is_a_miss(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  struct stat info;
  int i;
  (void)state;
  assert_true(store(cache, &key));
  assert_int_equal(stat(entry_path(&key), &info), 0);
  for (i = 0; i < 16; i++) {
    assert_int_equal(truncate(entry_path(&key), info.st_size * i / 16), 0);
    expect_damage(cache, &key, false);
  }
  assert_int_equal(truncate(entry_path(&key), info.st_size - 1), 0);
  expect_damage(cache, &key, false);
  assert_int_equal(truncate(entry_path(&key), info.st_size + 1), 0);
  expect_damage(cache, &key, false);
  assert_int_equal(num_files(root), 1);
  kn_key_release(&key);
  kn_cache_close(cache);
}

static void a_flipped_byte_is_a_miss(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  struct kn_text good = {0};
  size_t source_at, at;
  (void)state;
  assert_true(store(cache, &key));
  assert_int_equal(kn_file_read(entry_path(&key), 1 << 20, &good), KILN_OK);
  source_at = good.length - make_entry(&key).length[KN_SECTION_SOURCE];
  for (at = 0; at < good.length; at += at < 400 ? 1 : 97) { /* header, key, facts, cubin, source */
    good.data[at] ^= 0x10;
    write_bytes(entry_path(&key), good.data, good.length);
    good.data[at] ^= 0x10;
    if (at >= source_at) assert_true(load(cache, &key, id, false));
    expect_damage(cache, &key, at >= source_at);
  }
  good.data[good.length - 1] ^= 1;
  write_bytes(entry_path(&key), good.data, good.length);
  assert_true(load(cache, &key, id, false)); /* a hit does not read the source */
  expect_damage(cache, &key, true);
  kn_text_release(&good);
  kn_key_release(&key);
  kn_cache_close(cache);
}

static void zeros_are_a_miss(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  struct stat info;
  (void)state;
  assert_true(store(cache, &key));
  assert_int_equal(stat(entry_path(&key), &info), 0);
  assert_int_equal(truncate(entry_path(&key), 0), 0);
  assert_int_equal(truncate(entry_path(&key), info.st_size), 0);
  expect_damage(cache, &key, false);
  kn_key_release(&key);
  kn_cache_close(cache);
}

static void swapped_entries_are_misses(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key a = make_key("one"), b = make_key("two");
  char path_a[256], aside[256];
  (void)state;
  assert_true(store(cache, &a));
  assert_true(store(cache, &b));
  (void)snprintf(path_a, sizeof path_a, "%s", entry_path(&a));
  (void)snprintf(aside, sizeof aside, "%s/aside", root);
  assert_int_equal(rename(path_a, aside), 0);
  assert_int_equal(rename(entry_path(&b), path_a), 0);
  assert_int_equal(rename(aside, entry_path(&b)), 0);
  expect_damage(cache, &a, false);
  assert_non_null(strstr(log_lines.data, "another key"));
  expect_damage(cache, &b, false);
  kn_key_release(&a);
  kn_key_release(&b);
  kn_cache_close(cache);
}

static void odd_things_in_an_entrys_place_are_misses(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  char path[256];
  (void)state;
  assert_true(store(cache, &key));
  (void)snprintf(path, sizeof path, "%s", entry_path(&key));

  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_damage(cache, &key, false); /* and does not hang */

  assert_int_equal(unlink(path), 0);
  assert_int_equal(symlink("/nowhere", path), 0);
  expect_damage(cache, &key, false);

  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  expect_damage(cache, &key, false);

  assert_int_equal(unlink(path), 0);
  (void)strcat(path, "/x/y"); /* a folder that is not empty is moved aside */
  assert_int_equal(kn_file_mkdirs(path, 0700), KILN_OK);
  expect_damage(cache, &key, false);
  assert_int_equal(num_files(root), 1);

  assert_int_equal(chmod(entry_path(&key), 0666), 0);
  expect_damage(cache, &key, false);
  if (geteuid() == 0) {
    assert_int_equal(chown(entry_path(&key), 12345, 12345), 0);
    expect_damage(cache, &key, false);
  }
  kn_key_release(&key);
  kn_cache_close(cache);
}

/* ---- roots ----------------------------------------------------------------------------------- */

static void unsafe_roots_are_refused(void **state) {
  struct kn_cache *cache;
  struct kn_key key = make_key("one");
  (void)state;
  assert_int_equal(chmod(root, 0777), 0);
  cache = open_cache(root);
  assert_int_equal(counters(cache).rejected_roots, 1);
  assert_non_null(strstr(log_lines.data, "everybody may write there"));
  assert_null(kn_cache_root(cache));
  assert_false(store(cache, &key));
  assert_int_equal(counters(cache).store_failures, 1);
  assert_false(load(cache, &key, id, false));
  assert_int_equal(num_files(root), 0);
  kn_cache_close(cache);

  assert_int_equal(chmod(root, 0700), 0);
  if (geteuid() == 0) {
    assert_int_equal(chown(root, 12345, 12345), 0);
    cache = open_cache(root);
    assert_int_equal(counters(cache).rejected_roots, 1);
    assert_non_null(strstr(log_lines.data, "another user"));
    kn_cache_close(cache);
    assert_int_equal(chown(root, 0, 0), 0);
  }
  cache = open_cache("/dev/null");
  assert_int_equal(counters(cache).rejected_roots, 1);
  kn_cache_close(cache);

  /* It became unsafe after it was opened. */
  cache = open_cache(root);
  assert_int_equal(chmod(root, 0777), 0);
  assert_false(store(cache, &key));
  assert_int_equal(num_files(root), 0);
  assert_int_equal(chmod(root, 0700), 0);
  assert_true(store(cache, &key));
  kn_key_release(&key);
  kn_cache_close(cache);
}

static void a_root_that_cannot_be_written_is_told_once(void **state) {
  struct kn_cache *cache = open_cache("/proc/none:/dev/null/x");
  struct kn_key key = make_key("one");
  int i, lines = 0;
  const char *c;
  (void)state;
  for (i = 0; i < 3; i++) {
    (void)kn_fail(KILN_E_SPEC, "before");
    assert_false(store(cache, &key));
    assert_int_equal(kn_error_last()->status, KILN_OK);
    assert_false(load(cache, &key, id, false));
    assert_false(load(cache, &key, NULL, false));
  }
  assert_int_equal(counters(cache).store_failures, 3);
  assert_int_equal(counters(cache).corrupt, 0);
  for (c = log_lines.data; *c; c++) lines += *c == '\n';
  assert_int_equal(lines, 1);
  assert_non_null(strstr(log_lines.data, "/proc/none"));
  assert_non_null(strstr(log_lines.data, "No such file"));
  kn_key_release(&key);
  kn_cache_close(cache);
}

/* As a user without privileges, since root may write everywhere. */
static void a_root_without_permission_is_no_fault_of_the_kernel(void **state) {
  struct kn_key key = make_key("one");
  int status;
  pid_t pid;
  (void)state;
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    struct kn_cache *cache;
    if (geteuid() == 0 && (chown(root, 65534, 65534) != 0 || setuid(65534) != 0)) _exit(1);
    cache = open_cache(root);
    if (!store(cache, &key) || chmod(root, 0) != 0) _exit(2);
    if (load(cache, &key, id, false) || load(cache, &key, NULL, false)) _exit(3);
    if (store(cache, &key)) _exit(4);
    if (counters(cache).store_failures != 1 || !strstr(log_lines.data, "Permission denied")) {
      _exit(5);
    }
    if (chmod(root, 0500) != 0 || !load(cache, &key, id, true)) _exit(6);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  kn_key_release(&key);
}

static void the_first_root_is_written_all_are_read(void **state) {
  struct kn_cache *cache;
  struct kn_key key = make_key("one"), other = make_key("two");
  char first[128], second[128], both[300];
  (void)state;
  (void)snprintf(first, sizeof first, "%s/first", root);
  (void)snprintf(second, sizeof second, "%s/second", root);
  (void)snprintf(both, sizeof both, "%s::%s/", first, second);
  cache = open_cache(second);
  assert_true(store(cache, &key));
  kn_cache_close(cache);

  cache = open_cache(both);
  assert_string_equal(kn_cache_root(cache), first);
  assert_true(load(cache, &key, id, true));
  assert_true(load(cache, &key, NULL, false));
  assert_true(store(cache, &other));
  assert_int_equal(num_files(first), 1);
  assert_int_equal(num_files(second), 1);
  kn_cache_close(cache);

  assert_int_equal(chmod(first, 0777), 0); /* then nothing is written, the second is still read */
  cache = open_cache(both);
  assert_null(kn_cache_root(cache));
  assert_true(load(cache, &key, id, true));
  assert_false(store(cache, &other));
  kn_key_release(&key);
  kn_key_release(&other);
  kn_cache_close(cache);
}

static void roots_come_from_the_environment(void **state) {
  struct kn_cache *cache;
  char path[128];
  (void)state;
  assert_int_equal(setenv("KILN_CACHE_DIR", root, 1), 0);
  assert_int_equal(setenv("XDG_CACHE_HOME", "/xdg", 1), 0);
  assert_int_equal(setenv("HOME", "/home/x", 1), 0);
  cache = open_cache(NULL);
  assert_string_equal(kn_cache_root(cache), root);
  kn_cache_close(cache);
  assert_int_equal(setenv("KILN_CACHE_DIR", "", 1), 0);
  cache = open_cache(NULL);
  assert_string_equal(kn_cache_root(cache), "/xdg/kiln");
  kn_cache_close(cache);
  assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
  cache = open_cache(NULL);
  assert_string_equal(kn_cache_root(cache), "/home/x/.cache/kiln");
  kn_cache_close(cache);
  assert_int_equal(unsetenv("KILN_CACHE_DIR"), 0);
  assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
  assert_int_equal(unsetenv("HOME"), 0);
  cache = open_cache(NULL);
  assert_null(kn_cache_root(cache));
  assert_non_null(strstr(log_lines.data, "there is no cache"));
  kn_cache_close(cache);

  assert_int_equal(chdir(root), 0);
  cache = open_cache("below"); /* relative: to the folder at that time */
  (void)snprintf(path, sizeof path, "%s/below", root);
  assert_string_equal(kn_cache_root(cache), path);
  kn_cache_close(cache);
  assert_int_equal(chdir("/"), 0);
}

static void a_read_only_cache_writes_nothing(void **state) {
  struct kn_cache *cache = NULL;
  struct kn_key key = make_key("one");
  (void)state;
  assert_int_equal(kn_cache_open(root, true, NULL, NULL, &cache), KILN_OK);
  assert_false(store(cache, &key));
  assert_null(kn_cache_root(cache));
  assert_int_equal(counters(cache).store_failures, 0);
  assert_int_equal(num_files(root), 0);
  kn_key_release(&key);
  kn_cache_close(cache);
}

static void a_root_that_vanishes_is_made_anew(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  char command[128];
  (void)state;
  assert_true(store(cache, &key));
  (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
  assert_int_equal(system(command), 0);
  assert_false(load(cache, &key, id, false));
  assert_int_equal(counters(cache).corrupt, 0);
  assert_true(store(cache, &key));
  assert_true(load(cache, &key, id, true));
  kn_key_release(&key);
  kn_cache_close(cache);
}

/* ---- failing and racing writers -------------------------------------------------------------- */

static void a_failed_store_leaves_nothing(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  struct rlimit before, limit;
  (void)state;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 1024;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  assert_false(store(cache, &key));
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(num_files(root), 0);
  assert_int_equal(counters(cache).store_failures, 1);
  assert_non_null(strstr(log_lines.data, "File too large"));
  assert_true(store(cache, &key));
  kn_key_release(&key);
  kn_cache_close(cache);
}

/* Stores and loads all keys for a while; what is loaded must be whole (`load` compares). */
static void race(int number) {
  struct kn_cache *cache = open_cache(root);
  char source[16];
  int round, i;
  for (round = 0; round < 20; round++) {
    for (i = 0; i < 5; i++) {
      struct kn_key key;
      (void)snprintf(source, sizeof source, "source %d", (i + number) % 5);
      key = make_key(source);
      if (!load(cache, &key, id, true) && !store(cache, &key)) _exit(1);
      if (round % 4 == 0 && !store(cache, &key)) _exit(2);
      kn_key_release(&key);
    }
  }
  if (counters(cache).corrupt != 0) _exit(3);
  kn_cache_close(cache);
  _exit(0);
}

static void racing_writers_agree(void **state) {
  enum { WRITERS = 8 };
  pid_t pids[WRITERS];
  int i, status;
  (void)state;
  for (i = 0; i < WRITERS; i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i] == 0) race(i);
  }
  for (i = 0; i < WRITERS; i++) {
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(num_files(root), 5);
}

/* ---- walking --------------------------------------------------------------------------------- */

struct seen {
  int valid, damaged;
  uint64_t bytes;
};

static kiln_status see(const kn_entry_info *info, void *user) {
  struct seen *seen = user;
  assert_string_equal(info->target, target);
  assert_string_equal(info->nvrtc_id, id);
  assert_int_equal(strlen(info->key_hex), KN_DIGEST_HEX);
  seen->bytes += info->bytes;
  if (info->valid) {
    seen->valid++;
    assert_string_equal(info->facts, "{\"registers\": 32}");
    assert_non_null(strstr(info->key_text, "target 6:sm_90a\n"));
  } else {
    seen->damaged++;
    assert_null(info->key_text);
    assert_null(info->facts);
  }
  return KILN_OK;
}

static void every_entry_is_visited(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key a = make_key("one"), b = make_key("two");
  struct seen seen = {0, 0, 0};
  struct kn_text path = {0};
  struct stat info;
  (void)state;
  assert_int_equal(kn_cache_each(cache, see, &seen), KILN_OK);
  assert_int_equal(seen.valid + seen.damaged, 0);
  assert_true(store(cache, &a));
  assert_true(store(cache, &b));
  assert_int_equal(stat(entry_path(&a), &info), 0);
  assert_int_equal(truncate(entry_path(&b), 100), 0);
  kn_text_printf(&path, "%s/v1/%s/stray.kiln", root, target);
  assert_int_equal(kn_file_publish(path.data, "", 0, 0600), KILN_OK);
  kn_text_release(&path);
  assert_int_equal(kn_cache_each(cache, see, &seen), KILN_OK);
  assert_int_equal(seen.valid, 1);
  assert_int_equal(seen.damaged, 1);
  assert_int_equal(seen.bytes, (uint64_t)info.st_size + 100);
  kn_key_release(&a);
  kn_key_release(&b);
  kn_cache_close(cache);
}

static void the_cache_is_told_as_json(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key a = make_key("one");
  struct kn_text json = {0}, want = {0};
  struct stat info;
  (void)state;
  assert_true(store(cache, &a));
  assert_int_equal(stat(entry_path(&a), &info), 0);
  assert_int_equal(kn_cache_json(cache, &json), KILN_OK);
  kn_text_printf(&want,
                 "{\"roots\": [\"%s\"], \"rejected_roots\": 0, \"entries\": [{\"path\": \"%s\", "
                 "\"target\": \"sm_90a\", \"key\": \"%s\", \"nvrtc_id\": \"00112233\", "
                 "\"bytes\": %lld, \"valid\": true, "
                 "\"key_text\": \"kiln-key 1\\ntarget 6:sm_90a\\nsource 3:one\\n\", "
                 "\"facts\": {\"registers\": 32}}]}",
                 root, entry_path(&a), a.hex, (long long)info.st_size);
  assert_string_equal(json.data, want.data);
  kn_text_release(&json);
  kn_text_release(&want);
  kn_key_release(&a);
  kn_cache_close(cache);
}

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      CACHE_TEST(keys_do_not_run_together),
      CACHE_TEST(what_is_stored_is_loaded),
      CACHE_TEST(modes_do_not_depend_on_the_umask),
      CACHE_TEST(the_newest_id_is_taken),
      CACHE_TEST(a_hit_is_quick),
      CACHE_TEST(a_truncated_entry_is_a_miss),
      CACHE_TEST(a_flipped_byte_is_a_miss),
      CACHE_TEST(zeros_are_a_miss),
      CACHE_TEST(swapped_entries_are_misses),
      CACHE_TEST(odd_things_in_an_entrys_place_are_misses),
      CACHE_TEST(unsafe_roots_are_refused),
      CACHE_TEST(a_root_that_cannot_be_written_is_told_once),
      CACHE_TEST(a_root_without_permission_is_no_fault_of_the_kernel),
      CACHE_TEST(the_first_root_is_written_all_are_read),
      CACHE_TEST(roots_come_from_the_environment),
      CACHE_TEST(a_read_only_cache_writes_nothing),
      CACHE_TEST(a_root_that_vanishes_is_made_anew),
      CACHE_TEST(a_failed_store_leaves_nothing),
      CACHE_TEST(racing_writers_agree),
      CACHE_TEST(every_entry_is_visited),
      CACHE_TEST(the_cache_is_told_as_json),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
