/* SPDX-License-Identifier: MIT */
/* Facts on element types that go beyond kiln.h. */
#ifndef KILN_BASE_DTYPE_H
#define KILN_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/kiln.h>

/* The dtype spelled `name` ("bf16"), or KILN_DTYPE_NONE. */
kiln_dtype kn_dtype_parse(const char *name);
/* Elements that share storage and must come together: 2 for e2m1, 8 for e5m6, else 1. */
int kn_dtype_pack(kiln_dtype dtype);
/* Bytes of `count` elements, a multiple of kn_dtype_pack. */
int64_t kn_dtype_bytes(kiln_dtype dtype, int64_t count);

#endif
