/* SPDX-License-Identifier: MIT */
/* The specs a context serves, and the templates they name. */
#ifndef KILN_LIBRARY_H
#define KILN_LIBRARY_H

#include <kiln/kiln.h>

#include "base/table.h"
#include "spec/spec.h"

struct kn_library {
  struct kn_spec **specs; /* in alphabetical order of operators */
  size_t num_specs, capacity;
  struct kn_table templates; /* texts read from files; immutable once a context is open */
};

/* Loads the specs of `dirs` (colon-separated folders or files), else of KILN_SPEC_PATH, else the
   built-in ones. KILN_E_SPEC, KILN_E_IO. */
kiln_status kn_library_open(const char *dirs, struct kn_library *out);
void kn_library_release(struct kn_library *library);

/* KILN_E_NOT_FOUND with the nearest name. */
kiln_status kn_library_find(const struct kn_library *library, const char *op,
                            const struct kn_spec **out);

/* A kn_source_fn over the library: KILN_TEMPLATE_DIR (a folder with `templates` below it, for who
   works on templates), then the built-in ones, then files beside the specs. */
const char *kn_library_source(void *library, const char *path);

#endif
