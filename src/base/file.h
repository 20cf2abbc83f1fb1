/* SPDX-License-Identifier: MIT */
/* Files: read whole, publish atomically, walk. */
#ifndef KILN_BASE_FILE_H
#define KILN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <kiln/kiln.h>

#include "base/text.h"

/* Reads all of `path` with read(2); refuses anything but a regular file (never blocks on a FIFO)
   and anything above `max_bytes`. */
kiln_status kn_file_read(const char *path, size_t max_bytes, struct kn_text *out_text);

/* Writes a temporary file beside `path`, fsyncs, renames it over `path`. Leaves no temporary file
   behind on failure. The folder must exist. */
kiln_status kn_file_publish(const char *path, const void *data, size_t length, mode_t mode);

/* mkdir -p; new folders get `mode`. */
kiln_status kn_file_mkdirs(const char *path, mode_t mode);

/* Calls `visit` for each regular file under `path` (or for `path` itself if it is one) whose name
   ends in `suffix`, in sorted order, following no symbolic link below `path`; stops at the first
   failure. */
kiln_status kn_file_walk(const char *path, const char *suffix,
                         kiln_status (*visit)(const char *path, void *user), void *user);

#endif
