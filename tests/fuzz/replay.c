/* SPDX-License-Identifier: MIT */
/* Stands in for libFuzzer: runs the target once on every file of the folders it is given. */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "fuzz.h"

enum { MAX_BYTES = 4 * 1024 * 1024 };

static kiln_status replay(const char *path, void *user) {
  size_t *num_files = user;
  struct kn_text text = {0};
  const kiln_status status = kn_file_read(path, MAX_BYTES, &text);
  if (status != KILN_OK) return status;
  (void)LLVMFuzzerTestOneInput((const uint8_t *)text.data, text.length);
  kn_text_release(&text);
  ++*num_files;
  return KILN_OK;
}

int main(int argc, char **argv) {
  size_t num_files = 0;
  for (int i = 1; i < argc; i++) {
    if (kn_file_walk(argv[i], "", replay, &num_files) != KILN_OK) {
      (void)fprintf(stderr, "%s\n", kn_error_last()->message);
      return 1;
    }
  }
  (void)printf("%zu inputs\n", num_files);
  return num_files > 0 ? 0 : 1;
}
