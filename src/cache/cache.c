/* SPDX-License-Identifier: MIT */
#include "cache/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "cache/entry.h"

enum { MAX_ROOTS = 16, MAX_CANDIDATES = 16, ID_BYTES = 64 };

struct kn_cache {
  char *roots[MAX_ROOTS]; /* absolute */
  size_t num_roots;
  bool has_writable; /* roots[0] is the one to write */
  bool read_only;
  kiln_log_fn log;
  void *log_user;
  atomic_bool warned_of_store; /* a store has failed and none has succeeded since */
  _Atomic uint64_t hits, misses, corrupt, store_failures, rejected_roots;
};

static void say(const struct kn_cache *cache, const char *format, ...) KN_PRINTF(2, 3);
static void say(const struct kn_cache *cache, const char *format, ...) {
  char line[PATH_MAX + 512];
  va_list args;
  if (!cache->log) return;
  va_start(args, format);
  (void)vsnprintf(line, sizeof line, format, args);
  va_end(args);
  cache->log(cache->log_user, line);
}

/* ---- roots ----------------------------------------------------------------------------------- */

static const char *distrust(const struct stat *info) {
  if (S_ISLNK(info->st_mode)) return "it is a symbolic link";
  if (!S_ISDIR(info->st_mode)) return "it is not a folder";
  if (info->st_uid != geteuid() && info->st_uid != 0) return "it belongs to another user";
  if ((info->st_mode & S_IWOTH) && !(info->st_mode & S_ISVTX)) return "everybody may write there";
  return NULL;
}

/* Why the root may not be used, or NULL; a root that is not there yet may. The user names it, so it
   may be a link; what it leads to counts. */
static const char *distrust_root(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? distrust(&info) : NULL;
}

/* The same of the folders that Kiln makes below a root, which are never links: those of `folder`
   from its byte `root_length` on. Nobody else can change one whose parents are all trusted, so
   there is no race between looking and opening. `path` gets the one that is not trusted. */
static const char *distrust_folders(const char *folder, size_t root_length, char path[PATH_MAX]) {
  size_t end = root_length;
  while (folder[end]) {
    struct stat info;
    const char *why;
    end += 1 + strcspn(folder + end + 1, "/");
    (void)snprintf(path, PATH_MAX, "%.*s", (int)end, folder);
    if (lstat(path, &info) != 0) return NULL; /* nothing there, so nothing below */
    why = distrust(&info);
    if (why) return why;
  }
  return NULL;
}

/* Absolute, so that a later chdir does not move the cache. Empty if there is no way to tell. */
static struct kn_text absolute(const char *path, size_t length) {
  struct kn_text text = {0};
  if (path[0] != '/') {
    char *here = getcwd(NULL, 0);
    if (!here) return text;
    kn_text_printf(&text, "%s/", here);
    free(here);
  }
  while (length > 1 && path[length - 1] == '/') length--;
  kn_text_append_n(&text, path, length);
  return text;
}

static const char *check_root(const struct kn_cache *cache, const struct kn_text *root) {
  if (root->length == 0) return "the working folder is gone";
  if (root->length > PATH_MAX - 256) return "its path is too long";
  if (cache->num_roots == MAX_ROOTS) return "there are too many roots";
  return distrust_root(root->data);
}

/* Adds one root, or leaves it out with a reason. False when out of memory. */
static bool add_root(struct kn_cache *cache, const char *path, size_t length, bool is_first) {
  struct kn_text root = absolute(path, length);
  const char *why = root.failed ? NULL : check_root(cache, &root);

  if (why) {
    atomic_fetch_add(&cache->rejected_roots, 1);
    say(cache, "cache root '%.*s' is not used: %s", (int)length, path, why);
    kn_text_release(&root);
    return true;
  }
  cache->roots[cache->num_roots] = kn_text_take(&root);
  if (!cache->roots[cache->num_roots]) return false;
  cache->num_roots++;
  if (is_first) cache->has_writable = true;
  return true;
}

static bool add_roots(struct kn_cache *cache, const char *list) {
  bool is_first = true;
  while (*list) {
    const size_t length = strcspn(list, ":");
    if (length > 0) {
      if (!add_root(cache, list, length, is_first)) return false;
      is_first = false;
    }
    list += length + (list[length] == ':');
  }
  return true;
}

