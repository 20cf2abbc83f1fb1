/* SPDX-License-Identifier: MIT */
/* The entry point that libFuzzer and replay.c share. */
#ifndef KILN_FUZZ_H
#define KILN_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
