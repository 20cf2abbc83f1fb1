/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { MAX_DEPTH = 32, MAX_TRIES = 100 };

kiln_status kn_file_read(const char *path, size_t max_bytes, struct kn_text *out_text) {
  struct kn_text text = {0};
  kiln_status status = KILN_OK;
  struct stat info;
  char buffer[16 * 1024];
  int fd;

  /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
  fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return kn_fail(KILN_E_IO, "cannot open '%s': %s", path, strerror(errno));
  if (fstat(fd, &info) != 0) {
    status = kn_fail(KILN_E_IO, "cannot read '%s': %s", path, strerror(errno));
    goto out;
  }
  if (!S_ISREG(info.st_mode)) {
    status = kn_fail(KILN_E_IO, "cannot read '%s': it is not a regular file", path);
    goto out;
  }
  kn_text_append(&text, "");
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got == 0) break;
    if (got < 0) {
      if (errno == EINTR) continue;
      status = kn_fail(KILN_E_IO, "cannot read '%s': %s", path, strerror(errno));
      goto out;
    }
    if ((size_t)got > max_bytes - text.length) {
      status = kn_fail(KILN_E_IO, "'%s' is larger than the %zu bytes allowed", path, max_bytes);
      goto out;
    }
    kn_text_append_n(&text, buffer, (size_t)got);
  }
  if (text.failed) {
    status = kn_fail(KILN_E_MEMORY, "out of memory while reading '%s'", path);
    goto out;
  }
  *out_text = text;
  text = (struct kn_text){0}; /* handed over */
out:
  kn_text_release(&text);
  (void)close(fd);
  return status;
}

