/* SPDX-License-Identifier: MIT */
/* src/base: errors, memory, text, tables, hashes, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/asset.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/table.h"
#include "base/text.h"

/* ---- errors ---------------------------------------------------------------------------------- */

static void a_fresh_error_is_empty(void **state) {
  (void)state;
  kn_error_clear();
  assert_int_equal(kn_error_last()->status, KILN_OK);
  assert_string_equal(kn_error_last()->message, "");
  assert_null(kn_error_last()->file);
  assert_null(kn_error_last()->log);
}

static void an_error_keeps_all_its_parts(void **state) {
  char file[] = "specs/a.yaml";
  const kiln_error *error = kn_error_last();
  (void)state;

  assert_int_equal(kn_fail_at(KILN_E_SPEC, file, 3, 7, "%s is %d", "hidden", 48), KILN_E_SPEC);
  file[0] = 'X'; /* the name was copied */
  kn_error_set_log("line 1\nline 2");
  kn_error_set_driver_code(700);
  assert_int_equal(error->status, KILN_E_SPEC);
  assert_string_equal(error->message, "hidden is 48");
  assert_string_equal(error->file, "specs/a.yaml");
  assert_int_equal(error->line, 3);
  assert_int_equal(error->column, 7);
  assert_string_equal(error->log, "line 1\nline 2");
  assert_int_equal(error->driver_code, 700);

  kn_error_prefix("while planning %s", "copy");
  assert_string_equal(error->message, "while planning copy: hidden is 48");
  assert_int_equal(error->line, 3);

  (void)kn_fail(KILN_E_IO, "again: %s", error->message);
  assert_string_equal(error->message, "again: while planning copy: hidden is 48");
  assert_null(error->file);
  assert_null(error->log);
  assert_int_equal(error->driver_code, 0);
}

static void long_messages_and_logs_are_kept_whole(void **state) {
  const size_t length = 300000;
  char *log = malloc(length + 1);
  (void)state;
  assert_non_null(log);
  memset(log, 'x', length);
  log[length] = '\0';
  (void)kn_fail(KILN_E_COMPILE, "log: %s", log);
  kn_error_set_log(log);
  assert_int_equal(strlen(kn_error_last()->message), length + 5);
  assert_int_equal(strlen(kn_error_last()->log), length);
  free(log);
  kn_error_clear();
}

static void *fail_in_thread(void *user) {
  (void)kn_fail(KILN_E_IO, "in the thread");
  *(int *)user = strcmp(kn_error_last()->message, "in the thread") == 0;
  return NULL;
}

