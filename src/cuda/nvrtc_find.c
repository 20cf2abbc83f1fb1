/* SPDX-License-Identifier: MIT */
/* Where NVRTC is, and which one it is, without loading it. */
#include "cuda/nvrtc_find.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

/* What is looked for in a folder, newest first. */
static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

struct search {
  struct kn_text tried; /* one folder a line, for the message */
  char path[PATH_MAX];
  bool found;
};

static void try_folder(struct search *search, const char *folder) {
  if (search->found || !folder || !*folder) return;
  for (size_t i = 0; i < sizeof sonames / sizeof *sonames; ++i) {
    int length = snprintf(search->path, sizeof search->path, "%s/%s", folder, sonames[i]);
    if (length > 0 && (size_t)length < sizeof search->path && access(search->path, R_OK) == 0) {
      search->found = true;
      return;
    }
  }
  kn_text_printf(&search->tried, "%s%s", search->tried.length ? ", " : "", folder);
}

/* Folders separated by colons. */
static void try_list(struct search *search, const char *list) {
  while (list && *list && !search->found) {
    size_t length = strcspn(list, ":");
    char folder[PATH_MAX];
    if (length && length < sizeof folder) {
      memcpy(folder, list, length);
      folder[length] = '\0';
      try_folder(search, folder);
    }
    list += length + (list[length] == ':');
  }
}

static void try_below(struct search *search, const char *root, const char *folder) {
  char path[PATH_MAX];
  if (search->found || !root || !*root) return;
  int length = snprintf(path, sizeof path, "%s/%s", root, folder);
  if (length > 0 && (size_t)length < sizeof path) try_folder(search, path);
}

/* Folders that match a pattern, the last in the alphabet (the newest version) first. */
static void try_glob(struct search *search, const char *pattern) {
  glob_t matches;
  if (search->found || glob(pattern, 0, NULL, &matches) != 0) return;
  for (size_t i = matches.gl_pathc; i-- > 0;) try_folder(search, matches.gl_pathv[i]);
  globfree(&matches);
}

/* The folders that the dynamic loader is told of in /etc/ld.so.conf.d. */
static void try_loader_config(struct search *search) {
  glob_t matches;
  if (search->found || glob("/etc/ld.so.conf.d/*.conf", 0, NULL, &matches) != 0) return;
  for (size_t i = 0; i < matches.gl_pathc && !search->found; ++i) {
    FILE *file = fopen(matches.gl_pathv[i], "re");
    char line[PATH_MAX];
    while (file && fgets(line, sizeof line, file)) {
      line[strcspn(line, " \t\r\n#")] = '\0';
      if (line[0] == '/') try_folder(search, line);
    }
    if (file) (void)fclose(file);
  }
  globfree(&matches);
}

static void try_wheels(struct search *search, const char *root) {
  try_below(search, root, "nvidia/cu13/lib");
  try_below(search, root, "nvidia/cuda_nvrtc/lib");
}

/* Wheels that ./bootstrap put beside the build folder that this library lies in. */
static void try_build_tree(struct search *search) {
  Dl_info info;
  char path[PATH_MAX];
  if (search->found || !dladdr((void *)sonames, &info) || !info.dli_fname) return;
  if (!realpath(info.dli_fname, path)) return;
  for (int up = 0; up < 4; ++up) {
    char *slash = strrchr(path, '/');
    if (!slash || slash == path) return;
    *slash = '\0';
    char wheels[PATH_MAX + 8];
    (void)snprintf(wheels, sizeof wheels, "%s/wheels", path);
    if (access(wheels, R_OK) == 0) try_wheels(search, wheels);
  }
}

static void try_everywhere(struct search *search) {
  try_list(search, getenv("LD_LIBRARY_PATH"));
  try_below(search, getenv("CUDA_HOME"), "lib64");
  try_below(search, getenv("CUDA_PATH"), "lib64");
  try_folder(search, "/usr/local/cuda/lib64");
  try_glob(search, "/usr/local/cuda-1[23]*/lib64");
  try_loader_config(search);
  try_glob(search, "/usr/lib/*-linux-gnu");
  try_folder(search, "/usr/lib64");
  try_folder(search, "/usr/lib");
  try_wheels(search, getenv("KILN_WHEELS"));
  try_build_tree(search);
}

