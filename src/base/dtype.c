/* SPDX-License-Identifier: MIT */
#include "base/dtype.h"

#include <stddef.h>
#include <string.h>

static const struct {
  const char *name;
  kiln_dtype dtype;
  int bits;
} dtypes[] = {
#define KILN_X(name, value, bits, text) {text, name, bits},
    KILN_DTYPE_TABLE(KILN_X)
#undef KILN_X
};

kiln_dtype kn_dtype_parse(const char *name) {
  size_t i;
  for (i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (strcmp(name, dtypes[i].name) == 0) return dtypes[i].dtype;
  }
  return KILN_DTYPE_NONE;
}

int kn_dtype_pack(kiln_dtype dtype) {
  switch (dtype) {
    case KILN_E2M1:
      return 2;
    case KILN_E5M6:
      return 8;
    default:
      return 1;
  }
}

int64_t kn_dtype_bytes(kiln_dtype dtype, int64_t count) {
  const int64_t pack = kn_dtype_pack(dtype);
  size_t i;
  for (i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (dtypes[i].dtype == dtype) return count / pack * (pack * dtypes[i].bits / 8);
  }
  return 0;
}