/* Creates a file of a name that nobody else has beside `path`; the name goes to `out_name`. */
static int open_staged(const char *path, char *out_name, size_t capacity) {
  const char *slash = strrchr(path, '/');
  const int folder = slash ? (int)(slash - path + 1) : 0;
  int i;

  for (i = 0; i < MAX_TRIES; i++) {
    uint64_t number = 0;
    int fd;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return -1;
    (void)snprintf(out_name, capacity, "%.*s.staged-%016llx", folder, path,
                   (unsigned long long)number);
    fd = open(out_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

static int write_all(int fd, const char *data, size_t length) {
  struct rlimit limit;

  /* Beyond RLIMIT_FSIZE a write raises SIGXFSZ, which kills a process that does not expect it. */
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      length > limit.rlim_cur) {
    errno = EFBIG;
    return -1;
  }
  while (length > 0) {
    const ssize_t written = write(fd, data, length);
    if (written < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    data += written;
    length -= (size_t)written;
  }
  return 0;
}

kiln_status kn_file_publish(const char *path, const void *data, size_t length, mode_t mode) {
  const size_t capacity = strlen(path) + 32;
  char *staged = malloc(capacity);
  int fd, error = 0;

  if (!staged) return kn_fail(KILN_E_MEMORY, "out of memory while writing '%s'", path);
  fd = open_staged(path, staged, capacity);
  if (fd < 0) {
    error = errno;
  } else {
    if (write_all(fd, data, length) != 0 || fchmod(fd, mode) != 0 || fsync(fd) != 0) error = errno;
    if (close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && rename(staged, path) != 0) error = errno;
    if (error != 0) (void)unlink(staged);
  }
  free(staged);
  if (error != 0) return kn_fail(KILN_E_IO, "cannot write '%s': %s", path, strerror(error));
  return KILN_OK;
}

static kiln_status make_folder(const char *path, mode_t mode) {
  struct stat info;

  if (mkdir(path, mode) == 0) {
    /* The umask may have taken bits that were asked for. */
    if (chmod(path, mode) == 0) return KILN_OK;
    return kn_fail(KILN_E_IO, "cannot set the mode of '%s': %s", path, strerror(errno));
  }
  if (errno == EEXIST) {
    if (stat(path, &info) != 0) {
      return kn_fail(KILN_E_IO, "cannot use folder '%s': %s", path, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) return KILN_OK;
    errno = ENOTDIR;
  }
  return kn_fail(KILN_E_IO, "cannot make folder '%s': %s", path, strerror(errno));
}

kiln_status kn_file_mkdirs(const char *path, mode_t mode) {
  kiln_status status = KILN_OK;
  struct stat info;
  char *copy, *end;

  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return KILN_OK;
  copy = strdup(path);
  if (!copy) return kn_fail(KILN_E_MEMORY, "out of memory while making folder '%s'", path);
  for (end = copy; status == KILN_OK && *end; end++) {
    if (*end != '/' || end == copy || end[-1] == '/') continue;
    *end = '\0';
    /* A parent that is there already may forbid mkdir (EROFS, EACCES) and still be fine. */
    if (stat(copy, &info) != 0 || !S_ISDIR(info.st_mode)) status = make_folder(copy, mode);
    *end = '/';
  }
  if (status == KILN_OK && (end == copy || end[-1] != '/')) status = make_folder(copy, mode);
  free(copy);
  return status;
}

struct walk {
  const char *suffix;
  kiln_status (*visit)(const char *path, void *user);
  void *user;
};

struct names {
  char **items;
  size_t count, capacity;
};

static void release_names(struct names *names) {
  size_t i;
  for (i = 0; i < names->count; i++) free(names->items[i]);
  free(names->items);
}

static bool add_name(struct names *names, const char *name) {
  char *copy;
  if (names->count == names->capacity) {
    const size_t capacity = names->capacity ? names->capacity * 2 : 16;
    char **items = realloc(names->items, capacity * sizeof *items);
    if (!items) return false;
    names->items = items;
    names->capacity = capacity;
  }
  copy = strdup(name);
  if (copy) names->items[names->count++] = copy;
  return copy != NULL;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, sorted by bytes so that no locale changes the order. */
static kiln_status read_names(const char *path, struct names *names) {
  kiln_status status = KILN_OK;
  struct dirent *item;
  DIR *folder = opendir(path);

  if (!folder) return kn_fail(KILN_E_IO, "cannot read folder '%s': %s", path, strerror(errno));
  for (;;) {
    errno = 0;
    item = readdir(folder);
    if (!item) break;
    if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
    if (!add_name(names, item->d_name)) {
      status = kn_fail(KILN_E_MEMORY, "out of memory while reading folder '%s'", path);
      break;
    }
  }
  if (status == KILN_OK && errno != 0) {
    status = kn_fail(KILN_E_IO, "cannot read folder '%s': %s", path, strerror(errno));
  }
  (void)closedir(folder);
  if (names->count) qsort(names->items, names->count, sizeof *names->items, compare_names);
  return status;
}

static bool has_suffix(const char *name, const char *suffix) {
  const size_t length = strlen(name), suffix_length = strlen(suffix);
  return length >= suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static kiln_status walk_folder(const struct walk *walk, const char *path, int depth) {
  struct names names = {0};
  kiln_status status;
  size_t i;

  if (depth > MAX_DEPTH) {
    return kn_fail(KILN_E_IO, "folder '%s' is nested more than %d deep", path, MAX_DEPTH);
  }
  status = read_names(path, &names);
  for (i = 0; status == KILN_OK && i < names.count; i++) {
    const char *slash = path[0] && path[strlen(path) - 1] == '/' ? "" : "/";
    struct kn_text child = {0};
    struct stat info;

    kn_text_printf(&child, "%s%s%s", path, slash, names.items[i]);
    if (child.failed) {
      status = kn_fail(KILN_E_MEMORY, "out of memory while reading folder '%s'", path);
    } else if (lstat(child.data, &info) != 0) {
      /* gone since the folder was read */
    } else if (S_ISDIR(info.st_mode)) {
      status = walk_folder(walk, child.data, depth + 1);
    } else if (S_ISREG(info.st_mode) && has_suffix(names.items[i], walk->suffix)) {
      status = walk->visit(child.data, walk->user);
    }
    kn_text_release(&child);
  }
  release_names(&names);
  return status;
}

kiln_status kn_file_walk(const char *path, const char *suffix,
                         kiln_status (*visit)(const char *path, void *user), void *user) {
  const struct walk walk = {.suffix = suffix, .visit = visit, .user = user};
  struct stat info;

  if (stat(path, &info) != 0) {
    return kn_fail(KILN_E_IO, "cannot read '%s': %s", path, strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return walk_folder(&walk, path, 0);
  if (!S_ISREG(info.st_mode)) {
    return kn_fail(KILN_E_IO, "cannot read '%s': it is neither a folder nor a regular file", path);
  }
  return has_suffix(path, suffix) ? visit(path, user) : KILN_OK;
}