/* Reads the GNU build id of an ELF file into `out`; 0 bytes if it has none. */
static size_t read_build_id(const char *path, unsigned char *out, size_t capacity) {
  unsigned char head[8192];
  size_t length = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t got = pread(fd, head, sizeof head, 0);
  const Elf64_Ehdr *elf = (const Elf64_Ehdr *)(const void *)head;
  if (got < (ssize_t)sizeof *elf || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0) goto out;
  for (int i = 0; i < elf->e_phnum && !length; ++i) {
    Elf64_Phdr phdr;
    unsigned char notes[1024];
    if (pread(fd, &phdr, sizeof phdr, (off_t)(elf->e_phoff + (size_t)i * sizeof phdr)) !=
        (ssize_t)sizeof phdr)
      break;
    if (phdr.p_type != PT_NOTE) continue;
    size_t size = phdr.p_filesz < sizeof notes ? (size_t)phdr.p_filesz : sizeof notes;
    if (pread(fd, notes, size, (off_t)phdr.p_offset) != (ssize_t)size) break;
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
      Elf64_Nhdr note;
      memcpy(&note, notes + at, sizeof note);
      size_t name = at + sizeof note, desc = name + ((note.n_namesz + 3u) & ~3u);
      if (desc + note.n_descsz > size) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          memcmp(notes + name, "GNU", 4) == 0) {
        length = note.n_descsz < capacity ? note.n_descsz : capacity;
        memcpy(out, notes + desc, length);
        break;
      }
      at = desc + ((note.n_descsz + 3u) & ~3u);
    }
  }
out:
  (void)close(fd);
  return length;
}

/* 13000 for 13.0: from libnvrtc-builtins.so.13.0 beside the library, whose name has the minor
   version, else from the library's own name. */
static int read_version(const char *path) {
  char real[PATH_MAX], pattern[PATH_MAX + 64];
  int major = 0, minor = 0;
  const char *name = strstr(path, ".so.");
  if (realpath(path, real)) {
    const char *resolved = strstr(real, ".so.");
    if (resolved) name = resolved;
  }
  if (name) (void)sscanf(name, ".so.%d.%d", &major, &minor);
  const char *slash = strrchr(path, '/');
  (void)snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so.%d.*",
                 slash ? (int)(slash - path) : 1, slash ? path : ".", major);
  glob_t matches;
  if (minor == 0 && glob(pattern, 0, NULL, &matches) == 0) {
    const char *builtins = strstr(matches.gl_pathv[matches.gl_pathc - 1], ".so.");
    if (builtins) (void)sscanf(builtins, ".so.%d.%d", &major, &minor);
    globfree(&matches);
  }
  return major * 1000 + minor * 10;
}

static void identify(struct kn_nvrtc_place *place) {
  unsigned char facts[64] = {0};
  place->version = read_version(place->path);
  int length = snprintf((char *)facts, 16, "%d:", place->version);
  size_t build_id = read_build_id(place->path, facts + length, sizeof facts - (size_t)length);
  struct kn_digest digest = kn_hash(facts, (size_t)length + build_id);
  char hex[KN_DIGEST_HEX + 1];
  kn_digest_hex(&digest, hex);
  memcpy(place->id, hex, 8);
  place->id[8] = '\0';
}

kiln_status kn_nvrtc_locate(const char *path, struct kn_nvrtc_place *out) {
  struct search search = {0};
  kiln_status status = KILN_OK;
  if (!path || !*path) path = getenv("KILN_NVRTC");
  if (path && *path) {
    if (access(path, R_OK) != 0) {
      return kn_fail(KILN_E_COMPILE, "NVRTC: '%s', which was asked for, cannot be read", path);
    }
    (void)snprintf(search.path, sizeof search.path, "%s", path);
    search.found = true;
  }
  if (!search.found) try_everywhere(&search);
  if (search.found) {
    (void)snprintf(out->path, sizeof out->path, "%s", search.path);
    identify(out);
  } else {
    status = kn_fail(KILN_E_COMPILE,
                     "NVRTC: neither libnvrtc.so.13 nor libnvrtc.so.12 is in any of %s; set "
                     "KILN_NVRTC to its path",
                     search.tried.data ? search.tried.data : "the usual folders");
  }
  kn_text_release(&search.tried);
  return status;
}
