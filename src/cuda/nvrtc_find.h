/* SPDX-License-Identifier: MIT */
#ifndef KILN_CUDA_NVRTC_FIND_H
#define KILN_CUDA_NVRTC_FIND_H

#include <limits.h>

#include <kiln/kiln.h>

/* A library file that was found. */
struct kn_nvrtc_place {
  char path[PATH_MAX];
  char id[9];  /* 8 hex digits of version and ELF build id */
  int version; /* 13000 for 13.0 */
};

/* The search of kn_nvrtc_find. */
kiln_status kn_nvrtc_locate(const char *path, struct kn_nvrtc_place *out);

#endif