/* The roots that the environment names; false when out of memory. */
static bool add_default_roots(struct kn_cache *cache) {
  const char *dirs = getenv("KILN_CACHE_DIR");
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  struct kn_text path = {0};
  bool ok = true;

  if (dirs && dirs[0]) return add_roots(cache, dirs);
  if (xdg && xdg[0] == '/') {
    kn_text_printf(&path, "%s/kiln", xdg);
  } else if (home && home[0] == '/') {
    kn_text_printf(&path, "%s/.cache/kiln", home);
  } else {
    say(cache, "there is no cache: neither KILN_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set");
    return true;
  }
  ok = !path.failed && add_root(cache, path.data, path.length, true);
  kn_text_release(&path);
  return ok;
}

kiln_status kn_cache_open(const char *roots, bool read_only, kiln_log_fn log, void *log_user,
                          struct kn_cache **out) {
  struct kn_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return kn_fail(KILN_E_MEMORY, "out of memory while opening the cache");
  cache->read_only = read_only;
  cache->log = log;
  cache->log_user = log_user;
  if (!(roots ? add_roots(cache, roots) : add_default_roots(cache))) {
    kn_cache_close(cache);
    return kn_fail(KILN_E_MEMORY, "out of memory while opening the cache");
  }
  *out = cache;
  return KILN_OK;
}

void kn_cache_close(struct kn_cache *cache) {
  size_t i;
  if (!cache) return;
  for (i = 0; i < cache->num_roots; i++) free(cache->roots[i]);
  free(cache);
}

const char *kn_cache_root(const struct kn_cache *cache) {
  return cache->has_writable && !cache->read_only ? cache->roots[0] : NULL;
}

const char *kn_cache_nth_root(const struct kn_cache *cache, size_t index) {
  return index < cache->num_roots ? cache->roots[index] : NULL;
}

void kn_cache_get_counters(const struct kn_cache *cache, kn_cache_counters *out) {
  *out = (kn_cache_counters){.hits = atomic_load(&cache->hits),
                             .misses = atomic_load(&cache->misses),
                             .corrupt = atomic_load(&cache->corrupt),
                             .store_failures = atomic_load(&cache->store_failures),
                             .rejected_roots = atomic_load(&cache->rejected_roots)};
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Loads one file if it is a sound entry of this very key. */
static bool load_file(struct kn_cache *cache, const char *path, const struct kn_key *key,
                      bool with_source, struct kn_entry *out) {
  struct kn_entry entry;
  const char *why = NULL;

  switch (kn_entry_read(path, with_source, &entry, &why)) {
    case KN_ENTRY_GOOD:
      if (entry.length[KN_SECTION_KEY] == key->text.length &&
          memcmp(entry.data[KN_SECTION_KEY], key->text.data, key->text.length) == 0) {
        *out = entry;
        return true;
      }
      kn_entry_release(&entry);
      why = "it holds another key";
      break;
    case KN_ENTRY_DAMAGED:
      break;
    default:
      return false;
  }
  atomic_fetch_add(&cache->corrupt, 1);
  say(cache, "cache entry '%s' is not used: %s", path, why);
  return false;
}

struct candidate {
  char name[KN_DIGEST_HEX + ID_BYTES + 16];
  struct timespec time;
};

static int newest_first(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->time.tv_sec != y->time.tv_sec) return x->time.tv_sec < y->time.tv_sec ? 1 : -1;
  if (x->time.tv_nsec != y->time.tv_nsec) return x->time.tv_nsec < y->time.tv_nsec ? 1 : -1;
  return strcmp(x->name, y->name);
}

