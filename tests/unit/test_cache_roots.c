/* SPDX-License-Identifier: MIT */
/* src/cache: which roots are used and written, and which are refused. */
#include "cache_help.h"

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

/* Replaces a folder below the root by a link to where it has been moved. */
static void plant_link(const char *folder) {
  char aside[128];
  (void)snprintf(aside, sizeof aside, "%s/planted", root);
  assert_int_equal(rename(folder, aside), 0);
  assert_int_equal(symlink(aside, folder), 0);
}

/* Sound entries lie behind the link: it must neither be read nor be written through. */
static void a_linked_folder_is_refused(void **state) {
  struct kn_key key = make_key("one");
  char folder[128], aside[128];
  int level;
  (void)state;
  (void)snprintf(aside, sizeof aside, "%s/planted", root);
  for (level = 0; level < 3; level++) { /* the shard, the target, all entries */
    struct kn_cache *cache = open_cache(root);
    assert_true(store(cache, &key));
    (void)snprintf(folder, sizeof folder, "%s/v1/%s/%.2s", root, target, key.hex);
    if (level == 1) *strrchr(folder, '/') = '\0';
    if (level == 2) (void)snprintf(folder, sizeof folder, "%s/v1", root);
    plant_link(folder);
    const int files = num_files(aside);
    assert_false(load(cache, &key, id, false));
    assert_false(load(cache, &key, NULL, false));
    assert_int_equal(counters(cache).corrupt, 2);
    assert_non_null(strstr(log_lines.data, "is not used: it is a symbolic link"));
    assert_false(store(cache, &key));
    assert_int_equal(counters(cache).store_failures, 1);
    assert_non_null(strstr(log_lines.data, "it is a symbolic link"));
    assert_int_equal(num_files(aside), files);
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(rename(aside, folder), 0);
    assert_true(load(cache, &key, id, true));
    kn_cache_close(cache);
  }
  kn_key_release(&key);
}

/* A link to nowhere, and folders that others may change. */
static void an_unsafe_folder_is_refused(void **state) {
  struct kn_cache *cache = open_cache(root);
  struct kn_key key = make_key("one");
  char folder[128];
  (void)state;
  (void)snprintf(folder, sizeof folder, "%s/v1", root);
  assert_int_equal(symlink("/tmp/kiln-nowhere", folder), 0);
  assert_false(store(cache, &key));
  assert_false(load(cache, &key, id, false));
  assert_int_not_equal(access("/tmp/kiln-nowhere", F_OK), 0);
  assert_int_equal(unlink(folder), 0);

  assert_true(store(cache, &key));
  (void)snprintf(folder, sizeof folder, "%s/v1/%s/%.2s", root, target, key.hex);
  assert_int_equal(chmod(folder, 0777), 0);
  assert_false(load(cache, &key, id, false));
  assert_false(store(cache, &key));
  assert_non_null(strstr(log_lines.data, "everybody may write there"));
  assert_int_equal(chmod(folder, 0700), 0);
  if (geteuid() == 0) {
    assert_int_equal(chown(folder, 12345, 12345), 0);
    assert_false(load(cache, &key, id, false));
    assert_non_null(strstr(log_lines.data, "another user"));
    assert_int_equal(chown(folder, 0, 0), 0);
  }
  assert_true(load(cache, &key, id, false));
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

int main(void) {
  const struct CMUnitTest tests[] = {
      CACHE_TEST(unsafe_roots_are_refused),
      CACHE_TEST(a_linked_folder_is_refused),
      CACHE_TEST(an_unsafe_folder_is_refused),
      CACHE_TEST(a_root_that_cannot_be_written_is_told_once),
      CACHE_TEST(a_root_without_permission_is_no_fault_of_the_kernel),
      CACHE_TEST(the_first_root_is_written_all_are_read),
      CACHE_TEST(roots_come_from_the_environment),
      CACHE_TEST(a_read_only_cache_writes_nothing),
      CACHE_TEST(a_root_that_vanishes_is_made_anew),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
