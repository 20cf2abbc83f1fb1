/* SPDX-License-Identifier: MIT */
/* Resource usage from a cubin's ELF sections, since serving images have no cuobjdump. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cuda/nvrtc.h"

/* Records of .nv.info and .nv.info.<function>: a format byte, an attribute byte, 16 bits of value
   or size, and for format 4 that many bytes. As read from cubins of CUDA 12 and 13. */
enum { FORMAT_SIZED = 4, ATTR_MAX_THREADS = 0x05, ATTR_FRAME_SIZE = 0x11, ATTR_REGCOUNT = 0x2f };
/* Shared memory that the driver keeps for itself in each block from compute capability 9.0 on. */
enum { RESERVED_SHARED_BYTES = 1024 };

struct elf {
  const unsigned char *data;
  size_t length;
  Elf64_Ehdr header;
};

/* Copies `size` bytes at `at`; false if they are not all there. */
static bool peek(const struct elf *elf, uint64_t at, void *out, size_t size) {
  if (at > elf->length || elf->length - at < size) return false;
  memcpy(out, elf->data + at, size);
  return true;
}

static bool section(const struct elf *elf, size_t index, Elf64_Shdr *out) {
  return index < elf->header.e_shnum &&
         peek(elf, elf->header.e_shoff + index * sizeof *out, out, sizeof *out);
}

/* The NUL-terminated string at `offset` of string table `table`, "" if it is not whole. */
static const char *string_at(const struct elf *elf, const Elf64_Shdr *table, uint64_t offset) {
  if (offset >= table->sh_size || table->sh_offset > elf->length ||
      elf->length - table->sh_offset < table->sh_size)
    return "";
  const char *text = (const char *)elf->data + table->sh_offset + offset;
  return memchr(text, '\0', table->sh_size - offset) ? text : "";
}

/* Finds a section by name. */
static bool find_section(const struct elf *elf, const char *prefix, const char *name,
                         Elf64_Shdr *out) {
  Elf64_Shdr names;
  if (!section(elf, elf->header.e_shstrndx, &names)) return false;
  for (size_t i = 0; section(elf, i, out); ++i) {
    const char *text = string_at(elf, &names, out->sh_name);
    size_t length = strlen(prefix);
    if (strncmp(text, prefix, length) == 0 && strcmp(text + length, name) == 0) return true;
  }
  return false;
}

/* The function symbol of table index `index`; its name, or NULL. */
static const char *function_name(const struct elf *elf, const Elf64_Shdr *symbols, uint64_t index) {
  Elf64_Sym symbol;
  Elf64_Shdr strings;
  if (index >= symbols->sh_size / sizeof symbol ||
      !peek(elf, symbols->sh_offset + index * sizeof symbol, &symbol, sizeof symbol) ||
      ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !section(elf, symbols->sh_link, &strings))
    return NULL;
  return string_at(elf, &strings, symbol.st_name);
}

/* Looks for an attribute. With `symbol` given, its first word must be that symbol index and the
   second is the value; else the first is. -1 if there is none. */
static int64_t attribute(const struct elf *elf, const Elf64_Shdr *info, unsigned char attr,
                         const uint32_t *symbol) {
  uint64_t at = info->sh_offset, end = info->sh_offset + info->sh_size;
  while (at + 4 <= end) {
    unsigned char head[4];
    uint32_t words[2] = {0, 0};
    if (!peek(elf, at, head, sizeof head)) break;
    uint64_t size = head[0] == FORMAT_SIZED ? (uint64_t)(head[2] | head[3] << 8) : 0;
    if (head[0] == FORMAT_SIZED && head[1] == attr && size >= 4) {
      (void)peek(elf, at + 4, words, size < sizeof words ? 4 : sizeof words);
      if (!symbol) return words[0];
      if (words[0] == *symbol) return words[1];
    }
    at += 4 + size;
  }
  return -1;
}

static int by_name(const void *a, const void *b) {
  const struct kn_function_facts *left = a, *right = b;
  return strcmp(left->name, right->name);
}

static struct kn_function_facts function_facts(const struct elf *elf, const Elf64_Shdr *info,
                                               uint32_t symbol, const char *name) {
  struct kn_function_facts facts = {0};
  Elf64_Shdr own, shared;
  strncpy(facts.name, name, sizeof facts.name - 1);
  int64_t registers = attribute(elf, info, ATTR_REGCOUNT, &symbol);
  int64_t frame = attribute(elf, info, ATTR_FRAME_SIZE, &symbol);
  facts.registers = registers > 0 ? (int)registers : 0;
  facts.stack_bytes = frame > 0 ? (int)frame : 0;
  if (find_section(elf, ".nv.info.", name, &own)) {
    int64_t threads = attribute(elf, &own, ATTR_MAX_THREADS, NULL);
    facts.max_threads = threads > 0 ? (int)threads : 0;
  }
  if (find_section(elf, ".nv.shared.", name, &shared) && shared.sh_size > RESERVED_SHARED_BYTES) {
    facts.shared_bytes = (int)(shared.sh_size - RESERVED_SHARED_BYTES);
  }
  return facts;
}

kiln_status kn_cubin_facts(const void *data, size_t length, struct kn_function_facts *facts,
                           size_t capacity, size_t *out_count) {
  struct elf elf = {.data = data, .length = length};
  Elf64_Shdr info, symbols;
  size_t count = 0;
  if (!peek(&elf, 0, &elf.header, sizeof elf.header) ||
      memcmp(elf.header.e_ident, ELFMAG, SELFMAG) != 0) {
    return kn_fail(KILN_E_COMPILE, "a cubin of %zu bytes is no ELF file", length);
  }
  if (find_section(&elf, ".nv.info", "", &info) && find_section(&elf, ".symtab", "", &symbols)) {
    for (uint32_t i = 0; i < symbols.sh_size / sizeof(Elf64_Sym); ++i) {
      const char *name = function_name(&elf, &symbols, i);
      if (!name || !*name || attribute(&elf, &info, ATTR_REGCOUNT, &i) < 0) continue;
      if (count < capacity) facts[count] = function_facts(&elf, &info, i, name);
      ++count;
    }
  }
  qsort(facts, count < capacity ? count : capacity, sizeof *facts, by_name);
  *out_count = count;
  return KILN_OK;
}