/* The entries of a key in its folder, whatever their NVRTC, newest first. */
static size_t find_candidates(const char *folder, const char *hex, struct candidate *out) {
  DIR *stream = opendir(folder);
  struct dirent *item;
  size_t count = 0;

  if (!stream) return 0;
  while (count < MAX_CANDIDATES && (item = readdir(stream)) != NULL) {
    const size_t length = strlen(item->d_name);
    struct stat info;
    if (length >= sizeof out->name || strncmp(item->d_name, hex, KN_DIGEST_HEX) != 0) continue;
    if (length < KN_DIGEST_HEX + 6 || item->d_name[KN_DIGEST_HEX] != '-') continue;
    if (strcmp(item->d_name + length - 5, ".kiln") != 0) continue;
    if (fstatat(dirfd(stream), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    memcpy(out[count].name, item->d_name, length + 1);
    out[count++].time = info.st_mtim;
  }
  (void)closedir(stream);
  qsort(out, count, sizeof *out, newest_first);
  return count;
}

static bool load_newest(struct kn_cache *cache, const char *folder, const struct kn_key *key,
                        bool with_source, struct kn_entry *out) {
  struct candidate candidates[MAX_CANDIDATES];
  const size_t count = find_candidates(folder, key->hex, candidates);
  char path[PATH_MAX];
  size_t i;

  for (i = 0; i < count; i++) {
    if (snprintf(path, sizeof path, "%s/%s", folder, candidates[i].name) >= (int)sizeof path) {
      continue;
    }
    if (load_file(cache, path, key, with_source, out)) return true;
  }
  return false;
}

/* Whether the folder of a root where an entry belongs may be read. */
static bool trust_folder(struct kn_cache *cache, const char *folder, size_t root_length) {
  char path[PATH_MAX];
  const char *why = distrust_folders(folder, root_length, path);
  if (!why) return true;
  atomic_fetch_add(&cache->corrupt, 1);
  say(cache, "cache folder '%s' is not used: %s", path, why);
  return false;
}

bool kn_cache_load(struct kn_cache *cache, const char *target, const struct kn_key *key,
                   const char *nvrtc_id, bool with_source, struct kn_entry *out) {
  char folder[PATH_MAX], path[PATH_MAX];
  bool found = false;
  size_t i;

  for (i = 0; i < cache->num_roots && !found; i++) {
    if (snprintf(folder, sizeof folder, "%s/v1/%s/%.2s", cache->roots[i], target, key->hex) >=
        (int)sizeof folder) {
      continue;
    }
    if (!trust_folder(cache, folder, strlen(cache->roots[i]))) continue;
    if (!nvrtc_id) {
      found = load_newest(cache, folder, key, with_source, out);
    } else if (snprintf(path, sizeof path, "%s/%s-%s.kiln", folder, key->hex, nvrtc_id) <
               (int)sizeof path) {
      found = load_file(cache, path, key, with_source, out);
    }
  }
  atomic_fetch_add(found ? &cache->hits : &cache->misses, 1);
  return found;
}

/* ---- storing --------------------------------------------------------------------------------- */

/* A folder where the entry belongs would make rename fail for ever: it is moved aside. */
static void clear_the_way(struct kn_cache *cache, const char *folder, const char *path) {
  char aside[PATH_MAX];
  unsigned long long number = 0;
  struct stat info;

  if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode) || rmdir(path) == 0) return;
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return;
  if (snprintf(aside, sizeof aside, "%s/.aside-%016llx", folder, number) < (int)sizeof aside &&
      rename(path, aside) == 0) {
    say(cache, "cache: a folder was in the place of an entry; it is '%s' now", aside);
  }
}

static kiln_status publish(struct kn_cache *cache, const char *folder, const char *path,
                           const struct kn_text *file) {
  kiln_status status = KILN_OK;
  char distrusted[PATH_MAX];
  const char *why;
  struct stat info;
  int tries;

  for (tries = 0; tries < 3; tries++) {
    /* Before a folder is made: it must not be made behind a link. */
    why = distrust_folders(folder, strlen(cache->roots[0]), distrusted);
    if (why) return kn_fail(KILN_E_IO, "cannot write in '%s': %s", distrusted, why);
    status = kn_file_mkdirs(folder, 0700);
    if (status != KILN_OK) return status;
    why = distrust_root(cache->roots[0]);
    if (why) return kn_fail(KILN_E_IO, "cannot write in '%s': %s", cache->roots[0], why);
    clear_the_way(cache, folder, path);
    status = kn_file_publish(path, file->data, file->length, 0600);
    /* Somebody may be wiping the cache at this moment: then the folder is made anew. */
    if (status == KILN_OK || stat(folder, &info) == 0) return status;
  }
  return status;
}

