/* SPDX-License-Identifier: MIT */
#include "cache/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT_VERSION = 1, TABLE_AT = 16, ROW_BYTES = 48 };
static const char magic[8] = {'K', 'I', 'L', 'N', '\r', '\n', 0x1a, '\n'};
static const uint64_t max_entry_bytes = UINT64_C(1) << 28;

static void put_number(unsigned char *at, uint64_t value, int bytes) {
  int i;
  for (i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get_number(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  int i;
  for (i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
  return value;
}

static bool digest_agrees(const void *data, size_t length, const unsigned char *expected) {
  const struct kn_digest digest = kn_hash(data, length);
  return memcmp(digest.bytes, expected, sizeof digest.bytes) == 0;
}

void kn_entry_encode(const struct kn_entry *entry, struct kn_text *out) {
  unsigned char header[KN_ENTRY_HEADER_BYTES];
  struct kn_digest digest;
  uint64_t offset = sizeof header;
  int i;

  memcpy(header, magic, sizeof magic);
  put_number(header + 8, FORMAT_VERSION, 4);
  put_number(header + 12, KN_NUM_SECTIONS, 4);
  for (i = 0; i < KN_NUM_SECTIONS; i++) {
    unsigned char *row = header + TABLE_AT + i * ROW_BYTES;
    digest = kn_hash(entry->data[i], entry->length[i]);
    put_number(row, offset, 8);
    put_number(row + 8, entry->length[i], 8);
    memcpy(row + 16, digest.bytes, sizeof digest.bytes);
    offset += entry->length[i];
  }
  digest = kn_hash(header, sizeof header - KN_DIGEST_BYTES);
  memcpy(header + sizeof header - KN_DIGEST_BYTES, digest.bytes, sizeof digest.bytes);

  kn_text_append_n(out, header, sizeof header);
  for (i = 0; i < KN_NUM_SECTIONS; i++) kn_text_append_n(out, entry->data[i], entry->length[i]);
}

/* Reads exactly `length` bytes; *out_error is an errno, 0 if the file ended too early. */
static bool read_at(int fd, void *data, size_t length, uint64_t offset, int *out_error) {
  char *to = data;
  while (length > 0) {
    const ssize_t got = pread(fd, to, length, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      *out_error = got < 0 ? errno : 0;
      return false;
    }
    to += got;
    offset += (uint64_t)got;
    length -= (size_t)got;
  }
  return true;
}

/* What is wrong with the file that was opened, or NULL. Whoever may write it may make the GPU run
   anything, so it has to be ours or root's. */
static const char *distrust(const struct stat *info) {
  if (!S_ISREG(info->st_mode)) return "it is not a regular file";
  if (info->st_uid != geteuid() && info->st_uid != 0) return "it belongs to another user";
  if (info->st_mode & S_IWOTH) return "everybody may write it";
  if (info->st_size < KN_ENTRY_HEADER_BYTES) return "it is too short";
  if ((uint64_t)info->st_size > max_entry_bytes) return "it is too large";
  return NULL;
}

/* What is wrong with the header, or NULL. */
static const char *check_header(const unsigned char *header, uint64_t file_bytes) {
  uint64_t offset = KN_ENTRY_HEADER_BYTES;
  int i;

  if (memcmp(header, magic, sizeof magic) != 0) return "it is no cache entry";
  if (!digest_agrees(header, KN_ENTRY_HEADER_BYTES - KN_DIGEST_BYTES,
                     header + KN_ENTRY_HEADER_BYTES - KN_DIGEST_BYTES)) {
    return "its header is damaged";
  }
  if (get_number(header + 8, 4) != FORMAT_VERSION ||
      get_number(header + 12, 4) != KN_NUM_SECTIONS) {
    return "it has another format version";
  }
  for (i = 0; i < KN_NUM_SECTIONS; i++) {
    const unsigned char *row = header + TABLE_AT + i * ROW_BYTES;
    const uint64_t length = get_number(row + 8, 8);
    if (get_number(row, 8) != offset || length > file_bytes - offset) return "it is cut short";
    offset += length;
  }
  return offset == file_bytes ? NULL : "its length is wrong";
}

static enum kn_entry_state read_sections(int fd, const unsigned char *header, int count,
                                         struct kn_entry *entry, const char **out_why) {
  int i, error = 0;
  for (i = 0; i < count; i++) {
    const unsigned char *row = header + TABLE_AT + i * ROW_BYTES;
    const size_t length = (size_t)get_number(row + 8, 8);
    char *data = malloc(length + 1);
    if (!data) return KN_ENTRY_NO_MEMORY;
    entry->data[i] = data;
    entry->length[i] = length;
    data[length] = '\0';
    if (!read_at(fd, data, length, get_number(row, 8), &error)) {
      *out_why = error ? strerror(error) : "it is cut short";
      return error == ESTALE ? KN_ENTRY_ABSENT : KN_ENTRY_DAMAGED;
    }
    if (!digest_agrees(data, length, row + 16)) {
      static const char *const whys[KN_NUM_SECTIONS] = {
          "its key is damaged", "its facts are damaged", "its cubin is damaged",
          "its source is damaged"};
      *out_why = whys[i];
      return KN_ENTRY_DAMAGED;
    }
  }
  return KN_ENTRY_GOOD;
}

enum kn_entry_state kn_entry_read(const char *path, bool with_source, struct kn_entry *out,
                                  const char **out_why) {
  unsigned char header[KN_ENTRY_HEADER_BYTES];
  struct kn_entry entry = {{0}, {0}};
  enum kn_entry_state state = KN_ENTRY_DAMAGED;
  const char *why;
  struct stat info;
  int fd, error = 0;

  /* O_NONBLOCK: opening a FIFO that was put here must not wait. */
  fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    if (errno == ENOENT || errno == ESTALE || errno == EBUSY || errno == ENOTDIR) {
      return KN_ENTRY_ABSENT;
    }
    *out_why = errno == ELOOP ? "it is a symbolic link" : strerror(errno);
    return KN_ENTRY_DAMAGED;
  }
  why = fstat(fd, &info) == 0 ? distrust(&info) : strerror(errno);
  if (why) goto out;
  if (!read_at(fd, header, sizeof header, 0, &error)) {
    why = error ? strerror(error) : "it is cut short";
    if (error == ESTALE || error == EBUSY) state = KN_ENTRY_ABSENT;
    goto out;
  }
  why = check_header(header, (uint64_t)info.st_size);
  if (why) goto out;
  state =
      read_sections(fd, header, with_source ? KN_NUM_SECTIONS : KN_SECTION_SOURCE, &entry, &why);
  if (state == KN_ENTRY_GOOD) {
    *out = entry;
    entry = (struct kn_entry){{0}, {0}}; /* handed over */
  }
out:
  if (state == KN_ENTRY_DAMAGED) *out_why = why;
  kn_entry_release(&entry);
  (void)close(fd);
  return state;
}

void kn_entry_release(struct kn_entry *entry) {
  int i;
  for (i = 0; i < KN_NUM_SECTIONS; i++) {
    free(entry->data[i]);
    entry->data[i] = NULL;
    entry->length[i] = 0;
  }
}