static void each_thread_has_its_own_error(void **state) {
  pthread_t thread;
  int ok = 0;
  (void)state;
  (void)kn_fail(KILN_E_SPEC, "outside");
  assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &ok), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(ok);
  assert_string_equal(kn_error_last()->message, "outside");
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void arena_memory_is_zeroed_and_aligned(void **state) {
  struct kn_arena arena = {0};
  size_t size;
  (void)state;
  for (size = 0; size < 20000; size += 997) {
    unsigned char *memory = kn_arena_alloc(&arena, 1, size);
    size_t i;
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
    for (i = 0; i < size; i++) assert_int_equal(memory[i], 0);
    memset(memory, 0xff, size);
  }
  assert_string_equal(kn_arena_strdup(&arena, "text"), "text");
  assert_string_equal(kn_arena_strndup(&arena, "text", 2), "te");
  assert_string_equal(kn_arena_printf(&arena, "%s=%d", "a", 5), "a=5");
  assert_null(kn_arena_alloc(&arena, SIZE_MAX / 2, 3));
  assert_null(kn_arena_alloc(&arena, SIZE_MAX, 1));
  kn_arena_release(&arena);
  assert_null(arena.blocks);
  kn_arena_release(&arena);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void text_grows(void **state) {
  struct kn_text text = {0};
  char *data;
  int i;
  (void)state;
  for (i = 0; i < 1000; i++) kn_text_printf(&text, "%d,", i);
  assert_false(text.failed);
  assert_int_equal(text.length, 10 * 2 + 90 * 3 + 900 * 4);
  assert_int_equal(strlen(text.data), text.length);
  kn_text_append_n(&text, "a\0b", 3);
  data = kn_text_take(&text);
  assert_non_null(data);
  assert_memory_equal(data, "0,1,2,", 6);
  free(data);
  assert_null(text.data);
  data = kn_text_take(&text);
  assert_string_equal(data, "");
  free(data);
}

static void failed_text_stays_failed(void **state) {
  struct kn_text text = {0};
  (void)state;
  kn_text_append(&text, "abc");
  kn_text_append_n(&text, "x", SIZE_MAX / 2);
  assert_true(text.failed);
  kn_text_append(&text, "def");
  kn_text_printf(&text, "%d", 1);
  assert_true(text.failed);
  assert_null(kn_text_take(&text));
  kn_text_release(&text);
}

static void json_strings_are_escaped(void **state) {
  struct kn_text text = {0};
  (void)state;
  kn_text_json_string(&text,
                      "a\"b\\c\n\t\x01 \xc3\xa9 \xff \xc0\xaf \xed\xa0\x80 \xf0\x9f\x94\xa5");
  assert_string_equal(text.data,
                      "\"a\\\"b\\\\c\\n\\u0009\\u0001 \xc3\xa9 \\ufffd \\ufffd\\ufffd "
                      "\\ufffd\\ufffd\\ufffd \xf0\x9f\x94\xa5\"");
  kn_text_release(&text);
}

static void near_words_are_suggested(void **state) {
  static const char *const words[] = {"hidden", "num_per_channels", "num_per_tokens", "fmt", "to"};
  const size_t count = sizeof words / sizeof *words;
  char long_word[500];
  (void)state;
  assert_string_equal(kn_did_you_mean("hiden", words, count), "hidden");
  assert_string_equal(kn_did_you_mean("hidnde", words, count), "hidden");
  assert_string_equal(kn_did_you_mean("num_per_channel", words, count), "num_per_channels");
  assert_string_equal(kn_did_you_mean("num_per_token", words, count), "num_per_tokens");
  assert_string_equal(kn_did_you_mean("ftm", words, count), "fmt");
  assert_null(kn_did_you_mean("transpose", words, count));
  assert_null(kn_did_you_mean("xy", words, count));
  assert_null(kn_did_you_mean("", words, count));
  assert_null(kn_did_you_mean("hidden", words, 0));
  memset(long_word, 'h', sizeof long_word - 1);
  long_word[sizeof long_word - 1] = '\0';
  assert_null(kn_did_you_mean(long_word, words, count));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void count_value(void *value, void *user) {
  (void)value;
  ++*(int *)user;
}

static void tables_find_what_was_set(void **state) {
  struct kn_table table = {0};
  static int values[5000];
  char key[32];
  int i, visited = 0;
  (void)state;

  assert_null(kn_table_find(&table, "x", 1));
  for (i = 0; i < 5000; i++) {
    const int length = snprintf(key, sizeof key, "key %d", i);
    assert_true(kn_table_set(&table, key, (size_t)length, &values[i]));
  }
  for (i = 0; i < 5000; i++) {
    const int length = snprintf(key, sizeof key, "key %d", i);
    assert_ptr_equal(kn_table_find(&table, key, (size_t)length), &values[i]);
  }
  assert_null(kn_table_find(&table, "key 5000", 8));
  assert_null(kn_table_find(&table, "key 1\0", 6));
  assert_true(kn_table_set(&table, "", 0, &values[7]));
  assert_ptr_equal(kn_table_find(&table, "", 0), &values[7]);
  assert_true(kn_table_set(&table, "key 1", 5, &values[9]));
  assert_ptr_equal(kn_table_find(&table, "key 1", 5), &values[9]);
  assert_int_equal(table.count, 5001);
  kn_table_each(&table, count_value, &visited);
  assert_int_equal(visited, 5001);
  kn_table_release(&table);
  assert_null(kn_table_find(&table, "key 1", 5));
}

/* ---- hashes, types, assets ---------------------------------------------------------------------
 */

static void hash_is_blake2b_256(void **state) {
  struct kn_digest digest;
  char hex[KN_DIGEST_HEX + 1];
  (void)state;
  digest = kn_hash("", 0); /* known values, from Python's hashlib.blake2b(digest_size=32) */
  kn_digest_hex(&digest, hex);
  assert_string_equal(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  digest = kn_hash(NULL, 0);
  kn_digest_hex(&digest, hex);
  assert_string_equal(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  digest = kn_hash("abc", 3);
  kn_digest_hex(&digest, hex);
  assert_string_equal(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

static void dtypes_know_their_bytes(void **state) {
  (void)state;
  assert_int_equal(kn_dtype_parse("bf16"), KILN_BF16);
  assert_int_equal(kn_dtype_parse("e5m6"), KILN_E5M6);
  assert_int_equal(kn_dtype_parse("float"), KILN_DTYPE_NONE);
  assert_int_equal(kn_dtype_parse(""), KILN_DTYPE_NONE);
  assert_int_equal(kn_dtype_bytes(KILN_F32, 7168), 4 * 7168);
  assert_int_equal(kn_dtype_bytes(KILN_E4M3, 3), 3);
  assert_int_equal(kn_dtype_bytes(KILN_E2M1, 7168), 3584);
  assert_int_equal(kn_dtype_bytes(KILN_E5M6, 7168), 10752);
  assert_int_equal(kn_dtype_bytes(KILN_DTYPE_NONE, 8), 0);
  assert_int_equal(kn_dtype_pack(KILN_E2M1), 2);
  assert_int_equal(kn_dtype_pack(KILN_E5M6), 8);
  assert_int_equal(kn_dtype_pack(KILN_F32), 1);
}

static void assets_are_the_files_of_the_tree(void **state) {
  size_t i;
  (void)state;
  assert_true(kn_num_assets > 0);
  for (i = 0; i < kn_num_assets; i++) {
    char path[512];
    struct kn_text text = {0};
    (void)snprintf(path, sizeof path, "%s/%s", KILN_SOURCE_DIR, kn_assets[i].path);
    assert_int_equal(kn_file_read(path, 1 << 20, &text), KILN_OK);
    assert_int_equal(text.length, kn_assets[i].length);
    assert_string_equal(text.data, kn_assets[i].data);
    assert_ptr_equal(kn_asset_find(kn_assets[i].path), &kn_assets[i]);
    kn_text_release(&text);
  }
  assert_null(kn_asset_find("templates/none.cu"));
}

/* ---- files ----------------------------------------------------------------------------------- */

static char folder[] = "/tmp/kiln-base-XXXXXX";

static const char *in_folder(const char *name) {
  static char paths[4][256];
  static int next;
  char *path = paths[next++ % 4];
  (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static int make_test_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_test_folder(void **state) {
  char command[64];
  (void)state;
  (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static void what_is_published_is_read(void **state) {
  const char *path = in_folder("file");
  struct kn_text text = {0};
  struct stat info;
  const mode_t umask_before = umask(077);
  (void)state;
  assert_int_equal(kn_file_publish(path, "a\0b", 3, 0644), KILN_OK);
  (void)umask(umask_before);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0644);
  assert_int_equal(kn_file_read(path, 3, &text), KILN_OK);
  assert_int_equal(text.length, 3);
  assert_memory_equal(text.data, "a\0b", 4);
  kn_text_release(&text);

  assert_int_equal(kn_file_publish(path, "", 0, 0600), KILN_OK);
  assert_int_equal(kn_file_read(path, 3, &text), KILN_OK);
  assert_int_equal(text.length, 0);
  assert_string_equal(text.data, "");
  kn_text_release(&text);
}

static void odd_files_are_refused(void **state) {
  struct kn_text text = {0};
  (void)state;
  assert_int_equal(kn_file_publish(in_folder("four"), "1234", 4, 0600), KILN_OK);
  assert_int_equal(kn_file_read(in_folder("four"), 3, &text), KILN_E_IO);
  assert_non_null(strstr(kn_error_last()->message, "larger than the 3 bytes"));
  assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
  assert_int_equal(kn_file_read(in_folder("fifo"), 10, &text), KILN_E_IO); /* and does not hang */
  assert_int_equal(kn_file_read(folder, 10, &text), KILN_E_IO);
  assert_int_equal(kn_file_read("/dev/zero", 10, &text), KILN_E_IO);
  assert_int_equal(kn_file_read(in_folder("none"), 10, &text), KILN_E_IO);
  assert_non_null(strstr(kn_error_last()->message, "No such file"));
  assert_null(text.data);
}

static kiln_status collect(const char *path, void *user) {
  kn_text_printf(user, "%s\n", path + strlen(folder));
  return strstr(path, "stop") ? kn_fail(KILN_E_IO, "stop") : KILN_OK;
}

static void failing_to_publish_leaves_nothing(void **state) {
  struct rlimit before, limit;
  struct kn_text names = {0};
  char *big = calloc(1, 10000);
  (void)state;
  assert_non_null(big);
  assert_int_equal(kn_file_mkdirs(in_folder("p/taken/x"), 0700), KILN_OK);
  assert_int_equal(kn_file_publish(in_folder("p/taken"), "1", 1, 0600), KILN_E_IO);
  assert_int_equal(kn_file_publish(in_folder("none/file"), "1", 1, 0600), KILN_E_IO);

  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 4096;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  assert_int_equal(kn_file_publish(in_folder("p/big"), big, 10000, 0600), KILN_E_IO);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  free(big);

  assert_int_equal(kn_file_walk(in_folder("p"), "", collect, &names), KILN_OK);
  assert_int_equal(names.length, 0);
  kn_text_release(&names);
}

static void folders_are_made_with_their_mode(void **state) {
  struct stat info;
  const mode_t umask_before = umask(0);
  (void)state;
  assert_int_equal(kn_file_mkdirs(in_folder("a//b/c/"), 0700), KILN_OK);
  (void)umask(umask_before);
  assert_int_equal(stat(in_folder("a/b/c"), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0700);
  assert_int_equal(kn_file_mkdirs(in_folder("a/b/c"), 0755), KILN_OK);
  assert_int_equal(kn_file_publish(in_folder("plain"), "", 0, 0600), KILN_OK);
  assert_int_equal(kn_file_mkdirs(in_folder("plain/x"), 0700), KILN_E_IO);
  assert_int_equal(kn_file_mkdirs(in_folder("plain"), 0700), KILN_E_IO);
  assert_int_equal(kn_file_mkdirs("", 0700), KILN_E_IO);
}

static void walks_are_sorted_and_follow_no_links(void **state) {
  static const char *const names[] = {"w/b.yaml", "w/a/z.yaml", "w/a/y.txt", "w/C.yaml"};
  struct kn_text seen = {0};
  size_t i;
  (void)state;
  assert_int_equal(kn_file_mkdirs(in_folder("w/a"), 0700), KILN_OK);
  for (i = 0; i < 4; i++) {
    assert_int_equal(kn_file_publish(in_folder(names[i]), "", 0, 0600), KILN_OK);
  }
  assert_int_equal(symlink("a", in_folder("w/link")), 0);
  assert_int_equal(symlink("b.yaml", in_folder("w/link.yaml")), 0);
  assert_int_equal(symlink(".", in_folder("w/a/self")), 0);
  assert_int_equal(mkfifo(in_folder("w/fifo.yaml"), 0600), 0);
  assert_int_equal(kn_file_walk(in_folder("w"), ".yaml", collect, &seen), KILN_OK);
  assert_string_equal(seen.data, "/w/C.yaml\n/w/a/z.yaml\n/w/b.yaml\n");
  kn_text_release(&seen);

  assert_int_equal(kn_file_walk(in_folder("w/b.yaml"), ".yaml", collect, &seen), KILN_OK);
  assert_string_equal(seen.data, "/w/b.yaml\n");
  kn_text_release(&seen);
  assert_int_equal(kn_file_walk(in_folder("none"), ".yaml", collect, &seen), KILN_E_IO);

  assert_int_equal(kn_file_publish(in_folder("w/a/stop.yaml"), "", 0, 0600), KILN_OK);
  assert_int_equal(kn_file_walk(in_folder("w"), ".yaml", collect, &seen), KILN_E_IO);
  assert_string_equal(seen.data, "/w/C.yaml\n/w/a/stop.yaml\n");
  kn_text_release(&seen);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fresh_error_is_empty),
      cmocka_unit_test(an_error_keeps_all_its_parts),
      cmocka_unit_test(long_messages_and_logs_are_kept_whole),
      cmocka_unit_test(each_thread_has_its_own_error),
      cmocka_unit_test(arena_memory_is_zeroed_and_aligned),
      cmocka_unit_test(text_grows),
      cmocka_unit_test(failed_text_stays_failed),
      cmocka_unit_test(json_strings_are_escaped),
      cmocka_unit_test(near_words_are_suggested),
      cmocka_unit_test(tables_find_what_was_set),
      cmocka_unit_test(hash_is_blake2b_256),
      cmocka_unit_test(dtypes_know_their_bytes),
      cmocka_unit_test(assets_are_the_files_of_the_tree),
      cmocka_unit_test(what_is_published_is_read),
      cmocka_unit_test(odd_files_are_refused),
      cmocka_unit_test(failing_to_publish_leaves_nothing),
      cmocka_unit_test(folders_are_made_with_their_mode),
      cmocka_unit_test(walks_are_sorted_and_follow_no_links),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
