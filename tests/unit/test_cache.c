/* SPDX-License-Identifier: MIT */
/* src/cache: keys, entries, damage, races. */
#include "cache_help.h"

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
      CACHE_TEST(a_failed_store_leaves_nothing),
      CACHE_TEST(racing_writers_agree),
      CACHE_TEST(every_entry_is_visited),
      CACHE_TEST(the_cache_is_told_as_json),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