bool kn_cache_store(struct kn_cache *cache, const char *target, const struct kn_key *key,
                    const char *nvrtc_id, const struct kn_entry *entry) {
  char folder[PATH_MAX], path[PATH_MAX];
  struct kn_text file = {0};
  kiln_status status;

  if (cache->read_only) return false;
  if (!cache->has_writable) {
    atomic_fetch_add(&cache->store_failures, 1);
    return false;
  }
  if (snprintf(folder, sizeof folder, "%s/v1/%s/%.2s", cache->roots[0], target, key->hex) >=
          (int)sizeof folder ||
      snprintf(path, sizeof path, "%s/%s-%s.kiln", folder, key->hex, nvrtc_id) >=
          (int)sizeof path) {
    status = kn_fail(KILN_E_IO, "the path of cache root '%s' is too long", cache->roots[0]);
  } else {
    kn_entry_encode(entry, &file);
    status = file.failed ? kn_fail(KILN_E_MEMORY, "out of memory while storing a cache entry")
                         : publish(cache, folder, path, &file);
  }
  kn_text_release(&file);
  if (status == KILN_OK) {
    atomic_store(&cache->warned_of_store, false);
    return true;
  }
  atomic_fetch_add(&cache->store_failures, 1);
  if (!atomic_exchange(&cache->warned_of_store, true)) {
    say(cache, "kernels are not kept in the cache: %s", kn_error_last()->message);
  }
  kn_error_clear(); /* a cache fault fails no request */
  return false;
}

/* ---- walking --------------------------------------------------------------------------------- */

struct each {
  size_t root_length;
  kiln_status (*visit)(const kn_entry_info *info, void *user);
  void *user;
};

/* Splits `<root>/v1/<target>/<2 hex>/<key>-<id>.kiln`; false for a file of another form. */
static bool split_path(char *relative, kn_entry_info *info) {
  char *rest = relative;
  char *target = strsep(&rest, "/");
  char *shard = strsep(&rest, "/");
  char *key = strsep(&rest, "-");
  char *end;

  if (!target || !shard || !key || !rest || strchr(key, '/') || strchr(rest, '/')) return false;
  end = strstr(rest, ".kiln");
  if (strlen(key) != KN_DIGEST_HEX || strncmp(key, shard, 2) != 0 || !end) return false;
  *end = '\0';
  info->target = target;
  info->key_hex = key;
  info->nvrtc_id = rest;
  return true;
}

/* An entry's text as a string, unless it has a NUL inside. */
static const char *section_text(const struct kn_entry *entry, enum kn_section section) {
  const char *text = entry->data[section];
  return strlen(text) == entry->length[section] ? text : NULL;
}

static kiln_status visit_file(const char *path, void *user) {
  const struct each *each = user;
  kn_entry_info info = {.path = path};
  struct kn_entry entry = {{0}, {0}};
  kiln_status status = KILN_OK;
  const char *why = NULL;
  char *relative = strdup(path + each->root_length + strlen("/v1/"));
  struct stat file;

  if (!relative) return kn_fail(KILN_E_MEMORY, "out of memory while reading the cache");
  if (split_path(relative, &info) && stat(path, &file) == 0) {
    info.bytes = (uint64_t)file.st_size;
    if (kn_entry_read(path, true, &entry, &why) == KN_ENTRY_GOOD) {
      info.key_text = section_text(&entry, KN_SECTION_KEY);
      info.facts = section_text(&entry, KN_SECTION_FACTS);
      info.valid = info.key_text && info.facts;
    }
    status = each->visit(&info, each->user);
  }
  kn_entry_release(&entry);
  free(relative);
  return status;
}

kiln_status kn_cache_each(struct kn_cache *cache,
                          kiln_status (*visit)(const kn_entry_info *info, void *user), void *user) {
  kiln_status status = KILN_OK;
  size_t i;

  for (i = 0; i < cache->num_roots && status == KILN_OK; i++) {
    struct each each = {strlen(cache->roots[i]), visit, user};
    char folder[PATH_MAX];
    struct stat info;
    (void)snprintf(folder, sizeof folder, "%s/v1", cache->roots[i]);
    if (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode)) continue; /* nothing was stored yet */
    status = kn_file_walk(folder, ".kiln", visit_file, &each);
  }
  return status;
}
